"""Arithmetic that gives the same bits on every processor, and for an element the same bits in every array.

Sums, products, quotients and square roots of two float64 numbers are exact to the last bit wherever IEEE 754 is kept.
What libraries make of them is not: exp, log and powers are computed one way for each instruction set, sums in as many
lanes as a register has, products of matrices in whatever order is fast, and a product and a sum at once where the
processor can. A search makes another design of a last bit that differs. So what a search decides by is made of numpy's
elementwise arithmetic, of what is exact anyway (whole numbers below 2^53, comparisons, least and largest elements), and
of the functions here, which are nothing but such arithmetic in a fixed order. `tests/test_portable_code.py` looks after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["dot", "exp", "exp2", "inverse", "log", "log2", "matmul", "power", "total"]

Floats = NDArray[np.float64]

#: Elements that are worked on at once, so that what lies between is in the processor's cache.
_BLOCK = 16_384
#: ln 2 in two parts, the first of so few digits that its product with an exponent is exact.
_LN2_HIGH = float.fromhex("0x1.62e42fefa0000p-1")
_LN2_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")
_LN2 = _LN2_HIGH + _LN2_LOW
_PER_LN2 = 1 / _LN2
_MANTISSA_BITS, _BIAS = 52, 1023
#: Bits of the square root of one half: significands are taken from there to twice as much.
_ROOT_HALF_BITS = int(np.float64(0.5**0.5).view(np.int64))
_LEAST_NORMAL = float(np.finfo(np.float64).tiny)
#: What `_exponential` needs to know of e and of 2.
_PER_E, _PER_TWO = (_PER_LN2, _LN2_HIGH, _LN2_LOW, 1.0), (1.0, 1.0, 0.0, _LN2)
#: Where exp is taken for 0 and for infinity: all that lies between has normal results.
_LEAST_EXPONENT, _MOST_EXPONENT = -708.0, 709.7
#: Coefficients of the series, highest power first: ln((1 + s) / (1 - s)) / 2s - 1 in s², up to |s| = 0.1716, and exp in
#: r, up to |r| = 0.3466. What is left out is below 1e-17 of the value.
_LOG_SERIES = [float(Fraction(1, 2 * n + 1)) for n in range(10, 0, -1)]
_EXP_SERIES = [float(Fraction(1, math.factorial(n))) for n in range(13, -1, -1)]


def log(x: ArrayLike) -> Floats:
    """Natural logarithm, within 3 units of the last place; -inf of 0, nan below. The result has the shape of `x`."""
    return _elementwise(_log, x)


def log2(x: ArrayLike) -> Floats:
    """Logarithm of base 2, likewise; exact for powers of two."""
    return _elementwise(_log2, x)


def exp(x: ArrayLike) -> Floats:
    """Exponential function, within 2 units of the last place; 0 below exp(-708)."""
    return _elementwise(lambda part: _exponential(part, _PER_E), x)


def exp2(x: ArrayLike) -> Floats:
    """2 to a power, likewise; exact for whole numbers."""
    return _elementwise(lambda part: _exponential(part, _PER_TWO), x)


def power(x: ArrayLike, exponent: float) -> Floats:
    """x to a power, x not negative: relative error up to 4e-16 times the size of exponent * ln(x), or 1 if that is more."""
    return _elementwise(lambda part: _power(part, exponent), x)


def total(values: ArrayLike, axis: int = -1) -> Floats:
    """Sum along an axis, from the first element to the last. For axes of which a loop can be made."""
    rows = np.moveaxis(np.asarray(values, dtype=np.float64), axis, 0)
    result = np.zeros(rows.shape[1:])
    for row in rows:
        result += row
    return result


def dot(values: ArrayLike, weights: ArrayLike) -> Floats:
    """Sum over the last axis of `values` (..., n) times `weights` (n,), from the first element to the last."""
    columns = np.moveaxis(np.asarray(values, dtype=np.float64), -1, 0)
    result = np.zeros(columns.shape[1:])
    for column, weight in zip(columns, np.asarray(weights, dtype=np.float64), strict=True):
        result += column * weight
    return result


def matmul(one: ArrayLike, other: ArrayLike) -> Floats:
    """Product of matrices (a, n) and (n, b), summed up from the first element to the last."""
    left, right = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    result = np.zeros((left.shape[0], right.shape[1]))
    for column, row in zip(left.T, right, strict=True):
        result += column[:, None] * row
    return result


def inverse(matrix: ArrayLike) -> Floats:
    """Inverse of a symmetric positive definite matrix (n, n), by elimination without exchanges."""
    left = np.array(matrix, dtype=np.float64)
    result = np.eye(len(left))
    for at in range(len(left)):
        scale = 1.0 / left[at, at]
        left[at] *= scale
        result[at] *= scale
        factor = left[:, at].copy()
        factor[at] = 0.0
        left -= factor[:, None] * left[at]
        result -= factor[:, None] * result[at]
    return result


def _elementwise(function: Callable[[Floats], Floats], x: ArrayLike) -> Floats:
    """A function of arrays, applied to blocks."""
    values = np.asarray(x, dtype=np.float64)
    flat = np.ascontiguousarray(values).reshape(-1)
    result = np.empty(len(flat))
    for start in range(0, len(flat), _BLOCK):
        result[start : start + _BLOCK] = function(flat[start : start + _BLOCK])
    return result.reshape(values.shape)


def _log_parts(x: Floats) -> tuple[Floats, Floats]:
    """Exponent and logarithm of the significand, which is between the root of one half and the root of two, of positive
    normal numbers."""
    bits = x.view(np.int64)
    exponent = (bits - _ROOT_HALF_BITS) >> _MANTISSA_BITS
    significand = (bits - (exponent << _MANTISSA_BITS)).view(np.float64)
    s = (significand - 1.0) / (significand + 1.0)
    square = s * s
    series = _horner(_LOG_SERIES, square)
    series *= square
    s *= 2.0
    series *= s
    series += s
    return exponent.astype(np.float64), series


def _log(x: Floats) -> Floats:
    usable, plain = _normal(x)
    exponent, rest = _log_parts(plain)
    rest += exponent * _LN2_LOW
    rest += exponent * _LN2_HIGH
    return rest if usable is None else _unusual_log(x, usable, rest, _log)


def _log2(x: Floats) -> Floats:
    usable, plain = _normal(x)
    exponent, rest = _log_parts(plain)
    exponent += rest * _PER_LN2
    return exponent if usable is None else _unusual_log(x, usable, exponent, _log2)


def _normal(x: Floats) -> tuple[NDArray[np.bool_] | None, Floats]:
    """Which elements are positive, finite and normal (None: all), and the elements with 1 in place of the others."""
    usable = (x >= _LEAST_NORMAL) & (x < np.inf)
    return (None, x) if usable.all() else (usable, np.where(usable, x, 1.0))


def _unusual_log(
    x: Floats, usable: NDArray[np.bool_], found: Floats, of: Callable[[Floats], Floats]
) -> Floats:
    """Logarithms `found` of usable elements, completed by those of the others."""
    tiny = (x > 0) & (x < _LEAST_NORMAL)
    result = np.where(usable, found, np.where(x == 0, -np.inf, np.where(x > 0, np.inf, np.nan)))
    if tiny.any():
        result[tiny] = of(x[tiny] * 2.0**54) + of(np.array([2.0**-54]))
    return result


def _exponential(x: Floats, base: tuple[float, float, float, float]) -> Floats:
    """A power of a base: its logarithm of base 2, the inverse of that in two parts, its natural logarithm."""
    twos_each, high, low, logarithm = base
    limit = x * logarithm
    # nan fails both comparisons
    inside = (limit >= _LEAST_EXPONENT) & (limit <= _MOST_EXPONENT)
    usual = bool(inside.all())
    plain = x if usual else np.where(inside, x, 0.0)
    twos = np.rint(plain * twos_each)
    rest = plain - twos * high
    rest -= twos * low
    rest *= logarithm
    result = _horner(_EXP_SERIES, rest)
    # 2^1024 is no number, so that the largest power is multiplied by in two steps
    half = np.floor(twos * 0.5)
    result *= _power_of_two(half)
    result *= _power_of_two(twos - half)
    if usual:
        return result
    return np.where(inside, result, np.where(x < 0, 0.0, np.where(x > 0, np.inf, np.nan)))


def _power(x: Floats, exponent: float) -> Floats:
    logarithm = _log(x)
    logarithm *= exponent
    return _exponential(logarithm, _PER_E)


def _power_of_two(exponent: Floats) -> Floats:
    return ((exponent.astype(np.int64) + _BIAS) << _MANTISSA_BITS).view(np.float64)


def _horner(coefficients: list[float], x: Floats) -> Floats:
    """The polynomial with these coefficients, highest power first."""
    result = x * coefficients[0]
    result += coefficients[1]
    for coefficient in coefficients[2:]:
        result *= x
        result += coefficient
    return result
