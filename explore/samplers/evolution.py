"""Evolution of programs (Ansor, section 5.1): mutation, crossover by layers, parents in proportion to fitness.

A program is a mapping for each layer, and runs on the least accelerator that holds these. What is open of a program on an array
(tiles, orders, copies, dataflow or macro) is what rows of mappings say (`baco.exploration.cost.genome`); they are built and changed
as the main searcher does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from baco.accel.config import Accelerator
from baco.common import portable
from baco.common.errors import InfeasibleError, InputError
from baco.common.portable import Floats
from baco.compiler.choice.choose import DOUBT, choices
from baco.compiler.choice.gemmini import gemmini_paths
from baco.compiler.latency import schedule_cycles
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.compiler.schedules.schedule import LoopWsSchedule, Schedule
from baco.compiler.styles.macros.loop_ws import sums_wait
from baco.compiler.styles.macros.loop_ws_style import flat_layer
from baco.compiler.styles.registry import mapping_of, plan_layer, realise
from baco.exploration.cost.genome import FLOWS, WIDTH, Genomes, from_mapping, to_mapping
from baco.exploration.cost.predicted import InstructionModel
from baco.exploration.objective import Objective
from baco.exploration.samplers.sampler import Answer, Asked, SampledSearch, Sampler, SamplerProblem
from baco.exploration.search.archive import Archive
from baco.exploration.search.proposals import Proposals
from baco.exploration.search.searcher import SearchSetup, State
from baco.exploration.space import load_space
from baco.exploration.space.constraints import Constraints
from baco.workloads.network import Task

#: Programs of a generation, and how many of the best go on unchanged.
POPULATION, _KEPT = 48, 12
#: Shares of children that two parents have, that are for other hardware, and of their settings that are any others.
_CROSSED, _ELSEWHERE, _RESET = 0.15, 0.3, 0.1
#: Layers of a child that are changed, beside one, in the mean.
_MORE = 1.0


class EvolutionSampler(Sampler):
    """A generation in every batch.

    Attributes:
        size: programs of a generation.
        rows, points, places, scores: of the population: (P, n, 26) mappings, (P, 3) accelerators, (P, settings) where settings are
            searched, and (P, metrics) what `Answer.scores` says.
        known: (K, n, 26) mappings to begin with.
    """

    phase = "evolution"
    #: Whether programs have parents; else all of them are built at random.
    evolves: ClassVar[bool] = True

    def __init__(self, problem: SamplerProblem) -> None:
        super().__init__(problem)
        n, evaluator = len(problem.tasks), problem.evaluator
        self.size = POPULATION
        self.rows: Genomes = np.zeros((0, n, WIDTH), dtype=np.int64)
        self.known: Genomes = np.zeros((0, n, WIDTH), dtype=np.int64)
        self.points, self.places = np.zeros((0, 3)), np.zeros((0, problem.settings))
        self.scores = np.zeros((0, len(problem.objective.metrics)))
        self._places = self.places
        self._archive = Archive(problem.tasks, evaluator.space, evaluator.model)
        self._macros = evaluator.model if isinstance(evaluator.model, InstructionModel) else None
        flows = [FLOWS.index(flow) for flow in problem.space.dataflows]
        self._proposals = Proposals(self._archive, flows, np.random.default_rng(0), self._macros)

    def ask(self, rng: np.random.Generator) -> Asked:
        """Children of the population; at first, and of a population that is too small, programs that fill random accelerators."""
        problem, size = self.problem, self.problem.affordable(self.size)
        rows, self._places = self.known[:size], rng.random((min(size, len(self.known)), problem.settings))
        self.known = self.known[size:]
        if self.evolves and len(self.scores) >= 2 and not len(rows):
            rows, self._places = self._children(size, rng)
        missing = size - len(rows)
        rows = np.concatenate([rows, self.built(problem.hardware.random(missing, rng), rng)])
        self._places = np.concatenate([self._places, rng.random((missing, problem.settings))])
        return Asked(rows[:, :, None], settings=self._places if problem.settings else None)

    def tell(self, asked: Asked, answer: Answer) -> None:
        """The best of elders and children may become parents."""
        points = np.concatenate([designs.point for _, designs in answer.designs])
        news = (asked.genomes[:, :, 0], points, self._places[: len(points)], answer.scores)
        elders = (self.rows[:_KEPT], self.points[:_KEPT], self.places[:_KEPT], self.scores[:_KEPT])
        both = [np.concatenate(pair) for pair in zip(elders, news, strict=True)]
        best = portable.total(both[-1]).argsort(kind="stable")
        _, first = np.unique(both[0][best].reshape(len(best), -1), axis=0, return_index=True)
        order = best[np.sort(first)][:POPULATION]
        self.rows, self.points, self.places, self.scores = (one[order] for one in both)

    def built(self, point: Floats, rng: np.random.Generator) -> Genomes:
        """Mappings of all layers that fill accelerators (D, 3), (D, n, 26); random ones where that comes to nothing."""
        n, self._proposals.random = len(self.problem.tasks), rng
        if not len(point):
            return np.zeros((0, n, WIDTH), dtype=np.int64)
        task = np.tile(np.arange(n), len(point))
        rows, good = self._proposals.construct(task, np.repeat(point, n, axis=0))
        if not good.all():
            rows[~good] = self.problem.drawn(point, 1, rng).reshape(-1, WIDTH)[~good]
        return self._styled(rows.reshape(len(point), n, WIDTH))

    def _styled(self, rows: Genomes) -> Genomes:
        """Mappings (D, n, 26), those that macros would run in macro form."""
        if self._macros is None:
            return rows
        task = np.tile(np.arange(rows.shape[1]), len(rows))
        return self._macros.styled(task, rows.reshape(-1, WIDTH)).reshape(rows.shape)

    def _children(self, size: int, rng: np.random.Generator) -> tuple[Genomes, Floats]:
        """Mappings and settings of children that differ from their parents."""
        problem, n, self._proposals.random = self.problem, len(self.problem.tasks), rng
        score = self.scores[:, int(rng.integers(self.scores.shape[1]))]
        chance = np.cumsum(portable.exp(score.min() - score))
        one, other = np.searchsorted(chance, rng.random((2, size)) * chance[-1]).clip(0, len(chance) - 1)
        mixed = (rng.random(size) < _CROSSED)[:, None] & (rng.random((size, n)) < 0.5)
        rows = np.where(mixed[:, :, None], self.rows[other], self.rows[one])
        point = self.points[one].copy()
        away = np.flatnonzero(rng.random(size) < _ELSEWHERE)
        if len(away):
            steps = rng.integers(-2, 3, (len(away), 3)) / 2
            point[away] = problem.hardware.nearest(portable.log2(point[away]) + steps)
        changed = rng.random((size, n)) < _MORE / n
        changed[np.arange(size), rng.integers(0, n, size)] = True
        design, task = np.nonzero(changed)
        new, found = self._proposals.changes(task, rows[design, task], point[design])
        rows[design[found], task[found]] = new[found]
        places = np.where(
            rng.random((size, problem.settings)) < _RESET,
            rng.random((size, problem.settings)),
            self.places[one],
        )
        rows, parents = self._styled(rows), {row.tobytes() for row in self.rows}
        children = [n for n in np.unique(design[found]) if rows[n].tobytes() not in parents]
        return rows[children], places[children]

    def state(self) -> State:
        """Snapshot, with what was tried."""
        return {**super().state(), **self._archive.state()}

    def restore(self, state: State) -> None:
        """Undo `state`."""
        own = {name: value for name, value in state.items() if not name.startswith("archive.")}
        super().restore(own)
        self._archive.restore({name: value for name, value in state.items() if name not in own})


class _RandomPrograms(EvolutionSampler):
    """All programs at random: what evolution is worth."""

    evolves = False


# -------------------------------------------------------------------- one layer's schedule

#: What a search begins with: the compiler's choice and random programs, or random ones alone; `sampling` never goes on from
#: what it has, all of its programs are random.
Begin: TypeAlias = Literal["choice", "random", "sampling"]

#: What predictions of products whose sums wait in main memory count: on the RTL they take 4 to 15% more than predicted, since
#: addends, loads and stores wait for each other there.
_SUMS_WAIT = 1.1


@dataclass(frozen=True)
class Found:
    """A schedule of a layer and its predicted cycles.

    Attributes:
        doubted: the cycles that it is compared by: predictions of single commands are less certain than those of macros
            (`baco.compiler.choice.choose`), and those of sums that wait in main memory too low.
    """

    layer: Layer
    schedule: Schedule
    cycles: float
    doubted: float

    @classmethod
    def of(cls, layer: Layer, schedule: Schedule, accelerator: Accelerator) -> Found:
        """Raises InfeasibleError if the accelerator cannot carry it out."""
        cycles = schedule_cycles(layer, schedule, accelerator)
        doubt = 1.0
        if not schedule.by_macros:
            doubt = DOUBT
        elif isinstance(schedule, LoopWsSchedule) and sums_wait(layer, schedule, accelerator):
            doubt = _SUMS_WAIT
        return cls(layer, schedule, cycles, cycles * doubt)


class LayerSearch:
    """A search for one layer's schedule, which can be continued; a unit of a `TuningTask`'s budget is a generation.

    Products of images are looked at as if their pixels were a single row.

    Args:
        begin: see `Begin`.
        seed: of all that is drawn.
    """

    def __init__(
        self, layer: Layer, accelerator: Accelerator, *, begin: Begin = "choice", seed: int = 0
    ) -> None:
        self.layer, self.accelerator, self.begin, self.flat = layer, accelerator, begin, flat_layer(layer)
        a = accelerator
        space = dataclasses.replace(
            load_space("gemmini"), base=a, dim=(a.dim,), scratchpad_kib=(a.scratchpad_kib,), accumulator_kib=(a.accumulator_kib,),
            dataflows=a.dataflows, search_units=False, constraints=Constraints(), doc=None,
        )  # fmt: skip
        setup = SearchSetup(
            (Task("layer", self.flat.problem, 1.0),), space, Objective.parse("latency"), None, seed,
            InstructionModel([self.flat], space),
        )  # fmt: skip
        self.search = SampledSearch(setup, _RandomPrograms if begin == "sampling" else EvolutionSampler)
        assert isinstance(self.search.sampler, EvolutionSampler)
        self.sampler = self.search.sampler
        self.cycles = float("inf")
        self._seen: dict[bytes, tuple[Genomes, float]] = {}
        if begin == "choice":
            known = [self._row(choice) for choice in (*_chosen(layer, a, 3), *gemmini_paths(layer, a))]
            rows = [row for row in known if row is not None]
            if rows:
                self.sampler.known = np.stack(rows)[:, None]

    @property
    def evaluations(self) -> int:
        """Programs so far."""
        return self.search.problem.spent

    def step(self, count: int = POPULATION) -> float:
        """A generation of so many programs; the least predicted cycles so far. Raises InfeasibleError where no program fits."""
        self.sampler.size = count
        for candidate in self.search.step().candidates:
            self.cycles = min(self.cycles, candidate.cost.latency_cycles)
        if not np.isfinite(self.cycles):
            raise InfeasibleError(f"no program of {self.layer.problem} fits {self.accelerator.name}")
        for row, score in zip(self.sampler.rows[:, 0], self.sampler.scores[:, 0], strict=True):
            self._seen[row.tobytes()] = row, float(score)
        return self.cycles

    def run(self, evaluations: int) -> None:
        """As many generations as make so many evaluations."""
        while self.evaluations < evaluations:
            self.step(min(POPULATION, evaluations - self.evaluations))

    def best(self, count: int = 1) -> list[Found]:
        """The best different schedules, as they are compared; with the compiler's own, if that is what the search began with."""
        found: dict[Schedule, Found] = {}
        if self.begin == "choice":
            for schedule in _chosen(self.layer, self.accelerator, 1):
                found[schedule] = Found.of(self.layer, schedule, self.accelerator)
        for row, score in sorted(self._seen.values(), key=lambda pair: pair[1]):
            # what is doubted may stand behind what is so much slower
            worst = sorted(tried.doubted for tried in found.values())[count - 1 : count]
            if worst and len(found) > count and float(portable.exp(score)) > DOUBT * worst[0]:
                break
            schedule = realise(self.flat, self._mapping(row), self.accelerator)
            try:
                plan_layer(self.flat, schedule, self.accelerator)  # the code needs memory, too
                if schedule not in found:
                    found[schedule] = Found.of(self.flat, schedule, self.accelerator)
            except InfeasibleError:
                continue
        return sorted(found.values(), key=lambda tried: tried.doubted)[:count]

    def drawn(self, count: int, seed: int) -> list[Mapping]:
        """At most so many different random mappings that the accelerator holds; no evaluations."""
        point = self.search.problem.hardware.random(count, np.random.default_rng(seed))
        rows = self.sampler.built(point, np.random.default_rng(seed))[:, 0]
        fits = self.search.problem.evaluator.fits(np.zeros(len(rows), dtype=np.int64), rows, point)
        return [self._mapping(row) for row in np.unique(rows[fits], axis=0)]

    def _mapping(self, row: Genomes) -> Mapping:
        return to_mapping(row, self.flat.problem.groups, True)

    def _row(self, schedule: Schedule) -> Genomes | None:
        """A schedule as a row; None where no row says the same."""
        try:
            mapping = mapping_of(self.flat, schedule, self.accelerator)
            mapping.check(self.flat.problem)
        except (InfeasibleError, InputError):  # of images that are looked at as a row of pixels, too
            return None
        return from_mapping(mapping, self.accelerator.dim, self.flat.problem.groups, True)


def _chosen(layer: Layer, accelerator: Accelerator, count: int) -> list[Schedule]:
    """The compiler's best schedules."""
    return [one.schedule for one in choices(layer, accelerator, count)][:count]


def best_measured(
    found: Sequence[Found], measure: Callable[[Layer, Schedule], float | None]
) -> tuple[Found, float] | None:
    """The one of least measured cycles, and these; None where nothing could be measured (`measure` says None)."""
    measured = [(measure(one.layer, one.schedule), one) for one in found]
    ran = [(cycles, n) for n, (cycles, _) in enumerate(measured) if cycles is not None]
    if not ran:
        return None
    cycles, place = min(ran)
    return found[place], cycles
