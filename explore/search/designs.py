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
from baco.common.portable import Bools, Floats, Ints
from baco.exploration.candidate import Candidate, Cost
from baco.exploration.cost.genome import WIDTH, Genomes, ProblemSet, count, needs, sides, to_mapping
from baco.exploration.cost.infeasible import PREFIX
from baco.exploration.cost.model import CostModel, ReferenceModel, counts_at, rest_at, times
from baco.exploration.front import nondominated, thin
from baco.exploration.objective import FunctionMetric, Objective
from baco.exploration.search.focus import squeezed
from baco.exploration.search.searcher import State
from baco.exploration.space import DesignSpace
from baco.workloads.network import Task

#: Members of the front that are kept and reported.
_FRONT = 48


@dataclass(frozen=True)
class MappingCosts:
    """Evaluated mappings, fields (B,) unless said: what they cost on any accelerator, and what they need of it.

    Attributes:
        base_pj: energy in the array.
        a1, a2: words accessed at accumulator and scratchpad.
        kept: (kept, B) what the cost model tells latencies and traffic from.
        side: array side.
        accumulator_words: a column.
        scratchpad: bytes, or rows with the `gemmini` rules.
    """

    base_pj: Floats
    a1: Floats
    a2: Floats
    kept: Floats
    side: Floats
    accumulator_words: Floats
    scratchpad: Floats

    def view(self, *shape: int) -> MappingCosts:
        """The same with every field of another shape."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return MappingCosts(
            **{n: v.reshape(len(v), *shape) if n == "kept" else v.reshape(shape) for n, v in fields.items()}
        )


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


class Evaluator:
    """Costs of mappings of the tasks in the space."""

    def __init__(self, tasks: Sequence[Task], space: DesignSpace, model: CostModel | None = None) -> None:
        self.tasks = tuple(tasks)
        self.space = space
        self.model: CostModel = model or ReferenceModel([task.problem for task in tasks], space)
        self.problems = ProblemSet([task.problem for task in tasks], self.model.packs)
        self.counts = np.array([task.count for task in tasks], dtype=np.float64)
        self.networks = sorted({task.network for task in tasks})
        members = [[task.network == name for task in tasks] for name in self.networks]
        weights = [next(t.weight for t in tasks if t.network == name) for name in self.networks]
        #: (networks, n) of which network each task is: one over its weight.
        self.shares = np.array(members, dtype=np.float64) / np.array(weights)[:, None]
        #: Mix weight of each network.
        self.weights = weights
        self._choices = [
            np.array(v, dtype=np.float64) for v in (space.dim, space.accumulator_kib, space.scratchpad_kib)
        ]
        self._ranked: Floats | None = None
        if space.rules == "gemmini":
            legal = space.rule_points()
            legal = legal.take(legal.units == space.units[0])
            allowed = space.allowed(legal.dim, legal.accumulator_kib, legal.scratchpad_kib)
            order = np.lexsort((legal.area_mm2, ~allowed))
            table = np.stack([legal.dim, legal.accumulator_kib, legal.scratchpad_kib], 1)
            self._ranked = table[order].astype(np.float64)

    def __len__(self) -> int:
        return len(self.tasks)

    def measure(self, task: Ints, genomes: Genomes) -> MappingCosts:
        """One evaluation a row."""
        c = count(self.problems, task, genomes, self.space.double_buffer, padded=self.model.padded)
        side, accumulator, scratchpad = self.needs(task, genomes)
        energy = self.space.base.energy
        pj = energy.mac_pj * c.macs + energy.register_pj * c.a0
        return MappingCosts(
            base_pj=pj.numpy(),
            a1=c.a1.numpy(),
            a2=c.a2.numpy(),
            kept=self.model.keep(task, genomes, c),
            side=side,
            accumulator_words=accumulator,
            scratchpad=scratchpad,
        )

    def scratchpad_kib(self, need: Floats, dim: Floats) -> Floats:
        """KiB for a scratchpad need on arrays of side `dim`."""
        return need * dim / 1024 if self.space.rules == "gemmini" else need / 1024

    def needs(self, task: Ints, genomes: Genomes) -> tuple[Floats, Floats, Floats]:
        """Array side, accumulator words a column and scratchpad need (see `MappingCosts`) of rows; free of charge."""
        acc, words, rows = needs(self.problems, task, genomes, self.space.double_buffer)
        return sides(genomes), *self.model.needs(
            task, genomes, acc, rows if self.space.rules == "gemmini" else words
        )

    def fits(self, task: Ints, genomes: Genomes, point: Floats) -> Bools:
        """Whether rows fit their accelerators (B, 3); free of charge."""
        side, acc, need = self.needs(task, genomes)
        dim = point[:, 0]
        fits = (side <= dim) & (acc * dim * 4 / 1024 <= point[:, 1])
        return np.asarray(fits & (self.scratchpad_kib(need, dim) <= point[:, 2]))

    def costs(self, m: MappingCosts, point: Floats) -> tuple[Floats, Floats]:
        """Energy and latency of mappings on accelerators; `point` (..., 3) broadcasts with the fields of `m`.
        Infinite where a mapping does not fit."""
        dim, acc, sp = point[..., 0], point[..., 1], point[..., 2]
        energy = self.space.base.energy
        a1, a2 = self.model.local(m.kept, dim)
        pj = energy.with_memories(
            m.base_pj, m.a1 + a1, m.a2 + a2, accumulator_kib=acc, scratchpad_kib=sp, dim=dim
        )
        pj = pj + energy.dram_pj * self.model.words(m.kept, dim)
        cycles = self.model.cycles(m.kept, dim)
        pj = pj + self.space.static_pj_of(cycles, dim, acc, sp)
        fits = np.isfinite(cycles) & (m.side <= dim) & (m.accumulator_words * dim * 4 / 1024 <= acc)
        fits &= self.scratchpad_kib(m.scratchpad, dim) <= sp
        return np.where(fits, pj, np.inf), np.where(fits, cycles, np.inf)

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
                dim, acc, sp = (points[:, i] for i in range(3))
                holds = (side[part, None] <= dim) & (accumulator_words[part, None] * dim * 4 / 1024 <= acc)
                holds &= self.scratchpad_kib(scratchpad[part, None], dim) <= sp
                found = holds.any(1)
                result[part][found] = points[holds.argmax(1)[found]]
            return result
        dims, accs, sps = self._choices
        dim = _up(dims, np.maximum(2.0, side))
        acc = _up(accs, accumulator_words * dim * 4 / 1024)
        sp = _up(sps, self.scratchpad_kib(scratchpad, dim))
        return np.stack([dim, acc, sp], 1)

    def infer(self, genomes: Genomes) -> Designs:
        """Evaluate design points (D, n, 25), each on the least accelerator that holds its mappings."""
        size, n = genomes.shape[:2]
        m = self.measure(np.tile(np.arange(n), size), genomes.reshape(-1, WIDTH)).view(size, n)
        point = self.least(m.side.max(1), m.accumulator_words.max(1), m.scratchpad.max(1))
        energy, latency = self.costs(m, point[:, None, :])
        return Designs(genomes, point, energy, latency)

    def by_units(self, d: Designs) -> list[Designs]:
        """The designs, and where row functions are searched the same with them: no mapping is evaluated again for that."""
        if not self.space.search_units:
            return [d]
        dim, acc, sp = d.point.T
        idle, more = (
            self.space.static_pj_of(1.0, dim, acc, sp, units) * np.ones(len(d.point)) for units in (0, 1)
        )
        energy = d.energy + np.where(np.isfinite(d.latency), d.latency, 0.0) * (more - idle)[:, None]
        return [d, Designs(d.genomes, d.point, energy, d.latency, True)]

    def scores(self, d: Designs, names: Sequence[str]) -> Floats:
        """Logarithms of metrics with a penalty for broken bounds, (D, names): of each design with row functions and without,
        where that is searched, those that add up to less."""
        found = []
        for one in self.by_units(d):
            penalty = 10 * portable.log(1 + self.violation(one))
            with np.errstate(divide="ignore", invalid="ignore"):
                score = self._logarithms(self.metrics(one, names), names) + penalty[:, None]
            found.append(np.nan_to_num(score, nan=1e3, posinf=1e3))
        best = np.argmin([portable.total(one) for one in found], axis=0)
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
        c = self.space.constraints
        dim, acc, sp = d.point.T
        energy, latency = self.totals(d)
        rest_energy, rest_latency = self._rest(d)
        counts = self._counts(d)
        with np.errstate(invalid="ignore"):
            power = (
                np.where(np.isfinite(latency), energy / latency, np.inf) * self.space.base.clock_mhz * 1e-3
            )
        reached: dict[str, tuple[Floats, float | None]] = {
            "area_mm2": (np.asarray(self.space.area_of(dim, acc, sp, d.units)), c.area_mm2),
            "sram_kib": (acc + sp, c.sram_kib),
            "power_mw": (power, c.power_mw),
            "latency_cycles": (latency, c.latency_cycles),
            "energy_uj": (energy * 1e-6, c.energy_uj),
        }
        for name, own in c.networks.items():
            if name in self.networks:
                n = self.networks.index(name)
                mine, rest = self.shares[n] > 0, 1 / self.weights[n]
                runs = counts[:, mine] * self.shares[n, mine]
                path = f"networks.{name}"
                reached[f"{path}.latency_cycles"] = (
                    portable.total(times(runs, d.latency[:, mine])) + rest_latency[:, n] * rest,
                    own.latency_cycles,
                )
                energy_uj = (portable.total(times(runs, d.energy[:, mine])) + rest_energy[:, n] * rest) * 1e-6
                reached[f"{path}.energy_uj"] = (energy_uj, own.energy_uj)
        return {path: (value, bound) for path, (value, bound) in reached.items() if bound is not None}

    def violation(self, d: Designs) -> Floats:
        """Largest relative excess over a bound, 0 where all hold, infinite where a task does not fit; (D,)."""
        worst = np.where(np.isfinite(d.energy).all(1), 0.0, np.inf)
        for value, bound in self.constraint_values(d).values():
            worst = np.maximum(worst, value / bound - 1)
        return worst

    def _counts(self, d: Designs) -> Floats:
        """See `counts_at`: (D, n)."""
        dim, acc, sp = d.point.T
        return counts_at(self.model, self.space, self.tasks, dim, acc, sp, np.full(len(dim), d.units))

    def _rest(self, d: Designs) -> tuple[Floats, Floats]:
        """See `rest_at`."""
        dim, acc, sp = d.point.T
        return rest_at(self.model, self.space, len(self.networks), dim, acc, sp, np.full(len(dim), d.units))

    def totals(self, d: Designs) -> tuple[Floats, Floats]:
        """Energy (pJ) and latency (cycles) of the workload, (D,) each."""
        rest_energy, rest_latency = self._rest(d)
        counts = self._counts(d)
        return (
            portable.total(times(counts, d.energy)) + portable.total(rest_energy),
            portable.total(times(counts, d.latency)) + portable.total(rest_latency),
        )

    def metrics(self, d: Designs, names: Sequence[str]) -> Floats:
        """Metrics of the workload (see `baco.exploration.objective`), (D, names)."""
        energy, latency = self.totals(d)
        dim, acc, sp = d.point.T
        area = np.asarray(self.space.area_of(dim, acc, sp, d.units))
        costs = Cost(latency, energy, area, clock_mhz=self.space.clock_mhz)  # type: ignore[arg-type]
        if self.space.clock_mhz is not None:
            latency = latency * (1e3 / self.space.clock_mhz)
        edp = energy * 1e-6 * latency
        known = {"edp": edp, "latency": latency, "energy": energy, "area": area, "edap": edp * area}
        return np.stack(
            [name.of_arrays(costs) if isinstance(name, FunctionMetric) else known[name] for name in names], 1
        )

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
