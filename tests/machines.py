"""The machines that tests build Verilog of: few, since each build takes half a minute of a core.

A test that simulates RTL uses one of these; another machine only where the test is of just that (then it is built when
the test asks for it). `python -m pytest -n auto` builds them before its workers start, side by side.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed

from baco.accel.config import Accelerator, Features
from baco.accel.presets import load_accelerator
from baco.accel.system import System, SystemUnit
from baco.accel.verilog.generate import verilog
from baco.common.errors import BacoError
from baco.sim.build import functional_simulator, rtl_simulator
from baco.sim.toolchain import toolchain

#: The smallest with Gemmini's features, in both dataflows.
SMALL = Accelerator(name="small", dim=4, scratchpad_kib=16, accumulator_kib=8)
#: The same with functions of rows and the normaliser; a slice of a store is a whole row.
UNITS = Accelerator(
    name="units", dim=4, scratchpad_kib=16, accumulator_kib=16,
    features=Features(row_functions=True, normalizations=True),
)  # fmt: skip
#: A slice of a store is half a row; fewer of the other features.
WIDE = Accelerator(
    name="wide", dim=16, scratchpad_kib=64, accumulator_kib=64, dma_bits=64,
    features=Features(row_functions=True, normalizations=True, max_pool=False, loop_conv=False),
)  # fmt: skip
#: The preset, as published.
GEMMINI = load_accelerator("gemmini-default")
#: Everything on, the partial sums of Gemmini, half a row scaled in a cycle; small memories.
WHOLE = Accelerator(
    name="whole", dim=4, scratchpad_kib=1, accumulator_kib=1, partial_sum_bits=20, tile_rows=2, dma_bits=64, scale_lanes=2,
    features=Features(mvin_scale_acc=True, row_functions=True, requantization=True, packed_weights=True),
)  # fmt: skip
#: Without what the original and the timed model do not have.
WHOLE_PLAIN = WHOLE.replace(
    name="whole-plain",
    features=WHOLE.features.model_copy(
        update={"row_functions": False, "requantization": False, "packed_weights": False}
    ),
)
_SMALLER = Accelerator(name="smaller", dim=2, dataflow="WS", scratchpad_kib=1, accumulator_kib=1, dma_bits=64)
#: Units of a system: two arrays that differ, and a core without.
PAIR = System(
    "pair",
    (
        SystemUnit("whole-plain", WHOLE_PLAIN),
        SystemUnit("smaller", _SMALLER),
        SystemUnit("host", None),
    ),
)
#: The same with memory ports of three widths.
MIXED = System(
    "mixed",
    (
        SystemUnit("wide", WHOLE_PLAIN.replace(dma_bits=128)),
        SystemUnit("narrow", _SMALLER.replace(dma_bits=32)),
        SystemUnit("host", None),
        SystemUnit("smaller", _SMALLER),
    ),
)
#: Normaliser commands and functions of rows; what leaves in a cycle is a whole row of results.
NORMAL = Accelerator(
    name="normal", dim=4, scratchpad_kib=1, accumulator_kib=1, dma_bits=32, dma_max_bytes=32, tile_rows=4,
    features=Features(normalizations=True, row_functions=True),
)  # fmt: skip
#: Few of everything: queues and stations of one entry, one bank, half of the features; scales of columns, half a row at a time.
SCARCE = Accelerator(
    name="scarce", dim=8, dataflow="WS", scratchpad_kib=2, accumulator_kib=2, scratchpad_banks=1,
    accumulator_banks=1, dma_bits=32, dma_max_bytes=8, dma_requests=1, load_queue=1, execute_queue=1,
    store_queue=1, load_entries=1, execute_entries=2, store_entries=1, counters=1,
    features=Features(
        training_convs=False, first_layer=False, max_pool=False, mvin_scale=False, preload_d=False,
        requantization=True,
    ),
)  # fmt: skip
#: Nothing but products: the smallest array.
PLAIN = Accelerator(
    name="plain", dim=2, dataflow="OS", scratchpad_kib=1, accumulator_kib=1, scratchpad_banks=8,
    accumulator_banks=4, dma_bits=128, dma_max_bytes=128, counters=0, partial_sum_bits=32,
    features=Features(loop_ws=False, loop_conv=False, activations=False, accumulator_scale=False),
)  # fmt: skip

#: Elements in floating point, with tiles of two rows; and with few of everything.
FLOATS = Accelerator(
    name="floats", dim=4, dataflow="WS", scratchpad_kib=1, accumulator_kib=1, tile_rows=2, dma_bits=64,
    input_format="fp8-e4m3",
    features=Features(mvin_scale=False),
)  # fmt: skip
FEW_FLOATS = SCARCE.replace(
    name="few-floats", input_format="fp8-e5m2", dma_bits=64,
    features=Features(
        training_convs=False, first_layer=False, max_pool=False, mvin_scale=False, accumulator_scale=False,
    ),
)  # fmt: skip
#: The same with elements of 16 bits.
BFLOATS = FLOATS.replace(name="bfloats", input_format="bf16", scratchpad_kib=2)
#: Likewise, with loads of elements of blocks; a row of bfloat16 is two beats, one of bytes is one, one of 4 bits half of one.
BLOCKS = BFLOATS.replace(
    name="blocks", dma_bits=32, features=BFLOATS.features.model_copy(update={"block_weights": True})
)
#: Integers of 16 bits in both dataflows, with all that works on them; and with few of everything, results not scaled.
WIDE_INTS = Accelerator(
    name="wide-ints", dim=4, scratchpad_kib=2, accumulator_kib=1, tile_rows=2, dma_bits=64, scale_lanes=2,
    input_format="int16",
    features=Features(mvin_scale_acc=True),
)  # fmt: skip
FEW_INTS = SCARCE.replace(
    name="few-ints", input_format="int16", dma_bits=64,
    features=Features(training_convs=False, first_layer=False, mvin_scale=False, accumulator_scale=False),
)  # fmt: skip

#: The largest first, so that none is left over at the end.
MACHINES = (
    GEMMINI,
    WIDE,
    UNITS,
    WHOLE,
    NORMAL,
    SCARCE,
    SMALL,
    WHOLE_PLAIN,
    FLOATS,
    FEW_FLOATS,
    BFLOATS,
    BLOCKS,
    WIDE_INTS,
    FEW_INTS,
    PLAIN,
)


def build_all(report: Callable[[str], None]) -> None:
    """Build the simulators of all machines, two at a time; what the cache has is not built.

    What cannot be built is told and left to the tests that need it.
    """
    tools = toolchain()
    if not tools.verilator:
        return
    functional_simulator(tools, report=_silent)  # first: what all simulators share

    def build(machine: Accelerator) -> str:
        rtl_simulator(verilog(machine), tools, report=_silent)
        return machine.name

    with ThreadPoolExecutor(2) as pool:
        waiting = {pool.submit(build, machine): machine for machine in MACHINES}
        for done, job in enumerate(as_completed(waiting), 1):
            try:
                report(f"simulators: {done} of {len(MACHINES)}, {job.result()}")
            except BacoError as error:
                report(f"simulators: {done} of {len(MACHINES)}, {waiting[job].name} failed: {error.message}")


def _silent(text: str) -> None:
    pass


if __name__ == "__main__":
    build_all(lambda text: print(text, file=sys.stderr))
