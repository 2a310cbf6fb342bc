"""What operators compute: functions, operands and parameters, as far as the source of a network tells.

Costs need only shapes (`baco.workloads.network`); running a network needs this. Functions have the meaning of the numpy
or PyTorch function of that name; images are (N, C, H, W) and (N, C, L).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from baco.workloads.encoding import Encoding
from baco.workloads.tensor import Tensor
from baco.workloads.views import Step, apply_steps

#: How a parameter that the source does not give is drawn: normal with a standard deviation of `spread`, or of
#: sqrt(2 / fan_in) (He et al. 2015: keeps the size of activations); positive around one; or around zero.
Fill: TypeAlias = Literal["normal", "scale", "shift"]

#: Every function of `Semantics.function`, with its operands (those in brackets may be None) and attributes.
FUNCTIONS: dict[str, str] = {
    "conv": "x, weight (K, C / groups, *kernel), [bias]; stride, padding ((before, after), ...), dilation, groups, "
    "unused_border where nobody reads what depends on the padding",
    "conv_transpose": "x, weight (C, K / groups, *kernel), [bias]; the same, shape of the output, and `phase`: the "
    "outputs at these residues modulo the stride, or None for all of them",
    "interleave": "the phases of a transposed convolution; `residues` of each phase, stride",
    "matmul": "a, b, [bias]; alpha, a factor of the product",
    "batchnorm": "x, [scale], [shift], mean, variance; eps",
    "layernorm": "x, [scale], [shift]; axes (number of trailing dimensions), eps",
    "rmsnorm": "x, [scale]; axes, eps",
    "groupnorm": "x, [scale], [shift]; groups (instance normalisation: as many as channels), eps",
    "softmax": "x, [mask: False or -inf where elements do not take part]; axis, logarithm, `truths` where the mask is "
    "computed: 0 where elements do not take part",
    "where": "condition, a (where it is not 0), b; tensors or parameters, broadcast",
    "masked": "x, mask (True where x is replaced), value; only in front of a softmax",
    "unary": "x; name of the function, its numbers by name; `requantises`: a clip that only a quantiser's range asks for",
    "binary": "a, b (tensors or parameters, broadcast); name of the function; of one on whole numbers `units`: scales and zero points",
    "identity": "x",
    "quantise": "x; encoding (`baco.workloads.encoding.Encoding`): the nearest number that it has",
    "decode": "x, whole numbers; encoding: the real numbers that they stand for",
    "shift": "x, multipliers, offsets (whole numbers, broadcast); shift, encoding: the whole number of "
    "(x * multiplier + offset) / 2**shift, halves up, between the encoding's limits",
    "encode": "x; encoding, which x has: the whole numbers that stand for it",
    "maxpool": "x; kernel, stride, padding ((before, after), ...), dilation, shape of the output",
    "avgpool": "x; kernel, stride, padding, shape, count_padding; divisor or None; rounded_with: of one on whole numbers scale and zero point",
    "lppool": "x; kernel, stride, padding, dilation, shape, p: the p-norm of windows, zeros around",
    "reduce": "x; name (mean, sum, max, min, norm: the p-norm), axes, keepdims, p of a norm",
    "concat": "tensors and parameters; axis",
    "pad": "x; before, after (every dimension), value",
    "embedding": "indices, table (rows, features)",
    "resize": "x; mode (nearest, linear), coordinates and rounding (as ONNX Resize names them), scales or None",
    "argmax": "x; axis, keepdims, smallest, last",
    "topk": "x; axis, count, smallest: positions of the largest elements, in order",
    "take": "x, indices (elements at these along a dimension, of the indices' shape); axis",
    "gather": "x, indices (slices at these along a dimension, in their place as numpy's take has it); axis",
    "onehot": "indices; axis, depth, on, off: numbers at the index and elsewhere",
    "maxpositions": "x; as maxpool, and `column_major`: where in x, flattened so, the maxima are",
    "unpool": "x, indices (in the result, flattened); zeros elsewhere",
    "rope": "x; base, interleaved, start: first position; positions are the dimension before the last",
}

#: Names of `unary` functions without numbers, which libraries call the same.
PLAIN_FUNCTIONS = frozenset(
    (
        *("abs", "neg", "sign", "square", "sqrt", "rsqrt", "reciprocal", "ceil", "floor", "round", "trunc"),
        *("exp", "expm1", "log", "log1p", "erf", "sigmoid", "log_sigmoid", "silu", "mish", "relu", "tanh"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"),
    )
)


@dataclass(frozen=True, eq=False)
class Parameter:
    """A trained or fixed tensor that an operator holds.

    Attributes:
        name: of what is stored; equal names are one parameter (tied weights).
        shape: of the tensor as the operator reads it.
        load: gives the stored elements when they are needed, None if the file lacks them; None when the source of
            the network has no values at all (built-in networks).
        fill: how random elements are drawn instead.
        fan_in: products in a sum with these weights, for their spread.
        spread: standard deviation instead of that from fan_in.
        steps: how `shape` is a view of what is stored.
        stored_shape: of what is stored; `shape` without steps.
        source: gives the stored elements by the parameter's name, that of every copy of a repeated block its own; as
            `load` otherwise, which comes first.
        whole: the whole numbers that a quantised model stores in their place, None without.
    """

    name: str
    shape: tuple[int, ...]
    load: Callable[[], np.ndarray | None] | None = None
    fill: Fill = "normal"
    fan_in: int = 1
    spread: float | None = None
    steps: tuple[Step, ...] = ()
    stored_shape: tuple[int, ...] | None = None
    source: Callable[[str], np.ndarray | None] | None = None
    whole: WholeNumbers | None = None

    def viewed(self, shape: tuple[int, ...], *steps: Step) -> Parameter:
        """A view of the parameter (a transposed embedding table, a part)."""
        stored = self.stored_shape if self.steps else self.shape
        return replace(self, shape=shape, steps=(*self.steps, *steps), stored_shape=stored)

    def value(self) -> np.ndarray | None:
        """Elements that the source gives, None without. Raises ValueError for another number of them."""
        if self.load is not None:
            value = self.load()
        else:
            value = None if self.source is None else self.source(self.name)
        return None if value is None else self._view(np.asarray(value))

    def drawn(self, seed: int) -> np.ndarray:
        """Random float32 elements: the same for the same name, shape and seed."""
        digest = hashlib.sha256(f"{seed}:{self.name}".encode()).digest()
        random = np.random.Generator(np.random.Philox(int.from_bytes(digest[:16], "little")))
        shape = self.shape if self.stored_shape is None else self.stored_shape
        if self.fill == "scale":
            return self._view(random.uniform(0.75, 1.25, shape).astype(np.float32))
        spread = self.spread
        if spread is None:
            spread = 0.1 if self.fill == "shift" else math.sqrt(2 / max(self.fan_in, 1))
        return self._view(random.standard_normal(shape, dtype=np.float32) * np.float32(spread))

    def _view(self, value: np.ndarray) -> np.ndarray:
        stored = self.shape if self.stored_shape is None else self.stored_shape
        return apply_steps(value.reshape(stored), self.steps)

    def scales(self) -> np.ndarray:
        """float32 scale of every element's whole number, in the parameter's own shape."""
        assert self.whole is not None
        return self._view(self.whole.scales)

    def zeros(self) -> np.ndarray:
        """The whole number that stands for 0, for every element."""
        assert self.whole is not None
        return self._view(self.whole.zeros)

    def whole_numbers(self, elements: np.ndarray) -> np.ndarray:
        """Whole numbers, as `whole` stores them, in the parameter's own shape."""
        assert self.whole is not None
        return self._view(self.whole.viewed(elements))

    def renamed(self, name: str) -> Parameter:
        """A parameter of its own for a copy of the operator; one with stored elements stays what it is."""
        return self if self.load is not None else replace(self, name=name)


@dataclass(frozen=True, eq=False)
class WholeNumbers:
    """Whole numbers that the real ones of a parameter stand for: (q - zero) * scale.

    Attributes:
        elements: the whole numbers.
        scale: float32 numbers: one for everything, or one for each index along `axis`.
        zero: the same of whole numbers.
        axis: a dimension of `elements`.
        steps: how the parameter's stored shape is a view of `elements`.
    """

    elements: Parameter
    scale: tuple[float, ...]
    zero: tuple[int, ...]
    axis: int
    steps: tuple[Step, ...] = ()

    @property
    def scales(self) -> np.ndarray:
        """float32 scale of every element of the stored shape."""
        return self._along(np.array(self.scale, np.float32))

    @property
    def zeros(self) -> np.ndarray:
        """The whole number that stands for 0, of every element of the stored shape."""
        return self._along(np.array(self.zero, np.int64))

    def _along(self, numbers: np.ndarray) -> np.ndarray:
        shape = self.elements.shape
        if numbers.size == 1:
            return apply_steps(np.broadcast_to(numbers.reshape(()), shape), self.steps)
        lines = [1] * len(shape)
        lines[self.axis] = numbers.size
        return apply_steps(np.broadcast_to(numbers.reshape(lines), shape), self.steps)

    def viewed(self, elements: np.ndarray) -> np.ndarray:
        """`elements` in the parameter's stored shape."""
        return apply_steps(elements, self.steps)


def constant(name: str, value: np.ndarray | float) -> Parameter:
    """A parameter whose elements are known."""
    array = np.asarray(value)
    return Parameter(name, array.shape, lambda: array)


#: What an operator reads: an activation (its steps say which view of it), a parameter, or nothing.
Operand: TypeAlias = Tensor | Parameter | None


@dataclass(frozen=True, eq=False)
class Semantics:
    """What one operator computes.

    Attributes:
        function: one of `FUNCTIONS`.
        operands: in the order of the function.
        attributes: by the names in `FUNCTIONS`.
    """

    function: str
    operands: tuple[Operand, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


def rounded(x: Tensor, encoding: Encoding) -> Semantics:
    """Rounding to the whole numbers of an encoding. What needs more than 8 bits is only cut off where it ends."""
    if encoding.fits_bytes:
        return Semantics("quantise", (x,), {"encoding": encoding})
    low, high = ((q - encoding.zero) * encoding.scale for q in (encoding.low, encoding.high))
    attributes = {"name": "clip", "numbers": {"low": low, "high": high}, "requantises": True}
    return Semantics("unary", (x,), attributes)
