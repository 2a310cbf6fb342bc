"""A mapping for the explicit styles: where the macros cannot do a layer, or groups are too small for them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from baco.accel.config import Accelerator
from baco.accel.dataflows import DATAFLOWS, Dataflow, check_executable
from baco.compiler.choice.equal_parts import equal_parts
from baco.compiler.latency import predict_layers
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping, requirement
from baco.compiler.schedules.schedule import ExplicitSchedule
from baco.workloads.problem import DIMS, Problem

__all__ = ["explicit_mappings"]

#: How many sizes of a tile are tried along P, Q, K and C.
_MOST_SIZES = (6, 6, 6, 4)
#: Whole windows and copies of every tile, then ever less, until something fits.
_STEPS = ((True, (2, 2, 2)), (True, (2, 2, 1)), (True, (1, 1, 1)), (False, (1, 1, 1)))


def explicit_mappings(
    layer: Layer, accelerator: Accelerator, blocks: tuple[int, int, int] | None = None
) -> list[tuple[float, Mapping]]:
    """Mappings that fit the accelerator, with predicted cycles, the best first; empty if none fits.

    Pixels of a tile are all at level 0 (a block of weights serves them all while it is in the array), the window and
    the depth of a tile at level 1, and tiles at level 3, with the depth innermost so that sums stay in the accumulator,
    and whichever of pixels and channels costs fewer loads outermost.

    Args:
        blocks: of a product: tiles are made of whole blocks of so many rows, columns and depth.
    """
    p = layer.problem
    for whole, buffering in _STEPS:
        found = []
        for mapping in _candidates(p, accelerator, whole, buffering):
            if blocks is not None and not _made_of(mapping, p, blocks):
                continue
            need = requirement(mapping, p)
            if (
                need.accumulator_words <= accelerator.accumulator_rows
                and need.scratchpad_rows <= accelerator.scratchpad_rows
            ):
                found.append(mapping)
        if found:
            schedules = [ExplicitSchedule(mapping) for mapping in found]
            predicted = predict_layers([layer] * len(found), schedules, accelerator)
            cycles = [one.cycles.item() for one in predicted]
            order = sorted(range(len(found)), key=lambda n: (cycles[n], n))
            return [(cycles[n], found[n]) for n in order]
    return []


def _made_of(mapping: Mapping, p: Problem, blocks: tuple[int, int, int]) -> bool:
    """Tiles are whole blocks, or the whole product."""
    tile = mapping.tile(2)
    return all(
        tile[axis] % size == 0 or tile[axis] >= getattr(p, axis)
        for axis, size in zip("PKC", blocks, strict=True)
    )


def _candidates(
    p: Problem, accelerator: Accelerator, whole: bool, buffering: tuple[int, int, int]
) -> Iterator[Mapping]:
    """Tilings with windows that are whole or single pixels, in both orders of the outer loops."""
    dim = accelerator.dim
    dataflow = accelerator.dataflows[0]
    check_executable([dataflow])
    rule = DATAFLOWS[dataflow]
    columns = min(p.K, dim)
    spread = min(getattr(p, rule.row), dim)
    unit = {"K": columns, rule.row: spread}
    options = [
        _sizes(getattr(p, name), unit.get(name, 1), most)
        for name, most in zip("PQKC", _MOST_SIZES, strict=True)
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
    rule = DATAFLOWS[dataflow]
    unit = {"K": columns, rule.row: spread}
    level0, level1 = dict.fromkeys(DIMS, 1), dict.fromkeys(DIMS, 1)
    for name, size in tile.items():
        if name in rule.loops[0]:
            level0[name] = size
        else:
            level1[name] = -(-size // unit.get(name, 1))
    covered = {name: level0[name] * level1[name] * unit.get(name, 1) for name in DIMS}
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
