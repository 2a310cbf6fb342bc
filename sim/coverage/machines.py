"""The accelerators that coverage is measured on: together they have every part of the Verilog, and each way to build it."""

from __future__ import annotations

from baco.accel.config import Accelerator, Features

#: Everything that goes together, in both dataflows; half a row is scaled in a cycle.
_WHOLE = Accelerator(
    name="whole", dim=4, scratchpad_kib=1, accumulator_kib=1, partial_sum_bits=20, tile_rows=2, dma_bits=64, scale_lanes=2,
    features=Features(mvin_scale_acc=True, row_functions=True, requantization=True, packed_weights=True),
)  # fmt: skip
#: Local memories in which loops are long, and much of everything under way.
_LARGE = Accelerator(
    name="large", dim=2, dataflow="WS", scratchpad_kib=16, accumulator_kib=16, dma_bits=64, dma_requests=64,
    load_queue=16, execute_queue=16, store_queue=16, load_entries=32, execute_entries=32, store_entries=32,
    features=Features(row_functions=True),
)  # fmt: skip
#: Normaliser commands, of long rows, too; what leaves in a cycle is a whole row of results.
_NORMAL = Accelerator(
    name="normal", dim=4, scratchpad_kib=16, accumulator_kib=16, dma_bits=32, dma_max_bytes=32,
    features=Features(normalizations=True, row_functions=True),
)  # fmt: skip
#: Few of everything: queues and stations of one entry, one bank, one dataflow, half of the features.
_SCARCE = Accelerator(
    name="scarce", dim=2, dataflow="WS", scratchpad_kib=1, accumulator_kib=1, scratchpad_banks=1,
    accumulator_banks=1, dma_bits=32, dma_max_bytes=8, dma_requests=1, load_queue=1, execute_queue=1,
    store_queue=1, load_entries=1, execute_entries=2, store_entries=1, counters=1,
    features=Features(training_convs=False, depthwise_convs=False, first_layer=False, max_pool=False, mvin_scale=False,
                      preload_d=False, read_full_width=False, write_to_scratchpad=False),
)  # fmt: skip
#: Nothing but products, and many banks.
_PLAIN = Accelerator(
    name="plain", dim=2, dataflow="OS", scratchpad_kib=1, accumulator_kib=1, scratchpad_banks=8,
    accumulator_banks=4, dma_bits=128, dma_max_bytes=128, counters=0, partial_sum_bits=32, tile_rows=2,
    features=Features(loop_ws=False, loop_conv=False, activations=False, accumulator_scale=False, preload_d=False),
)  # fmt: skip
#: Results leave as sums only.
_RAW = Accelerator(
    name="raw", dim=2, scratchpad_kib=1, accumulator_kib=1, dma_bits=32, dma_max_bytes=16, counters=0,
    features=Features(read_small_width=False),
)  # fmt: skip

#: Floating point of both kinds.
_FLOATS = Accelerator(
    name="floats", dim=4, dataflow="WS", scratchpad_kib=1, accumulator_kib=1, tile_rows=2, dma_bits=64,
    input_format="fp8-e4m3",
    features=Features(mvin_scale=False),
)  # fmt: skip
_MORE_FLOATS = _FLOATS.replace(
    name="more-floats", dim=2, input_format="fp8-e5m2",
    features=Features(max_pool=False, mvin_scale=False, accumulator_scale=False),
)  # fmt: skip
_WIDE_FLOATS = _FLOATS.replace(
    name="wide-floats", dim=2, input_format="bf16", features=Features(mvin_scale=False, block_weights=True)
)
#: Integers of 16 bits.
_WIDE_INTS = Accelerator(
    name="wide-ints", dim=2, scratchpad_kib=1, accumulator_kib=1, tile_rows=2, dma_bits=64, input_format="int16",
    features=Features(mvin_scale_acc=True),
)  # fmt: skip

COVERED = (_WHOLE, _LARGE, _NORMAL, _SCARCE, _PLAIN, _RAW, _FLOATS, _MORE_FLOATS, _WIDE_FLOATS, _WIDE_INTS)
