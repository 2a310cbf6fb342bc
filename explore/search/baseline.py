"""What the baseline searchers have in common: the budget, batches, and snapshots."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from baco.common.portable import Floats, Ints
from baco.exploration.candidate import Candidate
from baco.exploration.cost.genome import FLOWS, Genomes
from baco.exploration.search.base import BatchResult, SearchSetup, State
from baco.exploration.search.designs import Designs, Evaluator, Keeper
from baco.exploration.search.exact_factors import ExactMappings
from baco.exploration.search.hardware_choice import HardwareChoice
from baco.exploration.search.tilings import in_macro_form
from baco.exploration.space import Choice

#: Settings whose models are held.
_MOST_KNOWN = 100


class BaselineSearch(ABC):
    """A searcher whose batches depend on nothing but the seed, the batch number and what it keeps.

    A subclass implements `_batch`, and extends `state` and `restore` if it remembers anything.
    """

    phase = "sampling"

    def __init__(self, setup: SearchSetup) -> None:
        self.setup = setup
        self._known: dict[Choice, tuple[Evaluator, HardwareChoice]] = {}
        self.evaluator, self.hardware = self._of(setup.space.chosen)
        self.keeper = Keeper(self.evaluator, setup.objective)
        flows = [FLOWS.index(flow) for flow in setup.space.dataflows]
        self.mappings = ExactMappings(self.evaluator.problems.bounds, flows)
        self.spent = 0
        self.batches = 0

    def _of(self, choice: Choice) -> tuple[Evaluator, HardwareChoice]:
        """Costs and accelerators with some settings."""
        if choice not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.pop(next(iter(self._known)))
            space, model = self.setup.space, self.setup.cost_model
            if space.settings:
                space = space.at(choice)
                model = model.at(space)
            self._known[choice] = Evaluator(self.setup.tasks, space, model), HardwareChoice(space)
        return self._known[choice]

    def _enter(self, place: Floats) -> None:
        """Choose settings for what follows: places (settings,) along the values of each, from 0 to 1; nothing without any."""
        lengths = [len(values) for _, values in self.setup.space.settings]
        if lengths:
            at = [min(int(x * n), n - 1) for x, n in zip(place.tolist(), lengths, strict=True)]
            self.evaluator, self.hardware = self._of(tuple(at))
            self.keeper.evaluator = self.evaluator

    @property
    def settings(self) -> int:
        """How many settings are searched."""
        return len(self.setup.space.settings)

    def step(self) -> BatchResult:
        """One batch; done when the budget is not enough for another design point."""
        found: list[Candidate] = []
        if self._left() >= len(self.evaluator):
            # A generator of its own for every batch: nothing of it needs to be saved.
            found = self._batch(np.random.default_rng([self.setup.seed, self.batches]))
            self.batches += 1
        done = self._left() < len(self.evaluator)
        return BatchResult(found, self.spent, self.phase, done, self.keeper.details(), self.keeper.misses())

    @abstractmethod
    def _batch(self, rng: np.random.Generator) -> list[Candidate]:
        """Spend at least one evaluation and at most what is left."""

    def _left(self) -> float:
        return np.inf if self.setup.evaluations is None else self.setup.evaluations - self.spent

    def _growing(self, least: int, most: int) -> int:
        """Design points for the next batch: few at first, so that the course of a search can be seen, and always with settings,
        which a batch shares."""
        n = len(self.evaluator)
        most = least if self.settings else most
        return int(min(np.clip(self.spent // n // 4, least, most), self._left() // n))

    def _draw(self, task: Ints, point: Floats, rng: np.random.Generator) -> Genomes:
        """Random mappings that fit accelerators (B, 3) where any can."""
        dim = point[:, 0].astype(np.int64)

        def fits(index: Ints, rows: Genomes) -> NDArray[np.bool_]:
            return self.evaluator.fits(task[index], rows, point[index])

        rows = self.mappings.draw_fitting(task, dim, fits, rng)[0]
        if self.evaluator.model.macros:
            # half of them in the form that macros run, where that fits
            index = np.flatnonzero((rng.random(len(rows)) < 0.5) & self.evaluator.model.can(task, dim))
            shaped = in_macro_form(rows[index], self.evaluator.problems.bounds[task[index]], dim[index])
            good = fits(index, shaped)
            rows[index[good]] = shaped[good]
        return rows

    def _offer(self, designs: Designs, before: int) -> list[Candidate]:
        """Report designs evaluated one after the other since `before` evaluations were spent."""
        n = len(self.evaluator)
        samples = np.minimum(before + n * np.arange(1, len(designs.point) + 1), self.spent)
        return self.keeper.offer(designs, samples)

    def state(self) -> State:
        """Snapshot."""
        numbers = np.array([self.spent, self.batches], dtype=np.int64)
        return {"numbers": numbers, **self.keeper.state()}

    def restore(self, state: State) -> None:
        """Undo `state`."""
        self.spent, self.batches = (int(v) for v in state["numbers"])
        self.keeper.restore(state)
