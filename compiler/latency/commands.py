"""Commands, rows and bytes of explicit code: how often the loops of `baco.compiler.styles.explicit` issue what.

Every count is exact for whole factors unless its description says otherwise: sums over all visits, partial tiles
included.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from baco.compiler.latency.arrays import larger
from baco.compiler.latency.tiling import BatchTiling
from baco.compiler.styles.explicit.extents import PIXELS, product
from baco.compiler.styles.explicit.loads import count_input_loads, count_weight_loads
from baco.compiler.styles.explicit.passes import count_passes
from baco.compiler.styles.explicit.reach import ImageReach
from baco.compiler.styles.explicit.results import count_fences, count_results


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


def count_commands(t: BatchTiling) -> Commands:
    """Counts of a batch, in all groups."""
    layer, tiles, bounds, steps = t.layer, t.tiles_counted, t.bounds, t.steps
    pixel_tiles = product([tiles[name] for name in PIXELS])
    reduction = steps["R"] * steps["S"] * steps["C"]
    leaves = t.times_left
    results, passes = count_results(t), count_passes(t)
    columns = t.groups * results.columns
    window = bounds["R"] * bounds["S"]
    # what the loops over the window are in: weight-stationary they are outside those over pixels
    around = columns * torch.where(t.weights_stay, pixel_tiles, passes.chunks)
    # a block of weights takes the array's side to shift in; an output-stationary pass takes it whatever it holds
    pixels = bounds["P"] * bounds["Q"] * bounds["N"]
    waves = passes.weight_blocks * larger(pixels / pixel_tiles, t.dim)
    # rows of pixels that have become one long row end where the image does
    plain = layer.plain > 0
    size = (torch.where(plain, bounds["Q"], layer.height), torch.where(plain, bounds["P"], layer.width))
    weights = count_weight_loads(t)
    inputs = count_input_loads(t, ImageReach.of(t, layer.problem, size, (layer.top, layer.left)))
    moves, spilled, pooled = results.moves, leaves - 1, layer.pool_size > 0
    pooled_spans = columns * bounds["N"] * layer.pool_rows * layer.pool_columns
    return Commands(
        visits=t.visits,
        blocks=t.groups * product([*steps.values()]),
        tiles=t.groups * pixel_tiles * tiles["K"] * leaves,
        passes=passes.passes,
        weight_blocks=passes.weight_blocks,
        runs=passes.runs,
        uneven_runs=torch.where(_runs_differ(t), passes.runs, 0),
        tile_columns=columns * pixel_tiles * reduction,
        window_rows=around * bounds["S"] * steps["R"] * steps["C"],
        window_positions=around * window * steps["C"],
        os_chunks=columns * passes.chunks * reduction,
        waves=torch.where(t.weights_stay, waves, passes.passes * t.dim),
        weight_loads=weights.loads,
        input_loads=inputs.loads,
        zero_loads=inputs.zeros,
        bias_loads=moves * layer.bias,
        residual_loads=moves * layer.residual,
        sum_loads=moves * spilled,
        stores=torch.where(pooled, columns * tiles["N"], moves),
        sum_stores=moves * spilled,
        weight_runs=weights.runs,
        input_runs=inputs.runs,
        result_runs=results.runs,
        fences=count_fences(t),
        weight_fills=weights.fills,
        input_fills=inputs.fills,
        weight_rows=weights.rows,
        input_rows=inputs.rows,
        weight_spans=weights.spans,
        input_spans=inputs.spans,
        weight_bytes=weights.bytes,
        input_bytes=inputs.bytes,
        result_rows=results.rows,
        result_spans=torch.where(pooled, pooled_spans, results.rows),
        result_columns=bounds["K"] / results.columns,
    )


def _runs_differ(t: BatchTiling) -> Tensor:
    """Whether runs of passes differ from tile to tile."""
    edge = t.uneven_tiles
    rows = t.pass_rows
    run: Tensor = rows.run.choose(t.a, edge["P"], edge["Q"], edge["N"])
    differ: Tensor = rows.choose(t.a, run, edge["Q"], edge["N"])
    return differ
