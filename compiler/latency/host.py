"""What explicit code costs the host core: cycles of the loops that issue commands, whatever the accelerator does.

The host core runs the compiled loops of `baco.compiler.styles.explicit` in order, about an instruction a cycle. What it takes
is a sum of counts, each times the cycles of the code it stands for; these are fitted (`baco.bench.fit.explicit`).
The more loops and sizes a program juggles, the fewer of them fit the core's registers, and the slower all of it is; what
is known beforehand, on the other hand, is unrolled and folded. So all counts are scaled by a power of that number.
Sizes that differ at the edge of a layer have to be computed wherever they are used: they are what makes loops slow, so
most counts come twice, once more for every such size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from collections.abc import Mapping as Dictionary
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from baco.common import tensors
from baco.common.portable import power
from baco.compiler.latency.arrays import larger
from baco.compiler.latency.commands import Commands
from baco.compiler.latency.tiling import BatchTiling, uneven
from baco.compiler.styles.explicit.code import LOADS_TOGETHER, RESULTS_TOGETHER
from baco.compiler.styles.explicit.extents import LOOP
from baco.compiler.styles.explicit.passes import MOVES_IN_A_ROW, UNINTERRUPTED

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
_BLOCK_EDGES = {"R": 1.0, "S": 1.0, "C": 2.0, "K": 1.0, "N": 1.0}
_TILE_EDGES = {"K": 2.0, "P": 3.0, "Q": 1.0, "N": 2.0}
_LOOP, _JOB, _ALWAYS, _POWER = 0.5, 1.5, 0.6, 0.35
#: What all counts are multiplied by at least.
LEAST_SCALE = power(_ALWAYS, _POWER)


def by_blocks(c: Commands) -> Tensor:
    """Whether moves between passes come after every block of weights; not where these are long and moves many
    (`Passes.settle`)."""
    moves = c.weight_loads + c.input_loads + c.zero_loads + c.stores + c.sum_stores
    return (c.passes <= UNINTERRUPTED * c.weight_blocks) | (moves <= MOVES_IN_A_ROW * c.weight_blocks)


def opens_ahead(t: BatchTiling, c: Commands) -> Tensor:
    """Whether what a tile begins with comes while the one before is multiplied: one kind of load, into another copy, that
    need not wait for sums to be in memory (`baco.compiler.styles.explicit.code`)."""
    spills = c.sum_stores > 0
    kinds = t.layer.bias + t.layer.residual + spills.to(c.visits.dtype)
    return (t.copies[2] > LOOP) & ~spills & (kinds == 1)


#: Cycles (B,) of the host core by the first words of names in `HOST_FEATURES`.
HostCost: TypeAlias = Callable[..., Tensor]


class MoveKinds(NamedTuple):
    """Something of the moves of explicit code, (B,) each."""

    weights: Tensor
    inputs: Tensor
    opening: Tensor
    stores: Tensor


def paced_moves(t: BatchTiling, c: Commands) -> MoveKinds:
    """Which moves go one by one between the passes before, into another copy: all but those that a full block and tile issue
    at once (`baco.compiler.styles.explicit.code`)."""
    entries = t.hardware.execute_entries
    passes, in_block, held = c.passes / c.visits, c.visits / c.blocks, c.visits / c.tiles
    few_loads = torch.floor(t.hardware.load_entries / 2)
    brief_block, brief_tile = passes * in_block <= entries, passes * held <= entries
    few_weights = c.weight_loads / c.weight_fills <= few_loads
    few_inputs = (c.input_loads + c.zero_loads) / c.input_fills <= few_loads
    copies_w, copies_i = (copies > LOOP for copies in t.copies[:2])
    stores = paces_stores(t, c)
    few_moves = stores_of_a_tile(c) <= few_loads
    return MoveKinds(
        weights=copies_w & ~(brief_block | few_weights),
        inputs=copies_i & ~(brief_block | few_inputs),
        opening=opens_ahead(t, c) & (stores | ~(brief_tile | few_moves)),
        stores=stores,
    )


def paces_stores(t: BatchTiling, c: Commands) -> Tensor:
    """Whether a tile's results leave one by one between the passes of the next, into another copy, and not all at once before
    these (`baco.compiler.styles.explicit.code`)."""
    brief: Tensor = c.passes / c.tiles <= t.hardware.execute_entries
    few: Tensor = stores_of_a_tile(c) <= t.hardware.store_entries
    return (t.copies[2] > LOOP) & ~(brief | few)


def stores_of_a_tile(c: Commands) -> Tensor:
    """Stores of results or of sums, once for each time that a tile leaves."""
    return c.stores * (1 + c.sum_stores / c.stores.clamp_min(1e-9)) / c.tiles


def host_features(t: BatchTiling, c: Commands) -> list[Tensor]:
    """Counts (B,) by `HOST_FEATURES`, scaled for how much a program has to keep in registers."""
    counts, scale = _counts(t, c)
    return [one * scale for one in counts]


def _counts(t: BatchTiling, c: Commands) -> tuple[list[Tensor], Tensor]:
    """Counts by `HOST_FEATURES`, and what they are scaled by."""
    issued = _Issued(t, c)
    counts = [*issued.visits(), *issued.fills(), *issued.operands(), *issued.sums(), *issued.passes()]
    return counts, tensors.power(issued.alive(), _POWER)


def host_costs(
    t: BatchTiling, c: Commands, fitted: Dictionary[str, float]
) -> tuple[HostCost, Tensor, Tensor]:
    """Of the host core: cycles by the kinds of features that are asked for, of all, and of moves between passes."""
    counts, scale = _counts(t, c)
    costs = {
        name: count * scale * fitted[name]
        for name, count in zip(HOST_FEATURES, counts, strict=True)
        if fitted[name]
    }
    zero = torch.zeros_like(c.visits)

    def cost_of(*kinds: str) -> Tensor:
        return _total((cost for name, cost in costs.items() if name.partition("_")[0] in kinds), zero)

    paced = _total(
        (
            torch.where(costs[f"{kind}_paced"] > 0, cost_of(kind), zero)
            for kind in ("weights", "inputs", "opening", "stores")
            if f"{kind}_paced" in costs
        ),
        zero,
    )
    return cost_of, _total(costs.values(), zero), paced


def _total(costs: Iterable[Tensor], zero: Tensor) -> Tensor:
    return functools.reduce(torch.add, costs, zero)


class _Issued:
    """What the code of a batch goes through, counts (B,) in the order of `HOST_FEATURES`."""

    def __init__(self, t: BatchTiling, c: Commands) -> None:
        self.t, self.c, self.zero = t, c, torch.zeros_like(c.visits)
        dtype = self.zero.dtype
        self.loops: Tensor = sum(runs.to(dtype) for runs in t.runs.values()) + (t.groups > 1)
        self.all_loops = self.loops + sum((count >= LOOP).to(dtype) for count in t.tile_steps.values())
        self.block_edge = {d: uneven(t.bounds[d], t.block[d]).to(dtype) for d in "RSCKPQN"}
        self.tile_edge = {d: t.uneven_tiles[d].to(dtype) for d in "KPQN"}
        block, tile = self.block_edge, self.tile_edge
        self.pixel_edges = tile["P"] + tile["Q"] + tile["N"]
        edges = sum(block.values(), self.zero) + sum(tile.values(), self.zero)
        self.weight_edges = block["R"] + block["S"] + block["C"] + block["K"]
        self.input_edges = edges - block["K"] - tile["K"] - self.pixel_edges
        self.inputs = c.input_loads + c.zero_loads
        self.spills = c.sum_stores > 0
        self.kinds = t.layer.bias + t.layer.residual + self.spills.to(dtype)
        self.copies_w, self.copies_i = (copies > LOOP for copies in t.copies[:2])
        self._pace()
        self._reach()

    def _pace(self) -> None:
        """Which moves go between passes."""
        t, c = self.t, self.c
        self.ahead = opens_ahead(t, c)
        paced = paced_moves(t, c)
        self.weights_paced, self.inputs_paced, self.open_paced, self.stores_paced = paced
        self.jobs = sum((one.to(self.zero.dtype) for one in paced), self.zero)

    def _reach(self) -> None:
        """How many sides of the image windows reach beyond, and where blocks of an image differ in that."""
        t, layer, problem = self.t, self.t.layer, self.t.layer.problem
        reach_h = (t.bounds["Q"] - 1) * problem.stride_h + (t.bounds["S"] - 1) * problem.dilation_h
        reach_w = (t.bounds["P"] - 1) * problem.stride_w + (t.bounds["R"] - 1) * problem.dilation_w
        below, right = reach_h - layer.top >= layer.height, reach_w - layer.left >= layer.width
        self.padded = sum(side.to(self.zero.dtype) for side in (layer.top > 0, layer.left > 0, below, right))
        self.clipped = {
            "P": ((layer.left > 0) | right) & (t.steps["P"] > LOOP),
            "Q": ((layer.top > 0) | below) & (t.steps["Q"] > LOOP),
        }

    def alive(self) -> Tensor:
        """What a program has to keep in registers."""
        alive: Tensor = _ALWAYS + _LOOP * self.all_loops + _JOB * self.jobs
        for weights, uneven_sizes in ((_BLOCK_EDGES, self.block_edge), (_TILE_EDGES, self.tile_edge)):
            for d, weight in weights.items():
                alive = alive + weight * uneven_sizes[d]
        return alive

    # ---------------------------------------------------------------- in the order of HOST_FEATURES

    def visits(self) -> list[Tensor]:
        """The program, visits of tiles, blocks, and tiles that leave and open."""
        c, tile_edge = self.c, self.tile_edge
        opens = torch.where(self.kinds > 0, c.tiles, self.zero)
        return [
            self.zero + 1,
            c.visits,
            c.visits * self.all_loops,
            *(c.visits * tile_edge[d] for d in "KPQ"),
            *(c.visits * self.block_edge[d] for d in "RSCKPQ"),
            self._where(self.spills, c.visits),
            c.blocks,
            c.blocks * self.loops,
            c.tiles,
            *(c.tiles * tile_edge[d] for d in "KPQ"),
            self._where(self.stores_paced, c.tiles),
            self._where(self.stores_paced, c.tiles * self.all_loops),
            self._where(~self.ahead, opens),
            self._where(self.ahead, opens),
        ]

    def fills(self) -> list[Tensor]:
        """Blocks of operands that are loaded."""
        c = self.c
        return [
            c.weight_fills + c.input_fills,
            c.weight_fills * self.weight_edges + c.input_fills * self.input_edges,
            c.input_fills * self.padded,
            self._where(self.copies_w, c.weight_fills) + self._where(self.copies_i, c.input_fills),
            self._where(self.weights_paced, c.weight_fills) + self._where(self.inputs_paced, c.input_fills),
        ]

    def operands(self) -> list[Tensor]:
        """Loads of weights, of inputs, and of zeros."""
        t, c, inputs, edges, clipped = self.t, self.c, self.inputs, self.input_edges, self.clipped
        gaps = ((t.row.window > 1) & (t.block["S"] > 1)) | (t.block["S"] < t.row.result)
        turns, turns_edge = self._paced(inputs, c.input_runs, edges, self.inputs_paced, LOADS_TOGETHER)
        return [
            *self._moved(
                c.weight_loads, c.weight_runs, self.weight_edges, self.weights_paced, LOADS_TOGETHER
            ),
            inputs,
            c.input_runs,
            c.input_runs * edges,
            inputs * self.padded,
            c.input_runs * self.padded,
            self._where(self.copies_i, inputs * self.padded),
            self._where(clipped["P"], inputs),
            self._where(clipped["Q"], inputs),
            self._where(gaps, inputs * t.block["S"]),
            turns,
            turns_edge,
            self._where(clipped["P"], turns),
            self._where(clipped["Q"], turns),
            c.zero_loads,
        ]

    def sums(self) -> list[Tensor]:
        """Moves that open tiles, and stores."""
        c, layer = self.c, self.t.layer
        again = self.t.times_left - 1.0
        # pooled tiles leave in other moves than the sums that they are made of
        last = torch.where(layer.pool_size > 0, c.stores, c.result_runs)
        edges = self.pixel_edges + self.tile_edge["K"]
        counts: list[Tensor] = []
        opening = c.bias_loads + c.residual_loads + c.sum_loads
        opening_runs = c.result_runs * (layer.bias + layer.residual + again)
        for count, runs, apart in (
            (opening, opening_runs, self.open_paced),
            (c.stores + c.sum_stores, c.result_runs * again + last, self.stores_paced),
        ):
            *of_runs, turns, turns_edge = self._moved(count, runs, edges, apart, RESULTS_TOGETHER)
            counts += [*of_runs, count * self.tile_edge["P"], turns, turns_edge]
        return counts

    def passes(self) -> list[Tensor]:
        """The loops over passes of both dataflows."""
        t, c, block_edge, where = self.t, self.c, self.block_edge, self._where
        ws, os = t.weights_stay, ~t.weights_stay
        # tiles have more or fewer runs at the edge, and all of them alike
        uneven_outside = (self.pixel_edges > 0) & (c.uneven_runs == 0)
        window = where(t.block["S"] >= LOOP, c.window_rows) + where(t.block["R"] >= LOOP, c.window_positions)
        beats = torch.where(c.runs > c.weight_blocks, c.runs, c.passes)
        beats = torch.where(ws & by_blocks(c), c.weight_blocks, beats)
        return [
            where(ws, c.tile_columns),
            where(ws, window),
            where(ws, c.weight_blocks),
            where(ws, c.weight_blocks * block_edge["C"]),
            where(ws & (self.kinds == self.spills.to(self.zero.dtype)), c.weight_blocks),
            where(ws & uneven_outside, c.weight_blocks),
            where(ws & (c.runs > c.weight_blocks), c.runs),
            where(ws & uneven_outside, c.runs),
            where(self.jobs > 0, beats),
            beats * self.jobs,
            where(ws, c.runs),
            where(ws, c.uneven_runs),
            where(ws, c.runs * self.tile_edge["P"]),
            where(ws, c.passes),
            where(os, c.os_chunks),
            where(os, window),
            where(os, c.passes),
            where(os, c.passes * (block_edge["C"] + block_edge["R"] + block_edge["S"]).clamp_max(1.0)),
            where(os, c.weight_blocks),
        ]

    # ---------------------------------------------------------------- pieces

    def _where(self, condition: Tensor, count: Tensor) -> Tensor:
        return torch.where(condition, count, self.zero)

    def _paced(
        self, count: Tensor, runs: Tensor, edge: Tensor, apart: Tensor, together: int
    ) -> tuple[Tensor, Tensor]:
        # steps at a turn are of one run
        turns = self._where(apart, larger(runs, count / together))
        return turns, turns * edge

    def _moved(
        self, count: Tensor, runs: Tensor, edge: Tensor, apart: Tensor, together: int
    ) -> tuple[Tensor, ...]:
        return count, runs, runs * edge, *self._paced(count, runs, edge, apart, together)
