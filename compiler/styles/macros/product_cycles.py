"""Cycles of LOOP_WS in closed form, as `baco.compiler.styles.macros.cycles` has them."""

from __future__ import annotations

from dataclasses import dataclass

from baco.compiler.analysis.arrays import Arrays, Values
from baco.compiler.analysis.traffic import MachineRates, Moved, loaded, store_bytes, stored
from baco.compiler.styles.macros.runs import (
    CONSTANTS,
    MacroConstants,
    MacroCycles,
    MacroLayer,
    MacroWork,
    block_cycles,
    overlapped,
    parts,
    shortest_pass,
    tiles_loaded,
)


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
    layer: MacroLayer,
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

    per_block, trips_i = parts(a, layer.pixels, tile.rows, block)
    blocks_i, _ = parts(a, layer.pixels, tile.rows, in_blocks)
    blocks_j, trips_j = parts(a, layer.channels, tile.columns, in_blocks)
    blocks_k, trips_k = parts(a, layer.depth, tile.depth, in_blocks)

    j_outside = tile.columns_outside > 0.5
    one = layer.pixels * 0.0 + 1.0
    times_a, times_b = _times_loaded(a, tile, trips_i, trips_j, trips_k)
    load_a, load_b = operands_loaded(a, machine, layer, tile, times_a, times_b)

    # a loop over the depth with others inside leaves sums in main memory, and brings them back
    inside = a.where(j_outside, trips_i, trips_j)
    spills = (trips_k > 1.5) & (
        ((tile.depth_outside > 0.5) & (inside > 1.5))
        | ((tile.depth_outside > 1.5) & (trips_i * trips_j > 1.5))
    )
    again = a.where(spills, trips_k - 1.0, 0.0 * one)
    sums_pitch = a.where(layer.raw > 0.5, layer.output_pitch, layer.channels)
    addends = _addends(a, machine, layer, tile, blocks_i, blocks_j) + (
        tiles_loaded(a, machine, layer.pixels, layer.channels, tile.columns, sums_pitch, element=4.0) * again
    )

    written, store_rows = stores_of_product(a, machine, layer, tile, sums_pitch, blocks_j, again)

    runs = trips_i * trips_j * trips_k
    outer = trips_i * trips_j * (1.0 + again)
    wide = a.larger(machine.request / layer.element_size, dim)
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


def _addends(
    a: Arrays, machine: MachineRates, layer: MacroLayer, tile: ProductTile, blocks_i: Values, blocks_j: Values
) -> Moved:
    """What the accumulator is filled with before sums: bias and residual, of all blocks of results."""
    bias_bytes = layer.bias * blocks_i * layer.channels * 4.0
    bias = Moved(
        bias_bytes / a.smaller(machine.bandwidth, machine.beat),
        layer.bias * layer.pixels * blocks_j,
        bias_bytes,
    )
    shape = layer.pixels, layer.channels
    residual = tiles_loaded(a, machine, *shape, tile.columns, layer.output_pitch, layer.element_size)
    once = layer.pixels * 0.0 + 1.0
    residual = loaded(a, machine, residual, once, *shape, layer.output_pitch, tile.columns)
    both: Moved = bias + residual.scaled(machine) * layer.residual
    return both


def _times_loaded(
    a: Arrays, tile: ProductTile, trips_i: Values, trips_j: Values, trips_k: Values
) -> tuple[Values, Values]:
    """How often each operand is loaded: what fits twice between its uses stays (`baco.compiler.styles.macros.reuse`)."""
    j_outside, one = tile.columns_outside > 0.5, trips_i * 0.0 + 1.0
    k_in_j = a.where(j_outside, tile.depth_outside < 1.5, tile.depth_outside < 0.5)
    k_in_i = a.where(j_outside, tile.depth_outside < 0.5, tile.depth_outside < 1.5)
    between_a = a.where(j_outside, trips_i, one) * a.where(k_in_j, trips_k, one)
    between_b = a.where(j_outside, one, trips_j) * a.where(k_in_i, trips_k, one)
    times_a = a.where((tile.keep_a > 0.5) & (between_a < 2.5), one, trips_j)
    return times_a, a.where((tile.keep_b > 0.5) & (between_b < 2.5), one, trips_i)


def operands_loaded(
    a: Arrays, machine: MachineRates, layer: MacroLayer, tile: ProductTile, times_a: Values, times_b: Values
) -> tuple[Moved, Moved]:
    """Loads of both operands, each so often."""
    turned = layer.transposed > 0.5
    weight_rows = a.where(turned, layer.channels, layer.depth)
    weight_columns = a.where(turned, layer.depth, layer.channels)
    weight_tile = a.where(turned, tile.depth, tile.columns)
    element = layer.element_size
    load_a = tiles_loaded(a, machine, layer.pixels, layer.depth, tile.depth, layer.input_pitch, element)
    load_a = loaded(a, machine, load_a, times_a, layer.pixels, layer.depth, layer.input_pitch, tile.depth)
    load_b = tiles_loaded(
        a, machine, weight_rows, weight_columns, weight_tile, layer.weight_pitch, layer.weight_size
    )
    load_b = loaded(a, machine, load_b, times_b, weight_rows, weight_columns, layer.weight_pitch, weight_tile)
    return load_a, load_b


def stores_of_product(
    a: Arrays,
    machine: MachineRates,
    layer: MacroLayer,
    tile: ProductTile,
    sums_pitch: Values,
    blocks_j: Values,
    again: Values,
) -> tuple[Values, Values]:
    """Cycles of the channel and of the store unit; `again`: how often sums leave beside results, in rows of `sums_pitch`."""
    dim = machine.dim

    def bytes_stored(pitch: Values, element: Values, piece: Values) -> Values:
        total, _ = parts(
            a, layer.channels, tile.columns,
            lambda n: store_bytes(a, machine, layer.pixels, n, pitch, piece=piece, element=element),
        )  # fmt: skip
        return total

    piece = a.where(layer.raw > 0.5, dim, a.larger(machine.request / layer.element_size, dim))
    size = layer.result_size
    written = bytes_stored(layer.output_pitch, size, piece) + bytes_stored(sums_pitch, 4.0, dim) * again
    # wide rows of sums take the port several cycles
    results = layer.pixels * layer.channels * (layer.result_size + 4.0 * again)
    store_rows = a.larger(
        layer.pixels * blocks_j * (machine.store_pace(layer.raw) + again * machine.profile.store_pace),
        results / machine.beat,
    )
    store_rows = stored(
        a, machine, store_rows, layer.pixels, layer.channels, layer.output_pitch,
        piece=a.smaller(piece, tile.columns), element=size, shift=tile.columns,
        running=1.0 - layer.bias - layer.residual,
    )  # fmt: skip
    return written, store_rows
