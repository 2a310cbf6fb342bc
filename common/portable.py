"""Arithmetic that gives the same bits on every processor, and for an element the same bits in every array.

Sums, products, quotients and square roots of two float64 numbers are exact to the last bit wherever IEEE 754 is kept.
What libraries make of them is not: exp, log and powers are computed one way for each instruction set, sums in as many
lanes as a register has, products of matrices in whatever order is fast, and a product and a sum at once where the
processor can. A search makes another design of a last bit that differs. So what a search decides by is made of numpy's
elementwise arithmetic, of what is exact anyway (whole numbers below 2^53, comparisons, least and largest elements), and
of the functions here, which are nothing but such arithmetic in a fixed order. `tests/test_portable_code.py` looks after it.

Functions of elements take a number or an array, and give a number or an array of the same shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Elements that are worked on at once, so that what lies between is in the processor's cache.
_BLOCK = 16_384
#: ln 2 in two parts, the first of so few digits that its product with an exponent is exact.
_LN2_HIGH = float.fromhex("0x1.62e42fefa0000p-1")
_LN2_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")
_LN2 = _LN2_HIGH + _LN2_LOW
_PER_LN2 = 1 / _LN2
#: Bases of powers: logarithm of base 2, the inverse of that in two parts, natural logarithm.
_E, _TWO = (_PER_LN2, _LN2_HIGH, _LN2_LOW, 1.0), (1.0, 1.0, 0.0, _LN2)
_MANTISSA_BITS, _BIAS = 52, 1023
#: Significands are taken from here to twice as much.
_ROOT_HALF = 0.5**0.5
_ROOT_HALF_BITS = int(np.float64(_ROOT_HALF).view(np.int64))
_LEAST_NORMAL = float(np.finfo(np.float64).tiny)
#: Natural logarithms of the least and the largest result of `exp` beside 0 and infinity; both are normal numbers.
_LEAST, _MOST = -708.0, 709.7
#: Coefficients of series, highest power first: of ln((1 + s) / (1 - s)) / 2s - 1 in s², where |s| < 0.1716, and of exp in
#: r, where |r| < 0.3466. What is left out is below 1e-17 of the value.
_LOG_SERIES = [float(Fraction(1, 2 * n + 1)) for n in range(10, 0, -1)]
_EXP_SERIES = [float(Fraction(1, math.factorial(n))) for n in range(13, -1, -1)]


@overload
def log(x: float) -> float: ...
@overload
def log(x: ArrayLike) -> Floats: ...
def log(x: Any) -> Any:
    """Natural logarithm, within 3 units of the last place; -inf of 0, nan below."""
    return _logarithm(x, _natural)


@overload
def log2(x: float) -> float: ...
@overload
def log2(x: ArrayLike) -> Floats: ...
def log2(x: Any) -> Any:
    """Logarithm of base 2, likewise; exact for powers of two."""
    return _logarithm(x, _binary)


@overload
def exp(x: float) -> float: ...
@overload
def exp(x: ArrayLike) -> Floats: ...
def exp(x: Any) -> Any:
    """Exponential function, within 2 units of the last place; 0 below exp(-708)."""
    return _exponential(x, _E)


@overload
def exp2(x: float) -> float: ...
@overload
def exp2(x: ArrayLike) -> Floats: ...
def exp2(x: Any) -> Any:
    """2 to a power, likewise; exact for whole numbers."""
    return _exponential(x, _TWO)


@overload
def power(x: float, exponent: float) -> float: ...
@overload
def power(x: ArrayLike, exponent: float) -> Floats: ...
def power(x: Any, exponent: float) -> Any:
    """x to a power, x not negative: as exact as the product of exponent and logarithm is."""
    if isinstance(x, int | float):
        return exp(exponent * log(float(x)))
    return _in_blocks(lambda part: _exp_array(exponent * _log_array(part, _natural), _E), x)


def total(values: ArrayLike, axis: int = -1) -> Floats:
    """Sum along an axis, from the first element to the last. For axes of which a loop can be made."""
    rows = np.asarray(values, dtype=np.float64)
    if axis:
        rows = np.moveaxis(rows, axis, 0)
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


# The formulas, for numbers and arrays alike. `x *= y` saves an array where x is one.


def _natural(exponent: Any, rest: Any) -> Any:
    rest += exponent * _LN2_LOW
    rest += exponent * _LN2_HIGH
    return rest


def _binary(exponent: Any, rest: Any) -> Any:
    rest *= _PER_LN2
    rest += exponent
    return rest


def _log_significand(significand: Any) -> Any:
    """Logarithm of numbers between the root of one half and the root of two."""
    s = (significand - 1.0) / (significand + 1.0)
    square = s * s
    series = _horner(_LOG_SERIES, square)
    series *= square
    s *= 2.0
    series *= s
    series += s
    return series


def _exp_rest(x: Any, twos: Any, base: tuple[float, float, float, float]) -> Any:
    """What is left of a power of the base, which is 2 to a power near `twos`, once 2^twos is divided out."""
    _, high, low, logarithm = base
    rest = x - twos * high
    rest -= twos * low
    rest *= logarithm
    return _horner(_EXP_SERIES, rest)


def _horner(coefficients: list[float], x: Any) -> Any:
    """The polynomial with these coefficients, highest power first."""
    result = x * coefficients[0]
    result += coefficients[1]
    for coefficient in coefficients[2:]:
        result *= x
        result += coefficient
    return result


# Numbers. Python's own arithmetic is much faster for one than numpy's.


def _logarithm(x: Any, base: Callable[[Any, Any], Any]) -> Any:
    if not isinstance(x, int | float):
        return _in_blocks(lambda part: _log_array(part, base), x)
    number = float(x)
    if not 0.0 < number < math.inf:
        return -math.inf if number == 0.0 else math.inf if number > 0.0 else math.nan
    significand, exponent = math.frexp(number)
    if significand < _ROOT_HALF:
        significand, exponent = 2.0 * significand, exponent - 1
    return base(float(exponent), _log_significand(significand))


def _exponential(x: Any, base: tuple[float, float, float, float]) -> Any:
    if not isinstance(x, int | float):
        return _in_blocks(lambda part: _exp_array(part, base), x)
    number = float(x)
    limit = number * base[3]
    if not _LEAST <= limit <= _MOST:
        return 0.0 if limit < 0.0 else math.inf if limit > 0.0 else math.nan
    twos = round(number * base[0])
    return math.ldexp(_exp_rest(number, float(twos), base), twos)


# Arrays.


def _in_blocks(function: Callable[[Floats], Floats], x: ArrayLike) -> Floats:
    """A function of arrays, applied to blocks."""
    values = np.asarray(x, dtype=np.float64)
    flat = np.ascontiguousarray(values).reshape(-1)
    if len(flat) <= _BLOCK:
        return function(flat).reshape(values.shape)
    result = np.empty(len(flat))
    for start in range(0, len(flat), _BLOCK):
        result[start : start + _BLOCK] = function(flat[start : start + _BLOCK])
    return result.reshape(values.shape)


def _log_array(x: Floats, base: Callable[[Any, Any], Any]) -> Floats:
    usable = (x >= _LEAST_NORMAL) & (x < np.inf)
    usual = bool(usable.all())
    bits = (x if usual else np.where(usable, x, 1.0)).view(np.int64)
    exponent = (bits - _ROOT_HALF_BITS) >> _MANTISSA_BITS
    significand = (bits - (exponent << _MANTISSA_BITS)).view(np.float64)
    result: Floats = base(exponent.astype(np.float64), _log_significand(significand))
    if usual:
        return result
    result = np.where(usable, result, np.where(x == 0, -np.inf, np.where(x > 0, np.inf, np.nan)))
    subnormal = np.flatnonzero((x > 0) & (x < _LEAST_NORMAL))
    result[subnormal] = [_logarithm(one, base) for one in x[subnormal].tolist()]
    return result


def _exp_array(x: Floats, base: tuple[float, float, float, float]) -> Floats:
    limit = x * base[3]
    # nan fails both comparisons
    inside = (limit >= _LEAST) & (limit <= _MOST)
    usual = bool(inside.all())
    plain = x if usual else np.where(inside, x, 0.0)
    twos = np.rint(plain * base[0])
    result: Floats = _exp_rest(plain, twos, base)
    # 2^1024 is no number, so that the largest power is multiplied by in two steps
    half = np.floor(twos * 0.5)
    result *= _power_of_two(half)
    result *= _power_of_two(twos - half)
    if usual:
        return result
    return np.where(inside, result, np.where(limit < 0, 0.0, np.where(limit > 0, np.inf, np.nan)))


def _power_of_two(exponent: Floats) -> Floats:
    return ((exponent.astype(np.int64) + _BIAS) << _MANTISSA_BITS).view(np.float64)
