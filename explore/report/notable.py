"""Which of a report's designs stand out: the Pareto front, its knee, and what cannot be told from the best."""

from __future__ import annotations

import numpy as np

from baco.exploration.front import knee
from baco.exploration.objective import metric
from baco.exploration.report.data import ReportData

#: A model that is off by more in the mean orders no designs.
_NO_FORECAST = 0.5


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


def tied_indices(data: ReportData) -> list[int]:
    """The best designs of other accelerators that cannot be told from the best design, the better first: their objective (its first
    metric) differs by no more than the known error of predictions. What was measured of both does tell."""
    name = data.objective.metrics[0]
    if name not in data.errors:  # a function of the user's, whose error nobody knows
        return []
    error, best = data.errors[name].mean, metric(data.best.cost, name)
    if data.violations or error > _NO_FORECAST or not best > 0:
        return []
    heads: dict[str, int] = {}
    for index, one in enumerate(data.candidates):
        status = data.validated[index].status if index in data.validated else ""
        if status in ("failed", "infeasible"):
            continue
        other = heads.setdefault(one.accelerator.config_hash, index)
        if metric(one.cost, name) < metric(data.candidates[other].cost, name):
            heads[one.accelerator.config_hash] = index
    heads.pop(data.best.accelerator.config_hash, None)
    ratios = {index: metric(data.candidates[index].cost, name) / best for index in heads.values()}
    return sorted(
        (
            index
            for index, ratio in ratios.items()
            if "predicted" in (data.source, data.candidates[index].cost.source)
            and 1 / (1 + error) <= ratio <= 1 + error
        ),
        key=lambda index: (ratios[index], index),
    )
