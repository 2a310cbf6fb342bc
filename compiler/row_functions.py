"""Tables, softmax and normalisation in integers: the one definition that networks, kernels, host and accelerator share.

Everything is integer arithmetic on int8 elements and parameters that were rounded once, here; >> is arithmetic (floor), //
rounds down. Errors are those of the results against float64 arithmetic on the same int8 elements, in steps of the result:

* a table is exact: each of its 256 entries is the rounded result;
* softmax: at most 1 in random rows of up to 3072 elements and where one element is far from all others, as measured. The
  bound grows with a row's length n, by n / 1000: exponentials are up to half a 65535th off, and all could be to one side;
* normalisation: at most 1, however rows of 64 and more elements lie. `epsilon` is an integer of at least ((n + 1) / 256)**2
  (`normalise_parameters`): rows of a few elements and a minute eps see that one, and so do those where all elements but one
  are equal.
"""

from __future__ import annotations

import math

import numpy as np

Array = np.ndarray

#: Longest row of the accelerator's row functions.
MOST_COLUMNS = 2**16 - 1
#: Bits of a softmax's numerator, and most zeros behind them.
_NUMERATOR_BITS, _NUMERATOR_SHIFT = 32, 15
#: The accelerator's variance (times the square of a row's length) and epsilon are below 2**48.
VARIANCE_BITS = 48
#: Bits of the multiplier of a product of elements.
PRODUCT_BITS = 12
#: Bits of gains and offsets, signs included, and fraction bits of offsets.
GAIN_BITS, OFFSET_FRACTION = 16, 7
#: Fraction bits of normalised elements, which are limited to 20 bits with their sign.
_NORMAL_FRACTION, _NORMAL_BITS = 12, 20
#: Shifts of a normalisation's results.
_LEAST_SHIFT, _MOST_SHIFT = 7, 31
#: Fraction bits of the root; with the 28 of the reciprocal's dividend they leave 20 in the reciprocal, 8 more than needed.
_ROOT_FRACTION, _DIVIDEND = 8, 28


def exponentials(scale: float) -> Array:
    """int32 [256], 0 to 65535: e[d] = round(65535 * exp(-d * scale)) of an element `d` steps of `scale` below the largest."""
    return np.asarray(np.rint(np.exp(-np.arange(256) * scale) * 65535), dtype=np.int32)


def softmax_numerator(scale: float) -> int:
    """2**24 / scale for results of a scale, rounded to 32 bits with at most 15 zeros behind them, and limited to those."""
    exact = min(2.0**24 / scale, 2.0 ** (_NUMERATOR_BITS + _NUMERATOR_SHIFT))
    shift = min(max(math.frexp(exact)[1] - _NUMERATOR_BITS, 0), _NUMERATOR_SHIFT)
    kept: int = min(round(exact / 2**shift), 2**_NUMERATOR_BITS - 1)
    return kept << shift


def numerator_parts(numerator: int) -> tuple[int, int] | None:
    """(n, shift) of a numerator n * 2**shift, n of 32 bits and the shift at most 15; None if there are none."""
    shift = max(numerator.bit_length() - _NUMERATOR_BITS, 0)
    if shift > _NUMERATOR_SHIFT or numerator >> shift << shift != numerator:
        return None
    return numerator >> shift, shift


def softmax(x: Array, takes_part: Array | None, table: Array, numerator: int) -> Array:
    """Softmax of the last dimension.

    For the elements of a row that take part, with e[i] = table[max(x) - x[i]] and S = sum of e:

        inverse = min(numerator // S, 65535), 0 without any element (S is below 2**32 for up to `MOST_COLUMNS` elements)
        y[i] = min((e[i] * inverse + 2**23) >> 24, 127); 0 of elements that do not take part

    Args:
        x: int8 [..., n].
        takes_part: truths of the shape of x; None: all.
        table: [256], `exponentials`.
        numerator: `softmax_numerator`.

    Returns int8 of the shape of x.
    """
    wide = x.astype(np.int64)
    part = np.ones(x.shape, bool) if takes_part is None else takes_part
    top = np.where(part, wide, -128).max(-1, keepdims=True)
    e = np.where(part, table.astype(np.int64)[np.where(part, top - wide, 0)], 0)
    inverse = np.minimum(numerator // np.maximum(e.sum(-1, keepdims=True), 1), 65535)
    return np.asarray(np.minimum((e * inverse + (1 << 23)) >> 24, 127), dtype=np.int8)


def normalise_parameters(
    gain: Array, offset: Array, scale_in: float, scale_out: float, count: int, eps: float
) -> tuple[Array, Array, int, int]:
    """Integers for (x - mean) / sqrt(variance + eps) * gain + offset over rows of `count` elements.

        gain = round(gain / scale_out * 2**(shift - 12)), |gain| < 2**15 by the largest shift of up to 31
        offset = round(offset / scale_out * 2**7), limited to 16 bits
        epsilon = round(count**2 * eps / scale_in**2), limited to what keeps `normalise` within 62 bits, and at least
            (count + 1)**2 / 2**16: then A and B below are never limited, which would not cancel in a row of equal elements

    Args:
        gain, offset: float64.
        scale_in, scale_out: of elements and results.

    Returns (gain, offset, shift, epsilon), the first two int32 of their shapes. Raises ValueError where the gain needs a
    shift below 7.
    """
    factors = gain / scale_out
    largest = float(np.abs(factors).max()) or 2.0**-60
    shift = min(GAIN_BITS - 1 + _NORMAL_FRACTION - math.frexp(largest)[1], _MOST_SHIFT)
    if round(math.ldexp(largest, shift - _NORMAL_FRACTION)) >= 1 << (GAIN_BITS - 1):
        shift -= 1  # rounded up to a power of two
    if shift < _LEAST_SHIFT:
        raise ValueError("the gain is too large for the scale of the result")
    gains = np.rint(factors * 2.0 ** (shift - _NORMAL_FRACTION)).astype(np.int32)
    most = 1 << (GAIN_BITS - 1)
    offsets = np.clip(np.rint(offset / scale_out * 2**OFFSET_FRACTION), -most, most - 1).astype(np.int32)
    least = -(-((count + 1) ** 2) // 2 ** (2 * _ROOT_FRACTION))
    epsilon = min(max(round(count**2 * eps / scale_in**2), least), 2**62 - (count**2 << 14) - 1)
    return gains, offsets, shift, epsilon


def normalise(
    x: Array, gain: Array, offset: Array, shift: int, epsilon: int, *, centre: bool, axes: int = 1
) -> Array:
    """Layer norm (`centre`) or RMS norm over the last `axes` dimensions, n elements a row.

    With S = sum of x if `centre` else 0, Q = sum of x*x:

        V = n*Q - S*S + epsilon; root = max(floor(sqrt(V * 2**16)), 1)
        A = min(n * 2**28 // root, 2**28 - 1); B = sign(S) * min(|S| * 2**28 // root, 2**36 - 1)
        t = (x*A - B + 2**7) >> 8, limited to 20 bits with sign (12 fraction bits)
        y = sat8((t * gain + offset * 2**(shift - 7) + 2**(shift - 1)) >> shift)

    Args:
        x: int8 [..., n elements], n at most 2**22.
        gain, offset: 16 bits with sign; broadcast to x.
        shift: 7 to 31.
        epsilon: `normalise_parameters`.

    Returns int8 of the shape of x.
    """
    wide = x.astype(np.int64)
    over = tuple(range(-axes, 0))
    total = wide.sum(over, keepdims=True) if centre else np.zeros((1,) * x.ndim, np.int64)
    squares = (wide * wide).sum(over, keepdims=True)
    return normalise_by(x, total, squares, gain, offset, shift, epsilon, count=math.prod(x.shape[-axes:]))


def normalise_by(
    x: Array,
    total: Array,
    squares: Array,
    gain: Array,
    offset: Array,
    shift: int,
    epsilon: int,
    *,
    count: int,
) -> Array:
    """`normalise` with the sums S and Q of the rows, int64 with extents of 1 where x has its row of `count` elements."""
    wide = x.astype(np.int64)
    variance = count * squares - total * total + epsilon
    root = np.maximum(variance_root(variance), 1)
    factor = np.minimum((count << _DIVIDEND) // root, (1 << _DIVIDEND) - 1)
    mean = np.sign(total) * np.minimum((np.abs(total) << _DIVIDEND) // root, (1 << 36) - 1)
    limit = 1 << (_NORMAL_BITS - 1)
    t = np.clip((wide * factor - mean + (1 << 7)) >> 8, -limit, limit - 1)
    shifted = offset.astype(np.int64) << (shift - OFFSET_FRACTION)
    rounded = (t * gain.astype(np.int64) + shifted + (1 << (shift - 1))) >> shift
    return np.asarray(np.clip(rounded, -128, 127), dtype=np.int8)


def variance_root(variance: Array) -> Array:
    """floor(sqrt(variance * 2**16)) of int64 below 2**62.

    The float64 root is less than 1 off; how far its square is from the number, at most 2**42, is exact modulo 2**64.
    """
    root = np.sqrt(variance.astype(np.float64) * 2.0 ** (2 * _ROOT_FRACTION)).astype(np.int64)
    square = root.astype(np.uint64) * root.astype(np.uint64)
    rest = ((variance.astype(np.uint64) << np.uint64(2 * _ROOT_FRACTION)) - square).astype(np.int64)
    root = root - (rest < 0) + (rest > 2 * root)
    return np.asarray(root)
