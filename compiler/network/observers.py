"""Ends of scales other than by the least squared error: percentiles, and the least information lost.

Both cut off the rare large numbers, so that steps are finer for all others. Entropy is the calibration that TensorRT made known (Migacz,
"8-bit inference with TensorRT", 2017): of the candidates the one whose 127 steps tell most of how magnitudes are distributed.
"""

from __future__ import annotations

import numpy as np

_BINS = 4096
#: Share of the numbers that a percentile keeps.
KEPT = 0.9999
#: Steps of a scale on one side of 0.
_STEPS = 127
#: Ends that are tried, as parts of the largest magnitude.
_PARTS = np.arange(80, 7, -1) / 80


class Histogram:
    """How many numbers there are of each magnitude, in even bins up to a limit that grows with them."""

    def __init__(self) -> None:
        self.counts = np.zeros(_BINS, np.int64)
        self.limit = 0.0

    def add(self, numbers: np.ndarray) -> None:
        """Count finite numbers of any shape, but for zeros: a scale has them whatever it is."""
        size = np.abs(numbers.reshape(-1).astype(np.float64))
        size = size[size > 0]
        if not size.size:
            return
        largest = float(size.max())
        self.limit = self.limit or largest
        while largest > self.limit:
            merged = self.counts.reshape(-1, 2).sum(1)
            self.counts = np.concatenate([merged, np.zeros(_BINS // 2, np.int64)])
            self.limit *= 2
        bins = np.minimum((size * (_BINS / self.limit)).astype(np.int64), _BINS - 1)
        self.counts += np.bincount(bins, minlength=_BINS)

    def percentile(self, largest: float) -> float:
        """The end that all but a ten-thousandth of the numbers lie below, to a bin; at most `largest`."""
        total = self.counts.sum()
        if not total:
            return largest
        kept = int(np.searchsorted(np.cumsum(self.counts), KEPT * total)) + 1
        return min(largest, kept * self.limit / _BINS)

    def entropy(self, largest: float) -> float:
        """The part of `largest` that loses least, the longest of equal ones."""
        used = min(_BINS, int(np.ceil(largest * _BINS / self.limit))) if self.limit else 0
        ends = [max(_STEPS, round(part * used)) for part in _PARTS if part * used >= _STEPS]
        if not ends:
            return largest
        losses = [divergence(self.counts[:used], end) for end in ends]
        best = ends[int(np.argmin(losses))]
        return largest if best == ends[0] else min(largest, best * self.limit / _BINS)


def divergence(counts: np.ndarray, end: int) -> float:
    """Information lost, nats, where magnitudes of these counts are told apart by 127 steps up to the bin `end`.

    What lies beyond counts in the last bin; the numbers of a step are spread evenly over those of its bins that have any
    (Kullback-Leibler divergence).
    """
    wanted = counts[:end].astype(np.float64)
    inside = wanted.copy()
    wanted[-1] += counts[end:].sum()
    steps = np.minimum(np.arange(end) * _STEPS // end, _STEPS - 1)
    filled = inside > 0
    totals = np.bincount(steps, inside, _STEPS)
    bins = np.maximum(np.bincount(steps, filled, _STEPS), 1)
    given = np.where(filled, (totals / bins)[steps], 0)
    if not given.any():
        return float("inf")
    p, q = wanted / wanted.sum(), given / given.sum()
    told = p > 0
    # where nothing of the steps is left, one number in a million stands
    return float((p[told] * np.log(p[told] / np.maximum(q[told], 1e-6))).sum())
