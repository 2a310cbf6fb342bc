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
from baco.compiler.styles.macros.runs import (
    CONSTANTS,
    MacroConstants,
    MacroCycles,
    MacroWork,
    bias_loaded,
    block_cycles,
    overlapped,
    parts,
    shortest_pass,
    sign,
    tiles_loaded,
)

__all__ = [
    "CONSTANTS",
    "ConvLayer",
    "ConvTile",
    "MacroConstants",
    "MacroCycles",
    "ProductLayer",
    "ProductTile",
    "conv_macro",
    "macro_runs",
    "product_macro",
]


#: How much of an entry of the reservation station a load of zeros keeps from others.
_ZEROS = 0.25


# -------------------------------------------------------------------- LOOP_WS


@dataclass(frozen=True)
class ProductLayer:
    """A matrix product of `groups` groups: rows x depth times depth x columns."""

    rows: Values
    columns: Values
    depth: Values
    groups: Values
    bias: Values
    residual: Values
    raw: Values
    transposed: Values
    input_pitch: Values
    weight_pitch: Values
    output_pitch: Values


@dataclass(frozen=True)
class ProductTile:
    """A full tile, at most the product, and the loops over tiles.

    Attributes:
        columns_outside: whether the loop over columns runs outside that over rows.
        depth_outside: how many of these two run inside the one over the depth.
        keep_a, keep_b: whether an operand stays in the scratchpad where the loops let it.
    """

    rows: Values
    columns: Values
    depth: Values
    columns_outside: Values
    depth_outside: Values
    keep_a: Values
    keep_b: Values


def product_macro(
    a: Arrays,
    machine: MachineRates,
    layer: ProductLayer,
    tile: ProductTile,
    constants: MacroConstants | None = None,
) -> MacroCycles:
    """Cycles of LOOP_WS over all groups; constants are by default those of the machine's timing."""
    dim, constants = machine.dim, constants or CONSTANTS[machine.timing]
    short = shortest_pass(a, machine, constants)

    def block(rows: Values) -> Values:
        return block_cycles(a, machine, rows, a.up(rows / dim), short)

    def in_blocks(size: Values) -> Values:
        return a.up(size / dim)

    per_block, trips_i = parts(a, layer.rows, tile.rows, block)
    blocks_i, _ = parts(a, layer.rows, tile.rows, in_blocks)
    blocks_j, trips_j = parts(a, layer.columns, tile.columns, in_blocks)
    blocks_k, trips_k = parts(a, layer.depth, tile.depth, in_blocks)

    # how often each operand is loaded: what fits twice between its uses stays (`baco.compiler.styles.macros.reuse`)
    j_outside = tile.columns_outside > 0.5
    one = layer.rows * 0.0 + 1.0
    k_in_j = a.where(j_outside, tile.depth_outside < 1.5, tile.depth_outside < 0.5)
    k_in_i = a.where(j_outside, tile.depth_outside < 0.5, tile.depth_outside < 1.5)
    between_a = a.where(j_outside, trips_i, one) * a.where(k_in_j, trips_k, one)
    between_b = a.where(j_outside, one, trips_j) * a.where(k_in_i, trips_k, one)
    times_a = a.where((tile.keep_a > 0.5) & (between_a < 2.5), one, trips_j)
    times_b = a.where((tile.keep_b > 0.5) & (between_b < 2.5), one, trips_i)
    turned = layer.transposed > 0.5
    weight_rows = a.where(turned, layer.columns, layer.depth)
    weight_columns = a.where(turned, layer.depth, layer.columns)
    weight_tile = a.where(turned, tile.depth, tile.columns)
    load_a = tiles_loaded(a, machine, layer.rows, layer.depth, tile.depth, layer.input_pitch)
    load_a = loaded(a, machine, load_a, times_a, layer.rows, layer.depth, layer.input_pitch, tile.depth)
    load_b = tiles_loaded(a, machine, weight_rows, weight_columns, weight_tile, layer.weight_pitch)
    load_b = loaded(a, machine, load_b, times_b, weight_rows, weight_columns, layer.weight_pitch, weight_tile)

    # a loop over the depth with others inside leaves sums in main memory, and brings them back
    inside = a.where(j_outside, trips_i, trips_j)
    spills = (trips_k > 1.5) & (
        ((tile.depth_outside > 0.5) & (inside > 1.5))
        | ((tile.depth_outside > 1.5) & (trips_i * trips_j > 1.5))
    )
    again = a.where(spills, trips_k - 1.0, 0.0 * one)
    sums_pitch = a.where(layer.raw > 0.5, layer.output_pitch, layer.columns)
    bias_bytes = layer.bias * blocks_i * layer.columns * 4.0
    addends = Moved(bias_bytes / machine.bandwidth, layer.bias * layer.rows * blocks_j, bias_bytes)
    addends = addends + (
        tiles_loaded(a, machine, layer.rows, layer.columns, tile.columns, layer.output_pitch) * layer.residual
    )
    addends = addends + (
        tiles_loaded(a, machine, layer.rows, layer.columns, tile.columns, sums_pitch, element=4.0) * again
    )

    def bytes_stored(pitch: Values, element: Values, piece: Values) -> Values:
        total, _ = parts(
            a, layer.columns, tile.columns,
            lambda n: store_bytes(a, machine, layer.rows, n, pitch, piece=piece, element=element),
        )  # fmt: skip
        return total

    piece = a.where(layer.raw > 0.5, dim, a.larger(machine.request, dim))
    size = 1.0 + 3.0 * layer.raw
    written = bytes_stored(layer.output_pitch, size, piece) + bytes_stored(sums_pitch, 4.0, dim) * again
    # wide rows of sums take the port several cycles
    results = layer.rows * layer.columns * (1.0 + 3.0 * layer.raw + 4.0 * again)
    store_rows = a.larger(
        layer.rows * blocks_j * (1.0 + again) * machine.profile.store_pace, results / machine.beat
    )
    store_rows = stored(
        a, machine, store_rows, layer.rows, layer.columns, layer.output_pitch,
        piece=a.smaller(piece, tile.columns), element=size,
    )  # fmt: skip

    runs = trips_i * trips_j * trips_k
    outer = trips_i * trips_j * (1.0 + again)
    wide = a.larger(machine.request, dim)
    first = a.smaller(dim, tile.rows) * a.smaller(wide, tile.depth)
    first = first + a.smaller(dim, tile.depth) * a.smaller(wide, tile.columns)
    fences = a.where(tile.depth_outside > 1.5, one, a.where(j_outside, trips_j, trips_i)) * trips_k
    return overlapped(
        a,
        machine,
        MacroWork(
            groups=layer.groups,
            runs=runs,
            outer=outer,
            compute=per_block * blocks_j * blocks_k / runs,
            loads=load_b * (1.0 / runs),
            kept=load_a * (1.0 / runs),
            addends=addends * (1.0 / outer),
            written=written / outer,
            store_rows=store_rows / outer,
            # A goes on to be loaded beside the passes where the depth takes several loads
            loading=a.where(tile.depth > wide, one, times_a / trips_j),
            first=first / a.smaller(machine.bandwidth, machine.beat),
            tail=0.0 * one,
            fences=a.where(spills, fences, 0.0 * one),
            drains=True,
        ),
        join=(constants.join_ws, constants.power_ws),
        change=0.0,
        host=constants.host_ws,
        slot=constants.slot_ws,
        constants=constants,
    )


# -------------------------------------------------------------------- LOOP_CONV_WS


@dataclass(frozen=True)
class ConvLayer:
    """A convolution.

    Attributes:
        images, rows, columns, channels: of the results that are stored, pooled or not.
        kernel_rows, kernel_columns, depth: of the window.
        results_down, results_across: rows and columns of the results before pooling.
        height, width, top, left: of the stored image, and the padding above and left of it.
        pool_size, pool_stride, pool_padding: 0 without pooling.
    """

    images: Values
    rows: Values
    columns: Values
    channels: Values
    kernel_rows: Values
    kernel_columns: Values
    depth: Values
    groups: Values
    results_down: Values
    results_across: Values
    stride_down: Values
    stride_across: Values
    dilation_down: Values
    dilation_across: Values
    height: Values
    width: Values
    top: Values
    left: Values
    bias: Values
    pool_size: Values
    pool_stride: Values
    pool_padding: Values
    input_pitch: Values
    weight_pitch: Values
    output_pitch: Values


@dataclass(frozen=True)
class ConvTile:
    """A full tile, at most the layer.

    Attributes:
        input_loads, weight_loads: how often each operand is loaded over the loops that do not choose its tile: over
            channels, over images, rows and columns.
        pixels: of the window that a row of the array holds.
        downsample: the macro's mode.
    """

    images: Values
    rows: Values
    columns: Values
    channels: Values
    kernel_rows: Values
    kernel_columns: Values
    depth: Values
    input_loads: Values
    weight_loads: Values
    pixels: Values
    downsample: Values


def conv_macro(
    a: Arrays,
    machine: MachineRates,
    layer: ConvLayer,
    tile: ConvTile,
    constants: MacroConstants | None = None,
) -> MacroCycles:
    """Cycles of LOOP_CONV_WS over all groups, the loops that sum innermost; constants as for `product_macro`."""
    dim, constants = machine.dim, constants or CONSTANTS[machine.timing]

    def in_blocks(size: Values) -> Values:
        return a.up(size / dim)

    trips_n = a.up(layer.images / tile.images)
    rows, trips_q = _unpooled(a, layer, layer.rows, tile.rows, layer.results_down, lambda x: x)
    columns, trips_p = _unpooled(a, layer, layer.columns, tile.columns, layer.results_across, lambda x: x)
    chunks, _ = _unpooled(a, layer, layer.columns, tile.columns, layer.results_across, in_blocks)
    blocks_k, trips_k = parts(a, layer.channels, tile.channels, in_blocks)
    blocks_c, trips_c = parts(a, layer.depth, tile.depth, in_blocks)
    steps_r, trips_r = parts(a, layer.kernel_columns, tile.kernel_columns, lambda x: a.up(x / tile.pixels))
    trips_s = a.up(layer.kernel_rows / tile.kernel_rows)
    spatial, sums = trips_n * trips_q * trips_p, trips_s * trips_r * trips_c
    outer, runs = spatial * trips_k, spatial * trips_k * sums

    fewer = 1.0 + tile.downsample
    behind_across = (
        (layer.results_across - 1.0) * layer.stride_across
        + (layer.kernel_columns - 1.0) * layer.dilation_across
        + 1.0
        - layer.left
        - layer.width
    )
    # a block of weights meets all results of a tile, at most `dim` of a line in a pass
    results, passes = layer.images * rows * columns / spatial, layer.images * rows * chunks / spatial
    # the next block enters the array beside the last passes, which is hidden unless they are short
    switch = constants.switch * a.larger(dim - results / passes, 0.0)
    switch = switch + constants.switch_stride * (layer.stride_across - 1.0) / fewer
    block = block_cycles(a, machine, results + switch, passes, shortest_pass(a, machine, constants))
    compute = spatial * blocks_k * blocks_c * layer.kernel_rows * steps_r * block / runs

    down = (layer.stride_down, layer.dilation_down)
    across = (layer.stride_across, layer.dilation_across)
    heights, inside_down = _window(
        a, (rows, trips_q, layer.results_down), (layer.kernel_rows, tile.kernel_rows, trips_s), down, layer.top, layer.height
    )  # fmt: skip
    widths, inside_across = _window(
        a, (columns, trips_p, layer.results_across), (layer.kernel_columns, tile.kernel_columns, trips_r), across,
        layer.left, layer.width,
    )  # fmt: skip
    pixels = layer.images * inside_down * inside_across / (fewer * fewer)
    span = a.larger(inside_across / (trips_p * trips_r) / fewer, 1.0)
    command = span / in_blocks(span)
    # zeros of the padding are loads of their own, which wait for their turn among the others
    edges = sign(a, layer.left) + sign(a, behind_across)
    outside = layer.images * (heights - inside_down) / fewer * trips_p * trips_r * in_blocks(span)
    extra = layer.images * inside_down / fewer * trips_r * edges + outside
    inputs = tiles_loaded(
        a, machine, pixels, layer.depth, tile.depth, layer.input_pitch * fewer, command_rows=command, between=1.0,
        crowd=1.0 + _ZEROS * extra * command / pixels,
    )  # fmt: skip
    # zeros of the padding are written too, and every command ends with the copies of its last pixel
    padding = layer.images * (heights * widths - inside_down * inside_across) / (fewer * fewer) * blocks_c
    copies = pixels * in_blocks(tile.depth) if machine.profile.copies_rows else pixels / command
    inputs = inputs + Moved(0.0, copies * (tile.pixels - 1.0) + padding, 0.0)
    fresh = a.smaller(layer.images * layer.height * layer.width / (pixels * fewer * fewer), 1.0)
    inputs = loaded(
        a,
        machine,
        inputs,
        tile.input_loads,
        pixels,
        layer.depth,
        layer.input_pitch * fewer,
        tile.depth,
        fresh,
    )
    weight_rows = layer.kernel_rows * layer.kernel_columns * layer.depth
    weights = tiles_loaded(
        a, machine, weight_rows, layer.channels, tile.channels, layer.weight_pitch,
        command_rows=a.smaller(dim, tile.depth),
    )  # fmt: skip
    weights = loaded(
        a, machine, weights, tile.weight_loads, weight_rows, layer.channels, layer.weight_pitch, tile.channels
    )
    # the accumulator is filled with the bias or zeros first, a row a cycle and a row of memory every line
    bias_bytes = layer.bias * passes * layer.channels / trips_k * 4.0
    bias_loads = layer.bias * passes * a.up(tile.channels / a.larger(machine.request / 4.0, dim))
    addends = bias_loaded(a, machine, bias_loads, results * blocks_k / trips_k, bias_bytes)

    pixels_out = layer.images * layer.rows * layer.columns
    written, _ = parts(
        a, layer.channels, tile.channels,
        lambda k: store_bytes(a, machine, pixels_out, k, layer.output_pitch, piece=dim, element=1.0),
    )  # fmt: skip
    reads = a.where(layer.pool_size > 0.5, layer.pool_size * layer.pool_size, 1.0 + 0.0 * layer.pool_size)
    store_rows = pixels_out * blocks_k * a.larger(reads * machine.profile.store_pace, dim / machine.beat)
    store_rows = stored(
        a, machine, store_rows, pixels_out, layer.channels, layer.output_pitch,
        piece=a.smaller(dim, tile.channels), element=1.0,
    )  # fmt: skip
    # all blocks of columns that one load of weights brings are computed after it, one after the other
    blocks = in_blocks(tile.channels)
    tail = compute * (a.smaller(blocks, a.larger(machine.request / dim, 1.0)) - 1.0) / blocks
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


def _unpooled(
    a: Arrays,
    layer: ConvLayer,
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
    layer: ProductLayer | ConvLayer,
    tile: ProductTile | ConvTile,
    constants: MacroConstants | None = None,
) -> MacroCycles:
    """Cycles of the macro that a layer is for."""
    if isinstance(layer, ProductLayer):
        assert isinstance(tile, ProductTile)
        return product_macro(a, machine, layer, tile, constants)
    assert isinstance(tile, ConvTile)
    return conv_macro(a, machine, layer, tile, constants)
