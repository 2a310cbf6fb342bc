"""What the entries of an archive cost on the hardware points of a scan: kept from scan to scan, so that only new entries are priced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from baco.common.portable import Bools, Floats, Ints
from baco.exploration.space.points import HardwarePoints

#: Energy and latency of some entries (a table of an archive's data) on hardware points, (H, n) each.
Price = Callable[[Floats, HardwarePoints], tuple[Floats, Floats]]


class Priced:
    """Entries of every task on some hardware points.

    Args:
        hardware: the points.
        tasks: how many there are.
        price: says what entries cost; not a matter of other entries, so that what is kept has the bits of what is computed anew.

    Attributes:
        energy, latency: (H, n) of one run, by task; infinite where an entry does not fit.
    """

    def __init__(self, hardware: HardwarePoints, tasks: int, price: Price) -> None:
        self.hardware, self._price = hardware, price
        self.energy = [np.zeros((len(hardware), 0)) for _ in range(tasks)]
        self.latency = [np.zeros((len(hardware), 0)) for _ in range(tasks)]
        self._weighings: Floats | None = None
        #: By task: the entry chosen under each weighing (H, G), and of how many entries.
        self._best: list[tuple[Ints, int] | None] = [None] * tasks

    def update(self, data: Sequence[Floats]) -> None:
        """Price the entries that are new in an archive's data."""
        for task, table in enumerate(data):
            known = self.energy[task].shape[1]
            if table.shape[1] > known:
                energy, latency = self._price(table[:, known:], self.hardware)
                self.energy[task] = np.concatenate([self.energy[task], energy], 1)
                self.latency[task] = np.concatenate([self.latency[task], latency], 1)

    def keep(self, task: int, used: Bools) -> None:
        """Forget the entries of a task that are not used: none of them was chosen."""
        if used.all():
            return
        self.energy[task], self.latency[task] = self.energy[task][:, used], self.latency[task][:, used]
        best = self._best[task]
        if best is not None:
            chosen, _ = best
            places = np.where(used, np.cumsum(used) - 1, 0)
            self._best[task] = places[chosen], int(used.sum())

    def weighed(self, weighings: Floats) -> None:
        """Choose by these weighings from here on (cycles per pJ, (H, G))."""
        if self._weighings is None or not np.array_equal(self._weighings, weighings):
            self._weighings, self._best = weighings.copy(), [None] * len(self._best)

    def chosen(self, task: int) -> Ints:
        """The best entry of a task, of equals the first, (H, G)."""
        weighings = self._weighings
        assert weighings is not None
        energy, latency = self.energy[task], self.latency[task]
        choice, known = self._best[task] or (np.zeros(weighings.shape, dtype=np.int64), 0)
        if known < energy.shape[1]:
            rows, new_e, new_l = np.arange(len(energy)), energy[:, known:], latency[:, known:]
            choice = choice.copy()
            for g in range(weighings.shape[1]):
                weight = weighings[:, g]
                best = (weight[:, None] * new_e + new_l).argmin(1)
                if known:
                    old = choice[:, g]
                    better = weight * new_e[rows, best] + new_l[rows, best] < (
                        weight * energy[rows, old] + latency[rows, old]
                    )
                    choice[:, g] = np.where(better, known + best, old)
                else:
                    choice[:, g] = best
            self._best[task] = choice, energy.shape[1]
        return choice

    @cached_property
    def places(self) -> dict[tuple[float, float, float, bool], int]:
        """Where each hardware point is."""
        rows = zip(*(column.tolist() for column in self.hardware.columns), strict=True)
        return {row: n for n, row in enumerate(rows)}
