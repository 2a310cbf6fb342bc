"""The pipeline of a whole network: one lane a unit, and in it for every operator how busy the unit was."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import InputError
from common.figure import drawing, figure_text, new_figure
from common.text import html_text
from compiler.network.program import NetworkProgram
from sim.network.profile import Measured, OperatorProfile
from sim.network.run import NetworkRun
from sim.network.table import COLUMNS, kind_of, table_rows
from sim.trace import colours_of, save_figure, save_page

__all__ = ["draw_network_html", "draw_network_image"]

#: Lanes from top to bottom: the operators themselves, the accelerator's units, what the host core does.
_LANES = (
    "operator",
    "load",
    "execute",
    "store",
    "mesh",
    "host computes",
    "host waits: command",
    "host waits: fence",
)
#: An operator is named in the image if it takes at least this share of the whole.
_NAMED = 0.012


@dataclass(frozen=True)
class _Bar:
    """An operator in a lane: `share` of its cycles that the unit was busy."""

    lane: int
    operator: OperatorProfile
    kind: str
    share: float


def _bars(built: NetworkProgram, run: NetworkRun) -> list[_Bar]:
    if not run.operators or not run.operators[0].busy:
        raise InputError("only a simulation with timing has a pipeline to draw", hint="use --engine rtl")
    functions = {step.operator: step.function for step in built.lowered.steps}
    bars = []
    for one in run.operators:
        if not one.cycles:
            continue
        kind = kind_of(built, functions[one.operator])
        for lane, cycles in enumerate(_cycles(one)):
            if cycles:
                bars.append(_Bar(lane, one, kind, min(1.0, cycles / one.cycles)))
    return bars


def _cycles(one: Measured) -> tuple[int, ...]:
    """Busy cycles in each lane."""
    busy, stalls = one.busy, one.stalls
    waits = stalls["command"] + stalls["fence"] + stalls["response"]
    computes = one.cycles - waits
    units = (busy[unit] for unit in ("load", "execute", "store", "mesh"))
    return (one.cycles, *units, computes, stalls["command"], stalls["fence"])


@drawing()
def draw_network_image(built: NetworkProgram, run: NetworkRun, path: str | Path) -> None:
    """Draw the chart as an image; the suffix of `path` says which kind.

    Bars are as high as the share of the operator's cycles in which the unit was busy. Raises InputError for a run
    without timing, StorageError when the file cannot be written.
    """
    bars = _bars(built, run)
    from matplotlib.patches import Patch

    kinds = list(dict.fromkeys(bar.kind for bar in bars))
    colours = colours_of(kinds)
    figure = new_figure(16, 7)
    axes = figure.add_subplot()
    for lane in range(len(_LANES)):
        axes.axhline(lane + 0.45, color="#cccccc", linewidth=0.5)
    axes.barh(
        [bar.lane + 0.45 - 0.425 * bar.share for bar in bars],
        [bar.operator.cycles for bar in bars],
        left=[bar.operator.start for bar in bars],
        height=[0.85 * bar.share for bar in bars],
        color=[colours[bar.kind] for bar in bars],
        edgecolor="white",
        linewidth=0.2,
    )
    end = max(bar.operator.start + bar.operator.cycles for bar in bars)
    for bar in bars:
        if bar.lane == 0 and bar.operator.cycles >= _NAMED * end:
            middle = bar.operator.start + bar.operator.cycles / 2
            axes.text(
                middle,
                0,
                figure_text(bar.operator.operator),
                rotation=90,
                ha="center",
                va="center",
                fontsize=5,
            )
    axes.set_yticks(range(len(_LANES)), labels=list(_LANES), fontsize=8)
    axes.set_ylim(len(_LANES) - 0.5, -0.5)
    axes.set_xlim(run.operators[0].start, end)
    axes.set_xlabel("cycle (height of a bar: share of the operator's cycles)")
    axes.legend(
        handles=[Patch(color=colours[kind], label=kind) for kind in kinds],
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=8,
        fontsize=8,
        frameon=False,
    )
    save_figure(figure, path)


def draw_network_html(built: NetworkProgram, run: NetworkRun, path: str | Path) -> None:
    """Draw the chart as one offline page to zoom and point at, with the table below. Raises as `draw_network_image`."""
    bars = _bars(built, run)
    kinds = list(dict.fromkeys(bar.kind for bar in bars))
    colours = colours_of(kinds)
    traces: list[dict[str, Any]] = []
    for kind in kinds:
        mine = [bar for bar in bars if bar.kind == kind]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": kind,
                "y": [bar.lane + 0.45 - 0.425 * bar.share for bar in mine],
                "width": [0.85 * bar.share for bar in mine],
                "base": [bar.operator.start for bar in mine],
                "x": [bar.operator.cycles for bar in mine],
                "marker": {"color": colours[kind], "line": {"color": "white", "width": 0.3}},
                "hovertext": [_hover(bar) for bar in mine],
                "hoverinfo": "text",
            }
        )
    layout = {
        "barmode": "overlay",
        "height": 620,
        "xaxis": {"title": {"text": "cycle (height of a bar: share of the operator's cycles)"}},
        "yaxis": {
            "tickvals": list(range(len(_LANES))),
            "ticktext": list(_LANES),
            "range": [len(_LANES) - 0.5, -0.5],
            "fixedrange": True,
        },
        "margin": {"l": 140, "r": 20, "t": 40, "b": 50},
    }
    save_page(f"{built.network.name} in RTL", traces, layout, path, _table(run))


def _hover(bar: _Bar) -> str:
    one = bar.operator
    predicted = "" if one.predicted is None else f", predicted {one.predicted:,.0f}"
    return (
        f"<b>{html_text(one.operator)}</b>, {_LANES[bar.lane]}: {100 * bar.share:.1f} %<br>"
        f"{html_text(one.what)}<br>cycle {one.start:,}: {one.cycles:,} cycles{predicted}<br>"
        f"DRAM {one.dram_bytes / 1024:,.0f} KiB"
    )


def _table(run: NetworkRun) -> str:
    def row(cells: tuple[str, ...], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html_text(cell)}</{tag}>" for cell in cells) + "</tr>"

    style = (
        "<style>table{border-collapse:collapse;font:13px sans-serif}td,th{padding:2px 8px;text-align:right}"
        "td:first-child,td:last-child{text-align:left}tr:nth-child(even){background:#f4f4f4}</style>"
    )
    body = "".join(row(cells, "td") for cells in table_rows(run))
    return f"{style}<table>{row(COLUMNS, 'th')}{body}</table>"
