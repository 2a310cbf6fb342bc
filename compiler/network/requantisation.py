"""Operators of the host core for models that are quantised already: what their scales and zero points ask for and the array lacks.

Each class is one operator whole, as in `baco.compiler.network.selection`: its exact definition and the call of its C function
(`host/quantised.c`). Real arithmetic is that of float32, one rounding for each operation, in the order written here:

    encoded(y) = limited(rint(y) + zero) to low...high, ties to even
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from baco.accel.isa import float32_bits
from baco.compiler.network.graph import IntegerTensor
from baco.compiler.network.nests import common, nest_of
from baco.compiler.network.selection import HostOperator
from baco.compiler.network.steps import HostCall
from baco.compiler.network.views import View

_FILE = "quantised.c"

Array = np.ndarray
Read = Callable[[View], Array]
Values = Mapping[str, IntegerTensor]
#: float32 numbers beyond these are limited before they become integers.
_LIMIT = np.float32(2.0**30)


def encoded(y: Array, zero: int, low: int, high: int) -> Array:
    """int8, see above."""
    steps = np.rint(np.clip(np.asarray(y, np.float32), -_LIMIT, _LIMIT)).astype(np.int64)
    return np.clip(steps + zero, low, high).astype(np.int8)


@dataclass(frozen=True)
class Requantise(HostOperator):
    """output = encoded(float32(input + rows + columns) * factors[k]), the sum one of 64 bits.

    Attributes:
        input: int32 [..., K], sums of products.
        rows, columns: int32 views of the same shape that are added, or None.
        factors: bits of float32 factors, int32 constant [K], or [1] for all channels.
        zero, low, high: of the result.
    """

    takes_runs: ClassVar[bool] = True

    input: View
    rows: View | None
    columns: View | None
    factors: View
    zero: int
    low: int
    high: int

    def compute(self, read: Read) -> Array:
        """See the class."""
        total = read(self.input).astype(np.int64)
        for more in (self.rows, self.columns):
            total = total if more is None else total + read(more)
        factors = np.ascontiguousarray(read(self.factors)).view(np.float32)
        return encoded(total.astype(np.float32) * factors, self.zero, self.low, self.high)

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        shape = self.output.shape
        factors = self.factors.expanded(shape)
        views = (self.input, self.rows or self.input, self.columns or self.input, factors, self.output)
        outer, extent, steps = common(views).split()
        words = (*outer.words(), extent, *steps, self.zero, self.low, self.high)
        operands = (self.input, self.rows, self.columns, self.factors, self.output)
        return HostCall("net_requantise", _FILE, words, operands)


@dataclass(frozen=True)
class ScaledPair(HostOperator):
    """output = encoded(tables[0, left + 128] + tables[1, right + 128]), or their product.

    Attributes:
        left, right: int8 views of one shape, either of which may repeat elements.
        tables: bits of float32 numbers, int32 constant [2, 256].
        product: whether it is one.
        zero, low, high: of the result.
    """

    takes_runs: ClassVar[bool] = True

    left: View
    right: View
    tables: View
    product: bool
    zero: int
    low: int
    high: int

    def compute(self, read: Read) -> Array:
        """See the class."""
        tables = np.ascontiguousarray(read(self.tables)).view(np.float32)
        left = tables[0][read(self.left).astype(np.int16) + 128]
        right = tables[1][read(self.right).astype(np.int16) + 128]
        return encoded(left * right if self.product else left + right, self.zero, self.low, self.high)

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        outer, extent, steps = common((self.left, self.right, self.output)).split()
        words = (*outer.words(), extent, *steps, int(self.product), self.zero, self.low, self.high)
        return HostCall("net_scaled_pair", _FILE, words, (self.left, self.right, self.tables, self.output))


@dataclass(frozen=True)
class RowSums(HostOperator):
    """output (int32) = offset + factor * sum of the last dimension of `input` (int8)."""

    takes_runs: ClassVar[bool] = True

    input: View
    factor: int
    offset: int

    def compute(self, read: Read) -> Array:
        """See the class."""
        total = read(self.input).astype(np.int64).sum(-1) * self.factor + self.offset
        return np.asarray(total, np.int32)

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        rows = nest_of(self.input.shape[:-1], [self.input.strides[:-1], self.output.strides])
        words = (*rows.words(), self.input.shape[-1], self.input.strides[-1], self.factor, self.offset)
        return HostCall("net_row_sums", _FILE, words, (self.input, self.output))


@dataclass(frozen=True)
class WindowAverage(HostOperator):
    """output[n, q, p, c] = encoded(float32(sum of input - source_zero over the window inside the image) * factors[q, p]).

    Attributes:
        input: [N, H, W, C].
        factors: bits of float32 factors, int32 constant [Q, P]: ratio of scales by how many elements count.
        kernel, stride, padding: (height, width); padding above and left.
        source_zero: the element of `input` that stands for 0.
        zero, low, high: of the result.
    """

    input: View
    factors: View
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    source_zero: int
    zero: int
    low: int
    high: int

    def compute(self, read: Read) -> Array:
        """See the class."""
        x = read(self.input).astype(np.int64) - self.source_zero
        _, height, width, _ = x.shape
        total = np.zeros(self.output.shape, np.int64)
        for s in range(self.kernel[0]):
            rows = np.arange(self.output.shape[1]) * self.stride[0] + s - self.padding[0]
            for r in range(self.kernel[1]):
                columns = np.arange(self.output.shape[2]) * self.stride[1] + r - self.padding[1]
                inside = ((rows >= 0) & (rows < height))[:, None] & ((columns >= 0) & (columns < width))
                at = np.ix_(np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1))
                total += np.where(inside[..., None], x[:, at[0], at[1]], 0)
        factors = np.ascontiguousarray(read(self.factors)).view(np.float32)[..., None]
        return encoded(total.astype(np.int32).astype(np.float32) * factors, self.zero, self.low, self.high)

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        words = (
            *(*self.output.shape, *self.input.shape[1:3], *self.input.strides, *self.output.strides),
            *(*self.kernel, *self.stride, *self.padding),
            *(self.source_zero, self.zero, self.low, self.high),
        )
        return HostCall("net_window_average", _FILE, words, (self.input, self.factors, self.output))


@dataclass(frozen=True)
class ScaledSoftmax(HostOperator):
    """output = encoded(e / total / scale), e = exponentials[largest - input], total their sum along the last dimension, added in
    order.

    Attributes:
        input: int8 [..., L].
        exponentials: bits of float32 numbers, int32 constant [256]: exp(-i * scale of the input).
        scale: float32, of the result.
        zero, low, high: of the result.
    """

    takes_runs: ClassVar[bool] = True

    input: View
    exponentials: View
    scale: float
    zero: int
    low: int
    high: int

    def compute(self, read: Read) -> Array:
        """See the class."""
        x = read(self.input).astype(np.int64)
        table = np.ascontiguousarray(read(self.exponentials)).view(np.float32)
        e = table[x.max(-1, keepdims=True) - x]
        total = np.add.accumulate(e, -1, dtype=np.float32)[..., -1:]
        return encoded(e / total / np.float32(self.scale), self.zero, self.low, self.high)

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        rows = nest_of(self.input.shape[:-1], [self.input.strides[:-1], self.output.strides[:-1]])
        words = (
            *(*rows.words(), self.input.shape[-1], self.input.strides[-1], self.output.strides[-1]),
            *(float32_bits(self.scale), self.zero, self.low, self.high),
        )
        return HostCall("net_scaled_softmax", _FILE, words, (self.input, self.exponentials, self.output))
