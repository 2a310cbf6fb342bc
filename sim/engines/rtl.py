"""The accelerator's own Verilog, Verilated."""

from __future__ import annotations

import time

from baco.accel.verilog.generate import check_rtl, verilog
from baco.common.errors import InputError
from baco.sim.build import Waves, rtl_simulator
from baco.sim.engines.native import load_program, run_simulator
from baco.sim.job import Job, Simulation
from baco.sim.toolchain import toolchain


class RtlEngine:
    """Every cycle of the accelerator's Verilog, with a timed memory and a host core in front."""

    def check(self, job: Job) -> None:
        """As `Engine.check`. Raises InfeasibleError for a configuration that the Verilog does not cover."""
        _waves(job)
        check_rtl(job.accelerator)

    def run(self, job: Job) -> Simulation:
        """As `Engine.run`."""
        waves = _waves(job)
        elf = load_program(job)
        tools = toolchain(job.tools)
        start = time.perf_counter()
        simulator = rtl_simulator(verilog(job.accelerator), tools, waves=waves, report=job.report)
        built = time.perf_counter() - start
        return run_simulator(simulator, "rtl", job, elf, tools, build_seconds=built)


def _waves(job: Job) -> Waves:
    path = job.recording.waves
    if path is None:
        return ""
    if path.suffix == ".vcd":
        return "vcd"
    if path.suffix == ".fst":
        return "fst"
    raise InputError(f"waveforms are written as .vcd or .fst, not as '{path.name}'")
