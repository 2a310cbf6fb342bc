"""Numbers of networks on arrays of int16: how many bits tensors and weights get, so that no sum can leave 32.

An activation that trained weights are multiplied by has 16 bits: the largest magnitude that was seen is half of their range, so that what
other inputs make up to twice as large is not cut off. Weights get as many bits as the range leaves: for every output channel, the magnitudes of its weights times the largest of an activation, with that of its bias, are below
2^31. Where both operands of a product are activations, of K terms, each is at most sqrt(2^30 / K) in magnitude, so that half of the range
is left to what is added; the host core rounds such, since stores of the array saturate at 16 bits.
"""

from __future__ import annotations

import math

import numpy as np

from baco.compiler.ops.arithmetic import float32
from baco.workloads.encoding import WideEncoding

#: The largest element that numbers are rounded to; stores of the array may have the least of 16 bits, a larger magnitude.
MOST = (1 << 15) - 1
REACH = 1 << 15
#: How much larger than seen what is stored in 16 bits may be.
HEADROOM = 2
#: What sums must stay below, and the part of that for products of two activations.
SUMS, PRODUCTS = 1 << 31, 1 << 30
#: More than a float32 scale is rounded by.
_MARGIN = 1 + 2.0**-20


def operand_limit(depth: int) -> int:
    """Largest magnitude of both operands of a product of activations over so many terms."""
    return min(MOST, math.isqrt(PRODUCTS // depth))


def wide_encoding(largest: float, limit: int = MOST) -> WideEncoding:
    """Of activations up to `largest` in magnitude, as whole numbers up to `limit`; of 16 bits with room beyond."""
    steps = limit / HEADROOM if limit == MOST else limit
    return WideEncoding(float32(largest / steps) if largest else 1.0, 0, -limit, limit)


def reach(encoding: WideEncoding) -> int:
    """The largest magnitude that an element may have: those of 16 bits may have been stored by the array."""
    return REACH if encoding.high == MOST else encoding.high


def weights_encoding(
    largest: float, magnitudes: np.ndarray, offsets: np.ndarray, terms: int, read: int, scale: float
) -> WideEncoding:
    """Of weights, with which no sum leaves 32 bits.

    Args:
        largest: of their magnitudes.
        magnitudes, offsets: of every sum, the sum of its weights' magnitudes, and what is added to it (real numbers).
        terms: of a sum.
        read, scale: largest magnitude and scale of what they are multiplied by.
    """
    # each weight is rounded by half a step at most, what is added likewise
    room = SUMS - 1 - (read * terms + 1) / 2
    if room <= 0 or not largest:
        return WideEncoding(float32(largest / MOST) if largest else 1.0, 0, -MOST, MOST)
    least = float((magnitudes * read + np.abs(offsets) / scale).max()) / room * _MARGIN
    return WideEncoding(float32(max(largest / MOST, least)), 0, -MOST, MOST)
