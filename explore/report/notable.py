"""Which of a report's designs stand out: the Pareto front, and its knee."""

from __future__ import annotations

import numpy as np

from baco.exploration.front import knee
from baco.exploration.objective import metric
from baco.exploration.report.data import ReportData

__all__ = ["front_indices", "knee_index"]


def front_indices(data: ReportData) -> list[int]:
    """Candidates on the Pareto front, ascending in its first metric."""
    first = data.objective.front_metrics[0]
    members = [index for index, candidate in enumerate(data.candidates) if candidate.front]
    return sorted(members, key=lambda index: metric(data.candidates[index].cost, first))


def knee_index(data: ReportData) -> int | None:
    """The candidate on the front that is the nearest to the best values of all its metrics at once; None without a front.

    The metrics are those of the front; see `baco.exploration.front.knee` for distances.
    """
    front, names = front_indices(data), data.objective.front_metrics
    if not front:
        return None
    return front[knee(np.array([[metric(data.candidates[i].cost, name) for name in names] for i in front]))]
