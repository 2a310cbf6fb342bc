"""What explicit code costs the host core: cycles of the loops that issue commands, whatever the accelerator does.

The host core runs the compiled loops of `baco.compiler.styles.explicit` in order, about an instruction a cycle. What it takes
is a sum of counts, each times the cycles of the code it stands for; these are fitted (`baco.bench.fit.explicit`).
The more loops and sizes a program juggles, the fewer of them fit the core's registers, and the slower all of it is; what
is known beforehand, on the other hand, is unrolled and folded. So all counts are scaled by a power of that number.
Sizes that differ at the edge of a layer have to be computed wherever they are used: they are what makes loops slow, so
most counts come twice, once more for every such size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from baco.common import tensors
from baco.compiler.latency.commands import Commands
from baco.compiler.latency.tiling import LOOP, C, K, N, P, Q, R, S, Tiling, uneven
from baco.compiler.styles.explicit.code import LOADS_TOGETHER, RESULTS_TOGETHER
from baco.compiler.styles.explicit.passes import MOVES_IN_A_ROW, UNINTERRUPTED

__all__ = ["HOST_FEATURES", "by_blocks", "host_features", "opens_ahead", "paces_stores"]

#: What is counted, in the order of `host_features`, and cycles that are plausible (instructions of the loop's body):
#: the fit begins there.
HOST_FEATURES = {
    "program": 200.0,
    "visit": 100.0,
    "visit_loop": 12.0,
    "visit_edge_k": 12.0,
    "visit_edge_p": 12.0,
    "visit_edge_q": 12.0,
    "visit_block_edge_r": 12.0,
    "visit_block_edge_s": 12.0,
    "visit_block_edge_c": 12.0,
    "visit_block_edge_k": 12.0,
    "visit_block_edge_p": 12.0,
    "visit_block_edge_q": 12.0,
    "visit_spilling": 30.0,
    "block": 40.0,
    "block_loop": 8.0,
    "leave": 30.0,
    "leave_edge_k": 10.0,
    "leave_edge_p": 10.0,
    "leave_edge_q": 10.0,
    "leave_paced": 60.0,
    "leave_loop": 5.0,
    "open": 30.0,
    "open_ahead": 60.0,
    "fill": 40.0,
    "fill_edge": 10.0,
    "fill_padded": 10.0,
    "fill_ahead": 30.0,
    "fill_paced": 80.0,
    "weights": 10.0,
    "weights_run": 10.0,
    "weights_edge": 4.0,
    "weights_paced": 30.0,
    "weights_paced_edge": 8.0,
    "inputs": 15.0,
    "inputs_run": 15.0,
    "inputs_edge": 4.0,
    "inputs_padded": 10.0,
    "inputs_padded_run": 10.0,
    "inputs_padded_ahead": 5.0,
    "inputs_clipped_p": 8.0,
    "inputs_clipped_q": 8.0,
    "inputs_gaps": 10.0,
    "inputs_paced": 30.0,
    "inputs_paced_edge": 8.0,
    "inputs_paced_clipped_p": 10.0,
    "inputs_paced_clipped_q": 10.0,
    "zeros": 8.0,
    "opening": 10.0,
    "opening_run": 10.0,
    "opening_edge": 4.0,
    "opening_edge_p": 5.0,
    "opening_paced": 30.0,
    "opening_paced_edge": 8.0,
    "stores": 10.0,
    "stores_run": 10.0,
    "stores_edge": 4.0,
    "stores_edge_p": 5.0,
    "stores_paced": 30.0,
    "stores_paced_edge": 8.0,
    "column": 20.0,
    "window": 10.0,
    "weight_block": 20.0,
    "weight_block_edge": 5.0,
    "weight_block_fresh": 5.0,
    "weight_block_uneven": 10.0,
    "run_outer": 8.0,
    "run_outer_uneven": 10.0,
    "beat": 5.0,
    "beat_job": 3.0,
    "run": 8.0,
    "run_edge": 10.0,
    "run_edge_p": 5.0,
    "pass": 7.0,
    "os_chunk": 20.0,
    "os_window": 12.0,
    "os_pass": 18.0,
    "os_pass_edge": 5.0,
    "os_chain": 10.0,
}


#: How much sizes that differ at the edges of blocks and tiles, loops and interrupted jobs weigh in what a program keeps
#: in registers, what is always there, and the power (chosen on the set `train`).
_BLOCK_EDGES = {R: 1.0, S: 1.0, C: 2.0, K: 1.0, N: 1.0}
_TILE_EDGES = {K: 2.0, P: 3.0, Q: 1.0, N: 2.0}
_LOOP, _JOB, _ALWAYS, _POWER = 0.5, 1.5, 0.6, 0.35


def by_blocks(c: Commands) -> Tensor:
    """Whether moves between passes come after every block of weights; not where these are long and moves many
    (`Passes.settle`)."""
    moves = c.weight_loads + c.input_loads + c.zero_loads + c.stores + c.sum_stores
    return (c.passes <= UNINTERRUPTED * c.weight_blocks) | (moves <= MOVES_IN_A_ROW * c.weight_blocks)


def opens_ahead(t: Tiling, c: Commands) -> Tensor:
    """Whether what a tile begins with comes while the one before is multiplied: one kind of load, into another copy, that
    need not wait for sums to be in memory (`baco.compiler.styles.explicit.code`)."""
    spills = c.sum_stores > 0
    kinds = t.layer.bias + t.layer.residual + spills.to(c.visits.dtype)
    return (t.copies[2] > LOOP) & ~spills & (kinds == 1)


def paces_stores(t: Tiling, c: Commands) -> Tensor:
    """Whether a tile's results leave one by one between the passes of the next, into another copy, and not all at once before
    these (`baco.compiler.styles.explicit.code`)."""
    brief = c.passes / c.tiles <= t.hardware.execute_entries
    return (t.copies[2] > LOOP) & ~(brief | (_stores_of_a_tile(c) <= t.hardware.store_entries))


def _stores_of_a_tile(c: Commands) -> Tensor:
    return c.stores * (1 + c.sum_stores / c.stores.clamp_min(1e-9)) / c.tiles


def host_features(t: Tiling, c: Commands) -> list[Tensor]:
    """Counts (B,) by `HOST_FEATURES`, scaled for how much a program has to keep in registers."""
    zero = torch.zeros_like(c.visits)
    one = zero + 1
    layer = t.layer
    copies_w, copies_i = (copies > LOOP for copies in t.copies[:2])
    loops = (t.rank < 1000.0).sum(0).to(one.dtype) + (layer.problem.groups > 1)
    inner = [t.rounding.up(t.block[d] / t.tile[d]) for d in (K, P, Q, N)]
    all_loops = loops + sum((count >= LOOP).to(one.dtype) for count in inner)
    block_edge = {d: uneven(t.bounds[d], t.block[d]) for d in (R, S, C, K, P, Q, N)}
    tile_edge = {d: uneven(t.bounds[d], t.tile[d]) for d in (K, P, Q, N)}
    pixel_edges = tile_edge[P] + tile_edge[Q] + tile_edge[N]
    edges = sum(block_edge.values(), zero) + sum(tile_edge.values(), zero)
    weight_edges = block_edge[R] + block_edge[S] + block_edge[C] + block_edge[K]
    input_edges = edges - block_edge[K] - tile_edge[K] - pixel_edges

    # what a full block and tile take, to tell which moves are issued at once (`explicit.py`)
    entries = t.hardware.execute_entries
    passes, in_block, held = c.passes / c.visits, c.visits / c.blocks, c.visits / c.tiles
    inputs = c.input_loads + c.zero_loads
    few_loads = torch.floor(t.hardware.load_entries / 2)
    leaves = 1 + c.sum_stores / c.stores.clamp_min(1e-9)
    moves = _stores_of_a_tile(c)
    brief_block, brief_tile = passes * in_block <= entries, passes * held <= entries
    weights_paced = copies_w & ~(brief_block | (c.weight_loads / c.weight_fills <= few_loads))
    inputs_paced = copies_i & ~(brief_block | (inputs / c.input_fills <= few_loads))
    spills = c.sum_stores > 0
    kinds = layer.bias + layer.residual + spills.to(one.dtype)
    ahead = opens_ahead(t, c)
    stores_paced = paces_stores(t, c)
    open_paced = ahead & (stores_paced | ~(brief_tile | (moves <= few_loads)))
    opening = c.bias_loads + c.residual_loads + c.sum_loads
    stores = c.stores + c.sum_stores
    opens = torch.where(kinds > 0, c.tiles, zero)
    problem = layer.problem
    reach_h = (t.bounds[Q] - 1) * problem.stride_h + (t.bounds[S] - 1) * problem.dilation_h
    reach_w = (t.bounds[P] - 1) * problem.stride_w + (t.bounds[R] - 1) * problem.dilation_w
    padded = sum(
        side.to(one.dtype)
        for side in (
            layer.top > 0,
            layer.left > 0,
            reach_h - layer.top >= layer.height,
            reach_w - layer.left >= layer.width,
        )
    )
    # where blocks of an image differ in what is beyond its sides
    clipped = {
        P: ((layer.left > 0) | (reach_w - layer.left >= layer.width)) & (t.steps[P] > LOOP),
        Q: ((layer.top > 0) | (reach_h - layer.top >= layer.height)) & (t.steps[Q] > LOOP),
    }
    gaps = ((t.row_window > 1) & (t.block[S] > 1)) | (t.block[S] < t.row_result)
    paced_fills = torch.where(weights_paced, c.weight_fills, zero) + torch.where(
        inputs_paced, c.input_fills, zero
    )

    def where(condition: Tensor, count: Tensor) -> Tensor:
        return torch.where(condition, count, zero)

    def paced(
        count: Tensor, runs: Tensor, edge: Tensor, apart: Tensor, together: int
    ) -> tuple[Tensor, Tensor]:
        # steps at a turn are of one run
        turns = where(apart, torch.maximum(runs, count / together))
        return turns, turns * edge

    def moved(count: Tensor, runs: Tensor, edge: Tensor, apart: Tensor, together: int) -> tuple[Tensor, ...]:
        return count, runs, runs * edge, *paced(count, runs, edge, apart, together)

    def results(count: Tensor, apart: Tensor) -> tuple[Tensor, ...]:
        runs = c.result_runs * count / once
        *of_runs, turns, turns_edge = moved(count, runs, result_edges, apart, RESULTS_TOGETHER)
        return (*of_runs, count * tile_edge[P], turns, turns_edge)

    input_turns, _ = paced(inputs, c.input_runs, input_edges, inputs_paced, LOADS_TOGETHER)
    result_edges = pixel_edges + tile_edge[K]
    once = (c.stores + c.sum_stores) / leaves
    ws = ~t.os
    # tiles have more or fewer runs at the edge, and all of them alike
    uneven_outside = (pixel_edges > 0) & (c.uneven_runs == 0)
    columns = c.tile_columns
    steps_s, steps_r = c.window_rows, c.window_positions
    jobs = sum((one.to(zero.dtype) for one in (weights_paced, inputs_paced, open_paced, stores_paced)), zero)
    beats = torch.where(c.runs > c.weight_blocks, c.runs, c.passes)
    beats = torch.where(ws & by_blocks(c), c.weight_blocks, beats)
    alive = _ALWAYS + _LOOP * all_loops + _JOB * jobs
    for weights, uneven_sizes in ((_BLOCK_EDGES, block_edge), (_TILE_EDGES, tile_edge)):
        for d, weight in weights.items():
            alive = alive + weight * uneven_sizes[d]
    counts = [
        one,
        c.visits,
        c.visits * all_loops,
        *(c.visits * tile_edge[d] for d in (K, P, Q)),
        *(c.visits * block_edge[d] for d in (R, S, C, K, P, Q)),
        where(spills, c.visits),
        c.blocks,
        c.blocks * loops,
        c.tiles,
        *(c.tiles * tile_edge[d] for d in (K, P, Q)),
        where(stores_paced, c.tiles),
        where(stores_paced, c.tiles * all_loops),
        where(~ahead, opens),
        where(ahead, opens),
        c.weight_fills + c.input_fills,
        c.weight_fills * weight_edges + c.input_fills * input_edges,
        c.input_fills * padded,
        where(copies_w, c.weight_fills) + where(copies_i, c.input_fills),
        paced_fills,
        *moved(c.weight_loads, c.weight_runs, weight_edges, weights_paced, LOADS_TOGETHER),
        inputs,
        c.input_runs,
        c.input_runs * input_edges,
        inputs * padded,
        c.input_runs * padded,
        where(copies_i, inputs * padded),
        where(clipped[P], inputs),
        where(clipped[Q], inputs),
        where(gaps, inputs * t.block[S]),
        input_turns,
        input_turns * input_edges,
        where(clipped[P], input_turns),
        where(clipped[Q], input_turns),
        c.zero_loads,
        *results(opening, open_paced),
        *results(stores, stores_paced),
        where(ws, columns),
        where(ws, where(t.block[S] >= LOOP, steps_s) + where(t.block[R] >= LOOP, steps_r)),
        where(ws, c.weight_blocks),
        where(ws, c.weight_blocks * block_edge[C]),
        where(ws & (kinds == spills.to(one.dtype)), c.weight_blocks),
        where(ws & uneven_outside, c.weight_blocks),
        where(ws & (c.runs > c.weight_blocks), c.runs),
        where(ws & uneven_outside, c.runs),
        where(jobs > 0, beats),
        beats * jobs,
        where(ws, c.runs),
        where(ws, c.uneven_runs),
        where(ws, c.runs * tile_edge[P]),
        where(ws, c.passes),
        where(t.os, c.os_chunks),
        where(t.os, where(t.block[S] >= LOOP, steps_s) + where(t.block[R] >= LOOP, steps_r)),
        where(t.os, c.passes),
        where(t.os, c.passes * (block_edge[C] + block_edge[R] + block_edge[S]).clamp_max(1.0)),
        where(t.os, c.weight_blocks),
    ]
    scale = tensors.power(alive, _POWER)
    return [one * scale for one in counts]
