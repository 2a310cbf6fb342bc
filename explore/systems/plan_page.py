"""A plan as a page: headline, chart of when what runs where, tables of groups by unit."""

from __future__ import annotations

import math
from collections.abc import Iterator

from baco.common.page import html_cards, html_table, page
from baco.common.text import html_text
from baco.common.units import si
from baco.exploration.systems.charts import COLOURS, STYLE, bar, chart, line, shortened, words
from baco.exploration.systems.link import LinkSplit
from baco.exploration.systems.measured import MeasuredPlan
from baco.exploration.systems.system_plan import SystemPlan, solver_rows, unit_rows

_LEFT, _WIDTH, _LANE = 150, 1000, 34


def plan_page(
    plan: SystemPlan,
    splits: list[LinkSplit] | None = None,
    measured: MeasuredPlan | None = None,
    more: str = "",
) -> str:
    """The page, as HTML; names from outside are escaped. Where the plan was `measured`, both stand side by side. `more`: sections before those
    of networks."""
    body = [
        f'<ul class="cards">{html_cards([*_cards(plan), *_measured_cards(measured)])}</ul>',
        "<section><h2>When what runs where</h2>",
        f"<figure>{gantt(plan, measured)}</figure>",
        html_table(
            ("unit", "groups", "busy, ms", "of the makespan"),
            [
                (name, str(count), f"{busy:.4g}", f"{share:.1%}")
                for name, count, busy, share in unit_rows(plan)
            ],
            (1, 2, 3),
            caption="Units, predicted",
        ),
        "</section><section><h2>Solvers</h2>",
        html_table(
            ("solver", {"makespan": "makespan, ms", "energy": "energy, µJ"}.get(plan.objective, "goal")),
            [(name, f"{value:.6g}") for name, value in solver_rows(plan).items()],
            (1,),
            caption="Predicted, the plan first",
        ),
        "</section>",
        more,
        *_tables(plan, measured),
    ]
    if splits is not None:
        body.append(f"<section><h2>Cuts</h2>{_cut_table(plan, splits)}</section>")
    names = ", ".join(own.network for own in plan.profiles)
    return page(
        title=f"Plan of {names}",
        brand="plan",
        heading=f"{names} on {', '.join(plan.mix.graph.units)}",
        subheading="All times and energies are predicted; this plan has not run."
        if measured is None
        else f"Energies are predicted; times are predicted, and measured ({measured.engine}).",
        body="".join(body),
        styles=[STYLE],
    )


def _cards(plan: SystemPlan) -> Iterator[tuple[str, str, str]]:
    gap = plan.gap
    proven = "proven the optimum" if not gap else f"proven that no plan has more than {gap:.2%} less"
    yield "makespan", f"{plan.timetable.makespan * 1e-6:.4g} ms", f"predicted; {plan.planned.solver}"
    yield "energy", si(plan.energy_pj * 1e-12, "J", 4), "predicted"
    if gap is not None:
        yield "gap", f"{gap:.2%}", f"{plan.objective}: {proven}, by these predictions"
    saving = plan.saving()
    if saving is not None:
        yield "saved", f"{saving[1]:.1%}", f"over {saving[0]} alone, predicted"
    if (handed := plan.handover()).nbytes:
        yield "handed over", *handed.words()
    if words := plan.deadline_words():
        yield "deadlines", "missed" if plan.late else "met", words


def _measured_cards(measured: MeasuredPlan | None) -> Iterator[tuple[str, str, str]]:
    if measured is None:
        return
    right = f"{len(measured.wrong)} of them wrong" if measured.wrong else "all right"
    yield "compared", f"{measured.checked} operators", right
    if measured.engine == "functional":
        return
    told = f"measured ({measured.engine}); predicted {measured.error:+.1%}"
    yield "makespan", f"{measured.makespan_ns * 1e-6:.4g} ms", told
    if (speedup := measured.speedup) is not None:
        yield "speedup", f"{speedup[1]:.3g}", f"over {speedup[0]} alone, measured"


def gantt(plan: SystemPlan, measured: MeasuredPlan | None = None) -> str:
    """Lanes of units, a bar a group, as SVG; a second lane of each where the plan was measured."""
    units, timetable = plan.mix.graph.units, plan.timetable
    rows = [("", timetable.starts, timetable.finishes)]
    if measured is not None:
        rows.append((", measured", measured.starts_ns, measured.finishes_ns))
    span = max(*(max(ends, default=0.0) for *_, ends in rows), plan.mix.hyperperiod_ns or 0.0) or 1.0
    height = _LANE * len(units) * len(rows) + 42

    def across(time: float) -> float:
        return _LEFT + _WIDTH * time / span

    shapes = []
    for tick in _ticks(span * 1e-6):
        x = across(tick * 1e6)
        shapes += [line(x, 20, x, height - 20), words(x, height - 6, f"{tick:g} ms", "middle")]
    for at, name in enumerate(units):
        y = 20 + _LANE * len(rows) * at + 21
        shapes.append(words(0, y, shortened(name, 22)))
        if measured is not None:
            shapes.append(words(0, y + _LANE, "measured"))
    for run in plan.mix.runs:
        own = plan.profiles[run.network]
        colour = COLOURS[run.network % len(COLOURS)]
        for at, task in enumerate(run.tasks):
            for row, (what, starts, finishes) in enumerate(rows):
                start, finish = starts[task], finishes[task]
                told = f"{own.network} run {run.run + 1}: {own.graph.names[at]}, {start * 1e-6:.4g} to {finish * 1e-6:.4g} ms{what}"
                y = 20 + _LANE * (len(rows) * timetable.units[task] + row) + 5
                width = max(across(finish) - across(start), 0.3)
                shapes.append(
                    bar(across(start), y, width, _LANE - 10, colour, told, 0.7 if run.run % 2 else 1.0)
                )
    for number, own in enumerate(plan.profiles):
        x = _LEFT + 160 * number
        shapes += [
            bar(x, 3, 12, 12, COLOURS[number % len(COLOURS)], own.network),
            words(x + 17, 14, own.network[:22]),
        ]
    return chart(_LEFT + _WIDTH + 40, height, "Gantt chart", shapes)


def _ticks(span: float) -> list[float]:
    """Some ten round numbers from 0 to the span."""
    step = 10.0 ** math.floor(math.log10(span / 5))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 10)
    return [step * n for n in range(int(span / step) + 1)]


def _tables(plan: SystemPlan, measured: MeasuredPlan | None) -> Iterator[str]:
    """Of every network, its groups by unit."""
    for number, own in enumerate(plan.profiles):
        first = next(run for run in plan.mix.runs if run.network == number)
        rows = [
            (
                name,
                *("" if time == math.inf else f"{time * 1e-3:,.2f}" for time in own.graph.times[at].tolist()),
                *(
                    "" if own.graph.times[at, unit] == math.inf else f"{energy * 1e-3:,.1f}"
                    for unit, energy in enumerate(own.graph.energies[at].tolist())
                ),
                plan.mix.graph.units[plan.timetable.units[first.tasks[at]]],
                *(_compared(plan, measured, first.tasks[at]) if measured is not None else ()),
            )
            for at, name in enumerate(own.graph.names)
        ]
        units = plan.mix.graph.units
        heads = (
            "group",
            *(f"{unit}, µs" for unit in units),
            *(f"{unit}, nJ" for unit in units),
            "planned on",
            *(("planned, µs", "measured, µs", "error") if measured is not None else ()),
        )
        yield f"<section><h2>{html_text(own.network)}</h2>"
        numeric = [*range(1, 2 * len(units) + 1), *range(2 * len(units) + 2, len(heads))]
        caption = "Groups by unit, each alone, predicted; planned is the first run. Empty: the unit cannot"
        yield html_table(heads, rows, numeric, caption=caption) + "</section>"


def _compared(plan: SystemPlan, measured: MeasuredPlan, task: int) -> tuple[str, str, str]:
    """(µs that a task was planned to take beside the others, measured µs, how far the plan is off)."""
    planned = plan.timetable.finishes[task] - plan.timetable.starts[task]
    took = measured.finishes_ns[task] - measured.starts_ns[task]
    return f"{planned * 1e-3:,.2f}", f"{took * 1e-3:,.2f}", f"{planned / took - 1:+.1%}" if took else ""


def _cut_table(plan: SystemPlan, splits: list[LinkSplit]) -> str:
    names = plan.profiles[0].graph.names
    rows = [
        (
            "none: all behind the link" if not one.groups else names[one.groups - 1],
            *(f"{seconds * 1e3:.4g}" for seconds in (one.edge_s, one.link_s, one.cloud_s, one.seconds)),
            f"{one.nbytes:,.0f}",
            f"{one.joule * 1e3:.4g}",
        )
        for one in splits
    ]
    heads = ("last group on the device", "device, ms", "link, ms", "behind, ms", "all, ms", "bytes", "mJ")
    return html_table(heads, rows, range(1, 7), caption="Device and a machine behind a link, predicted")
