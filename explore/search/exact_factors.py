"""Random mappings whose factors divide the loop bounds exactly, as the published searches draw them.

A loop bound is split over the array (where its dimension is spread) and levels 1, 2 and 3 by drawing one of
its ordered factorisations, all equally likely: every power of a prime is shared out independently. Draws that
an accelerator cannot hold are drawn again, which costs no evaluation (the published mappers count valid
mappings only).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from baco.common import portable
from baco.common.portable import Bools, Floats, Ints
from baco.compiler.mapping.factors import divisors, prime_powers
from baco.exploration.cost.genome import (
    COLUMNS,
    FLOW,
    FLOWS,
    K_AXIS,
    ORDER,
    ROW_AXIS,
    ROWS,
    T1,
    T2,
    T3,
    Genomes,
    trivial,
)

#: Published loop orders over DRAM: the first entries of `genome.DRAM_ORDERS`.
PUBLISHED_ORDERS = 3
#: Rounds of drawing again, before factors are moved out to DRAM until a mapping fits.
_REDRAWS = 24
_SPATIAL_REDRAWS = 16

#: Whether rows of genomes fit, given their index into the batch at hand.
Fits = Callable[[Ints, Genomes], Bools]
#: Chooses one of `ways` for the rows at an index: (index, slot, ways) -> (len(index),). A slot names a decision.
Pick = Callable[[Ints, int, int], Ints]
#: A bound below 2^53 has at most 15 different primes.
_PRIME_SLOTS = 16
_FLOW_SLOT, _ORDER_SLOT = 7 * _PRIME_SLOTS, 7 * _PRIME_SLOTS + 1
_AXIS_SLOTS = 8 * _PRIME_SLOTS


def nearest_divisor(log_value: Floats, number: Ints, limit: Ints) -> Ints:
    """The divisors of `number` (B,) not above `limit` that are nearest to exp(`log_value`) in ratio."""
    result = np.ones_like(number)
    for n in np.unique(number):
        mine = np.flatnonzero(number == n)
        distance = np.abs(portable.log(divisors(int(n)))[None, :] - log_value[mine][:, None])
        distance[divisors(int(n))[None, :] > limit[mine][:, None]] = np.inf
        result[mine] = divisors(int(n))[distance.argmin(1)]
    return result


def _mixed(numbers: Ints, slot: int) -> NDArray[np.uint64]:
    """Well mixed bits of every number and the slot (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        z = numbers.astype(np.uint64) + np.uint64((slot * 0x9E3779B97F4A7C15) % 2**64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def _shares(prime: int, exponent: int, parts: int) -> Ints:
    """All ways to share prime^exponent out to `parts` places in order, (ways, parts)."""
    bars = itertools.combinations(range(exponent + parts - 1), parts - 1)
    rows = [np.diff([-1, *cut, exponent + parts - 1]) - 1 for cut in bars]
    return np.asarray(prime ** np.array(rows, dtype=np.int64))


class ExactMappings:
    """Draws mappings of a set of problems.

    Args:
        bounds: (n, 7) loop bounds of the problems, in the order of `baco.exploration.cost.reference.AXES`.
        flows: dataflows to draw from (indices into `genome.FLOWS`).
    """

    def __init__(self, bounds: Ints, flows: Sequence[int]) -> None:
        self.bounds = bounds
        self.flows = np.array(list(flows), dtype=np.int64)
        values = {int(b) for b in np.unique(bounds)}
        self._tables: dict[tuple[int, int], list[Ints]] = {
            (value, parts): [_shares(p, e, parts) for p, e in prime_powers(value)]
            for value in values
            for parts in (3, 4)
        }

    def draw(self, task: Ints, dim: Ints, rng: np.random.Generator) -> Genomes:
        """One random mapping of problem `task[i]` for every row, array factors within `dim[i]`; (B, 25)."""
        return self._make(task, dim, lambda index, slot, ways: rng.integers(0, ways, len(index)))

    def decode(self, task: Ints, genes: Ints, dim: Ints, fits: Fits) -> tuple[Genomes, Bools]:
        """The mappings that genes stand for, the same for the same genes, and whether they fit in the end.

        Args:
            genes: (B, 2) numbers from 0: one decides on the loops over channels and the kernel window, one on
                those over pixels and batch, the dataflow and the loop order. Neighbouring numbers have nothing
                in common. What does not fit is moved out to DRAM.
        """

        def pick(index: Ints, slot: int, ways: int) -> Ints:
            group = 0 if slot % _AXIS_SLOTS < 4 * _PRIME_SLOTS else 1
            return (_mixed(genes[index, group], slot) % np.uint64(ways)).astype(np.int64)

        rows = self._make(task, dim, pick)
        mixed = np.stack([_mixed(genes.sum(1), -1 - place) for place in range(14)], 1)
        return self._shrink(rows, fits, mixed.argsort(1, kind="stable"))

    def _make(self, task: Ints, dim: Ints, pick: Pick) -> Genomes:
        rows = trivial(len(task))
        every = np.arange(len(task))
        rows[:, FLOW] = self.flows[pick(every, _FLOW_SLOT, len(self.flows))]
        rows[:, ORDER] = pick(every, _ORDER_SLOT, PUBLISHED_ORDERS)
        kind = task * len(FLOWS) + rows[:, FLOW]
        for key in np.unique(kind):
            index = np.flatnonzero(kind == key)
            self._split(rows, index, *divmod(int(key), len(FLOWS)), dim[index], pick)
        return rows

    def _split(self, rows: Genomes, index: Ints, task: int, flow: int, dim: Ints, pick: Pick) -> None:
        for axis, bound in enumerate(self.bounds[task].tolist()):
            if bound == 1:
                continue
            place = COLUMNS if axis == K_AXIS else ROWS if axis == ROW_AXIS[flow] else None
            slot = axis * _PRIME_SLOTS
            if place is None:
                factors = self._factors(bound, 3, index, slot, pick)
            else:
                factors = self._factors(bound, 4, index, slot, pick)
                for turn in range(1, _SPATIAL_REDRAWS):
                    wide = np.flatnonzero(factors[:, 0] > dim)
                    if not len(wide):
                        break
                    factors[wide] = self._factors(bound, 4, index[wide], slot + turn * _AXIS_SLOTS, pick)
                wide = np.flatnonzero(factors[:, 0] > dim)
                factors[wide, 3] *= factors[wide, 0]
                factors[wide, 0] = 1
                rows[index, place] = factors[:, 0]
                factors = factors[:, 1:]
            for level, block in enumerate((T1, T2, T3)):
                rows[index, block.start + axis] = factors[:, level]

    def _factors(self, bound: int, parts: int, index: Ints, slot: int, pick: Pick) -> Ints:
        result = np.ones((len(index), parts), dtype=np.int64)
        for i, table in enumerate(self._tables[bound, parts]):
            result *= table[pick(index, slot + i, len(table))]
        return result

    def draw_fitting(
        self, task: Ints, dim: Ints, fits: Fits, rng: np.random.Generator
    ) -> tuple[Genomes, Bools]:
        """Like `draw`, but only mappings that fit; which rows do in the end (all, unless nothing can)."""
        rows = self.draw(task, dim, rng)
        good = fits(np.arange(len(task)), rows)
        for _ in range(_REDRAWS):
            open_ = np.flatnonzero(~good)
            if not len(open_):
                return rows, good
            rows[open_] = self.draw(task[open_], dim[open_], rng)
            good[open_] = fits(open_, rows[open_])
        open_ = np.flatnonzero(~good)
        if len(open_):
            sequence = np.argsort(rng.random((len(open_), 14)), axis=1, kind="stable")
            rows[open_], good[open_] = self._shrink(rows[open_], lambda i, r: fits(open_[i], r), sequence)
        return rows, good

    @staticmethod
    def _shrink(rows: Genomes, fits: Fits, sequence: Ints) -> tuple[Genomes, Bools]:
        """Move whole factors out to DRAM, those of levels 1 and 2 in the order of `sequence` (B, 14) and the
        array's last, until the mappings fit."""
        everything = np.arange(len(rows))
        good = np.zeros(len(rows), dtype=np.bool_)
        for turn in range(16):
            good = fits(everything, rows)
            open_ = np.flatnonzero(~good)
            if not len(open_):
                break
            if turn < 14:
                column = T1.start + sequence[open_, turn]
                axis = (column - T1.start) % 7
            else:
                column = np.full(len(open_), ROWS if turn == 14 else COLUMNS)
                axis = ROW_AXIS[rows[open_, FLOW]] if turn == 14 else np.full(len(open_), K_AXIS)
            rows[open_, T3.start + axis] *= rows[open_, column]
            rows[open_, column] = 1
        else:
            good = fits(everything, rows)
        return rows, good
