"""How many requests and beats of memory rows take that begin anywhere, in tables."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from baco.compiler.analysis.arrays import InterpolatedTables

#: Bytes of a row up to which requests are tabulated; longer ones are multiples of that.
LONGEST = 128


@functools.cache
def request_table(covers: bool = False) -> InterpolatedTables:
    """Mean requests and beats of a span: [which, log2 beat - 2, log2 largest request - 3, log2 step, bytes].

    The span begins at any multiple of the step, up to 128 bytes; beats are 4 to 64 bytes, requests 8 to 128. With `covers`
    requests bring the most of what is left, and beats without a wanted byte with it; the third entry is then how many of
    them have several beats.
    """
    if covers:
        return InterpolatedTables(_covering_table())
    sizes = np.arange(LONGEST + 1)
    table = np.zeros((2, 5, 5, 8, LONGEST + 1))
    for b in range(5):
        beat = 4 << b
        for m in range(5):
            chunks = _chunks(max(1, (8 << m) // beat))
            for s in range(8):
                offsets = np.arange(0, LONGEST, 1 << s)[:, None]
                first = offsets // beat
                count = (offsets + sizes - 1) // beat - first + 1
                count[:, 0] = 0
                table[0, b, m, s] = chunks[first % len(chunks), count].mean(0)
                table[1, b, m, s] = count.mean(0)
    return InterpolatedTables(table)


def _covering_table() -> NDArray[np.float64]:
    """`request_table` of requests that bring the most of what is left, the smallest of those that bring as much."""
    table = np.zeros((3, 5, 5, 8, LONGEST + 1))
    for b in range(5):
        for m in range(5):
            sizes = [size for size in (4 << b << n for n in range(6)) if size <= max(8 << m, 4 << b)]
            for s in range(8):
                starts = np.arange(0, LONGEST, 1 << s)[:, None]
                at = np.broadcast_to(starts, (len(starts), LONGEST + 1)).copy()
                left = np.broadcast_to(np.arange(LONGEST + 1), at.shape).copy()
                total = np.zeros((3, *at.shape))
                while left.any():
                    brought = np.stack([np.minimum(size - at % size, left) for size in sizes])
                    chosen = brought.argmax(0)  # the first of the largest
                    got = brought.max(0)
                    beats = np.array(sizes)[chosen] // (4 << b)
                    total += np.stack([got > 0, beats * (got > 0), (beats > 1) & (got > 0)])
                    at, left = at + got, left - got
                table[:, b, m, s] = total.mean(1)
    return table


@functools.cache
def _chunks(most: int) -> NDArray[np.int64]:
    """Requests that cover [first beat modulo `most`, number of beats]: aligned powers of two of at most `most` beats."""
    longest = LONGEST // 4 + 1
    found = np.zeros((most, longest + 1), dtype=np.int64)
    for first in range(most):
        for count in range(1, longest + 1):
            at, end = first, first + count
            while at < end:
                size = 1
                while size * 2 <= most and at % (size * 2) == 0 and at + size * 2 <= end:
                    size *= 2
                at += size
                found[first, count] += 1
    return found
