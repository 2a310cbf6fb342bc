"""Operators of the host core that select elements or count: the largest ones, elements at computed positions, norms.

Each class is one operator whole: its exact integer definition (docstring and `compute`, plain numpy) and the call of its C
function (`host/selection.c`); what a call costs is in `baco.compiler.network.host_work`, under the function's name.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from baco.accel.isa import float32_bits
from baco.compiler.network.arithmetic import saturate8
from baco.compiler.network.graph import IntegerOperator, IntegerTensor
from baco.compiler.network.nests import common, nest_of
from baco.compiler.network.steps import HostCall, itemsize
from baco.compiler.network.views import View

_FILE = "selection.c"

Array = np.ndarray
Read = Callable[[View], Array]
Values = Mapping[str, IntegerTensor]


@dataclass(frozen=True)
class HostOperator(IntegerOperator):
    """An operator that the host core computes.

    Attributes:
        takes_runs: whether `compute` takes operands with a dimension more in front, of runs side by side.
    """

    takes_runs: ClassVar[bool] = False

    @abstractmethod
    def compute(self, read: Read) -> Array:
        """The result, of the shape of `output`; `read` gives the elements of views."""

    @abstractmethod
    def host_call(self, values: Values) -> HostCall:
        """The call of its C function, parameters in the order of the function's comment."""


@dataclass(frozen=True)
class Conversion(HostOperator):
    """output = float32(input) * scale, rounded to nearest (ties to even), limited to the range of the output's type.

    Positions (int32) as numbers (int8) and back.
    """

    input: View
    scale: float

    def compute(self, read: Read) -> Array:
        """See the class."""
        x = read(self.input)
        product = np.rint(x.astype(np.float32) * np.float32(self.scale)).astype(np.int64)
        if x.dtype == np.int32:
            return saturate8(product)
        return np.asarray(product, np.int32)

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        outer, extent, steps = common((self.input, self.output)).split()
        wide = itemsize(values[self.input.value]) == 4
        words = (*outer.words(), extent, *steps, int(wide), float32_bits(self.scale))
        return HostCall("net_convert", _FILE, words, (self.input, self.output))


@dataclass(frozen=True)
class TopK(HostOperator):
    """output (int32) [..., k] = positions of the k largest elements of the last dimension of `input`, the largest one first,
    equal ones in the order of their positions; `smallest`: of the k smallest, the smallest one first."""

    input: View
    smallest: bool = False

    def compute(self, read: Read) -> Array:
        """See the class."""
        x = read(self.input).astype(np.int64)
        order = np.argsort(x if self.smallest else -x, axis=-1, kind="stable")
        return np.asarray(order[..., : self.output.shape[-1]], np.int32)

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        rows = nest_of(self.input.shape[:-1], [self.input.strides[:-1], self.output.strides[:-1]])
        lengths = (
            self.input.shape[-1],
            self.input.strides[-1],
            self.output.shape[-1],
            self.output.strides[-1],
        )
        return HostCall(
            "net_top", _FILE, (*rows.words(), *lengths, int(self.smallest)), (self.input, self.output)
        )


@dataclass(frozen=True)
class Take(HostOperator):
    """output[..., j] = input[..., i], i = indices[..., j] (int32) limited to the last dimension of `input`.

    Negative indices count from the end before they are limited. Leading dimensions are the same in all three.
    """

    input: View
    indices: View

    def compute(self, read: Read) -> Array:
        """See the class."""
        x, index = read(self.input), read(self.indices).astype(np.int64)
        size = x.shape[-1]
        return np.take_along_axis(x, np.clip(np.where(index < 0, index + size, index), 0, size - 1), -1)

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        views = (self.input, self.indices, self.output)
        rows = nest_of(self.output.shape[:-1], [view.strides[:-1] for view in views])
        lengths = (self.input.shape[-1], self.output.shape[-1])
        steps = tuple(view.strides[-1] for view in views)
        size = itemsize(values[self.output.value])
        return HostCall("net_take", _FILE, (*rows.words(), *lengths, *steps, size), views)


@dataclass(frozen=True)
class OneHot(HostOperator):
    """output[..., j] = on where indices[...] (int32) is j or j - d, else off; d is the last dimension of the output."""

    indices: View
    on: int
    off: int

    def compute(self, read: Read) -> Array:
        """See the class."""
        depth = self.output.shape[-1]
        index, j = read(self.indices).astype(np.int64)[..., None], np.arange(depth)
        return np.where((index == j) | (index == j - depth), self.on, self.off).astype(np.int8)

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        rows = nest_of(self.indices.shape, [self.indices.strides, self.output.strides[:-1]])
        words = (*rows.words(), self.output.shape[-1], self.output.strides[-1], self.on, self.off)
        return HostCall("net_one_hot", _FILE, words, (self.indices, self.output))


@dataclass(frozen=True)
class MaxPositions(HostOperator):
    """output (int32) [n, q, p, c] = position of the first maximum of a window of `input` [N, H, W, C], as `MaxPool` has windows:
    n * steps[0] + y * steps[1] + x * steps[2] + c * steps[3] for the element [n, y, x, c]."""

    input: View
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    steps: tuple[int, int, int, int]

    def compute(self, read: Read) -> Array:
        """See the class."""
        x = read(self.input).astype(np.int64)
        images, height, width, channels = x.shape
        best = np.full(self.output.shape, -129, np.int64)
        found = np.zeros(self.output.shape, np.int64)
        lead = np.arange(images)[:, None, None, None] * self.steps[0] + np.arange(channels) * self.steps[3]
        for s in range(self.kernel[0]):
            rows = np.arange(self.output.shape[1]) * self.stride[0] + s * self.dilation[0] - self.padding[0]
            for r in range(self.kernel[1]):
                columns = np.arange(self.output.shape[2]) * self.stride[1] + r * self.dilation[1]
                columns = columns - self.padding[1]
                inside = ((rows >= 0) & (rows < height))[:, None] & ((columns >= 0) & (columns < width))
                at = np.ix_(np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1))
                element = np.where(inside[..., None], x[:, at[0], at[1]], -129)
                position = lead + (rows[:, None] * self.steps[1] + columns * self.steps[2])[..., None]
                found = np.where(element > best, position, found)
                best = np.maximum(best, element)
        return found.astype(np.int32)

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        words = (
            *(*self.output.shape, *self.input.shape[1:3], *self.input.strides, *self.output.strides),
            *(*self.kernel, *self.stride, *self.padding, *self.dilation, *self.steps),
        )
        return HostCall("net_max_positions", _FILE, words, (self.input, self.output))


@dataclass(frozen=True)
class Unpool(HostOperator):
    """output = 0, but output.flat[indices[i]] = input[i] for every i in order, the last one of several staying.

    `input` and `indices` (int32) have one shape, whose elements are visited in row-major order; `output` is seen flat [size].
    Negative indices count from the end; those outside are left out.
    """

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

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        views = (self.input, self.indices)
        walk = nest_of(self.input.shape, [view.strides for view in views], in_order=True)
        words = (*walk.words(), self.output.shape[0], self.output.strides[0])
        return HostCall("net_unpool", _FILE, words, (*views, self.output))


@dataclass(frozen=True)
class TermSum(HostOperator):
    """output = -128 + how many of `limits` are at most the sum of terms[x + 128] over the last `axes` dimensions of `input`.

    A function of a sum of functions, its rounding exact: norms (terms |x|**p, limits where the root reaches the next half step)
    and logarithms of sums of exponentials. `terms` int64 constant [256], `limits` int64 constant [255], rising; sums stay below
    2**63. `output` has the leading dimensions of `input`.
    """

    input: View
    terms: View
    limits: View
    axes: int

    def compute(self, read: Read) -> Array:
        """See the class."""
        x = read(self.input)
        terms = read(self.terms)[x.astype(np.int16) + 128]
        total = terms.sum(tuple(range(x.ndim - self.axes, x.ndim)), dtype=np.int64)
        return np.asarray(np.searchsorted(read(self.limits), total, side="right") - 128, np.int8)

    def host_call(self, values: Values) -> HostCall:
        """See `HostOperator`."""
        lead = len(self.input.shape) - self.axes
        results = nest_of(self.input.shape[:lead], [self.input.strides[:lead], self.output.strides])
        row, extent, (step,) = nest_of(self.input.shape[lead:], [self.input.strides[lead:]]).split()
        words = (*results.words(), *row.words(), extent, step)
        return HostCall("net_term_sum", _FILE, words, (self.input, self.terms, self.limits, self.output))
