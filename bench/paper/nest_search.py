"""Good loop nests for a problem on an analytical accelerator, so that baselines are not straw men.

Random nests that fill the memories, then steepest descent from the best of them over all single and paired changes
of factors and all loop orders. Every nest seen that fits is a candidate for the (energy, latency) hull, which is what
a network needs: its layers are combined exactly by `baco.exploration.combine`. The tests compare with exhaustive enumeration
on small problems, and with the proven optimum of `baco.exploration.cost.exact` where the accelerator is Gemmini's structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from baco.accel.analytical import AnalyticalAccelerator
from baco.bench.paper.nest import NEST_ORDERS, Floats, Ints, NestBatch, NestModel
from baco.compiler.mapping.batch import AXES
from baco.exploration.combine import chain, lower_hull
from baco.workloads.network import Task
from baco.workloads.problem import Problem

_DIMS = len(AXES)
#: Random nests to begin with, steps in which they grow, nests kept between steps of descent, and its most steps.
_STARTS, _GROWTH, _ELITES, _MOST_STEPS = 1024, 60, 12, 80
#: Elites are taken from as many different settings of the axes as there are, so that one does not crowd out others.
_PER_ARRAY = 3
#: Numbers of blocks outside that a factor is cut to.
_BLOCKS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 64, 128)
#: Random beginnings of a search for one problem, one after the other.
RESTARTS = 3
#: Times that a network's layers are searched.
_ROUNDS = 3


@dataclass(frozen=True)
class NestFront:
    """The lower hull of (energy, latency) of all nests that a search has seen.

    Attributes:
        energy_pj, latency_cycles: (V,), from least latency to least energy.
        nests: that many nests.
        evaluations: nests costed.
    """

    energy_pj: Floats
    latency_cycles: Floats
    nests: NestBatch
    evaluations: int

    @property
    def edp(self) -> float:
        """Least energy-delay product of one layer, µJ·cycles."""
        return float((self.energy_pj * 1e-6 * self.latency_cycles).min())

    def best(self) -> tuple[float, float]:
        """(energy in pJ, latency in cycles) of the nest with the least energy-delay product."""
        i = int((self.energy_pj * self.latency_cycles).argmin())
        return float(self.energy_pj[i]), float(self.latency_cycles[i])


class _Search:
    def __init__(self, model: NestModel, seed: int) -> None:
        self.model = model
        self.rng = np.random.default_rng(seed)
        self.evaluations = 0
        self.front: tuple[Floats, Floats, NestBatch] | None = None
        #: Factors that can be chosen: (0, level, dimension) temporal, (1, axis, dimension) spatial.
        inner = np.argwhere(model.loop_dims[:-1])
        spread = np.argwhere(model.axis_dims)
        self.places = [(0, int(a), int(d)) for a, d in inner if model.bounds[d] > 1]
        self.places += [(1, int(a), int(d)) for a, d in spread if model.bounds[d] > 1]
        self.ordered = [level for level in range(1, model.levels) if model.loop_dims[level].any()]

    def costs(self, nests: NestBatch) -> tuple[NestBatch, Floats, Floats]:
        """Closed nests that fit, with their energies and latencies; all are remembered."""
        nests = self.model.close(nests)
        nests = nests.take(self.model.fits(nests))
        found = self.model.cost(nests)
        self.evaluations += len(nests)
        energy, latency = found.energy_pj, found.latency_cycles
        if len(nests):
            old = self.front
            all_e = energy if old is None else np.concatenate([old[0], energy])
            all_l = latency if old is None else np.concatenate([old[1], latency])
            hull = lower_hull(all_e, all_l)
            together = nests if old is None else old[2].join(nests)
            self.front = all_e[hull], all_l[hull], together.take(hull)
        return nests, energy, latency

    def random(self, size: int) -> NestBatch:
        """Nests grown factor by factor as long as they fit."""
        model = self.model
        shape = (model.levels, _DIMS, size)
        nests = NestBatch(
            np.ones(shape, dtype=np.int64),
            np.ones((len(model.axis_size), _DIMS, size), dtype=np.int64),
            self.rng.integers(0, len(NEST_ORDERS), (model.levels, size)),
        )
        if not self.places:
            return nests
        index = np.arange(size)
        places = np.array(self.places)
        spatial_first = np.array([kind == 1 for kind, _, _ in self.places])
        for step in range(_GROWTH):
            choose = np.where(spatial_first)[0] if step < _GROWTH // 4 and spatial_first.any() else None
            pick = (
                self.rng.integers(0, len(places), size) if choose is None else self.rng.choice(choose, size)
            )
            kind, where, dim = places[pick].T
            left = -(-model.bounds[dim] // self._inside(nests)[dim, index])
            # Either a doubling, or as much as is left of the bound.
            factor = np.where(self.rng.random(size) < 0.3, left, np.minimum(left, 2))
            temporal, spatial = nests.temporal.copy(), nests.spatial.copy()
            t, s = kind == 0, kind == 1
            temporal[where[t], dim[t], index[t]] *= factor[t]
            room = model.axis_size[where[s]] // nests.spatial[where[s], :, index[s]].prod(1)
            spatial[where[s], dim[s], index[s]] *= np.minimum(factor[s], np.maximum(room, 1))
            larger = NestBatch(temporal, spatial, nests.order)
            good = model.fits(larger)
            nests = NestBatch(
                np.where(good, temporal, nests.temporal), np.where(good, spatial, nests.spatial), nests.order
            )
        return nests

    def _inside(self, nests: NestBatch) -> Ints:
        return np.asarray(nests.temporal[:-1].prod(0) * nests.spatial.prod(0))

    def neighbours(self, nests: NestBatch) -> NestBatch:
        """All nests one change away: one factor, two factors of a dimension or of a memory, one loop order."""
        return join([self._one(nests.take(np.array([i]))) for i in range(len(nests))])

    def _one(self, nest: NestBatch) -> NestBatch:
        inside = self._inside(nest)[:, 0]
        values = {slot: self._values(nest, slot, int(inside[slot[2]])) for slot in self.places}
        changes: list[list[tuple[tuple[int, int, int], int]]] = [
            [(slot, value)] for slot, choices in values.items() for value in choices
        ]
        for a, slot in enumerate(self.places):
            now = _get(nest, slot)
            for other in self.places[a + 1 :]:
                then = _get(nest, other)
                for grow, shrink, low, high in ((slot, other, then, now), (other, slot, now, then)):
                    if low > 1:
                        for smaller in {(low + 1) // 2, 1}:
                            larger = high * -(-low // smaller)
                            changes.append([(shrink, smaller), (grow, larger)])
                            if grow[2] != shrink[2]:
                                most = -(
                                    -int(self.model.bounds[grow[2]]) // max(1, int(inside[grow[2]]) // high)
                                )
                                changes += [[(shrink, smaller), (grow, v)] for v in {2 * high, most}]
        size = len(changes)
        many = NestBatch(*(np.repeat(v, size, -1) for v in (nest.temporal, nest.spatial, nest.order)))
        for i, change in enumerate(changes):
            for (kind, where, dim), value in change:
                (many.temporal, many.spatial)[kind][where, dim, i] = value
        orders = []
        for level in self.ordered:
            turned = NestBatch(
                *(np.repeat(v, len(NEST_ORDERS), -1) for v in (nest.temporal, nest.spatial, nest.order))
            )
            turned.order[level] = np.arange(len(NEST_ORDERS))
            orders.append(turned)
        return join([many, *orders])

    def _values(self, nest: NestBatch, place: tuple[int, int, int], inside: int) -> list[int]:
        """Other values worth trying for one factor."""
        now = _get(nest, place)
        others = max(1, inside // now)
        most = -(-int(self.model.bounds[place[2]]) // others)
        if place[0] == 1:
            row = nest.spatial[place[1], :, 0]
            most = min(most, int(self.model.axis_size[place[1]]) // max(1, int(row.prod()) // now))
        blocks = [-(-most // n) for n in _BLOCKS]
        outer = -(-int(self.model.bounds[place[2]]) // inside)
        even = [
            -(-int(self.model.bounds[place[2]]) // (others * n))
            for n in (outer - 1, outer, outer + 1)
            if n > 0
        ]
        wanted = {1, now - 1, now + 1, now // 2, 2 * now, 3 * now, now // 3, *blocks, *even}
        return sorted(v for v in wanted if 1 <= v <= most and v != now)

    def descend(self, value: _Value, afresh: bool = True) -> None:
        """Steepest descent from random nests, or from those on the hull."""
        if afresh or self.front is None:
            nests, energy, latency = self.costs(self.random(_STARTS))
        else:
            energy, latency, nests = self.front
        nests, best = self._elite(nests, value(energy, latency))
        tried: set[bytes] = set()
        for _ in range(_MOST_STEPS):
            fresh = [i for i in range(len(nests)) if _key(nests, i) not in tried]
            if not fresh:
                break
            tried.update(_key(nests, i) for i in fresh)
            around, energy, latency = self.costs(self.neighbours(nests.take(np.array(fresh))))
            nests, best = self._elite(nests.join(around), np.concatenate([best, value(energy, latency)]))

    def _elite(self, nests: NestBatch, value: Floats) -> tuple[NestBatch, Floats]:
        """The best, a few at most for each setting of the axes and no two alike."""
        kept: list[int] = []
        seen: set[bytes] = set()
        arrays: dict[bytes, int] = {}
        for i in np.argsort(value, kind="stable").tolist():
            key, array = _key(nests, i), nests.spatial[..., i].tobytes()
            if key in seen or arrays.get(array, 0) >= _PER_ARRAY:
                continue
            seen.add(key)
            arrays[array] = arrays.get(array, 0) + 1
            kept.append(i)
            if len(kept) == _ELITES:
                break
        index = np.array(kept, dtype=np.int64)
        return nests.take(index), value[index]


class _Value:
    """What is minimised: energy * latency of the layer, or a weighted sum of the two."""

    def __init__(self, weighing: float | None) -> None:
        self.weighing = weighing

    def __call__(self, energy: Floats, latency: Floats) -> Floats:
        if self.weighing is None:
            return energy * latency
        return self.weighing * energy + latency


def _get(nest: NestBatch, place: tuple[int, int, int]) -> int:
    kind, where, dim = place
    return int((nest.temporal, nest.spatial)[kind][where, dim, 0])


def _key(nests: NestBatch, i: int) -> bytes:
    return b"".join(v[..., i].tobytes() for v in (nests.temporal, nests.spatial, nests.order))


def join(batches: Sequence[NestBatch]) -> NestBatch:
    """Several batches as one."""
    return NestBatch(
        np.concatenate([b.temporal for b in batches], -1),
        np.concatenate([b.spatial for b in batches], -1),
        np.concatenate([b.order for b in batches], -1),
    )


def search_nests(
    problem: Problem,
    accelerator: AnalyticalAccelerator,
    *,
    weighings: Sequence[float] = (),
    seed: int = 0,
    restarts: int = RESTARTS,
) -> NestFront:
    """Good nests of one problem for its energy-delay product, and for every weighing * energy + latency asked for.

    Args:
        weighings: cycles per pJ.
        seed: of the random starts; the same seed gives the same result.
    """
    search = _Search(NestModel(problem, accelerator), seed)
    for weighing in (None, *weighings):
        for _ in range(restarts):
            search.descend(_Value(weighing))
    assert search.front is not None, "the nest of ones fits every accelerator"
    energy, latency, nests = search.front
    return NestFront(energy, latency, nests, search.evaluations)


def best_of_random(
    problem: Problem, accelerator: AnalyticalAccelerator, samples: int, *, seed: int = 0
) -> tuple[float, float]:
    """(energy in pJ, latency in cycles) of the nest with the least energy-delay product of so many random ones.

    They are grown until they fill the accelerator, so that all are legal and none is as poor as an even draw has most of
    them.
    """
    search = _Search(NestModel(problem, accelerator), seed)
    for begin in range(0, samples, _STARTS):
        search.costs(search.random(min(_STARTS, samples - begin)))
    assert search.front is not None
    energy, latency, _ = search.front
    i = int((energy * latency).argmin())
    return float(energy[i]), float(latency[i])


@dataclass(frozen=True)
class NestNetwork:
    """A workload on an analytical accelerator, layers one after the other.

    Attributes:
        energy_pj, latency_cycles: totals, counts included.
        evaluations: nests costed.
    """

    energy_pj: float
    latency_cycles: float
    evaluations: int

    @property
    def edp(self) -> float:
        """µJ·cycles."""
        return self.energy_pj * 1e-6 * self.latency_cycles


def search_network(
    tasks: Sequence[Task], accelerator: AnalyticalAccelerator, *, seed: int = 0
) -> NestNetwork:
    """The least product of summed energy and summed latency that searching every layer finds.

    Every layer is searched for its own energy-delay product first, then from there for the trade of energy for latency
    that the network as a whole makes.
    """
    counts = [task.count for task in tasks]
    problems = list(dict.fromkeys(task.problem for task in tasks))
    searches = {p: _Search(NestModel(p, accelerator), seed) for p in problems}
    total: tuple[float, float] | None = None
    for round_ in range(_ROUNDS):
        value = _Value(None if total is None else total[1] / total[0])
        for search in searches.values():
            search.descend(value, afresh=round_ == 0)
        fronts = [searches[task.problem].front for task in tasks]
        merged = chain([f[0] for f in fronts if f], [f[1] for f in fronts if f], counts)
        assert merged is not None
        i = int((merged.energy * merged.latency).argmin())
        total = float(merged.energy[i]), float(merged.latency[i])
    assert total is not None
    return NestNetwork(*total, sum(search.evaluations for search in searches.values()))
