"""Stencils as convolutions, and pixels side by side as channels, so that an image of one channel fills the array."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from baco.workloads.pipelines.linear import IntegerStencil

#: Channels that pixels are packed into at most.
_MOST_CHANNELS = 128


@dataclass(frozen=True)
class Packing:
    """Neighbouring pixels of a row as channels of one.

    Attributes:
        pixels: that are one; 1: as they are.
        taps: such groups of pixels that a result reads, along a row.
    """

    pixels: int
    taps: int


def best_packing(stencil: IntegerStencil, dim: int) -> Packing:
    """How many pixels to pack for the fewest passes through an array of dim × dim.

    A pass takes one group of pixels of `pixels * channels` numbers through as many weights; results of a group need
    1 + ceil((columns - 1) / pixels) groups.
    """
    _, columns, given, made = stencil.kernel.shape
    width = stencil.base.shape[1]

    def passes(pixels: int) -> float:
        taps = 1 + -(-(columns - 1) // pixels)
        tiles = -(-pixels * given // dim) * -(-pixels * made // dim)
        return float(width // pixels * taps * tiles)

    divisors = [p for p in range(1, width + 1) if width % p == 0 and p * max(given, made) <= _MOST_CHANNELS]
    best = min(divisors, key=lambda p: (passes(p), p), default=1)
    return Packing(best, 1 + -(-(columns - 1) // best))


def packed_kernel(kernel: np.ndarray, packing: Packing) -> np.ndarray:
    """Weights [made, given, rows, taps] of a convolution of packed pixels.

    Every channel has the kernel's own taps, each at the distance between its pixel and that of the result: they are repeated, not
    spread over the channels.

    Args:
        kernel: [rows, columns, channels read, channels made].
    """
    rows, columns, given, made = kernel.shape
    pixels, taps = packing.pixels, packing.taps
    weights = np.zeros((pixels, made, pixels, given, rows, taps), kernel.dtype)
    for target in range(pixels):
        for tap in range(taps):
            for source in range(pixels):
                column = tap * pixels + source - target
                if 0 <= column < columns:
                    weights[target, :, source, :, :, tap] = kernel[:, column].transpose(2, 1, 0)
    return weights.reshape(pixels * made, pixels * given, rows, taps)


def depthwise(kernel: np.ndarray) -> np.ndarray | None:
    """Weights [channels, 1, rows, columns] where every channel makes its own; None for kernels that mix them."""
    given, made = kernel.shape[2:]
    if given != made:
        return None
    own = np.stack([kernel[:, :, c, c] for c in range(given)])
    mixed = np.abs(kernel).sum() - np.abs(own).sum()
    return None if mixed else own[:, None]


def separated(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """A column and a row of whole numbers whose product the matrix is; None where there are none, or nothing is saved."""
    rows, columns = kernel.shape
    if min(rows, columns) < 2 or not kernel.any():
        return None
    at = np.argmax(np.abs(kernel).sum(1) > 0)
    row = kernel[at]
    row = row // math.gcd(*(int(one) for one in row))
    lead = int(np.argmax(row != 0))
    column = kernel[:, lead]
    if (column % row[lead]).any():
        return None
    column = column // row[lead]
    return (column, row) if np.array_equal(np.outer(column, row), kernel) else None
