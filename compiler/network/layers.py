"""Tensor operators as layers of the accelerator: the problem, and where its tensors lie.

A layer's images and matrices have one pitch from pixel to pixel; views that have none are copied first
(`baco.compiler.network.lowering`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from baco.compiler.layers.layer import Layer, Layout, Pooling
from baco.compiler.ops.nests import nest_of
from baco.compiler.ops.products import Convolution, MatMul, Pool
from baco.compiler.ops.views import View
from baco.workloads.problem import Problem


def pixel_pitch(view: View) -> int | None:
    """Elements from pixel to pixel of an image view [N, H, W, C]; None if it has no single one.

    Channels must be next to each other, and rows and images follow each other without gaps.
    """
    _, height, width, channels = view.shape
    if channels > 1 and view.strides[3] != 1:
        return None
    found = {
        stride // pixels if stride % pixels == 0 else -1
        for size, stride, pixels in zip(view.shape, view.strides, (height * width, width, 1), strict=False)
        if size > 1
    }
    if not found:
        return channels
    pitch = found.pop()
    return pitch if not found and pitch >= channels else None


def is_image(view: View) -> bool:
    """Whether a layer can read or write it in place."""
    return pixel_pitch(view) is not None


def pooling_of(pool: Pool | None, output: View) -> Pooling | None:
    """The accelerator's pooling. Raises ValueError for windows that it does not have."""
    if pool is None:
        return None
    size, stride, padding = pool.kernel, pool.stride, pool.padding
    if any(pair[0] != pair[1] for pair in (size, stride, padding)):
        raise ValueError("pooling windows of the accelerator are square")
    if not (1 <= size[0] <= 3 and 1 <= stride[0] <= 3 and 0 <= padding[0] < size[0]):
        raise ValueError("pooling windows of the accelerator have edges and strides of at most 3")
    return Pooling(size[0], stride[0], padding[0], output.shape[1], output.shape[2])


def convolution_layer(op: Convolution) -> Layer:
    """The layer of a convolution whose input and output are images (`is_image`) and whose weights are dense.

    Raises ValueError for pooling that the accelerator does not have.
    """
    taps_h, taps_w, depth, channels = op.weight.shape
    outs = channels // op.groups
    pooling = pooling_of(op.pool, op.output)
    input_pitch, output_pitch = pixel_pitch(op.input), pixel_pitch(op.output)
    if input_pitch is None or output_pitch is None:
        raise ValueError("what is no image must be copied first")
    return Layer(
        Problem(
            R=taps_w,
            S=taps_h,
            P=op.size[1],
            Q=op.size[0],
            C=depth,
            K=outs,
            N=op.input.shape[0],
            stride_w=op.stride[1],
            stride_h=op.stride[0],
            dilation_w=op.dilation[1],
            dilation_h=op.dilation[0],
            groups=op.groups,
        ),
        image=(op.input.shape[1], op.input.shape[2]),
        padding=op.padding,
        bias=op.bias is not None,
        relu=op.relu,
        scale=op.scale,
        pooling=pooling,
        input=Layout(input_pitch, depth),
        weight=Layout(channels, outs),
        output=Layout(output_pitch, outs),
        elements=op.floats.form if op.floats else "integer",
    )


def matrix_pitch(rows: int, columns: int, row_stride: int, column_stride: int) -> int | None:
    """Elements from row to row of a matrix whose elements of a row are next to each other; None for another one."""
    if columns > 1 and column_stride != 1:
        return None
    if rows == 1:
        return columns
    return row_stride if row_stride >= columns else None


@dataclass(frozen=True)
class MatrixCalls:
    """A batched product as calls of one layer.

    Attributes:
        layer: a product of some groups.
        offsets: for each call, where left, right and output begin, in elements from the views' own beginnings.
    """

    layer: Layer
    offsets: tuple[tuple[int, int, int], ...]


def matmul_layer(op: MatMul) -> MatrixCalls | None:
    """The layer of a matrix product, and how often it is called; None if an operand must be copied first.

    Rows of `left` and `output` must be contiguous, `right` may be stored transposed. Matrices of the batch that lie at
    one distance in all three are groups of one layer; what remains of the batch are calls.
    """
    rows, depth = op.left.shape[-2:]
    columns = op.right.shape[-1]
    left = matrix_pitch(rows, depth, *op.left.strides[-2:])
    out = matrix_pitch(rows, columns, *op.output.strides[-2:])
    right = matrix_pitch(depth, columns, *op.right.strides[-2:])
    transposed = right is None
    if transposed:
        right = matrix_pitch(columns, depth, op.right.strides[-1], op.right.strides[-2])
    if left is None or right is None or out is None:
        return None
    batch = nest_of(op.left.shape[:-2], [one.strides[:-2] for one in (op.left, op.right, op.output)])
    outer, groups, steps = batch.split()
    if op.bias is not None or min(steps) < 0:  # every matrix has the same bias
        outer, groups, steps = batch, 1, (0, 0, 0)
    if rows == 1:  # any pitch will do; one that spans all groups lets several of them run at once
        left, out = max(left, groups * steps[0]), max(out, groups * steps[2])
    layer = Layer(
        Problem(P=rows, C=depth, K=columns, groups=groups),
        bias=op.bias is not None,
        relu=op.relu,
        scale=op.scale,
        input=Layout(left, steps[0]),
        weight=Layout(right, steps[1]),
        output=Layout(out, steps[2]),
        weights_transposed=transposed,
        elements=op.floats.form if op.floats else "integer",
    )
    return MatrixCalls(layer, tuple(_offsets(outer.shape, outer.strides)))


def _offsets(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
    offsets = [(0, 0, 0)]
    for d, size in enumerate(shape):
        a, b, c = (one[d] for one in strides)
        offsets = [(x + n * a, y + n * b, z + n * c) for x, y, z in offsets for n in range(size)]
    return offsets
