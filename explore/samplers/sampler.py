"""The protocol of samplers, which propose mappings and hardware (*ask*) and are told what these cost (*tell*), and the search that
runs one: budget, evaluation, best designs, snapshots.

A new sampler is one file: a class with `ask` and, if it learns, `tell`. Those of this folder are listed in `searchers`; a user's own is
a class passed to `baco.explore(..., sampler=...)` (docs/samplers.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from baco.common import portable
from baco.common.errors import InputError
from baco.common.portable import Floats, Ints
from baco.exploration.candidate import Candidate
from baco.exploration.cost.genome import FLOWS, WIDTH, Genomes
from baco.exploration.objective import EXPONENTS, Objective
from baco.exploration.search.designs import Designs, Evaluator, Keeper
from baco.exploration.search.exact_factors import ExactMappings
from baco.exploration.search.hardware_choice import HardwareChoice
from baco.exploration.search.searcher import BatchResult, SearchSetup, State
from baco.exploration.search.tilings import in_macro_form
from baco.exploration.space import Choice

#: Settings whose models are held.
_MOST_KNOWN = 100
#: Gives what designs cost (D, metrics) in place of what is predicted; NaN for one that is out of question, None for predictions.
Judge = Callable[[tuple[Candidate | None, ...], tuple[str, ...]], Floats | None]
_JUDGE: ContextVar[Judge | None] = ContextVar("judge", default=None)
#: Added to logarithms of predictions of designs that are out of question.
_REJECTED = 50.0
#: What a snapshot says of attributes that are None.
_NONE = "none."


@dataclass(frozen=True)
class Asked:
    """Designs to be evaluated: D of them, with m mappings to choose from for each of the n layers.

    Attributes:
        genomes: (D, n, m, 26) mappings, as `SamplerProblem.drawn` makes them.
        point: (D, 3) array side, accumulator KiB and scratchpad KiB that they run on; None: the least accelerator that holds
            them (then m is 1).
        settings: where settings are searched: places along the values of each, from 0 to 1, (settings,) or (D, settings).
        charge: evaluations that this counts; by default one for each mapping.
        offered: whether designs made of the best mappings are results, or the sampler is only told what mappings cost.
    """

    genomes: Genomes
    point: Floats | None = None
    settings: Floats | None = None
    charge: int | None = None
    offered: bool = True


@dataclass(frozen=True)
class Answer:
    """What designs cost.

    Attributes:
        energy, latency: (D, n, m) of one run of each mapping, pJ and cycles; infinite where it does not fit.
        designs: those made of the best mappings, with what evaluated them: for every design one a ranking, one after the
            other; empty if they were not offered.
        metrics: of the objective.
        judged: (D, metrics) what a user found them to cost, NaN for what is out of question; None: what is predicted counts.
    """

    energy: Floats
    latency: Floats
    designs: tuple[tuple[Evaluator, Designs], ...]
    metrics: tuple[str, ...]
    judged: Floats | None = None

    @cached_property
    def scores(self) -> Floats:
        """(D, metrics) logarithms of the objective's metrics of each design, with a penalty for broken constraints: the less the
        better."""
        found, best = self._ranked
        scores = np.asarray(found[np.arange(len(found)), best])
        if self.judged is None:
            return scores
        given = np.where(np.isnan(self.judged), 1.0, self.judged)
        return np.where(np.isnan(self.judged), scores + _REJECTED, portable.log(given))

    @cached_property
    def _ranked(self) -> tuple[Floats, Ints]:
        """Scores of each design by each ranking (D, rankings, metrics), and which of these is the best one (D,)."""
        scores = np.concatenate([one.scores(designs, self.metrics) for one, designs in self.designs])
        scores = scores.reshape(len(self.energy), -1, len(self.metrics))
        return scores, portable.total(scores).argmin(1)

    def candidates(self, objective: Objective, samples: int) -> tuple[Candidate | None, ...]:
        """Each design by its best ranking; None for one that fits nowhere."""
        found, best = self._ranked
        every = found.shape[1]
        chosen: list[Candidate | None] = []
        for evaluator, designs in self.designs:
            for first in range(0, len(designs.point), every):
                at = first + int(best[len(chosen)])
                fits = bool(np.isfinite(designs.latency[at]).all())
                chosen.append(evaluator.candidate(designs, at, objective, samples) if fits else None)
        return tuple(chosen)


class SamplerProblem:
    """What a sampler knows of a search, and how it draws hardware and mappings.

    Attributes:
        tasks: layers, each with how often it runs.
        objective: what to minimise.
        settings: how many settings are searched.
        evaluator, hardware: costs and accelerators with the settings entered last.
        mappings: draws mappings with exact divisors and published loop orders.
        spent, left: evaluations so far, and until the budget is used up (infinite without one).
    """

    def __init__(self, setup: SearchSetup) -> None:
        self._setup = setup
        self._known: dict[Choice, tuple[Evaluator, HardwareChoice]] = {}
        self.tasks, self.objective, self.seed = setup.tasks, setup.objective, setup.seed
        self.space = setup.space
        self.settings = len(setup.space.settings)
        self.spent = 0
        self.evaluator, self.hardware = self._of(setup.space.chosen)
        flows = [FLOWS.index(flow) for flow in setup.space.dataflows]
        self.mappings = ExactMappings(self.evaluator.problems.bounds, flows)

    @property
    def left(self) -> float:
        """See the class."""
        return np.inf if self._setup.evaluations is None else self._setup.evaluations - self.spent

    def _of(self, choice: Choice) -> tuple[Evaluator, HardwareChoice]:
        """Costs and accelerators with some settings."""
        if choice not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.pop(next(iter(self._known)))
            space, model = self.space, self._setup.cost_model
            if space.settings:
                space = space.at(choice)
                model = model.at(space)
            self._known[choice] = Evaluator(self.tasks, space, model), HardwareChoice(space)
        return self._known[choice]

    def enter(self, places: Floats) -> None:
        """Choose settings for what follows: places (settings,) along the values of each, from 0 to 1; nothing without any."""
        lengths = [len(values) for _, values in self.space.settings]
        if lengths:
            at = [min(int(x * n), n - 1) for x, n in zip(places.tolist(), lengths, strict=True)]
            self.evaluator, self.hardware = self._of(tuple(at))

    def affordable(self, mappings: int) -> int:
        """As many mappings of every layer, or what is left for."""
        return int(min(mappings, self.left // len(self.tasks)))

    def growing(self, least: int, most: int) -> int:
        """Design points for the next batch: few at first, so that the course of a search can be seen, and always with settings,
        which a batch shares."""
        n = len(self.tasks)
        most = least if self.settings else most
        return int(min(np.clip(self.spent // n // 4, least, most), self.left // n))

    def drawn(self, point: Floats, mappings: int, rng: np.random.Generator) -> Genomes:
        """Random mappings of every layer that fit accelerators (D, 3), where any can: (D, n, mappings, 26)."""
        size, n = len(point), len(self.tasks)
        task = np.tile(np.repeat(np.arange(n), mappings), size)
        on = np.repeat(point, n * mappings, axis=0)
        dim = on[:, 0].astype(np.int64)

        def fits(index: Ints, rows: Genomes) -> NDArray[np.bool_]:
            return self.evaluator.fits(task[index], rows, on[index])

        rows = self.mappings.draw_fitting(task, dim, fits, rng)[0]
        if self.evaluator.model.macros:
            # half of them in the form that macros run, where that fits
            index = np.flatnonzero((rng.random(len(rows)) < 0.5) & self.evaluator.model.can(task, dim))
            shaped = in_macro_form(rows[index], self.evaluator.problems.bounds[task[index]], dim[index])
            good = fits(index, shaped)
            rows[index[good]] = shaped[good]
        return rows.reshape(size, n, mappings, -1)


class Sampler(ABC):
    """A strategy: `ask` proposes designs, `tell` learns what they cost.

    What a sampler remembers are attributes with public names that are numbers, text, arrays or None: these are kept with the study,
    so that a search can go on where it stopped. What begins with `_` is made anew; a class that remembers anything else defines
    `state` and `restore`.
    """

    #: What the search is said to be doing.
    phase: ClassVar[str] = "sampling"
    #: How often it is asked in one batch, which takes around a second at most.
    asks: ClassVar[int] = 1

    def __init__(self, problem: SamplerProblem) -> None:
        self._problem = problem

    @property
    def problem(self) -> SamplerProblem:
        """What is searched."""
        return self._problem

    @abstractmethod
    def ask(self, rng: np.random.Generator) -> Asked | None:
        """Designs to be evaluated with at most `problem.left` evaluations; None: nothing more in this batch.

        All chance comes from `rng`, which is the same for the same batch of a search, resumed or not.
        """

    def tell(self, asked: Asked, answer: Answer) -> None:  # noqa: B027 - many have nothing to learn
        """What the designs asked for cost; those that the budget has no room for are left out of both."""

    def state(self) -> State:
        """Snapshot. Raises InputError for an attribute that cannot be kept."""
        found: State = {}
        for name, value in vars(self).items():
            if name.startswith("_"):
                continue
            if value is None:
                found[_NONE + name] = np.zeros(0)
            elif isinstance(value, np.ndarray | np.generic | int | float | str):
                found[name] = np.array(value)
            else:
                raise InputError(
                    f"a study cannot keep {type(self).__name__}.{name}, which is of type {type(value).__name__}",
                    hint="use numbers, text and arrays, a name that begins with '_' for what is made anew, or define state and restore",
                )
        return found

    def restore(self, state: State) -> None:
        """Undo `state`."""
        for name, value in state.items():
            if name.startswith(_NONE):
                setattr(self, name.removeprefix(_NONE), None)
            else:
                setattr(self, name, value.copy() if value.ndim else value.item())


@contextmanager
def judged_by(judge: Judge) -> Iterator[None]:
    """Within the block, searches of this thread ask `judge` what designs cost before their samplers are told."""
    before = _JUDGE.set(judge)
    try:
        yield
    finally:
        _JUDGE.reset(before)


class SampledSearch:
    """Runs a sampler: batches depend on nothing but the seed, their number, and what the sampler and the keeper of the best
    designs remember."""

    def __init__(self, setup: SearchSetup, kind: type[Sampler]) -> None:
        self.problem = SamplerProblem(setup)
        self.sampler = kind(self.problem)
        self.keeper = Keeper(self.problem.evaluator, setup.objective)
        self.batches = 0
        names = [*setup.objective.metrics, "edp", "energy", "latency"]
        #: The objective's own first; the others yield alternatives for the front from the same evaluations.
        self._rankings = list(dict.fromkeys(_ranking(name) for name in names))

    def step(self) -> BatchResult:
        """One batch; done when the budget is not enough for another design point."""
        problem, n = self.problem, len(self.problem.tasks)
        found: list[Candidate] = []
        if problem.left >= n:
            # A generator of its own for every batch: nothing of it needs to be saved.
            rng = np.random.default_rng([problem.seed, self.batches])
            for number in range(self.sampler.asks):
                asked = self.sampler.ask(rng)
                if asked is not None:
                    found += self._evaluate(asked)
                elif number == 0:
                    raise InputError(
                        f"{type(self.sampler).__name__}.ask proposes nothing to begin a batch with"
                    )
            self.batches += 1
        done = problem.left < n
        details, misses = self.keeper.details(), self.keeper.misses()
        return BatchResult(found, problem.spent, self.sampler.phase, done, details, misses)

    def _evaluate(self, asked: Asked) -> list[Candidate]:
        """Designs as results, and the sampler told of them."""
        problem = self.problem
        asked = self._checked(asked)
        size, n, m, _ = asked.genomes.shape
        before, charge = problem.spent, size * n * m if asked.charge is None else asked.charge
        problem.spent += charge
        found: list[Candidate] = []
        parts, energy, latency = [], [], []
        # with settings of its own, each has its own model of costs
        split = size if asked.settings is not None and asked.settings.ndim == 2 and size else 1
        for part in np.split(np.arange(size), split):
            if asked.settings is not None:
                problem.enter(asked.settings[part[0]] if asked.settings.ndim == 2 else asked.settings)
            genomes = asked.genomes[part]
            if asked.point is None:
                designs = problem.evaluator.infer(genomes[:, :, 0])
                energy.append(designs.energy[:, :, None])
                latency.append(designs.latency[:, :, None])
            else:
                costs = self._costs(genomes, asked.point[part])
                energy.append(costs[0])
                latency.append(costs[1])
                if asked.offered:
                    designs = self._best(genomes, asked.point[part], *costs)
            if asked.offered:
                self.keeper.evaluator = problem.evaluator
                at = np.repeat(before + n * m * (part + 1), len(designs.point) // max(1, len(part)))
                found += self.keeper.offer(designs, np.minimum(at, problem.spent))
                parts.append((problem.evaluator, designs))
        answer = Answer(
            np.concatenate(energy), np.concatenate(latency), tuple(parts), problem.objective.metrics
        )
        judge = _JUDGE.get()
        if judge is not None and parts:
            candidates = answer.candidates(problem.objective, problem.spent)
            answer = replace(answer, judged=judge(candidates, answer.metrics))
        self.sampler.tell(asked, answer)
        return found

    def _checked(self, asked: Asked) -> Asked:
        """The same, or what the budget has room for. Raises InputError for what is no design."""
        name, n = f"{type(self.sampler).__name__}.ask", len(self.problem.tasks)
        if not isinstance(asked, Asked):
            raise InputError(f"{name} must return baco.Asked or None, not {type(asked).__name__}")
        shape = np.shape(asked.genomes)
        if len(shape) != 4 or shape[1] != n or shape[3] != WIDTH:
            raise InputError(f"{name}: genomes must be (designs, {n}, mappings, {WIDTH}), not {shape}")
        if asked.point is None and shape[2] != 1:
            raise InputError(
                f"{name}: {shape[2]} mappings of a layer to choose from need the hardware that they run on",
                hint="give point, or one mapping of each layer",
            )
        if asked.point is not None:
            if np.shape(asked.point) != (shape[0], 3):
                raise InputError(f"{name}: point must be ({shape[0]}, 3), not {np.shape(asked.point)}")
            space = self.problem.space
            sizes = (space.dim, space.accumulator_kib, space.scratchpad_kib)
            if not all(np.isin(asked.point[:, i], one).all() for i, one in enumerate(sizes)):
                raise InputError(
                    f"{name}: sizes of hardware that the space has not",
                    hint="take problem.hardware.nearest(...)",
                )
        if asked.charge is None and shape[0] * n * shape[2] > self.problem.left:
            m = min(shape[2], self.problem.affordable(shape[2]))
            size = max(1, int(self.problem.left // (n * m)))
            own = asked.settings is not None and asked.settings.ndim == 2
            return replace(
                asked,
                genomes=asked.genomes[:size, :, :m],
                point=None if asked.point is None else asked.point[:size],
                settings=asked.settings[:size] if own and asked.settings is not None else asked.settings,
            )
        return asked

    def _costs(self, genomes: Genomes, point: Floats) -> tuple[Floats, Floats]:
        """Energy and latency of all mappings, (D, n, m)."""
        size, n, m, _ = genomes.shape
        task = np.tile(np.repeat(np.arange(n), m), size)
        evaluator = self.problem.evaluator
        measured = evaluator.measure(task, genomes.reshape(-1, WIDTH))
        energy, latency = evaluator.price(
            measured, evaluator.space.points_of(np.repeat(point, n * m, axis=0))
        )
        return energy.reshape(size, n, m), latency.reshape(size, n, m)

    def _best(self, genomes: Genomes, point: Floats, energy: Floats, latency: Floats) -> Designs:
        """Of every design the best mapping of each layer by every ranking: (D · rankings), design by design."""
        size, n, _, _ = genomes.shape
        chosen = []
        for by_energy, by_latency in self._rankings:
            # A trace of the other breaks ties: latencies often tie at a full array.
            score = max(by_energy, 1e-6) * portable.log(energy) + max(by_latency, 1e-6) * portable.log(
                latency
            )
            chosen.append(score.argmin(2))
        pick = np.stack(chosen, 1)  # (D, rankings, n)
        every = pick.shape[1]
        d, layer = np.arange(size)[:, None, None], np.arange(n)[None, None, :]
        return Designs(
            genomes[d, layer, pick].reshape(size * every, n, -1),
            np.repeat(point, every, axis=0),
            energy[d, layer, pick].reshape(size * every, n),
            latency[d, layer, pick].reshape(size * every, n),
        )

    def state(self) -> State:
        """Snapshot."""
        numbers = np.array([self.problem.spent, self.batches], dtype=np.int64)
        own = {f"sampler.{name}": value for name, value in self.sampler.state().items()}
        return {"numbers": numbers, **self.keeper.state(), **own}

    def restore(self, state: State) -> None:
        """Undo `state`."""
        self.problem.spent, self.batches = (int(v) for v in state["numbers"])
        self.keeper.restore(state)
        start = "sampler."
        self.sampler.restore(
            {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}
        )


def _ranking(metric: str) -> tuple[float, float]:
    """Exponents of (energy, latency) by which the mappings of one layer are ranked where there are several: area does not depend on them."""
    energy, latency, _ = EXPONENTS.get(metric, EXPONENTS["edp"])
    return (energy, latency) if energy or latency else EXPONENTS["edp"][:2]
