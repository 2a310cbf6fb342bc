"""Pareto fronts: which points no other dominates, and which to keep when they are too many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from baco.common import portable
from baco.common.portable import Floats

#: Rows that are compared with all others at a time.
_BLOCK = 256


def nondominated(points: Floats) -> NDArray[np.int64]:
    """Indices, ascending, of the rows of `points` (n, metrics; lower is better) that no other row dominates.

    Of equal rows the first is kept.
    """
    if not len(points):
        return np.empty(0, dtype=np.int64)
    # in lexicographic order nothing is dominated by what comes after it
    unique, first = np.unique(points, axis=0, return_index=True)
    front = np.empty(0, dtype=np.int64)
    for start in range(0, len(unique), _BLOCK):
        block = np.arange(start, min(start + _BLOCK, len(unique)))
        others = np.concatenate([front, block])
        no_worse = np.ones((len(others), len(block)), dtype=bool)
        for column in unique.T:
            no_worse &= column[others, None] <= column[block]
        front = np.concatenate([front, block[no_worse.sum(axis=0) < 2]])  # no worse is only itself
    return np.sort(first[front]).astype(np.int64)


def thin(points: Floats, limit: int, *, always: Iterable[int] = ()) -> NDArray[np.int64]:
    """Indices, ascending, of at most `limit` rows of `points` (n, metrics) that cover the front evenly.

    The best row of every metric and the rows `always` stay, even if they are more than `limit`; then the row
    farthest from all chosen ones is added again and again (distances in logarithms, each metric scaled to its
    range), ties going to the first. Depends on nothing but the arguments.
    """
    if len(points) <= limit:
        return np.arange(len(points), dtype=np.int64)
    chosen = list(dict.fromkeys([int(i) for i in points.argmin(axis=0)] + [int(i) for i in always]))
    return np.array(sorted({*chosen, *farthest(points, limit - len(chosen), chosen)}), dtype=np.int64)


def farthest(points: Floats, count: int, chosen: Sequence[int]) -> list[int]:
    """Indices of `count` rows of `points` (n, metrics), each the farthest from those before it and from the rows `chosen`.

    Distances are in logarithms, each metric scaled to its range; ties go to the first.
    """
    columns = np.ascontiguousarray(_scaled(points).T)
    distance = np.full(len(points), np.inf)

    def add(index: int) -> None:
        away = portable.total((columns - columns[:, index, None]) ** 2, axis=0)
        np.minimum(distance, away, out=distance)

    for index in chosen:
        add(index)
    found: list[int] = []
    while len(found) < count:
        found.append(int(distance.argmax()))
        add(found[-1])
    return found


def knee(points: Floats) -> int:
    """Index of the row of `points` (n, metrics), at least one, that is the best compromise: the nearest to the best values
    of all metrics at once. Distances are in logarithms, each metric scaled to its range; ties go to the first."""
    return int(portable.total(_scaled(points) ** 2).argmin())


def _scaled(points: Floats) -> Floats:
    """Logarithms of `points` (n, metrics), each metric from 0 at its least to 1 at its largest."""
    logarithms = portable.log(np.maximum(points, np.finfo(np.float64).tiny))
    low, high = logarithms.min(axis=0), logarithms.max(axis=0)
    return np.asarray((logarithms - low) / np.where(high > low, high - low, 1.0))
