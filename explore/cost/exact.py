"""The best mapping of one problem on one accelerator, with proof.

`LayerSolver.solve` minimises weighing * energy + latency over *all* mappings that genomes encode (whole
factors at the array and three levels, products at least the bounds, either dataflow, all DRAM orders), with the copies
that the space gives to tiles that change (the reference model, for which moves cost no waiting, holds none once), by
branch and bound: nodes (counts of DRAM passes, `baco.exploration.cost.tiles`) are taken in rising order of their lower
bounds, all mappings of a node that can be best are evaluated by the cost model itself, and the search ends
once the next bound is not below the best value found.

Which mappings of a node can be left out (each claim is "no mapping left out is cheaper and needs less"):

1.  Factors are coordinate-wise minimal. Shrinking one factor (while the product still covers the bound) never
    raises an access count, as every count is a sum of products of factors with non-negative coefficients
    (outputs enter A1 and A3 as out * (2 x - 1) with x >= 1), and a loop that vanishes only extends reuse. It
    never raises a need, with one exception: fewer columns make lines of the input taller in an
    scratchpad without channels along the rows (ceil(C / columns) blocks), so the smallest columns for each number of such
    blocks are tried as well. Hence for bound b, n passes and t = ceil(b / n), only the minimal factorisations
    covering t need be tried.
2.  Reduction loops (R, S, C) are never at level 2. Moved from level 2 into level 1 they leave all products,
    tiles and needs alone. Weight-stationary: register refills see no reuse with the loop at either place
    (it lies inside every pixel loop), and accumulator fills reuse level-2 reductions fully, being
    innermost there. Output-stationary: they move to level 0, where they only save register drains.
3.  Weight-stationary, level 2 loops over outputs exist (*streamed*): K is not at level 1. Moving it to
    level 2 shrinks the accumulator tile, cannot shorten reuse of weights (a K loop at level 1 allows none),
    keeps accumulator fills and copies (there were level-2 loops over outputs already). With no such loops
    (*held*), K, P, Q, N are wholly inside the accumulator tile. These two forms are tried.
4.  Output-stationary: registers drain as often whether output loops are at level 1 or 2, so either all are
    at level 1 (held) or all at level 2 (streamed; the accumulator tile is then least).
5.  Of the splits of one dimension (or of the pixels together) only those that no other beats in both tile size
    and number of blocks are tried: all counts and needs grow with either, for the accumulator's own need see
    the limits on it, which are applied first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from baco.accel.dataflows import DATAFLOWS, Dataflow, DataflowRule
from baco.compiler.mapping.batch import AXES
from baco.exploration.cost.genome import (
    C_AXIS,
    COLUMNS,
    DRAM_ORDERS,
    FLOWS,
    K_AXIS,
    ORDER,
    P_AXIS,
    ROWS,
    T1,
    T2,
    T3,
    WIDTH,
    Genomes,
    ProblemSet,
    count,
    needs,
    trivial,
)
from baco.exploration.cost.reference import latency_terms, total_energy
from baco.exploration.cost.tiles import Floats, Ints, Point, Region, TileGrid, least_counts
from baco.exploration.space import DesignSpace
from baco.workloads.problem import Problem

_R, _S, _Q, _N = (AXES.index(name) for name in "RSQN")
#: Bounds and values are computed in different orders of the same sums; this much is rounding.
_ROUNDING = 1e-12
_FIRST_BATCH, _LARGEST_BATCH = 16, 1024
#: Blocks of nodes opened at a time.
_BLOCKS = 16

#: (tile factor inside, number of blocks outside) of one dimension.
Splits = list[tuple[int, int]]


@dataclass(frozen=True)
class Solution:
    """The best mapping of one problem on one accelerator for one weighing.

    Attributes:
        value: weighing * energy + latency of the mapping found; infinite when nothing fits.
        bound: no mapping has less; equals `value` up to the tolerance asked for.
        energy_pj, latency_cycles: of the mapping.
        genome: the mapping (25,), or None when nothing fits.
        nodes, evaluations: tilings opened and mappings evaluated.
    """

    value: float
    bound: float
    energy_pj: float
    latency_cycles: float
    genome: NDArray[np.int64] | None
    nodes: int
    evaluations: int


def minimal_splits(size: int, limit: int) -> Splits:
    """Minimal pairs (inside, blocks) with inside * blocks >= size and inside <= limit, fewest blocks first."""
    pairs = [(-(-size // blocks), blocks) for blocks in least_counts(size).tolist()]
    return [pair for pair in pairs if pair[0] <= limit]


def _leading(pairs: Splits) -> Splits:
    """Of splits with rising numbers of blocks, those whose tile is smaller than all before."""
    kept: Splits = []
    for inside, blocks in pairs:
        if not kept or inside * blocks < kept[-1][0] * kept[-1][1]:
            kept.append((inside, blocks))
    return kept


class LayerSolver:
    """Solves one problem of a space for any hardware point and weighing.

    Args:
        problem: what to map.
        space: gives rules, dataflows, buffering and technology; its constraints are not used.
    """

    def __init__(self, problem: Problem, space: DesignSpace) -> None:
        self.problem = problem
        self.space = space
        self.grid = TileGrid(problem, space)
        self._set = ProblemSet([problem])
        self._pixel_splits = lru_cache(maxsize=None)(self._find_pixel_splits)

    def bounds(self, region: Region, weighings: Floats) -> Floats:
        """(G,) lower bounds of weighing * energy + latency: the least over all nodes of
        all points of a region, none of them solved."""
        least = np.full(len(weighings), np.inf)
        for flow in self.space.dataflows:
            blocks = self.grid.block_bounds(flow, region, weighings)
            while True:
                wanted = [_cheapest(row, low, _BLOCKS) for row, low in zip(blocks, least, strict=True)]
                opened = np.unique(np.concatenate(wanted))
                if not len(opened):
                    break
                blocks[:, opened] = np.inf
                nodes = self.grid.node_bounds(flow, region, weighings, self.grid.open(opened))
                least = np.minimum(least, nodes.min(1))
        return np.asarray(least * (1 - _ROUNDING))

    def solve(
        self, point: Point, weighing: float, tolerance: float = 0.0, node_limit: int | None = None
    ) -> Solution:
        """The best mapping on `point`.

        Args:
            weighing: cycles per pJ; 0 minimises latency, infinity energy.
            tolerance: stop once value <= bound * (1 + tolerance).
            node_limit: give up the proof, not the answer, after solving this many nodes.
        """
        flows = self.space.dataflows
        weigh, region = np.array([weighing]), Region.of(point)
        blocks = [self.grid.block_bounds(flow, region, weigh)[0] * (1 - _ROUNDING) for flow in flows]
        size = len(blocks[0])
        closed = np.concatenate(blocks)
        pool = np.zeros((0, 7), dtype=np.int64)  # opened nodes, with their bounds and dataflows
        bound, kind = np.zeros(0), np.zeros(0, dtype=np.int64)
        best, choice, costs = np.inf, None, (np.inf, np.inf)
        solved = evaluations = 0
        batch = _FIRST_BATCH
        while node_limit is None or solved < node_limit:
            limit = best / (1 + tolerance)
            keep = bound < limit
            pool, bound, kind = pool[keep], bound[keep], kind[keep]
            next_block, next_node = closed.min(), bound.min(initial=np.inf)
            if min(next_block, next_node) >= limit:
                break
            if next_block <= next_node:
                opened = _cheapest(closed, limit, _BLOCKS)
                closed[opened] = np.inf
                for f, flow in enumerate(flows):
                    nodes = self.grid.open(opened[opened // size == f] % size)
                    found = self.grid.node_bounds(flow, region, weigh, nodes)[0] * (1 - _ROUNDING)
                    pool, bound = np.concatenate([pool, nodes]), np.concatenate([bound, found])
                    kind = np.concatenate([kind, np.full(len(nodes), f)])
                continue
            mine = _cheapest(bound, np.nextafter(min(limit, next_block), np.inf), batch)
            batch = min(2 * batch, _LARGEST_BATCH)
            solved += len(mine)
            bound[mine] = np.inf
            for f, flow in enumerate(flows):
                rows = self._candidates(flow, point, pool[mine[kind[mine] == f]])
                if not len(rows):
                    continue
                value, pj, cycles = self._evaluate(point, weighing, rows)
                evaluations += len(rows)
                i = int(value.argmin())
                if value[i] < best:
                    best, choice, costs = float(value[i]), rows[i], (float(pj[i]), float(cycles[i]))
        proven = min(best, float(closed.min()), float(bound.min(initial=np.inf)))
        return Solution(best, proven, *costs, choice, solved, evaluations)

    def _evaluate(self, point: Point, weighing: float, rows: Genomes) -> tuple[Floats, Floats, Floats]:
        """(value, energy in pJ, latency in cycles) of genome rows."""
        task = np.zeros(len(rows), dtype=np.int64)
        counts = count(self._set, task, rows, self.space.double_buffer)
        dim = torch.tensor(float(point.dim), dtype=torch.float64)
        acc = torch.tensor(point.accumulator_kib, dtype=torch.float64)
        sp = torch.tensor(point.scratchpad_kib, dtype=torch.float64)
        pj = total_energy(counts, dim, acc, sp, self.space.base.energy_law).numpy()
        cycles = latency_terms(counts, dim, self.space.base.dram_bytes_per_cycle).amax(0).numpy()
        pj = pj + self.space.static_pj_of(cycles, point.dim, point.accumulator_kib, point.scratchpad_kib)
        return pj if np.isinf(weighing) else weighing * pj + cycles, pj, cycles

    def _candidates(self, flow: Dataflow, point: Point, counts: Ints) -> Genomes:
        """All mappings of nodes that can be best and fit, with every DRAM order."""
        sizes = self._set.bounds[0]
        pieces: list[Genomes] = []
        cut = self._output_stationary if DATAFLOWS[flow].sums_stay else self._weight_stationary
        for n in counts:
            tile = -(-sizes // n)
            shapes = cut(flow, tile, point)
            if len(shapes):
                shapes[:, T3] = n
                pieces.append(shapes)
        if not pieces:
            return np.zeros((0, WIDTH), dtype=np.int64)
        rows = np.concatenate(pieces)
        acc, words, lines = needs(
            self._set, np.zeros(len(rows), dtype=np.int64), rows, self.space.double_buffer
        )
        sp = lines * point.dim if self.space.rules == "gemmini" else words
        rows = rows[(acc <= point.words_per_column) & (sp <= point.scratchpad_kib * 1024)]
        orders = len(DRAM_ORDERS)
        many = np.repeat(rows, orders, axis=0)
        many[:, ORDER] = np.tile(np.arange(orders), len(rows))
        return many

    def _weight_stationary(self, flow: Dataflow, tile: Ints, point: Point) -> Genomes:
        row, others = _row_axes(DATAFLOWS[flow])
        row_splits = _leading(minimal_splits(int(tile[row]), point.dim))
        k_splits = self._column_splits(row, tile, point)
        share = point.words_per_column // (2 if self.space.double_buffer else 1)
        pixels = [int(tile[a]) for a in (P_AXIS, _Q, _N)]
        inner = self._pixel_splits(*pixels, share)
        streamed, held = len(inner), int(np.prod(pixels) <= point.words_per_column)
        rows = trivial(len(row_splits) * len(k_splits) * (streamed + held), FLOWS.index(flow))
        rows[:, T1][:, others] = tile[others]
        start = 0
        for lanes, row_blocks in row_splits:
            for columns, k_blocks in k_splits:
                part = rows[start : start + streamed + held]
                part[:, ROWS], part[:, COLUMNS] = lanes, columns
                part[:, T1][:, row] = row_blocks
                part[:streamed, T1][:, P_AXIS:] = inner[:, 0]
                part[:streamed, T2][:, P_AXIS:] = inner[:, 1]
                part[:streamed, T2][:, K_AXIS] = k_blocks
                part[streamed:, T1][:, P_AXIS:] = pixels
                part[streamed:, T1][:, K_AXIS] = k_blocks
                start += streamed + held
        return rows

    def _find_pixel_splits(self, p: int, q: int, n: int, share: int) -> Ints:
        """Ways to cut a tile of p x q x n pixels into accumulator tiles of at most `share`, (ways, 2, 3):
        factors inside and blocks outside; none that another beats in all extents and in blocks."""
        if share < 1:
            return np.zeros((0, 2, 3), dtype=np.int64)
        ways = [np.array(minimal_splits(size, share), dtype=np.int64).reshape(-1, 2) for size in (p, q, n)]
        grid = np.stack([g.ravel() for g in np.meshgrid(*(np.arange(len(w)) for w in ways), indexing="ij")])
        splits = np.stack([w[i] for w, i in zip(ways, grid, strict=True)], axis=2)  # (ways, 2, 3)
        splits = splits[splits[:, 0].prod(1) <= share]
        blocks = splits[:, 1].prod(1)
        traits = np.concatenate([splits.prod(1), blocks[:, None]], axis=1)
        splits = splits[np.lexsort((traits.sum(1), blocks))]
        blocks = splits[:, 1].prod(1)
        traits = np.concatenate([splits.prod(1), blocks[:, None]], axis=1)
        kept: list[int] = []
        for i in range(len(splits)):
            if not kept or not (traits[kept] <= traits[i]).all(1).any():
                kept.append(i)
        return np.asarray(splits[kept])

    def _column_splits(self, row: int, tile: Ints, point: Point) -> Splits:
        """Ways to cut K into columns and blocks."""
        k, c = int(tile[K_AXIS]), int(tile[C_AXIS])
        if row == C_AXIS:
            return _leading(minimal_splits(k, point.dim))
        columns = {inside for inside, _ in minimal_splits(k, point.dim)}
        if self.space.rules == "gemmini":
            # Wider lines of input: the fewest columns for each number of blocks of C.
            columns |= {inside for inside, _ in minimal_splits(c, point.dim)}
        return [(inside, -(-k // inside)) for inside in sorted(columns)]

    def _output_stationary(self, flow: Dataflow, tile: Ints, point: Point) -> Genomes:
        words = point.words_per_column
        row, others = _row_axes(DATAFLOWS[flow])
        size, k_splits = int(tile[row]), self._column_splits(row, tile, point)
        share = words // (2 if self.space.double_buffer else 1)
        streamed = _leading(minimal_splits(size, min(point.dim, share)))
        held = _leading(minimal_splits(size, min(point.dim, words)))
        rows = trivial(len(k_splits) * (len(streamed) + len(held)), FLOWS.index(flow))
        rows[:, T1][:, [_R, _S, C_AXIS]] = tile[[_R, _S, C_AXIS]]
        start = 0
        for inside, k_blocks in k_splits:
            for level, splits in ((T2, streamed), (T1, held)):
                part = rows[start : start + len(splits)]
                part[:, COLUMNS] = inside
                part[:, ROWS] = [lanes for lanes, _ in splits]
                part[:, level][:, row] = [blocks for _, blocks in splits]
                part[:, level][:, others] = tile[others]
                part[:, level][:, K_AXIS] = k_blocks
                start += len(splits)
        return rows


def _row_axes(rule: DataflowRule) -> tuple[int, list[int]]:
    """Place in `AXES` of the dimension along the rows, and of its peers in what stays."""
    return AXES.index(rule.row), [AXES.index(name) for name in rule.row_peers]


def _cheapest(bounds: Floats, below: float, amount: int) -> Ints:
    """Indices of the `amount` least bounds under `below`, ascending."""
    index = np.flatnonzero(bounds < below)
    if len(index) > amount:
        # of equal ones those that come first: which of them a partition takes depends on the processor
        last = np.partition(bounds[index], amount - 1)[amount - 1]
        index = index[bounds[index] <= last]
    return index[np.argsort(bounds[index], kind="stable")][:amount]
