"""What a validation shows: a line for each layer as it is measured, and a table of the designs at the end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from baco.common.text import one_line
from baco.display.console import amount, duration, rounded, stderr, stdout, table

if TYPE_CHECKING:
    from baco.exploration.measure.job import Measurable
    from baco.exploration.measure.measured_design import Design
    from baco.exploration.measure.measurement import Measurement


#: What compiling a layer and starting its simulation takes, in simulated cycles that take as long.
_LAYER_CYCLES = 3e5
#: Layers that were measured before come at once.
_AT_ONCE_S = 0.05


def make_display() -> ValidationDisplay:
    """A display on standard error."""
    return ValidationDisplay(stderr())


class _Pace:
    """How long layers take, and how long it takes longer where an accelerator's simulator may have to be built first.

    Args:
        work: of all layers, in simulated cycles.
        machines: different accelerators.
    """

    def __init__(self, work: float, machines: int) -> None:
        self._work, self._machines = work, machines
        self._last = time.monotonic()
        self._seen: set[str] = set()
        self._begun: list[float] = []
        self._seconds = self._timed = 0.0

    def left(self, work: float, machine: str) -> float | None:
        """Seconds left after another layer; None as long as there is nothing to judge it by."""
        now = time.monotonic()
        taken, self._last = now - self._last, now
        self._work -= work
        new = machine not in self._seen
        self._seen.add(machine)
        if taken > _AT_ONCE_S:
            if new:
                self._begun.append(taken)
            else:
                self._seconds, self._timed = self._seconds + taken, self._timed + work
        if not self._timed or self._work < _LAYER_CYCLES / 2:
            return None
        builds = (self._machines - len(self._seen)) * sum(self._begun) / max(1, len(self._begun))
        return self._work * self._seconds / self._timed + builds


class ValidationDisplay:
    """Progress of a validation (`baco.exploration.measure.session.ValidationProgress`)."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.jobs = 0
        self._pace = _Pace(0.0, 0)

    def begin(self, designs: Sequence[Design], jobs: int, cycles: float) -> None:
        """Say what will be measured."""
        self.jobs = jobs
        machines = len({one.accelerator.config_hash for one in designs})
        self._pace = _Pace(cycles + jobs * _LAYER_CYCLES, machines)
        what = "whole programs" if any(one.programs for one in designs) else "layers"
        self._line(f"validating {len(designs)} designs: {jobs} {what} to compile, simulate and compare")
        self._line(
            f"the simulators of {machines} accelerators are built first where none is kept, a minute or more each"
        )

    def measured(self, finished: int, result: Measurement, job: Measurable, predicted: float | None) -> None:
        """One line: where it stands, what it is, what was measured and what was predicted."""
        text = f"[{finished}/{self.jobs}] {job.name}: "
        if result.status == "measured":
            text += f"{result.cycles:,} cycles"
            if predicted is not None:
                text += f" ({predicted:,.0f} predicted, {predicted / result.cycles:.2f} of it)"
        else:
            text += f"{result.status.upper()}: {result.reason}"
        left = self._pace.left((predicted or 0.0) + _LAYER_CYCLES, job.accelerator.config_hash)
        self._line(text if not left else f"{text} | about {duration(rounded(left))} left")

    def note(self, text: str) -> None:
        """Show a remark."""
        self._line(f"note: {text}")

    def close(self) -> None:
        """Nothing is left open: lines stay."""

    def _line(self, text: str) -> None:
        self.console.print(Text(one_line(text)))


def _programs(designs: Sequence[Design]) -> Table:
    """Cycles of every program: the accelerator's part, the host's, the whole, and what was predicted of it; its energy likewise."""
    rows = []
    for one in designs:
        for program in one.programs:
            found, guess = program.measured, program.predicted
            if found is None or program.status != "measured":
                continue
            cells = (
                f"{found.cycles - found.host_cycles:,}",
                f"{found.host_cycles:,}",
                f"{found.cycles:,}",
                f"{guess.cycles:,.0f}" if guess else "",
                "" if program.ratio is None else f"{program.ratio:.3f}",
                f"{found.energy_pj * 1e-6:,.0f}",
                f"{guess.energy_pj * 1e-6:,.0f}" if guess else "",
                "" if program.energy_ratio is None else f"{program.energy_ratio:.3f}",
            )
            rows.append((one.name, program.network, *cells))
    words = ("design", "network")
    cycles = ("accelerator", "host", "whole", "predicted", "predicted/measured")
    return table((*words, *cycles, "energy µJ", "predicted", "predicted/measured"), rows, left=words)


def _agreements(designs: Sequence[Design]) -> list[str]:
    """How near the integers of every network are to the user's model; the designs compute the same."""
    found: dict[str, None] = {}
    for one in designs:
        for program in one.programs:
            near = program.measured.agreement if program.measured is not None else None
            if near is not None:
                words = "; ".join((*near.summary(), *filter(None, [near.warning()])))
                found[f"{program.network}: {words}"] = None
    return list(found)


def print_validation(study: Path) -> None:
    """The designs of a study that were validated: what was predicted, what was measured, what failed."""
    from baco.exploration.measure.compare import comparisons, energy_error, model_error, prediction_change
    from baco.exploration.measure.session import measured_designs
    from baco.exploration.studies.study import StudyRecord
    from baco.sim.energy import energy_source

    with StudyRecord.open(study, read_only=True) as opened:
        designs, objective = measured_designs(opened), opened.objective
    console = stdout()
    rows = []
    for design in designs:
        machine, cost, guess = design.accelerator, design.measured, design.predicted
        estimate = design.estimate
        measured = amount(cost.edp) if cost else ""
        if estimate:
            within = "?" if estimate.edp_error is None else f"{estimate.edp_error:.0%}"
            measured = (
                f"about {amount(estimate.cost.edp)} ± {within}, from {estimate.share:.0%} of the cycles"
            )
        rows.append(
            (
                design.name,
                f"{machine.dim}x{machine.dim}",
                f"{machine.scratchpad_kib}+{machine.accumulator_kib}",
                f"{machine.area_mm2:.4g}",
                design.status,
                amount(guess.edp) if guess else "",
                measured,
                f"{guess.edp / cost.edp:.3f}" if cost and guess else "",
            )
        )
    titles = (
        "design",
        "array",
        "KiB",
        "mm²",
        "status",
        "predicted EDP",
        "measured EDP",
        "predicted/measured",
    )
    console.print(table(titles, rows, left=("design", "array", "status")))
    for design in designs:
        if design.status in ("failed", "infeasible"):
            console.print(Text(one_line(f"{design.status.upper()} {design.name}: {design.failure}")))
    if any(design.programs for design in designs):
        console.print(_programs(designs))
        for text in _agreements(designs):
            console.print(Text(one_line(text)))
    for design in designs:
        change = prediction_change(design)
        if change:
            console.print(Text(one_line(change)))
    for what, error in (("cycles", model_error(designs)), ("energy", energy_error(designs))):
        if error:
            console.print(
                f"predicted against measured {what} of {error.count} {error.what}: mean absolute error "
                f"{error.mean_absolute:.1%}, bias {error.bias:+.1%}, worst {error.worst_ratio:.2f}"
            )
    for text in dict.fromkeys(energy_source(design.accelerator) for design in designs):
        console.print(Text(one_line(text)))
    for comparison in comparisons(designs, objective):
        console.print(Text(one_line(comparison.text)))
    console.print(f"report: {one_line(str(study.parent / 'report.html'))}")
