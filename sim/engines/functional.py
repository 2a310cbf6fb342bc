"""The functional model: results bit for bit, no timing."""

from __future__ import annotations

import time
from collections.abc import Sequence

from baco.accel.input_format import element_bits
from baco.common.errors import InfeasibleError, InputError
from baco.sim.build import functional_simulator
from baco.sim.engines.native import load_program, run_simulator
from baco.sim.job import Job, Simulation
from baco.sim.toolchain import toolchain


class FunctionalEngine:
    """Commands execute at once; the host core keeps its own time, which says nothing about the whole."""

    def check(self, job: Job) -> None:
        """As `Engine.check`. Raises InfeasibleError for element widths other than 8 and 32 bits."""
        if job.recording.waves is not None:
            raise InputError("the functional model has no waveforms", hint="take --engine rtl")
        check_functional(job)

    def run(self, job: Job) -> Simulation:
        """As `Engine.run`."""
        return run_functional(job, "functional")


def run_functional(job: Job, engine: str, more: Sequence[str] = ()) -> Simulation:
    """What `Engine.run` gives of one of the engines that are a way of the functional simulator; `more`: arguments of that."""
    elf = load_program(job)
    tools = toolchain(job.tools)
    start = time.perf_counter()
    simulator = functional_simulator(tools, job.report)
    built = time.perf_counter() - start
    return run_simulator(simulator, engine, job, elf, tools, build_seconds=built, more=more)


def check_functional(job: Job) -> None:
    """Raises InfeasibleError for an accelerator that the functional model does not cover."""
    for unit in job.units:
        if unit.accelerator is None:
            continue
        form = unit.accelerator.input_format
        for name, wanted in (("input_bits", element_bits(form)), ("accumulator_bits", 32)):
            if (value := getattr(unit.accelerator, name)) != wanted:
                raise InfeasibleError(
                    f"the functional model computes with {name} = {wanted} only, not {value}"
                )
