"""Operators of the host core on real numbers: what a quantised model computes between DequantizeLinear and QuantizeLinear.

Values are float32; each class states its result, which is rounded once to float32 from operations in float64 (of two numbers: from one
in float32) in the order in which `host/floating.c` does them. Functions of elements: `baco.compiler.ops.elements`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from baco.accel.isa import float64_bits
from baco.compiler.ops.accesses import of_chosen, of_reduced, of_rows, of_windows
from baco.compiler.ops.calls import loop_call
from baco.compiler.ops.elementary import UNARY, exponential, rounded
from baco.compiler.ops.host_work import HostWork, counted
from baco.compiler.ops.images import image_lines, image_words, resampled
from baco.compiler.ops.nests import RowLoops, nest_of
from baco.compiler.ops.operator import Array, Dependences, HostCall, IntegerOperator, Read, Values
from baco.compiler.ops.products import convolution_words, of_convolution, of_products, product_words
from baco.compiler.ops.rows import largest_first, top_call
from baco.compiler.ops.views import View

_FILE = "floating.c"

#: Functions of rows, in the order in which `net_float_rows` numbers them; the first four give one number.
ROWS = ("sum", "mean", "max", "min", "softmax", "log_softmax", "normal", "root")


def _total(x: Array) -> Array:
    """Of the last dimension, added in order: [..., 1]."""
    return np.asarray(np.add.accumulate(x, -1)[..., -1:])


@dataclass(frozen=True)
class RealRows(IntegerOperator):
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
        return rounded(y[..., 0] if ROWS.index(self.function) < ROWS.index("softmax") else y)

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

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        reduces = len(self.output.shape) < len(self.input.shape)
        return of_reduced(self, "input") if reduces else of_rows(self, "input")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        reduces = len(self.output.shape) < len(self.input.shape)
        target, step = (
            (self.output.strides, 0) if reduces else (self.output.strides[:-1], self.output.strides[-1])
        )
        outer = nest_of(self.input.shape[:-1], [self.input.strides[:-1], target])
        loops = RowLoops(outer, self.input.shape[-1], (self.input.strides[-1], step))
        operands = (self.input, self.output)
        numbers = (ROWS.index(self.function), float64_bits(self.epsilon))
        return loop_call("net_float_rows", _FILE, loops, (4, 4), operands, numbers, variant=self.function)


@dataclass(frozen=True)
class RealTop(IntegerOperator):
    """output (int32) [..., k] = positions of the k largest numbers of the last dimension of `input`, as `rows.TopK` has them."""

    takes_runs: ClassVar[bool] = False

    input: View
    smallest: bool = False

    def compute(self, read: Read) -> Array:
        """See the class."""
        return largest_first(read(self.input), self.output.shape[-1], self.smallest)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_chosen(self, "input")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        rows, count, kept = math.prod(self.input.shape[:-1]), self.input.shape[-1], self.output.shape[-1]
        # Of numbers in random order the i-th is among the k best so far with probability k / i, and passes half of them.
        moves = kept * (1 + math.log(count / kept)) * (kept + 1) / 2
        amounts = counted(rows=rows, elements=rows * count, moves=round(rows * moves))
        work = HostWork("net_float_top", amounts)
        return top_call(self.input, self.output, self.smallest, work, _FILE, 4)


@dataclass(frozen=True)
class RealProducts(IntegerOperator):
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
        return rounded(total)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_products(self, self.left.shape[-1], bias=False)

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        operands = (self.left, self.right, self.output)
        words, work = product_words("net_float_products", operands, (0, 1, 2), size=4)
        return HostCall("net_float_products", _FILE, words, operands, work)


def _places(size: int, count: int, stride: int, offset: int) -> tuple[Array, Array]:
    """Rows that windows read at one tap, and which of them are inside."""
    at = np.arange(count) * stride + offset
    return np.clip(at, 0, size - 1), (at >= 0) & (at < size)


@dataclass(frozen=True)
class _Windowed(IntegerOperator):
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
        return rounded(total.reshape(*total.shape[:-2], -1))

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        window = (self.stride, self.padding, self.dilation)
        return of_convolution(self, self.weight, self.groups, *window, size=self.output.shape[1:3])

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        images, window = (self.input, self.weight, self.output), (self.stride, self.padding, self.dilation)
        words, work = convolution_words("net_float_convolve", images, self.groups, *window, size=4)
        return HostCall("net_float_convolve", _FILE, words, images, work)


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
        return rounded(largest if self.divisors is None else total / read(self.divisors)[..., None])

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        window = (self.kernel, self.stride, self.padding, self.dilation)
        return of_windows(self, *window, by_position="divisors")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        window = (*self.kernel, *self.stride, *self.padding, *self.dilation)
        words = (*image_words(self.input, self.output), *window, int(self.divisors is None))
        work = _image_work("net_float_window", self.input, self.output, math.prod(self.kernel))
        return HostCall("net_float_window", _FILE, words, (self.input, self.divisors, self.output), work)


@dataclass(frozen=True)
class RealResize(IntegerOperator):
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
        return rounded(above * (1 - f) + below * f)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return resampled(self)

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        words = image_words(self.input, self.output)
        work = _image_work("net_float_resize", self.input, self.output, 4)
        operands = (self.input, self.rows, self.columns, self.output)
        return HostCall("net_float_resize", _FILE, words, operands, work)


def _image_work(function: str, source: View, target: View, taps: int) -> HostWork:
    """Every result reads so many elements."""
    amounts = counted(results=target.words, taps=target.words * taps)
    return HostWork(function, amounts, lines=image_lines((source, 4), (target, 4)))
