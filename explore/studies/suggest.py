"""Bounds to put in place of impossible ones, tried out: a search with them does find a design.

A search is determined by its set-up, so one with the suggested bounds goes the way that the trial here went.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from baco.exploration.cost.infeasible import PREFIX, suggested
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.searcher import SearchSetup
from baco.exploration.space.constraints import Constraints

#: Samples of a trial, and trials, each with the bounds that the one before came up to.
_SAMPLES, _TRIALS = 100, 3


def tried_bounds(
    searcher: str,
    setup: SearchSetup,
    nearest: Mapping[str, float],
    stop: Callable[[], bool],
    first: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Bounds by path, of those that the nearest design breaks, that a search of the same set-up satisfies in a trial.

    Where trials come to nothing or `stop` ends them, bounds that the last design seen satisfies: with those of `first`,
    if no trial has seen any.

    Args:
        nearest: details of a batch by the convention of `baco.exploration.cost.infeasible`.
        first: bounds to put in place to begin with, by path.
    """
    found = dict(first or {})
    for number in range(_TRIALS):
        reached = suggested(with_bounds(setup.space.constraints, found).bounds, nearest)
        if not reached and (number or not found):
            break
        found |= reached
        space = dataclasses.replace(setup.space, constraints=with_bounds(setup.space.constraints, found))
        trial = make_searcher(searcher, dataclasses.replace(setup, space=space))
        while True:
            result = trial.step()
            if result.candidates:
                return found
            over = result.evaluations >= _SAMPLES * len(setup.tasks)
            if result.done or over or stop() or not any(name.startswith(PREFIX) for name in result.details):
                break
        nearest = {name: value for name, value in result.details.items() if name.startswith(PREFIX)}
        if stop():
            break
    return found


def with_bounds(constraints: Constraints, changed: Mapping[str, float]) -> Constraints:
    """Constraints with other bounds, by path; a network's name may have dots."""
    values = constraints.model_dump()
    for path, bound in changed.items():
        if path.startswith("networks."):
            network, _, name = path.removeprefix("networks.").rpartition(".")
            values["networks"][network][name] = bound
        else:
            values[path] = bound
    return Constraints.model_validate(values)
