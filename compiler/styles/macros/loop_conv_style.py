"""The code style of LOOP_CONV_WS: which mappings are tilings of convolutions, and back."""

from __future__ import annotations

from dataclasses import replace

from baco.accel.config import Accelerator
from baco.compiler.analysis.arrays import INTEGERS
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.compiler.schedules.schedule import LoopConvSchedule
from baco.compiler.schedules.style import LayerPlan
from baco.compiler.schedules.trip import Trip
from baco.compiler.styles.macros.loop_conv import LoopConv
from baco.compiler.styles.macros.loop_conv_check import downsamples, plan_loop_conv, unpooled
from baco.compiler.styles.macros.loop_ws import as_product
from baco.compiler.styles.macros.macro_style import REDUCTION, MacroStyle, kept, macro_plan, mapping_of_tiles
from baco.compiler.styles.macros.tile_rows import pooled_results


class LoopConvStyle(MacroStyle[LoopConvSchedule]):
    """Convolutions in tiles, one run of LOOP_CONV_WS each."""

    schedule = LoopConvSchedule

    def plan(self, layer: Layer, schedule: LoopConvSchedule, accelerator: Accelerator) -> LayerPlan:
        runs, dim = plan_loop_conv(layer, schedule, accelerator), accelerator.dim
        # a row of the array takes several pixels of the window where these are packed
        lanes = min(dim, runs.pixels * runs.tile["c"]), min(dim, runs.tile["k"])
        return macro_plan(
            accelerator, runs.rows, lanes, lambda e, operands: LoopConv(e, layer, runs, operands).emit()
        )

    def _of_tile(
        self, layer: Layer, mapping: Mapping, tile: dict[str, int], busy: list[str], accelerator: Accelerator
    ) -> LoopConvSchedule | None:
        sums = [name for name in busy if name in REDUCTION]
        if as_product(layer) is not None or busy[len(busy) - len(sums) :] != sums:
            return None
        return _convolution_form(layer, mapping, tile, accelerator)

    def mapping(self, layer: Layer, schedule: LoopConvSchedule, accelerator: Accelerator) -> Mapping:
        return _mapping_of_convolution(layer, schedule, accelerator.dim)


def packed_pixels(layer: Layer, columns: int, depth: int, accelerator: Accelerator) -> int:
    """Pixels of the window that a row of the array holds (max_pixels_per_row), for a tile of so many of its columns and
    channels: as many as fit; one of real numbers, which are added up position by position.
    """
    p = layer.problem
    packs = (
        accelerator.features.first_layer
        and not layer.real
        and depth == p.C <= accelerator.dim
        and p.dilation_w == 1
        and not downsamples(layer)
    )
    return max(1, min(columns, accelerator.dim // depth)) if packs else 1


def _convolution_form(
    layer: Layer, mapping: Mapping, tile: dict[str, int], accelerator: Accelerator
) -> LoopConvSchedule:
    p, pool = layer.problem, layer.pooling
    columns = _pooled(layer, tile["P"], mapping.factor("P", 3), p.P, pool.columns if pool else p.P)
    rows = _pooled(layer, tile["Q"], mapping.factor("Q", 3), p.Q, pool.rows if pool else p.Q)
    pixels = packed_pixels(layer, tile["R"], tile["C"], accelerator)
    loops = mapping.order[3][::-1]
    order = "".join(sorted(loops, key=lambda name: name in REDUCTION)).lower()
    schedule = LoopConvSchedule(
        tile["N"], rows, columns, tile["K"], tile["S"], tile["R"], tile["C"],
        order=order, pixels=pixels, downsample=downsamples(layer),
    )  # fmt: skip
    sizes = (p.N, pool.rows if pool else p.Q, pool.columns if pool else p.P, p.K, p.S, p.R, p.C)
    trips = {axis: -(-size // part) for axis, size, part in zip("nqpksrc", sizes, schedule.tile, strict=True)}
    nest = [Trip("g", p.groups), *(Trip(axis, trips[axis]) for axis in order)]
    if pixels > 1:
        return schedule  # packed operands never stay
    return replace(schedule, keep_input=kept(nest, "gnqpsrc", "k"), keep_weights=kept(nest, "gksrc", "nqp"))


def _pooled(layer: Layer, tile: int, trips: int, extent: int, stored: int) -> int:
    """Stored results of a tile along one axis whose mapping has so many before pooling, and so many tiles."""
    pool = layer.pooling
    if pool is None:
        return tile
    return int(pooled_results(INTEGERS, tile, trips, extent, (pool.size, pool.stride, stored)))


def _unpooled(layer: Layer, stored: int, extent: int, whole: int) -> tuple[int, int]:
    """Results before pooling of a tile of `stored` ones, and tiles, along one axis of `whole` stored ones."""
    trips = -(-whole // stored)
    if layer.pooling is None:
        return stored, trips
    return (extent if trips == 1 else max(unpooled(layer, stored, extent), -(-extent // trips))), trips


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
    return mapping_of_tiles(
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
