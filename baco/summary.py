"""What `explore` prints when it is done."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from baco.commands.context import amount, duration, stdout
from common.text import one_line
from explore.engine import Outcome


def print_outcome(outcome: Outcome, folder: Path) -> None:
    """The best design, how the search ended, and where the report lies."""
    console = stdout()
    best = outcome.best
    accelerator, cost = best.accelerator, best.cost
    how = {
        "budget": "budget used",
        "time": "time limit reached",
        "converged": "search complete",
        "interrupted": "interrupted; continue with --resume",
    }[outcome.stopped]
    samples = outcome.evaluations / max(1, len(outcome.setup.tasks))
    console.print(f"{how}: {samples:,.0f} samples in {duration(outcome.seconds)}")
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row(
        "best accelerator",
        f"{accelerator.dim} x {accelerator.dim} array, scratchpad {accelerator.scratchpad_kib} KiB, "
        f"accumulator {accelerator.accumulator_kib} KiB, dataflow {accelerator.dataflow}",
    )
    table.add_row("EDP", f"{amount(cost.edp)} µJ·cycles ({cost.source})")
    if outcome.proven_edp is not None:
        table.add_row(
            "proven",
            f"at most {max(0.0, cost.edp / outcome.proven_edp - 1):.2%} above the least EDP of the space (predicted)",
        )
    table.add_row("cost model", outcome.setup.cost_model.name)
    milliseconds = cost.latency_cycles / (accelerator.clock_mhz * 1e3)
    table.add_row(
        "latency",
        f"{amount(cost.latency_cycles)} cycles, {milliseconds:.4g} ms at {accelerator.clock_mhz:g} MHz ({cost.source})",
    )
    table.add_row("energy", f"{amount(cost.energy_uj)} µJ ({cost.source})")
    table.add_row("area", f"{cost.area_mm2:.4g} mm² ({cost.source})")
    table.add_row("Pareto front", f"{len(outcome.front)} designs")
    table.add_row("report", one_line(str(folder / "report.html")))
    console.print(table)
