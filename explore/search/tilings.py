"""Mappings in macro form: how they are made, changed, and listed.

A macro's tiling is one size an axis: channels in blocks of the array's side, pixels and window positions one by one,
and two orders of the loops over tiles (`baco.exploration.cost.genome.MACRO_ORDERS`). All functions here propose; none evaluates.
"""

from __future__ import annotations

import numpy as np

from baco.common import portable
from baco.common.portable import Bools, Ints
from baco.compiler.choice.equal_parts import equal_parts
from baco.compiler.mapping.batch import AXES
from baco.exploration.cost.genome import (
    C_AXIS,
    COLUMNS,
    FLOW,
    K_AXIS,
    MACRO_ORDER_INDEX,
    ORDER,
    ORDERS,
    P_AXIS,
    ROW_AXIS,
    ROWS,
    T1,
    T2,
    T3,
    Genomes,
    macro_flow,
    tighten,
    trivial,
)
from baco.exploration.search.moves import Load

#: Rounds of shrinking a tile until it fits.
_REPAIRS = 24
#: Attempts at growing the tiles of a new mapping.
_GROWTHS = 12
#: Sizes of a tile along one axis that are listed at most.
_LISTED = 18
#: Whether the order of DRAM loops has output channels outside the pixels.
_K_OUTSIDE = np.array([order.index("K") > order.index("P") for order in ORDERS])


def in_macro_form(rows: Genomes, bounds: Ints, dim: Ints) -> Genomes:
    """The mappings in macro form, for arrays of sides `dim` (B,), whose tiles are nearest to those of `rows`: the
    scratchpad's tile in whole blocks, the array as full as the problem lets it be."""
    tile = rows[:, T1] * rows[:, T2]
    index = np.arange(len(rows))
    tile[index, ROW_AXIS[rows[:, FLOW]]] *= rows[:, ROWS]
    tile[:, K_AXIS] *= rows[:, COLUMNS]
    tile = np.minimum(tile, bounds)
    result = trivial(len(rows))
    result[:, FLOW] = macro_flow(dim)
    result[:, ORDER] = np.where(_K_OUTSIDE[rows[:, ORDER]], MACRO_ORDER_INDEX[1], MACRO_ORDER_INDEX[0])
    result[:, T1] = tile
    for place, axis in ((ROWS, C_AXIS), (COLUMNS, K_AXIS)):
        result[:, place] = np.minimum(bounds[:, axis], dim)
        result[:, T1.start + axis] = -(-tile[:, axis] // result[:, place])
    tighten(result, bounds)
    return result


def construct_tilings(bounds: Ints, dim: Ints, load: Load, rng: np.random.Generator) -> tuple[Genomes, Bools]:
    """Random macro tilings that fill their accelerators: whole windows, then pixels and channels as far as they fit, in
    random order. Returns the rows and which of them fit."""
    size = len(bounds)
    rows = trivial(size)
    rows[:, ORDER] = rng.choice(MACRO_ORDER_INDEX, size)
    rows[:, ROWS] = np.minimum(bounds[:, C_AXIS], dim)
    rows[:, COLUMNS] = np.minimum(bounds[:, K_AXIS], dim)
    whole = rng.random(size) < 0.9
    rows[:, T1.start : T1.start + 2] = np.where(whole[:, None], bounds[:, :2], 1)
    rows = in_macro_form(rows, bounds, dim)
    fits = _shrink(rows, bounds, load, rng)
    for _ in range(_GROWTHS):
        index = np.flatnonzero(fits)
        part, one = rows[index], np.arange(len(index))
        open_ = part[:, T3] > 1
        # a little of every axis is worth more than all of one
        axis = np.where(open_, rng.random(open_.shape), -1.0).argmax(1)
        trips = part[one, T3.start + axis]
        fewer = np.where(rng.random(len(index)) < 0.4, 1, -(-trips // rng.integers(2, 4, len(index))))
        part[one, T1.start + axis] = -(-part[one, T1.start + axis] * trips // fewer)
        part = in_macro_form(part, bounds[index], dim[index])
        acc, sp = load(index, part)
        good = (acc <= 1) & (sp <= 1)
        rows[index[good]] = part[good]
    return rows, fits


def tiling_neighbours(
    base: Genomes, bounds: Ints, dim: Ints, load: Load, rng: np.random.Generator
) -> tuple[Genomes, Bools]:
    """A random neighbour in macro form of each row, for arrays of sides `dim`: other sizes along one to three axes, or
    the other loop order. Returns the rows and which of them fit."""
    rows = in_macro_form(base, bounds, dim)
    size = len(rows)
    weight = np.where(bounds > 1, portable.log2(bounds) + 1.0, 0.0)
    weight[(weight == 0).all(1), K_AXIS] = 1.0
    chance = np.cumsum(weight, 1)
    chance /= chance[:, -1:]
    moves = 1 + (rng.random(size) < 0.6) + (rng.random(size) < 0.3)
    flip = rng.random(size) < 0.12
    for turn in range(3):
        active = np.flatnonzero((moves > turn) & ~(flip & (turn == 0)))
        axis = (rng.random(size)[:, None] > chance).sum(1).clip(0, 6)[active]
        place, trips = T1.start + axis, rows[active, T3.start + axis]
        value, kind = rows[active, place], rng.random(len(active))
        factor = rng.choice(np.array([2, 2, 3, 4]), len(active))
        step = np.maximum(1, trips + rng.choice(np.array([-1, 1]), len(active)))
        cover = value * trips
        rows[active, place] = np.select(
            [kind < 0.25, kind < 0.5, kind < 0.85, kind < 0.93],
            [value * factor, -(-value // factor), -(-cover // step), cover],
            1,
        )
    rows[flip, ORDER] = MACRO_ORDER_INDEX.sum() - rows[flip, ORDER]
    rows = in_macro_form(rows, bounds, dim)
    return rows, _shrink(rows, bounds, load, rng)


def _shrink(rows: Genomes, bounds: Ints, load: Load, rng: np.random.Generator) -> Bools:
    """Cut tiles in place, a random axis at a time, until they fit; which rows fit in the end."""
    everything = np.arange(len(rows))
    acc, sp = load(everything, rows)
    for _ in range(_REPAIRS):
        broken = np.flatnonzero((acc > 1) | (sp > 1))
        if not len(broken):
            break
        part, one = rows[broken], np.arange(len(broken))
        able = part[:, T1] > 1
        # axes that take nothing of what is short are left alone
        able[:, : C_AXIS + 1] &= (sp[broken] > 1)[:, None]
        axis = np.where(able, rng.random(able.shape) * portable.log2(part[:, T1] + 1.0), -1.0).argmax(1)
        part[one, T1.start + axis] = -(-part[one, T1.start + axis] // 2)
        part[:, T3] = 1
        tighten(part, bounds[broken])
        rows[broken] = part
        acc[broken], sp[broken] = load(broken, part)
    return np.asarray((acc <= 1) & (sp <= 1))


def sizes(bounds: Ints, dim: int) -> list[Ints]:
    """Sizes worth a look along each axis of one problem (`bounds` (7,)): those that cut it into equal parts, and whole
    passes of pixels; channels in blocks of the array's side."""
    found = []
    for axis, bound in enumerate(bounds.tolist()):
        if axis in (C_AXIS, K_AXIS):
            bound = -(-bound // min(bound, dim))
        listed = set(equal_parts(bound).tolist())
        if AXES[axis] in "RS":
            listed = {1, bound}
        elif axis == P_AXIS:
            listed |= set(range(dim, bound, dim))
        values = np.array(sorted(listed), dtype=np.int64)
        if len(values) > _LISTED:
            values = values[np.unique(np.linspace(0, len(values) - 1, _LISTED).round().astype(int))]
        found.append(values)
    return found


#: Pairs of axes that share a memory, and so are looked at together.
_PAIRS = [
    tuple(AXES.index(axis) for axis in pair) for pair in ("PQ", "CK", "PK", "QK", "PC", "QC", "RS", "NP")
]


def tilings_around(row: Genomes, bounds: Ints, dim: int) -> Genomes:
    """All macro tilings that differ from one (25,) along a pair of axes, in both loop orders."""
    listed = sizes(bounds, dim)
    blocks = []
    for one, other in _PAIRS:
        if bounds[one] == bounds[other] == 1:
            continue
        a, b = (grid.ravel() for grid in np.meshgrid(listed[one], listed[other], indexing="ij"))
        block = np.repeat(row[None, :], len(a), axis=0)
        block[:, T1.start + one], block[:, T1.start + other] = a, b
        blocks.append(block)
    blocks.append(row[None, :].copy())
    rows = np.concatenate(blocks)
    both = np.concatenate([rows, rows])
    both[:, ORDER] = np.repeat(MACRO_ORDER_INDEX, len(rows))
    return np.unique(in_macro_form(both, np.tile(bounds, (len(both), 1)), np.full(len(both), dim)), axis=0)
