"""What the software behind the published FPGA measurements does, counted from a mapping.

The machine is Gemmini's default (16 x 16). Its measurements show two programs, for convolutions and for matrix products:

* Both run one tile a round of the DRAM loops and pad nothing to 16: a pass of the array takes `rows` x `columns`
  weights, the spatial factors, and the smaller they are, the more passes there are. Factors above 16 are split.
* Convolutions have square images: where P and Q differ, the larger one counts for both (factors of ten on such rows).
  A tile costs a fixed time at least, results leave once, and fewer bytes leave the inputs alone than pixels.
* Matrix products are cut into units of the larger spatial factor in all three dimensions; the first units of a tile
  (as many as fill 16) wait for each other, the others overlap.

Counts are totals over all tiles; what they cost is learned (`baco.bench.learned.laws`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from baco.compiler.mapping.nest import Mapping
from baco.exploration.cost.learned.protocol import Floats
from baco.workloads.problem import DIMS, Problem

_DIM = 16
#: Bytes of the largest memory request, and of a page of addresses.
_REQUEST, _PAGE = 64, 4096

#: Events of a convolution by resource.
CONVOLUTION = {
    "tile": ("tiles",),
    "array": ("pass_rows", "passes", "split_pass_rows", "split_passes", "weight_blocks"),
    "weights": ("weight_bytes", "weight_requests", "kept_weight_requests"),
    "inputs": ("input_pixels", "input_rows", "input_bytes", "kept_input_bytes"),
    "results": ("result_rows", "result_bytes", "visited_result_rows"),
}
#: Events of a matrix product by resource.
PRODUCT = {
    "start": ("one",),
    "tile": ("tiles",),
    "chain": ("waiting_units",),
    "array": ("units", "unit_rows", "split_units", "split_unit_rows"),
    "weights": ("weight_rows", "kept_weight_rows", "weight_bytes", "far_weight_requests"),
    "inputs": ("input_requests", "input_rows", "input_bytes", "kept_input_bytes"),
    "results": ("result_rows", "kept_result_rows", "final_result_rows"),
}
_LOOPS = [f"{what} {name}" for what in ("bound", "outer", "tile") for name in DIMS]
#: Columns of `raw_features`.
FEATURES = (
    *_LOOPS,
    *("inner C", "inner K", "inner P", "inner Q", "register P", "register Q", "rows", "columns"),
    *("stride", "larger spatial", "smaller spatial", "rows above", "columns above"),
    *("blocks C", "blocks K", "blocks", "tiles", "MACs"),
    *("weight reuse", "input reuse", "result reuse", "tile weights", "tile inputs", "tile results"),
    *(f"place {name}" for name in DIMS),
    *("pixels a block", "kernel tiles", "even kernel"),
)


def is_product(problem: Problem) -> bool:
    """Whether the matrix-product program ran it."""
    return problem.R == problem.S == problem.Q == 1


class _Tiles:
    """Tiles of a mapping as the software counts them.

    Attributes:
        trips: rounds of each DRAM loop.
        count: tiles.
        extent: of a tile, by dimension.
    """

    def __init__(self, problem: Problem, mapping: Mapping) -> None:
        self.problem, self.mapping = problem, mapping
        self.extent = mapping.tile(2)
        self.trips = {name: mapping.factor(name, 3) for name in DIMS}
        if not is_product(problem):
            edge = max(problem.P, problem.Q)
            self.trips |= {name: _ceil(edge, self.extent[name]) for name in "PQ"}
        self.count = math.prod(self.trips.values())

    def reuse(self, relevant: str) -> int:
        """Tiles in a row that have the same part of a tensor."""
        rounds = 1
        for name in self.mapping.order[3]:
            if self.trips[name] > 1:
                if name in relevant:
                    break
                rounds *= self.trips[name]
        return rounds

    @property
    def image(self) -> tuple[int, int]:
        """Height and width of the input of a tile."""
        p, t = self.problem, self.extent
        return (t["Q"] - 1) * p.stride_h + t["S"], (t["P"] - 1) * p.stride_w + t["R"]


def _ceil(total: int, part: int) -> int:
    return -(-total // part)


def _split(factor: int) -> int:
    """Blocks of the array's side that a spatial factor takes."""
    return _ceil(factor, _DIM)


def convolution_counts(problem: Problem, mapping: Mapping) -> Floats:
    """(events,) totals in the order of `CONVOLUTION`."""
    tiles, t = _Tiles(problem, mapping), _Tiles(problem, mapping).extent
    blocks_c = t["C"] / mapping.rows * _split(mapping.rows)
    blocks_k = t["K"] / mapping.columns * _split(mapping.columns)
    weight_blocks = t["R"] * t["S"] * blocks_c * blocks_k
    pixels = t["P"] * t["Q"] * t["N"]
    passes = weight_blocks * _split(t["P"]) * t["Q"] * t["N"]
    above = max(1.0, mapping.rows / _DIM)
    weight_rows = t["R"] * t["S"] * t["C"]
    height, width = tiles.image
    inputs = height * width * t["N"]
    last = math.prod(tiles.trips[name] for name in "PQKN") / tiles.count
    requests = weight_rows * _ceil(t["K"], _REQUEST)
    per_tile = {
        "tiles": 1.0,
        "pass_rows": weight_blocks * pixels,
        "passes": passes,
        "split_pass_rows": weight_blocks * pixels / above,
        "split_passes": passes / above,
        "weight_blocks": weight_blocks,
        "weight_bytes": weight_rows * t["K"],
        "weight_requests": requests,
        "kept_weight_requests": requests / tiles.reuse("RSCK"),
        "input_pixels": inputs,
        "input_rows": inputs * blocks_c,
        "input_bytes": inputs * t["C"],
        "kept_input_bytes": inputs * t["C"] / tiles.reuse("RSPQCN"),
        "result_rows": pixels * blocks_k * last,
        "result_bytes": pixels * t["K"] * last,
        "visited_result_rows": pixels * blocks_k / tiles.reuse("PQKN"),
    }
    return _totals(per_tile, tiles.count, CONVOLUTION)


def product_counts(problem: Problem, mapping: Mapping) -> Floats:
    """(events,) totals in the order of `PRODUCT`."""
    t = mapping.tile(2)
    unit = max(mapping.rows, mapping.columns)
    units = {name: _ceil(t[name], unit) for name in "PCK"}
    trips = {name: _ceil(_ceil(getattr(problem, name), unit), units[name]) for name in "PCK"}
    count = math.prod(trips.values())

    def reuse(relevant: str) -> int:
        rounds = 1
        for name in mapping.order[3]:
            if trips.get(name, 1) > 1:
                if name in relevant:
                    break
                rounds *= trips[name]
        return rounds

    depth, width, height = units["C"] * unit, units["K"] * unit, min(units["P"] * unit, problem.P)
    above = max(1.0, unit / _DIM)
    rows = min(problem.P, t["P"]) * units["C"] * units["K"]
    per_tile = {
        "one": 1.0 / count,
        "tiles": 1.0,
        "waiting_units": math.prod(max(1.0, min(_DIM / unit, units[name])) for name in "PCK"),
        "units": math.prod(units.values()),
        "unit_rows": rows,
        "split_units": math.prod(units.values()) / above,
        "split_unit_rows": rows / above,
        "weight_rows": depth * units["K"],
        "kept_weight_rows": depth * units["K"] / reuse("CK"),
        "weight_bytes": depth * width,
        # weight rows so far apart that a page holds few of them
        "far_weight_requests": depth * _ceil(width, _REQUEST) * (problem.K >= _PAGE / 4),
        "input_requests": height * _ceil(units["C"], 4),
        "input_rows": height * units["C"],
        "input_bytes": height * depth,
        "kept_input_bytes": height * depth / reuse("PC"),
        "result_rows": height * units["K"],
        "kept_result_rows": height * units["K"] / reuse("PK"),
        "final_result_rows": height * units["K"] / trips["C"],
    }
    return _totals(per_tile, count, PRODUCT)


def _totals(per_tile: dict[str, float], tiles: int, resources: dict[str, tuple[str, ...]]) -> Floats:
    return np.array([per_tile[event] * tiles for events in resources.values() for event in events])


def raw_features(problems: Sequence[Problem], mappings: Sequence[Mapping]) -> Floats:
    """(B, `FEATURES`) what a residual may look at besides the law's own times; logarithms of all but places."""
    return np.array([_raw(p, m) for p, m in zip(problems, mappings, strict=True)]).reshape(-1, len(FEATURES))


def _raw(p: Problem, m: Mapping) -> list[float]:
    tiles = _Tiles(p, m)
    t = tiles.extent
    spatial = (min(m.rows, _DIM), min(m.columns, _DIM))
    inner = {name: m.factor(name, 1) * m.factor(name, 2) for name in "CKPQ"}
    blocks_c, blocks_k = inner["C"] * _split(m.rows), inner["K"] * _split(m.columns)
    blocks = blocks_c * blocks_k * t["R"] * t["S"] * _split(t["P"]) * t["Q"]
    height, width = tiles.image
    kernel_tiles = tiles.trips["R"] * tiles.trips["S"]
    logarithms = [
        *(getattr(p, name) for name in DIMS),
        *(tiles.trips[name] for name in DIMS),
        *(t[name] for name in DIMS),
        *inner.values(),
        m.factor("P", 0),
        m.factor("Q", 0),
        m.rows,
        m.columns,
        p.stride_w,
        max(spatial),
        min(spatial),
        _split(m.rows),
        _split(m.columns),
        blocks_c,
        blocks_k,
        blocks,
        tiles.count,
        p.macs,
        tiles.reuse("RSCK"),
        tiles.reuse("RSPQCN"),
        tiles.reuse("PQKN"),
        t["R"] * t["S"] * t["C"] * t["K"],
        height * width * t["C"],
        t["P"] * t["Q"] * t["K"],
    ]
    loops = [name for name in m.order[3] if tiles.trips[name] > 1]
    places = [float(loops.index(name) + 1) if name in loops else 0.0 for name in DIMS]
    # windows of an even size lie unevenly in the padding, and parts of them wholly
    even = float((p.R % 2 == 0 and p.R > 2 and kernel_tiles > 1) or (p.R > 2 and t["S"] == t["Q"] == 1))
    return [
        *(math.log(value) for value in logarithms),
        *places,
        math.log(t["P"] * t["Q"] / (m.factor("P", 0) * m.factor("Q", 0))),
        math.log(kernel_tiles),
        even,
    ]
