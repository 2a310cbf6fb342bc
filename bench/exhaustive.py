"""Brute force: every mapping of a small problem, as an oracle that shares no idea with any searcher."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from baco.exploration.cost.genome import (
    COLUMNS,
    DRAM_ORDERS,
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
    ProblemSet,
    count,
    needs,
    trivial,
)
from baco.exploration.cost.reference import latency_terms, total_energy
from baco.exploration.cost.tiles import Floats, Ints, Point
from baco.exploration.space import DesignSpace
from baco.workloads.problem import Problem

_CHUNK = 50_000


@dataclass(frozen=True)
class Exhaustive:
    """Result of an enumeration.

    Attributes:
        edp: (points,) least energy * latency of the problem on each point, µJ·cycles.
        least: (points, weighings) least weighing * energy + latency; infinite where nothing fits.
        mappings: mappings enumerated, those that fit nowhere included.
    """

    edp: Floats
    least: Floats
    mappings: int


def factorisations(bound: int, side: int) -> Ints:
    """All (spatial, level 1, level 2, level 3) whose product covers `bound` and cannot be lowered to do so by
    shrinking the outermost alone, spatial factor at most `side` (1 keeps the dimension off the array); (n, 4).

    Tiles that are larger than they need be are included."""
    found = [
        (s, a, b, -(-bound // (s * a * b)))
        for s in range(1, side + 1)
        for a in range(1, bound + 1)
        for b in range(1, -(-bound // a) + 1)
    ]
    return np.array(found, dtype=np.int64)


def all_mappings(problem: Problem, dim: int, space: DesignSpace) -> Iterator[Genomes]:
    """All genome rows of a problem on an array of side `dim`, in chunks."""
    sizes = ProblemSet([problem]).bounds[0]
    for flow in (FLOWS.index(name) for name in space.dataflows):
        choices = [
            factorisations(int(size), dim if axis in (K_AXIS, ROW_AXIS[flow]) else 1)
            for axis, size in enumerate(sizes)
        ]
        shape = tuple(len(c) for c in choices)
        total = int(np.prod(shape))
        for start in range(0, total, _CHUNK):
            places = np.unravel_index(np.arange(start, min(start + _CHUNK, total)), shape)
            rows = trivial(len(places[0]))
            rows[:, FLOW] = flow
            for axis, (choice, place) in enumerate(zip(choices, places, strict=True)):
                factors = choice[place]
                if axis == K_AXIS:
                    rows[:, COLUMNS] = factors[:, 0]
                elif axis == ROW_AXIS[flow]:
                    rows[:, ROWS] = factors[:, 0]
                for level, part in enumerate((T1, T2, T3)):
                    rows[:, part][:, axis] = factors[:, level + 1]
            for order in range(len(DRAM_ORDERS)):
                rows[:, ORDER] = order
                yield rows.copy()


def enumerate_all(
    problem: Problem, points: Sequence[Point], space: DesignSpace, weighings: Sequence[float] = ()
) -> Exhaustive:
    """Evaluate every mapping of a problem on every point. Time grows steeply with the bounds: some ten
    thousand MACs are a second or a few."""
    problems = ProblemSet([problem])
    edp = np.full(len(points), np.inf)
    least = np.full((len(points), len(weighings)), np.inf)
    mappings = 0
    for dim in sorted({p.dim for p in points}):
        mine = [(i, p) for i, p in enumerate(points) if p.dim == dim]
        acc_limit = max(p.words_per_column for _, p in mine)
        sp_limit = max(p.scratchpad_kib for _, p in mine) * 1024
        for rows in all_mappings(problem, dim, space):
            mappings += len(rows)
            acc, words, lines = needs(problems, np.zeros(len(rows), np.int64), rows, space.double_buffer)
            size = lines * dim if space.rules == "gemmini" else words
            keep = (acc <= acc_limit) & (size <= sp_limit)
            rows, acc, size = rows[keep], acc[keep], size[keep]
            if not len(rows):
                continue
            counts = count(problems, np.zeros(len(rows), np.int64), rows, space.double_buffer)
            for i, point in mine:
                fits = (acc * dim * 4 <= point.accumulator_kib * 1024) & (size <= point.scratchpad_kib * 1024)
                if not fits.any():
                    continue
                side, acc_kib, sp_kib = (
                    torch.tensor(float(v), dtype=torch.float64)
                    for v in (dim, point.accumulator_kib, point.scratchpad_kib)
                )
                pj = total_energy(counts, side, acc_kib, sp_kib, space.base.energy_law).numpy()[fits]
                cycles = latency_terms(counts, side, space.base.dram_bytes_per_cycle).amax(0).numpy()[fits]
                pj = pj + space.static_pj_of(cycles, dim, point.accumulator_kib, point.scratchpad_kib)
                edp[i] = min(edp[i], float((pj * 1e-6 * cycles).min()))
                for g, weighing in enumerate(weighings):
                    value = pj if np.isinf(weighing) else weighing * pj + cycles
                    least[i, g] = min(least[i, g], float(value.min()))
    return Exhaustive(edp, least, mappings)
