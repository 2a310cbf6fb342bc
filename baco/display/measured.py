"""What a measured search shows: a line for each layer as it is measured, a line for each round, and how it ended."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from baco.common.text import one_line
from baco.display.console import amount, stderr, stdout

if TYPE_CHECKING:
    from baco.exploration.measure.job import MeasurementJob
    from baco.exploration.measure.loop import Round
    from baco.exploration.measure.measured_study import MeasuredOutcome
    from baco.exploration.measure.measurement import Measurement


class MeasuredDisplay:
    """Progress of a measured search (`baco.exploration.measure.measured_study.Watch`), on standard error."""

    def __init__(self, budget: float, console: Console | None = None) -> None:
        self.budget, self.console = budget, console or stderr()

    def layer(self, result: Measurement, job: MeasurementJob) -> None:
        """One layer."""
        what = (
            f"{result.cycles:,} cycles"
            if result.status == "measured"
            else f"{result.status.upper()}: {result.reason}"
        )
        side = job.accelerator.dim
        self._line(f"  {job.name} on {side}x{side}, {result.style or 'not compiled'}: {what}")

    def round(self, done: Round) -> None:
        """One round."""
        best = amount(done.objective) if math.isfinite(done.objective) else "none whole yet"
        self._line(
            f"round {done.number}: {done.measured} programs measured, {done.cycles / self.budget:.0%} of "
            f"{self.budget:,.0f} cycles; best so far {best}, {done.alternatives} schedules known"
        )

    def note(self, text: str) -> None:
        """A remark."""
        self._line(f"note: {text}")

    def _line(self, text: str) -> None:
        self.console.print(Text(one_line(text)))


def print_measured(outcome: MeasuredOutcome) -> None:
    """What measuring gained."""
    console = stdout()
    for name, found in (("predicted best", outcome.first), ("measured search", outcome.best)):
        if found is not None and found.measured is not None and found.predicted is not None:
            a = found.accelerator
            console.print(
                Text(
                    f"{name}: {a.dim}x{a.dim}, {a.scratchpad_kib}+{a.accumulator_kib} KiB: EDP"
                    f" {amount(found.measured.edp)} measured, {amount(found.predicted.edp)} predicted"
                )
            )
    console.print(
        Text(
            f"{outcome.spent:,} cycles simulated of the budget, {outcome.verified:,} beyond it to measure designs whole"
        )
    )
    for text in outcome.failures:
        console.print(Text(one_line(f"FAILED {text}")))
