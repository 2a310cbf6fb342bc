"""The integer reference: every operator of a quantised network in numpy integers, independent of emitted code.

Sums of products are exact (`baco.compiler.network.int8_products`). The only rounded arithmetic is the float32 scaling of the
accelerator. Runs of several inputs go side by side: arrays then have one dimension more in front, of the runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from baco.common.errors import InputError, Location
from baco.compiler.layers.reference import requantise
from baco.compiler.network import graph as g
from baco.compiler.network.arithmetic import saturate8
from baco.compiler.network.int8_products import int8_products
from baco.compiler.network.selection import HostOperator
from baco.compiler.network.views import View
from baco.compiler.row_functions import normalise, softmax

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
    values = reference_runs(network, [inputs])
    constant = {one.name for one in network.values.values() if one.role == "constant"}
    return {name: array if name in constant else array[0] for name, array in values.items()}


def reference_runs(network: g.QuantisedNetwork, runs: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """The same of several runs side by side: constants as they are, all others with a dimension more in front, of the runs."""
    values: dict[str, Array] = {}
    for value in network.values.values():
        if value.role == "constant":
            values[value.name] = network.constants[value.name]
        elif value.role == "input":
            values[value.name] = np.stack([_input(network, value, inputs) for inputs in runs])
        else:
            values[value.name] = np.zeros((len(runs), *value.shape), np.dtype(value.dtype))
    everywhere = {name: _of_runs(network, len(runs), network.values[name]) for name in network.values}
    for op in network.operators:
        if _takes_runs(network, op):
            result = run_operator(op, lambda view: everywhere[view.value](view).read(values[view.value]))
        else:
            result = np.stack([_run_alone(network, op, values, run) for run in range(len(runs))])
        target = everywhere[op.output.value](op.output)
        assert op.output.shape == result.shape[-len(op.output.shape) :] or not op.output.shape
        target.write(values[op.output.value], result)
    return values


def _of_runs(network: g.QuantisedNetwork, runs: int, value: g.IntegerTensor) -> Callable[[View], View]:
    """How views of a value see it in all runs."""
    if value.role == "constant":
        return lambda view: view
    words = math.prod(value.shape)
    return lambda view: View(view.value, (runs, *view.shape), (words, *view.strides), view.offset)


def _run_alone(
    network: g.QuantisedNetwork, op: g.IntegerOperator, values: Mapping[str, Array], run: int
) -> Array:
    """The result of one operator in one of the runs."""

    def read(view: View) -> Array:
        shared = network.values[view.value].role == "constant"
        return view.read(values[view.value] if shared else values[view.value][run])

    return run_operator(op, read)


def _takes_runs(network: g.QuantisedNetwork, op: g.IntegerOperator) -> bool:
    """Whether its rule takes operands with a dimension more in front. No rule has weights or biases that differ from run to run."""
    if isinstance(op, HostOperator) and not op.takes_runs:
        return False
    shared = (getattr(op, name, None) for name in ("weight", "bias"))
    return all(one is None or network.values[one.value].role == "constant" for one in shared)


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


def _windows(
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


def _images(x: Array) -> Array:
    """Images [N, H, W, C] of all runs."""
    return x.reshape(-1, *x.shape[-3:])


def _runs(y: Array, x: Array) -> Array:
    """The same of results, with the leading dimensions of the images `x` that they were made of."""
    return y.reshape(*x.shape[:-3], *y.shape[1:])


def _convolution(op: g.Convolution, read: Read) -> Array:
    read_images, w = read(op.input), read(op.weight)
    x = _images(read_images)
    kernel = w.shape[:2]
    channels, depth, width = x.shape[3], w.shape[2], w.shape[3] // op.groups
    windows = _windows(x, kernel, op.stride, op.padding, op.dilation, op.size, 0)
    acc: Array
    if depth == width == 1:
        acc = np.zeros((len(x), *op.size, channels), np.int32)
        for s, r in np.ndindex(kernel):
            acc += windows[:, :, :, s, r].astype(np.int32) * w[s, r, 0].astype(np.int32)
    else:
        parts = []
        for group in range(op.groups):
            taken = windows[..., group * depth : (group + 1) * depth].reshape(len(x), *op.size, -1)
            matrix = w[..., group * width : (group + 1) * width].reshape(-1, width)
            parts.append(int8_products(taken, matrix))
        acc = parts[0] if len(parts) == 1 else np.concatenate(parts, -1)
    y = _stored(acc, None if op.bias is None else read(op.bias), op.relu, op.scale)
    if op.pool is not None:
        one = (1, 1)
        size = (op.output.shape[1], op.output.shape[2])
        y = _maximum(y, op.pool.kernel, op.pool.stride, op.pool.padding, one, size)
    return _runs(y, read_images)


def _maximum(
    x: Array,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    size: tuple[int, int],
) -> Array:
    y = np.full((x.shape[0], *size, x.shape[3]), -128, np.int8)
    windows = _windows(x, kernel, stride, padding, dilation, size, -128)
    for s, r in np.ndindex(kernel):
        np.maximum(y, windows[:, :, :, s, r], out=y)
    return y


def _maxpool(op: g.MaxPool, read: Read) -> Array:
    x, size = read(op.input), (op.output.shape[1], op.output.shape[2])
    return _runs(_maximum(_images(x), op.kernel, op.stride, op.padding, op.dilation, size), x)


def _avgpool(op: g.AveragePool, read: Read) -> Array:
    x = read(op.input)
    images = _images(x).astype(np.int64)
    size = (op.output.shape[1], op.output.shape[2])
    total = np.zeros((len(images), *op.output.shape[1:]), np.int64)
    windows = _windows(images, op.kernel, op.stride, op.padding, (1, 1), size, 0)
    for s, r in np.ndindex(op.kernel):
        total += windows[:, :, :, s, r]
    factor = read(op.factor).astype(np.int64)[:, :, None]
    return _runs(saturate8((total * factor + (1 << (op.shift - 1))) >> op.shift), x)


def _matmul(op: g.MatMul, read: Read) -> Array:
    bias = None if op.bias is None else read(op.bias)
    return _stored(int8_products(read(op.left), read(op.right)), bias, op.relu, op.scale)


def _addition(op: g.Addition, read: Read) -> Array:
    left = requantise(read(op.left), op.left_scale).astype(np.int32)
    right = requantise(read(op.right), op.right_scale).astype(np.int32)
    return _stored(left + right, None, op.relu, op.scale)


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
    images = read(op.input)
    x = _images(images).astype(np.int64)
    rows, columns = read(op.rows).astype(np.int64), read(op.columns).astype(np.int64)
    one = 1 << 11
    f, h = rows[:, 2][:, None, None], columns[:, 2][:, None]

    def across(row: Array) -> Array:
        return np.asarray(row[:, :, columns[:, 0]] * (one - h) + row[:, :, columns[:, 1]] * h)

    blended: Array = across(x[:, rows[:, 0]]) * (one - f) + across(x[:, rows[:, 1]]) * f
    return _runs(saturate8((blended + (1 << 21)) >> 22), images)


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
