"""Commands in lanes: how a log is laid out, whatever draws it."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from baco.common.errors import InputError
from baco.sim.trace.log import UNITS, Log, LogEntry

#: More lanes are no chart, and more bars take more than some seconds to lay out.
_MOST_LANES, _MOST_BARS = 400, 300_000
#: Colours that people with colour-blindness can tell apart (Okabe and Ito, 2008).
COLOURS = (
    *("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#b8a800", "#777777"),
    *("#7f3c8d", "#a6761d", "#66c2a5", "#4b5563"),
)


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """A colour for every name, by its place."""
    return {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}


@dataclass(frozen=True, slots=True)
class Bar:
    """A command as drawn: what has not come to pass ends with the log."""

    lane: int
    entry: LogEntry
    issued: int
    done: int

    @property
    def waiting(self) -> tuple[int, int]:
        """Start and length."""
        return self.entry.allocated, self.issued - self.entry.allocated

    @property
    def running(self) -> tuple[int, int]:
        """Start and length."""
        return self.issued, self.done - self.issued


@dataclass(frozen=True)
class Chart:
    """Bars by lane: a lane is one place of one unit, lanes from top to bottom.

    Attributes:
        lanes: unit and place, as `load 0`.
        bars: unit by unit, each by when it was allocated.
        span: first cycle, and the one behind the last.
    """

    lanes: tuple[str, ...]
    bars: tuple[Bar, ...]
    span: tuple[int, int]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the commands, each once."""
        return tuple(sorted({bar.entry.name for bar in self.bars}))


def make_chart(log: Log, first: int = 0, until: int | None = None, *, most: int = _MOST_BARS) -> Chart:
    """The commands that were there in the cycles [first, until), in as few lanes as hold them.

    Args:
        most: bars that can be drawn.

    Raises InputError for an empty window, or too many bars or lanes.
    """
    entries = log.window(first, until)
    if not entries:
        raise InputError(
            "no command was in flight in these cycles", hint=f"the log ends with cycle {log.end:,}"
        )
    if len(entries) > most:
        page = "" if most == _MOST_BARS else f", or write a page (.html), which holds {_MOST_BARS:,}"
        raise InputError(
            f"{len(entries):,} commands are too many for one chart (at most {most:,})",
            hint=f"choose cycles with --from and --until{page}",
        )
    end = log.end
    lanes: list[str] = []
    bars = []
    by_unit: dict[str, list[LogEntry]] = {unit: [] for unit in UNITS}
    for entry in entries:
        by_unit[entry.unit].append(entry)
    for unit, mine in by_unit.items():
        busy: list[tuple[int, int]] = []  # heap: when the last command of a lane is done, and the lane
        free: list[int] = []  # heap: lanes that have nothing to do
        base = len(lanes)
        for entry in sorted(mine, key=lambda e: (e.allocated, e.entry)):
            done = entry.done if entry.done is not None else end
            issued = entry.issued if entry.issued is not None else done
            while busy and busy[0][0] <= entry.allocated:
                heapq.heappush(free, heapq.heappop(busy)[1])
            if free:
                lane = heapq.heappop(free)
            else:
                lane = len(lanes) - base
                lanes.append(f"{unit} {lane}")
            heapq.heappush(busy, (max(done, entry.allocated + 1), lane))
            bars.append(Bar(base + lane, entry, issued, done))
    if len(lanes) > _MOST_LANES:
        raise InputError(
            f"{len(lanes):,} commands at once are too many for one chart (at most {_MOST_LANES})",
            hint="choose cycles with --from and --until",
        )
    begin = max(first, min(bar.entry.allocated for bar in bars))
    last = max(bar.done for bar in bars) + 1
    if until is not None:
        last = min(until, last)
    return Chart(tuple(lanes), tuple(bars), (begin, max(begin + 1, last)))


def busy_spans(bars: Sequence[Bar]) -> list[tuple[int, int]]:
    """Cycles [start, end) in which at least one of these commands runs, ascending and apart."""
    spans: list[tuple[int, int]] = []
    for start, end in sorted((bar.issued, bar.done) for bar in bars if bar.done > bar.issued):
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], end))
        else:
            spans.append((start, end))
    return spans
