"""Mappings and the macro schedules that carry them out.

A mapping has *macro form* when the loop macros do what it says: weights are stationary, one tile in the scratchpad is
one tile in the accumulator (every factor of level 2 is 1), its pixels run at level 0 and its window, depth and blocks
of columns at level 1, the array is spread as the macros spread it, every tile has a second copy, and the loops that sum
run inside all others over main memory (products may keep partial sums there instead). Such mappings become runs of LOOP_WS (products) or LOOP_CONV_WS (the rest);
all others are carried out by explicit moves.

What a mapping does not say, the macros' fastest way decides: operands that the loop order lets stay do stay in the
scratchpad, first layers pack pixels, windows of one pixel and stride 2 are downsampled.

Lanes of the array beyond the channels of one group serve its neighbours (`baco.compiler.mapping.nest.packed_groups`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.dataflows import MACRO_DATAFLOW
from baco.common.errors import InfeasibleError
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping, packed_groups
from baco.compiler.schedules.schedule import (
    DepthwiseSchedule,
    ExplicitSchedule,
    LoopConvSchedule,
    LoopWsSchedule,
    Schedule,
)
from baco.compiler.schedules.trip import Trip
from baco.compiler.styles.macros.loop_conv_check import downsamples, plan_loop_conv
from baco.compiler.styles.macros.loop_ws import Product, as_product, check_loop_ws
from baco.compiler.styles.macros.reuse import plan_reuse
from baco.compiler.styles.packed import packed_layer
from baco.workloads.problem import DIMS

#: Order at the inner levels: sums stay in the accumulator as long as they can, and K is outermost as in the macros.
_INNER = "RSCPQNK"
_PIXELS, _REDUCTION = "PQN", "RSC"


def realise(layer: Layer, mapping: Mapping, accelerator: Accelerator) -> Schedule:
    """The schedule that carries a mapping out: a macro's if it has macro form and fits halves of the local memories.

    Whether an explicit schedule can be carried out is for lowering to say. Raises InputError for a mapping that does
    not cover the layer's problem.
    """
    mapping.check(layer.problem)
    packed = packed_groups(mapping, layer.problem)
    if packed > 1:
        try:
            packed_layer(layer, packed)
            return DepthwiseSchedule(mapping, packed)
        except InfeasibleError:
            pass
    schedule = macro_form(layer, mapping, accelerator)
    if schedule is not None:
        try:
            if isinstance(schedule, LoopWsSchedule):
                check_loop_ws(layer, schedule, accelerator)
            else:
                plan_loop_conv(layer, schedule, accelerator)
            return schedule
        except InfeasibleError:
            pass
    return ExplicitSchedule(mapping)


def macro_form(
    layer: Layer, mapping: Mapping, accelerator: Accelerator
) -> LoopWsSchedule | LoopConvSchedule | None:
    """The macro schedule that a mapping stands for; None if it has no macro form.

    Only shapes are looked at: whether the accelerator has the macro, and room for the tiles, is not. Tiles of a product
    are whole blocks of the array's side: parts of blocks are rounded up, which never makes more tiles.
    """
    p, dim = layer.problem, accelerator.dim
    if mapping.dataflow != MACRO_DATAFLOW or mapping.buffering != (2, 2, 2):
        return None
    if any(factor > 1 for factor in mapping.temporal[2]):
        return None
    if any(mapping.factor(name, 1) > 1 for name in _PIXELS):
        return None
    bounds = dict(zip(DIMS, p.bounds, strict=True))
    tile = {name: min(extent, bounds[name]) for name, extent in mapping.tile(2).items()}
    for name, side in (("C", mapping.rows), ("K", mapping.columns)):
        if side > dim or mapping.factor(name, 1) > -(-tile[name] // dim):
            return None
    busy = [name for name in reversed(mapping.order[3]) if -(-bounds[name] // tile[name]) > 1]
    product = as_product(layer)
    if product is not None:
        order = _product_order(mapping.order[3][::-1], busy)
        return None if order is None else _product_form(layer, product, tile, order, dim)
    sums = [name for name in busy if name in _REDUCTION]
    if busy[len(busy) - len(sums) :] != sums:
        return None
    return _convolution_form(layer, mapping, tile, accelerator)


def mapping_of(layer: Layer, schedule: Schedule, accelerator: Accelerator) -> Mapping:
    """The mapping that a schedule stands for.

    `realise` makes the same schedule of it again, but for what mappings do not say (see above), and where products are
    concerned: their tiles are runs of neighbouring pixels, which only an image of one row has room for (take
    `flat_layer`); the nearest tile of rows and columns stands for others. Products by LOOP_CONV_WS become LOOP_WS.
    Raises InfeasibleError where there is none: for groups packed otherwise than lanes say, and convolutions by LOOP_WS.
    """
    if isinstance(schedule, ExplicitSchedule):
        return schedule.mapping
    if isinstance(schedule, DepthwiseSchedule):
        if packed_groups(schedule.mapping, layer.problem) != schedule.packed:
            raise InfeasibleError(f"no mapping says that {schedule.packed} groups run at once in {schedule}")
        return schedule.mapping
    if isinstance(schedule, LoopWsSchedule):
        product = as_product(layer)
        if product is None:
            raise InfeasibleError("LOOP_WS computes matrix products only, and the layer is a convolution")
        return _mapping_of_product(layer, product, schedule, accelerator.dim)
    return _mapping_of_convolution(layer, schedule, accelerator.dim)


def flat_layer(layer: Layer) -> Layer:
    """A layer that is a matrix product as one whose pixels are a single row, every other one as it is.

    The tensors lie in memory as before. Mappings of the flat layer can say every tiling of LOOP_WS.
    """
    product = as_product(layer)
    if product is None or layer.is_product:
        return layer
    p = layer.problem
    return replace(
        layer,
        problem=replace(
            p, P=product.rows, Q=1, N=1, stride_w=1, stride_h=1, dilation_w=1, dilation_h=1
        ),
        image=(1, product.rows),
    )  # fmt: skip


def packed_pixels(layer: Layer, columns: int, depth: int, accelerator: Accelerator) -> int:
    """Pixels of the window that a row of the array holds (max_pixels_per_row), for a tile of so many of its columns and
    channels: as many as fit.
    """
    p = layer.problem
    packs = (
        accelerator.features.first_layer
        and depth == p.C <= accelerator.dim
        and p.dilation_w == 1
        and not downsamples(layer)
    )
    return max(1, min(columns, accelerator.dim // depth)) if packs else 1


# -------------------------------------------------------------------- products


def _product_order(loops: str, busy: list[str]) -> str | None:
    """The loops over tiles as LOOP_WS has them, both outermost first; None if others split those over pixels.

    Loops that run once stand where they are written, the depth innermost.
    """
    pixels = [name for name in loops if name in _PIXELS and name in busy] or ["P"]
    depth = ["C"] if "C" in busy else []
    of = dict.fromkeys(pixels, "i") | {"K": "j"} | dict.fromkeys(depth, "k")
    order = "".join(of[name] for name in loops if name in of)
    order = _collapsed(order)
    if "K" not in busy and order.count("i") > 1:  # a loop that does not run splits nothing
        order = _collapsed(order.replace("j", "")) + "j"
    order += "" if depth else "k"
    return order if len(order) == 3 else None


def _collapsed(order: str) -> str:
    """Neighbours of one kind as one."""
    return "".join(axis for axis, _ in itertools.groupby(order))


def _product_form(
    layer: Layer, product: Product, tile: dict[str, int], order: str, dim: int
) -> LoopWsSchedule:
    blocks = product.blocks(dim)
    i = min(-(-math.prod(tile[name] for name in _PIXELS) // dim), blocks[0])
    j, k = -(-tile["K"] // dim), -(-tile["C"] // dim)
    trips = {axis: -(-whole // part) for axis, whole, part in zip("ijk", blocks, (i, j, k), strict=True)}
    loops = [Trip("g", layer.problem.groups), *(Trip(axis, trips[axis]) for axis in order)]
    return LoopWsSchedule(
        i, j, k, order, keep_a=_kept(loops, "gik", "j"), keep_b=_kept(loops, "gjk", "i")
    )  # fmt: skip


def _kept(loops: list[Trip], relevant: str, others: str) -> bool:
    """Whether an operand that the axes `relevant` choose serves several runs of the loops `others`."""
    counts = {trip.name: trip.count for trip in loops}
    return any(counts[axis] > 1 for axis in others) and plan_reuse(loops, relevant) is not None


def _mapping_of_product(layer: Layer, product: Product, schedule: LoopWsSchedule, dim: int) -> Mapping:
    p = layer.problem
    blocks = product.blocks(dim)
    i, j, k = (
        min(part, whole) for part, whole in zip((schedule.i, schedule.j, schedule.k), blocks, strict=True)
    )
    pixels = _pixels_of(layer, i, dim)
    rows, columns = min(dim, p.C), min(dim, p.K)
    order = "".join({"i": "PQN", "j": "K", "k": "RSC"}[axis] for axis in reversed(schedule.order))
    trips = {"C": -(-blocks[2] // k), "K": -(-blocks[1] // j)}
    trips |= {name: -(-getattr(p, name) // size) for name, size in pixels.items()}
    return _mapping(rows, columns, pixels, {"C": k, "K": j}, trips, order)


def _pixels_of(layer: Layer, blocks: int, dim: int) -> dict[str, int]:
    """Columns, rows and images of a tile that takes so many blocks of `dim` pixels, and makes about as many tiles."""
    p = layer.problem
    if blocks * dim >= p.N * p.Q * p.P:
        return {"P": p.P, "Q": p.Q, "N": p.N}
    sizes = (p.P, p.Q, p.N)
    columns, rows, images = (
        grid.ravel() for grid in np.meshgrid(*(np.arange(1, size + 1) for size in sizes), indexing="ij")
    )
    taken = columns * rows * images
    tiles = -(-p.P // columns) * -(-p.Q // rows) * -(-p.N // images)
    wanted = -(-p.N * p.Q * p.P // (blocks * dim))
    ranked = np.lexsort((-taken, -columns, np.abs(tiles - wanted), np.abs(-(-taken // dim) - blocks)))
    best = ranked[0]
    return {"P": int(columns[best]), "Q": int(rows[best]), "N": int(images[best])}


# -------------------------------------------------------------------- convolutions


def _convolution_form(
    layer: Layer, mapping: Mapping, tile: dict[str, int], accelerator: Accelerator
) -> LoopConvSchedule:
    p, pool = layer.problem, layer.pooling
    columns = _pooled(layer, tile["P"], mapping.factor("P", 3), p.P, pool.columns if pool else p.P)
    rows = _pooled(layer, tile["Q"], mapping.factor("Q", 3), p.Q, pool.rows if pool else p.Q)
    pixels = packed_pixels(layer, tile["R"], tile["C"], accelerator)
    loops = mapping.order[3][::-1]
    order = "".join(sorted(loops, key=lambda name: name in _REDUCTION)).lower()
    schedule = LoopConvSchedule(
        tile["N"], rows, columns, tile["K"], tile["S"], tile["R"], tile["C"],
        order=order, pixels=pixels, downsample=downsamples(layer),
    )  # fmt: skip
    sizes = (p.N, pool.rows if pool else p.Q, pool.columns if pool else p.P, p.K, p.S, p.R, p.C)
    trips = {axis: -(-size // part) for axis, size, part in zip("nqpksrc", sizes, schedule.tile, strict=True)}
    nest = [Trip("g", p.groups), *(Trip(axis, trips[axis]) for axis in order)]
    if pixels > 1:
        return schedule  # packed operands never stay
    return replace(schedule, keep_input=_kept(nest, "gnqpsrc", "k"), keep_weights=_kept(nest, "gksrc", "nqp"))


def _pooled(layer: Layer, unpooled: int, trips: int, extent: int, stored: int) -> int:
    """Stored results of a tile along one axis whose mapping has so many unpooled ones and tiles."""
    pool = layer.pooling
    if pool is None:
        return unpooled
    if unpooled >= extent:
        return -(-stored // trips)  # more than one: the last window of the first tile reaches the last result
    inside = max(1, (unpooled - pool.size) // pool.stride + 1)
    # tiles of pooled results overlap by part of a window: rather larger tiles than more of them
    return min(inside, stored) if -(-stored // inside) <= trips else -(-stored // trips)


def _unpooled(layer: Layer, stored: int, extent: int, whole: int) -> tuple[int, int]:
    """Results before pooling of a tile of `stored` ones, and tiles, along one axis of `whole` stored ones."""
    pool, trips = layer.pooling, -(-whole // stored)
    if pool is None:
        return stored, trips
    reach = min(extent, (stored - 1) * pool.stride + pool.size)
    return (extent if trips == 1 else max(reach, -(-extent // trips))), trips


def _mapping_of_convolution(layer: Layer, schedule: LoopConvSchedule, dim: int) -> Mapping:
    p, pool = layer.problem, layer.pooling
    stored = (pool.rows, pool.columns) if pool else (p.Q, p.P)
    sizes = (p.N, *stored, p.K, p.S, p.R, p.C)
    images, q, x, k, s, r, c = (min(part, size) for part, size in zip(schedule.tile, sizes, strict=True))
    rows, trips_q = _unpooled(layer, q, p.Q, stored[0])
    columns, trips_p = _unpooled(layer, x, p.P, stored[1])
    lanes_k, blocks_k = _lanes(k, p.K, dim)
    lanes_c, blocks_c = _lanes(c, p.C, dim)
    trips = {"N": -(-p.N // images), "Q": trips_q, "P": trips_p, "K": -(-p.K // k)}
    trips |= {"S": -(-p.S // s), "R": -(-p.R // r), "C": -(-p.C // c)}
    return _mapping(
        lanes_c,
        lanes_k,
        {"P": columns, "Q": rows, "N": images},
        {"R": r, "S": s, "C": blocks_c, "K": blocks_k},
        trips,
        schedule.order[::-1].upper(),
    )


def _lanes(tile: int, whole: int, dim: int) -> tuple[int, int]:
    """Lanes of the array and blocks that stand for a tile of channels: as many channels, or the most below it that make
    no more tiles.
    """
    trips, blocks = -(-whole // tile), -(-tile // dim)
    equal, full = (tile // blocks, blocks), (dim, blocks - 1)
    fitting = [
        (lanes * count, lanes, count)
        for lanes, count in (equal, full)
        if lanes * count * trips >= whole and count == -(-lanes * count // dim)
    ]
    return max(fitting)[1:] if fitting else (-(-tile // blocks), blocks)


def _mapping(
    rows: int,
    columns: int,
    pixels: dict[str, int],
    blocks: dict[str, int],
    trips: dict[str, int],
    order: str,
) -> Mapping:
    """A mapping in macro form: pixels of a tile at level 0, its blocks at level 1, tiles at level 3."""
    temporal = tuple(
        tuple(level.get(name, 1) for name in DIMS) for level in (pixels, blocks, dict[str, int](), trips)
    )
    return Mapping(MACRO_DATAFLOW, rows, columns, temporal, (_INNER, _INNER, _INNER, order), (2, 2, 2))
