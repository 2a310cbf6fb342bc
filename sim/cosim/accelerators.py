"""Random accelerators that stretch the hardware's parameters."""

from __future__ import annotations

import random

from baco.accel.config import Accelerator, Features
from baco.accel.verilog.generate import rtl_problems

#: Side of the array of the n-th configuration, round and round: small ones simulate faster and reach edges sooner.
_DIMS = (4, 2, 8, 16, 4, 8, 32, 2, 16, 4)
#: Mostly small memories: rows are used over and over, and streams see wrap-around and ends.
_KIB = (1, 1, 2, 4, 16)


def random_accelerator(seed: int, index: int) -> Accelerator:
    """The `index`-th configuration of a seed; one that our RTL can be built for."""
    r = random.Random(f"{seed}/accelerator/{index}")
    while True:
        accelerator = _draw(r, index)
        if not rtl_problems(accelerator):
            return accelerator


def _draw(r: random.Random, index: int) -> Accelerator:
    dim = 64 if index % 40 == 39 else _DIMS[index % len(_DIMS)]
    dma_bits = r.choice((32, 64, 128, 256, 512))
    features = {
        name: r.random() < 0.8
        for name in Features.model_fields
        if name
        not in ("normalizations", "row_functions", "requantization", "packed_weights", "block_weights")
    }
    if index % 5 == 0:
        features = dict.fromkeys(features, True)
    features["row_functions"] = index % 3 == 0
    features["mvin_scale_acc"] = r.random() < 0.5
    features["normalizations"] = index % 4 == 1
    if features["normalizations"]:
        features |= dict.fromkeys(("activations", "accumulator_scale", "read_small_width"), True)
    features["requantization"] = index % 5 in (0, 3) and not features["normalizations"]
    if features["requantization"]:
        features |= dict.fromkeys(("accumulator_scale", "read_small_width"), True)
    features["packed_weights"] = index % 4 in (0, 3)
    # results that nothing can read make a pointless accelerator
    features["read_small_width"] |= not features["read_full_width"]
    scale = max(1, dim * dim // 256)
    return Accelerator(
        name=f"random-{index}",
        dim=dim,
        dataflow="both" if index % 5 == 0 else r.choice(("both", "both", "WS", "WS", "OS")),
        scratchpad_kib=r.choice(_KIB) * scale,
        accumulator_kib=r.choice(_KIB) * scale,
        scratchpad_banks=r.choice((1, 2, 4, 8)),
        accumulator_banks=r.choice((1, 2, 4)),
        partial_sum_bits=r.choice((32, 20, 20, r.randint(12, 32))),
        tile_rows=r.choice([n for n in (1, 1, 2, 4, dim) if dim % n == 0]),
        dma_bits=dma_bits,
        dma_max_bytes=r.choice([n for n in (8, 16, 32, 64, 128) if 8 * n >= dma_bits]),
        dma_requests=r.choice((1, 2, 3, 16, 64)),
        load_queue=r.choice((1, 2, 8)),
        execute_queue=r.choice((1, 2, 3, 8)),
        store_queue=r.choice((1, 2, 5)),
        load_entries=r.choice((1, 2, 5, 8)),
        execute_entries=r.choice((2, 3, 8, 16)),
        store_entries=r.choice((1, 2, 4)),
        counters=r.choice((0, 1, 8, 8)),
        scale_lanes=r.choice((1, 2, 4, 8, 128, 128)),
        features=Features(**features),
    )
