"""Which candidates of a study are worth measuring."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from baco.exploration.candidate import Candidate
from baco.exploration.front import farthest
from baco.exploration.objective import Objective, metric

#: Members of the front that are predicted to take longer than this times the best are not chosen for the spread:
#: smallest arrays would take hours to simulate, and nobody trades a tenth of the speed for the last square millimetre.
MOST_LATENCY = 4.0


def by_accelerator(candidates: Sequence[Candidate], objective: Objective) -> tuple[list[int], list[int]]:
    """Places of candidates by the objective: the best of each accelerator, and the others."""
    ranked = sorted(range(len(candidates)), key=lambda i: (objective.scalar(candidates[i].cost), i))
    first: list[int] = []
    rest: list[int] = []
    seen: set[str] = set()
    for index in ranked:
        found = candidates[index].accelerator.config_hash
        (rest if found in seen else first).append(index)
        seen.add(found)
    return first, rest


def choose_candidates(
    candidates: Sequence[Candidate], objective: Objective, best: int, spread: int
) -> list[tuple[str, Candidate]]:
    """The candidates to measure with why they were chosen, `best 2` or `front 1`; the best first.

    Args:
        candidates: those that a study keeps, in the order they were found.
        best: so many by the objective. Of several on one accelerator the best comes first, the others only when there
            are too few accelerators: what a search last improved differs by less than any model can tell.
        spread: so many more from the front, each the farthest from those before it (`baco.exploration.front.farthest`, in the
            metrics of the front), and at most `MOST_LATENCY` times as slow as the best.
    """
    first, rest = by_accelerator(candidates, objective)
    chosen = (first + rest)[:best]
    names = [f"best {number + 1}" for number in range(len(chosen))]
    if spread > 0 and first:
        limit = MOST_LATENCY * candidates[first[0]].cost.latency_cycles
        members = [
            i
            for i, candidate in enumerate(candidates)
            if i not in chosen and candidate.front and candidate.cost.latency_cycles <= limit
        ]
        pool = [*chosen, *members]
        points = np.array(
            [[metric(candidates[i].cost, name) for name in objective.front_metrics] for i in pool]
        )
        found_places = farthest(points, min(spread, len(members)), range(len(chosen))) if pool else []
        added = [i for i in dict.fromkeys(pool[place] for place in found_places) if i not in chosen]
        chosen += added
        names += [f"front {number + 1}" for number in range(len(added))]
    return [(name, candidates[i]) for name, i in zip(names, chosen, strict=True)]
