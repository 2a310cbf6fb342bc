"""Operators that the host core computes: which C function of `host/`, with which parameters.

The order of parameters and operands is that of the comments in the C files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from baco.accel.isa import float32_bits
from baco.common.errors import InfeasibleError
from baco.compiler.layers.reference import requantise
from baco.compiler.network.graph import (
    Addition,
    ArgMax,
    AveragePool,
    BinaryTable,
    Convolution,
    Embedding,
    Fill,
    IntegerOperator,
    IntegerTensor,
    Map,
    MatMul,
    MaxPool,
    Multiplication,
    Normalisation,
    Reduction,
    Resize,
    Rotation,
    Softmax,
    SumOfRows,
)
from baco.compiler.network.nests import common, nest_of
from baco.compiler.network.selection import HostOperator
from baco.compiler.network.steps import HostCall, itemsize
from baco.compiler.network.views import View, dense

Values = Mapping[str, IntegerTensor]


def host_call(operator: IntegerOperator, values: Values) -> HostCall:
    """The call that computes an operator. Raises InfeasibleError for one without a C function."""
    if isinstance(operator, HostOperator):
        return operator.host_call(values)
    for kind, make in _CALLS.items():
        if isinstance(operator, kind):
            return make(operator, values)
    raise InfeasibleError(f"the host has no code for the operator {type(operator).__name__}")


def copy_call(source: View, target: View, values: Values) -> HostCall:
    """Copies one view to another of the same shape and type."""
    return HostCall(
        "net_copy",
        "elementwise.c",
        (*_elementwise(source, target), itemsize(values[target.value])),
        (source, target),
    )


# ---------------------------------------------------------------- element by element


def _elementwise(*views: View) -> tuple[int, ...]:
    outer, extent, steps = common(views).split()
    return (*outer.words(), extent, *steps)


def _map(op: Map, values: Values) -> HostCall:
    if op.table is None:
        return copy_call(op.input, op.output, values)
    return HostCall(
        "net_map", "elementwise.c", _elementwise(op.input, op.output), (op.input, op.table, op.output)
    )


def _fill(op: Fill, values: Values) -> HostCall:
    words = (*_elementwise(op.output), itemsize(values[op.output.value]), op.constant)
    return HostCall("net_fill", "elementwise.c", words, (op.output,))


def _addition(op: Addition, _: Values) -> HostCall:
    numbers = np.arange(-128, 128, dtype=np.int32)
    sums = np.arange(-256, 256, dtype=np.int32)
    if op.relu:
        sums = np.maximum(sums, 0)
    name = f"{op.name}.sums"
    tables = np.concatenate(
        [
            requantise(numbers, op.left_scale),
            requantise(numbers, op.right_scale),
            requantise(sums, op.scale),
        ]
    )
    operands = (op.left, op.right, dense(name, tables.shape), op.output)
    return HostCall(
        "net_add", "elementwise.c", _elementwise(op.left, op.right, op.output), operands, {name: tables}
    )


def _multiplication(op: Multiplication, _: Values) -> HostCall:
    words = (*_elementwise(op.left, op.right, op.output), op.rescale.multiplier, op.rescale.shift)
    return HostCall("net_multiply", "elementwise.c", words, (op.left, op.right, op.output))


def _binary_table(op: BinaryTable, _: Values) -> HostCall:
    words = _elementwise(op.left, op.right, op.output)
    return HostCall("net_binary_table", "elementwise.c", words, (op.left, op.right, op.table, op.output))


# ---------------------------------------------------------------- row by row


def _rows(*views: View, axes: int = 1) -> tuple[int, ...]:
    """Walk over all but the last `axes` dimensions."""
    lead = len(views[0].shape) - axes
    return nest_of(views[0].shape[:lead], [one.strides[:lead] for one in views]).words()


def _softmax(op: Softmax, _: Values) -> HostCall:
    mask = op.mask if op.mask is not None else op.input
    words = (
        *_rows(op.input, op.output, mask),
        op.input.shape[-1],
        op.input.strides[-1],
        op.output.strides[-1],
        mask.strides[-1],
        op.numerator,
    )
    return HostCall("net_softmax", "rows.c", words, (op.input, op.table, op.mask, op.output))


def _normalisation(op: Normalisation, _: Values) -> HostCall:
    shape = op.input.shape
    lead = len(shape) - op.axes
    views = (op.input, op.gain.expanded(shape), op.offset.expanded(shape), op.output)
    row, extent, steps = nest_of(shape[lead:], [one.strides[lead:] for one in views]).split()
    elements = int(np.prod(shape[lead:], dtype=np.int64))
    words = (
        *(*_rows(*views, axes=op.axes), *row.words(), extent, *steps),
        *(elements, int(op.centre), op.epsilon, op.shift),
    )
    return HostCall("net_normalise", "rows.c", words, views)


def _reduction(op: Reduction, _: Values) -> HostCall:
    lead = len(op.input.shape) - op.axes
    results, many, results_steps = nest_of(
        op.input.shape[:lead], [op.input.strides[:lead], op.output.strides]
    ).split()
    row, extent, steps = nest_of(op.input.shape[lead:], [op.input.strides[lead:]]).split()
    function = ("sum", "max", "min").index(op.function)
    words = (
        *(*results.words(), many, *results_steps, *row.words(), extent, *steps),
        *(function, op.rescale.multiplier, op.rescale.shift),
    )
    return HostCall("net_reduce", "rows.c", words, (op.input, op.output))


def _argmax(op: ArgMax, _: Values) -> HostCall:
    lead = op.input.shape[:-1]
    results = nest_of(lead, [op.input.strides[:-1], op.output.strides[: len(lead)]])
    words = (*results.words(), op.input.shape[-1], op.input.strides[-1], int(op.last), int(op.smallest))
    return HostCall("net_argmax", "rows.c", words, (op.input, op.output))


# ---------------------------------------------------------------- images


def _images(source: View, target: View) -> tuple[int, ...]:
    return (*target.shape, *source.shape[1:3], *source.strides, *target.strides)


def _max_pool(op: MaxPool, _: Values) -> HostCall:
    words = (*_images(op.input, op.output), *op.kernel, *op.stride, *op.padding, *op.dilation)
    return HostCall("net_max_pool", "images.c", words, (op.input, op.output))


def _average_pool(op: AveragePool, _: Values) -> HostCall:
    words = (
        *_images(op.input, op.output),
        *(*op.kernel, *op.stride, *op.padding, *op.factor.strides, op.shift),
    )
    return HostCall("net_average_pool", "images.c", words, (op.input, op.factor, op.output))


def _resize(op: Resize, _: Values) -> HostCall:
    words = (*_images(op.input, op.output), *op.rows.strides, *op.columns.strides)
    return HostCall("net_resize", "images.c", words, (op.input, op.rows, op.columns, op.output))


# ---------------------------------------------------------------- tables


def _embedding(op: Embedding, _: Values) -> HostCall:
    lead = len(op.indices.shape)
    results = nest_of(op.indices.shape, [op.indices.strides, op.output.strides[:lead]])
    rows, features = op.table.shape
    words = (
        *results.words(),
        *(features, op.table.strides[1], op.output.strides[-1], rows, op.table.strides[0]),
    )
    return HostCall("net_embed", "lookup.c", words, (op.indices, op.table, op.output))


def _rotation(op: Rotation, _: Values) -> HostCall:
    shape = op.input.shape
    pairs = shape[-1] // 2
    cosine, sine = (one.expanded((*shape[:-1], pairs)) for one in (op.cosine, op.sine))
    views = (op.input, cosine, sine, op.output)
    rows = nest_of(shape[:-1], [one.strides[:-1] for one in views])
    source, target = op.input.strides[-1], op.output.strides[-1]
    apart = (
        2 if op.interleaved else 1
    )  # from pair to pair; the elements of a pair are next to each other, or h apart
    within = 1 if op.interleaved else pairs
    steps = (apart * source, cosine.strides[-1], sine.strides[-1], apart * target)
    words = (*rows.words(), pairs, *steps, within * source, within * target, float32_bits(op.scale))
    return HostCall("net_rotate", "lookup.c", words, views)


# ---------------------------------------------------------------- what no schedule can compute


def _way_out(op: Convolution | MatMul) -> tuple[int, int]:
    """Whether there is a ReLU, or 2 where results are sums; bits of the scale."""
    return (2, 0) if op.scale is None else (int(op.relu), float32_bits(op.scale))


def _matmul(op: MatMul, _: Values) -> HostCall:
    batch = nest_of(op.left.shape[:-2], [one.strides[:-2] for one in (op.left, op.right, op.output)])
    words = (
        *batch.words(),
        *(op.left.shape[-2], op.right.shape[-1], op.left.shape[-1]),
        *(*op.left.strides[-2:], *op.right.strides[-2:], *op.output.strides[-2:]),
        *_way_out(op),
    )
    return HostCall("net_matmul", "tensor.c", words, (op.left, op.right, op.bias, op.output))


def _convolution(op: Convolution, _: Values) -> HostCall:
    if op.pool is not None:
        raise InfeasibleError("the host computes convolution and pooling one after the other")
    taps_h, taps_w, depth, channels = op.weight.shape
    words = (
        *(op.input.shape[0], *op.size, op.groups, channels // op.groups, depth, taps_h, taps_w),
        *(*op.input.shape[1:3], *op.stride, *op.padding, *op.dilation),
        *(*op.input.strides, *op.weight.strides, *op.output.strides),
        *_way_out(op),
    )
    return HostCall("net_convolve", "tensor.c", words, (op.input, op.weight, op.bias, op.output))


_CALLS: dict[type[IntegerOperator], Callable[[Any, Values], HostCall]] = {
    Addition: _addition,
    ArgMax: _argmax,
    AveragePool: _average_pool,
    BinaryTable: _binary_table,
    Convolution: _convolution,
    Embedding: _embedding,
    Fill: _fill,
    Map: _map,
    MatMul: _matmul,
    SumOfRows: _matmul,
    MaxPool: _max_pool,
    Multiplication: _multiplication,
    Normalisation: _normalisation,
    Reduction: _reduction,
    Resize: _resize,
    Rotation: _rotation,
    Softmax: _softmax,
}
