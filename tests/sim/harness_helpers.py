"""What tests of the harness share: commands of streams, and a stand-in for the Verilog of an accelerator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from baco.accel.isa import encode
from baco.sim.build import Waves, rtl_simulator
from baco.sim.engines.native import run_simulator
from baco.sim.job import Job, Simulation
from baco.sim.toolchain import toolchain
from tests.machines import SMALL

BASE = 0x80000000


def stub_verilog(dma_bits: int) -> str:
    """A stand-in for an accelerator (see the file) with a memory port of some width."""
    text = (Path(__file__).parent / "stub_accelerator.v").read_text()
    return f"`define BACO_DMA_BITS {dma_bits}\n{text}"


def run_stub(folder: Path, stream: str, *, waves: Waves = "", **settings: Any) -> Simulation:
    """Replay a stream on the stand-in."""
    path = folder / "stream.txt"
    path.write_text(stream)
    accelerator = settings.pop("accelerator", SMALL)
    program = rtl_simulator(stub_verilog(accelerator.dma_bits), toolchain(), waves=waves)
    job = Job(accelerator, stream=path, **settings)
    return run_simulator(program, "rtl", job, None, toolchain(), build_seconds=0.0)


def command(name: str, **fields: Any) -> str:
    """One `cmd` line of a stream."""
    one = encode(name, **fields)
    return f"cmd {one.funct:x} {one.rs1:x} {one.rs2:x}\n"
