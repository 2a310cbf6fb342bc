"""The pipeline of a whole network: one lane a unit, and in it for every operator how busy the unit was."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from baco.common.errors import InputError
from baco.common.figure import drawing, figure_text, new_figure
from baco.common.files import atomic_write
from baco.common.page import html_cards, html_table, page
from baco.common.text import html_text
from baco.compiler.network.program import NetworkProgram
from baco.sim.network.profile import Measured, OperatorProfile
from baco.sim.network.run import NetworkRun
from baco.sim.network.table import COLUMNS, kind_of, table_rows
from baco.sim.trace.chart import colours_of
from baco.sim.trace.image import label_lanes, save_figure

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
    label_lanes(axes, _LANES, (run.operators[0].start, end), colours, columns=8)
    axes.set_xlabel("cycle (height of a bar: share of the operator's cycles)")
    save_figure(figure, path)


def draw_network_html(built: NetworkProgram, run: NetworkRun, path: str | Path) -> None:
    """Draw the chart as one offline page to zoom and point at, with the table below. Raises as `draw_network_image`."""
    bars = _bars(built, run)
    kinds = list(dict.fromkeys(bar.kind for bar in bars))
    colours = colours_of(kinds)
    traces = []
    for kind in kinds:
        mine = [bar for bar in bars if bar.kind == kind]
        traces.append(
            {
                "name": kind,
                "colour": colours[kind],
                "lane": [bar.lane for bar in mine],
                "share": [round(bar.share, 5) for bar in mine],
                "start": [bar.operator.start for bar in mine],
                "cycles": [bar.operator.cycles for bar in mine],
                "hover": [_hover(bar) for bar in mine],
            }
        )
    *rows, total = table_rows(run)
    table = html_table(
        COLUMNS,
        rows,
        numeric=range(1, len(COLUMNS) - 1),
        total=total,
        caption="Operators, in the order in which they run",
    )
    text = page(
        title=f"{built.network.name} on the accelerator's Verilog (baco)",
        brand="measured run of a network",
        heading=built.network.name,
        subheading='run whole on the accelerator\'s Verilog <span class="tag">measured</span>',
        body=_BODY.format(cards=html_cards(_cards(run)), table=table),
        data={"traces": traces, "lanes": _LANES},
        scripts=[(Path(__file__).with_name("page.js")).read_text("utf-8")],
        plots=True,
    )
    atomic_write(path, text)


#: What the page shows beside its script.
_BODY = """<ul class="cards">{cards}</ul>
<section aria-labelledby="h-chart">
  <h2 id="h-chart">Who works when</h2>
  <p class="hint">A bar is an operator; in the lane of a unit it is as high as the share of the operator's cycles in which that
  unit was busy. Drag over a part to look closer, point at a bar for its numbers.</p>
  <div class="plot" id="chart" role="img" aria-label="Operators over time, by unit"></div>
</section>
<section aria-labelledby="h-table">
  <h2 id="h-table">Operators</h2>
  <p class="hint">Click a heading to sort. Units and waits are shares of the operator's cycles.</p>
  {table}
</section>"""


def _cards(run: NetworkRun) -> list[tuple[str, str, str]]:
    """Headline numbers: label, value, remark."""
    cycles = sum(operator.cycles for operator in run.operators)
    by_unit: dict[str, int] = {}
    for operator in run.operators:
        by_unit[operator.on] = by_unit.get(operator.on, 0) + operator.cycles
    cards = [("Whole program", f"{cycles:,}", "cycles, all operators")]
    cards += [
        (f"On the {name}" if name != "both" else "On both", f"{part / cycles:.0%}", f"{part:,} cycles")
        for name, part in by_unit.items()
    ]
    mesh = sum(operator.busy["mesh"] for operator in run.operators)
    cards.append(("Array multiplies", f"{mesh / cycles:.0%}", f"{mesh:,} cycles"))
    guesses = [operator.predicted for operator in run.operators if operator.predicted is not None]
    if len(guesses) == len(run.operators):
        cards.append(("Predicted", f"{sum(guesses):,.0f}", f"cycles, {sum(guesses) / cycles - 1:+.1%}"))
    moved = sum(operator.dram_bytes for operator in run.operators)
    cards.append(("Main memory", f"{moved / 2**20:,.1f} MiB", "read and written"))
    return cards


def _hover(bar: _Bar) -> str:
    """In the markup of plotly, names escaped."""
    one = bar.operator
    predicted = "" if one.predicted is None else f", predicted {one.predicted:,.0f}"
    return (
        f"<b>{html_text(one.operator)}</b>, {_LANES[bar.lane]}: {100 * bar.share:.1f} %<br>"
        f"{html_text(one.what)}<br>cycle {one.start:,}: {one.cycles:,} cycles{predicted}<br>"
        f"DRAM {one.dram_bytes / 1024:,.0f} KiB"
    )
