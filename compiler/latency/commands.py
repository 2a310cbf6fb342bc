"""Commands, rows and bytes of explicit code: how often the loops of `baco.compiler.styles.explicit` issue what.

Every count is exact for whole factors unless its description says otherwise: sums over all visits, partial tiles
included.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from baco.compiler.latency.tiling import (
    LOOP,
    PIXELS,
    REDUCTION,
    RELEVANT_I,
    RELEVANT_W,
    C,
    K,
    N,
    P,
    Q,
    R,
    S,
    Tiling,
    uneven,
)

_INT32 = 4.0
#: Largest operand stride of a pass (`explicit_plan.LARGEST_STRIDE`) never binds tiles that fit a scratchpad of less
#: than 65536 rows, so it is left out here.


@dataclass(frozen=True)
class Commands:
    """What explicit code issues, (B,) each, all groups included.

    Attributes:
        visits: visits of tiles.
        blocks: blocks begun.
        tiles: tiles of results, each counted as often as it comes to the accumulator.
        passes: preloads, and as many computes.
        weight_blocks: weight-stationary: blocks of weights shifted into the array, visits of a block counted again;
            output-stationary: chains of sums begun. The computes that are `compute_preloaded`.
        runs: runs of result rows that passes cut in pieces of the array's side.
        uneven_runs: those of mappings whose tiles at the edge have other runs.
        tile_columns, window_rows, window_positions: steps of the loops over column blocks of tiles, over rows and over
            positions of the window; os_chunks: those over pieces of runs, output-stationary.
        waves: cycles in which a row enters the array.
        weight_loads, input_loads: loads of weights (mvin2), of inputs (mvin).
        zero_loads: loads of zeros (mvin too); those at the left and right edges of an image are estimated.
        bias_loads, residual_loads, sum_loads: loads to the accumulator (mvin3).
        stores, sum_stores: mvouts of results and of partial sums.
        weight_runs, input_runs, result_runs: entries of the innermost loops of these moves; of results, as often as a
            tile is moved once.
        fences: waits for partial sums on their way through memory.
        weight_fills, input_fills: blocks of W and I brought.
        weight_rows, input_rows: local rows that loads write, by column blocks of the array's side; zeros included.
        weight_spans, input_spans: rows in memory that loads fetch.
        weight_bytes, input_bytes: useful bytes of them.
        result_rows: local rows of results, once for each time they leave the accumulator.
        result_spans: rows in memory that stores of results write (pooled ones: pooled).
        result_columns: mean columns of a row of results.
    """

    visits: Tensor
    blocks: Tensor
    tiles: Tensor
    passes: Tensor
    weight_blocks: Tensor
    runs: Tensor
    uneven_runs: Tensor
    tile_columns: Tensor
    window_rows: Tensor
    window_positions: Tensor
    os_chunks: Tensor
    waves: Tensor
    weight_loads: Tensor
    input_loads: Tensor
    zero_loads: Tensor
    bias_loads: Tensor
    residual_loads: Tensor
    sum_loads: Tensor
    stores: Tensor
    sum_stores: Tensor
    weight_runs: Tensor
    input_runs: Tensor
    result_runs: Tensor
    fences: Tensor
    weight_fills: Tensor
    input_fills: Tensor
    weight_rows: Tensor
    input_rows: Tensor
    weight_spans: Tensor
    input_spans: Tensor
    weight_bytes: Tensor
    input_bytes: Tensor
    result_rows: Tensor
    result_spans: Tensor
    result_columns: Tensor

    def stacked(self) -> Tensor:
        """All fields as one (35, B) tensor."""
        return torch.stack([getattr(self, f.name) for f in fields(self)])


def count_commands(tiling: Tiling) -> Commands:
    """Counts of a batch, in all groups."""
    t, layer = tiling, tiling.layer
    groups = layer.problem.groups * torch.ones_like(t.bounds[0])
    dim, up = t.hardware.dim, t.rounding
    by_dim = up.chunks(dim)

    # ---- visits
    tile_counts = {d: t.counted(d) for d in (K, P, Q, N)}
    pixel_tiles = tile_counts[P] * tile_counts[Q] * tile_counts[N]
    tiles = groups * pixel_tiles * tile_counts[K]
    reduction_blocks = t.steps[R] * t.steps[S] * t.steps[C]
    visits = tiles * reduction_blocks
    leaves = _times_left(t, tile_counts)

    # ---- passes
    columns = t.over_tiles(K, by_dim)
    depth_blocks = t.over_blocks(C, up.chunks(t.hardware.depth))
    window = t.bounds[R] * t.bounds[S]
    chunks, runs, runs_differ = _runs(t)
    steps = groups * columns * window * depth_blocks
    passes = steps * chunks
    all_runs = torch.where(t.os, passes, steps * runs)
    chains = groups * columns * chunks * _chains(t)
    weight_blocks = torch.where(t.os, chains, steps * pixel_tiles)
    pixels = t.bounds[P] * t.bounds[Q] * t.bounds[N]
    # what the loops over the window are in: weight-stationary they are outside those over pixels
    around = groups * columns * torch.where(t.os, chunks, pixel_tiles)
    # a block of weights takes the array's side to shift in; an output-stationary pass takes it whatever it holds
    ws_waves = weight_blocks * torch.maximum(pixels / pixel_tiles, dim)

    # ---- loads of the scratchpad
    weight_fills, weight_loads, weight_spans, weight_rows, weight_runs = _weights(t, groups)
    weight_bytes = groups * t.repeats(RELEVANT_W) * window * t.bounds[C] * t.bounds[K]
    inputs = _inputs(t, groups)

    # ---- results
    moves, result_rows, spans, result_runs = _results(t, groups)
    spilled = leaves - 1
    pooled = layer.pool_size > 0
    results = groups * columns * tile_counts[N] if bool(pooled.any()) else moves
    stores = torch.where(pooled, results, moves)
    pooled_spans = groups * columns * t.bounds[N] * layer.pool_rows * layer.pool_columns
    return Commands(
        visits=visits,
        blocks=groups * t.blocks,
        tiles=tiles * leaves,
        passes=passes,
        weight_blocks=weight_blocks,
        runs=all_runs,
        uneven_runs=torch.where(runs_differ, all_runs, torch.zeros_like(passes)),
        tile_columns=groups * columns * pixel_tiles * reduction_blocks,
        window_rows=around * t.bounds[S] * t.steps[R] * t.steps[C],
        window_positions=around * window * t.steps[C],
        os_chunks=groups * columns * chunks * reduction_blocks,
        waves=torch.where(t.os, passes * dim, ws_waves),
        weight_loads=weight_loads,
        input_loads=inputs[0],
        zero_loads=inputs[1],
        bias_loads=moves * layer.bias,
        residual_loads=moves * layer.residual,
        sum_loads=moves * spilled,
        stores=stores,
        sum_stores=moves * spilled,
        weight_runs=weight_runs,
        input_runs=inputs[5],
        result_runs=result_runs,
        fences=_fences(t, groups),
        weight_fills=weight_fills,
        input_fills=groups * t.repeats(RELEVANT_I) * _steps(t, RELEVANT_I),
        weight_rows=weight_rows,
        input_rows=inputs[2],
        weight_spans=weight_spans,
        input_spans=inputs[3],
        weight_bytes=weight_bytes,
        input_bytes=inputs[4],
        result_rows=result_rows,
        result_spans=torch.where(pooled, pooled_spans, spans),
        result_columns=t.bounds[K] / columns,
    )


def _steps(t: Tiling, dimensions: tuple[int, ...]) -> Tensor:
    product = t.steps[dimensions[0]]
    for d in dimensions[1:]:
        product = product * t.steps[d]
    return product


def _times_left(t: Tiling, counts: dict[int, Tensor]) -> Tensor:
    """How often a tile leaves the accumulator: once for each step of the reduction loops that it is not held for.

    Held it is for the innermost loops over blocks if these are all of the reduction and a block is one tile.
    """
    other = t.rank[[K, P, Q, N]].amin(0)
    inner = torch.stack([t.rounding.up(t.block[d] / t.tile[d]) for d in (K, P, Q, N)])
    single = (inner < LOOP).all(0)
    times = torch.ones_like(other)
    for d in REDUCTION:
        held = single & (t.rank[d] < other)
        times = times * torch.where(held | (t.steps[d] < LOOP), 1.0, t.steps[d])
    return times


def _fences(t: Tiling, groups: Tensor) -> Tensor:
    """Fences before partial sums are read again: at every step of the loops from the outermost to the innermost that
    tiles come back in."""
    other = t.rank[[K, P, Q, N]].amin(0)
    inner = torch.stack([t.rounding.up(t.block[d] / t.tile[d]) for d in (K, P, Q, N)])
    single = (inner < LOOP).all(0)
    none = torch.full_like(other, 1000.0)
    innermost = none
    for d in REDUCTION:
        held = single & (t.rank[d] < other)
        innermost = torch.minimum(innermost, torch.where(held, none, t.rank[d]))
    times = groups
    for d in range(7):
        times = times * torch.where((t.rank[d] >= innermost) & (t.rank[d] < 1000.0), t.steps[d], 1.0)
    return torch.where(innermost < 1000.0, times - 1, torch.zeros_like(times))


def _chains(t: Tiling) -> Tensor:
    """Sums that begin anew in the array over the whole reduction, output-stationary."""
    depth = t.rounding.chunks(t.hardware.depth)
    chain = t.hardware.chain

    def of(r: Tensor, s: Tensor) -> Tensor:
        return t.over_blocks(C, lambda c: t.rounding.up(r * s * depth(c) / chain))

    return t.over_pairs(R, S, of)


def _runs(t: Tiling) -> tuple[Tensor, Tensor, Tensor]:
    """Passes over all tiles' pixels for one block of weights, runs of rows (see `explicit_passes.Passes`), and whether
    runs differ from tile to tile."""
    by_dim = t.rounding.chunks(t.hardware.dim)
    line = (t.block[P] - 1) * t.column_result + (t.block[R] - 1) * t.column_window + 1
    lines = (t.block[Q] - 1) * t.row_result + (t.block[S] - 1) * t.row_window + 1
    whole_p = t.tile[P] >= t.bounds[P] * (1 - 1e-6)
    whole_q = t.tile[Q] >= t.bounds[Q] * (1 - 1e-6)
    joins_q = whole_p & _same(t.row_result * line, t.tile[P] * t.column_result)
    joins_n = joins_q & whole_q & _same(lines * line, t.tile[Q] * t.row_result * line)
    # passes of a full tile by what a run goes along, as the compiler compares them
    p, q, n = t.tile[P], t.tile[Q], t.tile[N]
    along_p = torch.where(
        joins_n, by_dim(p * q * n), torch.where(joins_q, by_dim(p * q) * n, by_dim(p) * q * n)
    )
    along_q, along_n = by_dim(q) * p * n, by_dim(n) * p * q
    # output-stationary results must be neighbours in the tile
    allow_q = ~t.os | (p < LOOP)
    allow_n = ~t.os | (p * q < LOOP)
    far = torch.full_like(p, torch.inf)
    best = torch.stack(
        [along_p, torch.where(allow_q, along_q, far), torch.where(allow_n, along_n, far)]
    ).argmin(0)
    totals = {d: t.bounds[d] for d in PIXELS}
    counts = {d: t.counted(d) for d in PIXELS}
    plain = t.over_tiles(P, by_dim) * totals[Q] * totals[N]
    with_q = t.over_tiles(Q, lambda x: by_dim(x * t.bounds[P])) * totals[N]
    with_n = t.over_tiles(N, lambda x: by_dim(x * t.bounds[P] * t.bounds[Q]))
    p_passes = torch.where(joins_n, with_n, torch.where(joins_q, with_q, plain))
    p_runs = torch.where(
        joins_n, counts[N], torch.where(joins_q, counts[Q] * totals[N], counts[P] * totals[Q] * totals[N])
    )
    q_passes = t.over_tiles(Q, by_dim) * totals[P] * totals[N]
    n_passes = t.over_tiles(N, by_dim) * totals[P] * totals[Q]
    passes = torch.where(best == 0, p_passes, torch.where(best == 1, q_passes, n_passes))
    q_runs, n_runs = counts[Q] * totals[P] * totals[N], counts[N] * totals[P] * totals[Q]
    runs = torch.where(best == 0, p_runs, torch.where(best == 1, q_runs, n_runs))
    edge = {d: uneven(t.bounds[d], t.tile[d]) > 0 for d in PIXELS}
    p_edge = torch.where(joins_n, edge[N], torch.where(joins_q, edge[Q], edge[P]))
    return passes, runs, torch.where(best == 0, p_edge, torch.where(best == 1, edge[Q], edge[N]))


def _same(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).abs() <= 1e-6 * b


def _weights(t: Tiling, groups: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Fills, loads, spans in memory, local rows and runs of loads of weights (`explicit_loads.WeightLoads`)."""
    up, layer, dim = t.rounding, t.layer, t.hardware.dim
    by_dim, by_width = up.chunks(dim), up.chunks(t.load_width[0])
    repeats = t.repeats(RELEVANT_W)
    whole_depth = t.block[C] >= t.bounds[C] * (1 - 1e-6)
    whole_rows = whole_depth & (t.block[R] >= t.bounds[R] * (1 - 1e-6))
    # column chunks of a load; tiles that end inside a row of the array are loaded by themselves
    by_tile = (t.block[K] > t.tile[K]) & (t.tile[K] - torch.floor(t.tile[K] / dim) * dim > 1e-3)
    columns = torch.where(by_tile, t.over_tiles(K, by_width), t.over_blocks(K, by_width))
    row_blocks = torch.where(by_tile, t.over_tiles(K, by_dim), t.over_blocks(K, by_dim))
    all_rows = t.over_blocks(S, lambda s: by_dim(s * t.bounds[R] * t.bounds[C]))
    by_line = t.bounds[S] * t.over_blocks(R, lambda r: by_dim(r * t.bounds[C]))
    by_position = t.bounds[S] * t.bounds[R] * t.over_blocks(C, by_dim)
    # blocks along R and C are one where these are whole
    chunks = torch.where(whole_rows, all_rows, torch.where(whole_depth, by_line, by_position))
    rows = t.bounds[R] * t.bounds[S] * t.bounds[C]
    turned = layer.transposed > 0
    depth_chunks = t.over_blocks(C, by_width)
    k_chunks = t.over_blocks(K, by_dim)
    loads = torch.where(turned, depth_chunks * k_chunks, columns * chunks)
    spans = torch.where(turned, depth_chunks * t.bounds[K], columns * rows)
    local = torch.where(turned, t.over_blocks(C, by_dim) * t.bounds[K], row_blocks * rows)
    lines = torch.where(
        whole_rows,
        t.steps[S],
        torch.where(whole_depth, t.bounds[S] * t.steps[R], t.bounds[S] * t.bounds[R] * t.steps[C]),
    )
    runs = torch.where(turned, depth_chunks * t.steps[K], columns * lines)
    times = groups * repeats
    return times * _steps(t, RELEVANT_W), times * loads, times * spans, times * local, times * runs


def _inputs(t: Tiling, groups: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Loads, loads of zeros, local rows, spans in memory, bytes and runs of loads of inputs (`explicit_loads.InputLoads`)."""
    up, layer, problem = t.rounding, t.layer, t.layer.problem
    by_dim = up.chunks(t.hardware.dim)
    times = groups * t.repeats(RELEVANT_I) * t.bounds[N]
    slabs = t.over_blocks(C, up.chunks(t.load_width[1]))
    slab_blocks = t.over_blocks(C, up.chunks(torch.minimum(t.hardware.depth, t.hardware.dim)))

    def positions(results: Tensor, window: Tensor, result: Tensor, inside: Tensor) -> Tensor:
        extent = (results - 1) * result + (window - 1) * inside + 1
        some = (results > 0) & (window > 0)
        return torch.where(some, extent, torch.zeros_like(extent))

    def lines(q: Tensor, s: Tensor) -> Tensor:
        # lines between those that windows cover are not loaded
        return torch.minimum(positions(q, s, t.row_result, t.row_window), q * s)

    def width(p: Tensor, r: Tensor) -> Tensor:
        return positions(p, r, t.column_result, t.column_window)

    all_lines = t.over_pairs(Q, S, lines)
    all_chunks = t.over_pairs(P, R, lambda p, r: by_dim(width(p, r)))
    all_positions = t.over_pairs(P, R, width)
    vertical = (Q, S, problem.stride_h, problem.dilation_h, t.row_step)
    horizontal = (P, R, problem.stride_w, problem.dilation_w, t.column_step)
    below = (t.bounds[Q] - 1) * problem.stride_h + (t.bounds[S] - 1) * problem.dilation_h
    lowest = torch.where(layer.plain > 0, t.bounds[Q], layer.height) - 1
    beyond = (t.bounds[P] - 1) * problem.stride_w + (t.bounds[R] - 1) * problem.dilation_w
    # rows of pixels that have become one long row end where the image does
    last = torch.where(layer.plain > 0, t.bounds[P], layer.width) - 1
    over, _ = _outside(t, *vertical, layer.top, first=True)
    under, _ = _outside(t, *vertical, below - layer.top - lowest, first=False)
    left, left_edges = _outside(t, *horizontal, layer.left, first=True)
    right, right_edges = _outside(t, *horizontal, beyond - layer.left - last, first=False)
    inside_lines = (all_lines - over - under).clamp_min(0.0)
    inside_positions = (all_positions - left - right).clamp_min(0.0)
    # a chunk at the edge has zeros beside it; whole chunks of zeros are no other number of commands
    edges = left_edges + right_edges
    loads = slabs * inside_lines * all_chunks
    zeros = slabs * (all_lines - inside_lines) * all_chunks + slabs * inside_lines * edges
    rows = slab_blocks * all_lines * all_positions
    spans = slabs * inside_lines * inside_positions
    bytes_ = t.bounds[C] * inside_lines * inside_positions
    # the longer loop of a full block goes inside
    by_row = (t.block[Q] - 1) * t.row_result + (t.block[S] - 1) * t.row_window + 1 > by_dim(
        width(t.block[P], t.block[R])
    )
    blocks_down, blocks_across = t.steps[Q] * t.steps[S], t.steps[P] * t.steps[R]
    runs = slabs * torch.where(by_row, all_chunks * blocks_down, all_lines * blocks_across)
    return times * loads, times * zeros, times * rows, times * spans, times * bytes_, times * runs


def _outside(
    t: Tiling,
    results: int,
    window: int,
    stride: Tensor,
    dilation: Tensor,
    step: Tensor,
    padding: Tensor,
    *,
    first: bool,
) -> tuple[Tensor, Tensor]:
    """Local positions beyond one side of the image in all pairs of blocks along results and window, and how many pairs
    have some: of the three blocks of results next to that side, since padding seldom reaches further.

    Args:
        padding: pixels beyond the image that the outermost window reaches.
        first: whether the side is that of the first block.
    """
    size, blocks = t.block[window], t.steps[window]
    shift = (size * dilation).clamp_min(1.0)
    last_result = t.bounds[results] - (t.steps[results] - 1) * t.block[results]
    last_window = t.bounds[window] - (blocks - 1) * size
    extent = ((t.block[results] - 1) * stride + (size - 1) * dilation) / step + 1
    lost, pairs = torch.zeros_like(size), torch.zeros_like(size)
    for number in range(3):
        nearer = number * t.block[results]
        if not first and number:
            nearer = nearer - t.block[results] + last_result
        reach = (padding - nearer * stride).clamp_min(0.0)
        reach = torch.where(t.steps[results] > number + 0.5, reach, torch.zeros_like(reach))
        # blocks of the window follow each other `shift` pixels apart, the last one of `last_window` positions
        begins = shift if first else last_window * dilation
        further = (t.rounding.up((reach - begins).clamp_min(0.0) / shift)).clamp_max(blocks - 1)
        has = (reach > 0).to(reach.dtype)
        total = reach + further * (reach - begins) - shift * further * (further - 1) / 2
        count = has + further
        lost = lost + torch.minimum(t.rounding.up(total / step), count * extent)
        pairs = pairs + count
    return lost, pairs


def _results(t: Tiling, groups: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Moves between accumulator and memory that all tiles take once, their local rows, rows in memory, and runs
    (`explicit_results.Results`)."""
    by_dim = t.rounding.chunks(t.hardware.dim)
    columns = t.over_tiles(K, by_dim)
    whole_p = t.tile[P] >= t.bounds[P] * (1 - 1e-6)
    whole_q = whole_p & (t.tile[Q] >= t.bounds[Q] * (1 - 1e-6))
    by_row = t.over_tiles(P, by_dim) * t.bounds[Q] * t.bounds[N]
    by_rows = t.over_tiles(Q, lambda x: by_dim(x * t.bounds[P])) * t.bounds[N]
    by_images = t.over_tiles(N, lambda x: by_dim(x * t.bounds[P] * t.bounds[Q]))
    chunks = torch.where(whole_q, by_images, torch.where(whole_p, by_rows, by_row))
    rows = columns * t.bounds[P] * t.bounds[Q] * t.bounds[N]
    row_runs = t.counted(P) * t.bounds[Q] * t.bounds[N]
    runs = torch.where(whole_q, t.counted(N), torch.where(whole_p, t.counted(Q) * t.bounds[N], row_runs))
    return groups * columns * chunks, groups * rows, groups * rows, groups * columns * runs
