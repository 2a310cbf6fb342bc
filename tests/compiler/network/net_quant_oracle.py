"""Integer operators of quantised networks by loops over single elements, in Python integers and fractions.

Nothing is taken from `baco.compiler.network` but the fields of the operators: views are followed index by index.
"""

from __future__ import annotations

import itertools
import math
import struct
from fractions import Fraction

import numpy as np


def to_float32(x: Fraction) -> Fraction:
    """The float32 nearest to x (ties to even), normal numbers only."""
    if x == 0:
        return x
    exponent = math.floor(math.log2(abs(x)))
    while Fraction(2) ** exponent > abs(x):
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= abs(x):
        exponent += 1
    unit = Fraction(2) ** (exponent - 23)
    return to_integer(x / unit) * unit


def to_integer(x: Fraction) -> int:
    """The integer nearest to x, ties to even."""
    low = math.floor(x)
    rest = x - low
    if rest == Fraction(1, 2):
        return low + low % 2
    return low + (rest > Fraction(1, 2))


def sat8(x: int) -> int:
    return max(-128, min(127, x))


def scaled(x: int, scale: float) -> int:
    product = to_float32(to_float32(Fraction(x)) * Fraction(float(np.float32(scale))))
    return sat8(to_integer(product))


def rescaled(x: int, factor) -> int:
    return (x * factor.multiplier + 2 ** (factor.shift - 1)) // 2**factor.shift


class Memory:
    """Values as flat lists."""

    def __init__(self, values, kinds=None):
        self.kinds = kinds or {}
        self.flat = {}
        for name, v in values.items():
            number = float if self.kinds.get(name) == "float32" else int
            self.flat[name] = [number(x) for x in np.asarray(v).reshape(-1)]

    def at(self, view, *index):
        return self.flat[view.value][
            view.offset + sum(i * s for i, s in zip(index, view.strides, strict=True))
        ]

    def put(self, view, index, element):
        position = view.offset + sum(i * s for i, s in zip(index, view.strides, strict=True))
        self.flat[view.value][position] = element


def indices(shape):
    return itertools.product(*(range(n) for n in shape))


def _requantise(acc, op):
    if op.scale is None:
        return acc
    return scaled(max(acc, 0) if op.relu else acc, op.scale)


def convolution(op, m):
    images, height, width, channels = op.input.shape
    kernel_h, kernel_w, depth, outputs = op.weight.shape
    y = {}
    for n, q, p, k in itertools.product(range(images), range(op.size[0]), range(op.size[1]), range(outputs)):
        group = k // (outputs // op.groups)
        acc = 0 if op.bias is None else m.at(op.bias, k)
        for s, r, c in itertools.product(range(kernel_h), range(kernel_w), range(depth)):
            row = q * op.stride[0] + s * op.dilation[0] - op.padding[0]
            column = p * op.stride[1] + r * op.dilation[1] - op.padding[1]
            if 0 <= row < height and 0 <= column < width:
                acc += m.at(op.input, n, row, column, group * depth + c) * m.at(op.weight, s, r, c, k)
        y[n, q, p, k] = _requantise(acc, op)
    assert channels == depth * op.groups
    if op.pool is None:
        return y
    pooled = {}
    for n, q, p, k in indices(op.output.shape):
        window = []
        for s, r in itertools.product(range(op.pool.kernel[0]), range(op.pool.kernel[1])):
            row = q * op.pool.stride[0] + s - op.pool.padding[0]
            column = p * op.pool.stride[1] + r - op.pool.padding[1]
            # The accelerator counts positions outside as 0: the two must agree.
            window.append(y.get((n, row, column, k), 0))
        pooled[n, q, p, k] = max(window)
    return pooled


def matmul(op, m):
    result = {}
    for index in indices(op.output.shape):
        *batch, row, column = index
        acc = 0 if op.bias is None else m.at(op.bias, column)
        for k in range(op.left.shape[-1]):
            acc += m.at(op.left, *batch, row, k) * m.at(op.right, *batch, k, column)
        result[index] = _requantise(acc, op)
    return result


def addition(op, m):
    return {
        i: _requantise(
            scaled(m.at(op.left, *i), op.left_scale) + scaled(m.at(op.right, *i), op.right_scale), op
        )
        for i in indices(op.output.shape)
    }


def lookup(op, m):
    if op.table is None:
        return {i: m.at(op.input, *i) for i in indices(op.output.shape)}
    return {i: m.at(op.table, m.at(op.input, *i) + 128) for i in indices(op.output.shape)}


def fill(op, m):
    return dict.fromkeys(indices(op.output.shape), op.constant)


def multiplication(op, m):
    return {
        i: sat8(rescaled(m.at(op.left, *i) * m.at(op.right, *i), op.rescale))
        for i in indices(op.output.shape)
    }


def binary_table(op, m):
    return {
        i: m.at(op.table, m.at(op.left, *i) + 128, m.at(op.right, *i) + 128) for i in indices(op.output.shape)
    }


def softmax(op, m):
    result = {}
    length = op.input.shape[-1]
    for row in indices(op.input.shape[:-1]):
        seen = [i for i in range(length) if op.mask is None or m.at(op.mask, *row, i)]
        x = {i: m.at(op.input, *row, i) for i in seen}
        e = {i: m.at(op.table, max(x.values()) - x[i]) for i in seen}
        total = sum(e.values())
        for i in range(length):
            if i not in e:
                result[(*row, i)] = 0
                continue
            product = e[i] * min(op.numerator // total, 65535)
            result[(*row, i)] = min(127, (product + 2**23) >> 24)
    return result


def normalisation(op, m):
    result = {}
    lead, rest = op.input.shape[: -op.axes], op.input.shape[-op.axes :]
    n = math.prod(rest)
    for row in indices(lead):
        x = {i: m.at(op.input, *row, *i) for i in indices(rest)}
        total = sum(x.values()) if op.centre else 0
        variance = n * sum(v * v for v in x.values()) - total * total + op.epsilon
        assert variance < 2**62
        root = max(1, math.isqrt(variance * 2**16))
        factor = min(n * 2**28 // root, 2**28 - 1)
        mean = min(abs(total) * 2**28 // root, 2**36 - 1) * (-1 if total < 0 else 1)
        for i, v in x.items():
            normal = max(-(2**19), min(2**19 - 1, (v * factor - mean + 2**7) >> 8))
            where = (*row, *i)
            offset = m.at(op.offset, *where) * 2 ** (op.shift - 7)
            result[where] = sat8((normal * m.at(op.gain, *where) + offset + 2 ** (op.shift - 1)) >> op.shift)
    return result


def _window(op, index, dilation, shape):
    n, q, p, c = index
    for s, r in itertools.product(range(op.kernel[0]), range(op.kernel[1])):
        row = q * op.stride[0] + s * dilation[0] - op.padding[0]
        column = p * op.stride[1] + r * dilation[1] - op.padding[1]
        if 0 <= row < shape[1] and 0 <= column < shape[2]:
            yield n, row, column, c


def maxpool(op, m):
    return {
        i: max(m.at(op.input, *w) for w in _window(op, i, op.dilation, op.input.shape))
        for i in indices(op.output.shape)
    }


def avgpool(op, m):
    result = {}
    for i in indices(op.output.shape):
        total = sum(m.at(op.input, *w) for w in _window(op, i, (1, 1), op.input.shape))
        result[i] = sat8((total * m.at(op.factor, i[1], i[2]) + 2 ** (op.shift - 1)) >> op.shift)
    return result


def reduction(op, m):
    lead, rest = op.input.shape[: -op.axes], op.input.shape[-op.axes :]
    function = {"sum": sum, "max": max, "min": min}[op.function]
    return {
        i: sat8(rescaled(function([m.at(op.input, *i, *j) for j in indices(rest)]), op.rescale))
        for i in indices(lead)
    }


def embedding(op, m):
    rows = op.table.shape[0]
    result = {}
    for i in indices(op.output.shape):
        row = m.at(op.indices, *i[:-1])
        row = max(0, min(rows - 1, row + rows if row < 0 else row))
        result[i] = m.at(op.table, row, i[-1])
    return result


def resize(op, m):
    result = {}
    for n, q, p, c in indices(op.output.shape):
        a, b, f = (m.at(op.rows, q, j) for j in range(3))
        left, right, g = (m.at(op.columns, p, j) for j in range(3))
        top = m.at(op.input, n, a, left, c) * (2048 - g) + m.at(op.input, n, a, right, c) * g
        bottom = m.at(op.input, n, b, left, c) * (2048 - g) + m.at(op.input, n, b, right, c) * g
        result[n, q, p, c] = sat8((top * (2048 - f) + bottom * f + 2**21) >> 22)
    return result


def argmax(op, m):
    result = {}
    for i in indices(op.output.shape):
        row = [m.at(op.input, *i, j) * (-1 if op.smallest else 1) for j in range(op.input.shape[-1])]
        best = [j for j, x in enumerate(row) if x == max(row)]
        result[i] = best[-1] if op.last else best[0]
    return result


def rotation(op, m):
    half = op.input.shape[-1] // 2
    result = {}
    for *lead, i in indices((*op.input.shape[:-1], half)):
        first, second = (2 * i, 2 * i + 1) if op.interleaved else (i, half + i)
        a, b = m.at(op.input, *lead, first), m.at(op.input, *lead, second)
        cosine, sine = m.at(op.cosine, *lead, i), m.at(op.sine, *lead, i)
        result[(*lead, first)] = scaled(a * cosine - b * sine, op.scale)
        result[(*lead, second)] = scaled(b * cosine + a * sine, op.scale)
    return result


def conversion(op, m):
    result = {}
    for i in indices(op.output.shape):
        factor = Fraction(float(np.float32(op.scale)))
        number = to_integer(to_float32(to_float32(Fraction(m.at(op.input, *i))) * factor))
        result[i] = sat8(number) if m.kinds[op.output.value] == "int8" else number
    return result


def top(op, m):
    result = {}
    for i in indices(op.input.shape[:-1]):
        row = [m.at(op.input, *i, j) for j in range(op.input.shape[-1])]
        left = list(range(len(row)))
        for place in range(op.output.shape[-1]):
            best = min(left, key=lambda j, row=row: (row[j] if op.smallest else -row[j], j))
            left.remove(best)
            result[(*i, place)] = best
    return result


def take(op, m):
    result, size = {}, op.input.shape[-1]
    for *i, j in indices(op.output.shape):
        at = m.at(op.indices, *i, j)
        result[(*i, j)] = m.at(op.input, *i, max(0, min(size - 1, at + size if at < 0 else at)))
    return result


def one_hot(op, m):
    result, depth = {}, op.output.shape[-1]
    for *i, j in indices(op.output.shape):
        result[(*i, j)] = op.on if m.at(op.indices, *i) in (j, j - depth) else op.off
    return result


def max_positions(op, m):
    result = {}
    for i in indices(op.output.shape):
        places = list(_window(op, i, op.dilation, op.input.shape))
        best = max(m.at(op.input, *w) for w in places)
        first = next(w for w in places if m.at(op.input, *w) == best)
        result[i] = sum(a * b for a, b in zip(first, op.steps, strict=True))
    return result


def unpool(op, m):
    (size,) = op.output.shape
    result = dict.fromkeys(indices(op.output.shape), 0)
    for i in indices(op.input.shape):
        at = m.at(op.indices, *i)
        if -size <= at < size:
            result[(at % size,)] = m.at(op.input, *i)
    return result


def term_sum(op, m):
    lead, rest = op.input.shape[: -op.axes], op.input.shape[-op.axes :]
    result = {}
    for i in indices(lead):
        total = sum(m.at(op.terms, m.at(op.input, *i, *j) + 128) for j in indices(rest))
        result[i] = sum(m.at(op.limits, k) <= total for k in range(255)) - 128
    return result


def as_real(bits: int) -> Fraction:
    """The float32 that 32 bits are."""
    return Fraction(struct.unpack("<f", struct.pack("<i", bits))[0])


def encoded(y: Fraction, op) -> int:
    return max(op.low, min(op.high, to_integer(y) + op.zero))


def requantise(op, m):
    result = {}
    for i in indices(op.output.shape):
        total = m.at(op.input, *i)
        total += sum(m.at(view, *i) for view in (op.rows, op.columns) if view is not None)
        factor = as_real(m.at(op.factors, i[-1] if op.factors.shape[0] > 1 else 0))
        result[i] = encoded(to_float32(to_float32(Fraction(total)) * factor), op)
    return result


def single(x: float) -> float:
    """The float32 nearest to a float64."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def decoded(op, m):
    return {i: m.at(op.table, m.at(op.input, *i) + 128) for i in indices(op.output.shape)}


def encoded_real(op, m):
    result = {}
    for i in indices(op.output.shape):
        steps = single(m.at(op.input, *i) / single(op.scale))
        result[i] = max(op.low, min(op.high, round(steps) + op.zero))
    return result


def real_pair(op, m):
    assert op.function == "add"
    return {i: single(m.at(op.left, *i) + m.at(op.right, *i)) for i in indices(op.output.shape)}


def real_function(op, m):
    assert op.function == "clip"
    low, high = op.parameters
    return {i: single(max(low, min(high, m.at(op.input, *i)))) for i in indices(op.output.shape)}


def real_convolution(op, m):
    _, height, width, _ = op.input.shape
    kernel_h, kernel_w, depth, outputs = op.weight.shape
    y = {}
    for n, q, p, k in indices(op.output.shape):
        total = 0.0
        for s, r, c in itertools.product(range(kernel_h), range(kernel_w), range(depth)):
            row = q * op.stride[0] + s * op.dilation[0] - op.padding[0]
            column = p * op.stride[1] + r * op.dilation[1] - op.padding[1]
            if 0 <= row < height and 0 <= column < width:
                channel = k // (outputs // op.groups) * depth + c
                total += m.at(op.input, n, row, column, channel) * m.at(op.weight, s, r, c, k)
        y[n, q, p, k] = single(total)
    return y


def row_sums(op, m):
    length = op.input.shape[-1]
    return {
        i: op.offset + op.factor * sum(m.at(op.input, *i, k) for k in range(length))
        for i in indices(op.output.shape)
    }


def shifted(op, m):
    result = {}
    for i in indices(op.output.shape):
        x, by, offset = (int(m.at(one, *i)) for one in (op.input, op.multipliers, op.offsets))
        whole = math.floor(Fraction(x * by + offset, 2**op.shift) + Fraction(1, 2))
        result[i] = min(max(whole, op.low), op.high) - op.moved
    return result


def scaled_pair(op, m):
    result = {}
    for i in indices(op.output.shape):
        a, b = (
            as_real(m.at(op.tables, n, m.at(view, *i) + 128)) for n, view in enumerate((op.left, op.right))
        )
        real = to_float32(a * b if op.product else a + b)
        real = to_float32(to_float32(real * op.ratio) + op.inside)
        result[i] = encoded(real, op)
    return result


def window_average(op, m):
    _, height, width, _ = op.input.shape
    result = {}
    for n, q, p, c in indices(op.output.shape):
        total = Fraction(0)
        for s, r in indices(op.kernel):
            y, x = q * op.stride[0] + s - op.padding[0], p * op.stride[1] + r - op.padding[1]
            if 0 <= y < height and 0 <= x < width:
                number = Fraction(int(m.at(op.input, n, y, x, c)) - op.source_zero)
                if op.scales is not None:
                    number = to_float32(number * Fraction(float(np.float32(op.scales[0]))))
                total = to_float32(total + number)
        factor = as_real(m.at(op.factors, q, p))
        if op.scales is None:
            mean = to_float32(total * factor)
        else:
            mean = to_float32(to_float32(total / factor) / Fraction(float(np.float32(op.scales[1]))))
            mean = to_float32(mean + op.inside)
        result[n, q, p, c] = encoded(mean, op)
    return result


def scaled_softmax(op, m):
    result, length = {}, op.input.shape[-1]
    for i in indices(op.input.shape[:-1]):
        row = [m.at(op.input, *i, k) for k in range(length)]
        e = [as_real(m.at(op.exponentials, max(row) - x)) for x in row]
        total = Fraction(0)
        for one in e:
            total = to_float32(total + one)
        for k, one in enumerate(e):
            share = to_float32(one / total)
            result[*i, k] = encoded(to_float32(share / Fraction(float(np.float32(op.scale)))), op)
    return result


ORACLES = {
    "Requantise": requantise,
    "RowSums": row_sums,
    "Shifted": shifted,
    "ScaledPair": scaled_pair,
    "WindowAverage": window_average,
    "ScaledSoftmax": scaled_softmax,
    "Decoded": decoded,
    "Encoded": encoded_real,
    "RealPair": real_pair,
    "RealFunction": real_function,
    "RealConvolution": real_convolution,
    "Conversion": conversion,
    "TopK": top,
    "Take": take,
    "OneHot": one_hot,
    "MaxPositions": max_positions,
    "Unpool": unpool,
    "TermSum": term_sum,
    "Convolution": convolution,
    "MatMul": matmul,
    "SumOfRows": matmul,
    "Addition": addition,
    "Map": lookup,
    "Fill": fill,
    "Multiplication": multiplication,
    "BinaryTable": binary_table,
    "Softmax": softmax,
    "Normalisation": normalisation,
    "MaxPool": maxpool,
    "AveragePool": avgpool,
    "Reduction": reduction,
    "Embedding": embedding,
    "Resize": resize,
    "ArgMax": argmax,
    "Rotation": rotation,
}


def run(network, inputs):
    """All values of a network after a run, flat lists by name."""
    values = {}
    for value in network.values.values():
        if value.role == "constant":
            values[value.name] = network.constants[value.name]
        else:
            values[value.name] = inputs.get(value.name, np.zeros(value.shape, np.int64))
    memory = Memory(values, {value.name: value.dtype for value in network.values.values()})
    for op in network.operators:
        result = ORACLES[type(op).__name__](op, memory)
        assert set(result) == set(indices(op.output.shape)), op.name
        for index, element in result.items():
            memory.put(op.output, index, element)
    return memory.flat
