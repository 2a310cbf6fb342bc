"""Lower bounds on the cost of all mappings that cut a problem into the same scratchpad tiles.

A mapping of the reference model moves tiles of some size into the scratchpad. Along each loop dimension of
bound b, n passes at DRAM need tiles of at least ceil(b/n), and n itself may be taken minimal for its tile
size (`least_counts`), so that some 2 sqrt(b) values of n per dimension stand for all mappings. For such a
vector of counts (a *node*), `TileGrid.bounds` gives a value that no mapping with these counts undercuts on one
region of hardware: DRAM traffic of the best loop order, as few passes over the array and as few weight refills as the
array side and the accumulator permit. What lies below is therefore exact but for the padding of the splits
inside the scratchpad.

Why this is valid: every term of the model is non-decreasing in each factor as long as the counts and orders
stay (traffic and capacities are products and windows of them; vanishing loops only extend reuse), so tiles of
exactly ceil(b/n), extents n ceil(b/n), and the minimal number of array passes give lower bounds of all terms.
The innermost DRAM loop that exists is irrelevant to exactly one tensor, which alone is reused: hence three
cases, in each of which that tensor is granted the reuse of all its irrelevant loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from baco.accel.dataflows import DATAFLOWS, Dataflow
from baco.compiler.mapping.batch import AXES
from baco.exploration.space import DesignSpace
from baco.workloads.problem import DIMS, Problem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_P = AXES.index("P")
#: Counts whose ratio is below this share a block, unless the whole grid is small.
_BLOCK_RATIO, _SMALL_GRID = 1.5, 4096


@dataclass(frozen=True)
class Point:
    """One hardware point: array side and capacities in KiB."""

    dim: int
    accumulator_kib: float
    scratchpad_kib: float

    @property
    def words_per_column(self) -> int:
        """32-bit accumulator words of one array column."""
        return int(self.accumulator_kib * 1024 / (4 * self.dim))


@dataclass(frozen=True)
class Region:
    """A box of hardware points, from the least to the largest of each value.

    A bound for a region charges for `low`'s memories and grants what `high` holds and its array does, which
    is no more than any point inside costs.
    """

    low: Point
    high: Point

    @classmethod
    def of(cls, point: Point) -> Region:
        """The region of one point."""
        return cls(point, point)

    @property
    def words_per_column(self) -> int:
        """The most 32-bit accumulator words of an array column."""
        return int(self.high.accumulator_kib * 1024 / (4 * self.low.dim))


def least_counts(bound: int) -> Ints:
    """The numbers of passes n for which no smaller n has tiles of the same size ceil(bound/n); ascending."""
    n = np.arange(1, bound + 1)
    return np.unique(-(-bound // np.unique(-(-bound // n))))


class TileGrid:
    """All scratchpad tilings of one problem: nodes, grouped into blocks of neighbouring counts.

    A block is bounded like a node with the fewest passes and the smallest tiles of its members.

    Attributes:
        counts, tiles: per dimension (`AXES` order), passes at DRAM and the least tile they need.
        shape: number of blocks along P, R, S, C, K, Q, N; a block is an index into this grid, flattened.
    """

    def __init__(self, problem: Problem, space: DesignSpace) -> None:
        self.problem = problem
        self.space = space
        self._sizes = [problem.bounds[DIMS.index(axis)] for axis in AXES]
        self.counts = [least_counts(size) for size in self._sizes]
        self.tiles = [-(-size // n) for size, n in zip(self._sizes, self.counts, strict=True)]
        ratio = 1.0 if np.prod([len(c) for c in self.counts]) <= _SMALL_GRID else _BLOCK_RATIO
        self._edges = [_blocks(c, ratio) for c in self.counts]
        self._order = [_P, *(i for i in range(7) if i != _P)]
        self.shape = tuple(len(self._edges[i]) - 1 for i in self._order)

    def open(self, blocks: Ints) -> Ints:
        """(nodes, 7) DRAM counts of all nodes of some blocks, `AXES` order."""
        places = dict(zip(self._order, np.unravel_index(blocks, self.shape), strict=True))
        first = np.stack([self._edges[i][places[i]] for i in range(7)], axis=1)
        width = np.stack([self._edges[i][places[i] + 1] for i in range(7)], axis=1) - first
        size = width.prod(1)
        block = np.repeat(np.arange(len(blocks)), size)
        number = np.arange(len(block)) - np.repeat(size.cumsum() - size, size)
        nodes = np.empty((len(block), 7), dtype=np.int64)
        for axis in range(7):
            # A member's number within its block, read as digits of mixed radix.
            nodes[:, axis] = self.counts[axis][first[block, axis] + number % width[block, axis]]
            number //= width[block, axis]
        return nodes

    def block_bounds(self, flow: Dataflow, region: Region, weighings: Floats) -> Floats:
        """Lower bounds of weighing * energy + latency by block, (weighings, blocks); infinite where nothing fits.

        Args:
            weighings: (G,) cycles per pJ; infinity stands for energy alone.
        """
        counts = [c[e[:-1]] for c, e in zip(self.counts, self._edges, strict=True)]
        tiles = [t[e[1:] - 1] for t, e in zip(self.tiles, self._edges, strict=True)]

        def along(values: list[Ints], place: int) -> list[Floats]:
            picked = [v[place : place + 1] if i == _P else v for i, v in enumerate(values)]
            return [
                v.astype(np.float64).reshape([-1 if i == j else 1 for j in range(7)])
                for i, v in enumerate(picked)
            ]

        # One block of P at a time keeps temporaries small.
        slabs = [
            self._bounds(flow, region, weighings, along(counts, i), along(tiles, i))
            for i in range(self.shape[0])
        ]
        return np.concatenate(slabs, axis=1)

    def node_bounds(self, flow: Dataflow, region: Region, weighings: Floats, nodes: Ints) -> Floats:
        """Likewise by node, (weighings, nodes), for `nodes` as `open` gives them."""
        tiles = -(-np.array(self._sizes) // nodes)
        n = [column.astype(np.float64) for column in nodes.T]
        return self._bounds(flow, region, weighings, n, [column.astype(np.float64) for column in tiles.T])

    def _static(self, region: Region) -> float:
        """Least static energy of a cycle in a region: the area never falls as a capacity grows, but may in the side."""
        low, high = region.low, region.high
        # a region of one accelerator may stand beside those of the space
        sides = [one for one in self.space.dim if low.dim <= one <= high.dim] or [low.dim, high.dim]
        pj = self.space.static_pj_of(1.0, np.array(sides), low.accumulator_kib, low.scratchpad_kib)
        return float(np.min(pj))

    def _bounds(
        self, flow: Dataflow, region: Region, weighings: Floats, n: list[Floats], tile: list[Floats]
    ) -> Floats:
        """Bounds for at least `n` passes and tiles of at least `tile`, lists by dimension of arrays that
        broadcast to one shape (...), as (weighings, size)."""
        p, space, dim = self.problem, self.space, region.high.dim
        nr, ns, nc, nk, np_, nq, nn = n
        k, tp, tq, tn = tile[3:]
        xr, xs, xc, xk, xp, xq, xn = (
            np.maximum(a * b, size) for a, b, size in zip(n, tile, self._sizes, strict=True)
        )
        reduction, pixel_loops = nr * ns * nc, np_ * nq * nn
        k_blocks = np.ceil(k / dim)
        k_passes = np.maximum(nk * k_blocks, np.ceil(self._sizes[3] / dim))
        copies = copies_at_least(p, space, n)
        fits = (
            scratchpad_bytes(p, space, tile, copies, region.low.dim, dim) <= region.high.scratchpad_kib * 1024
        )
        words = region.words_per_column
        pixels = tp * tq * tn
        held = copies[2] * pixels * k_blocks <= words
        covered = (xr, xs, xc, xk, xp, xq, xn)
        by_pixels, by_kernel = (xc * xn * one for one in swept(p, n, tile, covered))

        weights, red, pix = xr * xs * xc * xk, xr * xs * xc, xp * xq * xn
        out = pix * xk
        macs = pix * red * xk
        rule = DATAFLOWS[flow]
        row, others = AXES.index(rule.row), [AXES.index(name) for name in rule.row_peers]
        # of what is along the rows: tiles at DRAM, least size of one, whole; of its peers: all of it, and whether tiles are 1
        n_row, t_row, whole = n[row], tile[row], self._sizes[row]
        beside = covered[others[0]] * covered[others[1]]
        lone = (tile[others[0]] == 1) & (tile[others[1]] == 1)
        if not rule.sums_stay:
            row_passes = np.maximum(n_row * np.ceil(t_row / dim), np.ceil(whole / dim))
            compute = pix * beside * row_passes * k_passes
            updates = 2 * beside * row_passes - 1  # accesses of an output in the accumulator, fills apart
            streams = pix * red * k_passes
            share = words // (2 if space.double_buffer else 1)
            passes = np.ceil(pixels / max(share, 1))
            refills = pixel_loops * np.where(held, 1.0, passes)
            # With one weight block a tile, the registers keep it while the pixels pass.
            single = lone & (t_row <= dim)
            fits = fits & (held | (share > 0))
        else:
            rows = min(dim, words)
            fits = fits & (rows > 0)
            row_passes = np.maximum(n_row * np.ceil(t_row / max(rows, 1)), np.ceil(whole / max(rows, 1)))
            compute = beside * red * row_passes * k_passes
            streams = pix * red * k_passes + xk * beside * red * row_passes
            single = lone & (t_row <= dim) & (k_blocks == 1)

        best = np.full((len(weighings), *np.broadcast_shapes(*(a.shape for a in n))), np.inf)
        cases = (
            (1.0, by_pixels * nk, reduction, fits),
            (pixel_loops, np.minimum(by_pixels, by_kernel), reduction, fits),
            (pixel_loops, by_kernel * nk, 1.0, fits & held),
        )
        for w_times, inputs, o_times, possible in cases:
            w_fills = weights * w_times
            if not rule.sums_stay:
                fills = weights * np.where(single, np.where(k_blocks == 1, w_times, pixel_loops), refills)
                registers, a2 = macs + fills, streams + fills
                per_output = updates + o_times
            else:
                drains = np.where(single, o_times, reduction)
                registers, a2 = macs + out * drains, streams
                per_output = 2 * drains - 1 + o_times
            a1, a2 = out * per_output, a2 + inputs + w_fills
            a3 = w_fills + inputs + out * (2 * o_times - 1)
            busy = np.maximum(compute, pix * k_passes * per_output / 2)
            pj, cycles = self._costs(region, (macs, registers, a1, a2, a3), busy)
            for g, weighing in enumerate(weighings.tolist()):
                value = pj if np.isinf(weighing) else weighing * pj + cycles
                np.minimum(best[g], np.where(possible, value, np.inf), out=best[g])
        return best.reshape(len(weighings), -1) * p.groups

    def _costs(self, region: Region, words: tuple[Floats, ...], busy: Floats) -> tuple[Floats, Floats]:
        """Energy (pJ) and cycles in a region at least.

        Args:
            words: multiply-accumulates, then words accessed at registers, accumulator, scratchpad and main memory.
            busy: cycles of array and accumulator.
        """
        space, low, dim = self.space, region.low, region.high.dim
        energy = space.base.energy_law
        prices = (
            float(energy.accumulator_pj(low.accumulator_kib, float(dim))),
            float(energy.scratchpad_pj(low.scratchpad_kib, float(dim))),
            energy.dram_pj,
        )
        macs, registers = energy.array_terms(words[0], words[1], float(low.dim))
        a1, a2, a3 = (price * amount for price, amount in zip(prices, words[2:], strict=True))
        memories = np.maximum(words[3] / (2 * dim), words[4] / space.base.dram_bytes_per_cycle)
        cycles = np.maximum(busy, memories)
        pj = macs + registers + a1 + a2 + a3
        idle = self._static(region)
        return pj + idle * cycles if idle else pj, cycles


def copies_at_least(p: Problem, space: DesignSpace, n: Sequence[Floats]) -> tuple[Floats, Floats, Floats]:
    """Copies of tiles of weights, inputs and outputs where tiles change `n` times along each dimension."""
    if not space.double_buffer:
        one = np.ones(1)
        return one, one, one
    nr, ns, nc, nk, np_, nq, nn = n
    reduction, pixels = nr * ns * nc, np_ * nq * nn
    used = reduction * nk, reduction * pixels, pixels * nk
    weights, inputs, outputs = (np.minimum(2.0, p.groups * times) for times in used)
    return weights, inputs, outputs


def scratchpad_bytes(
    p: Problem, space: DesignSpace, tile: Sequence[Floats], copies: tuple[Floats, ...], low: int, high: int
) -> Floats:
    """Bytes that tiles take at least on arrays of sides between two."""
    r, s, c, k, _, _, n = tile
    width, height = _extents(p, tile)
    if space.rules == "gemmini":
        weights, inputs = (r * s * c) * np.ceil(k / high), n * width * height * np.ceil(c / high)
        return np.asarray(low * (copies[0] * weights + copies[1] * inputs))
    return np.asarray(copies[0] * (r * s * c * k) + copies[1] * (n * width * height) * c)


def swept(
    p: Problem, n: Sequence[Floats], tile: Sequence[Floats], whole: Sequence[Floats | int]
) -> tuple[Floats, Floats]:
    """Pixels that the tiles of an image take in one pass over it, where a loop over results slides, and where one over the
    window does; `whole` has the extents of all tiles."""
    nr, ns, _, _, np_, nq, _ = n
    r, s, _, _, tp, tq, _ = tile
    xr, xs, _, _, xp, xq, _ = whole
    width, height = _extents(p, tile)
    all_w, all_h = np_ * nr * width, nq * ns * height
    over_p = np.minimum(all_w, nr * ((xp - 1) * p.stride_w + (r - 1) * p.dilation_w + 1))
    over_q = np.minimum(all_h, ns * ((xq - 1) * p.stride_h + (s - 1) * p.dilation_h + 1))
    over_r = np.minimum(all_w, np_ * ((tp - 1) * p.stride_w + (xr - 1) * p.dilation_w + 1))
    over_s = np.minimum(all_h, nq * ((tq - 1) * p.stride_h + (xs - 1) * p.dilation_h + 1))
    return np.minimum(over_p * all_h, all_w * over_q), np.minimum(over_r * all_h, all_w * over_s)


def _extents(p: Problem, tile: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Columns and rows of the input that a tile takes."""
    r, s, _, _, tp, tq, _ = tile
    return (tp - 1) * p.stride_w + (r - 1) * p.dilation_w + 1, (tq - 1) * p.stride_h + (
        s - 1
    ) * p.dilation_h + 1


def _blocks(counts: Ints, ratio: float) -> Ints:
    """Indices at which groups of ascending counts begin, and the end; a group's counts differ by less than `ratio`
    (each is alone with a ratio of 1)."""
    edges = [0]
    for i in range(1, len(counts)):
        if counts[i] >= ratio * counts[edges[-1]]:
            edges.append(i)
    return np.array([*edges, len(counts)])
