"""Operators of the host core on real numbers: what a quantised model computes between DequantizeLinear and QuantizeLinear.

Values are float32; each class states its result, which is rounded once to float32 from operations in float64 (of two numbers: from one
in float32) in the order in which `host/floating.c` does them. Elementary functions: `baco.compiler.network.elementary`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from baco.accel.isa import float32_bits
from baco.compiler.network.elementary import BINARY, UNARY, exponential
from baco.compiler.network.graph import IntegerTensor
from baco.compiler.network.nests import common, nest_of
from baco.compiler.network.selection import HostOperator
from baco.compiler.network.steps import HostCall
from baco.compiler.network.views import View

_FILE = "floating.c"

Array = np.ndarray
Read = Callable[[View], Array]
Values = Mapping[str, IntegerTensor]

#: Functions of rows, in the order in which `net_float_rows` numbers them; the first four give one number.
ROWS = ("sum", "mean", "max", "min", "softmax", "log_softmax", "normal", "root")


def _float64_bits(x: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def _elements(*views: View) -> tuple[int, ...]:
    outer, extent, steps = common(views).split()
    return (*outer.words(), extent, *steps)


def _rounded(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(x, np.float32)


@dataclass(frozen=True)
class _OfRuns(HostOperator):
    """An operator that takes runs side by side."""

    takes_runs: ClassVar[bool] = True


@dataclass(frozen=True)
class Decoded(_OfRuns):
    """output (float32) = table[input + 128]; `table`: float32 constant [256]."""

    input: View
    table: View

    def compute(self, read: Read) -> Array:
        """See the class."""
        return np.asarray(read(self.table)[read(self.input).astype(np.int16) + 128])

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        words = _elements(self.input, self.output)
        return HostCall("net_float_decode", _FILE, words, (self.input, self.table, self.output))


@dataclass(frozen=True)
class Encoded(_OfRuns):
    """output (int8) = limited(rint(input / scale) + zero) to low...high, ties to even, the quotient one of float32; what is no
    number becomes `low`."""

    input: View
    scale: float
    zero: int
    low: int
    high: int

    def compute(self, read: Read) -> Array:
        """See the class."""
        with np.errstate(all="ignore"):
            steps = read(self.input) / np.float32(self.scale)
        least, most = np.float32(self.low - self.zero), np.float32(self.high - self.zero)
        return np.asarray(np.rint(np.fmin(np.fmax(steps, least), most)) + self.zero, np.int8)

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        numbers = float32_bits(self.scale), self.zero, self.low, self.high
        words = (*_elements(self.input, self.output), *numbers)
        return HostCall("net_float_encode", _FILE, words, (self.input, self.output))


@dataclass(frozen=True)
class RealFunction(_OfRuns):
    """output = function(input) of `elementary.UNARY` with two parameters."""

    input: View
    function: str
    parameters: tuple[float, float] = (0.0, 0.0)

    def compute(self, read: Read) -> Array:
        """See the class."""
        with np.errstate(all="ignore"):
            return _rounded(UNARY[self.function](read(self.input).astype(np.float64), *self.parameters))

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        kind = list(UNARY).index(self.function)
        words = (*_elements(self.input, self.output), kind, *map(_float64_bits, self.parameters))
        return HostCall("net_float_unary", _FILE, words, (self.input, self.output))


@dataclass(frozen=True)
class RealPair(_OfRuns):
    """output = function(left, right) of `elementary.BINARY`; truths are 0 and 1."""

    left: View
    right: View
    function: str

    def compute(self, read: Read) -> Array:
        """See the class."""
        with np.errstate(all="ignore"):
            return _rounded(BINARY[self.function](read(self.left), read(self.right)))

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        words = (*_elements(self.left, self.right, self.output), list(BINARY).index(self.function))
        return HostCall("net_float_binary", _FILE, words, (self.left, self.right, self.output))


@dataclass(frozen=True)
class RealSelection(_OfRuns):
    """output = left where `condition` is not 0, else right."""

    condition: View
    left: View
    right: View

    def compute(self, read: Read) -> Array:
        """See the class."""
        return np.where(read(self.condition) != 0, read(self.left), read(self.right))

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        operands = (self.condition, self.left, self.right, self.output)
        return HostCall("net_float_select", _FILE, _elements(*operands), operands)


@dataclass(frozen=True)
class ScaledSums(_OfRuns):
    """output (float32) = float32(input + rows + columns) * factors, the product one of float32, the sum one of 64 bits.

    Attributes:
        input: int32 [..., K], sums of products.
        rows, columns: int32, broadcast to that shape.
        factors: float32, broadcast to that shape.
    """

    input: View
    rows: View
    columns: View
    factors: View

    def compute(self, read: Read) -> Array:
        """See the class."""
        total = read(self.input).astype(np.int64) + read(self.rows) + read(self.columns)
        return np.asarray(total.astype(np.float32) * read(self.factors), np.float32)

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        operands = (self.input, self.rows, self.columns, self.factors, self.output)
        return HostCall("net_float_scale", _FILE, _elements(*operands), operands)


def _total(x: Array) -> Array:
    """Of the last dimension, added in order: [..., 1]."""
    return np.asarray(np.add.accumulate(x, -1)[..., -1:])


@dataclass(frozen=True)
class RealRows(_OfRuns):
    """A function of `ROWS` of the last dimension of `input`.

    `normal`: (x - mean) / sqrt(mean of (x - mean)**2 + epsilon); `root`: the same without a mean; sums are added in order.
    """

    input: View
    function: str
    epsilon: float = 0.0

    def compute(self, read: Read) -> Array:
        """See the class."""
        x = read(self.input).astype(np.float64)
        with np.errstate(all="ignore"):
            y = self._rows(x)
        return _rounded(y[..., 0] if ROWS.index(self.function) < ROWS.index("softmax") else y)

    def _rows(self, x: Array) -> Array:
        count = x.shape[-1]
        if self.function in ("sum", "mean"):
            return np.asarray(_total(x) / (count if self.function == "mean" else 1))
        if self.function in ("max", "min"):
            return np.asarray((x.max if self.function == "max" else x.min)(-1, keepdims=True))
        if self.function in ("softmax", "log_softmax"):
            below = x - x.max(-1, keepdims=True)
            e = exponential(below)
            if self.function == "softmax":
                return np.asarray(e / _total(e))
            return np.asarray(below - UNARY["log"](_total(e), 0, 0))
        if self.function == "normal":
            x = x - _total(x) / count
        return np.asarray(x / np.sqrt(_total(x * x) / count + self.epsilon))

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        one = len(self.output.shape) < len(self.input.shape)
        target = self.output.strides if one else self.output.strides[:-1]
        rows = nest_of(self.input.shape[:-1], [self.input.strides[:-1], target])
        steps = self.input.strides[-1], 0 if one else self.output.strides[-1]
        words = (*rows.words(), self.input.shape[-1], *steps, ROWS.index(self.function))
        operands = (self.input, self.output)
        return HostCall("net_float_rows", _FILE, (*words, _float64_bits(self.epsilon)), operands)


@dataclass(frozen=True)
class RealProducts(_OfRuns):
    """output[..., m, n] = sum over k, in order, of left[..., m, k] * right[..., k, n], all with the same batch extents."""

    left: View
    right: View

    def compute(self, read: Read) -> Array:
        """See the class."""
        left, right = read(self.left).astype(np.float64), read(self.right).astype(np.float64)
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        total = np.zeros((*batch, left.shape[-2], right.shape[-1]))
        for k in range(left.shape[-1]):
            total += left[..., k : k + 1] * right[..., k : k + 1, :]
        return _rounded(total)

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        operands = (self.left, self.right, self.output)
        batch = nest_of(self.left.shape[:-2], [one.strides[:-2] for one in operands])
        sizes = self.left.shape[-2], self.right.shape[-1], self.left.shape[-1]
        words = (*batch.words(), *sizes, *(step for one in operands for step in one.strides[-2:]))
        return HostCall("net_float_products", _FILE, words, operands)


def _places(size: int, count: int, stride: int, offset: int) -> tuple[Array, Array]:
    """Rows that windows read at one tap, and which of them are inside."""
    at = np.arange(count) * stride + offset
    return np.clip(at, 0, size - 1), (at >= 0) & (at < size)


@dataclass(frozen=True)
class _Windowed(_OfRuns):
    """An operator on windows of an image; pairs are (height, width), padding above and left."""

    input: View
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    def _taps(self, x: Array, kernel: Sequence[int]) -> list[tuple[int, int, Array, Array]]:
        """(s, r, what all windows read there [..., N, Q, P, C], whether it is inside [Q, P, 1]) for every tap, in order."""
        found = []
        for s in range(kernel[0]):
            rows, above = _places(
                x.shape[-3], self.output.shape[1], self.stride[0], s * self.dilation[0] - self.padding[0]
            )
            for r in range(kernel[1]):
                columns, left = _places(
                    x.shape[-2], self.output.shape[2], self.stride[1], r * self.dilation[1] - self.padding[1]
                )
                at = np.ix_(rows, columns)
                found.append((s, r, x[..., at[0], at[1], :], (above[:, None] & left)[..., None]))
        return found


@dataclass(frozen=True)
class RealConvolution(_Windowed):
    """As `graph.Convolution`, without bias, scale and pooling: products are added tap by tap, channels innermost.

    Attributes:
        input: float32 [N, H, W, C].
        weight: float32 constant [S, R, C / groups, K].
        groups: of channels.
    """

    weight: View
    groups: int

    def compute(self, read: Read) -> Array:
        """See the class."""
        x, weight = read(self.input).astype(np.float64), read(self.weight).astype(np.float64)
        depth, width = weight.shape[2], weight.shape[3] // self.groups
        split = weight.reshape(*weight.shape[:3], self.groups, width)
        total = np.zeros((*x.shape[:-3], *self.output.shape[1:3], self.groups, width))
        for s, r, taken, inside in self._taps(x, weight.shape[:2]):
            grouped = np.where(inside, taken, 0.0).reshape(*taken.shape[:-1], self.groups, depth)
            for c in range(depth):
                total += grouped[..., c : c + 1] * split[s, r, c]
        return _rounded(total.reshape(*total.shape[:-2], -1))

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        *kernel, depth, channels = self.weight.shape
        words = (
            *(*self.output.shape[:3], self.groups, channels // self.groups, depth, *kernel),
            *(*self.input.shape[1:3], *self.stride, *self.padding, *self.dilation),
            *(*self.input.strides, *self.weight.strides, *self.output.strides),
        )
        return HostCall("net_float_convolve", _FILE, words, (self.input, self.weight, self.output))


@dataclass(frozen=True)
class RealWindows(_Windowed):
    """Sum of each window over `divisors`, or its largest element where there are none.

    Attributes:
        input: float32 [N, H, W, C].
        divisors: float32 constant [Q, P], or None.
        kernel: of the window.
    """

    divisors: View | None
    kernel: tuple[int, int]

    def compute(self, read: Read) -> Array:
        """See the class."""
        x = read(self.input).astype(np.float64)
        shape = (*x.shape[:-3], *self.output.shape[1:])
        total, largest = np.zeros(shape), np.full(shape, -math.inf)
        for _, _, taken, inside in self._taps(x, self.kernel):
            total += np.where(inside, taken, 0.0)
            largest = np.where(inside & (taken > largest), taken, largest)
        return _rounded(largest if self.divisors is None else total / read(self.divisors)[..., None])

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        words = (
            *(*self.output.shape, *self.input.shape[1:3], *self.input.strides, *self.output.strides),
            *(*self.kernel, *self.stride, *self.padding, *self.dilation, int(self.divisors is None)),
        )
        return HostCall("net_float_window", _FILE, words, (self.input, self.divisors, self.output))


@dataclass(frozen=True)
class RealResize(_OfRuns):
    """Resampling of images [N, H, W, C]: with a, b, f = rows[q] and the columns likewise (l, r, g)

        output = above * (1 - f) + below * f, above = x[a, l] * (1 - g) + x[a, r] * g, below the same in row b

    `rows`, `columns`: float32 constants [Q, 3] and [P, 3].
    """

    input: View
    rows: View
    columns: View

    def compute(self, read: Read) -> Array:
        """See the class."""
        x = read(self.input).astype(np.float64)
        rows, columns = read(self.rows).astype(np.float64), read(self.columns).astype(np.float64)
        (a, b), (left, right) = (one[:, :2].T.astype(np.int64) for one in (rows, columns))
        f, g = rows[:, 2][:, None, None], columns[:, 2][:, None]
        top, bottom = x[..., a, :, :], x[..., b, :, :]
        above = top[..., left, :] * (1 - g) + top[..., right, :] * g
        below = bottom[..., left, :] * (1 - g) + bottom[..., right, :] * g
        return _rounded(above * (1 - f) + below * f)

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        words = (*self.output.shape, *self.input.shape[1:3], *self.input.strides, *self.output.strides)
        operands = (self.input, self.rows, self.columns, self.output)
        return HostCall("net_float_resize", _FILE, words, operands)
