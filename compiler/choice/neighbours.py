"""Tilings of a macro that differ from good ones in one size, the order of loops or what stays: the last steps of the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import LoopConvSchedule, LoopWsSchedule, Schedule
from baco.compiler.styles.macros.loop_ws import as_product

MacroSchedule: TypeAlias = LoopWsSchedule | LoopConvSchedule
#: Tilings whose neighbours are looked at in a step, and steps at most.
_BEAM, _STEPS = 3, 16
#: By which factor a size has to differ for tiles to be different.
_ALIKE = 1.4


def climb(
    layer: Layer,
    dim: int,
    known: dict[MacroSchedule, float],
    cycles: Callable[[MacroSchedule], float | None],
) -> dict[MacroSchedule, float]:
    """`known` tilings with their cycles, and those that are met when the fastest are changed step by step until none is faster.

    Args:
        dim: side of the array.
        cycles: of a tiling; None where it cannot be carried out.
    """
    found = {runs_of(layer, dim, schedule): (took, schedule) for schedule, took in reversed(known.items())}
    looked_at: set[MacroSchedule] = set()
    for _ in range(_STEPS):
        fastest = sorted(found.values(), key=lambda entry: entry[0])[:_BEAM]
        bases = [schedule for _, schedule in fastest if schedule not in looked_at]
        if not bases:
            break
        looked_at.update(bases)
        for base in bases:
            for schedule in neighbours(layer, dim, base):
                key = runs_of(layer, dim, schedule)
                if key not in found:
                    took = cycles(schedule)
                    found[key] = (float("inf") if took is None else took, schedule)
    return {schedule: took for took, schedule in found.values() if took < float("inf")}


def runs_of(layer: Layer, dim: int, schedule: MacroSchedule) -> MacroSchedule:
    """The same runs in one form: loops of one trip stand outermost, in the order of their axes."""
    axes, whole, tile = _axes(layer, dim, schedule)
    busy = [axis for axis in schedule.order if tile[axes.index(axis)] < whole[axes.index(axis)]]
    idle = [axis for axis in axes if axis not in busy]
    return replace(schedule, order="".join((*idle, *busy)))


def alike(layer: Layer, dim: int, one: Schedule, other: Schedule) -> bool:
    """Whether two schedules are so near that they take about as long: the same code in single commands, runs of about one size in one
    order by a macro."""
    if not (isinstance(one, LoopWsSchedule | LoopConvSchedule) and isinstance(other, type(one))):
        return one.text == other.text
    assert isinstance(other, LoopWsSchedule | LoopConvSchedule)
    first, second = runs_of(layer, dim, one), runs_of(layer, dim, other)
    tiles = (_axes(layer, dim, schedule)[2] for schedule in (first, second))
    near = all(max(a, b) < _ALIKE * min(a, b) for a, b in zip(*tiles, strict=True))
    return near and first.order == second.order and first.pixels_at_once == second.pixels_at_once


def neighbours(layer: Layer, dim: int, base: MacroSchedule) -> Iterator[MacroSchedule]:
    """Of one macro's tiling; whether they fit is not looked at."""
    axes, whole, tile = _axes(layer, dim, base)
    for number, axis in enumerate(axes):
        # channels go in whole blocks, of columns whole passes are tried too
        unit = dim if isinstance(base, LoopConvSchedule) and axis in "kc" else 1
        for size in _sizes(tile[number], whole[number], unit, passes=dim if axis == "p" else 0):
            yield _with_tile(base, (*tile[:number], size, *tile[number + 1 :]))
    if isinstance(base, LoopWsSchedule):
        for order in ("ijk", "jik"):
            yield replace(base, order=order)
        yield replace(base, keep_a=not base.keep_a)
        yield replace(base, keep_b=not base.keep_b)
        return
    for order in ("nqpksrc", "knqpsrc"):
        yield replace(base, order=order)
    if base.pixels == 1:
        yield replace(base, keep_input=not base.keep_input)
        yield replace(base, keep_weights=not base.keep_weights)


def _axes(layer: Layer, dim: int, schedule: MacroSchedule) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Names of the axes, extents of the whole, and those of a tile, in the schedule's units."""
    if isinstance(schedule, LoopWsSchedule):
        product = as_product(layer)
        assert product is not None, "LOOP_WS computes products"
        whole: tuple[int, ...] = product.blocks(dim)
        axes = "ijk"
        tile: tuple[int, ...] = (schedule.i, schedule.j, schedule.k)
    else:
        p, pool = layer.problem, layer.pooling
        stored = (pool.rows, pool.columns) if pool else (p.Q, p.P)
        axes, whole, tile = "nqpksrc", (p.N, *stored, p.K, p.S, p.R, p.C), schedule.tile
    return axes, whole, tuple(min(part, size) for part, size in zip(tile, whole, strict=True))


def _sizes(size: int, whole: int, unit: int, passes: int) -> list[int]:
    """Other sizes of a tile along an axis: a little less and more, half, twice, one part more and less, all."""
    blocks, most = -(-size // unit), -(-whole // unit)
    parts = -(-most // blocks)
    wanted = {blocks - 1, blocks + 1, -(-blocks // 2), 2 * blocks, most, -(-most // (parts + 1))}
    if parts > 1:
        wanted.add(-(-most // (parts - 1)))
    if passes:
        wanted |= {(size - 1) // passes * passes, (size // passes + 1) * passes}
    sizes = {min(number * unit, whole) for number in wanted if number > 0}
    return sorted(sizes - {size})


def _with_tile(base: MacroSchedule, tile: tuple[int, ...]) -> MacroSchedule:
    if isinstance(base, LoopWsSchedule):
        i, j, k = tile
        return replace(base, i=i, j=j, k=k)
    n, q, p, k, s, r, c = tile
    return replace(
        base, batches=n, rows=q, columns=p, out_channels=k, kernel_rows=s, kernel_columns=r, in_channels=c
    )
