"""The interface every searcher implements. One searcher is one file in this folder, registered below."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from baco.common.door import argument
from baco.common.errors import InputError, did_you_mean
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
    """

    tasks: tuple[Task, ...]
    space: DesignSpace
    objective: Objective
    evaluations: int | None
    seed: int
    model: CostModel | None = None
    blocks: tuple[tuple[int, int, int], ...] = ()

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


#: name -> (module, class, one-line description). A new searcher is one file and one line here.
SEARCHERS: dict[str, tuple[str, str, str]] = {
    "gradient": (
        "baco.exploration.search.gradient",
        "GradientSearch",
        "one-loop gradient descent, then exact combination and local search (default)",
    ),
    "local": (
        "baco.exploration.search.local",
        "LocalSearch",
        "the main searcher without gradient descent",
    ),
    "random": (
        "baco.exploration.search.random",
        "RandomSearch",
        "random mappings, hardware inferred (one loop)",
    ),
    "bayesian": (
        "baco.exploration.search.bayesian",
        "BayesianSearch",
        "Bayesian optimisation over hardware, random mappings inside (Optuna)",
    ),
    "genetic": (
        "baco.exploration.search.genetic",
        "GeneticSearch",
        "genetic algorithm over hardware and mappings (Optuna)",
    ),
    "two-loop": (
        "baco.exploration.search.two_loop",
        "TwoLoopSearch",
        "random hardware x random mappings (published baseline)",
    ),
    "dosa": (
        "baco.exploration.search.dosa",
        "DosaSearch",
        "plain gradient descent in the style of DOSA (published baseline)",
    ),
    "dosa-published": (
        "baco.exploration.search.dosa",
        "PublishedDosaSearch",
        "the same, a gradient step of all layers counted as one sample, as published",
    ),
}


def check_budget(samples: int | None, time_limit: float | None) -> None:
    """Raises InputError for a number of samples or of seconds that is none."""
    if samples is not None and (isinstance(samples, bool) or not isinstance(samples, int) or samples < 1):
        raise InputError(f"{argument('samples')} must be a whole number of at least 1, not {samples}")
    if time_limit is not None and not 0 < time_limit < float("inf"):
        raise InputError(f"{argument('time_limit')} must be a positive number of seconds, not {time_limit}")


def check_searcher(name: str) -> None:
    """Raises InputError for a name that no searcher has."""
    if name not in SEARCHERS:
        raise InputError(f"unknown searcher '{name}'", hint=did_you_mean(name, SEARCHERS))


def make_searcher(name: str, setup: SearchSetup) -> Searcher:
    """The searcher registered as `name`, or that of kernels where the set-up has blocks. Raises InputError for an unknown
    name.

    PyTorch is set to one thread: a search's batches are too small to share, threads that wait for each other
    cost far more on a busy machine, and results must not depend on how many there are.
    """
    if setup.blocks:
        importlib.import_module("torch").set_num_threads(1)
        search: Searcher = importlib.import_module("baco.exploration.search.blocks").BlockSearch(setup)
        return search
    check_searcher(name)
    module, cls, _ = SEARCHERS[name]
    importlib.import_module("torch").set_num_threads(1)
    kind: type[Searcher] = getattr(importlib.import_module(module), cls)
    if setup.space.settings:
        found: Searcher = importlib.import_module("baco.exploration.search.settings").over_settings(
            kind, setup
        )
        return found
    return kind(setup)
