"""Moves of the local search: random neighbours of mappings, fitted to an accelerator.

Proposals cost no evaluations: capacity needs follow from the factors alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from baco.common import portable
from baco.common.portable import Bools, Floats, Ints
from baco.exploration.cost.genome import (
    COLUMNS,
    DRAM_ORDERS,
    FLOW,
    K_AXIS,
    ONCE,
    ONCE_BITS,
    ORDER,
    ROW_AXIS,
    ROWS,
    T1,
    T2,
    T3,
    Genomes,
    plain_copies,
    tighten,
    trivial,
)

#: How much of the accumulator and of the scratchpad rows of genomes take, as (B,) ratios, given their index.
Load = Callable[[Ints, Genomes], tuple[Floats, Floats]]

_REPAIRS, _FILLS = 8, 3


def neighbours(
    base: Genomes,
    bounds: Ints,
    dim: Ints,
    flows: Sequence[int],
    load: Load,
    rng: np.random.Generator,
    *,
    copies: bool = False,
) -> tuple[Genomes, Bools]:
    """A random neighbour of each row that fits its accelerator.

    Args:
        base: (B, WIDTH) rows to start from.
        bounds, dim: (B, 7) loop bounds, (B,) array sides.
        load: capacity taken by rows, as ratios of what their accelerators have.
        copies: whether tensors may come to be held once, or twice again.

    Returns:
        the neighbours, and which of them fit.
    """
    rows = mutate(base, bounds, dim, flows, rng, copies=copies)
    everything = np.arange(len(rows))
    fits = _repair(rows, bounds, load, rng)
    grow = fits & (rng.random(len(rows)) < 0.4)
    grow |= fits & (rows[:, ONCE] > base[:, ONCE])
    for _ in range(_FILLS):
        index = everything[grow]
        if not len(index):
            break
        larger = rows[index].copy()
        _grow(larger, rng)
        tighten(larger, bounds[index])
        acc, sp = load(index, larger)
        good = (acc <= 1) & (sp <= 1)
        rows[index[good]] = larger[good]
    return rows, fits


def construct(
    bounds: Ints,
    dim: Ints,
    flows: Sequence[int],
    load: Load,
    rng: np.random.Generator,
    *,
    copies: bool = False,
) -> tuple[Genomes, Bools]:
    """Random mappings that fill their accelerators: the array is used fully, then the accumulator is filled with
    pixels and K, then the scratchpad with reduction loops and, unless outputs are to stay put under
    reduction loops at DRAM, with more of anything. With `copies`, every other one holds some tensors once. Returns the
    rows and which of them fit."""
    size = len(bounds)
    rows = trivial(size)
    if copies:
        rows[:, ONCE] = rng.integers(0, 8, size) * rng.integers(0, 2, size)
    rows[:, FLOW] = rng.choice(np.asarray(flows), size)
    rows[:, ORDER] = rng.integers(0, len(DRAM_ORDERS), size)
    one = np.arange(size)
    rows[:, ROWS] = np.minimum(bounds[one, ROW_AXIS[rows[:, FLOW]]], dim)
    rows[:, COLUMNS] = np.minimum(bounds[:, K_AXIS], dim)
    tighten(rows, bounds)
    acc, sp = load(one, rows)
    fits = (acc <= 1) & (sp <= 1)
    hold = rng.random(size) < 0.4
    rows[hold, ORDER] = np.array([2, 9, 10])[rng.integers(0, 3, int(hold.sum()))]
    # Which dimensions a phase may grow, into which level, in how many attempts.
    pixels, reduction, everything = (3, 7), (0, 3), (0, 7)
    for (low, high), target, attempts in ((pixels, 3, 8), (reduction, 3, 6), (everything, 10, 8)):
        eager = rng.random(size) < 0.85
        for _ in range(attempts):
            active = np.flatnonzero(fits & eager & ~(hold & (target == 10)))
            if not len(active):
                break
            part = rows[active]
            index = np.arange(len(active))
            axis = rng.integers(low, high, len(active))
            value = part[index, 17 + axis]
            factor = np.minimum(rng.choice(np.array([2, 2, 3, 5, 1 << 20, 1 << 20]), len(active)), value)
            part[index, target + axis] *= factor
            part[index, 17 + axis] = -(-value // factor)
            tighten(part, bounds[active])
            acc, sp = load(active, part)
            good = (acc <= 1) & (sp <= 1)
            rows[active[good]] = part[good]
    return rows, fits


def _repair(rows: Genomes, bounds: Ints, load: Load, rng: np.random.Generator) -> Bools:
    """Shrink tiles in place until they fit (most do within a few halvings); which rows fit in the end."""
    acc, sp = load(np.arange(len(rows)), rows)
    for _ in range(_REPAIRS):
        broken = np.flatnonzero((acc > 1) | (sp > 1))
        if not len(broken):
            break
        part = rows[broken]
        one = np.arange(len(part))
        # The accumulator tile shrinks by pixels and K; the scratchpad tile by any dimension.
        over_acc = acc[broken] > 1
        t1, t2 = part[:, 3:10], part[:, 10:17]
        can = np.where(over_acc[:, None], t1 > 1, (t2 > 1) | (t1 > 1)).astype(float)
        can[over_acc, :3] = 0.0
        able = can.sum(1) > 0
        chance = np.cumsum(can + ~able[:, None], 1)
        axis = (rng.random(len(part))[:, None] * chance[:, -1:] > chance).sum(1).clip(0, 6)
        first = over_acc | (t2[one, axis] <= 1)
        place = np.where(first, 3, 10) + axis
        value = part[one, place]
        halved = np.where(rng.random(len(part)) < 0.5, -(-value // 2), np.maximum(1, value // 3))
        part[one, place] = np.minimum(halved, np.maximum(value - 1, 1))
        # What leaves level 1 goes to the scratchpad tile or out to DRAM.
        keep = first & (rng.random(len(part)) < 0.5)
        part[one, 10 + axis] = np.where(keep, t2[one, axis] * 2, part[one, 10 + axis])
        part[one, 17 + axis] = 1
        tighten(part, bounds[broken])
        rows[broken] = part
        acc[broken], sp[broken] = load(broken, part)
    return np.asarray((acc <= 1) & (sp <= 1))


def _grow(rows: Genomes, rng: np.random.Generator) -> None:
    """Pull a factor of a random dimension inwards: from DRAM to the scratchpad tile, or on to the accumulator's."""
    size = len(rows)
    one = np.arange(size)
    outer = rng.random(size) < 0.6
    source_block = np.where(outer, 17, 10)
    values = rows[one[:, None], source_block[:, None] + np.arange(7)[None, :]]
    can = (values > 1).astype(float)
    able = can.sum(1) > 0
    chance = np.cumsum(can + ~able[:, None], 1)
    axis = (rng.random(size)[:, None] * chance[:, -1:] > chance).sum(1).clip(0, 6)
    value = values[one, axis]
    factor = np.minimum(rng.choice(np.array([2, 2, 3, 4, 1 << 20]), size), value)
    target = source_block - 7
    rows[one, target + axis] *= factor
    rows[one, source_block + axis] = -(-value // factor)


def copies_around(row: Genomes, bounds: Ints, groups: int) -> Genomes:
    """All mappings that differ from one (WIDTH,) in which tensors are held once and, with that, at most in one axis of
    fewer and larger tiles of the accumulator or the scratchpad: what room is for. Some may not fit.

    Args:
        bounds: (7,) loop bounds; groups: of the problem.
    """
    found = [row.copy()]
    for axis in np.flatnonzero(row[T3] > 1).tolist():
        trips = int(row[T3][axis])
        for level in (T1, T2):
            for parts in sorted({1, -(-trips // 3), -(-trips // 2), trips - 1}):
                larger = row.copy()
                larger[level][axis] = -(-int(row[level][axis]) * trips // parts)
                larger[T3][axis] = parts
                found.append(larger)
    rows = np.repeat(np.stack(found), 8, axis=0)
    rows[:, ONCE] = np.tile(np.arange(8), len(found))
    tighten(rows, np.tile(bounds, (len(rows), 1)))
    return np.unique(plain_copies(rows, groups), axis=0)


def mutate(
    genomes: Genomes,
    bounds: NDArray[np.int64],
    dim: NDArray[np.int64],
    flows: Sequence[int],
    rng: np.random.Generator,
    *,
    copies: bool = False,
) -> Genomes:
    """A random neighbour of each row: one to three elementary moves, then tightened.

    A move transfers a factor of one dimension between two levels, changes a factor by one, changes the DRAM
    order, changes the dataflow, or, with `copies`, holds one tensor once or twice again. Spatial factors stay within
    `dim` (B,).
    """
    rows = genomes.copy()
    size = len(rows)
    moves = 1 + (rng.random(size) < 0.55) + (rng.random(size) < 0.3)
    axis_weight = np.where(bounds > 1, portable.log2(bounds) + 1.0, 0.0)
    idle = (axis_weight == 0).all(1)
    axis_weight[idle, K_AXIS] = 1.0
    chance = np.cumsum(axis_weight, 1)
    chance /= chance[:, -1:]
    for turn in range(3):
        active = moves > turn
        axis = (rng.random(size)[:, None] > chance).sum(1).clip(0, 6)
        kind = rng.random(size)
        reorder = active & (kind < 0.08)
        rows[reorder, ORDER] = rng.integers(0, len(DRAM_ORDERS), int(reorder.sum()))
        flip = active & (kind >= 0.08) & (kind < 0.10)
        if len(flows) > 1 and flip.any():
            _change_flow(rows, flip, flows, bounds, dim)
        moved = active & (kind >= 0.10)
        if copies:
            recopied = moved & (kind < 0.16)
            rows[recopied, ONCE] ^= rng.choice(ONCE_BITS, int(recopied.sum()))
            moved &= ~recopied
        _move_factor(rows, moved, axis, rng)
    _clip_spatial(rows, dim)
    tighten(rows, bounds)
    return rows


def _clip_spatial(rows: Genomes, dim: NDArray[np.int64]) -> None:
    np.minimum(rows[:, ROWS], dim, out=rows[:, ROWS])
    np.minimum(rows[:, COLUMNS], dim, out=rows[:, COLUMNS])


def _change_flow(
    rows: Genomes,
    where: NDArray[np.bool_],
    flows: Sequence[int],
    bounds: NDArray[np.int64],
    dim: NDArray[np.int64],
) -> None:
    """Go on to the next of the flows: the old row dimension goes on in time, the new one is spread over the rows."""
    index = np.flatnonzero(where)
    old_axis = ROW_AXIS[rows[index, FLOW]]
    rows[index, 3 + old_axis] *= rows[index, ROWS]
    following = np.zeros(max(flows) + 1, dtype=np.int64)
    following[list(flows)] = [*flows[1:], flows[0]]
    rows[index, FLOW] = following[rows[index, FLOW]]
    new_axis = ROW_AXIS[rows[index, FLOW]]
    spread = np.minimum(bounds[index, new_axis], dim[index])
    rows[index, ROWS] = spread
    rows[index, 3 + new_axis] = -(-rows[index, 3 + new_axis] // spread)


def _move_factor(
    rows: Genomes, where: NDArray[np.bool_], axis: NDArray[np.int64], rng: np.random.Generator
) -> None:
    """Transfer a factor of `axis` between two of (array, level 1, 2, 3), or change one by a single step."""
    index = np.flatnonzero(where)
    if not len(index):
        return
    axis = axis[index]
    size = len(index)
    spatial = np.where(axis == K_AXIS, COLUMNS, np.where(axis == ROW_AXIS[rows[index, FLOW]], ROWS, -1))
    place = np.stack([np.where(spatial >= 0, spatial, 3 + axis), 3 + axis, 10 + axis, 17 + axis], 1)
    source = rng.integers(0, 4, size)
    target = (source + rng.integers(1, 4, size)) % 4
    one = np.arange(size)
    a, b = place[one, source], place[one, target]
    factor = rng.choice(np.array([2, 2, 2, 3, 4, 5, 7, 8]), size)
    step = rng.random(size) < 0.3
    value_a, value_b = rows[index, a], rows[index, b]
    factor = np.minimum(factor, np.maximum(value_a, 1))
    # A large factor is also tried whole, so that a loop can leave a level in one move.
    whole = rng.random(size) < 0.15
    factor = np.where(whole, value_a, factor)
    moved_a = -(-value_a // factor)
    moved_b = value_b * factor
    nudged = np.maximum(1, value_a + rng.choice(np.array([-1, 1]), size))
    # After a single step the outermost factor is recomputed by tightening.
    rows[index, a] = np.where(step, nudged, moved_a)
    rows[index, b] = np.where(step, value_b, np.where(a == b, rows[index, b], moved_b))
    outer = 17 + axis
    rows[index, outer] = np.where(step & (a != outer), 1, rows[index, outer])
