"""What `explore` prints when it is done."""

from __future__ import annotations

from rich.table import Table

from baco.accel.technology import PUBLISHED, technology
from baco.api.result import Result
from baco.common.text import one_line
from baco.common.units import si
from baco.display.console import amount, duration, stdout
from baco.exploration.candidate import Candidate
from baco.exploration.space.points import named_units

_HOW = {
    "budget": "budget used",
    "time": "time limit reached",
    "converged": "search complete",
    "interrupted": "interrupted; continue with --resume",
}
#: Laws of a technology that figures come from.
_LAWS = {"area": "area", "clock": "period"}
_LEAST = {"edp": "EDP", "latency": "latency", "energy": "energy", "area": "area", "edap": "EDP × area"}


def print_result(result: Result) -> None:
    """The best design, how the search ended, and where the report lies."""
    console = stdout()
    if result.stopped is not None:
        samples = f"{result.samples:,.0f} samples in {duration(result.seconds)}"
        console.print(f"{_HOW[result.stopped]}: {samples}")
    best, metrics = result.best, result.objective.metrics
    cost, machine = best.cost, best.accelerator
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("best accelerator", _hardware(best))
    if len(metrics) > 1:
        others = " and ".join(_LEAST.get(name, name) for name in metrics[1:])
        table.add_row(
            "",
            f"best: the least {_LEAST.get(metrics[0], metrics[0])}, the first objective, whatever {others}",
        )
    table.add_row(
        "EDP",
        f"{amount(cost.edp)} {cost.edp_unit}, {si(cost.edp_js(machine.clock_mhz), 'J·s')} ({cost.source})",
    )
    if result.proven_edp is not None:
        above = max(0.0, cost.edp / result.proven_edp - 1)
        table.add_row("proven", f"at most {above:.2%} above the least EDP of the space (predicted)")
    table.add_row("cost model", result.cost_model)
    milliseconds = cost.latency_cycles / (machine.clock_mhz * 1e3)
    table.add_row(
        "latency",
        f"{amount(cost.latency_cycles)} cycles, {milliseconds:.4g} ms at {machine.clock_mhz:g} MHz ({cost.source})",
    )
    table.add_row("energy", f"{amount(cost.energy_uj)} µJ ({cost.source})")
    table.add_row("area", f"{cost.area_mm2:.4g} mm² ({cost.source})")
    table.add_row("technology", _silicon(result))
    for name, loss in result.data.accuracy.lines():
        table.add_row("accuracy", one_line(f"{name}: {loss}", 1000))
    table.add_row("Pareto front", f"{len(result.front)} designs in {', '.join(result.front_metrics)}")
    if len(metrics) > 1:
        knee = result.knee
        table.add_row("knee of the front", _hardware(knee))
        table.add_row("", _costs(knee))
        table.add_row("", "knee: the nearest to the best values of all objectives at once")
    if not result.data.violations:
        for line in result.explain().lines:
            name, _, text = line.partition(": ")
            table.add_row(name, one_line(text, 1000))
    table.add_row("report", one_line(str(result.folder / "report.html")))
    console.print(table)


def _silicon(result: Result) -> str:
    """The technology, and how far what is predicted in it is off from what was measured."""
    machine, known = result.best.accelerator, result.data.errors
    silicon = technology(machine.technology)
    if silicon.name == PUBLISHED:
        form = machine.input_format
        return f"{PUBLISHED}: areas ± {known['area'].mean:.1%}, an assumed clock, published energies; " + (
            "--technology ihp-sg13g2: measured in netlists"
            if form == "integer"
            else f"what {form} takes beside integers is counted in cells, and its energy assumed"
        )
    figures = [
        f"{name} ± {known[name].mean:.1%}"
        for name in ("area", "clock")
        if silicon.error(_LAWS[name], machine.dim) is not None
    ]
    figures.append(
        f"energy {silicon.evidence['energy']}"
        if silicon.switching is None
        else f"energy ± {known['energy'].mean:.1%}"
    )
    beyond = silicon.beyond(machine.dim)
    return f"{silicon.name}, before layout: {', '.join(figures)}{'; ' if beyond else ''}{beyond}"


def _hardware(one: Candidate) -> str:
    machine = one.accelerator
    return (
        f"{machine.dim} x {machine.dim} array, scratchpad {machine.scratchpad_kib} KiB, "
        f"accumulator {machine.accumulator_kib} KiB, dataflow {machine.dataflow}{named_units(machine)}"
    )


def _costs(one: Candidate) -> str:
    cost = one.cost
    return (
        f"{amount(cost.latency_cycles)} cycles, {amount(cost.energy_uj)} µJ, EDP {amount(cost.edp)} {cost.edp_unit}, "
        f"{cost.area_mm2:.4g} mm² ({cost.source})"
    )
