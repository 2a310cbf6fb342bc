"""The command log as a pipeline chart: when each command waited, and when it ran."""

from __future__ import annotations

import heapq
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel.isa import disassemble, find_command_type
from common.errors import InputError, Location
from common.figure import drawing, figure_bytes, new_figure
from common.files import atomic_write
from common.numbers import WHOLE, whole_number
from common.table import read_table_text
from common.text import html_text, script_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Log", "LogEntry", "colours_of", "draw_html", "draw_image", "read_log", "save_figure", "save_page"]

UNITS = ("load", "execute", "store")
_COLUMNS = "unit,id,funct,rs1,rs2,allocated,issued,done"
_HEAD = re.compile(r"# baco command log 1, dim ([0-9]+)")
_ENTRY = re.compile(
    rf"(load|execute|store|front),([0-9]{{1,5}}),([0-9]{{1,3}}),0x([0-9a-f]{{1,16}}),0x([0-9a-f]{{1,16}}),"
    rf"({WHOLE}),({WHOLE}|),({WHOLE}|)"
)
#: Of accelerators; and of logs that are read, a hundred times what is drawn of them.
_LARGEST_DIM, _MOST_ENTRIES = 128, 1_000_000
#: More bars than this are no picture any more, and more lanes no page.
_MOST_IN_IMAGE, _MOST_IN_PAGE, _MOST_LANES = 20_000, 5_000, 400


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


@dataclass(frozen=True)
class _Bar:
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
class _Chart:
    """Bars by lane: a lane is one place of one unit, lanes from top to bottom."""

    lanes: tuple[str, ...]
    bars: tuple[_Bar, ...]
    names: tuple[str, ...]


def _chart(log: Log, first: int, until: int | None, most: int) -> _Chart:
    entries = log.window(first, until)
    if not entries:
        raise InputError(
            "no command was in flight in these cycles", hint=f"the log ends with cycle {log.end:,}"
        )
    if len(entries) > most:
        raise InputError(
            f"{len(entries):,} commands are too many for one chart (at most {most:,})",
            hint="choose cycles with --from and --until",
        )
    end = log.end
    lanes: list[str] = []
    bars = []
    for unit in UNITS:
        busy: list[tuple[int, int]] = []  # heap: when the last command of a lane is done, and the lane
        free: list[int] = []  # heap: lanes that have nothing to do
        base = len(lanes)
        for entry in sorted((e for e in entries if e.unit == unit), key=lambda e: (e.allocated, e.entry)):
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
            bars.append(_Bar(base + lane, entry, issued, done))
    if len(lanes) > _MOST_LANES:
        raise InputError(
            f"{len(lanes):,} commands at once are too many for one chart (at most {_MOST_LANES})",
            hint="choose cycles with --from and --until",
        )
    return _Chart(tuple(lanes), tuple(bars), tuple(sorted({e.name for e in entries})))


#: Colours that people with colour-blindness can tell apart (Okabe and Ito, 2008).
_COLOURS = (
    *("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#f0e442", "#555555"),
    *("#7f3c8d", "#a6761d", "#66c2a5", "#1b1b1b"),
)


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """A colour for every name, by its place."""
    return {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)}


@drawing()
def draw_image(log: Log, path: str | Path, *, first: int = 0, until: int | None = None) -> None:
    """Draw the chart as an image; the suffix of `path` says which kind (png, svg, pdf).

    A bar starts pale where a command was allocated, and is full from its issue until it was done. Raises InputError
    for an empty or too large window, StorageError when the file cannot be written.
    """
    chart = _chart(log, first, until, _MOST_IN_IMAGE)
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Patch

    colours = colours_of(chart.names)
    figure = new_figure(14, 1.6 + 0.22 * len(chart.lanes))
    axes = figure.add_subplot()
    for alpha, least, spans in (
        (0.3, 0.0, [bar.waiting for bar in chart.bars]),
        (1.0, 0.4, [bar.running for bar in chart.bars]),  # one-cycle commands stay visible
    ):
        # one collection: a patch a bar would take minutes
        axes.add_collection(
            PolyCollection(
                [
                    _corners(bar.lane, start, max(length, least))
                    for bar, (start, length) in zip(chart.bars, spans, strict=True)
                ],
                facecolors=[colours[bar.entry.name] for bar in chart.bars],
                alpha=alpha,
                linewidth=0,
            )
        )
    axes.set_yticks(range(len(chart.lanes)), labels=list(chart.lanes), fontsize=8)
    axes.set_ylim(len(chart.lanes) - 0.5, -0.5)  # from top to bottom
    axes.set_xlim(*_span(chart, first, until))
    axes.set_xlabel("cycle (pale: allocated, waiting; full: issued until done)")
    axes.legend(
        handles=[Patch(color=colours[name], label=name) for name in chart.names],
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=6,
        fontsize=8,
        frameon=False,
    )
    save_figure(figure, path)


def _corners(lane: int, start: float, length: float) -> list[tuple[float, float]]:
    """Of a bar."""
    return [
        (start, lane - 0.4),
        (start, lane + 0.4),
        (start + length, lane + 0.4),
        (start + length, lane - 0.4),
    ]


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure of matplotlib; the suffix of `path` says as what. Raises InputError for an unknown one."""
    kind = Path(path).suffix.lstrip(".").lower()
    try:
        data = figure_bytes(figure, kind, dpi=130)
    except ValueError:
        raise InputError(
            f"a chart cannot be written as '.{kind}'", hint="use .png, .svg, .pdf or .html"
        ) from None
    atomic_write(path, data)


def draw_html(log: Log, path: str | Path, *, first: int = 0, until: int | None = None) -> None:
    """Draw the chart as one offline page to zoom and point at. Raises as `draw_image`."""
    chart = _chart(log, first, until, _MOST_IN_PAGE)
    colours = colours_of(chart.names)
    traces: list[dict[str, Any]] = []
    for name in chart.names:
        bars = [bar for bar in chart.bars if bar.entry.name == name]
        for opacity, spans in ((0.3, [bar.waiting for bar in bars]), (1.0, [bar.running for bar in bars])):
            traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": name,
                    "legendgroup": name,
                    "showlegend": opacity == 1.0,
                    "y": [chart.lanes[bar.lane] for bar in bars],
                    "base": [start for start, _ in spans],
                    "x": [length for _, length in spans],
                    "marker": {"color": colours[name], "opacity": opacity},
                    "hovertext": [_hover(bar.entry) for bar in bars],
                    "hoverinfo": "text",
                }
            )
    layout = {
        "barmode": "overlay",
        "height": 200 + 26 * len(chart.lanes),
        "xaxis": {"title": {"text": "cycle"}, "range": list(_span(chart, first, until))},
        "yaxis": {"categoryorder": "array", "categoryarray": list(chart.lanes), "autorange": "reversed"},
        "margin": {"l": 90, "r": 20, "t": 40, "b": 50},
    }
    save_page("Pipeline chart", traces, layout, path)


def save_page(
    title: str, traces: Sequence[dict[str, Any]], layout: dict[str, Any], path: str | Path, body: str = ""
) -> None:
    """Write a plotly figure as one offline page, with more HTML below it."""
    from plotly.offline import get_plotlyjs

    data = script_json([traces, layout])
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html_text(title)}</title>'
        f"<script>{get_plotlyjs()}</script><body><div id=chart></div>{body}"
        f"<script>const [traces, layout] = {data}; Plotly.newPlot('chart', traces, layout);</script></body></html>\n"
    )
    atomic_write(path, page)


def _span(chart: _Chart, first: int, until: int | None) -> tuple[int, int]:
    begin = max(first, min(bar.entry.allocated for bar in chart.bars))
    end = max(bar.done for bar in chart.bars) + 1
    return begin, max(begin + 1, min(until, end) if until is not None else end)


def _hover(entry: LogEntry) -> str:
    issued = "not issued" if entry.issued is None else f"issued {entry.issued:,}"
    done = "not done" if entry.done is None else f"done {entry.done:,}"
    return f"{html_text(entry.text)}<br>allocated {entry.allocated:,}, {issued}, {done}"
