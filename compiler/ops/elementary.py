"""Elementary functions of real numbers as programs of float64 operations, so that the host core and numpy give the same bits.

`host/floating.c` does the same operations in the same order. Results are rounded to float32 by whoever asks; they are off by far
less than half of its last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray

_LOG2E, _LN2, _LN2_HIGH, _LN2_LOW = (
    float.fromhex(one)
    for one in (
        "0x1.71547652b82fep+0",
        "0x1.62e42fefa39efp-1",
        "0x1.62e42fee00000p-1",
        "0x1.a39ef35793c76p-33",
    )
)
#: exp(x) beyond these is no float32 but 0 or infinite.
_EXP_LIMIT = 700.0
#: 1/n!, 1/(2n + 1), and erf's own: (-1)**n / (n! * (2n + 1)), and of erfc(x) * exp(x * x) in powers of 1 / (1 + x / 2), fitted
#: from 1 to 4.5 (6e-12 off).
_EXP = [1 / math.factorial(n) for n in range(14)]
_LOG = [1 / (2 * n + 1) for n in range(11)]
_ERF = [2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(13)]
_ERFC = [
    *(
        1.5513407604861307e-05,
        0.2817165100192042,
        0.28623226421468334,
        0.22013002194946013,
        0.288655591161626,
    ),
    *(-0.23651698933802928, 0.6145831089456055, -0.8342178348178814, 0.5018411639081843),
    *(-0.13157176387998915, 0.00910886658239254),
]
_ERF_SMALL, _ERF_LARGE = 1.0, 4.5


def _power_series(coefficients: Sequence[float], x: Array) -> Array:
    total = np.full(x.shape, coefficients[-1])
    for one in coefficients[-2::-1]:
        total = total * x + one
    return total


def exponential(x: Array) -> Array:
    """exp(x) of float64 numbers."""
    limited = np.where(x < -_EXP_LIMIT, -_EXP_LIMIT, np.where(x > _EXP_LIMIT, _EXP_LIMIT, x))
    known = np.where(np.isnan(limited), 0.0, limited)
    k = np.rint(known * _LOG2E)
    rest = (known - k * _LN2_HIGH) - k * _LN2_LOW
    return np.where(np.isnan(x), x, np.ldexp(_power_series(_EXP, rest), k.astype(np.int64)))


def _logarithm(x: Array) -> Array:
    usual = (x > 0) & np.isfinite(x)
    mantissa, exponent = np.frexp(np.where(usual, x, 1.0))
    small = mantissa < math.sqrt(0.5)
    mantissa, exponent = np.where(small, mantissa * 2, mantissa), exponent - small
    s = (mantissa - 1) / (mantissa + 1)
    found = exponent * _LN2 + (2 * s) * _power_series(_LOG, s * s)
    return np.where(usual, found, np.where(x == 0, -np.inf, np.where(x > 0, x, np.nan)))


def _error_function(x: Array) -> Array:
    a = np.abs(x)
    near = x * _power_series(_ERF, x * x)
    far = 1 - exponential(-(a * a)) * _power_series(_ERFC, 1 / (1 + a * 0.5))
    far = np.where(a > _ERF_LARGE, 1.0, far)
    return np.where(a <= _ERF_SMALL, near, np.where(x < 0, -far, far))


def _tangent(x: Array) -> Array:
    t = exponential(-2 * np.abs(x))
    y = np.asarray((1 - t) / (1 + t))
    return np.where(x < 0, -y, y)


def _limited(x: Array, low: float, high: float) -> Array:
    return np.where(x < low, low, np.where(x > high, high, x))


def _whole(function: Callable[[Array], Array]) -> Callable[[Array, float, float], Array]:
    return lambda x, p, q: np.asarray(function(x) + 0.0)  # no negative zero


#: Functions of float64 numbers and two parameters, in the order in which `unary` of `host/real.h` numbers them.
UNARY: dict[str, Callable[[Array, float, float], Array]] = {
    "abs": lambda x, p, q: np.abs(x),
    "neg": lambda x, p, q: -x,
    "sqrt": lambda x, p, q: np.sqrt(x),
    "reciprocal": lambda x, p, q: 1 / x,
    "floor": _whole(np.floor),
    "ceil": _whole(np.ceil),
    "round": _whole(np.rint),
    "trunc": _whole(np.trunc),
    "exp": lambda x, p, q: exponential(x),
    "log": lambda x, p, q: _logarithm(x),
    "erf": lambda x, p, q: _error_function(x),
    "tanh": lambda x, p, q: _tangent(x),
    "sigmoid": lambda x, p, q: 1 / (1 + exponential(-x)),
    "clip": _limited,
    "leaky_relu": lambda x, p, q: np.where(x < 0, p * x, x),
    "hard_sigmoid": lambda x, p, q: _limited(p * x + q, 0.0, 1.0),
}
#: Names of those parameters, with what they are where an operator does not say.
NUMBERS: dict[str, dict[str, float]] = {
    "clip": {"low": -math.inf, "high": math.inf},
    "leaky_relu": {"alpha": 0.01},
    "hard_sigmoid": {"alpha": 1 / 6, "beta": 0.5},
}
#: Functions of two float32 numbers, in the order in which `binary` of `host/real.h` numbers them.
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "maximum": lambda x, y: np.where(x > y, x, y),
    "minimum": lambda x, y: np.where(x < y, x, y),
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "and": lambda x, y: (x != 0) & (y != 0),
    "or": lambda x, y: (x != 0) | (y != 0),
    "xor": lambda x, y: (x != 0) ^ (y != 0),
    "prelu": lambda x, y: np.where(x < 0, x * y, x),
}


def rounded(x: Array) -> Array:
    """To float32."""
    with np.errstate(all="ignore"):
        return np.asarray(x, np.float32)
