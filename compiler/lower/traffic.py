"""Cycles that the accelerator's memory port takes to move rows of a tensor."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from accel.config import Accelerator

__all__ = ["MEMORY_LATENCY", "bytes_per_cycle", "read_cycles", "write_cycles"]

Numbers = NDArray[np.float64]
#: Cycles from a read request to its data, on the way and in memory. No source fixes one; the simulator's default is 60.
MEMORY_LATENCY = 66.0
#: Bytes of a row that one load command moves at most, on every implementation.
_MOST = 64


def bytes_per_cycle(accelerator: Accelerator) -> float:
    """What memory, or the port if that is narrower, moves in a cycle."""
    return min(accelerator.dram_bytes_per_cycle, accelerator.dma_bits / 8)


def write_cycles(accelerator: Accelerator, rows: Numbers, columns: Numbers) -> Numbers:
    """Cycles to store `rows` rows of `columns` bytes."""
    return rows * columns / bytes_per_cycle(accelerator)


def read_cycles(accelerator: Accelerator, rows: Numbers, columns: Numbers, pitch: int) -> Numbers:
    """Cycles to load `rows` rows of `columns` bytes, which lie `pitch` bytes apart, in commands of up to 64 bytes a row.

    Every row is fetched in naturally aligned requests of powers of two, so where a row begins decides how many it takes;
    where they are small, the number in flight limits the rate. (The original rounds requests up instead, timing page,
    section 6, which costs about as much.)
    """
    whole = np.ceil(columns).astype(np.int64)
    wide, rest = whole // _MOST, whole % _MOST
    total: Numbers = np.zeros_like(rows, dtype=np.float64)
    # neighbouring tiles begin a tile's width apart, neighbouring rows a pitch
    for step in np.unique(np.gcd(np.gcd(whole, pitch), _MOST)):
        chosen = np.gcd(np.gcd(whole, pitch), _MOST) == step
        table = _row_cycles(accelerator.dma_bits // 8, accelerator.dma_max_bytes, accelerator.dma_requests,
                            bytes_per_cycle(accelerator), int(step))  # fmt: skip
        total[chosen] = (rows * (wide * table[_MOST] + table[rest]))[chosen]
    return total


@functools.cache
def _row_cycles(beat: int, most: int, in_flight: int, rate: float, step: int) -> Numbers:
    """Mean cycles to fetch 0 to 64 bytes that begin at any multiple of `step`."""
    cycles = np.zeros(_MOST + 1)
    for useful in range(1, _MOST + 1):
        offsets = range(0, _MOST, step)
        moved = [_requests(beat, most, offset, useful) for offset in offsets]
        total, count = sum(sum(one) for one in moved), sum(len(one) for one in moved)
        # bandwidth, or what is in flight while memory answers
        speed = min(rate, in_flight * total / count / MEMORY_LATENCY)
        cycles[useful] = total / len(moved) / speed
    return cycles


def _requests(beat: int, most: int, offset: int, useful: int) -> list[int]:
    """Sizes of the requests for `useful` bytes at an offset: aligned powers of two without a beat that nobody wants."""
    sizes = []
    at, end = offset // beat * beat, -(-(offset + useful) // beat) * beat
    while at < end:
        size = beat
        while size * 2 <= most and at % (size * 2) == 0 and at + size * 2 <= end:
            size *= 2
        sizes.append(size)
        at += size
    return sizes
