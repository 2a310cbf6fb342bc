"""The accelerators of the measured sets: small to large, with narrow and wide ports, slow and fast memory."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from baco.accel.config import Accelerator

__all__ = ["SETS", "SetName", "accelerators_of"]

#: Sets of measurements: to fit physical constants, to train what learns, to test; to fit and to test with several groups
#: at once; many schedules of one layer on one accelerator, to learn which of them is faster.
SetName = Literal["micro", "train", "test", "packed", "packed-test", "ranking"]
SETS: tuple[SetName, ...] = ("micro", "train", "test", "packed", "packed-test", "ranking")

_COLUMNS = ("dim", "scratchpad_kib", "accumulator_kib", "dataflow", "dma_bits", "dram_bytes_per_cycle")
#: Sizes, dataflow, port and memory; what differs from the defaults beside.
_TEST: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((4, 16, 8, "both", 64, 4.0), {"load_entries": 4}),
    ((4, 64, 16, "WS", 128, 8.0), {}),
    ((8, 32, 16, "WS", 64, 8.0), {"dma_max_bytes": 32}),
    ((8, 128, 32, "both", 128, 16.0), {"execute_entries": 8, "store_queue": 4}),
    ((16, 256, 128, "both", 128, 8.0), {}),
    ((16, 128, 32, "WS", 256, 16.0), {"load_queue": 4, "load_entries": 16}),
    ((32, 256, 64, "WS", 128, 8.0), {"execute_queue": 4}),
    ((32, 512, 128, "both", 256, 16.0), {"store_entries": 8}),
)
_TRAIN: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((4, 32, 8, "both", 128, 8.0), {}),
    ((4, 16, 16, "WS", 64, 8.0), {"store_queue": 4}),
    ((4, 128, 32, "both", 128, 4.0), {"load_entries": 16}),
    ((8, 64, 16, "both", 128, 8.0), {}),
    ((8, 32, 32, "WS", 64, 4.0), {"execute_entries": 32}),
    ((8, 64, 64, "WS", 256, 16.0), {"load_queue": 4}),
    ((16, 128, 64, "both", 128, 16.0), {"load_entries": 4}),
    ((16, 512, 64, "WS", 128, 8.0), {}),
    ((16, 64, 32, "both", 64, 8.0), {"store_entries": 8}),
    ((32, 128, 64, "WS", 256, 8.0), {}),
    ((32, 256, 128, "both", 128, 16.0), {"execute_entries": 8}),
)
#: For groups that share a pass, which only weights that stay do.
_PACKED: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((4, 32, 16, "WS", 128, 8.0), {}),
    ((8, 64, 32, "WS", 128, 8.0), {}),
    ((16, 64, 64, "WS", 128, 8.0), {}),
    ((16, 256, 32, "WS", 128, 16.0), {"load_entries": 16}),
    ((32, 128, 128, "WS", 128, 8.0), {}),
    ((64, 256, 128, "WS", 128, 8.0), {}),
)
_PACKED_TEST: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((4, 128, 32, "WS", 128, 8.0), {}),
    ((8, 32, 16, "WS", 128, 8.0), {}),
    ((16, 128, 32, "WS", 128, 8.0), {}),
    ((32, 256, 64, "WS", 128, 16.0), {"execute_entries": 8}),
)
_RANKING: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((4, 32, 16, "both", 64, 8.0), {}),
    ((8, 64, 32, "both", 128, 16.0), {"load_entries": 4}),
    ((8, 128, 16, "WS", 128, 4.0), {"store_queue": 4}),
    ((16, 128, 64, "WS", 128, 8.0), {}),
    ((16, 256, 32, "both", 256, 16.0), {"execute_entries": 8}),
    ((16, 64, 64, "both", 64, 4.0), {"load_entries": 16}),
    ((32, 256, 64, "both", 256, 8.0), {}),
    ((32, 128, 128, "WS", 128, 16.0), {"load_queue": 4}),
)
#: One accelerator a side, and at side 16 others that differ in one thing each.
_MICRO: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "micro-dim-4": ((4, 64, 16, "both", 128, 8.0), {}),
    "micro-dim-8": ((8, 128, 32, "both", 128, 8.0), {}),
    "micro-dim-16": ((16, 256, 64, "both", 128, 8.0), {}),
    "micro-dim-32": ((32, 512, 128, "both", 128, 8.0), {}),
    "micro-port-64": ((16, 256, 64, "both", 64, 8.0), {}),
    "micro-port-256": ((16, 256, 64, "both", 256, 8.0), {}),
    "micro-dram-4": ((16, 256, 64, "both", 128, 4.0), {}),
    "micro-dram-16": ((16, 256, 64, "both", 128, 16.0), {}),
    "micro-entries": ((16, 256, 64, "both", 128, 8.0), {"load_entries": 4, "execute_entries": 8}),
}


@cache
def accelerators_of(name: SetName) -> dict[str, Accelerator]:
    """The accelerators of a set by name; no configuration is in two sets."""
    drawn = {
        "train": _TRAIN, "test": _TEST, "packed": _PACKED, "packed-test": _PACKED_TEST, "ranking": _RANKING,
    }  # fmt: skip
    if name == "micro":
        rows = list(_MICRO.items())
    else:
        rows = [(f"{name}-{n}", row) for n, row in enumerate(drawn[name], 1)]
    return {
        label: Accelerator(name=label, **dict(zip(_COLUMNS, sizes, strict=True)), **others)
        for label, (sizes, others) in rows
    }
