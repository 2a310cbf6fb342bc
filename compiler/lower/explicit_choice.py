"""A mapping for the explicit styles: where the macros cannot do a layer, or groups are too small for them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from accel.config import Accelerator
from compiler.layer import Layer
from compiler.lower.bound import LEAST_ROWS
from compiler.lower.equal_parts import equal_parts
from compiler.lower.traffic import MEMORY_LATENCY, bytes_per_cycle, read_cycles
from compiler.mapping.nest import Dataflow, Mapping, requirement
from workloads.problem import DIMS, Problem

__all__ = ["explicit_cycles", "explicit_mappings"]

#: How many sizes of a tile are tried along P, Q, K and C.
_MOST_SIZES = (6, 6, 6, 4)
#: Cycles in which the host core issues a pass (preload and compute), a move between passes, and goes from visit to visit
#: (measured on our RTL); tiles that do not divide the layer evenly have sizes to be computed everywhere.
_PASS_CYCLES, _MOVE_CYCLES, _VISIT_CYCLES, _UNEVEN = 9.0, 30.0, 250.0, 1.3
#: Cycles from visit to visit in which nothing overlaps.
_CHANGE_CYCLES = 60.0
#: Bytes of a row that a load moves.
_WIDE = 64
#: Whole windows and copies of every tile, then ever less, until something fits.
_STEPS = ((True, (2, 2, 2)), (True, (2, 2, 1)), (True, (1, 1, 1)), (False, (1, 1, 1)))


def explicit_mappings(layer: Layer, accelerator: Accelerator) -> list[tuple[float, Mapping]]:
    """Mappings that fit the accelerator, with estimated cycles, the best first; empty if none fits.

    Pixels of a tile are all at level 0 (a block of weights serves them all while it is in the array), the window and
    the depth of a tile at level 1, and tiles at level 3, with the depth innermost so that sums stay in the accumulator,
    and whichever of pixels and channels costs fewer loads outermost.
    """
    p = layer.problem
    for whole, buffering in _STEPS:
        found: list[tuple[float, int, Mapping]] = []
        for mapping in _candidates(p, accelerator, whole, buffering):
            need = requirement(mapping, p)
            if (
                need.accumulator_words <= accelerator.accumulator_rows
                and need.scratchpad_rows <= accelerator.scratchpad_rows
            ):
                found.append((explicit_cycles(layer, mapping, accelerator), len(found), mapping))
        if found:
            return [(cycles, mapping) for cycles, _, mapping in sorted(found, key=lambda one: one[:2])]
    return []


def _candidates(
    p: Problem, accelerator: Accelerator, whole: bool, buffering: tuple[int, int, int]
) -> Iterator[Mapping]:
    """Tilings with windows that are whole or single pixels, in both orders of the outer loops."""
    dim = accelerator.dim
    dataflow: Dataflow = "WS" if "WS" in accelerator.dataflows else "OS"
    columns = min(p.K, dim)
    spread = min(p.C if dataflow == "WS" else p.P, dim)
    units = (1, 1, columns, spread) if dataflow == "WS" else (spread, 1, columns, 1)
    options = [
        _sizes(bound, unit, most)
        for bound, unit, most in zip((p.P, p.Q, p.K, p.C), units, _MOST_SIZES, strict=True)
    ]
    window = (p.R, p.S) if whole else (1, 1)
    for p_tile, q_tile, k_tile, c_tile in itertools.product(*options):
        tile = dict(zip("RSPQCK", (*window, p_tile, q_tile, c_tile, k_tile), strict=True))
        for order in ("CRSKPQN", "CRSPQNK"):
            yield _mapping(p, dataflow, spread, columns, tile, order, buffering)


def _mapping(
    p: Problem,
    dataflow: Dataflow,
    spread: int,
    columns: int,
    tile: dict[str, int],
    order: str,
    buffering: tuple[int, int, int],
) -> Mapping:
    level0, level1 = dict.fromkeys(DIMS, 1), dict.fromkeys(DIMS, 1)
    inside = {"K": -(-tile["K"] // columns)}
    if dataflow == "WS":
        level0 |= {"P": tile["P"], "Q": tile["Q"]}
        inside |= {"C": -(-tile["C"] // spread), "R": tile["R"], "S": tile["S"]}
    else:
        level0 |= {"C": tile["C"], "R": tile["R"], "S": tile["S"]}
        inside |= {"P": -(-tile["P"] // spread), "Q": tile["Q"]}
    level1 |= inside
    covered = {
        name: level0[name]
        * level1[name]
        * (columns if name == "K" else spread if name == ("C" if dataflow == "WS" else "P") else 1)
        for name in DIMS
    }
    level3 = {name: -(-bound // covered[name]) for name, bound in zip(DIMS, p.bounds, strict=True)}
    temporal = tuple(
        tuple(level[name] for name in DIMS) for level in (level0, level1, dict.fromkeys(DIMS, 1), level3)
    )
    return Mapping(dataflow, spread, columns, temporal, (order, "RSCKPQN", "RSCKPQN", order), buffering)


def _sizes(bound: int, unit: int, most: int) -> list[int]:
    """At most so many equal parts of a bound, in whole units."""
    units = -(-bound // unit)
    sizes = equal_parts(units).tolist()
    if len(sizes) > most:
        step = (len(sizes) - 1) / (most - 1)
        sizes = [sizes[round(n * step)] for n in range(most)]
    return [min(bound, size * unit) for size in sizes]


def explicit_cycles(layer: Layer, mapping: Mapping, accelerator: Accelerator) -> float:
    """Estimated cycles of a mapping whose tiles `explicit_mappings` makes; passes and transfers overlap as buffered."""
    p, dim = layer.problem, accelerator.dim
    bounds = dict(zip(DIMS, p.bounds, strict=True))
    tile = mapping.tile(2)
    trips = {name: mapping.factor(name, 3) for name in DIMS}
    rows = tile["P"] * tile["Q"] * tile["N"]
    blocks = math.ceil(tile["K"] / mapping.columns) * tile["R"] * tile["S"]
    if mapping.dataflow == "WS":
        passes = blocks * math.ceil(tile["C"] / mapping.rows) * max(dim, rows, LEAST_ROWS)
    else:
        depth = tile["R"] * tile["S"] * math.ceil(tile["C"] / dim)
        passes = (
            math.ceil(tile["K"] / mapping.columns)
            * math.ceil(tile["P"] / mapping.rows)
            * tile["Q"]
            * depth
            * dim
        )
    width = (tile["P"] - 1) * p.stride_w + (tile["R"] - 1) * p.dilation_w + 1
    height = (tile["Q"] - 1) * p.stride_h + (tile["S"] - 1) * p.dilation_h + 1
    pixels = min(width, layer.size[1]) * min(height, layer.size[0]) * tile["N"]
    inputs, weights = pixels * tile["C"], tile["R"] * tile["S"] * tile["C"] * tile["K"]
    input_cycles = _read(accelerator, pixels, tile["C"], layer.input.pitch)
    if layer.weights_transposed:
        weight_cycles = _read(accelerator, tile["K"], tile["C"], layer.weight.pitch)
    else:
        weight_cycles = _read(accelerator, weights // tile["K"], tile["K"], layer.weight.pitch)
    results = rows * tile["K"] * layer.output_bits / 8 / (layer.pooling.stride**2 if layer.pooling else 1)
    reduction = trips["R"] * trips["S"] * trips["C"]
    spatial = trips["P"] * trips["Q"] * trips["N"]
    # the operand of the innermost of the other loops stays where it is
    outer_k = mapping.order[3].index("K") > mapping.order[3].index("P")
    load_inputs = input_cycles * spatial * reduction * (trips["K"] if reduction > 1 or outer_k else 1)
    load_weights = weight_cycles * trips["K"] * reduction * (spatial if reduction > 1 or not outer_k else 1)
    store = results * spatial * trips["K"]
    if layer.bias:
        store += 4 * bounds["K"] * spatial * math.ceil(rows / dim)
    if layer.residual_scale is not None:
        store += rows * spatial * bounds["K"]
    memory = load_inputs + load_weights + store / bytes_per_cycle(accelerator)
    array = float(passes * spatial * reduction * trips["K"])
    single = mapping.buffering != (2, 2, 2)
    overlapped = array + memory if single else max(array, memory)
    visits = spatial * reduction * trips["K"]
    blocks_in = math.ceil(tile["C"] / dim)
    whole = tile["P"] >= bounds["P"]
    plain = whole and p.R == p.S == p.stride_w == p.stride_h == 1 and layer.padding == (0, 0)
    # moves go along rows of pixels, several rows at once where these are one; passes along rows or columns
    lines, along = (1, pixels) if plain else (height * tile["N"], width)
    moves: float = lines * math.ceil(along / dim) * math.ceil(tile["C"] / _WIDE)
    moves += tile["R"] * tile["S"] * blocks_in * math.ceil(tile["K"] / _WIDE)
    kinds = 1 + layer.bias + (layer.residual_scale is not None)
    runs = math.ceil(rows / dim) if whole else tile["Q"] * tile["N"] * math.ceil(tile["P"] / dim)
    moves += kinds * runs * math.ceil(tile["K"] / dim) / reduction
    by_column = tile["P"] * tile["N"] * math.ceil(tile["Q"] / dim)
    by_row = math.ceil(rows / dim) if plain else tile["Q"] * tile["N"] * math.ceil(tile["P"] / dim)
    chunks = by_row if mapping.dataflow == "OS" else min(by_row, by_column)
    products = tile["R"] * tile["S"] * blocks_in * math.ceil(tile["K"] / dim) * chunks
    host = visits * (products * _PASS_CYCLES + moves * _MOVE_CYCLES + _VISIT_CYCLES)
    if any(bounds[name] % tile[name] for name in ("P", "Q", "C", "K")):
        host *= _UNEVEN
    start = MEMORY_LATENCY + (inputs + weights + results) / accelerator.dram_bytes_per_cycle
    return p.groups * (max(overlapped * 1.05, host) + visits * _CHANGE_CYCLES) + start


def _read(accelerator: Accelerator, rows: int, columns: int, pitch: int) -> float:
    """As `read_cycles`, of one tile."""
    return float(read_cycles(accelerator, np.array([float(rows)]), np.array([float(columns)]), pitch)[0])
