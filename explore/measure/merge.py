"""Candidates of a study with what was measured of them: the costs, the best and the front that a report shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from baco.exploration.candidate import Candidate, Cost
from baco.exploration.front import nondominated
from baco.exploration.measure.measured_design import Design, candidate_identity
from baco.exploration.objective import Objective, metric


@dataclass(frozen=True)
class Merged:
    """Candidates, measured where they were measured.

    Attributes:
        candidates: those of the study in their order, then validated ones that the study has dropped since. A measured
            one has its measured cost.
        predictions: what the search predicted of each; None where only that of its compiled programs was kept.
        best: index of the best one.
        validated: designs by the index of their candidate.
        others: designs that are no candidates (the reference machine).
    """

    candidates: tuple[Candidate, ...]
    predictions: tuple[Cost | None, ...]
    best: int
    validated: dict[int, Design]
    others: tuple[Design, ...]


def merge(candidates: Sequence[Candidate], designs: Sequence[Design], objective: Objective) -> Merged:
    """Put measurements in the place of predictions.

    The best is the one with the least measured objective; as long as nothing is measured, the one with the least
    predicted objective that neither failed nor is infeasible. The front is that of the points as they are shown,
    measured or predicted, without those that failed or are infeasible; and since predictions of others may be too
    good to be true, measured points stay on it that no other measured point dominates.
    """
    kept = list(candidates)
    predictions: list[Cost | None] = [candidate.cost for candidate in kept]
    if not designs:
        best = _least(kept, objective, range(len(kept)))
        return Merged(tuple(kept), tuple(predictions), best, {}, ())
    places = {candidate_identity(candidate): index for index, candidate in enumerate(kept)}
    validated: dict[int, Design] = {}
    for design in designs:
        if design.role != "candidate":
            continue
        index = places.get(design.identity)
        if index is None:
            if design.predicted is None:
                continue
            index = len(kept)
            kept.append(design.candidate(objective))
            predictions.append(design.prediction)
        validated[index] = design
        if design.measured is not None:
            kept[index] = replace(
                kept[index], cost=design.measured, objective=objective.scalar(design.measured)
            )
    bad = {index for index, design in validated.items() if design.status in ("failed", "infeasible")}
    good = [index for index in range(len(kept)) if index not in bad]
    measured = [index for index, design in validated.items() if design.measured is not None]
    front = _front(kept, good, objective) | _front(kept, measured, objective)
    kept = [replace(candidate, front=index in front) for index, candidate in enumerate(kept)]
    best = _least(kept, objective, measured or good or range(len(kept)))
    others = tuple(design for design in designs if design.role != "candidate")
    return Merged(tuple(kept), tuple(predictions), best, validated, others)


def _front(candidates: Sequence[Candidate], members: Sequence[int], objective: Objective) -> set[int]:
    names = objective.front_metrics
    points = np.array([[metric(candidates[i].cost, name) for name in names] for i in members])
    return {members[int(place)] for place in nondominated(points.reshape(len(members), len(names)))}


def _least(candidates: Sequence[Candidate], objective: Objective, members: Sequence[int]) -> int:
    return min(members, key=lambda i: (objective.scalar(candidates[i].cost), i))
