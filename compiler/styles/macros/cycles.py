"""Cycles of the loop macros in closed form, over arrays of any kind.

A run of a macro loads the operands of a tile, sends them through the array, and stores what is complete; two runs are
under way at a time, so that in the long run each costs the longest of what its resources need: passes of the array, the
load unit, the channel of main memory, the store unit, the host. Sums over all tiles along an axis are exact, the last,
smaller one included, since all that is summed up is a product of functions of single axes; a run is then taken to be the
mean of all.

Flags are numbers, 1 or 0; sizes and pitches are in elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from baco.compiler.analysis.arrays import Arrays, Values
from baco.compiler.analysis.traffic import MachineRates, Moved, loaded, store_bytes, stored
from baco.compiler.styles.macros.product_cycles import ProductTile, product_macro
from baco.compiler.styles.macros.runs import (
    CONSTANTS,
    MacroConstants,
    MacroCycles,
    MacroLayer,
    MacroWork,
    bias_loaded,
    block_cycles,
    overlapped,
    parts,
    shortest_pass,
    sign,
    tiles_loaded,
)
from baco.compiler.styles.macros.tile_rows import ConvExtents

__all__ = [
    "CONSTANTS",
    "ConvTile",
    "MacroConstants",
    "MacroCycles",
    "MacroLayer",
    "ProductTile",
    "conv_macro",
    "macro_runs",
    "product_macro",
]


#: How much of an entry of the reservation station a load of zeros keeps from others.
_ZEROS = 0.25


# -------------------------------------------------------------------- LOOP_CONV_WS


@dataclass(frozen=True)
class ConvTile(ConvExtents):
    """A full tile, at most the layer, of results that are stored.

    Attributes:
        input_loads, weight_loads: how often each operand is loaded over the loops that do not choose its tile: over
            channels, over images, rows and columns.
        pixels: of the window that a row of the array holds.
        downsample: the macro's mode.
    """

    input_loads: Values
    weight_loads: Values
    pixels: Values
    downsample: Values


def conv_macro(
    a: Arrays,
    machine: MachineRates,
    layer: MacroLayer,
    tile: ConvTile,
    constants: MacroConstants | None = None,
) -> MacroCycles:
    """Cycles of LOOP_CONV_WS over all groups, the loops that sum innermost; constants as for `product_macro`."""
    dim, constants = machine.dim, constants or CONSTANTS[machine.timing]

    def in_blocks(size: Values) -> Values:
        return a.up(size / dim)

    trips_n = a.up(layer.images / tile.images)
    rows, trips_q = unpooled(a, layer, layer.rows, tile.rows, layer.results_down, lambda x: x)
    columns, trips_p = unpooled(a, layer, layer.columns, tile.columns, layer.results_across, lambda x: x)
    chunks, _ = unpooled(a, layer, layer.columns, tile.columns, layer.results_across, in_blocks)
    blocks_k, trips_k = parts(a, layer.channels, tile.channels, in_blocks)
    blocks_c, trips_c = parts(a, layer.depth, tile.depth, in_blocks)
    steps_r, trips_r = parts(a, layer.kernel_columns, tile.kernel_columns, lambda x: a.up(x / tile.pixels))
    trips_s = a.up(layer.kernel_rows / tile.kernel_rows)
    spatial, sums = trips_n * trips_q * trips_p, trips_s * trips_r * trips_c
    outer, runs = spatial * trips_k, spatial * trips_k * sums

    fewer = 1.0 + tile.downsample
    # a block of weights meets all results of a tile, at most `dim` of a line in a pass
    results, passes = layer.images * rows * columns / spatial, layer.images * rows * chunks / spatial
    # the next block enters the array beside the last passes, which is hidden unless they are short
    switch = constants.switch * a.larger(dim - results / passes, 0.0)
    switch = switch + constants.switch_stride * (layer.stride_across - 1.0) / fewer
    block = block_cycles(a, machine, results + switch, passes, shortest_pass(a, machine, constants))
    compute = spatial * blocks_k * blocks_c * layer.kernel_rows * steps_r * block / runs

    down = (rows, trips_q, trips_s)
    inputs = conv_inputs(a, machine, layer, tile, down, (columns, trips_p, trips_r), blocks_c)
    weight_rows = layer.kernel_rows * layer.kernel_columns * layer.depth
    weights = tiles_loaded(
        a, machine, weight_rows, layer.channels, tile.channels, layer.weight_pitch, layer.weight_size,
        command_rows=a.smaller(dim, tile.depth),
    )  # fmt: skip
    weights = loaded(
        a, machine, weights, tile.weight_loads, weight_rows, layer.channels, layer.weight_pitch, tile.channels,
        groups=layer.groups,
    )  # fmt: skip
    # the accumulator is filled with the bias or zeros first, a row a cycle and a row of memory every line
    bias_bytes = layer.bias * passes * layer.channels / trips_k * 4.0
    bias_loads = layer.bias * passes * a.up(tile.channels / a.larger(machine.request / 4.0, dim))
    addends = bias_loaded(a, machine, bias_loads, results * blocks_k / trips_k, bias_bytes)

    written, store_rows = conv_stores(a, machine, layer, tile, blocks_k)
    # all blocks of columns that one load of weights brings are computed after it, one after the other
    blocks = in_blocks(tile.channels)
    together = a.larger(machine.request / (dim * layer.element_size), 1.0)
    tail = compute * (a.smaller(blocks, together) - 1.0) / blocks
    return overlapped(
        a,
        machine,
        MacroWork(
            groups=layer.groups,
            runs=runs,
            outer=outer,
            compute=compute,
            loads=weights * (1.0 / runs),
            kept=inputs * (1.0 / runs),
            addends=addends,
            written=written / outer,
            store_rows=store_rows / outer,
            loading=tile.input_loads / trips_k,
            first=inputs.port * (trips_k / (runs * tile.input_loads)),
            tail=tail,
            fences=0.0 * runs,
        ),
        join=(constants.join_conv, constants.power_conv),
        change=constants.change,
        host=constants.host_conv,
        slot=constants.slot_conv,
        constants=constants,
    )


def conv_inputs(
    a: Arrays,
    machine: MachineRates,
    layer: MacroLayer,
    tile: ConvTile,
    down: tuple[Values, Values, Values],
    across: tuple[Values, Values, Values],
    blocks_c: Values,
) -> Moved:
    """Loads of pixels, zeros of the padding included.

    Args:
        down, across: sum over the tiles of results before pooling, number of tiles, parts of the window, along each axis.
        blocks_c: blocks of input channels.
    """

    def in_blocks(size: Values) -> Values:
        return a.up(size / machine.dim)

    fewer = 1.0 + tile.downsample
    behind_across = (
        (layer.results_across - 1.0) * layer.stride_across
        + (layer.kernel_columns - 1.0) * layer.dilation_across
        + 1.0
        - layer.left
        - layer.width
    )
    (rows, trips_q, trips_s), (columns, trips_p, trips_r) = down, across
    heights, inside_down = _window(
        a, (rows, trips_q, layer.results_down), (layer.kernel_rows, tile.kernel_rows, trips_s),
        (layer.stride_down, layer.dilation_down), layer.top, layer.height,
    )  # fmt: skip
    widths, inside_across = _window(
        a, (columns, trips_p, layer.results_across), (layer.kernel_columns, tile.kernel_columns, trips_r),
        (layer.stride_across, layer.dilation_across), layer.left, layer.width,
    )  # fmt: skip
    pixels = layer.images * inside_down * inside_across / (fewer * fewer)
    span = a.larger(inside_across / (trips_p * trips_r) / fewer, 1.0)
    command = span / in_blocks(span)
    # zeros of the padding are loads of their own, which wait for their turn among the others
    edges = sign(a, layer.left) + sign(a, behind_across)
    outside = layer.images * (heights - inside_down) / fewer * trips_p * trips_r * in_blocks(span)
    extra = layer.images * inside_down / fewer * trips_r * edges + outside
    inputs = tiles_loaded(
        a, machine, pixels, layer.depth, tile.depth, layer.input_pitch * fewer, layer.element_size, command, 1.0,
        crowd=1.0 + _ZEROS * extra * command / pixels,
    )  # fmt: skip
    # zeros of the padding are written too, and every command ends with the copies of its last pixel
    padding = layer.images * (heights * widths - inside_down * inside_across) / (fewer * fewer) * blocks_c
    copies = pixels * in_blocks(tile.depth) if machine.profile.copies_rows else pixels / command
    inputs = inputs + Moved(0.0, copies * (tile.pixels - 1.0) + padding, 0.0)
    fresh = a.smaller(layer.images * layer.height * layer.width / (pixels * fewer * fewer), 1.0)
    return loaded(
        a,
        machine,
        inputs,
        tile.input_loads,
        pixels,
        layer.depth,
        layer.input_pitch * fewer,
        tile.depth,
        fresh,
        layer.groups,
    )


def conv_stores(
    a: Arrays, machine: MachineRates, layer: MacroLayer, tile: ConvTile, blocks_k: Values
) -> tuple[Values, Values]:
    """Cycles of the channel and of the store unit."""
    dim = machine.dim
    pixels_out = layer.images * layer.rows * layer.columns
    written, _ = parts(
        a, layer.channels, tile.channels,
        lambda k: store_bytes(a, machine, pixels_out, k, layer.output_pitch, piece=dim, element=layer.element_size),
    )  # fmt: skip
    reads = a.where(layer.pool_size > 0.5, layer.pool_size * layer.pool_size, 1.0 + 0.0 * layer.pool_size)
    store_rows = (
        pixels_out
        * blocks_k
        * a.larger(reads * machine.store_pace(0.0), dim * layer.element_size / machine.beat)
    )
    store_rows = stored(
        a, machine, store_rows, pixels_out, layer.channels, layer.output_pitch,
        piece=a.smaller(dim, tile.channels), element=layer.element_size, groups=layer.groups,
        shift=tile.channels,
    )  # fmt: skip
    return written, store_rows


def unpooled(
    a: Arrays,
    layer: MacroLayer,
    whole: Values,
    part: Values,
    extent: Values,
    of: Callable[[Values], Values],
) -> tuple[Values, Values]:
    """Sum over the tiles of a function of the results before pooling along one axis, and the number of tiles."""
    pooled = layer.pool_size > 0.5

    def reach(stored: Values) -> Values:
        return a.where(pooled, (stored - 1.0) * layer.pool_stride + layer.pool_size, stored)

    total, trips = parts(a, whole, part, lambda x: of(reach(x)))
    # windows reach beyond the results on both sides, where there is nothing to compute
    taken, _ = parts(a, whole, part, reach)
    beyond = layer.pool_padding + a.larger(reach(whole) - layer.pool_padding - extent, 0.0)
    return total * (1.0 - a.where(pooled, beyond / taken, 0.0 * taken)), trips


def _window(
    a: Arrays,
    results: tuple[Values, Values, Values],
    kernel: tuple[Values, Values, Values],
    steps: tuple[Values, Values],
    before: Values,
    image: Values,
) -> tuple[Values, Values]:
    """Pixels along one axis that all tiles of results and window take, and those of them inside the image.

    Args:
        results: sum over the tiles, number of tiles, results of the layer.
        kernel: size of the window, of its part in a tile, number of parts.
        steps: stride and dilation.
        before: padding; image: pixels.
    """
    (total, tiles, extent), (window, part, parts), (stride, dilation) = results, kernel, steps
    taken = parts * total * stride + tiles * (window - parts) * dilation
    behind = (extent - 1.0) * stride + (window - 1.0) * dilation - before - image + stride
    lost = 0.0 * taken
    for beyond in (before, a.larger(behind, 0.0)):
        # parts of the window that reach beyond the image, each further by what it is shifted
        shift = part * dilation
        count = a.smaller(parts, a.up(beyond / shift))
        lost = lost + count * beyond - shift * count * (count - 1.0) / 2.0
    return taken, a.larger(taken - lost, 1.0)


# -------------------------------------------------------------------- either


def macro_runs(
    a: Arrays,
    machine: MachineRates,
    layer: MacroLayer,
    tile: ProductTile | ConvTile,
    constants: MacroConstants | None = None,
) -> MacroCycles:
    """Cycles of the macro that a tile is for."""
    if isinstance(tile, ProductTile):
        return product_macro(a, machine, layer, tile, constants)
    return conv_macro(a, machine, layer, tile, constants)
