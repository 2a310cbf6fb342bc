"""What every search is: a sequence of batches, determined by its set-up. Which searches there are: `baco.exploration.samplers.searchers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from baco.common.door import argument
from baco.common.errors import InputError
from baco.exploration.candidate import Candidate
from baco.exploration.objective import Objective
from baco.exploration.space import DesignSpace
from baco.workloads.network import Task

if TYPE_CHECKING:
    from baco.exploration.cost.model import CostModel

#: A searcher's snapshot: plain arrays (never pickled objects), stored with every batch for resuming.
State = dict[str, np.ndarray]


@dataclass(frozen=True)
class SearchSetup:
    """All a searcher needs to know, and all that determines its result.

    Attributes:
        tasks: unique problems with weights.
        space: hardware choices, rules and constraints.
        objective: what to minimise.
        evaluations: budget in problem-mapping evaluations (a gradient counts as three); None when only
            time limits the search.
        seed: all randomness comes from it.
        model: predicts latency; None for the reference model.
        blocks: of a kernel: rows, columns and depth of the blocks that its one product, or the second one of attention, may be cut
            into; else empty.
        grouping: decides which operators run as one unit when the first samples are there: the cost model from then on, from an
            `Archive` and the details of a batch; None where that is known.
    """

    tasks: tuple[Task, ...]
    space: DesignSpace
    objective: Objective
    evaluations: int | None
    seed: int
    model: CostModel | None = None
    blocks: tuple[tuple[int, int, int], ...] = ()
    grouping: Callable[[Any, Mapping[str, float]], CostModel] | None = None

    @property
    def cost_model(self) -> CostModel:
        """What predicts latency."""
        from baco.exploration.cost.model import (
            ReferenceModel,  # loads PyTorch, which names of searchers need not
        )

        return self.model or ReferenceModel([task.problem for task in self.tasks], self.space)


@dataclass(frozen=True)
class BatchResult:
    """What one call of `Searcher.step` did: new candidates worth keeping, and where it stands.

    As long as nothing feasible was found, `details` say how near the nearest design is (`baco.exploration.cost.infeasible`), and
    `nearest` are designs like it, nearest first; at least in the batches that come nearer than those before.
    """

    candidates: Sequence[Candidate]
    evaluations: int
    phase: str
    done: bool
    details: dict[str, float]
    nearest: Sequence[Candidate] = ()


class Searcher(Protocol):
    """A search algorithm as a sequence of batches.

    `step` must be deterministic given the set-up and the state, spend no more evaluations than the budget
    leaves, and take around a second at most, since a batch is the unit of saving and of interruption.
    `state` and `restore` must round-trip: stepping after a restore gives what stepping on would have.
    """

    def __init__(self, setup: SearchSetup) -> None: ...

    def step(self) -> BatchResult: ...

    def state(self) -> State: ...

    def restore(self, state: State) -> None: ...


@runtime_checkable
class GroupingSearcher(Protocol):
    """A searcher that asks `SearchSetup.grouping` in the course of its search."""

    def group(self) -> BatchResult:
        """A batch that asks it now."""


def check_budget(samples: int | None, time_limit: float | None) -> None:
    """Raises InputError for a number of samples or of seconds that is none."""
    if samples is not None and (isinstance(samples, bool) or not isinstance(samples, int) or samples < 1):
        raise InputError(f"{argument('samples')} must be a whole number of at least 1, not {samples}")
    if time_limit is not None and not 0 < time_limit < float("inf"):
        raise InputError(f"{argument('time_limit')} must be a positive number of seconds, not {time_limit}")
