"""A SoC in Verilog: the core CVA6, the accelerator on its extension port, and a timed memory on its AXI4 port."""

from __future__ import annotations

import time

from baco.accel.verilog.soc import check_soc, soc_verilog
from baco.common.errors import InputError
from baco.sim.build import rtl_simulator
from baco.sim.engines.native import load_program, run_simulator
from baco.sim.job import Job, Simulation
from baco.sim.toolchain import toolchain

#: Where the core caches memory, and runs programs: `MEMORY_BASE` and `MEMORY_BYTES` of accel/rtl/baco_core.sv.
_BASE, _BYTES = 0x80000000, 0x80000000


class SocEngine:
    """Every cycle of the Verilog of core, accelerator and what lies between."""

    def check(self, job: Job) -> None:
        """As `Engine.check`. Raises InfeasibleError for a configuration that the Verilog does not cover, InputError without the core."""
        check_soc(job.accelerator)
        if job.program is None and job.stream is not None:
            raise InputError("a SoC runs programs, not streams of commands", hint="take --engine rtl")
        if job.recording.waves is not None:
            raise InputError(
                "a SoC records no waveforms", hint="take --engine rtl for those of the accelerator"
            )
        if job.memory.base != _BASE or job.memory.size_bytes > _BYTES:
            raise InputError(f"main memory of a SoC begins at {_BASE:#x}, with {_BYTES >> 30} GiB at most")

    def run(self, job: Job) -> Simulation:
        """As `Engine.run`."""
        elf = load_program(job)
        tools = toolchain(job.tools)
        text = soc_verilog(job.accelerator)
        start = time.perf_counter()
        simulator = rtl_simulator(text, tools, soc=True, report=job.report)
        built = time.perf_counter() - start
        return run_simulator(simulator, "soc", job, elf, tools, build_seconds=built)
