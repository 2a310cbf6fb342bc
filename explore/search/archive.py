"""Evaluated mappings of every task, and what they cost on any hardware point.

Neither access counts nor latencies depend on capacities, so one evaluation of a mapping serves all accelerators that
can hold it. The archive keeps, for each task, the mappings that are best on some hardware point under some
weighing of energy against latency; scans over hardware points are then plain arithmetic on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.common import portable
from baco.common.portable import Floats
from baco.exploration.combine import Chain, chain
from baco.exploration.cost.bound import compulsory_costs
from baco.exploration.cost.evaluation import ACCUMULATOR, KEPT, SCRATCHPAD, Evaluation, times
from baco.exploration.cost.genome import WIDTH, Genomes
from baco.exploration.cost.model import CostModel
from baco.exploration.cost.reference import Counts
from baco.exploration.search.priced import Priced
from baco.exploration.search.searcher import State
from baco.exploration.space import DesignSpace
from baco.exploration.space.points import HardwarePoints
from baco.workloads.network import Task

_SLOT_BITS = 13
#: Odd multipliers that fingerprint a row.
_MIX = np.random.default_rng(0).integers(0, 2**63, WIDTH, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


@dataclass(frozen=True)
class Scan:
    """Totals of the best combinations found for hardware points under a range of weighings.

    Attributes:
        energy, latency: (H, G) network totals by weighing; infinite where a task does not fit.
        network_energy, network_latency: (H, G, networks) by network, repetitions without mix weights.
    """

    energy: Floats
    latency: Floats
    network_energy: Floats
    network_latency: Floats


@dataclass(frozen=True)
class PointCosts:
    """Energy (pJ) and latency (cycles) of one run of every archive entry of every task on one hardware point; infinite
    where an entry does not fit. What programs do beside the tasks takes `rest_energy` and `rest_latency`, (networks,) each;
    `counts` says how often each task runs by itself.
    """

    energy: list[Floats]
    latency: list[Floats]
    rest_energy: Floats
    rest_latency: Floats
    counts: Floats

    def chosen(self, choices: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Those of the entries chosen (..., tasks), of the same shape."""
        energy, latency = (
            np.stack([values[choices[..., task]] for task, values in enumerate(column)], -1)
            for column in (self.energy, self.latency)
        )
        return energy, latency


class Archive(Evaluation):
    """Evaluated mappings by task, and what they cost anywhere (see `Evaluation` for its arguments)."""

    def __init__(self, tasks: Sequence[Task], space: DesignSpace, model: CostModel | None = None) -> None:
        super().__init__(tasks, space, model)
        self.base: Accelerator = space.base
        self._clear()
        self._tried = np.zeros((len(self.tasks), 1 << _SLOT_BITS), dtype=np.uint32)
        self._beside: tuple[HardwarePoints, CostModel, Floats, tuple[Floats, Floats]] | None = None
        self._least: dict[tuple[float, float, float], tuple[Floats, Floats]] = {}

    def _clear(self) -> None:
        """Forget all entries."""
        self.genomes: list[Genomes] = [np.zeros((0, WIDTH), dtype=np.int64) for _ in self.tasks]
        self.data: list[Floats] = [np.zeros((KEPT + self.model.kept, 0)) for _ in self.tasks]
        self._joined: tuple[Floats, NDArray[np.int64]] | None = None
        self._priced: Priced | None = None

    def narrow(self, sides: NDArray[np.int64]) -> None:
        """Only accelerators of these sides will be asked about."""
        self.model = self.model.narrowed(sides)

    @property
    def double_buffer(self) -> bool:
        """Whether tiles that change are held twice."""
        return self.space.double_buffer

    def fresh(self, task: NDArray[np.int64], genomes: Genomes) -> NDArray[np.bool_]:
        """True for rows not tried lately (their first occurrence); they are remembered as tried.

        The memory is a fixed table of fingerprints a task, newest wins: it stays small enough to be saved
        with every batch, and a forgotten row only costs a second evaluation.
        """
        with np.errstate(over="ignore"):
            mixed = (genomes.astype(np.uint64) * _MIX).sum(1, dtype=np.uint64)
            mixed ^= mixed >> np.uint64(29)
            mixed *= np.uint64(0xBF58476D1CE4E5B9)
            own = mixed + task.astype(np.uint64) * _MIX[0]
        slot = (mixed >> np.uint64(64 - _SLOT_BITS)).astype(np.int64)
        mark = (mixed & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        result = self._tried[task, slot] != mark
        _, first = np.unique(own, return_index=True)
        once = np.zeros(len(genomes), dtype=np.bool_)
        once[first] = True
        self._tried[task, slot] = mark
        return np.asarray(result & once)

    def add(self, task: NDArray[np.int64], genomes: Genomes) -> Counts:
        """Evaluate rows (one evaluation each) and keep them."""
        counts = self.count(task, genomes)
        table = self.measure(task, genomes, counts)
        for t in np.unique(task):
            mine = task == t
            self.genomes[t] = np.concatenate([self.genomes[t], genomes[mine]])
            self.data[t] = np.concatenate([self.data[t], table[:, mine]], axis=1)
        self._joined = None
        return counts

    def costs(self, layer: int, hardware: HardwarePoints) -> tuple[Floats, Floats]:
        """Energy (pJ) and latency (cycles) of one run of every entry of `layer` on every point, (H, n);
        infinite where the entry does not fit."""
        return self._costs(self.data[layer], hardware)

    def _costs(self, data: Floats, hardware: HardwarePoints) -> tuple[Floats, Floats]:
        """`costs` of the entries of a table laid out like `data`."""
        return self.price(data[:, None, :], hardware.each)

    def scan(self, hardware: HardwarePoints, weighings: Floats, prune: bool = False) -> Scan:
        """Best totals for every hardware point and every weighing (cycles per pJ, (H, G)).

        With `prune`, entries that were chosen nowhere are dropped afterwards (those that need least capacity
        stay, so that small hardware never becomes infeasible)."""
        priced = self._prices(hardware)
        priced.weighed(weighings)
        counts, (rest_e, rest_l) = self._programs(hardware)
        points, number = np.arange(len(hardware))[:, None], weighings.shape[1]
        network_e, network_l = np.repeat(rest_e[:, None], number, 1), np.repeat(rest_l[:, None], number, 1)
        for layer in range(len(self.tasks)):
            pj, cycles = priced.energy[layer], priced.latency[layer]
            if pj.shape[1] == 0:
                network_e[:], network_l[:] = np.inf, np.inf
                continue
            best = priced.chosen(layer)
            chosen_e, chosen_l = pj[points, best], cycles[points, best]
            for n in np.flatnonzero(self.members[:, layer]):
                network_e[..., n] += times(counts[:, layer, None], chosen_e)
                network_l[..., n] += times(counts[:, layer, None], chosen_l)
            if prune:
                self._prune(layer, best[np.isfinite(chosen_e)], priced)
        return Scan(portable.total(network_e), portable.total(network_l), network_e, network_l)

    def _prune(self, layer: int, chosen: NDArray[np.int64], priced: Priced) -> None:
        """Drop the entries of a layer that are of no use."""
        data = self.data[layer]
        used = np.zeros(data.shape[1], dtype=np.bool_)
        used[chosen] = True
        for group in self.model.groups(data[KEPT:]):
            of = np.flatnonzero(group)
            if len(of):
                used[of[np.lexsort((data[SCRATCHPAD, of], data[ACCUMULATOR, of]))[0]]] = True
                used[of[np.lexsort((data[ACCUMULATOR, of], data[SCRATCHPAD, of]))[0]]] = True
        if not used.all():
            self.genomes[layer], self.data[layer] = self.genomes[layer][used], data[:, used]
            priced.keep(layer, used)
            self._joined = None

    def _prices(self, hardware: HardwarePoints) -> Priced:
        """What all entries cost on some points; kept for those asked about last."""
        if self._priced is None or self._priced.hardware is not hardware:
            self._priced = Priced(hardware, len(self.tasks), self._costs)
        self._priced.update(self.data)
        return self._priced

    def _programs(self, hardware: HardwarePoints) -> tuple[Floats, tuple[Floats, Floats]]:
        """`runs` and `beside` of some points; kept for those asked about last."""
        known = self._beside
        if known is None or known[0] is not hardware or known[1] is not self.model:
            known = hardware, self.model, self.runs(hardware), self.beside(hardware)
            self._beside = known
        return known[2], known[3]

    def at(self, point: tuple[float, float, float], units: bool = False) -> PointCosts:
        """What all entries cost on one hardware point (dim, accumulator KiB, scratchpad KiB), with row functions or without."""
        place = None if self._priced is None else self._priced.places.get((*point, bool(units)))
        if place is not None:
            assert self._priced is not None
            priced = self._prices(self._priced.hardware)
            counts, (rest_e, rest_l) = self._programs(priced.hardware)
            energy, latency = ([one[place] for one in table] for table in (priced.energy, priced.latency))
            return PointCosts(energy, latency, rest_e[place], rest_l[place], counts[place])
        hardware = self.point(point, units)
        if self._joined is None:
            # One call for all tasks: on one point numpy's own time a call is longer than the arithmetic.
            self._joined = (
                np.concatenate(self.data, axis=1),
                np.cumsum([d.shape[1] for d in self.data])[:-1],
            )
        table, edges = self._joined
        pj, cycles = (np.split(values[0], edges) for values in self._costs(table, hardware))
        rest_e, rest_l = self.beside(hardware)
        return PointCosts(pj, cycles, rest_e[0], rest_l[0], self.runs(hardware)[0])

    def least(self, point: tuple[float, float, float]) -> tuple[Floats, Floats]:
        """Energy (pJ) and latency (cycles) of the compulsory work of one run of every task on one hardware point, (tasks,)
        each (`baco.exploration.cost.bound.compulsory_costs`); what models charge beside that is not in it."""
        if point not in self._least:
            dim, accumulator_kib, scratchpad_kib = (int(size) for size in point)
            accelerator = self.space.accelerator(dim, accumulator_kib, scratchpad_kib)
            problems = [task.problem for task in self.tasks]
            self._least[point] = compulsory_costs(problems, accelerator, self.problems.packs.tolist())
        return self._least[point]

    def chain(self, costs: PointCosts, latency_scale: Floats | None = None) -> Chain | None:
        """Exact Pareto chain of the network on one hardware point; None if a task does not fit.

        Args:
            costs: on that point.
            latency_scale: (tasks,) multiplies latencies while combining, to favour single networks.
        """
        scaled = costs.latency
        if latency_scale is not None:
            scaled = [t * s for t, s in zip(costs.latency, latency_scale, strict=True)]
        merged = chain(costs.energy, scaled, costs.counts.tolist())
        if merged is None:
            return None
        latency = merged.latency
        if latency_scale is not None:
            latency = np.asarray(
                sum(
                    c * t[merged.choice[:, i]]
                    for i, (c, t) in enumerate(zip(costs.counts, costs.latency, strict=True))
                )
            )
        rest_e, rest_l = float(portable.total(costs.rest_energy)), float(portable.total(costs.rest_latency))
        return Chain(merged.energy + rest_e, latency + rest_l, merged.choice)

    def totals(self, costs: PointCosts, choices: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Energy and latency of each network for choices (V, tasks) on one hardware point, (V, networks) each."""
        energy, latency = costs.chosen(choices)
        members = self.members.T
        return (
            portable.matmul(energy * costs.counts, members) + costs.rest_energy,
            portable.matmul(latency * costs.counts, members) + costs.rest_latency,
        )

    def state(self) -> State:
        """Snapshot of the entries and of what was tried."""
        return {
            "archive.rows": np.concatenate(self.genomes),
            "archive.sizes": np.array([len(g) for g in self.genomes]),
            "archive.tried": self._tried.copy(),
        }

    def restore(self, state: State) -> None:
        """Undo `state`; costs are recomputed (and not counted again)."""
        self._tried = state["archive.tried"].copy()
        edges = np.cumsum(state["archive.sizes"])[:-1]
        self._clear()
        for layer, rows in enumerate(np.split(state["archive.rows"], edges)):
            if len(rows):
                self.add(np.full(len(rows), layer, dtype=np.int64), rows)
