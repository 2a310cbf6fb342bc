"""Analytical costs of loop nests on any stack of memories: the reference model's counting, other level structures.

Rules (those of `baco.exploration.cost.reference`, method specification section 3, said for any number of levels):

* A level's tile is the product of the temporal and spatial factors at and inside it. Each instance of a level is
  filled with its tile of a tensor again whenever a loop outside moves it: the product of all temporal loops outside
  from the innermost one that matters to the tensor on. Instances of a level are all spatial factors outside it.
* Reading a tile that several instances inside want costs one read of the level outside (multicast); partial sums of
  instances inside that belong to the same output are added on their way out for nothing.
* When the innermost loop that matters to the input slides its window, only the union of the windows that it sweeps
  is brought; along array axes too, overlapping windows are read once.
* Outputs: every update writes, and reads what was there unless it is the first; partial sums that leave a level are
  read there and update the level outside, which returns them.
* The level that serves the multipliers is read for every multiplication, shared along the axes that do not matter
  to the tensor.

Factors need not divide the bounds; padded work is charged, as in the reference model. Latency is the largest of the
compute cycles and, for every level, accesses over bandwidth (transfers overlap computing).

Arrays have the batch last and dimensions in the order of `baco.exploration.cost.reference.AXES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from baco.accel.analytical import AnalyticalAccelerator
from baco.compiler.mapping.batch import AXES
from baco.exploration.cost.genome import DRAM_ORDERS, INNER_ORDER
from baco.workloads.problem import DIMS, Problem

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_DIMS = len(AXES)
_R, _S, _C, _K, _P, _Q, _N = range(_DIMS)
#: Axes (of `AXES`) that index each tensor.
_RELEVANT = {"W": (_R, _S, _C, _K), "I": (_R, _S, _C, _P, _Q, _N), "O": (_K, _P, _Q, _N)}
_WINDOW = (_R, _S, _P, _Q)
#: Loop orders of a level, innermost first, that differ in what they reuse; place of every axis in them.
NEST_ORDERS = (*DRAM_ORDERS, INNER_ORDER)
_RANK = np.array([[order.index(axis) for axis in AXES] for order in NEST_ORDERS])
_NOWHERE = 10_000


@dataclass(frozen=True)
class NestBatch:
    """Loop nests of one problem on one accelerator.

    Attributes:
        temporal: (levels, 7, B) factors; the outermost level's follow from the others (`close`).
        spatial: (axes, 7, B) factors of every axis of the accelerator, level by level; 1 where not allowed.
        order: (levels, B) indices into `NEST_ORDERS`.
    """

    temporal: Ints
    spatial: Ints
    order: Ints

    def __len__(self) -> int:
        return int(self.order.shape[-1])

    def take(self, index: Ints | Bools) -> NestBatch:
        """The nests at `index`."""
        return NestBatch(self.temporal[..., index], self.spatial[..., index], self.order[..., index])

    def join(self, other: NestBatch) -> NestBatch:
        """These nests and others after them."""
        return NestBatch(
            np.concatenate([self.temporal, other.temporal], -1),
            np.concatenate([self.spatial, other.spatial], -1),
            np.concatenate([self.order, other.order], -1),
        )


@dataclass(frozen=True)
class NestCosts:
    """Costs of a batch.

    Attributes:
        energy_pj, latency_cycles: (B,).
        reads, writes: (levels, B) words, all instances and groups.
        macs: (B,) multiply-accumulates executed, padding included.
    """

    energy_pj: Floats
    latency_cycles: Floats
    reads: Floats
    writes: Floats
    macs: Floats


class NestModel:
    """Costs nests of one problem on one accelerator.

    Args:
        problem: its groups are carried out one after the other.
        accelerator: the stack of memories.
    """

    def __init__(self, problem: Problem, accelerator: AnalyticalAccelerator) -> None:
        self.problem = problem
        self.accelerator = accelerator
        self.bounds = np.array([problem.bounds[DIMS.index(axis)] for axis in AXES], dtype=np.int64)
        self.levels = len(accelerator.levels)
        #: Level of every axis, its size, and which dimensions may be spread along it.
        axes = [(level, axis) for level, memory in enumerate(accelerator.levels) for axis in memory.axes]
        self.axis_level = np.array([level for level, _ in axes], dtype=np.int64)
        self.axis_size = np.array([axis.size for _, axis in axes], dtype=np.int64)
        self.axis_dims = np.array([[name in axis.dims for name in AXES] for _, axis in axes], dtype=bool)
        self.loop_dims = np.array(
            [[name in m.loops for name in AXES] for m in accelerator.levels], dtype=bool
        )

    @cached_property
    def keepers(self) -> dict[str, list[int]]:
        """Levels that keep each tensor, innermost first."""
        return {
            tensor: [i for i, memory in enumerate(self.accelerator.levels) if tensor in memory.kept]
            for tensor in "WIO"
        }

    def close(self, nests: NestBatch) -> NestBatch:
        """With the outermost temporal factors that just cover the bounds."""
        inside = nests.temporal[:-1].prod(0) * nests.spatial.prod(0)
        temporal = nests.temporal.copy()
        temporal[-1] = -(-self.bounds[:, None] // inside)
        return NestBatch(temporal, nests.spatial, nests.order)

    def fits(self, nests: NestBatch) -> Bools:
        """(B,) whether factors are where they may be, axes wide enough, and every tile fits its memory."""
        ones = (nests.temporal == 1) | self.loop_dims[:, :, None]
        good = ones.all((0, 1)) & ((nests.spatial == 1) | self.axis_dims[:, :, None]).all((0, 1))
        good &= (nests.spatial.prod(1) <= self.axis_size[:, None]).all(0)
        tiles = self._tiles(nests)
        for level, memory in enumerate(self.accelerator.levels):
            for store in memory.stores:
                if store.words is not None:
                    good &= sum(self._words(t, tiles[level]) for t in store.tensors) <= store.words
        return np.asarray(good)

    def cost(self, nests: NestBatch) -> NestCosts:
        """Costs of nests, whether or not they fit."""
        temporal = nests.temporal.astype(np.float64)
        spread = self._spread(nests)
        tiles = self._tiles(nests)
        every = spread.prod(1)  # (levels, B) instances that each level fans out to
        outside = np.ones((self.levels, len(nests)))  # instances of each level
        for level in range(self.levels - 2, -1, -1):
            outside[level] = outside[level + 1] * every[level + 1]
        array = every.prod(0)
        steps = temporal.prod((0, 1))
        macs = steps * array
        reads, writes = np.zeros((2, self.levels, len(nests)))
        padded = tiles[-1]
        out = padded[[_K, _P, _Q, _N]].prod(0)
        for tensor in "WIO":
            shared = [d for d in range(_DIMS) if d not in _RELEVANT[tensor]]
            keepers = self.keepers[tensor]
            served = macs / spread[: keepers[0] + 1, shared].prod((0, 1))
            for place, level in enumerate(keepers):
                top = place == len(keepers) - 1
                own = fetched = np.zeros(len(nests))
                if not top:
                    parent = keepers[place + 1]
                    alone = np.ones((_DIMS, len(nests)))
                    own = self._fills(tensor, nests, temporal, tiles[level], alone, level) * outside[level]
                    across = spread[level + 1 : parent + 1].prod(0)
                    fetched = self._fills(tensor, nests, temporal, tiles[level], across, level)
                    fetched = fetched * outside[parent]
                if tensor == "O":
                    first = out * spread[level + 1 :, [_R, _S, _C]].prod((0, 1))
                    writes[level] += served
                    reads[level] += served - first + own
                else:
                    writes[level] += own
                    reads[level] += served
                served = fetched
        groups = self.problem.groups
        reads, writes, macs = reads * groups, writes * groups, macs * groups
        table = self.accelerator.energy
        energy = table.mac_pj * macs
        cycles = steps * groups
        for level, memory in enumerate(self.accelerator.levels):
            energy = energy + memory.access_pj(table) * (reads[level] + writes[level])
            for words, rate in (
                (reads[level] + writes[level], memory.words_per_cycle),
                (reads[level], memory.reads_per_cycle),
                (writes[level], memory.writes_per_cycle),
            ):
                if rate is not None:
                    cycles = np.maximum(cycles, words / (rate * outside[level]))
        return NestCosts(energy, cycles, reads, writes, macs)

    def _spread(self, nests: NestBatch) -> Floats:
        """(levels, 7, B) spatial factors by level."""
        spread = np.ones((self.levels, _DIMS, len(nests)))
        for axis, level in enumerate(self.axis_level):
            spread[level] *= nests.spatial[axis]
        return spread

    def _tiles(self, nests: NestBatch) -> Floats:
        """(levels, 7, B) extents of the tile of one instance of each level."""
        return np.asarray(np.cumprod(nests.temporal * self._spread(nests), axis=0))

    def _words(self, tensor: str, tile: Floats) -> Floats:
        """Words of a tensor in a tile (7, B); the input's halo is part of it."""
        if tensor == "I":
            p, t = self.problem, tile
            width = (t[_P] - 1) * p.stride_w + (t[_R] - 1) * p.dilation_w + 1
            height = (t[_Q] - 1) * p.stride_h + (t[_S] - 1) * p.dilation_h + 1
            return np.asarray(t[_C] * t[_N] * width * height)
        return np.asarray(tile[list(_RELEVANT[tensor])].prod(0))

    def _fills(
        self, tensor: str, nests: NestBatch, temporal: Floats, tile: Floats, across: Floats, level: int
    ) -> Floats:
        """Words that `across` (7, B) instances, each of which keeps `tile` at `level`, take in over the whole nest;
        what several of them want is counted once."""
        loops = temporal[level + 1 :].reshape(-1, len(nests))
        rank = _RANK[nests.order[level + 1 :]].transpose(0, 2, 1)  # (levels outside, 7, B)
        rank = (rank + _DIMS * np.arange(len(rank))[:, None, None]).reshape(-1, len(nests))
        rank = np.where(loops > 1, rank, _NOWHERE)
        axis = np.arange(len(loops)) % _DIMS
        indexes = list(_RELEVANT[tensor])
        relevant = np.isin(axis, indexes)
        first = rank[relevant].min(0)
        reused = np.where(rank[~relevant] < first, loops[~relevant], 1.0).prod(0)
        times = loops.prod(0) / reused
        apart = self._words(tensor, tile) * across[indexes].prod(0)
        if tensor != "I":
            return np.asarray(apart * times)
        swept = tile * across
        slide = np.ones(len(nests))
        for d in _WINDOW:
            moving = np.where((rank == first) & (axis == d)[:, None] & (rank < _NOWHERE), loops, 1.0).prod(0)
            swept[d] *= moving
            slide *= moving
        # Windows that neither overlap nor touch leave gaps, which nobody brings.
        one_step = np.minimum(self._words("I", tile * across), apart)
        return np.asarray(np.minimum(self._words("I", swept), one_step * slide) * (times / slide))
