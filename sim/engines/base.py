"""The way into simulation, and the interface of everything that can run a program.

One engine is one file in this folder, registered below.
"""

from __future__ import annotations

import importlib
from typing import Literal, Protocol

from baco.accel.config import TIMINGS
from baco.common.errors import InputError, did_you_mean
from baco.sim.job import Job, Simulation

#: Engines that count the cycles of our Verilog.
CycleEngine = Literal["rtl", "timed"]


class Engine(Protocol):
    """Runs programs on a model of an accelerator."""

    def run(self, job: Job) -> Simulation:
        """Build what is needed and run the job to its end.

        Raises InputError or InfeasibleError for a job that this engine cannot run, BuildError or StorageError when
        the simulator cannot be built, and SimulationError when the run had to be stopped. A program that exits with
        a code other than 0 is a result.
        """
        ...


#: name -> (module, class, one-line description). A new engine is one file and one line here.
ENGINES: dict[str, tuple[str, str, str]] = {
    "rtl": ("baco.sim.engines.rtl", "RtlEngine", "the accelerator's Verilog, cycle by cycle (Verilator)"),
    "timed": (
        "baco.sim.engines.timed",
        "TimedEngine",
        "the cycles of the Verilog by a model of its units; no Verilator",
    ),
    "functional": (
        "baco.sim.engines.functional",
        "FunctionalEngine",
        "what commands compute, without timing; fast",
    ),
}

#: The same, for engines that run a simulator which the user has built (`Job.simulator`).
EXTERNAL_ENGINES: dict[str, tuple[str, str, str]] = {
    "spike": ("baco.sim.engines.spike", "SpikeEngine", "Spike with Gemmini's extension: results only"),
    "chipyard": (
        "baco.sim.engines.chipyard",
        "ChipyardEngine",
        "a simulator that Chipyard built (Verilator, VCS)",
    ),
}


def make_engine(name: str) -> Engine:
    """The engine registered as `name`. Raises InputError for an unknown name."""
    known = ENGINES | EXTERNAL_ENGINES
    if name not in known:
        raise InputError(f"unknown engine '{name}'", hint=did_you_mean(name, known))
    module, cls, _ = known[name]
    engine: Engine = getattr(importlib.import_module(module), cls)()
    return engine


def run_job(job: Job, *, engine: str = "rtl") -> Simulation:
    """Run a program to its end on the engine registered by that name.

    Raises as `Engine.run`, and InputError for a timing that the engine has not; a program's own exit code other than 0 is
    in the result.
    """
    if job.timing is not None and job.timing not in TIMINGS:
        raise InputError(f"there is no timing '{job.timing}'", hint=did_you_mean(job.timing, TIMINGS))
    if job.timing not in (None, "baco") and engine != "rtl":
        raise InputError(
            f"the timing '{job.timing}' is one of the engine 'rtl', not of '{engine}'",
            hint="add --engine rtl, or leave --timing out",
        )
    return make_engine(engine).run(job)
