"""What a layer computes, on numpy integers: the oracle of every way to lower one. Written from the definition alone."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from baco.compiler.layers.layer import Layer, Layout

KINDS = {
    "fp8-e4m3": ml_dtypes.float8_e4m3fn,
    "fp8-e5m2": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16,
}


def integers(kind: type) -> np.dtype:
    """The integers that hold codes."""
    return np.dtype(f"int{8 * np.dtype(kind).itemsize}")


def requantised(acc: np.ndarray, scale: float, kind: np.dtype) -> np.ndarray:
    """int32 to int8 or int16: float32 product rounded to nearest even, saturated."""
    product = acc.astype(np.float32) * np.float32(scale)
    limits = np.iinfo(kind)
    return np.clip(np.rint(product.astype(np.float64)), limits.min, limits.max).astype(kind)


def draw_tensors(layer: Layer, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Random flat buffers `input`, `weight`, `bias`, `residual` of the layer, those it has."""
    problem = layer.problem
    if layer.real:
        kind = KINDS[layer.elements]
        extents = {"input": layer.input_extent, "weight": layer.weight_extent}
        codes = {
            n: spread(random, size).astype(np.float32).astype(kind).view(integers(kind))
            for n, size in extents.items()
        }
        bias = spread(random, problem.groups * problem.K).astype(np.float32).view(np.int32)
        return codes | ({"bias": bias} if layer.bias else {})
    kind = np.dtype(np.int16 if layer.elements == "int16" else np.int8)
    limit = np.iinfo(kind).max + 1
    most = 8 if layer.weight_bits == 4 else limit
    tensors = {
        "input": random.integers(-limit, limit, layer.input_extent, dtype=kind),
        "weight": random.integers(-most, most, layer.weight_extent, dtype=kind),
    }
    if layer.elements == "int16":  # sums of all sizes, some of which leave 32 bits
        tensors["weight"] >>= random.integers(0, 16, layer.weight_extent, dtype=kind)
    if layer.bias:
        tensors["bias"] = random.integers(-5000, 5000, problem.groups * problem.K, dtype=np.int32)
    if layer.residual_scale is not None:
        tensors["residual"] = random.integers(-limit, limit, layer.residual_extent, dtype=kind)
    return tensors


def spread(random: np.random.Generator, count: int) -> np.ndarray:
    """Numbers of many sizes, so that sums are rounded."""
    return random.normal(size=count) * 2.0 ** random.integers(-6, 7, count)


def float_codes(layer: Layer, sums: np.ndarray) -> np.ndarray:
    """Codes of float32 sums."""
    assert layer.scale is not None
    kind = KINDS[layer.elements]
    kept = np.where(np.signbit(sums), np.float32(0), sums) if layer.relu else sums
    most = float(ml_dtypes.finfo(kind).max)
    return (
        np.clip(kept.astype(np.float64) * layer.scale, -most, most)
        .astype(np.float32)
        .astype(kind)
        .view(integers(kind))
    )


def number_order(codes: np.ndarray) -> np.ndarray:
    """By which codes are sorted as numbers are, -0 before 0."""
    return np.where(codes < 0, -(codes.astype(int) & np.iinfo(codes.dtype).max) - 1, codes)


def two_a_byte(elements: np.ndarray) -> np.ndarray:
    """Elements from -8 to 7 as memory holds them: one after the other, the first of two in a byte's low bits."""
    found = bytearray(-(-len(elements) // 2))
    for number, element in enumerate(elements.tolist()):
        found[number // 2] |= element % 16 << 4 * (number % 2)
    return np.frombuffer(bytes(found), np.int8)


#: Elements of blocks: type, number of codes that are drawn, and what the whole numbers among them are steps of.
ELEMENTS = {
    "mxfp4": (ml_dtypes.float4_e2m1fn, 16, 1.0),
    "mxfp8-e4m3": (ml_dtypes.float8_e4m3fn, 127, 1.0),
    "mxfp8-e5m2": (ml_dtypes.float8_e5m2, 124, 1.0),
    "mxint8": (np.int8, 256, 1 / 64),
}


def draw_blocks(layer: Layer, random: np.random.Generator) -> np.ndarray:
    """Bytes of weights in blocks: powers beside that of one, any elements but NaN and infinities."""
    blocks, p = layer.weight_blocks, layer.problem
    assert blocks is not None
    _, count, _ = ELEMENTS[blocks.form]
    memory = bytearray()
    for _ in range(-(-p.K // blocks.columns) * p.S * p.R):
        for channel in range(0, p.C, 32):
            memory += bytes(random.integers(120, 130, blocks.columns).tolist())
            for _ in range(channel, min(p.C, channel + 32)):
                row = random.integers(0, count, blocks.columns).astype(np.uint8)
                if 16 < count < 128:
                    row |= (random.integers(0, 2, blocks.columns) << 7).astype(np.uint8)
                memory += two_a_byte(row.astype(np.int8)).tobytes() if count == 16 else row.tobytes()
    return np.frombuffer(bytes(memory), np.int8)


#: Of an element by format: exponent of the largest power of two, largest number, steps to 1 of whole numbers.
LIMITS = {
    "mxfp4": (2, 6.0, None),
    "mxfp8-e4m3": (8, 448.0, None),
    "mxfp8-e5m2": (15, 57344.0, None),
    "mxint8": (0, 127 / 64, 64),
}


def rounded_to_blocks(form: str, numbers: np.ndarray) -> np.ndarray:
    """bfloat16 codes of numbers [..., C, K] in blocks of 32 along C, each by the specification's rule."""
    power, most, steps = LIMITS[form]
    found = np.empty(numbers.shape, ml_dtypes.bfloat16)
    *positions, channels, columns = numbers.shape
    for *position, column in np.ndindex(*positions, columns):
        for first in range(0, channels, 32):
            place = (*position, slice(first, first + 32), column)
            largest = float(np.abs(numbers[place]).max())
            unit = 2.0 ** (math.frexp(largest)[1] - 1 - power) if largest else 1.0
            scaled = np.clip(numbers[place] / unit, -most, most)
            if steps is None:
                found[place] = scaled.astype(ELEMENTS[form][0]).astype(np.float64) * unit
            else:
                found[place] = (np.rint(scaled * steps) + 0.0) / steps * unit  # whole numbers have one zero
    return found.view(np.int16)


def read_blocks(layer: Layer, memory: np.ndarray) -> np.ndarray:
    """Codes of bfloat16, in the layer's layout, that bytes of weights in blocks stand for."""
    blocks, p = layer.weight_blocks, layer.problem
    assert blocks is not None
    kind, count, step = ELEMENTS[blocks.form]
    codes = np.zeros(layer.weight_extent, np.int16)
    rest = iter(memory.view(np.uint8).tolist())

    def row(size: int) -> np.ndarray:
        return np.array([next(rest) for _ in range(size)], np.uint8)

    for first in range(0, p.K, blocks.columns):
        for position in range(p.S * p.R):
            for channel in range(0, p.C, 32):
                powers = 2.0 ** (row(blocks.columns).astype(np.int64) - 127)
                for c in range(channel, min(p.C, channel + 32)):
                    if count == 16:
                        pairs = row(blocks.columns // 2)
                        elements = np.stack([pairs & 15, pairs >> 4], 1).reshape(-1)
                    else:
                        elements = row(blocks.columns)
                    numbers = elements.view(kind).astype(np.float64) * step * powers
                    found = numbers.astype(ml_dtypes.bfloat16).view(np.int16)[: p.K - first]
                    at = (position * p.C + c) * layer.weight.pitch + first
                    codes[at : at + len(found)] = found
    assert next(rest, None) is None
    return codes


def _rows(flat: np.ndarray, count: int, layout: Layout, group: int, elements: int) -> np.ndarray:
    """View [count, elements] of one group."""
    start = group * layout.group
    return np.lib.stride_tricks.as_strided(
        flat[start:], (count, elements), (layout.pitch * flat.itemsize, flat.itemsize), writeable=True
    )


def run_layer(layer: Layer, tensors: dict[str, np.ndarray], fill: int = 0, side: int = 1) -> np.ndarray:
    """The flat output buffer; elements that the layer does not write are `fill`; `side` of the array, by which real
    numbers are added up."""
    p = layer.problem
    height, width = layer.size
    narrow = integers(KINDS.get(layer.elements, np.int16 if layer.elements == "int16" else np.int8))
    out = np.full(layer.output_extent, fill, np.int32 if layer.scale is None else narrow)
    for group in range(p.groups):
        x = _rows(tensors["input"], layer.pixels_in, layer.input, group, p.C).reshape(p.N, height, width, p.C)
        if layer.weights_transposed:
            w = _rows(tensors["weight"], p.K, layer.weight, group, p.C).T.reshape(1, 1, p.C, p.K)
        else:
            w = _rows(tensors["weight"], p.S * p.R * p.C, layer.weight, group, p.K).reshape(
                p.S, p.R, p.C, p.K
            )
        acc = np.zeros((p.N, p.Q, p.P, p.K), np.float32 if layer.real else np.int64)
        if layer.real and layer.bias:
            acc += tensors["bias"].view(np.float32)[group * p.K : (group + 1) * p.K]
        for s in range(p.S):
            for r in range(p.R):
                rows = np.arange(p.Q) * p.stride_h + s * p.dilation_h - layer.padding[0]
                columns = np.arange(p.P) * p.stride_w + r * p.dilation_w - layer.padding[1]
                window = np.zeros((p.N, p.Q, p.P, p.C), np.float64)
                rows_in = np.nonzero((rows >= 0) & (rows < height))[0]
                columns_in = np.nonzero((columns >= 0) & (columns < width))[0]
                if len(rows_in) and len(columns_in):
                    window[np.ix_(range(p.N), rows_in, columns_in)] = x[
                        np.ix_(range(p.N), rows[rows_in], columns[columns_in])
                    ]
                if layer.real:
                    kind = KINDS[layer.elements]
                    left = window.astype(integers(kind)).view(kind).astype(np.float32)
                    right = w[s, r].copy().view(kind).astype(np.float32)
                    for first in range(0, p.C, side):
                        block = np.zeros_like(acc)
                        for c in range(first, min(first + side, p.C)):
                            block = block + left[..., c : c + 1] * right[c]
                        acc = acc + block
                    continue
                # products of integers summed in float64 are exact far beyond any depth used here
                acc += (window @ w[s, r].astype(np.float64)).astype(np.int64)
        if layer.bias and not layer.real:
            acc += tensors["bias"][group * p.K : (group + 1) * p.K]
        if layer.residual_scale is not None:
            residual = _rows(tensors["residual"], layer.pixels_out, layer.output, group, p.K)
            scaled = residual.astype(np.float32) * np.float32(layer.residual_scale)
            limits = np.iinfo(narrow)
            acc += np.clip(np.rint(scaled), limits.min, limits.max).astype(np.int64).reshape(acc.shape)
        if layer.real:
            acc = acc.view(np.int32)
        else:
            acc = ((acc + 2**31) % 2**32 - 2**31).astype(np.int32)
        stored = _rows(out, layer.pixels_stored, layer.output, group, p.K)
        if layer.scale is None:
            stored[:] = acc.reshape(-1, p.K)
            continue
        if layer.real:
            result = float_codes(layer, acc.view(np.float32))
        else:
            result = requantised(np.maximum(acc, 0) if layer.relu else acc, layer.scale, narrow)
        pool = layer.pooling
        if pool is None:
            stored[:] = result.reshape(-1, p.K)
            continue
        pooled = np.zeros((p.N, pool.rows, pool.columns, p.K), narrow)
        for row in range(pool.rows):
            for column in range(pool.columns):
                values = []
                for y in range(
                    row * pool.stride - pool.padding, row * pool.stride - pool.padding + pool.size
                ):
                    for x0 in range(
                        column * pool.stride - pool.padding, column * pool.stride - pool.padding + pool.size
                    ):
                        inside = 0 <= y < p.Q and 0 <= x0 < p.P
                        values.append(result[:, y, x0] if inside else np.zeros((p.N, p.K), narrow))
                most = np.argmax(number_order(np.array(values)) if layer.real else values, axis=0)
                pooled[:, row, column] = np.take_along_axis(np.array(values), most[None], 0)[0]
        stored[:] = pooled.reshape(-1, p.K)
    return out
