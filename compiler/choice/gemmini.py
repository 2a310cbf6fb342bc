"""The Gemmini-default tiling: what the C library of Gemmini would choose, as one more way to choose a schedule.

The rules are those of section 13 of the instruction set, in own words. Products take the library's path for matrix
products; convolutions its path for convolutions, or, where asked for, that for products where they are products of all
their pixels: the ResNet-50 that comes with Gemmini does so.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable

from baco.accel.config import Accelerator
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import LoopConvSchedule, LoopWsSchedule
from baco.compiler.styles.macros.loop_conv_check import downsamples
from baco.compiler.styles.macros.loop_ws import as_product

#: Batch, pooled rows, pooled columns, output channels, kernel rows, kernel columns, input channels.
ConvTile = tuple[int, int, int, int, int, int, int]
_COLUMNS, _OUT, _IN = 2, 3, 6


def gemmini_schedule(
    layer: Layer, accelerator: Accelerator, *, pointwise_products: bool = True
) -> LoopWsSchedule | LoopConvSchedule:
    """Tiles, order and operands kept as the library's drivers take them, for every group in turn.

    Args:
        pointwise_products: windows of one pixel without stride, padding or pooling are matrix products, as in the
            ResNet-50 that comes with Gemmini; as convolutions they take up to three times as long.

    Whether the macros can express the layer is for lowering to say.
    """
    p = layer.problem
    product = as_product(layer)
    if product is not None and (layer.is_product or pointwise_products):
        rows, columns, depth = product.rows, product.columns, product.depth
        i, j, k = gemmini_matmul_tile(accelerator, rows, columns, depth)
        blocks = [-(-size // accelerator.dim) for size in (rows, columns, depth)]
        trips_i, trips_j, trips_k = (-(-n // t) for n, t in zip(blocks, (i, j, k), strict=True))
        return LoopWsSchedule(i, j, k, "ijk", keep_a=trips_i * trips_k <= 2, keep_b=trips_j * trips_k <= 2)
    tile = gemmini_conv_tile(layer, accelerator)
    sizes = _sizes(layer)
    trips = [-(-size // part) for size, part in zip(sizes, tile, strict=True)]
    reduction = math.prod(trips[4:])
    down = downsamples(layer)
    packs = (
        accelerator.features.first_layer
        and not layer.real
        and tile[_IN] <= accelerator.dim
        and not down
        and p.dilation_w == 1
    )
    return LoopConvSchedule(
        *tile,
        order="nqpksrc",
        pixels=min(tile[5], max(1, accelerator.dim // tile[_IN])) if packs else 1,
        downsample=down,
        keep_input=reduction * math.prod(trips[:3]) <= 2,
        keep_weights=reduction * trips[_OUT] <= 2,
    )


def gemmini_paths(layer: Layer, accelerator: Accelerator) -> list[LoopWsSchedule | LoopConvSchedule]:
    """What the library would do on each of its paths that the layer can take: of two, a programmer takes the better."""
    paths = [gemmini_schedule(layer, accelerator, pointwise_products=products) for products in (True, False)]
    return paths if paths[0] != paths[1] else paths[:1]


def gemmini_matmul_tile(
    accelerator: Accelerator, rows: int, columns: int, depth: int
) -> tuple[int, int, int]:
    """Blocks I, J, K of a weight-stationary LOOP_WS (section 13.1).

    I and J begin at the square root of the blocks in half the accumulator, K at what half of half the scratchpad
    holds of such a tile's A; then J, I and K grow in turn while the tile fits.
    """
    dim = accelerator.dim
    half_sp, half_acc = accelerator.scratchpad_rows // 2, accelerator.accumulator_rows // 2
    bounds = [-(-size // dim) for size in (rows, columns, depth)]
    side = max(1, math.isqrt(half_acc // dim))
    inner = max(1, half_sp // 2 // dim // side)
    tile = [min(bounds[0], side), min(bounds[1], side), min(bounds[2], inner)]

    def fits(i: int, j: int, k: int) -> bool:
        return (i * k + k * j) * dim <= half_sp and i * j * dim <= half_acc

    _grow(tile, bounds, (1, 0, 2), lambda larger: fits(*larger))
    return tile[0], tile[1], tile[2]


def gemmini_conv_tile(layer: Layer, accelerator: Accelerator) -> ConvTile:
    """Sizes of a LOOP_CONV_WS tile (section 13.3): the largest size shrinks until the tile fits, then all grow."""
    p, dim = layer.problem, accelerator.dim
    pool = layer.pooling
    pool_stride, pool_size = (pool.stride, pool.size) if pool else (1, 1)
    half_sp, half_acc = accelerator.scratchpad_rows // 2, accelerator.accumulator_rows // 2
    down = int(downsamples(layer))
    bounds = _sizes(layer)

    def fits(sizes: list[int]) -> bool:
        batch, rows, columns, out, kernel_rows, kernel_columns, depth = sizes
        orows, ocols = rows * pool_stride + pool_size - 1, columns * pool_stride + pool_size - 1
        irows = orows * p.stride_h + (kernel_rows - 1) * p.dilation_h
        icols = ocols * p.stride_w + (kernel_columns - 1) * p.dilation_w
        inputs = -(-depth // dim) * batch * (irows >> down) * (icols >> down)
        weights = -(-out // dim) * kernel_rows * kernel_columns * depth
        return inputs + weights <= half_sp and -(-out // dim) * batch * orows * ocols <= half_acc

    def limited(level: int) -> list[int]:
        """No axis above the level, channels in whole blocks."""
        return [
            size if size <= level else level // dim * dim if axis in (_OUT, _IN) else level
            for axis, size in enumerate(bounds)
        ]

    # Since the largest axis shrinks, the tile passes through `limited` of every level; those down to a block's side that
    # do not fit can be skipped.
    levels = range(dim, max(bounds) + 1)
    tile = limited(dim + bisect.bisect_left(levels, True, key=lambda level: not fits(limited(level))))
    while not fits(tile):
        candidates = [
            0 if axis == _COLUMNS and size <= dim and tile[1] > 1 else size for axis, size in enumerate(tile)
        ]
        largest = candidates.index(max(candidates))
        if tile[largest] == 1:
            break  # not even the smallest tile fits; lowering says so
        if largest in (_OUT, _IN):
            below = tile[largest] % dim or dim
            tile[largest] = max(1, tile[largest] - below)
        else:
            tile[largest] -= 1
    _grow(tile, bounds, (_COLUMNS,), fits)
    _grow(tile, bounds, range(7), fits)
    batch, rows, columns, out, kernel_rows, kernel_columns, depth = tile
    return batch, rows, columns, out, kernel_rows, kernel_columns, depth


def _sizes(layer: Layer) -> ConvTile:
    p, pool = layer.problem, layer.pooling
    rows, columns = (pool.rows, pool.columns) if pool else (p.Q, p.P)
    return p.N, rows, columns, p.K, p.S, p.R, p.C


def _grow(
    tile: list[int],
    bounds: list[int] | ConvTile,
    axes: range | tuple[int, ...],
    fits: Callable[[list[int]], bool],
) -> None:
    """Sweep over the axes, one more of each that fits and is in bounds, until nothing changes."""
    changed = True
    while changed:
        changed = False
        for axis in axes:
            larger = list(tile)
            larger[axis] += 1
            if larger[axis] <= bounds[axis] and fits(larger):
                tile[:] = larger
                changed = True
