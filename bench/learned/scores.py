"""How good predictions are, and splits that keep what belongs together on one side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.exploration.cost.evaluate import spearman
from baco.exploration.cost.learned.protocol import Floats

#: Pairs that the pairwise accuracy looks at, at most.
_PAIRS = 200_000


@dataclass(frozen=True)
class Scores:
    """Errors of predicted against measured cycles; relative ones in percent of what was measured.

    Attributes:
        rows: compared.
        spearman: rank correlation; None when either side is constant.
        mean_percent, median_percent: of the absolute relative error.
        bias_percent: mean of the signed relative error.
        pairs_percent: pairs of programs of one task that are in the right order; None without such pairs.
    """

    rows: int
    spearman: float | None
    mean_percent: float
    median_percent: float
    bias_percent: float
    pairs_percent: float | None = None

    def __str__(self) -> str:
        rank = "-" if self.spearman is None else f"{self.spearman:.4f}"
        return (
            f"{self.rows:,} rows: Spearman {rank}, error mean {self.mean_percent:.1f}%,"
            f" median {self.median_percent:.1f}%, bias {self.bias_percent:+.1f}%"
        )


def scores(predicted: Floats, measured: Floats, tasks: NDArray[Any] | None = None) -> Scores:
    """Errors of predicted against measured cycles, both (B,); `tasks` (B,) numbers rows that compete."""
    signed = 100 * (predicted / measured - 1)
    return Scores(
        rows=len(measured),
        spearman=spearman(predicted, measured),
        mean_percent=float(np.abs(signed).mean()),
        median_percent=float(np.median(np.abs(signed))),
        bias_percent=float(signed.mean()),
        pairs_percent=None if tasks is None else pairwise_accuracy(predicted, measured, tasks),
    )


def pairwise_accuracy(predicted: Floats, measured: Floats, tasks: NDArray[Any]) -> float | None:
    """Percent of pairs within a task whose order is predicted; equal measurements are no pair."""
    right = pairs = 0
    for task in np.unique(tasks):
        rows = np.flatnonzero(tasks == task)
        one, other = (rows[index] for index in np.triu_indices(len(rows), 1))
        if len(one) > _PAIRS:
            one, other = one[:_PAIRS], other[:_PAIRS]
        sign = np.sign(measured[one] - measured[other])
        pairs += int((sign != 0).sum())
        right += int(((np.sign(predicted[one] - predicted[other]) == sign) & (sign != 0)).sum())
    return 100 * right / pairs if pairs else None


def group_numbers(*keys: Sequence[Any]) -> NDArray[np.int64]:
    """(B,) a number for every different combination of the keys' texts, in the order of the texts."""
    texts = [" | ".join(map(str, row)) for row in zip(*keys, strict=True)]
    return np.unique(np.array(texts), return_inverse=True)[1].astype(np.int64)


def grouped_folds(groups: NDArray[Any], folds: int, seed: int) -> Iterator[NDArray[np.bool_]]:
    """Test rows of each fold; the rows of a group are all in one."""
    names = np.random.default_rng(seed).permutation(np.unique(groups))
    for fold in range(min(folds, len(names))):
        yield np.isin(groups, names[fold :: min(folds, len(names))])


def mean_scores(found: Sequence[Scores]) -> Scores:
    """Means over several scores of as many rows."""
    ranks = [scores.spearman for scores in found if scores.spearman is not None]
    return Scores(
        rows=found[0].rows,
        spearman=float(np.mean(ranks)) if ranks else None,
        mean_percent=float(np.mean([scores.mean_percent for scores in found])),
        median_percent=float(np.mean([scores.median_percent for scores in found])),
        bias_percent=float(np.mean([scores.bias_percent for scores in found])),
    )
