"""Command streams as co-simulation handles them: settings, and groups of commands that belong together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from accel.isa import Command, disassemble, find_command_type
from common.errors import InputError, Location

__all__ = [
    "BASE",
    "MEMORY_BYTES",
    "FlippedResult",
    "Group",
    "Item",
    "Stream",
    "describe",
    "group_items",
    "parse_stream",
]

#: Main memory of every stream.
BASE = 0x80000000
MEMORY_BYTES = 96 << 10

_PRELOAD, _COMPUTES, _LOOPS = 6, (4, 5), (8, 15)
_LOOP_CONFIGURATION = frozenset((*range(9, 14), *range(16, 22), 24, 25))
_SETTINGS = ("data", "latency", "bandwidth", "burst", "reads", "writes", "stall", "gap", "seed")


class FlippedResult(Command):
    """A command whose instruction asks for a result (xd) although its kind has none, or does not although it has."""

    __slots__ = ()


#: A command, or None for a fence.
Item = Command | None
#: Commands that only make sense together: a PRELOAD up to its COMPUTE, a macro with its configuration.
Group = tuple[Item, ...]


@dataclass(frozen=True)
class Stream:
    """One stream.

    Attributes:
        name: one word.
        settings: of memory and host, the keys of sim/cpp/cosim.h.
        groups: what is played, in order.
    """

    name: str
    groups: tuple[Group, ...]
    settings: dict[str, int | float] = field(default_factory=dict)

    @property
    def items(self) -> list[Item]:
        """All commands and fences."""
        return [item for group in self.groups for item in group]

    def text(self, *, comments: bool = False) -> str:
        """As the simulator reads it; with `comments` every command is also shown as assembly."""
        settings = "".join(f" {key}={value:g}" if isinstance(value, float) else f" {key}={value}" for key, value in self.settings.items())  # fmt: skip
        lines = [f"stream {self.name}{settings}"]
        for item in self.items:
            line = "fence" if item is None else f"cmd {item.funct:x} {item.rs1:x} {item.rs2:x}"
            if isinstance(item, FlippedResult):
                line += f" {int(not _has_result(item.funct))}"
            lines.append(f"{line}  # {describe(item)}" if comments and item else line)
        return "\n".join(lines) + "\n"

    def with_groups(self, groups: Iterable[Group], name: str | None = None) -> Stream:
        """The same settings with other commands."""
        return replace(self, groups=tuple(groups), name=name or self.name)


def _has_result(funct: int) -> bool:
    kind = find_command_type(funct)
    return kind is not None and kind.response


def describe(item: Item) -> str:
    """As assembly with the fields that are not zero."""
    if item is None:
        return "fence"
    text = disassemble(item.funct, item.rs1, item.rs2)
    if isinstance(item, FlippedResult):
        text += " without its result" if _has_result(item.funct) else " asked for a result"
    return text


def group_items(items: Sequence[Item]) -> tuple[Group, ...]:
    """Commands in groups. A group that is cut off at the end stays what it is."""
    groups: list[Group] = []
    pending: list[Item] = []
    for item in items:
        pending.append(item)
        first, last = (-1 if one is None else one.funct for one in (pending[0], item))
        inside = (first == _PRELOAD and last not in _COMPUTES) or (
            first in _LOOP_CONFIGURATION and last not in _LOOPS
        )
        if not inside:
            groups.append(tuple(pending))
            pending = []
    if pending:
        groups.append(tuple(pending))
    return tuple(groups)


def parse_stream(text: str, source: str) -> Stream:
    """Read one stream back; a file without a `stream` line has no settings.

    Raises InputError with the line of anything malformed, or of a second stream.
    """
    name, settings, items = "stream", dict[str, int | float](), list[Item]()
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        try:
            if words[0] == "stream" and len(words) > 1 and not items and not settings:
                name = words[1]
                for word in words[2:]:
                    key, value = word.split("=")
                    if key not in _SETTINGS:
                        raise ValueError(f"'{key}' is no setting of a stream")
                    settings[key] = float(value) if key == "bandwidth" else int(value)
            elif words == ["fence"]:
                items.append(None)
            elif words[0] == "cmd" and len(words) in (4, 5):
                command = Command(int(words[1], 16), int(words[2], 16), int(words[3], 16))
                flipped = len(words) == 5 and bool(int(words[4])) != _has_result(command.funct)
                items.append(FlippedResult(*command) if flipped else command)
            else:
                raise ValueError(
                    "expected 'cmd FUNCT RS1 RS2 [XD]', 'fence', or one line 'stream NAME KEY=VALUE...'"
                )
        except ValueError as error:
            raise InputError(str(error), location=Location(source, number)) from None
    return Stream(name, group_items(items), settings)
