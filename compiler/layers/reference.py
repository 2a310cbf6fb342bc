"""What a layer computes, on numpy integers (of floating point, on its codes): what programs are compared with when they are run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from baco.compiler.layers.float_sums import FloatSums
from baco.compiler.layers.layer import Layer, Layout, Pooling
from baco.compiler.layers.weight_blocks import in_blocks

Array: TypeAlias = "np.ndarray[Any, Any]"
#: From the first to behind the last weight, by bits.
_RANGES = {8: (-128, 128), 4: (-8, 8)}


def draw_tensors(layer: Layer, seed: int = 0) -> dict[str, Array]:
    """Random flat tensors `input`, `weight`, `bias`, `residual` of a layer, those it has (see `Layer` for layouts)."""
    random = np.random.default_rng(seed)
    problem = layer.problem
    if layer.real:
        return _float_tensors(layer, random)
    if layer.elements != "integer":
        return _wide_tensors(layer, random)
    tensors: dict[str, Array] = {
        "input": random.integers(-128, 128, layer.input_extent, dtype=np.int8),
        "weight": random.integers(*_RANGES[layer.weight_bits], layer.weight_extent, dtype=np.int8),
    }
    if layer.bias:
        tensors["bias"] = random.integers(-(1 << 12), 1 << 12, problem.groups * problem.K, dtype=np.int32)
    if layer.residual_scale is not None:
        tensors["residual"] = random.integers(-128, 128, layer.residual_extent, dtype=np.int8)
    return tensors


def _wide_tensors(layer: Layer, random: np.random.Generator) -> dict[str, Array]:
    """Integers of 16 bits; every other weight has 8, so that the sums of some channels wrap and the results of others do not saturate."""
    most = 1 << 15
    weight = random.integers(-most, most, layer.weight_extent, dtype=np.int16)
    weight[::2] >>= 8
    tensors: dict[str, Array] = {
        "input": random.integers(-most, most, layer.input_extent, dtype=np.int16),
        "weight": weight,
    }
    if layer.bias:
        problem = layer.problem
        tensors["bias"] = random.integers(-(1 << 20), 1 << 20, problem.groups * problem.K, dtype=np.int32)
    if layer.residual_scale is not None:
        tensors["residual"] = random.integers(-most, most, layer.residual_extent, dtype=np.int16)
    return tensors


def _float_tensors(layer: Layer, random: np.random.Generator) -> dict[str, Array]:
    """Numbers from -4 to 4, the bias as bits."""

    def numbers(count: int) -> Array:
        return random.integers(-1024, 1025, count).astype(np.float32) / np.float32(256)

    floats, p = FloatSums(layer.elements, 1), layer.problem
    extents = {"input": layer.input_extent, "weight": layer.weight_extent}
    drawn = {name: numbers(extent) for name, extent in extents.items()}
    if layer.weight_blocks is not None:
        rows = _matrix(drawn["weight"], layer.weight, 0, p.S * p.R * p.C, p.K)
        kept = in_blocks(layer.weight_blocks.form, rows.reshape(-1, p.C, p.K))
        rows[:] = kept.reshape(rows.shape)
    tensors = {name: floats.codes(one, False, 1.0) for name, one in drawn.items()}
    if layer.bias:
        tensors["bias"] = numbers(layer.problem.groups * layer.problem.K).view(np.int32)
    return tensors


def requantise(values: Array, scale: float, bits: int = 8) -> Array:
    """Integers of 8 or 16 bits of integers times a float32 scale (instruction set, section 10).

    To float32, product in float32, to the nearest integer, ties to even each time; saturated.
    """
    product: Array = np.asarray(values).astype(np.float32)
    product *= np.float32(scale)
    np.rint(product, out=product)
    most = 1 << (bits - 1)
    np.clip(product, -most, most - 1, out=product)
    return product.astype(f"int{bits}")


def layer_result(layer: Layer, tensors: Mapping[str, Array], rows: int | None = None) -> Array:
    """The flat output tensor, int8 (int16), or int32 without a scale (of floating point: codes, or bits of float32); elements that the
    layer does not write are 0. `rows`: of the array, which floating point is added up by and which must be given for it."""
    p = layer.problem
    out: Array = np.zeros(layer.output_extent, f"int{layer.output_bits}")
    for group in range(p.groups):
        bias = tensors["bias"][group * p.K : (group + 1) * p.K] if layer.bias else None
        stored = _matrix(out, layer.output, group, layer.pixels_stored, p.K)
        if layer.real:
            assert rows is not None
            floats = FloatSums(layer.elements, rows)
            stored[:] = _float_results(layer, floats, tensors, group, bias).reshape(stored.shape)
            continue
        sums = _sums(layer, tensors, group)
        if bias is not None:
            sums = sums + bias
        if layer.residual_scale is not None:
            residual = _matrix(tensors["residual"], layer.output, group, layer.pixels_out, p.K)
            sums = sums + requantise(residual, layer.residual_scale, 8 * layer.element_bytes).reshape(
                sums.shape
            )
        sums = sums.astype(np.int64).astype(np.int32)  # accumulators wrap
        stored[:] = _on_the_way_out(layer, sums).reshape(stored.shape)
    return out


def _matrix(flat: Array, layout: Layout, group: int, rows: int, elements: int) -> Array:
    """View [rows, elements] of one group of a flat tensor."""
    start = group * layout.group
    step = flat.itemsize
    return np.lib.stride_tricks.as_strided(
        flat[start:], (rows, elements), (layout.pitch * step, step), writeable=True
    )


def _sums(layer: Layer, tensors: Mapping[str, Array], group: int) -> Array:
    """Exact sums of products [N, Q, P, K] of one group: int64.

    Sums over channels of products of 16 bits stay below 2^53 for 8 million of them, so float64 is exact and fast.
    """
    p = layer.problem
    sums = np.zeros((p.N, p.Q, p.P, p.K), np.int64)
    for pixels, weight in _factors(layer, tensors, group):
        sums += (pixels.astype(np.float64) @ weight.astype(np.float64)).astype(np.int64)
    return sums


def _float_results(
    layer: Layer, floats: FloatSums, tensors: Mapping[str, Array], group: int, bias: Array | None
) -> Array:
    p = layer.problem
    sums = None
    if bias is not None:
        sums = np.broadcast_to(np.ascontiguousarray(bias).view(np.float32), (p.N, p.Q, p.P, p.K))
    for pixels, weight in _factors(layer, tensors, group):
        sums = floats.added(sums, floats.numbers(pixels), floats.numbers(weight))
    assert sums is not None
    if layer.scale is None:
        return sums.view(np.int32)
    codes = floats.codes(sums, layer.relu, layer.scale)
    return codes if layer.pooling is None else ordered(_pooled(ordered(codes), layer.pooling))


def ordered(codes: Array) -> Array:
    """Integers that are larger where codes, of as many bits, stand for larger numbers, -0 below 0; and the codes of such."""
    return np.where(codes < 0, codes ^ codes.dtype.type(np.iinfo(codes.dtype).max), codes)


def _factors(layer: Layer, tensors: Mapping[str, Array], group: int) -> Iterator[tuple[Array, Array]]:
    """What is multiplied at every position of the kernel, rows first: elements [N, Q, P, C] and weights [C, K] of one group."""
    p = layer.problem
    height, width = layer.size
    image = _matrix(tensors["input"], layer.input, group, layer.pixels_in, p.C)
    image = image.reshape(p.N, height, width, p.C)
    if layer.weights_transposed:
        weight = _matrix(tensors["weight"], layer.weight, group, p.K, p.C).T[None, None]
    else:
        weight = _matrix(tensors["weight"], layer.weight, group, p.S * p.R * p.C, p.K)
        weight = weight.reshape(p.S, p.R, p.C, p.K)
    reach_h = (p.Q - 1) * p.stride_h + (p.S - 1) * p.dilation_h + 1
    reach_w = (p.P - 1) * p.stride_w + (p.R - 1) * p.dilation_w + 1
    top, left = layer.padding
    bottom, right = max(0, reach_h - top - height), max(0, reach_w - left - width)
    padded = np.pad(image, ((0, 0), (top, bottom), (left, right), (0, 0)))
    for s in range(p.S):
        for r in range(p.R):
            rows = slice(s * p.dilation_h, s * p.dilation_h + (p.Q - 1) * p.stride_h + 1, p.stride_h)
            columns = slice(r * p.dilation_w, r * p.dilation_w + (p.P - 1) * p.stride_w + 1, p.stride_w)
            yield padded[:, rows, columns], weight[s, r]


def _on_the_way_out(layer: Layer, sums: Array) -> Array:
    if layer.scale is None:
        return sums
    scaled = requantise(np.maximum(sums, 0) if layer.relu else sums, layer.scale, layer.output_bits)
    return scaled if layer.pooling is None else _pooled(scaled, layer.pooling)


def _pooled(values: Array, pooling: Pooling) -> Array:
    """Maxima over windows of [N, Q, P, K]; what lies outside counts as 0."""
    rows = (pooling.rows - 1) * pooling.stride + pooling.size
    columns = (pooling.columns - 1) * pooling.stride + pooling.size
    pad = pooling.padding
    after = max(0, rows - pad - values.shape[1]), max(0, columns - pad - values.shape[2])
    padded = np.pad(values, ((0, 0), (pad, after[0]), (pad, after[1]), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (pooling.size, pooling.size), (1, 2))
    chosen = windows[:, :: pooling.stride, :: pooling.stride][:, : pooling.rows, : pooling.columns]
    result: Array = chosen.max(axis=(-2, -1))
    return result
