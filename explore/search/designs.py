"""Whole design points in batches: their costs, the least hardware that holds them, and which to keep.

What the baseline searchers share. They choose a mapping for every task, and know no combination of mappings
that were found for different designs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from baco.common import portable
from baco.common.portable import Floats, Ints
from baco.exploration.candidate import Candidate, Cost
from baco.exploration.cost.evaluation import ACCUMULATOR, SCRATCHPAD, SIDE, Evaluation, times
from baco.exploration.cost.genome import WIDTH, Genomes, to_mapping
from baco.exploration.cost.infeasible import PREFIX
from baco.exploration.cost.model import CostModel
from baco.exploration.front import nondominated, thin
from baco.exploration.objective import FunctionMetric, Objective, metric
from baco.exploration.search.focus import squeezed
from baco.exploration.search.searcher import State
from baco.exploration.space import DesignSpace
from baco.exploration.space.points import HardwarePoints
from baco.workloads.network import Task

#: Members of the front that are kept and reported.
_FRONT = 48


@dataclass(frozen=True)
class Designs:
    """A batch of D design points for n tasks.

    Attributes:
        genomes: (D, n, 25) mappings.
        point: (D, 3) array side, accumulator KiB, scratchpad KiB.
        energy, latency: (D, n) of one run of each task, pJ and cycles; infinite where it does not fit.
        units: whether all have row functions, where that is searched.
    """

    genomes: Genomes
    point: Floats
    energy: Floats
    latency: Floats
    units: bool = False

    def take(self, index: Ints) -> Designs:
        """The designs at `index`."""
        return Designs(
            self.genomes[index], self.point[index], self.energy[index], self.latency[index], self.units
        )


class Evaluator(Evaluation):
    """Costs of designs that choose a mapping for every task (see `Evaluation` for its arguments)."""

    def __init__(self, tasks: Sequence[Task], space: DesignSpace, model: CostModel | None = None) -> None:
        super().__init__(tasks, space, model)
        self._choices = [
            np.array(v, dtype=np.float64) for v in (space.dim, space.accumulator_kib, space.scratchpad_kib)
        ]
        self._ranked: Floats | None = None
        if space.rules == "gemmini":
            legal = space.rule_points()
            legal = legal.take(legal.units == space.units[0])
            allowed = space.allowed(*legal.sizes)
            order = np.lexsort((legal.area_mm2, ~allowed))
            self._ranked = legal.take(order).table

    def least(self, side: Floats, accumulator_words: Floats, scratchpad: Floats) -> Floats:
        """The least legal accelerators that hold needs (D,), (D, 3): of those within the bounds on area and
        SRAM the smallest in area, else the smallest legal one; the largest values where nothing is enough."""
        if self._ranked is not None:
            points = self._ranked
            result = np.repeat(
                points[np.lexsort((points[:, 2], points[:, 1], points[:, 0]))[-1:]], len(side), 0
            )
            for start in range(0, len(side), 4096):
                part = slice(start, start + 4096)
                need = side[part, None], accumulator_words[part, None], scratchpad[part, None]
                holds = self.holds(*need, self.space.points_of(points))
                found = holds.any(1)
                result[part][found] = points[holds.argmax(1)[found]]
            return result
        dims, accs, sps = self._choices
        dim = _up(dims, np.maximum(2.0, side))
        acc, sp = self.kib(accumulator_words, scratchpad, dim)
        return np.stack([dim, _up(accs, acc), _up(sps, sp)], 1)

    def infer(self, genomes: Genomes) -> Designs:
        """Evaluate design points (D, n, 25), each on the least accelerator that holds its mappings."""
        size, n = genomes.shape[:2]
        m = self.measure(np.tile(np.arange(n), size), genomes.reshape(-1, WIDTH)).reshape(-1, size, n)
        point = self.least(*m[[SIDE, ACCUMULATOR, SCRATCHPAD]].max(-1))
        energy, latency = self.price(m, self.space.points_of(point).each)
        return Designs(genomes, point, energy, latency)

    def by_units(self, d: Designs) -> list[Designs]:
        """The designs, and where row functions are searched the same with them: no mapping is evaluated again for that."""
        if not self.space.search_units:
            return [d]
        idle, more = (self.space.points_of(d.point, units).static_pj for units in (False, True))
        energy = d.energy + np.where(np.isfinite(d.latency), d.latency, 0.0) * (more - idle)[:, None]
        return [d, Designs(d.genomes, d.point, energy, d.latency, True)]

    def scores(self, d: Designs, names: Sequence[str]) -> Floats:
        """Logarithms of metrics with a penalty for broken bounds, (D, names): of each design with row functions and without,
        where that is searched, those that add up to less."""
        found = []
        for part in self.by_units(d):
            penalty = 10 * portable.log(1 + self.violation(part))
            with np.errstate(divide="ignore", invalid="ignore"):
                score = self._logarithms(self.metrics(part, names), names) + penalty[:, None]
            found.append(np.nan_to_num(score, nan=1e3, posinf=1e3))
        best = np.argmin([portable.total(scores) for scores in found], axis=0)
        return np.asarray(np.stack(found)[best, np.arange(len(best))])

    @staticmethod
    def _logarithms(table: Floats, names: Sequence[str]) -> Floats:
        """Of metrics (D, names); of a user's function, which may be negative, what grows with its values."""
        found = portable.log(table)
        for place, name in enumerate(names):
            if isinstance(name, FunctionMetric):
                found[:, place] = squeezed(table[:, place])
        return found

    def constraint_values(self, d: Designs) -> dict[str, tuple[Floats, float]]:
        """Of every bound of the space that is set: (values reached (D,), bound), by path."""
        at, runs = self._at(d), self.runs(self._at(d))
        energy, latency = self.totals(d)
        by_network = []
        for each, beside in zip((d.energy, d.latency), self.beside(at), strict=True):
            own = [portable.total(times(runs[:, mine], each[:, mine])) for mine in self.members > 0]
            by_network.append(np.array(own) + beside.T)
        cost = Cost(latency, energy, at.area_mm2)  # type: ignore[arg-type]
        return self.reached(self.space.constraints, cost, by_network, at.sram_kib)

    def violation(self, d: Designs) -> Floats:
        """Largest relative excess over a bound, 0 where all hold, infinite where a task does not fit; (D,)."""
        worst = np.where(np.isfinite(d.energy).all(1), 0.0, np.inf)
        for value, bound in self.constraint_values(d).values():
            worst = np.maximum(worst, value / bound - 1)
        return worst

    def _at(self, d: Designs) -> HardwarePoints:
        return self.space.points_of(d.point, d.units)

    def totals(self, d: Designs) -> tuple[Floats, Floats]:
        """Energy (pJ) and latency (cycles) of the workload, (D,) each."""
        at = self._at(d)
        runs, (rest_energy, rest_latency) = self.runs(at), self.beside(at)
        return (
            portable.total(times(runs, d.energy)) + portable.total(rest_energy),
            portable.total(times(runs, d.latency)) + portable.total(rest_latency),
        )

    def metrics(self, d: Designs, names: Sequence[str]) -> Floats:
        """Metrics of the workload (see `baco.exploration.objective`), (D, names)."""
        energy, latency = self.totals(d)
        cost = Cost(latency, energy, self._at(d).area_mm2, clock_mhz=self.space.clock_mhz)  # type: ignore[arg-type]
        return np.stack([metric(cost, name) for name in names], 1)

    def candidate(self, d: Designs, i: int, objective: Objective, samples: int) -> Candidate:
        """Design i as a candidate."""
        dim, acc, sp = d.point[i].tolist()
        energy, latency = self.totals(d.take(np.array([i])))
        cost = Cost(
            float(latency[0]),
            float(energy[0]),
            float(self.space.area_of(dim, acc, sp, d.units)),
            clock_mhz=self.space.clock_mhz,
        )
        mappings = tuple(
            to_mapping(row, task.problem.groups, self.space.double_buffer)
            for row, task in zip(d.genomes[i], self.tasks, strict=True)
        )
        accelerator = self.space.accelerator(dim, acc, sp, d.units)
        return Candidate(accelerator, self.tasks, mappings, cost, samples, objective.scalar(cost))


class Keeper:
    """The best design, the front, and the nearest miss of a search so far."""

    def __init__(self, evaluator: Evaluator, objective: Objective) -> None:
        self.evaluator = evaluator
        self.objective = objective
        self.best = np.inf
        self.front = np.zeros((0, len(objective.front_metrics)))
        self.nearest: dict[str, float] = {}
        self.nearest_violation = np.inf
        self._misses: list[Candidate] = []

    def offer(self, designs: Designs, samples: Ints) -> list[Candidate]:
        """Candidates among the designs, with row functions and without where that is searched: improvements, and new members
        of the front.

        Args:
            samples: (D,) evaluations spent when each was found.
        """
        return [found for one in self.evaluator.by_units(designs) for found in self._offer(one, samples)]

    def _offer(self, designs: Designs, samples: Ints) -> list[Candidate]:
        violation = self.evaluator.violation(designs)
        feasible = np.flatnonzero(violation <= 0)
        if not np.isfinite(self.best) and not len(feasible):
            self._miss(designs, violation, samples)
        if not len(feasible):
            return []
        values = self.evaluator.metrics(designs, self.objective.metrics[:1])[feasible, 0]
        chosen: set[int] = set()
        if values.min() < self.best:
            self.best = float(values.min())
            chosen.add(int(feasible[values.argmin()]))
        chosen |= {int(i) for i in self._extend_front(designs, feasible)}
        return [self.evaluator.candidate(designs, i, self.objective, int(samples[i])) for i in sorted(chosen)]

    def _extend_front(self, designs: Designs, feasible: Ints) -> Ints:
        """New members of the front, which is thinned to what is reported."""
        table = self.evaluator.metrics(designs, self.objective.front_metrics)[feasible]
        for member in self.front:
            open_ = (table < member).any(1)
            table, feasible = table[open_], feasible[open_]
        old = len(self.front)
        both = np.concatenate([self.front, table])
        kept = nondominated(both)
        kept = kept[thin(both[kept], _FRONT)]
        self.front = both[kept]
        return feasible[kept[kept >= old] - old]

    def _miss(self, designs: Designs, violation: Floats, samples: Ints) -> None:
        i = int(violation.argmin())
        if violation[i] < self.nearest_violation:
            self.nearest_violation = float(violation[i])
            values = self.evaluator.constraint_values(designs)
            self.nearest = {PREFIX + path: float(value[i]) for path, (value, _) in values.items()}
            self._misses = [self.evaluator.candidate(designs, i, self.objective, int(samples[i]))]

    def misses(self) -> list[Candidate]:
        """The nearest miss as a design, if it was found since this was last asked."""
        found, self._misses = self._misses, []
        return found

    def details(self) -> dict[str, float]:
        """The nearest miss, while there is nothing better (convention of `baco.exploration.cost.infeasible`)."""
        return {} if np.isfinite(self.best) else dict(self.nearest)

    def state(self) -> State:
        """Snapshot."""
        text = json.dumps(self.nearest)
        return {
            "keeper.front": self.front.copy(),
            "keeper.numbers": np.array([self.best, self.nearest_violation]),
            "keeper.nearest": np.frombuffer(text.encode(), dtype=np.uint8).copy(),
        }

    def restore(self, state: State) -> None:
        """Undo `state`."""
        self.front = state["keeper.front"].copy()
        self.best, self.nearest_violation = (float(v) for v in state["keeper.numbers"])
        self.nearest = json.loads(bytes(state["keeper.nearest"]).decode())


def _up(allowed: Floats, value: Floats) -> Floats:
    """The least allowed values that are not below `value`; the largest where none is."""
    return np.asarray(allowed[np.searchsorted(allowed, value).clip(0, len(allowed) - 1)])
