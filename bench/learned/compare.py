"""Residuals side by side: trained on some tasks and accelerators, tested on others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.bench.learned.measured_set import MeasuredSet, joined
from baco.bench.learned.scores import Scores, grouped_folds, scores
from baco.bench.learned.train import train
from baco.exploration.cost.learned.model import Corrected
from baco.exploration.cost.learned.protocol import Floats

__all__ = ["SPLITS", "ResidualScores", "coverage", "cross_validated", "split_folds", "stratum_scores"]

Progress = Callable[[str], None]
#: What test rows share with no training row: the layer, the accelerator, or either.
SPLITS = ("task", "accelerator", "both")


def split_folds(
    data: MeasuredSet, split: str, folds: int, seed: int
) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """(training rows, test rows) of each fold; every row is tested once.

    With `both`, test rows of an accelerator are tested by a model that saw neither it nor their layers.
    """
    groups = data.tasks if split == "task" else data.machines
    for test in grouped_folds(groups, folds, seed):
        train = ~test
        if split == "both":
            train &= ~np.isin(data.tasks, data.tasks[test])
        if train.any():
            yield train, test


@dataclass(frozen=True)
class ResidualScores:
    """One residual under one split.

    Attributes:
        name, split: of them.
        seeds: scores of each seed.
        within: of each seed, see `coverage`.
        seconds: processor time of learning once, on average.
    """

    name: str
    split: str
    seeds: tuple[Scores, ...]
    within: tuple[dict[str, float], ...] = ()
    seconds: float = 0.0

    @property
    def mean_within(self) -> dict[str, float]:
        """Coverage, the mean over the seeds."""
        return {
            name: float(np.mean([one[name] for one in self.within])) for name in (self.within or ({},))[0]
        }

    def mean(self, field: str) -> float:
        """Of one score over the seeds."""
        return float(np.mean([getattr(one, field) for one in self.seeds]))

    def spread(self, field: str) -> float:
        """Standard deviation of one score over the seeds."""
        return float(np.std([getattr(one, field) for one in self.seeds]))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "name": self.name,
            "split": self.split,
            "seeds": [asdict(one) for one in self.seeds],
            "within": list(self.within),
            "seconds": self.seconds,
        }


def cross_validated(
    data: MeasuredSet,
    name: str,
    split: str = "both",
    *,
    folds: int = 5,
    rounds: int | None = None,
    seeds: Sequence[int] = (0,),
    also: MeasuredSet | None = None,
    progress: Progress = lambda _: None,
) -> tuple[ResidualScores, Corrected]:
    """Predict every row by models that were not trained on what the split keeps apart.

    Args:
        rounds: so many of a seed's folds are tested, all by default; rows of the others are not scored.
        also: further rows to learn from, without those of the layers that are tested.

    Returns the scores, and the first seed's predictions (rows that were not tested: as the analytical model has them).
    """
    found: list[Scores] = []
    within: list[dict[str, float]] = []
    seconds: list[float] = []
    first: Corrected | None = None
    for seed in seeds:
        cycles, deviation = data.predicted.copy(), np.ones(len(data))
        tested = np.zeros(len(data), np.bool_)
        for learned, test in islice(split_folds(data, split, folds, seed), rounds):
            rows = data.take(learned)
            if also is not None:
                rows = joined([rows, also.take(~np.isin(also.tasks, data.tasks[test]))])
            begun = time.process_time()
            model = train(name, rows, seed)
            seconds.append(time.process_time() - begun)
            part = model.correct(data.features.take(test), data.predicted[test])
            cycles[test], deviation[test] = part.cycles, part.deviation
            tested |= test
        rows, all_of = data.take(tested), Corrected(cycles, deviation)
        found.append(scores(cycles[tested], rows.cycles, rows.groups))
        within.append(coverage(Corrected(cycles[tested], deviation[tested]), rows))
        first = first or all_of
        progress(
            f"{name}, split by {split}, seed {seed}: {found[-1]}, {found[-1].pairs_percent:.2f}% of pairs in order"
        )
    assert first is not None
    return ResidualScores(name, split, tuple(found), tuple(within), float(np.mean(seconds))), first


def stratum_scores(cycles: Floats, data: MeasuredSet) -> dict[str, Scores]:
    """Scores of predicted cycles (B,) for the rows that waited for the same resource."""
    strata = np.array(data.strata)
    return {
        name: scores(cycles[strata == name], data.cycles[strata == name]) for name in sorted(set(data.strata))
    }


def coverage(found: Corrected, data: MeasuredSet) -> dict[str, float]:
    """Percent of measurements within one and two deviations; 68 and 95 if errors were normal and deviations right."""
    away = np.abs(np.log(data.cycles / found.cycles)) / found.deviation
    return {"within 1": float(100 * (away <= 1).mean()), "within 2": float(100 * (away <= 2).mean())}
