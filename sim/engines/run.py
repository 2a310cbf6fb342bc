"""The way into simulation: a program, an accelerator, and the name of what is to run it."""

from __future__ import annotations

from pathlib import Path

from accel.config import Accelerator
from common.errors import InputError, did_you_mean
from sim.engines.base import make_engine
from sim.job import TIMINGS, Job, Limits, MainMemory, Recording, Simulation, SimulationError

__all__ = ["Job", "Limits", "MainMemory", "Recording", "Simulation", "SimulationError", "run_job", "simulate"]


def simulate(
    program: str | Path,
    accelerator: Accelerator,
    *,
    engine: str = "rtl",
    memory: MainMemory | None = None,
    limits: Limits | None = None,
    recording: Recording | None = None,
    tools: str | None = None,
) -> Simulation:
    """Run an ELF program to its end.

    Raises as `sim.engines.base.Engine.run`; a program's own exit code other than 0 is in the result.
    """
    return run_job(
        Job(
            accelerator=accelerator,
            program=Path(program),
            memory=memory or MainMemory(),
            limits=limits or Limits(),
            recording=recording or Recording(),
            tools=tools,
        ),
        engine=engine,
    )


def run_job(job: Job, *, engine: str = "rtl") -> Simulation:
    """As `simulate`, for everything that a job can ask for. Raises InputError for a timing that the engine has not."""
    if job.timing not in TIMINGS:
        raise InputError(f"there is no timing '{job.timing}'", hint=did_you_mean(job.timing, TIMINGS))
    if job.timing != "baco" and engine != "rtl":
        raise InputError(
            f"the timing '{job.timing}' is one of the engine 'rtl', not of '{engine}'",
            hint="add --engine rtl, or leave --timing out",
        )
    return make_engine(engine).run(job)
