"""Sums of products: convolutions and matrix products, which the array computes; what no schedule can, `host/tensor.c` does."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from baco.accel.isa import float32_bits
from baco.common.errors import InfeasibleError
from baco.compiler.layers.reference import requantise
from baco.compiler.layers.wide_sums import ArraySums
from baco.compiler.mapping.expression import Expression
from baco.compiler.ops.accesses import Accesses
from baco.compiler.ops.host_work import HostWork, OperandWalk, counted
from baco.compiler.ops.images import image_lines, images_of_runs, largest, runs_of_images, windows
from baco.compiler.ops.int8_products import int8_products
from baco.compiler.ops.nests import nest_of
from baco.compiler.ops.operator import Array, Dependences, HostCall, IntegerOperator, Read, Values
from baco.compiler.ops.views import View

_FILE = "tensor.c"


@dataclass(frozen=True)
class Pool:
    """Windows of a maximum over an image; (height, width) pairs.

    Attributes:
        kernel, stride: of the window.
        padding: rows above and columns left of the image that the first window covers.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]


@dataclass(frozen=True)
class Convolution(IntegerOperator):
    """2-D convolution with requantisation and pooling, as `baco.compiler.layers.layer.Layer` has it. 1-D ones have height 1.

    With x `input` [N, H, W, C], w `weight` [S, R, C / groups, K] and zero outside the image, output channel k in
    group g = k // (K / groups):

        acc[n, q, p, k] = bias[k] + sum over s, r, c of
            x[n, q*stride[0] + s*dilation[0] - padding[0], p*stride[1] + r*dilation[1] - padding[1], g*(C/groups) + c]
            * w[s, r, c, k]                                                    (int32, never beyond its range)
        y = scaled(max(acc, 0) if relu else acc, scale), or acc itself (int32) without a scale
        output[n, q, p, k] = y[n, q, p, k], or with `pool` the maximum of y over the window, positions outside the
            `size` of y left out (only fused where y >= 0 or nothing is padded, so that zeros there do no harm)

    Attributes:
        input: [N, H, W, C]; channels are neighbours and pixels evenly apart (strides H*W*p, W*p, p, 1).
        weight: int8 constant [S, R, C / groups, K], dense.
        bias: int32 constant [K] or None.
        stride, dilation: (height, width).
        padding: rows above and columns left of the image; those below and right follow from `size`.
        size: (Q, P), height and width of the result before pooling.
        groups: the depthwise case is groups = C = K.
        relu: before the scale.
        scale: float32; None: results are sums (int32), without ReLU and pooling.
        pool: window after the scale, or None; `output` is then [N, pooled height, pooled width, K].
        floats: how elements that are codes of floating point are added up and rounded, from a float32 bias, by a scale that is a power
            of two, to float32 sums without a scale; pools only behind a ReLU. Or how int16 are. None: they are int8.
    """

    input: View
    weight: View
    bias: View | None
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    size: tuple[int, int]
    groups: int
    relu: bool
    scale: float | None
    pool: Pool | None = None
    floats: ArraySums | None = None

    def compute(self, read: Read) -> Array:
        """See the class. Raises OverflowError for a sum beyond its range."""
        read_images, w = read(self.input), read(self.weight)
        x = images_of_runs(read_images)
        kernel = w.shape[:2]
        channels, depth, width = x.shape[3], w.shape[2], w.shape[3] // self.groups
        every = windows(x, kernel, self.stride, self.padding, self.dilation, self.size, 0)
        acc: Array
        if self.floats:
            bias = None if self.bias is None else read(self.bias)
            sums = _float_convolution(self.floats, every, w, self.groups, bias)
            return runs_of_images(self._pooled(_stored_floats(sums, self)), read_images)
        if depth == width == 1:
            acc = np.zeros((len(x), *self.size, channels), np.int32)
            for s, r in np.ndindex(kernel):
                acc += every[:, :, :, s, r].astype(np.int32) * w[s, r, 0].astype(np.int32)
        else:
            parts = []
            for group in range(self.groups):
                taken = every[..., group * depth : (group + 1) * depth].reshape(len(x), *self.size, -1)
                matrix = w[..., group * width : (group + 1) * width].reshape(-1, width)
                parts.append(int8_products(taken, matrix))
            acc = parts[0] if len(parts) == 1 else np.concatenate(parts, -1)
        y = _stored(acc, None if self.bias is None else read(self.bias), self.relu, self.scale)
        return runs_of_images(self._pooled(y), read_images)

    def _pooled(self, y: Array) -> Array:
        if self.pool is None:
            return y
        size = (self.output.shape[1], self.output.shape[2])
        return largest(y, self.pool.kernel, self.pool.stride, self.pool.padding, (1, 1), size)

    def factors(self, read: Read) -> Array:
        """What the sums of a group read, [groups, N Q P, S R C / groups]: int8 in the order of the weights."""
        every = windows(
            images_of_runs(read(self.input)),
            self.weight.shape[:2],
            self.stride,
            self.padding,
            self.dilation,
            self.size,
            0,
        )
        depth = self.weight.shape[2]
        rows = every.reshape(-1, math.prod(self.weight.shape[:2]), self.groups, depth)
        return rows.transpose(2, 0, 1, 3).reshape(self.groups, len(rows), -1)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        window = (self.stride, self.padding, self.dilation)
        return of_convolution(
            self, self.weight, self.groups, *window, size=self.size, pool=self.pool, bias=True
        )

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        if self.pool is not None:
            raise InfeasibleError("the host computes convolution and pooling one after the other")
        _check_integers(self)
        images, window = (self.input, self.weight, self.output), (self.stride, self.padding, self.dilation)
        words, work = convolution_words("net_convolve", images, self.groups, *window, size=1)
        operands = (self.input, self.weight, self.bias, self.output)
        return HostCall("net_convolve", _FILE, (*words, *_way_out(self)), operands, work)


@dataclass(frozen=True)
class MatMul(IntegerOperator):
    """Matrix product, batched.

        acc[..., m, n] = bias[n] + sum over k of left[..., m, k] * right[..., k, n]      (int32)
        output[..., m, n] = scaled(max(acc, 0) if relu else acc, scale), or acc itself (int32) without a scale

    Attributes:
        left: int8 [*batch, M, K]; right: int8 [*batch, K, N]; output: [*batch, M, N], all with the same batch
            extents (stride 0 where an operand is shared). Trained weights are a constant without batch
            (`batch` is then empty: all leading dimensions are rows). The last stride of `left` and `output` is 1;
            of `right` one of the last two is (transposed: that of k).
        bias: int32 constant [N] or None.
        relu, scale, floats: as in `Convolution`.
    """

    left: View
    right: View
    bias: View | None
    relu: bool
    scale: float | None
    floats: ArraySums | None = None

    def compute(self, read: Read) -> Array:
        """See the class. Raises OverflowError for a sum beyond its range."""
        bias = None if self.bias is None else read(self.bias)
        if self.floats:
            left, right = (self.floats.numbers(read(one)) for one in (self.left, self.right))
            shape = (*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1])
            start = None if bias is None else np.broadcast_to(bias, shape)
            return _stored_floats(self.floats.added(start, left, right), self)
        return _stored(int8_products(read(self.left), read(self.right)), bias, self.relu, self.scale)

    def factors(self, read: Read) -> Array:
        """What the sums read, [1, rows, K]: `left`, of all batches."""
        left = read(self.left)
        return left.reshape(1, -1, left.shape[-1])

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_products(self, self.left.shape[-1], bias=True)

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        _check_integers(self)
        words, work = product_words("net_matmul", (self.left, self.right, self.output), (0, 1, 3), size=1)
        operands = (self.left, self.right, self.bias, self.output)
        return HostCall("net_matmul", _FILE, (*words, *_way_out(self)), operands, work)


@dataclass(frozen=True)
class SumOfRows(MatMul):
    """A sum or mean of rows as a product: `left` is a row of ones."""


def _float_convolution(floats: ArraySums, every: Array, w: Array, groups: int, bias: Array | None) -> Array:
    """Sums [N, Q, P, K] of windows [N, Q, P, S, R, C], in the order of `ArraySums`: groups side by side."""
    *pixels, _, _, channels = every.shape
    depth, width = channels // groups, w.shape[3] // groups
    total = None
    if bias is not None:
        total = np.broadcast_to(bias.reshape(groups, 1, width), (groups, math.prod(pixels), width))
    for s, r in np.ndindex(w.shape[:2]):
        left = every[..., s, r, :].reshape(-1, groups, depth).transpose(1, 0, 2)
        right = w[s, r].reshape(depth, groups, width).transpose(1, 0, 2)
        total = floats.added(total, floats.numbers(left), floats.numbers(right))
    assert total is not None
    return np.asarray(total.transpose(1, 0, 2).reshape(*pixels, w.shape[3]))


def _stored_floats(sums: Array, op: Convolution | MatMul) -> Array:
    assert op.floats is not None
    return sums if op.scale is None else op.floats.codes(sums, op.relu, op.scale)


def _check_integers(op: Convolution | MatMul) -> None:
    if op.floats:
        raise InfeasibleError(f"the host core computes no products of {op.floats.form}")


def _way_out(op: Convolution | MatMul) -> tuple[int, int]:
    """Whether there is a ReLU, or 2 where results are sums; bits of the scale."""
    return (2, 0) if op.scale is None else (int(op.relu), float32_bits(op.scale))


def _stored(acc: Array, bias: Array | None, relu: bool, scale: float | None) -> Array:
    """What becomes of sums (int32, or int64 where they might be beyond) on the way out."""
    acc = _int32(acc, bias)
    if scale is None:
        return acc
    return requantise(np.maximum(acc, 0) if relu else acc, scale)


def _int32(acc: Array, bias: Array | None) -> Array:
    """The accumulator: its sums were planned not to wrap. Raises OverflowError where they do."""
    if not acc.size:
        return acc.astype(np.int32)
    low, high = int(acc.min()), int(acc.max())
    if bias is not None:
        low, high = low + int(bias.min()), high + int(bias.max())
    if high < 2**31 and low >= -(2**31):
        return acc.astype(np.int32, copy=False) if bias is None else acc.astype(np.int32) + bias
    exact = acc.astype(np.int64) if bias is None else acc.astype(np.int64) + bias.astype(np.int64)
    if exact.max() >= 2**31 or exact.min() < -(2**31):
        raise OverflowError("a sum is beyond 32 bits")
    return exact.astype(np.int32)


# ---------------------------------------------------------------- of any kind of numbers


def of_products(op: IntegerOperator, depth: int, *, bias: bool) -> Dependences:
    """Every result depends on a row of `left` and a column of `right`."""
    touched = Accesses(op)
    *batch, m, n = touched.result
    k = touched.reduce("k", depth)
    touched.read("left", [*batch, m, k])
    touched.read("right", [*batch, k, n])
    if bias:
        touched.read("bias", [n])
    return touched.done()


def product_words(
    function: str, views: tuple[View, View, View], operands: tuple[int, int, int], *, size: int
) -> tuple[tuple[int, ...], HostWork]:
    """Parameters of a product of matrices, and its work.

    Args:
        views: left, right, result.
        operands: their numbers among the operands of the call.
        size: bytes of their elements.
    """
    left, right = views[:2]
    batch = nest_of(left.shape[:-2], [view.strides[:-2] for view in views])
    rows, columns, depth = left.shape[-2], right.shape[-1], left.shape[-1]
    (row, k), (deep, column), (down, across) = (view.strides[-2:] for view in views)
    words = (*batch.words(), rows, columns, depth, row, k, deep, column, down, across)
    order = (*batch.shape, rows, columns, depth)
    steps = ((row, 0, k), (0, column, deep), (down, across, 0))
    nest = tuple(
        OperandWalk(operand, order, tuple(size * stride for stride in (*outer, *inner)), size)
        for operand, outer, inner in zip(operands, batch.strides, steps, strict=True)
    )
    results = math.prod(batch.shape) * rows * columns
    return words, HostWork(function, counted(results=results, macs=results * depth), nest)


def of_convolution(
    op: IntegerOperator,
    weight: View,
    groups: int,
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    *,
    size: tuple[int, ...],
    pool: Pool | None = None,
    bias: bool = False,
) -> Dependences:
    """Every result depends on a window of `input`, or on those that a window of `pool` has, and on the weights of its channel."""
    touched = Accesses(op)
    taps_h, taps_w, depth, channels = weight.shape
    s, r, c = touched.reduce("s", taps_h), touched.reduce("r", taps_w), touched.reduce("c", depth)
    n, q, p, k = touched.result
    channel: Expression = k
    first: Expression = c
    if groups > 1:
        group, inner = touched.split(3, groups, channels // groups)
        channel = touched.result[3] = group * (channels // groups) + inner
        first = group * depth + c
    operations = math.prod((op.output.shape[0], *size, channels, taps_h, taps_w, depth))
    if pool is not None:
        t, u = touched.reduce("t", pool.kernel[0]), touched.reduce("u", pool.kernel[1])
        q = q * pool.stride[0] + t - pool.padding[0]
        p = p * pool.stride[1] + u - pool.padding[1]
    y = q * stride[0] + s * dilation[0] - padding[0]
    x = p * stride[1] + r * dilation[1] - padding[1]
    touched.read("input", [n, y, x, first])
    touched.read("weight", [s, r, c, channel])
    if bias:
        touched.read("bias", [channel])
    return touched.done(operations)


def convolution_words(
    function: str,
    images: tuple[View, View, View],
    groups: int,
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    *,
    size: int,
) -> tuple[tuple[int, ...], HostWork]:
    """Parameters of a convolution, and its work.

    Args:
        images: input, weights, result.
        size: bytes of their elements.
        others: as in `Convolution`.
    """
    source, weight, target = images
    taps_h, taps_w, depth, channels = weight.shape
    words = (
        *(*target.shape[:3], groups, channels // groups, depth, taps_h, taps_w),
        *(*source.shape[1:3], *stride, *padding, *dilation),
        *(*source.strides, *weight.strides, *target.strides),
    )
    results = target.words
    taps = results * taps_h * taps_w
    amounts = counted(results=results, taps=taps, macs=taps * depth)
    return words, HostWork(function, amounts, lines=image_lines(*((one, size) for one in images)))
