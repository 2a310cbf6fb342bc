"""New mappings for the local search: built to fill accelerators, or changed to be neighbours of others.

Proposals are free; only evaluations count. All that is proposed fits the accelerator it is proposed for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from explore.genome import FLOW, MACRO, Genomes, explicit
from explore.search.archive import Archive
from explore.search.moves import Load, construct, mutate, neighbours
from explore.search.tilings import construct_tilings, tiling_neighbours

if TYPE_CHECKING:
    from explore.cost.predicted import InstructionModel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Where there are macros: share of tilings among mappings built anew, and chances that a neighbour of a tiling is one
#: and that a neighbour of another mapping becomes one.
_TILINGS, _STAY_MACRO, _BECOME_MACRO = 0.75, 0.92, 0.3
#: Attempts to find a neighbour that has not been tried.
_ATTEMPTS = 4


class Proposals:
    """Proposes mappings of an archive's tasks.

    Args:
        archive: knows problems, capacities and what has been tried.
        flows: dataflows to choose from.
        random: all chance comes from it.
        macros: the model that tells macros from explicit code; None if none does.
    """

    def __init__(
        self,
        archive: Archive,
        flows: Sequence[int],
        random: np.random.Generator,
        macros: InstructionModel | None,
    ) -> None:
        self.archive = archive
        self.flows = flows
        self.random = random
        self.macros = macros

    def construct(self, task: Ints, limit: Floats) -> tuple[Genomes, Bools]:
        """New mappings that fill the hardware points `limit` (B, 3), and which of them fit."""
        bounds, dim = self.archive.problems.bounds[task], limit[:, 0].astype(np.int64)
        every = np.arange(len(task))
        rows, good = construct(bounds, dim, self.flows, self._load(task, limit, every), self.random)
        if self.macros is not None:
            chosen = self.macros.can(task, dim) & (self.random.random(len(task)) < _TILINGS)
            part = every[chosen]
            rows[part], good[part] = construct_tilings(
                bounds[part], dim[part], self._load(task, limit, part), self.random
            )
        return rows, good

    def neighbours(self, task: Ints, base: Genomes, limit: Floats) -> tuple[Ints, Genomes]:
        """Changed mappings that fit and have not been tried, with their tasks."""
        open_ = np.ones(len(task), dtype=np.bool_)
        result = base.copy()
        for _ in range(_ATTEMPTS):
            index = np.flatnonzero(open_)
            if not len(index):
                break
            rows, good = self._changed(task, base, limit, index)
            good[good] = self.archive.fresh(task[index][good], rows[good])
            result[index[good]] = rows[good]
            open_[index[good]] = False
        return task[~open_], result[~open_]

    def shaken(self, task: Ints, base: Genomes, limit: Floats) -> Genomes:
        """Neighbours of neighbours, fitting or not."""
        bounds, rows = self.archive.problems.bounds[task], explicit(base)
        for _ in range(2):
            rows = mutate(rows, bounds, limit[:, 0].astype(np.int64), self.flows, self.random)
        return rows

    def _changed(self, task: Ints, base: Genomes, limit: Floats, index: Ints) -> tuple[Genomes, Bools]:
        """A neighbour of each row at `index`, and which of them fit; macro tilings mostly stay such, and others may
        become some."""
        bounds, dim = self.archive.problems.bounds[task], limit[:, 0].astype(np.int64)
        rows, good = base[index], np.zeros(len(index), dtype=np.bool_)
        tiling = np.zeros(len(index), dtype=np.bool_)
        if self.macros is not None:
            stay = np.where(rows[:, FLOW] >= MACRO, _STAY_MACRO, _BECOME_MACRO)
            tiling = self.macros.can(task[index], dim[index]) & (self.random.random(len(index)) < stay)
        if tiling.any():
            part = index[tiling]
            rows[tiling], good[tiling] = tiling_neighbours(
                base[part], bounds[part], dim[part], self._load(task, limit, part), self.random
            )
        if not tiling.all():
            part = index[~tiling]
            rows[~tiling], good[~tiling] = neighbours(
                explicit(base[part]),
                bounds[part],
                dim[part],
                self.flows,
                self._load(task, limit, part),
                self.random,
            )
        return rows, good

    def _load(self, task: Ints, limit: Floats, part: Ints) -> Load:
        """What rows take of their accelerators, numbered as in `part`."""

        def load(index: Ints, rows: Genomes) -> tuple[Floats, Floats]:
            which = part[index]
            return self.archive.load(task[which], rows, limit[which])

        return load
