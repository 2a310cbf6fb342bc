"""The accelerator's own Verilog, Verilated."""

from __future__ import annotations

import time

from baco.accel.config import Accelerator
from baco.accel.verilog.generate import check_rtl, verilog
from baco.common.errors import InfeasibleError, InputError
from baco.sim.build import Waves, functional_simulator, rtl_simulator
from baco.sim.engines.functional import check_functional
from baco.sim.engines.native import load_program, run_simulator
from baco.sim.job import Job, MainMemory, Simulation
from baco.sim.toolchain import toolchain

#: What the original's ExecuteController demands of its queue, and lines of the inclusive cache.
_VISIBLE_COMMANDS, _LINE_BYTES = 3, 64


class RtlEngine:
    """Every cycle of the accelerator, with a timed memory and a host core in front: of ours as Verilog, or of the original
    Gemmini as a model (`Job.timed_as`)."""

    def run(self, job: Job) -> Simulation:
        """As `Engine.run`. Raises InfeasibleError for a configuration that the Verilog does not cover."""
        if job.timed_as == "gemmini":
            return _run_as_original(job)
        waves = _waves(job)
        check_rtl(job.accelerator)
        elf = load_program(job)
        tools = toolchain(job.tools)
        start = time.perf_counter()
        simulator = rtl_simulator(verilog(job.accelerator), tools, waves=waves, report=job.report)
        built = time.perf_counter() - start
        return run_simulator(simulator, "rtl", job, elf, tools, build_seconds=built)


def _run_as_original(job: Job) -> Simulation:
    """Run a job with the timing of the original Gemmini: a model of its units in the place of our Verilog.

    No Verilog is simulated: results are the functional model's, cycles those of sim/cpp/gemmini_*.cpp.
    Raises InputError for recordings and memories that this model has not.
    """
    if job.recording.waves is not None:
        raise InputError(
            "the timing 'gemmini' has no waveforms", hint="it is a model of the original's units, not Verilog"
        )
    if job.memory != MainMemory(base=job.memory.base, size_bytes=job.memory.size_bytes):
        raise InputError(
            "the timing 'gemmini' has a memory system of its own",
            hint="leave out --memory-latency, --memory-bandwidth, --memory-burst and the options of --l2",
        )
    check_original(job.accelerator)
    check_functional(job)
    elf = load_program(job)
    tools = toolchain(job.tools)
    start = time.perf_counter()
    simulator = functional_simulator(tools, job.report)
    built = time.perf_counter() - start
    return run_simulator(simulator, "rtl", job, elf, tools, build_seconds=built)


def check_original(accelerator: Accelerator) -> None:
    """Raises InfeasibleError for a machine that the original's generator refuses to build."""
    if accelerator.features.row_functions:
        raise InfeasibleError(
            "the original Gemmini has no row functions: there are no cycles of its to count",
            hint="leave --timing out, or take an accelerator without row_functions",
        )
    if accelerator.features.normalizations:
        raise InfeasibleError(
            "the model of the original Gemmini's cycles has no normaliser",
            hint="leave --timing out, or take an accelerator without normalizations",
        )
    if accelerator.execute_queue < _VISIBLE_COMMANDS:
        raise InfeasibleError(
            f"the original Gemmini looks at {_VISIBLE_COMMANDS} commands for products at a time: execute_queue ="
            f" {accelerator.execute_queue} is too short",
            hint=f"set execute_queue to {_VISIBLE_COMMANDS} or more",
        )
    if accelerator.dma_max_bytes > _LINE_BYTES:
        raise InfeasibleError(
            f"the original's second-level cache takes requests of at most {_LINE_BYTES} bytes, not of dma_max_bytes ="
            f" {accelerator.dma_max_bytes}",
            hint=f"set dma_max_bytes to {_LINE_BYTES} or less",
        )


def _waves(job: Job) -> Waves:
    path = job.recording.waves
    if path is None:
        return ""
    if path.suffix == ".vcd":
        return "vcd"
    if path.suffix == ".fst":
        return "fst"
    raise InputError(f"waveforms are written as .vcd or .fst, not as '{path.name}'")
