"""Our accelerator's cycles without its Verilog: the functional model says what commands do, a model of the units when."""

from __future__ import annotations

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.sim.engines.functional import check_functional, run_functional
from baco.sim.job import Job, Simulation


class TimedEngine:
    """The units of the Verilog cycle by cycle, but only when, not what: sim/cpp/timed_*.cpp. Needs no Verilator."""

    def check(self, job: Job) -> None:
        """As `Engine.check`. Raises InfeasibleError for an accelerator that the model does not cover."""
        if job.recording.waves is not None:
            raise InputError("the timed model has no waveforms", hint="take --engine rtl")
        for unit in job.units:
            if unit.accelerator is not None:
                check_timed(unit.accelerator)
        check_functional(job)

    def run(self, job: Job) -> Simulation:
        """As `Engine.run`."""
        return run_functional(job, "timed")


def check_timed(accelerator: Accelerator) -> None:
    """Raises InfeasibleError for units whose cycles the model does not count."""
    for feature, what in (("row_functions", "functions of rows"), ("normalizations", "normaliser")):
        if getattr(accelerator.features, feature):
            raise InfeasibleError(
                f"the timed model has no {what}",
                hint=f"take --engine rtl, or an accelerator without {feature}",
            )
