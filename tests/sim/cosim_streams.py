"""What tests of co-simulation share: commands for the array of 4 x 4, what streams do, and Verilog with planted bugs."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import fields
from importlib import resources
from pathlib import Path

import numpy as np

from baco.accel.config import Accelerator, Features
from baco.accel.input_format import INPUT_FORMATS
from baco.accel.isa import IDENTITY_SCALE, Command, encode
from baco.sim.cosim.stream import BASE, MEMORY_BYTES, Item, Stream, group_items
from tests.gemmini.config import GemminiConfig
from tests.gemmini.float_machine import FloatGemmini
from tests.gemmini.machine import NumpyGemmini

ACC = 1 << 31
NOWHERE = 2**32 - 1
CONFIG_EX = encode("CONFIG_EX", dataflow=1, a_stride=1, c_stride=1)
CONFIG_OS = encode("CONFIG_EX", dataflow=0, a_stride=1, c_stride=1)
CONFIG_LD = encode("CONFIG_LD", pixel_repeats=1, block_stride=4, scale=IDENTITY_SCALE, stride=4)
CONFIG_ST = encode("CONFIG_ST", stride=4, acc_scale=IDENTITY_SCALE)


def load(address: int, local: int) -> Command:
    """Of a block."""
    return encode("MVIN", address=address, local=local, cols=4, rows=4)


def preload(b: int, c: int, c_cols: int = 4) -> Command:
    """Of a block, or of zeros."""
    return encode("PRELOAD", bd=b, bd_cols=4, bd_rows=4, c=c, c_cols=c_cols, c_rows=4)


def compute(a: int, bd: int, kind: str = "PRELOADED") -> Command:
    """Of blocks."""
    return encode(f"COMPUTE_{kind}", a=a, a_cols=4, a_rows=4, bd=bd, bd_cols=4, bd_rows=4)


def stream_of(items: Sequence[Item], name: str = "s") -> Stream:
    """A stream with data in memory."""
    return Stream(name, group_items(items), {"data": 1})


def faulty_sources(folder: Path, *faults: tuple[str, str, str]) -> Path:
    """The Verilog, where in each module named what stands there once is something else."""
    sources = folder / "rtl"
    shutil.copytree(str(resources.files("baco.accel") / "rtl"), sources)
    for name, right, wrong in faults:
        path = sources / f"{name}.v"
        text = path.read_text()
        assert text.count(right) == 1
        path.write_text(text.replace(right, wrong))
    return sources


def broken_sources(folder: Path) -> Path:
    """The Verilog with two bugs: writes do not wait for older reads of the same rows by other units, and CONFIG_EX takes
    an activation that is not built."""
    return faulty_sources(
        folder,
        ("baco_reservation", "? op_write[i] || e_write[e][j]", "? e_write[e][j]"),
        ("baco_operands", "whole && rs1[4:3] > 2'd1", "whole && rs1[4:3] > 2'd2"),
    )


def synthesised_sources(folder: Path) -> Path:
    """The Verilog as synthesis tools read it, which define SYNTHESIS: rows of products, no clock enables in the array."""
    sources = folder / "rtl"
    shutil.copytree(str(resources.files("baco.accel") / "rtl"), sources)
    for path in sources.glob("*.v"):
        path.write_text("`define SYNTHESIS\n" + path.read_text())
    return sources


#: Bits kept and set in each byte of main memory, of elements in floating point.
_NUMBERS = ((0xFF, 0), (0xBF, 0), (0x8F, 0x30), (0x81, 0x38))


def memory_contents(seed: int, *, floats: bool = False) -> np.ndarray:
    """What sim/cpp/cosim.h says about the key `data`."""
    kept, ones = _NUMBERS[seed >> 20 & 3 if floats else 0]
    with np.errstate(over="ignore"):
        z = (np.arange(1, MEMORY_BYTES + 1, dtype=np.uint64) + np.uint64(seed)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return ((z ^ z >> np.uint64(31)) >> np.uint64(56)).astype(np.uint8) & np.uint8(kept) | np.uint8(ones)


def numpy_model(accelerator: Accelerator, stream: Stream) -> NumpyGemmini:
    """The tests' model of an accelerator, after a stream."""
    flags = {name: getattr(accelerator.features, name) for name in Features.model_fields}
    flags |= {"ws": "WS" in accelerator.dataflows, "os": "OS" in accelerator.dataflows}
    known = {one.name for one in fields(GemminiConfig)}
    values = {name: getattr(accelerator, name) for name in known if hasattr(accelerator, name)}
    values["input_format"] = INPUT_FORMATS.index(accelerator.input_format)
    floats = accelerator.floating
    config = GemminiConfig(**values, **{name: flag for name, flag in flags.items() if name in known})
    kind = FloatGemmini if floats else NumpyGemmini
    model = kind(config, memory_contents(int(stream.settings["data"]), floats=floats), BASE)
    for item in stream.items:
        if item is not None:
            model.execute(*item)
    return model
