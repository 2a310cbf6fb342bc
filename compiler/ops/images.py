"""Operators on images [N, H, W, C] (`host/images.c`; positions of maxima `host/selection.c`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from baco.compiler.ops.accesses import Accesses, of_windows
from baco.compiler.ops.arithmetic import saturate8
from baco.compiler.ops.host_work import HostWork, OperandWalk, counted
from baco.compiler.ops.operator import Array, Dependences, HostCall, IntegerOperator, Read, Values
from baco.compiler.ops.views import View

_FILE = "images.c"


def windows(
    x: Array,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    size: tuple[int, ...],
    fill: int,
) -> Array:
    """What every window reads of images [N, H, W, C]: [N, *size, *kernel, C], a view."""
    reach = [(size[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 for i in range(2)]
    after = [max(0, reach[i] - padding[i] - x.shape[1 + i]) for i in range(2)]
    pads = ((0, 0), (padding[0], after[0]), (padding[1], after[1]), (0, 0))
    padded = np.pad(x, pads, constant_values=fill)
    image, row, pixel, channel = padded.strides
    steps = (row * stride[0], pixel * stride[1], row * dilation[0], pixel * dilation[1])
    shape = (len(x), *size, *kernel, x.shape[3])
    return np.lib.stride_tricks.as_strided(padded, shape, (image, *steps, channel), writeable=False)


def images_of_runs(x: Array) -> Array:
    """Images [N, H, W, C] of all runs."""
    return x.reshape(-1, *x.shape[-3:])


def runs_of_images(y: Array, x: Array) -> Array:
    """The same of results, with the leading dimensions of the images `x` that they were made of."""
    return y.reshape(*x.shape[:-3], *y.shape[1:])


def largest(
    x: Array,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    size: tuple[int, int],
) -> Array:
    """Maxima of windows, of integers of any width."""
    least = int(np.iinfo(x.dtype).min)
    y = np.full((x.shape[0], *size, x.shape[3]), least, x.dtype)
    every = windows(x, kernel, stride, padding, dilation, size, least)
    for s, r in np.ndindex(kernel):
        np.maximum(y, every[:, :, :, s, r], out=y)
    return y


def image_words(source: View, target: View) -> tuple[int, ...]:
    """The parameters that functions of images begin with."""
    return (*target.shape, *source.shape[1:3], *source.strides, *target.strides)


def image_lines(*images: tuple[View, int]) -> float:
    """Cache lines of images, or weights, each of which comes once; with the bytes of an element."""
    return sum(
        OperandWalk(0, view.shape, tuple(size * one for one in view.strides), size).lines(0)
        for view, size in images
    )


def window_work(
    function: str,
    source: View,
    target: View,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
) -> HostWork:
    """Of a function of int8 windows that goes over the parts of them that are inside."""
    images, rows, columns, channels = target.shape
    down, across = (
        sum(
            0 <= at * stride[i] + tap * dilation[i] - padding[i] < source.shape[1 + i]
            for at in range(count)
            for tap in range(kernel[i])
        )
        for i, count in enumerate((rows, columns))
    )
    pixels = images * rows * columns
    amounts = counted(
        pixels=pixels,
        results=pixels * channels,
        rows=images * down * columns * channels,
        taps=images * down * across * channels,
    )
    return HostWork(function, amounts, lines=image_lines((source, 1), (target, 1)))


@dataclass(frozen=True)
class MaxPool(IntegerOperator):
    """output[n, q, p, c] = maximum of input[n, q*stride[0] + s*dilation[0] - padding[0], ..., c] over the window.

    `input` [N, H, W, C]; positions outside the image do not take part (every window meets the image).
    """

    input: View
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    def compute(self, read: Read) -> Array:
        """See the class."""
        x, size = read(self.input), (self.output.shape[1], self.output.shape[2])
        y = largest(images_of_runs(x), self.kernel, self.stride, self.padding, self.dilation, size)
        return runs_of_images(y, x)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_windows(self, self.kernel, self.stride, self.padding, self.dilation)

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        images, window = (self.input, self.output), (self.kernel, self.stride, self.padding, self.dilation)
        words = (*image_words(*images), *(one for pair in window for one in pair))
        work = window_work("net_max_pool", *images, *window)
        return HostCall("net_max_pool", _FILE, words, images, work)


@dataclass(frozen=True)
class AveragePool(IntegerOperator):
    """output[n, q, p, c] = sat8((sum * factor[q, p] + 2**(shift - 1)) >> shift), sum over the window inside the image.

    `input` [N, H, W, C]; `factor` int32 constant [Q, P] holds the ratio of scales divided by the number of
    elements that count (with or without padding) in units of 2**-shift.
    """

    input: View
    factor: View
    shift: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]

    def compute(self, read: Read) -> Array:
        """See the class."""
        x = read(self.input)
        images = images_of_runs(x).astype(np.int64)
        size = (self.output.shape[1], self.output.shape[2])
        total = np.zeros((len(images), *self.output.shape[1:]), np.int64)
        every = windows(images, self.kernel, self.stride, self.padding, (1, 1), size, 0)
        for s, r in np.ndindex(self.kernel):
            total += every[:, :, :, s, r]
        factor = read(self.factor).astype(np.int64)[:, :, None]
        return runs_of_images(saturate8((total * factor + (1 << (self.shift - 1))) >> self.shift), x)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_windows(self, self.kernel, self.stride, self.padding, by_position="factor")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        images, window = (self.input, self.output), (self.kernel, self.stride, self.padding)
        words = (*image_words(*images), *(one for pair in window for one in pair))
        work = window_work("net_average_pool", *images, *window)
        operands = (self.input, self.factor, self.output)
        return HostCall("net_average_pool", _FILE, (*words, *self.factor.strides, self.shift), operands, work)


@dataclass(frozen=True)
class Resize(IntegerOperator):
    """Resampling of images `input` [N, H, W, C] to `output` [N, Q, P, C].

    With the rows a = rows[q, 0], b = rows[q, 1], weight f = rows[q, 2] and the columns likewise (g):

        top = x[a, left] * (2**11 - g) + x[a, right] * g;  bottom: the same in row b
        output = sat8((top * (2**11 - f) + bottom * f + 2**21) >> 22)

    Attributes:
        rows: int32 constant [Q, 3]; columns: int32 constant [P, 3]; nearest neighbours have weights of 0.
    """

    input: View
    rows: View
    columns: View

    def compute(self, read: Read) -> Array:
        """See the class."""
        images = read(self.input)
        x = images_of_runs(images).astype(np.int64)
        rows, columns = read(self.rows).astype(np.int64), read(self.columns).astype(np.int64)
        one = 1 << 11
        f, h = rows[:, 2][:, None, None], columns[:, 2][:, None]

        def across(row: Array) -> Array:
            return np.asarray(row[:, :, columns[:, 0]] * (one - h) + row[:, :, columns[:, 1]] * h)

        blended: Array = across(x[:, rows[:, 0]]) * (one - f) + across(x[:, rows[:, 1]]) * f
        return runs_of_images(saturate8((blended + (1 << 21)) >> 22), images)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return resampled(self)

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        words = (*image_words(self.input, self.output), *self.rows.strides, *self.columns.strides)
        elements = self.output.words
        amounts = counted(pixels=elements // self.output.shape[3], elements=elements)
        work = HostWork("net_resize", amounts, lines=image_lines((self.input, 1), (self.output, 1)))
        return HostCall("net_resize", _FILE, words, (self.input, self.rows, self.columns, self.output), work)


def resampled(op: IntegerOperator) -> Dependences:
    """Every result is made of four elements of `input`, at positions that tables tell."""
    touched = Accesses(op)
    touched.reduce("s", 2)
    touched.reduce("r", 2)
    touched.read("input", None)
    return touched.done()


@dataclass(frozen=True)
class MaxPositions(IntegerOperator):
    """output (int32) [n, q, p, c] = position of the first maximum of a window of `input` [N, H, W, C], as `MaxPool` has windows:
    n * steps[0] + y * steps[1] + x * steps[2] + c * steps[3] for the element [n, y, x, c]."""

    takes_runs: ClassVar[bool] = False

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
        positions = np.zeros(self.output.shape, np.int64)
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
                positions = np.where(element > best, position, positions)
                best = np.maximum(best, element)
        return positions.astype(np.int32)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_windows(self, self.kernel, self.stride, self.padding, self.dilation)

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        images, window = (self.input, self.output), (self.kernel, self.stride, self.padding, self.dilation)
        words = (*image_words(*images), *(one for pair in window for one in pair), *self.steps)
        results, taps = self.output.words, self.kernel[0] * self.kernel[1]
        amounts = counted(results=results, rows=results * self.kernel[0], taps=results * taps)
        work = HostWork("net_max_positions", amounts, lines=image_lines((self.input, 1), (self.output, 4)))
        return HostCall("net_max_positions", "selection.c", words, images, work)
