"""The best compromise of a study."""

from __future__ import annotations

import numpy as np

from explore.front import knee
from explore.objective import metric
from explore.report.data import ReportData
from explore.report.summary import front_indices

__all__ = ["knee_index"]


def knee_index(data: ReportData) -> int:
    """The candidate on the front that is the nearest to the best values of all its metrics at once.

    The metrics are those of the front; see `explore.front.knee` for distances.
    """
    front, names = front_indices(data), data.objective.front_metrics
    points = [[metric(data.candidates[index].cost, name) for name in names] for index in front]
    return front[knee(np.array(points))]
