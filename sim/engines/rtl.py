"""The accelerator's own Verilog, Verilated."""

from __future__ import annotations

import time

from accel.verilog.generate import check_rtl, verilog
from common.errors import InputError
from sim.build import Waves, rtl_simulator
from sim.engines.native import load_program, run_simulator
from sim.job import Job, Simulation
from sim.toolchain import toolchain


class RtlEngine:
    """Every cycle of the accelerator, with a timed memory and a host core in front."""

    def run(self, job: Job) -> Simulation:
        """As `Engine.run`. Raises InfeasibleError for a configuration that the Verilog does not cover."""
        waves = _waves(job)
        check_rtl(job.accelerator)
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
