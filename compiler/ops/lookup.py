"""Operators that look elements up (`host/lookup.c`; at computed positions `host/selection.c`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from baco.accel.isa import float32_bits
from baco.compiler.host_core import SETS, WAYS
from baco.compiler.layers.reference import requantise
from baco.compiler.mapping.expression import Expression
from baco.compiler.ops.accesses import Accesses, of_chosen
from baco.compiler.ops.host_work import HostWork, OperandWalk, counted, line_misses
from baco.compiler.ops.nests import RowLoops, nest_of
from baco.compiler.ops.operator import (
    Array,
    Dependences,
    HostCall,
    IntegerOperator,
    Read,
    Values,
    itemsize,
)
from baco.compiler.ops.views import View


def within(index: Array, size: int) -> Array:
    """Positions, negative ones from the end, limited to `size` elements."""
    index = index.astype(np.int64)
    return np.clip(np.where(index < 0, index + size, index), 0, size - 1)


@dataclass(frozen=True)
class Embedding(IntegerOperator):
    """output[..., f] = table[i, f], i = indices[...] limited to the rows of the table.

    `indices` int32 [...], negative ones count from the end before they are limited; `table` int8 or int16 [rows, features].
    """

    indices: View
    table: View

    def compute(self, read: Read) -> Array:
        """See the class."""
        table = read(self.table)
        return np.asarray(table[within(read(self.indices), len(table))])

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        touched = Accesses(self)
        touched.read("indices", touched.result[:-1])
        touched.read("table", None, indirect=True)
        return touched.done(self.output.words)

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        shape, target = self.indices.shape, self.output.strides
        results = nest_of(shape, [self.indices.strides, target[: len(shape)]])
        entries, features = self.table.shape
        row_step, from_step = self.table.strides
        words = (*results.words(), features, from_step, target[-1], entries, row_step)
        rows = math.prod(shape)
        # indices are scattered: every row of the table comes anew, unless all of them stay in the cache
        size = itemsize(values[self.output.value])
        each = OperandWalk(0, (features,), (size * from_step,), size).lines(0)
        lines = each * (min(rows, entries) if entries * each <= SETS * WAYS // 2 else rows)
        lines += line_misses([results.walk(1, size).over(features, target[-1])])
        lines += results.walk(0, 4).lines(0)
        dense = from_step == target[-1] == 1
        aligned = row_step % 8 == 0 and all(one % 8 == 0 for one in results.strides[1])
        variant = "words" if dense and aligned else "bytes" if dense and size == 1 else "strided"
        work = HostWork(f"net_embed {variant}", counted(rows=rows, elements=rows * features), lines=lines)
        function = "net_embed" if size == 1 else "net_embed_wide"
        return HostCall(function, "lookup.c", words, (self.indices, self.table, self.output), work)


@dataclass(frozen=True)
class Rotation(IntegerOperator):
    """Rotary position embedding of x `input` [..., D], D even, halves h = D / 2 (`interleaved`: neighbouring pairs).

        a, b = x[i], x[h + i]   (interleaved: x[2*i], x[2*i + 1])
        output at a: scaled(a * cosine[..., i] - b * sine[..., i], scale)
        output at b: scaled(b * cosine[..., i] + a * sine[..., i], scale)

    which is a product with a matrix for every position (`baco.compiler.network.rotation`). Entries are at most half a 127th off,
    so that results are within one and a half steps of the input's scale, half of it their own rounding.

    `cosine`, `sine`: int8 constants broadcast to [..., h], 127 stands for 1; `scale` includes it.
    """

    input: View
    cosine: View
    sine: View
    interleaved: bool
    scale: float

    def compute(self, read: Read) -> Array:
        """See the class."""
        x = read(self.input).astype(np.int64)
        half = x.shape[-1] // 2
        halves = np.s_[..., :half], np.s_[..., half:]
        first, second = (np.s_[..., 0::2], np.s_[..., 1::2]) if self.interleaved else halves
        cosine, sine = read(self.cosine).astype(np.int64), read(self.sine).astype(np.int64)
        a, b = x[first], x[second]
        y = np.empty(x.shape, np.int64)
        y[first] = a * cosine - b * sine
        y[second] = b * cosine + a * sine
        return requantise(y, self.scale)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        touched = Accesses(self)
        last, half = len(touched.result) - 1, self.input.shape[-1] // 2
        lead = touched.result[:-1]
        side, at = touched.split(last, 2, half)
        other = touched.reduce("r", 2)

        def place(of: Expression) -> Expression:
            return at * 2 + of if self.interleaved else of * half + at

        touched.result[last] = place(side)
        touched.read("input", [*lead, place(other)])
        touched.read("cosine", [*lead, at])
        touched.read("sine", [*lead, at])
        return touched.done()

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        shape = self.input.shape
        pairs = shape[-1] // 2
        cosine, sine = (angle.expanded((*shape[:-1], pairs)) for angle in (self.cosine, self.sine))
        views = (self.input, cosine, sine, self.output)
        source, target = self.input.strides[-1], self.output.strides[-1]
        # from pair to pair; the elements of a pair are next to each other, or h apart
        apart, inside = (2, 1) if self.interleaved else (1, pairs)
        steps = (apart * source, cosine.strides[-1], sine.strides[-1], apart * target)
        loops = RowLoops(nest_of(shape[:-1], [view.strides[:-1] for view in views]), pairs, steps)
        nest = loops.walks((1, 1, 1, 1))
        work = HostWork(
            f"net_rotate {'dense' if loops.dense else 'strided'}",
            counted(rows=loops.rows, elements=loops.elements),
            nest,
            line_misses(nest[:1]) + line_misses(nest[3:]),
        )
        words = (*loops.words(), inside * source, inside * target, float32_bits(self.scale))
        return HostCall("net_rotate", "lookup.c", words, views, work)


@dataclass(frozen=True)
class Take(IntegerOperator):
    """output[..., j] = input[..., i], i = indices[..., j] (int32) limited to the last dimension of `input`.

    Negative indices count from the end before they are limited. Leading dimensions are the same in all three.
    """

    takes_runs: ClassVar[bool] = False

    input: View
    indices: View

    def compute(self, read: Read) -> Array:
        """See the class."""
        x = read(self.input)
        return np.take_along_axis(x, within(read(self.indices), x.shape[-1]), -1)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_chosen(self, "input", "indices")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        views = (self.input, self.indices, self.output)
        outer = nest_of(self.output.shape[:-1], [view.strides[:-1] for view in views])
        size, elements = itemsize(values[self.output.value]), self.output.words
        steps = tuple(view.strides[-1] for view in views)
        words = (*outer.words(), self.input.shape[-1], self.output.shape[-1], *steps, size)
        # no more elements of the input are read than there are indices
        lines = sum(
            min(elements, line_misses([outer.walk(n, nbytes).over(view.shape[-1], steps[n])]))
            for n, (view, nbytes) in enumerate(zip(views, (size, 4, size), strict=True))
        )
        amounts = counted(rows=math.prod(outer.shape), elements=elements)
        return HostCall("net_take", "selection.c", words, views, HostWork("net_take", amounts, lines=lines))


@dataclass(frozen=True)
class OneHot(IntegerOperator):
    """output[..., j] = on where indices[...] (int32) is j or j - d, else off; d is the last dimension of the output."""

    takes_runs: ClassVar[bool] = False

    indices: View
    on: int
    off: int

    def compute(self, read: Read) -> Array:
        """See the class."""
        depth = self.output.shape[-1]
        index, j = read(self.indices).astype(np.int64)[..., None], np.arange(depth)
        return np.where((index == j) | (index == j - depth), self.on, self.off).astype(np.int8)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_chosen(self, "indices")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        extent, step = self.output.shape[-1], self.output.strides[-1]
        outer = nest_of(self.indices.shape, [self.indices.strides, self.output.strides[:-1]])
        lines = outer.walk(0, 4).lines(0) + line_misses([outer.walk(1).over(extent, step)])
        amounts = counted(rows=self.indices.words, elements=self.output.words)
        work = HostWork("net_one_hot", amounts, lines=lines)
        words = (*outer.words(), extent, step, self.on, self.off)
        return HostCall("net_one_hot", "selection.c", words, (self.indices, self.output), work)


@dataclass(frozen=True)
class Unpool(IntegerOperator):
    """output = 0, but output.flat[indices[i]] = input[i] for every i in order, the last one of several staying.

    `input` and `indices` (int32) have one shape, whose elements are visited in row-major order; `output` is seen flat [size].
    Negative indices count from the end; those outside are left out.
    """

    takes_runs: ClassVar[bool] = False

    input: View
    indices: View

    def compute(self, read: Read) -> Array:
        """See the class."""
        (size,) = self.output.shape
        x, index = read(self.input).reshape(-1), read(self.indices).astype(np.int64).reshape(-1)
        index = np.where(index < 0, index + size, index)
        inside = (index >= 0) & (index < size)
        result = np.zeros(size, np.int8)
        result[index[inside]] = x[inside]
        return result

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_chosen(self, "input", "indices")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        views = (self.input, self.indices)
        loops = nest_of(self.input.shape, [view.strides for view in views], in_order=True)
        (size,), (step,) = self.output.shape, self.output.strides
        lines = line_misses([loops.walk(0)]) + line_misses([loops.walk(1, 4)])
        lines += 2 * OperandWalk(2, (size,), (step,)).lines(0)
        work = HostWork("net_unpool", counted(filled=size, elements=self.input.words), lines=lines)
        words = (*loops.words(), size, step)
        return HostCall("net_unpool", "selection.c", words, (*views, self.output), work)
