"""The way into simulation, and the interface of everything that can run a program.

One engine is one file in this folder, registered below.
"""

from __future__ import annotations

import importlib
from typing import Literal, Protocol, get_args

from baco.accel.config import TIMINGS, Accelerator
from baco.common.errors import InputError, Location, did_you_mean
from baco.common.files import check_output
from baco.sim.job import Job, Simulation

#: Engines that count the cycles of our Verilog.
CycleEngine = Literal["rtl", "timed"]


class Engine(Protocol):
    """Runs programs on a model of an accelerator."""

    def check(self, job: Job) -> None:
        """Raises InputError or InfeasibleError for a job that this engine cannot run, whatever its program.

        Nothing is read or built, so that commands ask before they compile.
        """
        ...

    def run(self, job: Job) -> Simulation:
        """Build what is needed and run a job that was checked to its end.

        Raises InputError for a program that this engine cannot run, BuildError or StorageError when the simulator cannot be built, and SimulationError when the run had to be stopped. A program that exits with
        a code other than 0 is a result.
        """
        ...


#: name -> (module, class, one-line description). A new engine is one file and one line here.
ENGINES: dict[str, tuple[str, str, str]] = {
    "rtl": ("baco.sim.engines.rtl", "RtlEngine", "the accelerator's Verilog, cycle by cycle (Verilator)"),
    "soc": (
        "baco.sim.engines.soc",
        "SocEngine",
        "the Verilog of a SoC: the core CVA6, the accelerator and AXI4 (Verilator; baco[soc])",
    ),
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
    "gemmini-model": (
        "baco.sim.engines.original",
        "OriginalEngine",
        "a model of the original Gemmini's cycles in a Rocket system; no Verilog",
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


def cycle_engine(name: str) -> CycleEngine:
    """The engine of that name among those that count our Verilog's cycles. Raises InputError for another."""
    known: tuple[CycleEngine, ...] = get_args(CycleEngine)
    found = next((one for one in known if one == name), None)
    if found is None:
        raise InputError(
            f"the cycles of our Verilog are counted by {' or '.join(known)}, not by '{name}'",
            location=Location("--measure-engine"),
            hint=did_you_mean(name, known),
        )
    return found


def engine_for(name: str, timing: str | None, accelerator: Accelerator) -> str:
    """The engine that runs what is asked for: with the timing `gemmini`, `rtl` stands for the model of the original.

    Args:
        name: of an engine.
        timing: whose cycles are counted; None: those that the accelerator says.

    Raises InputError for an unknown engine or timing, and for a timing that the engine has not.
    """
    known = ENGINES | EXTERNAL_ENGINES
    if name not in known:
        raise InputError(f"unknown engine '{name}'", hint=did_you_mean(name, known))
    if timing is not None and timing not in TIMINGS:
        raise InputError(f"there is no timing '{timing}'", hint=did_you_mean(timing, TIMINGS))
    asked = timing or accelerator.timing
    if name == "gemmini-model" and timing == "baco":
        raise InputError(
            "the model of the original Gemmini counts that one's cycles, not those of the timing 'baco'",
            hint="take --engine timed or --engine rtl, or leave --timing out",
        )
    if asked == "gemmini" and name == "timed":
        raise InputError(
            "the engine 'timed' counts the cycles of our Verilog, not those of the timing 'gemmini'",
            hint="take --engine gemmini-model for these",
        )
    if timing == "gemmini" and name not in ("rtl", "gemmini-model"):
        raise InputError(
            f"the timing 'gemmini' is that of a model of the original Gemmini, not of the engine '{name}'",
            hint="take --engine gemmini-model, or leave --timing out",
        )
    return "gemmini-model" if name == "rtl" and asked == "gemmini" else name


def timing_of(engine: str, timing: str | None) -> str | None:
    """The timing that is asked for: that of the model of the original, where it is the engine."""
    return "gemmini" if engine == "gemmini-model" else timing


def check_job(job: Job, engine: str) -> Engine:
    """The engine that runs the job; the job's program need not be there yet.

    Raises InputError or InfeasibleError for what does not go together, and StorageError for recordings that have no place, before
    anything is read or built.
    """
    first = next(unit.accelerator for unit in job.units if unit.accelerator is not None)
    module, cls, _ = (ENGINES | EXTERNAL_ENGINES)[engine_for(engine, job.timing, first)]
    if engine not in EXTERNAL_ENGINES and (job.simulator is not None or job.engine_arguments):
        option = "--simulator" if job.simulator is not None else "--engine-argument"
        raise InputError(
            f"{option} is for the engines {' and '.join(EXTERNAL_ENGINES)}, not '{engine}'",
            hint=f"leave {option} out",
        )
    recording = job.recording
    if recording.waves is None and (recording.waves_from or recording.waves_until is not None):
        raise InputError(
            "--trace-from and --trace-until choose cycles of --trace", hint="add --trace FILE.fst"
        )
    if recording.waves_until is not None and recording.waves_until <= recording.waves_from:
        raise InputError(
            f"no cycle lies from --trace-from {recording.waves_from:,} to --trace-until {recording.waves_until:,}"
        )
    for path in (recording.waves, recording.log):
        if path is not None:
            check_output(path)
    made: Engine = getattr(importlib.import_module(module), cls)()
    made.check(job)
    return made


def run_job(job: Job, *, engine: str = "rtl") -> Simulation:
    """Run a program to its end on the engine registered by that name.

    Raises as `check_job` and `Engine.run`; a program's own exit code other than 0 is in the result.
    """
    return check_job(job, engine).run(job)
