"""Cycles of the macro styles, estimated for many tilings at once.

A run of a macro is a stage of a pipeline of three: loads, passes, stores, with two slots, so that neighbouring runs
overlap. Loads and stores share main memory. A run therefore costs the longer of its passes and of its transfers; the
first loads and the last stores have nothing to hide behind.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accel.config import Accelerator
from compiler.layer import Layer
from compiler.lower.bound import LEAST_ROWS
from compiler.lower.pipeline import least_period
from compiler.lower.traffic import MEMORY_LATENCY, read_cycles, write_cycles

__all__ = ["conv_cycles", "product_cycles"]

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]
#: Cycles between the command that starts a run and its first load, or that a change of slots costs.
_START, _CHANGE = 40.0, 6.0


def _beside(passes: Numbers, transfers: Numbers) -> Numbers:
    """Cycles of a run of LOOP_CONV_WS: its phases overlap, but not quite (measured on our RTL)."""
    both: Numbers = np.maximum(passes, transfers) + 0.3 * np.maximum(
        0.0, np.minimum(passes, transfers) - 0.5 * passes
    )
    return both


def product_cycles(
    layer: Layer,
    accelerator: Accelerator,
    sizes: tuple[int, int, int],
    i: Integers,
    j: Integers,
    k: Integers,
    keep_a: Integers,
    keep_b: Integers,
) -> Numbers:
    """Cycles of LOOP_WS over all groups, depth innermost among the loops that have more than one tile.

    Args:
        sizes: rows, columns, depth of the product, elements.
        i, j, k: blocks of a tile; keep_a, keep_b: runs that one load of A, of B serves.
    """
    dim = accelerator.dim
    m, n, depth = (float(size) for size in sizes)
    blocks = [-(-size // dim) for size in sizes]
    trips = [-(-whole // part) for whole, part in zip(blocks, (i, j, k), strict=True)]
    runs = (trips[0] * trips[1] * trips[2]).astype(np.float64)
    tile_m, tile_n, tile_k = m / trips[0], n / trips[1], depth / trips[2]
    # passes over the rows of a tile; an edge of few rows is cheap unless it is all that its tile has
    edge = sizes[0] - (blocks[0] - 1) * dim
    edge_rows = np.where((blocks[0] - 1) % i == 0, dim, max(edge, LEAST_ROWS)).astype(np.float64)
    rows = (blocks[0] - 1) * dim + np.maximum(edge_rows, least_period(accelerator))
    passes = rows * blocks[1] * blocks[2] / runs + _CHANGE
    weight_rows, weight_columns = (tile_n, tile_k) if layer.weights_transposed else (tile_k, tile_n)
    load_a = read_cycles(accelerator, tile_m, tile_k, layer.input.pitch)
    load_b = read_cycles(accelerator, weight_rows, weight_columns, layer.weight.pitch)
    load = load_a / keep_a + load_b / keep_b
    first, store = np.zeros_like(load), write_cycles(accelerator, tile_m, tile_n * layer.output_bits / 8)
    if layer.bias:
        first = np.ceil(tile_m / dim) * tile_n
    elif layer.residual_scale is not None:
        first = read_cycles(accelerator, tile_m, tile_n, layer.output.pitch)
    # loads of a run go beside the passes of the one before, stores beside those of the one after
    inner = np.maximum(passes, load)
    outer = np.maximum(passes, load + first + store)
    body = (trips[0] * trips[1]) * ((trips[2] - 1) * inner + outer)
    # products begin with the first blocks, at the pace of what else the first columns need
    group = np.minimum(np.minimum(j, max(1, 64 // dim)) * dim, n)
    opening = load_a + load_b * group / np.maximum(tile_n, group) + first * group / np.maximum(tile_n, group)
    opening_passes = passes * group / np.maximum(tile_n, group)
    lead = 2 * dim * 64 / min(accelerator.dram_bytes_per_cycle, accelerator.dma_bits / 8)
    fill = MEMORY_LATENCY + np.minimum(lead, opening) + np.maximum(0.0, opening - lead - opening_passes)
    drain = store * group / np.maximum(tile_n, group) + 3 * dim
    total: Numbers = layer.problem.groups * body + fill + drain + _START
    return total


def conv_cycles(
    layer: Layer,
    accelerator: Accelerator,
    tile: dict[str, Integers],
    *,
    stride: int,
    pixels: int,
    downsample: bool,
    keep_input: Integers,
    keep_weights: Integers,
) -> Numbers:
    """Cycles of LOOP_CONV_WS over all groups, the loops that sum innermost.

    Args:
        tile: sizes by axis of "nqpksrc".
        stride: the macro's.
        keep_input, keep_weights: runs that one load of an operand serves.
    """
    p, pool, dim = layer.problem, layer.pooling, accelerator.dim
    stored = (pool.rows, pool.columns) if pool else (p.Q, p.P)
    sizes = dict(zip("nqpksrc", (p.N, *stored, p.K, p.S, p.R, p.C), strict=True))
    trips = {axis: -(-sizes[axis] // tile[axis]) for axis in sizes}
    outer = np.prod([trips[axis] for axis in "nqpk"], axis=0).astype(np.float64)
    inner = np.prod([trips[axis] for axis in "src"], axis=0).astype(np.float64)
    # mean sizes of a tile; blocks of channels and passes are whole
    mean = {axis: sizes[axis] / trips[axis] for axis in sizes}
    rows, columns = mean["q"], mean["p"]
    if pool:
        rows = np.minimum((rows - 1) * pool.stride + pool.size, float(p.Q))
        columns = np.minimum((columns - 1) * pool.stride + pool.size, float(p.P))
    whole = np.floor(columns / dim)
    rest = columns - whole * dim
    line = whole * dim + np.where(rest > 1e-9, np.maximum(rest, LEAST_ROWS), 0.0)
    line = np.maximum(line, np.ceil(columns / dim) * least_period(accelerator))
    block = np.maximum(mean["n"] * rows * line, dim)
    out_blocks = -(-p.K // dim) / trips["k"] if dim < p.K else np.ones_like(rows)
    in_blocks = np.where(trips["c"] > 1, -(-tile["c"] // dim), -(-p.C // dim))
    window = mean["s"] * np.ceil(mean["r"] / pixels)
    passes = out_blocks * window * in_blocks * block + _CHANGE * 4

    height = (rows * stride + (mean["s"] - 1) * p.dilation_h) / (2 if downsample else 1)
    width = (columns * stride + (mean["r"] - 1) * p.dilation_w) / (2 if downsample else 1)
    height, width = np.minimum(height, layer.size[0]), np.minimum(width, layer.size[1])
    load_in = read_cycles(accelerator, mean["n"] * height * width, mean["c"], layer.input.pitch)
    load_in = np.maximum(load_in, mean["n"] * height * width * np.ceil(mean["c"] / 64) * pixels)
    load_w = read_cycles(accelerator, mean["s"] * mean["r"] * mean["c"], mean["k"], layer.weight.pitch)
    load = load_in / keep_input + load_w / keep_weights
    # the accumulator is filled with the bias or zeros first, a row a cycle
    clear = mean["n"] * rows * columns * np.ceil(mean["k"] / dim)
    store = write_cycles(accelerator, mean["n"] * mean["q"] * mean["p"], mean["k"])
    if pool:
        store = np.maximum(store, mean["n"] * mean["q"] * mean["p"] * np.ceil(mean["k"] / dim) * pool.size**2)
    body = outer * ((inner - 1) * _beside(passes, load) + _beside(passes, load + store))
    # products of the first channel block wait for the whole input of their tile, and the first blocks of weights
    wide = np.minimum(1.0, max(1, 64 // dim) / np.maximum(out_blocks, 1))
    opening = load_in + load_w * wide + clear / np.maximum(out_blocks, 1)
    lead = np.minimum(opening, (np.minimum(mean["p"], dim) + dim) * 8)
    fill = MEMORY_LATENCY + np.maximum(lead, opening - passes / np.maximum(out_blocks, 1))
    drain = store / np.maximum(out_blocks, 1) + 3 * dim
    total: Numbers = p.groups * body + fill + drain + _START
    return total
