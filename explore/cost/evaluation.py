"""What mappings and whole designs need and cost on the accelerators of a space: the one place that archives, samplers, selectors and
finishes ask.

A mapping is counted once (`Evaluation.measure`); what it costs on any accelerator is arithmetic on that (`Evaluation.price`), since
neither accesses nor latencies depend on capacities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.common.portable import Bools, Floats, Ints
from baco.exploration.candidate import Cost
from baco.exploration.cost.genome import Genomes, ProblemSet, count, needs, sides
from baco.exploration.cost.model import CostModel, ReferenceModel
from baco.exploration.cost.reference import Counts
from baco.exploration.space import DesignSpace
from baco.exploration.space.constraints import Constraints
from baco.exploration.space.points import HardwarePoints
from baco.workloads.network import Task

#: Rows of what `Evaluation.measure` says of mappings: multiplications, words accessed at registers, accumulator and scratchpad; the side,
#: accumulator words a column and scratchpad that they need; from the last on what the cost model keeps.
_MACS, _A0, _A1, _A2, SIDE, ACCUMULATOR, SCRATCHPAD, KEPT = range(8)


class Evaluation:
    """Needs and costs of the tasks of a workload in a space.

    Args:
        tasks: the workload's tasks.
        space: gives the buffering rule, the capacity rule, the technology and the constraints.
        model: predicts latency; None for the reference model.

    Attributes:
        problems: of the tasks.
        counts: (tasks,) how often each runs, weights included.
        networks: names, ascending.
        weights: (networks,) of the mix.
        members: (networks, tasks) 1 where a task is part of a network.
    """

    def __init__(self, tasks: Sequence[Task], space: DesignSpace, model: CostModel | None = None) -> None:
        self.tasks, self.space = tuple(tasks), space
        self.model: CostModel = model or ReferenceModel([task.problem for task in tasks], space)
        self.problems = ProblemSet([task.problem for task in tasks], self.model.packs)
        self.counts = np.array([task.count for task in tasks], dtype=np.float64)
        self.networks = sorted({task.network for task in tasks})
        self.weights = np.array(
            [next(task.weight for task in tasks if task.network == name) for name in self.networks]
        )
        self.members = np.array(
            [[task.network == name for task in tasks] for name in self.networks], dtype=float
        )

    def __len__(self) -> int:
        return len(self.tasks)

    # -- needs: free of charge ---------------------------------------------------------------------------

    def needs(self, task: Ints, genomes: Genomes) -> tuple[Floats, Floats, Floats]:
        """Array side, accumulator words a column, and scratchpad need (bytes, or rows under `gemmini` rules) of rows, (B,) each."""
        acc, words, rows = needs(self.problems, task, genomes, self.space.double_buffer)
        own = rows if self.space.rules == "gemmini" else words
        return sides(genomes), *self.model.needs(task, genomes, acc, own)

    def kib(self, accumulator: Any, scratchpad: Any, dim: Any) -> tuple[Any, Any]:
        """KiB of accumulator and scratchpad for needs (see `needs`) on arrays of side `dim`; arrays or tensors that broadcast."""
        row = dim * self.space.base.element_bytes if self.space.rules == "gemmini" else 1
        return accumulator * dim * 4 / 1024, scratchpad * row / 1024

    def holds(self, side: Any, accumulator: Any, scratchpad: Any, at: HardwarePoints) -> Bools:
        """Where accelerators hold needs (see `needs`) that broadcast with them."""
        accumulator_kib, scratchpad_kib = self.kib(accumulator, scratchpad, at.dim)
        return np.asarray(
            (side <= at.dim) & (accumulator_kib <= at.accumulator_kib) & (scratchpad_kib <= at.scratchpad_kib)
        )

    def point(self, point: tuple[float, float, float], units: bool = False) -> HardwarePoints:
        """One accelerator as an array of one: array side, KiB of accumulator and scratchpad, and whether it has row functions."""
        return self.space.points_of(np.array([point], dtype=np.float64), units)

    def fits(self, task: Ints, genomes: Genomes, point: Floats) -> Bools:
        """Whether rows fit their accelerators, array side and KiB of accumulator and scratchpad (B, 3), and add up as these want it."""
        held = self.holds(*self.needs(task, genomes), self.space.points_of(point))
        return held & self._in_order(task, genomes, point)

    def load(self, task: Ints, genomes: Genomes, point: Floats) -> tuple[Floats, Floats]:
        """How much of the accumulator and of the scratchpad each row takes, as a ratio; `point` as of `fits`. Rows that do not add up
        as they are to, take infinitely much of the scratchpad: in smaller tiles they do."""
        _, words, need = self.needs(task, genomes)
        accumulator, scratchpad = self.kib(words, need, point[:, 0])
        held = np.where(self._in_order(task, genomes, point), scratchpad / point[:, 2], np.inf)
        return accumulator / point[:, 1], held

    def _in_order(self, task: Ints, genomes: Genomes, point: Floats) -> Bools:
        return self.model.in_order(task, genomes, point[:, 0].astype(np.int64))

    # -- costs -------------------------------------------------------------------------------------------

    def count(self, task: Ints, genomes: Genomes) -> Counts:
        """What rows access; one evaluation a row."""
        return count(self.problems, task, genomes, self.space.double_buffer, padded=self.model.padded)

    def measure(self, task: Ints, genomes: Genomes, counts: Counts | None = None) -> Floats:
        """What rows cost on any accelerator, (`KEPT` + `CostModel.kept`, B); one evaluation a row, unless it is `count`ed already."""
        counts = counts or self.count(task, genomes)
        words = (one.numpy() for one in (counts.macs, counts.a0, counts.a1, counts.a2))
        return np.stack([*words, *self.needs(task, genomes), *self.model.keep(task, genomes, counts)])

    def price(self, measured: Floats, at: HardwarePoints) -> tuple[Floats, Floats]:
        """Energy (pJ) and latency (cycles) of one run of measured rows on accelerators that broadcast with them; infinite where a row
        does not fit."""
        kept, energy = measured[KEPT:], self.space.base.energy_law
        latency = self.model.cycles(kept, at.dim)
        fits = self.holds(measured[SIDE], measured[ACCUMULATOR], measured[SCRATCHPAD], at)
        fits &= np.isfinite(latency)
        a1, a2 = self.model.local(kept, at.dim)
        own = energy.with_memories(
            sum(energy.array_terms(measured[_MACS], measured[_A0], at.dim)),
            measured[_A1] + a1,
            measured[_A2] + a2,
            accumulator_kib=at.accumulator_kib,
            scratchpad_kib=at.scratchpad_kib,
            dim=at.dim,
        )
        own = own + energy.dram_pj * self.model.words(kept, at.dim)
        idle = at.static_pj * np.where(fits, latency, 0.0)
        return np.where(fits, own + idle, np.inf), np.where(fits, latency, np.inf)

    def runs(self, at: HardwarePoints) -> Floats:
        """How often each task runs by itself on accelerators (...,), weights included: (..., tasks)."""
        rest = self.model.rest
        if rest is None or not rest.fused.points:
            return np.broadcast_to(self.counts, (*np.shape(at.dim), len(self.tasks)))
        return rest.runs(self.tasks, *at.sizes, self.space.units_at(at.units))

    def beside(self, at: HardwarePoints) -> tuple[Floats, Floats]:
        """Energy (pJ) and cycles of what programs do beside the tasks on accelerators (...,): (..., networks) each, weights included;
        zeros where only the tasks count."""
        if self.model.rest is None:
            none = np.zeros((*np.shape(at.dim), len(self.networks)))
            return none, none
        cycles, *amounts = self.model.rest.of(*at.sizes, self.space.units_at(at.units))
        each = at.each
        energy = self.space.base.energy_law.with_memories(
            *amounts,
            accumulator_kib=each.accumulator_kib,
            scratchpad_kib=each.scratchpad_kib,
            dim=each.dim,
        )
        return np.asarray(energy + each.static_pj * cycles), cycles

    def reached(
        self, constraints: Constraints, cost: Cost, by_network: Sequence[Any], sram_kib: Any = None
    ) -> dict[str, tuple[Any, float]]:
        """Of every bound of some constraints, (values reached, bound), by path (`Constraints.values`).

        Args:
            cost: of the workload; its fields are arrays of one shape.
            by_network: energy and latency of the networks, (networks, ...) each, weights included.
        """
        networks: Mapping[str, Any] = {}
        if constraints.networks:
            networks = {
                name: Cost(latency / weight, energy / weight, cost.area_mm2)
                for name, weight, energy, latency in zip(
                    self.networks, self.weights.tolist(), *by_network, strict=True
                )
            }
        clock = self.space.base.clock_mhz
        return constraints.values(cost, sram_kib=sram_kib, clock_mhz=clock, networks=networks)


def times(runs: Floats, cost: Floats) -> NDArray[np.float64]:
    """Cost of some runs; what does not fit (infinite) does not, even where it never runs."""
    fits = np.isfinite(cost)
    return np.where(fits, runs * np.where(fits, cost, 0.0), cost)
