"""The functional model: results bit for bit, no timing."""

from __future__ import annotations

import time

from accel.config import Accelerator
from common.errors import InfeasibleError
from sim.build import functional_simulator
from sim.engines.native import run_simulator
from sim.job import Job, Result
from sim.toolchain import toolchain


class FunctionalEngine:
    """Commands execute at once; the host core keeps its own time, which says nothing about the whole."""

    def run(self, job: Job) -> Result:
        """As `Engine.run`. Raises InfeasibleError for element widths other than 8 and 32 bits."""
        _check(job.accelerator)
        tools = toolchain(job.tools)
        start = time.perf_counter()
        program = functional_simulator(tools, job.report)
        return run_simulator(program, "functional", job, tools, build_seconds=time.perf_counter() - start)


def _check(accelerator: Accelerator) -> None:
    for name, wanted in (("input_bits", 8), ("accumulator_bits", 32)):
        value = getattr(accelerator, name)
        if value != wanted:
            raise InfeasibleError(f"the functional model computes with {name} = {wanted} only, not {value}")
    if accelerator.features.normalizations:
        raise InfeasibleError("the functional model has no features.normalizations")
