"""The integer reference: every operator of a quantised network in numpy integers, independent of emitted code.

Sums of products go through float64 matrix products, which are exact as long as all sums stay below 2**53; int32
results of this network never come near that. The only rounded arithmetic is the float32 scaling of the accelerator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from baco.common.errors import InputError, Location
from baco.compiler.layers.reference import requantise
from baco.compiler.network import graph as g
from baco.compiler.network.arithmetic import saturate8
from baco.compiler.network.selection import HostOperator
from baco.compiler.network.views import View
from baco.compiler.row_functions import normalise, softmax

__all__ = ["reference", "run_operator"]

Array = np.ndarray
#: Elements of a view.
Read = Callable[[View], Array]


def reference(network: g.QuantisedNetwork, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Elements of every value after a run: inputs, constants, intermediate ones and outputs, by name.

    Args:
        network: quantised.
        inputs: elements of the values of the role `input`, by value name (`quantise.quantise_inputs`).

    Raises:
        InputError: a missing input, one of another shape or type.
    """
    values: dict[str, Array] = {}
    for value in network.values.values():
        if value.role == "constant":
            values[value.name] = network.constants[value.name]
        elif value.role == "input":
            values[value.name] = _input(network, value, inputs)
        else:
            values[value.name] = np.zeros(value.shape, np.dtype(value.dtype))
    for name in {op.output.value for op in network.operators}:
        if network.values[name].role == "input":  # beside whose elements results are written
            values[name] = values[name].copy()
    for op in network.operators:
        result = run_operator(op, lambda view: view.read(values[view.value]))
        assert result.shape == op.output.shape, f"{op.name}: {result.shape}, not {op.output.shape}"
        op.output.write(values[op.output.value], result)
    return values


def _input(network: g.QuantisedNetwork, value: g.IntegerTensor, inputs: Mapping[str, Array]) -> Array:
    where = Location(network.name, node=value.name)
    if value.name not in inputs:
        raise InputError(f"the input '{value.name}' is missing", location=where)
    elements = np.asarray(inputs[value.name])
    if elements.shape != value.shape or elements.dtype != np.dtype(value.dtype):
        raise InputError(
            f"the input '{value.name}' is {elements.dtype} {elements.shape}, not {value.dtype} {value.shape}",
            location=where,
        )
    return elements


def run_operator(op: g.IntegerOperator, read: Read) -> Array:
    """The result of one operator, of the shape of its output; `read` gives the elements of its operands."""
    return op.compute(read) if isinstance(op, HostOperator) else _RULES[type(op)](op, read)


def _products(left: Array, right: Array) -> Array:
    """Exact matrix product of int8 matrices as int64."""
    assert left.shape[-1] < 2**38, "sums must stay below 2**53"
    return np.rint(left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)


def _stored(acc: Array, bias: Array | None, relu: bool, scale: float | None) -> Array:
    if bias is not None:
        acc = acc + bias.astype(np.int64)
    acc = _int32(acc)
    if scale is None:
        return acc
    return requantise(np.maximum(acc, 0) if relu else acc, scale)


def _int32(acc: Array) -> Array:
    """The accumulator: its sums were planned not to wrap."""
    if acc.size and (acc.max() >= 2**31 or acc.min() < -(2**31)):
        raise OverflowError("a sum is beyond 32 bits")
    return acc.astype(np.int32)


def _taps(
    x: Array,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    size: tuple[int, ...],
    fill: int,
) -> Iterator[tuple[int, int, Array]]:
    """For every tap (s, r), what all windows read there: [N, *size, C]."""
    reach = [(size[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 for i in range(2)]
    after = [max(0, reach[i] - padding[i] - x.shape[1 + i]) for i in range(2)]
    pads = ((0, 0), (padding[0], after[0]), (padding[1], after[1]), (0, 0))
    padded = np.pad(x, pads, constant_values=fill)
    for s in range(kernel[0]):
        for r in range(kernel[1]):
            top, left = s * dilation[0], r * dilation[1]
            yield (
                s,
                r,
                padded[
                    :,
                    top : top + (size[0] - 1) * stride[0] + 1 : stride[0],
                    left : left + (size[1] - 1) * stride[1] + 1 : stride[1],
                ],
            )


def _convolution(op: g.Convolution, read: Read) -> Array:
    x, w = read(op.input), read(op.weight)
    kernel = w.shape[:2]
    images, channels = x.shape[0], x.shape[3]
    depth, width = w.shape[2], w.shape[3] // op.groups
    acc = np.zeros((images, *op.size, op.groups, width), np.int64)
    for s, r, part in _taps(x, kernel, op.stride, op.padding, op.dilation, op.size, 0):
        taken = part.reshape(images, *op.size, op.groups, channels // op.groups)
        if depth == width == 1:
            acc[..., 0] += taken[..., 0].astype(np.int64) * w[s, r, 0].astype(np.int64)
            continue
        matrix = w[s, r].reshape(depth, op.groups, width).transpose(1, 0, 2)
        for group in range(op.groups):
            acc[..., group, :] += _products(taken[..., group, :], matrix[group])
    bias = None if op.bias is None else read(op.bias)
    y = _stored(acc.reshape(images, *op.size, -1), bias, op.relu, op.scale)
    if op.pool is None:
        return y
    one = (1, 1)
    size = (op.output.shape[1], op.output.shape[2])
    return _maximum(y, op.pool.kernel, op.pool.stride, op.pool.padding, one, size)


def _maximum(
    x: Array,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    size: tuple[int, int],
) -> Array:
    y = np.full((x.shape[0], *size, x.shape[3]), -128, np.int8)
    for _, _, part in _taps(x, kernel, stride, padding, dilation, size, -128):
        y = np.maximum(y, part)
    return y


def _maxpool(op: g.MaxPool, read: Read) -> Array:
    size = (op.output.shape[1], op.output.shape[2])
    return _maximum(read(op.input), op.kernel, op.stride, op.padding, op.dilation, size)


def _avgpool(op: g.AveragePool, read: Read) -> Array:
    x = read(op.input).astype(np.int64)
    size = (op.output.shape[1], op.output.shape[2])
    total = np.zeros(op.output.shape, np.int64)
    for _, _, part in _taps(x, op.kernel, op.stride, op.padding, (1, 1), size, 0):
        total += part
    factor = read(op.factor).astype(np.int64)[:, :, None]
    return saturate8((total * factor + (1 << (op.shift - 1))) >> op.shift)


def _matmul(op: g.MatMul, read: Read) -> Array:
    bias = None if op.bias is None else read(op.bias)
    return _stored(_products(read(op.left), read(op.right)), bias, op.relu, op.scale)


def _addition(op: g.Addition, read: Read) -> Array:
    left = requantise(read(op.left), op.left_scale).astype(np.int32)
    right = requantise(read(op.right), op.right_scale).astype(np.int32)
    return _stored((left + right).astype(np.int64), None, op.relu, op.scale)


def _map(op: g.Map, read: Read) -> Array:
    x = read(op.input)
    return x if op.table is None else read(op.table)[x.astype(np.int16) + 128]


def _fill(op: g.Fill, read: Read) -> Array:
    return np.full(op.output.shape, op.constant, np.int8)


def _multiplication(op: g.Multiplication, read: Read) -> Array:
    product = read(op.left).astype(np.int64) * read(op.right).astype(np.int64)
    return saturate8(op.rescale.apply(product))


def _binary_table(op: g.BinaryTable, read: Read) -> Array:
    left, right = read(op.left).astype(np.int16) + 128, read(op.right).astype(np.int16) + 128
    return np.asarray(read(op.table)[left, right])


def _softmax(op: g.Softmax, read: Read) -> Array:
    takes_part = None if op.mask is None else read(op.mask) != 0
    return softmax(read(op.input), takes_part, read(op.table), op.numerator)


def _normalisation(op: g.Normalisation, read: Read) -> Array:
    gain, offset = read(op.gain), read(op.offset)
    return normalise(read(op.input), gain, offset, op.shift, op.epsilon, centre=op.centre, axes=op.axes)


def _reduction(op: g.Reduction, read: Read) -> Array:
    x = read(op.input).astype(np.int64)
    axes = tuple(range(x.ndim - op.axes, x.ndim))
    functions: dict[str, Callable[..., Any]] = {"sum": np.sum, "max": np.max, "min": np.min}
    return saturate8(op.rescale.apply(np.asarray(functions[op.function](x, axis=axes))))


def _embedding(op: g.Embedding, read: Read) -> Array:
    table, index = read(op.table), read(op.indices).astype(np.int64)
    rows = len(table)
    return np.asarray(table[np.clip(np.where(index < 0, index + rows, index), 0, rows - 1)])


def _resize(op: g.Resize, read: Read) -> Array:
    x = read(op.input).astype(np.int64)
    rows, columns = read(op.rows).astype(np.int64), read(op.columns).astype(np.int64)
    one = 1 << 11
    f, h = rows[:, 2][:, None, None], columns[:, 2][:, None]

    def across(row: Array) -> Array:
        return np.asarray(row[:, :, columns[:, 0]] * (one - h) + row[:, :, columns[:, 1]] * h)

    blended: Array = across(x[:, rows[:, 0]]) * (one - f) + across(x[:, rows[:, 1]]) * f
    return saturate8((blended + (1 << 21)) >> 22)


def _argmax(op: g.ArgMax, read: Read) -> Array:
    x = read(op.input).astype(np.int64)
    x = -x if op.smallest else x
    index = x.shape[-1] - 1 - np.argmax(x[..., ::-1], -1) if op.last else np.argmax(x, -1)
    return np.asarray(index, dtype=np.int32)


def _rotation(op: g.Rotation, read: Read) -> Array:
    x = read(op.input).astype(np.int64)
    half = x.shape[-1] // 2
    pair = (np.s_[..., 0::2], np.s_[..., 1::2]) if op.interleaved else (np.s_[..., :half], np.s_[..., half:])
    cosine, sine = read(op.cosine).astype(np.int64), read(op.sine).astype(np.int64)
    a, b = x[pair[0]], x[pair[1]]
    y = np.empty(x.shape, np.int64)
    y[pair[0]] = a * cosine - b * sine
    y[pair[1]] = b * cosine + a * sine
    return requantise(y, op.scale)


_RULES: dict[type[g.IntegerOperator], Callable[[Any, Read], Array]] = {
    g.Convolution: _convolution,
    g.MatMul: _matmul,
    g.SumOfRows: _matmul,
    g.Addition: _addition,
    g.Map: _map,
    g.Fill: _fill,
    g.Multiplication: _multiplication,
    g.BinaryTable: _binary_table,
    g.Softmax: _softmax,
    g.Normalisation: _normalisation,
    g.MaxPool: _maxpool,
    g.AveragePool: _avgpool,
    g.Reduction: _reduction,
    g.Embedding: _embedding,
    g.Resize: _resize,
    g.ArgMax: _argmax,
    g.Rotation: _rotation,
}
