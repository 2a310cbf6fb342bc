"""Command streams as co-simulation handles them: settings, and groups of commands that belong together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from baco.accel.isa import Command, disassemble, gives_result
from baco.accel.verilog.generate import ADDRESS_BITS
from baco.common.errors import InputError, Location, did_you_mean
from baco.common.numbers import hexadecimal_number, real_number, whole_number

#: Main memory of every stream, unless its setting `base` says that it begins elsewhere.
BASE = 0x80000000
MEMORY_BYTES = 96 << 10

_PRELOAD, _COMPUTES, _LOOPS = 6, (4, 5), (8, 15)
_LOOP_CONFIGURATION = frozenset((*range(9, 14), *range(16, 22), 24, 25))
#: Settings, the least and the largest value of each; the bandwidth is any positive number.
_SETTINGS = {
    "data": (0, 2**64 - 1),
    "latency": (0, 1_000_000),
    "bandwidth": (0, 0),
    "burst": (1, 4096),
    "reads": (1, 4096),
    "writes": (1, 4096),
    "stall": (0, 99),
    "gap": (0, 99),
    "power": (0, 2**31 - 1),
    "setup": (0, 1_000_000),
    "base": (1, 2**ADDRESS_BITS - 1),
    "seed": (0, 2**64 - 1),
}
#: Commands and fences of the longest stream that is read; what `baco cosim` draws has a few hundred.
_MOST_ITEMS = 1_000_000


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
    def setup(self) -> int:
        """Groups at the start that must stay where hardware begins with random contents: they define what is compared."""
        items, groups = self.settings.get("setup", 0), 0
        for group in self.groups:
            items -= len(group)
            if items < 0:
                break
            groups += 1
        return groups

    @property
    def items(self) -> list[Item]:
        """All commands and fences."""
        return [item for group in self.groups for item in group]

    def text(self, *, comments: bool = False) -> str:
        """As the simulator reads it; with `comments` every command is also shown as assembly."""
        settings = "".join(f" {key}={value:g}" if isinstance(value, float) else f" {key}={value}" for key, value in self.settings.items())  # fmt: skip
        lines = [f"stream {self.name}{settings}"]
        for item in self.items:
            line = item_line(item)
            lines.append(f"{line}  # {describe(item)}" if comments and item else line)
        return "\n".join(lines) + "\n"

    def with_groups(self, groups: Iterable[Group], name: str | None = None) -> Stream:
        """The same settings with other commands."""
        return replace(self, groups=tuple(groups), name=name or self.name)


@dataclass(frozen=True)
class SystemStream:
    """Streams for the accelerators of a system, side by side on one main memory.

    Attributes:
        parts: of each accelerator, in order; their own settings count for nothing.
        settings: of memory and hosts.
    """

    name: str
    parts: tuple[Stream, ...]
    settings: dict[str, int | float] = field(default_factory=dict)

    @property
    def items(self) -> list[Item]:
        """All commands and fences, accelerator after accelerator."""
        return [item for part in self.parts for item in part.items]

    def text(self, *, comments: bool = False) -> str:
        """As `Stream.text`."""
        lines = Stream(self.name, (), self.settings).text()
        for number, part in enumerate(self.parts):
            lines += f"unit {number}\n" + part.text(comments=comments).partition("\n")[2]
        return lines


def item_line(item: Item) -> str:
    """As the simulator reads it (sim/cpp/stream.h)."""
    line = "fence" if item is None else f"cmd {item.funct:x} {item.rs1:x} {item.rs2:x}"
    return line + f" {int(not gives_result(item.funct))}" if isinstance(item, FlippedResult) else line


def describe(item: Item) -> str:
    """As assembly with the fields that are not zero."""
    if item is None:
        return "fence"
    text = disassemble(item.funct, item.rs1, item.rs2)
    if isinstance(item, FlippedResult):
        text += " without its result" if gives_result(item.funct) else " asked for a result"
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
    name: str | None = None
    settings, items = dict[str, int | float](), list[Item]()
    for number, line in enumerate(text.split("\n"), 1):
        words = re.findall(r"[^ \t\r]+", line.split("#", 1)[0])  # no other character is a space here
        if not words:
            continue
        here = Location(source, number)
        if words[0] == "stream" and len(words) > 1 and name is None and not items:
            name, settings = _stream_name(words[1], here), _settings(words[2:], here)
        elif words == ["fence"]:
            items.append(None)
        elif words[0] == "cmd" and len(words) in (4, 5):
            funct = hexadecimal_number("the function code", words[1], most=127, location=here)
            rs1, rs2 = (
                hexadecimal_number(what, word, most=2**64 - 1, location=here)
                for what, word in zip(("rs1", "rs2"), words[2:4], strict=True)
            )
            command = Command(funct, rs1, rs2)
            asks = whole_number("XD", words[4], most=1, location=here) if len(words) == 5 else None
            flipped = asks is not None and bool(asks) != gives_result(funct)
            items.append(FlippedResult(*command) if flipped else command)
        else:
            raise InputError(
                "expected 'cmd FUNCT RS1 RS2 [XD]', 'fence', or one line 'stream NAME KEY=VALUE...'",
                location=here,
            )
        if len(items) > _MOST_ITEMS:
            raise InputError(f"the stream has more than {_MOST_ITEMS:,} commands", location=here)
    return Stream(name or "stream", group_items(items), settings)


def _stream_name(word: str, here: Location) -> str:
    """It goes through files of the simulator, and becomes the name of one."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}", word):
        raise InputError(
            f"'{word[:100]}' cannot name a stream",
            location=here,
            hint="write letters, digits, '.', '_', '+' and '-', at most 100",
        )
    return word


def _settings(words: Sequence[str], here: Location) -> dict[str, int | float]:
    found: dict[str, int | float] = {}
    for word in words:
        key, _, value = word.partition("=")
        if key not in _SETTINGS:
            raise InputError(
                f"'{key}' is no setting of a stream", location=here, hint=did_you_mean(key, _SETTINGS)
            )
        if key in found:
            raise InputError(f"the setting '{key}' is given twice", location=here)
        if key == "bandwidth":
            found[key] = real_number(key, value, location=here)
        else:
            least, most = _SETTINGS[key]
            found[key] = whole_number(key, value, least=least, most=most, location=here)
    return found
