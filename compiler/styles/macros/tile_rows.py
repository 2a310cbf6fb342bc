"""What a tile of a loop macro takes of the local memories, and the steps and windows that decide it, over arrays of any kind.

Plans of one schedule ask with Python's integers (`INTEGERS`), searches with numpy's (`INTEGER_ARRAYS`), differentiable models
with tensors.
"""

from __future__ import annotations

from dataclasses import dataclass

from baco.compiler.analysis.arrays import CountArrays, Values

#: Sizes that differ by less are the same: tensors need not be whole.
_NEAR = 1e-3


@dataclass(frozen=True)
class ConvExtents:
    """Extents of a tile of a convolution.

    Attributes:
        images, rows, columns, channels: of its results.
        kernel_rows, kernel_columns: of its window.
        depth: channels of its input.
    """

    images: Values
    rows: Values
    columns: Values
    channels: Values
    kernel_rows: Values
    kernel_columns: Values
    depth: Values


def product_tile_rows(i: Values, j: Values, k: Values, dim: Values) -> tuple[Values, Values, Values]:
    """Rows that weights, inputs and results of a tile of LOOP_WS take, of so many blocks of `dim` rows, columns, depth."""
    return k * j * dim, i * k * dim, i * j * dim


def conv_tile_rows(
    tile: ConvExtents, stride: Values, dilation: Values, downsample: Values, dim: Values
) -> tuple[Values, Values, Values]:
    """Rows that weights, inputs and results of a tile of LOOP_CONV_WS take: whole numbers; `downsample` is 0 or 1, results of the tile are
    those before pooling."""
    height = (tile.rows * stride + (tile.kernel_rows - 1) * dilation) >> downsample
    width = (tile.columns * stride + (tile.kernel_columns - 1) * dilation) >> downsample
    blocks = -(-tile.channels // dim)
    return (
        blocks * tile.kernel_rows * tile.kernel_columns * tile.depth,
        -(-tile.depth // dim) * tile.images * height * width,
        blocks * tile.images * tile.rows * tile.columns,
    )


def one_step(
    a: CountArrays, down: Values, across: Values, rows: Values, columns: Values
) -> tuple[Values, Values]:
    """The one stride or dilation that LOOP_CONV_WS has for both directions, in tiles of so many rows and columns, and whether
    there is one: the layer's agree, or one is not used."""
    used = a.where((columns > 1) | (rows == 1), across, down)
    return a.where(down == across, down, used), (down == across) | (rows == 1) | (columns == 1)


def pooled_results(
    a: CountArrays, tile: Values, trips: Values, extent: Values, pool: tuple[Values, Values, Values]
) -> Values:
    """Stored results of a tile along one axis.

    Tiles of pooled results overlap by part of a window: rather larger tiles than more of them.

    Args:
        tile, trips: results before pooling of a tile, and tiles, as a mapping has them.
        extent: results before pooling of the layer.
        pool: size and stride of windows, and how many there are.
    """
    size, stride, stored = pool
    # more than one: the last window of the first tile reaches the last result
    even = a.pieces(stored, trips)
    inside = a.smaller(a.at_least(a.fitting(tile - size, a.at_least(stride, 1)) + 1, 1), stored)
    inside = a.where(a.pieces(stored, inside) <= trips + _NEAR, inside, even)
    return a.at_least(a.where(tile >= extent - _NEAR, even, inside), 1)


def pooled_reach(a: CountArrays, stored: Values, extent: Values, size: Values, stride: Values) -> Values:
    """Most results before pooling along one axis, of `extent`, that a tile of `stored` ones needs."""
    return a.smaller((stored - 1) * stride + size, extent)
