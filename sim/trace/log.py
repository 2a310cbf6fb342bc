"""The command log of a simulation: when each command was allocated, issued and done."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path

from baco.accel.isa import disassemble, find_command_type
from baco.common.errors import InputError, Location
from baco.common.numbers import WHOLE, whole_number
from baco.common.table import read_table_text

UNITS = ("load", "execute", "store")
_COLUMNS = "unit,id,funct,rs1,rs2,allocated,issued,done"
_HEAD = re.compile(r"# baco command log 1, dim ([0-9]+)")
_ENTRY = re.compile(
    rf"(load|execute|store|front),([0-9]{{1,5}}),([0-9]{{1,3}}),0x([0-9a-f]{{1,16}}),0x([0-9a-f]{{1,16}}),"
    rf"({WHOLE}),({WHOLE}|),({WHOLE}|)"
)
#: Of accelerators, and of logs.
_LARGEST_DIM, _MOST_ENTRIES = 128, 1_000_000


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One command in a unit's queue.

    Attributes:
        unit: load, execute, store, or front for what the host core issued.
        entry: its place in the unit's reservation station.
        allocated, issued, done: cycles; None while it has not come to that. The front has `allocated` only.
    """

    unit: str
    entry: int
    funct: int
    rs1: int
    rs2: int
    allocated: int
    issued: int | None
    done: int | None

    @property
    def name(self) -> str:
        """The command's name."""
        kind = find_command_type(self.funct, self.rs1)
        return kind.name if kind else f"funct {self.funct}"

    @property
    def text(self) -> str:
        """The command with its fields."""
        return disassemble(self.funct, self.rs1, self.rs2)


@dataclass(frozen=True)
class Log:
    """What a simulation with a command log wrote, by order of completion."""

    dim: int
    entries: tuple[LogEntry, ...]

    @property
    def end(self) -> int:
        """The last cycle that anything is said about."""
        return max(
            (c for e in self.entries for c in (e.allocated, e.issued, e.done) if c is not None), default=0
        )

    def window(self, first: int, until: int | None) -> tuple[LogEntry, ...]:
        """Commands of the units that were there in any of the cycles [first, until)."""
        end = self.end + 1 if until is None else until
        return tuple(
            e
            for e in self.entries
            if e.unit in UNITS and e.allocated < end and (e.done is None or e.done >= first)
        )


def read_log(path: str | Path) -> Log:
    """Read a command log. Raises InputError, with the line, for anything that is none."""
    name = str(path)
    lines = io.StringIO(read_table_text(path))
    head = _HEAD.fullmatch(lines.readline().strip())
    if head is None:
        raise InputError(
            "this is no command log", location=Location(name, 1), hint="`baco simulate --log FILE` writes one"
        )
    dim = whole_number("dim", head[1], least=2, most=_LARGEST_DIM, location=Location(name, 1))
    if lines.readline().strip() != _COLUMNS:
        raise InputError("the columns are not those of a command log", location=Location(name, 2))
    entries = []
    for number, line in enumerate(lines, start=3):
        if not line.strip():
            continue
        entries.append(_entry(line.strip(), Location(name, number)))
        if len(entries) > _MOST_ENTRIES:
            raise InputError(
                f"the log has more than {_MOST_ENTRIES:,} commands",
                location=Location(name, number),
                hint="log a shorter program",
            )
    return Log(dim, tuple(entries))


def _entry(line: str, here: Location) -> LogEntry:
    found = _ENTRY.fullmatch(line)
    if found is None:
        raise InputError(
            "this line is not one of a command log", location=here, hint="was the simulation interrupted?"
        )
    unit, number, funct, rs1, rs2, allocated, issued, done = found.groups()
    entry = LogEntry(
        unit,
        int(number),
        int(funct),
        int(rs1, 16),
        int(rs2, 16),
        int(allocated),
        int(issued) if issued else None,
        int(done) if done else None,
    )
    last = entry.allocated
    for cycle in (entry.issued, entry.done):
        if cycle is not None:
            if cycle < last:
                raise InputError("a command is allocated, then issued, then done", location=here)
            last = cycle
    return entry
