"""Free rows of many scratchpads of one size, from which what lies together is taken: of each the smallest interval that holds it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
#: Rows of each scratchpad from and to (S,); of none where they are the same.
Intervals = tuple[Integers, Integers]


class Rooms:
    """Free rows of `count` scratchpads of so many `rows`, as intervals; what is asked of them has shape (count,).

    A *group* of banks is either half of the quarters in turn: 0 the first and third, 1 the second and fourth.
    """

    def __init__(self, count: int, rows: int) -> None:
        self._start = np.zeros((count, 1), dtype=np.int64)
        self._end = np.full((count, 1), rows, dtype=np.int64)
        self._quarter, self._every = max(1, rows // 4), np.arange(count)
        #: More than any row.
        self._beyond = rows + 1

    def copy(self) -> tuple[Integers, Integers]:
        """What `undo` goes back to."""
        return self._start.copy(), self._end.copy()

    def undo(self, before: tuple[Integers, Integers], where: Bools) -> None:
        """Free again what was taken since a `copy`."""
        start, end = np.zeros_like(self._start), np.zeros_like(self._end)
        start[:, : before[0].shape[1]], end[:, : before[1].shape[1]] = before
        self._start = np.where(where[:, None], start, self._start)
        self._end = np.where(where[:, None], end, self._end)

    def take(self, rows: Integers, group: int | None, where: Bools) -> tuple[Integers, Bools]:
        """First of so many rows that lie together, in one group of banks or (None) anywhere, and in which scratchpads there are
        such; asked of those `where` it is true."""
        start, end = self._pieces(group)
        fits = (end - start >= rows[:, None]) & (end > start)
        key = np.where(fits, (end - start) * self._beyond + start, self._beyond**2)
        best = key.argmin(1)
        found = where & fits[self._every, best]
        first = start[self._every, best]
        self.remove(first, rows, found)
        return first, found

    def take_over(self, rows: Integers, group: int, where: Bools) -> tuple[Integers, Bools]:
        """Likewise rows of which as many as possible are in one quarter of the group."""
        taken, first = np.zeros_like(where), np.zeros_like(rows)
        for quarter in (group, group + 2):
            for start in (np.full_like(rows, quarter * self._quarter), (quarter + 1) * self._quarter - rows):
                free = (self._start <= start[:, None]) & (start[:, None] + rows[:, None] <= self._end)
                here = where & ~taken & (free & (self._end > self._start)).any(1)
                self.remove(start, rows, here)
                first, taken = np.where(here, start, first), taken | here
        return first, taken

    def halves(self, group: int) -> tuple[Integers, Integers, Integers, Integers]:
        """The largest free intervals in both quarters of a group, in order: from and to of the one, and of the other."""
        found: list[Integers] = []
        for quarter in (group, group + 2):
            low, high = quarter * self._quarter, (quarter + 1) * self._quarter
            found += self._largest(np.maximum(self._start, low), np.minimum(self._end, high))[:2]
        first, end, second, stop = found
        return first, end, second, stop

    def largest(self, group: int | None) -> tuple[Integers, Integers, Integers, Integers]:
        """The largest free interval of a group, and the next one: from and to of both; of no rows where there is none."""
        start, end = self._pieces(group)
        first, stop, place = self._largest(start, end)
        start, end = start.copy(), end.copy()
        end[self._every, place] = start[self._every, place]
        return first, stop, *self._largest(start, end)[:2]

    def remove(self, start: Integers, rows: Integers, where: Bools) -> None:
        """Rows that are taken, which lie in one free interval."""
        if not where.any():
            return
        inside = (self._start <= start[:, None]) & (start[:, None] + rows[:, None] <= self._end)
        place = (inside & (self._end > self._start)).argmax(1)
        end = self._end[self._every, place]
        self._end[where, place[where]] = start[where]
        behind = np.where(where, start + rows, 0)[:, None], np.where(where, end, 0)[:, None]
        self._start = np.concatenate([self._start, behind[0]], 1)
        self._end = np.concatenate([self._end, behind[1]], 1)

    def shares(self, parts: Sequence[Intervals]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Parts of rows, from and to, in both groups of banks."""
        inside = [np.zeros_like(self._every), np.zeros_like(self._every)]
        for start, end in parts:
            for n in range(4):
                low, high = n * self._quarter, (n + 1) * self._quarter
                inside[n % 2] = inside[n % 2] + np.maximum(0, np.minimum(end, high) - np.maximum(start, low))
        total = np.maximum(1, inside[0] + inside[1])
        return inside[0] / total, inside[1] / total

    def _pieces(self, group: int | None) -> tuple[Integers, Integers]:
        """Free intervals, (count, K) each, of one group of banks only."""
        if group is None:
            return self._start, self._end
        quarters = [(n * self._quarter, (n + 1) * self._quarter) for n in (group, group + 2)]
        return (
            np.concatenate([np.maximum(self._start, low) for low, _ in quarters], 1),
            np.concatenate([np.minimum(self._end, high) for _, high in quarters], 1),
        )

    def _largest(self, start: Integers, end: Integers) -> tuple[Integers, Integers, Integers]:
        """The largest of intervals (count, K), of those the last one; from, to and place, from and to 0 where all are empty."""
        size = np.maximum(end - start, 0)
        place = np.where(size > 0, size * self._beyond + start, -1).argmax(1)
        there = size[self._every, place] > 0
        return (
            np.where(there, start[self._every, place], 0),
            np.where(there, end[self._every, place], 0),
            place,
        )
