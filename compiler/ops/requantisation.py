"""Operators of the host core for models that are quantised already: what their scales and zero points ask for and the array lacks
(`host/quantised.c`).

Real arithmetic is that of float32, one rounding for each operation, in the order written here:

    encoded(y) = limited(rint(y) + zero) to low...high, ties to even
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from baco.accel.isa import float32_bits
from baco.compiler.ops.accesses import of_elements, of_reduced, of_rows, of_windows
from baco.compiler.ops.calls import elementwise, loop_call
from baco.compiler.ops.images import image_words, window_work
from baco.compiler.ops.nests import element_loops, row_loops
from baco.compiler.ops.operator import Array, Dependences, HostCall, IntegerOperator, Read, Values
from baco.compiler.ops.rows import reducing_call
from baco.compiler.ops.views import View

_FILE = "quantised.c"

#: float32 numbers beyond these are limited before they become integers.
_LIMIT = np.float32(2.0**30)


def encoded(y: Array, zero: int, low: int, high: int) -> Array:
    """int8, see above."""
    steps = np.rint(np.clip(np.asarray(y, np.float32), -_LIMIT, _LIMIT)).astype(np.int64)
    return np.clip(steps + zero, low, high).astype(np.int8)


@dataclass(frozen=True)
class Requantise(IntegerOperator):
    """output = encoded(float32(input + rows + columns) * factors[k]), the sum one of 64 bits.

    Attributes:
        input: int32 [..., K], sums of products.
        rows, columns: int32 views of the same shape that are added, or None.
        factors: bits of float32 factors, int32 constant [K], or [1] for all channels.
        zero, low, high: of the result.
    """

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

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "input", "rows", "columns")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        operands = (self.input, self.rows, self.columns, self.factors, self.output)
        factors = self.factors.expanded(self.output.shape)
        more = (self.rows or self.input, self.columns or self.input)
        loops = element_loops(self.input, *more, factors, self.output)
        given = [None if one is None else n for n, one in enumerate(operands)]
        plain = given.count(None) == 2
        variant = "dense" if plain and loops.steps[0] == loops.steps[4] == 1 else "strided"
        return loop_call(
            "net_requantise",
            _FILE,
            loops,
            (4, 4, 4, 4, 1),
            operands,
            (self.zero, self.low, self.high),
            walked=given,
            variant=variant if plain else "corrected",
        )


@dataclass(frozen=True)
class Shifted(IntegerOperator):
    """output (int8) = limited((input * multipliers + offsets) / 2**shift, halves up) to low...high, less `moved`, in 64 bits.

    Attributes:
        input: whole numbers, int32 or float32.
        multipliers, offsets: int32, broadcast to that shape.
        shift: 0 to 62.
        low, high: of the result before `moved` is taken away.
        real: whether `input` is float32.
    """

    input: View
    multipliers: View
    offsets: View
    shift: int
    low: int
    high: int
    moved: int
    real: bool

    def compute(self, read: Read) -> Array:
        """See the class."""
        x, by, more = (read(one).astype(np.int64) for one in (self.input, self.multipliers, self.offsets))
        y = (x * by + more + (1 << self.shift >> 1)) >> self.shift
        return np.asarray(np.clip(y, self.low, self.high) - self.moved, np.int8)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "input", "multipliers", "offsets")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        operands = (self.input, self.multipliers, self.offsets, self.output)
        numbers = self.shift, self.low, self.high, self.moved, int(self.real)
        loops = element_loops(*operands)
        # Its time was not fitted: that of a product, a sum and two limits of real numbers.
        amounts = dict.fromkeys(("operands", "simple"), 4.0 * loops.elements)
        call = loop_call("net_shift", _FILE, loops, (4, 4, 4, 1), operands, numbers, amounts=amounts)
        return replace(call, work=replace(call.work, variant="net_elements"))


@dataclass(frozen=True)
class ScaledPair(IntegerOperator):
    """output = encoded(tables[0, left + 128] + tables[1, right + 128]), or of their product times `ratio`, plus `inside`.

    Attributes:
        left, right: int8 views of one shape, either of which may repeat elements.
        tables: bits of float32 numbers, int32 constant [2, 256].
        product: whether it is one.
        zero, low, high: of the result.
        inside, ratio: a whole number that is added to a product, times this float32, before it is rounded; 0 and 1 of sums.
    """

    left: View
    right: View
    tables: View
    product: bool
    zero: int
    low: int
    high: int
    inside: int = 0
    ratio: float = 1.0

    def compute(self, read: Read) -> Array:
        """See the class."""
        tables = np.ascontiguousarray(read(self.tables)).view(np.float32)
        left = tables[0][read(self.left).astype(np.int16) + 128]
        right = tables[1][read(self.right).astype(np.int16) + 128]
        real = left * right if self.product else left + right
        if self.product:
            real = real * np.float32(self.ratio) + np.float32(self.inside)
        return encoded(real, self.zero, self.low, self.high)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "left", "right")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        operands = (self.left, self.right, self.tables, self.output)
        numbers = (int(self.product), self.inside, float32_bits(self.ratio), self.zero, self.low, self.high)
        return elementwise("net_scaled_pair", operands, numbers, table=2, source=_FILE)


@dataclass(frozen=True)
class RowSums(IntegerOperator):
    """output (int32) = offset + factor * sum of the last dimension of `input` (int8)."""

    input: View
    factor: int
    offset: int

    def compute(self, read: Read) -> Array:
        """See the class."""
        total = read(self.input).astype(np.int64).sum(-1) * self.factor + self.offset
        return np.asarray(total, np.int32)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_reduced(self, "input")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        return reducing_call("net_row_sums", _FILE, self.input, self.output, (self.factor, self.offset))


@dataclass(frozen=True)
class WindowAverage(IntegerOperator):
    """output[n, q, p, c] = encoded(float32(sum of input - source_zero over the window inside the image) * factors[q, p]); with scales of
    input and output the sum is one of (input - source_zero) * scales[0] in float32, in order, which is divided by factors[q, p], then by
    scales[1], and to which `inside` is added.

    Attributes:
        input: [N, H, W, C].
        factors: bits of float32 factors, int32 constant [Q, P]: ratio of scales by how many elements count.
        kernel, stride, padding: (height, width); padding above and left.
        source_zero: the element of `input` that stands for 0.
        zero, low, high: of the result.
        scales: float32, positive.
        inside: a whole number.
    """

    takes_runs: ClassVar[bool] = False

    input: View
    factors: View
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    source_zero: int
    zero: int
    low: int
    high: int
    scales: tuple[float, float] | None = None
    inside: int = 0

    def compute(self, read: Read) -> Array:
        """See the class."""
        x: Array = read(self.input).astype(np.int32) - np.int32(self.source_zero)
        if self.scales is not None:
            x = np.asarray(x.astype(np.float32) * np.float32(self.scales[0]))
        _, height, width, _ = x.shape
        total = np.zeros(self.output.shape, x.dtype)
        for s in range(self.kernel[0]):
            rows = np.arange(self.output.shape[1]) * self.stride[0] + s - self.padding[0]
            for r in range(self.kernel[1]):
                columns = np.arange(self.output.shape[2]) * self.stride[1] + r - self.padding[1]
                inside = ((rows >= 0) & (rows < height))[:, None] & ((columns >= 0) & (columns < width))
                at = np.ix_(np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1))
                total += np.where(inside[..., None], x[:, at[0], at[1]], 0)
        factors = np.ascontiguousarray(read(self.factors)).view(np.float32)[..., None]
        mean = total.astype(np.float32) * factors
        if self.scales is not None:
            mean = total / factors / np.float32(self.scales[1]) + np.float32(self.inside)
        return encoded(mean, self.zero, self.low, self.high)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_windows(self, self.kernel, self.stride, self.padding, by_position="factors")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        images, window = (self.input, self.output), (self.kernel, self.stride, self.padding)
        words = (*image_words(*images), *(one for pair in window for one in pair))
        bits = (0, 0) if self.scales is None else map(float32_bits, self.scales)
        limits = (self.source_zero, self.zero, self.low, self.high, *bits, self.inside)
        work = window_work("net_window_average", *images, *window)
        operands = (self.input, self.factors, self.output)
        return HostCall("net_window_average", _FILE, (*words, *limits), operands, work)


@dataclass(frozen=True)
class ScaledSoftmax(IntegerOperator):
    """output = encoded(e / total / scale), e = exponentials[largest - input], total their sum along the last dimension, added in
    order.

    Attributes:
        input: int8 [..., L].
        exponentials: bits of float32 numbers, int32 constant [256]: exp(-i * scale of the input).
        scale: float32, of the result.
        zero, low, high: of the result.
    """

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

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_rows(self, "input")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        loops = row_loops(self.input, self.output)
        operands = (self.input, self.exponentials, self.output)
        numbers = (float32_bits(self.scale), self.zero, self.low, self.high)
        return loop_call("net_scaled_softmax", _FILE, loops, (1, 1), operands, numbers, walked=(0, 2))
