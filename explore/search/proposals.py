"""New mappings for the local search: built to fill accelerators, or changed to be neighbours of others.

Proposals are free; only evaluations count. All that is proposed fits the accelerator it is proposed for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from baco.common import portable
from baco.common.portable import Bools, Floats, Ints
from baco.exploration.cost.genome import C_AXIS, FLOW, K_AXIS, Genomes, explicit, is_macro_flow
from baco.exploration.search.archive import Archive
from baco.exploration.search.moves import Load, construct, mutate, neighbours
from baco.exploration.search.tilings import construct_tilings, tiling_neighbours

if TYPE_CHECKING:
    from baco.exploration.cost.predicted import InstructionModel


#: Where there are macros: share of tilings among mappings built anew, and chances that a neighbour of a tiling is one
#: and that a neighbour of another mapping becomes one.
_TILINGS, _STAY_MACRO, _BECOME_MACRO = 0.75, 0.92, 0.3
#: Share of mappings with several groups at once among those built anew, where there are groups to pack.
_PACKED = 0.85
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
        #: Whether how often tiles are held is to be chosen: the reference model sees no difference but in what they take.
        self.copies = macros is not None and archive.double_buffer

    def construct(self, task: Ints, limit: Floats) -> tuple[Genomes, Bools]:
        """New mappings that fill the hardware points `limit` (B, 3), and which of them fit."""
        dim = limit[:, 0].astype(np.int64)
        every = np.arange(len(task))
        packed = self._packed(task, dim)
        bounds = self.archive.problems.packed_bounds(task, packed)
        load = self._load(task, limit, every)
        rows, good = construct(bounds, dim, self.flows, load, self.random, copies=self.copies)
        good &= self.archive.problems.packed(task, rows) == packed
        if self.macros is not None:
            chosen = self.macros.can(task, dim) & (self.random.random(len(task)) < _TILINGS) & (packed == 1)
            part = every[chosen]
            rows[part], good[part] = construct_tilings(
                bounds[part], dim[part], self._load(task, limit, part), self.random
            )
        return rows, good

    def _packed(self, task: Ints, dim: Ints) -> Ints:
        """How many groups to run at once, at random: powers of two up to what arrays of sides `dim` have lanes for."""
        problems = self.archive.problems
        packed = np.ones(len(task), dtype=np.int64)
        index = np.flatnonzero(problems.packs[task] & (self.random.random(len(task)) < _PACKED))
        if len(index):
            bounds = problems.bounds[task[index]][:, [C_AXIS, K_AXIS]].max(1)
            most = np.minimum(dim[index] // bounds, problems.groups[task[index]]).clip(1)
            steps = np.floor(portable.log2(most)).astype(np.int64)
            packed[index] = 1 << self.random.integers(np.minimum(1, steps), steps + 1)
        return packed

    def neighbours(self, task: Ints, base: Genomes, limit: Floats) -> tuple[Ints, Genomes]:
        """Changed mappings that fit and have not been tried, with their tasks."""
        rows, found = self.changes(task, base, limit)
        return task[found], rows[found]

    def changes(self, task: Ints, base: Genomes, limit: Floats) -> tuple[Genomes, Bools]:
        """Of every row a changed mapping that fits and has not been tried, and for which of them one was found."""
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
        return result, ~open_

    def shaken(self, task: Ints, base: Genomes, limit: Floats) -> Genomes:
        """Neighbours of neighbours, fitting or not."""
        rows = explicit(base)
        bounds = self.archive.problems.packed_bounds(task, self.archive.problems.packed(task, rows))
        for _ in range(2):
            rows = mutate(rows, bounds, limit[:, 0].astype(np.int64), self.flows, self.random)
        return rows

    def _changed(self, task: Ints, base: Genomes, limit: Floats, index: Ints) -> tuple[Genomes, Bools]:
        """A neighbour of each row at `index`, and which of them fit; macro tilings mostly stay such, and others may
        become some."""
        problems, dim = self.archive.problems, limit[:, 0].astype(np.int64)
        packed = problems.packed(task, base)
        bounds = problems.packed_bounds(task, packed)
        rows, good = base[index], np.zeros(len(index), dtype=np.bool_)
        tiling = np.zeros(len(index), dtype=np.bool_)
        if self.macros is not None:
            stay = np.where(is_macro_flow(rows[:, FLOW]), _STAY_MACRO, _BECOME_MACRO)
            tiling = self.macros.can(task[index], dim[index]) & (self.random.random(len(index)) < stay)
            tiling &= packed[index] == 1
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
                copies=self.copies,
            )
            # groups that no longer fill the lanes would leave them to padding
            good[~tiling] &= (problems.packed(task[part], rows[~tiling]) > 1) == (packed[part] > 1)
        return rows, good

    def _load(self, task: Ints, limit: Floats, part: Ints) -> Load:
        """What rows take of their accelerators, numbered as in `part`."""

        def load(index: Ints, rows: Genomes) -> tuple[Floats, Floats]:
            which = part[index]
            return self.archive.load(task[which], rows, limit[which])

        return load
