"""The accelerator's own Verilog, Verilated."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from baco.accel.system import System
from baco.accel.verilog.generate import check_rtl, verilog
from baco.accel.verilog.system import accelerator_modules, check_system_rtl, system_verilog
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
        if isinstance(job.machine, System):
            check_system_rtl(job.machine)
        else:
            check_rtl(job.machine)

    def run(self, job: Job) -> Simulation:
        """As `Engine.run`."""
        if isinstance(job.machine, System):
            return run_verilog(job, system_verilog(job.machine))
        return run_verilog(job, verilog(job.machine))


def run_verilog(job: Job, text: str, *, counts: Path | None = None) -> Simulation:
    """Run a job on other Verilog with the ports of its machine's.

    Args:
        text: the Verilog.
        counts: where a netlist that counts its switching writes that (`baco.accel.synthesis.gates`); instead of waveforms.

    Raises as `Engine.run`.
    """
    if counts is not None:
        job = replace(job, recording=replace(job.recording, waves=counts))
    waves = _waves(job) if counts is None else "counts"
    elf = load_program(job)
    tools = toolchain(job.tools)
    start = time.perf_counter()
    units = accelerator_modules(job.machine) if isinstance(job.machine, System) else ()
    simulator = rtl_simulator(text, tools, waves=waves, units=units, report=job.report)
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
