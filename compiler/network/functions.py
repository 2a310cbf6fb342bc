"""Pointwise functions by name, on float64 arrays: what tables of 256 entries are made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray


def _erf(x: Array) -> Array:
    from scipy import special  # takes a while to load, and few networks need it

    return np.asarray(special.erf(x))


def _sigmoid(x: Array) -> Array:
    from scipy import special

    return np.asarray(special.expit(x))


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + _erf(x / np.sqrt(2))))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def _softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    return np.where(x * beta > threshold, x, np.logaddexp(0, beta * x) / beta)


def _elu(x: Array, alpha: float = 1.0, scale: float = 1.0, rate: float = 1.0) -> Array:
    return np.asarray(scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) * rate)))


def _hard_sigmoid(x: Array, alpha: float = 1 / 6, beta: float = 0.5) -> Array:
    return np.asarray(np.clip(alpha * x + beta, 0, 1))


def _shrink(x: Array, limit: float = 0.5, bias: float = 0.0) -> Array:
    return np.where(x > limit, x - bias, np.where(x < -limit, x + bias, 0))


def _clip(x: Array, low: float = -np.inf, high: float = np.inf) -> Array:
    return np.asarray(np.clip(x, low, high))


#: Functions of one number; keyword arguments are the numbers of the operator.
UNARY: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "clip": _clip,
    "cos": np.cos,
    "cosh": np.cosh,
    "elu": _elu,
    "erf": _erf,
    "exp": np.exp,
    "expm1": np.expm1,
    "floor": np.floor,
    "gelu": _gelu,
    "gelu_quick": lambda x, alpha=1.702: x * _sigmoid(alpha * x),
    "gelu_tanh": _gelu_tanh,
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": lambda x: x * _hard_sigmoid(x),
    "isinf": lambda x, low=1.0, high=1.0: (np.isposinf(x) & (high != 0)) | (np.isneginf(x) & (low != 0)),
    "isnan": np.isnan,
    "leaky_relu": lambda x, alpha=0.01: np.where(x < 0, alpha * x, x),
    "log": np.log,
    "log1p": np.log1p,
    "log_sigmoid": lambda x: -np.logaddexp(0, -x),
    "mish": lambda x: x * np.tanh(_softplus(x)),
    "neg": np.negative,
    "reciprocal": np.reciprocal,
    "relu": lambda x: np.maximum(x, 0),
    "round": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "shrink": _shrink,
    "sigmoid": _sigmoid,
    "sign": np.sign,
    "silu": lambda x, alpha=1.0: x * _sigmoid(alpha * x),
    "sin": np.sin,
    "sinh": np.sinh,
    "softplus": _softplus,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "threshold": lambda x, limit=0.0, value=0.0: np.where(x > limit, x, value),
    "trunc": np.trunc,
}

#: Functions of two numbers.
BINARY: dict[str, Callable[[Array, Array], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floor_divide": np.floor_divide,
    "truncated_divide": lambda a, b: np.trunc(a / b),
    "mod": np.mod,
    "fmod": np.fmod,
    "pow": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "not_equal": np.not_equal,
    "prelu": lambda x, slope: np.where(x < 0, x * slope, x),
    "and": lambda a, b: np.logical_and(a != 0, b != 0),
    "or": lambda a, b: np.logical_or(a != 0, b != 0),
    "xor": lambda a, b: np.logical_xor(a != 0, b != 0),
}


def unary(name: str, x: Array, numbers: dict[str, float]) -> Array:
    """The function `name` of x in float64; where it is not defined, the result is not a finite number."""
    with np.errstate(all="ignore"):
        return np.asarray(UNARY[name](x.astype(np.float64), **numbers), dtype=np.float64)


def binary(name: str, a: Array, b: Array) -> Array:
    """The same for two arguments, broadcast."""
    with np.errstate(all="ignore"):
        return np.asarray(BINARY[name](a.astype(np.float64), b.astype(np.float64)), dtype=np.float64)


def rounded_pair(name: str, x: Array, y: Array, units: Sequence[float]) -> Array:
    """Real numbers (float32) that onnxruntime's QLinearAdd or QLinearMul ("add", "mul") of two rounds to, in units of the result.

    Its kernels for x86-64 round in float32: a product of the differences from zero points, times one ratio of scales, plus the zero point of
    the result; a sum of two fused multiplications and additions, of the elements as they are, to which one constant is added first.

    Args:
        x, y: real numbers, which broadcast.
        units: scale and zero point of x, of y, of the result.
    """
    left, right, inside, ratio = _parts_of_pair(name, x, y, units)
    whole = np.rint(left * right * ratio + inside) if name == "mul" else np.rint(_fused(left, ratio, right))
    return np.asarray((whole - np.float32(units[5])) * np.float32(units[4]), np.float32)


def rounded_mean(windows: Array, counts: Array, unit: Sequence[float]) -> Array:
    """Real numbers (float32) that onnxruntime's QLinearAveragePool rounds means to: of the last dimension, added up in order and divided.

    Args:
        counts: what sums are divided by; broadcast.
        unit: scale and zero point of the result.
    """
    scale, zero = (np.float32(one) for one in unit)
    total = np.zeros(windows.shape[:-1], np.float32)
    for at in range(windows.shape[-1]):
        total = total + windows[..., at].astype(np.float32)
    whole = np.rint(total / counts.astype(np.float32) / scale + zero)
    return np.asarray((whole - zero) * scale, np.float32)


def pair_tables(name: str, x: Array, y: Array, units: Sequence[float]) -> tuple[Array, float, float]:
    """(Numbers [2, ...] of x and y, ratio, inside), all float32: their product times the ratio plus what is inside, or their sum, rounds to
    the whole numbers of `rounded_pair`; of a sum nearly, since one of its products is rounded once more."""
    left, right, inside, ratio = _parts_of_pair(name, x, y, units)
    left, ratio = (left, ratio) if name == "mul" else (left * ratio, np.float32(1))
    return np.stack(np.broadcast_arrays(left, right)), float(ratio), float(inside)


def _parts_of_pair(
    name: str, x: Array, y: Array, units: Sequence[float]
) -> tuple[Array, Array, np.float32, np.float32]:
    """What `rounded_pair` computes with: left, right, what is added, the ratio of scales; of sums the right side is complete."""
    own, own_zero, other, other_zero, scale, zero = (np.float32(one) for one in units)
    a, b = (np.rint(np.asarray(one, np.float32) / by) for one, by in ((x, own), (y, other)))
    if name == "mul":
        return a, b, zero, own * other / scale
    ratio, other_ratio = own / scale, other / scale
    fixed = zero - _fused(own_zero, ratio, other_ratio * other_zero)
    return a + own_zero, _fused(b + other_zero, other_ratio, fixed), np.float32(0), ratio


def _fused(x: Array | np.float32, factor: np.float32, addend: Array | np.float32) -> Array:
    """float32 of x * factor + addend, of bytes x: the product is exact in float64, and so is nearly every sum."""
    product = np.asarray(x, np.float64) * np.float64(factor)
    return np.asarray(product + np.asarray(addend, np.float64), np.float32)
