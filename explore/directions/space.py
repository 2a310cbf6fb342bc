"""Schedule spaces by static analysis, and their directions (FlexTensor, sections 4.3 and 4.4).

Analysis gives the loops of a contraction: those that results are indexed by and those that are summed over, with their extents
and order. Each is split into as many parts as there are places for it, by factors that multiply to its extent; beside splits
there are loop orders and copies of tiles. Two points are neighbours along a direction (i, j) of a loop if the factor of part i is
one prime larger and that of part j as much smaller, everything else equal: a space of many dimensions, in which
near points are alike.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.dataflows import MACRO_DATAFLOW, RELEVANT
from baco.common import portable
from baco.common.portable import Floats
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.contraction import Contraction
from baco.compiler.mapping.nest import Mapping, requirement, tile_words
from baco.exploration.cost.genome import DRAM_ORDERS, INNER_ORDER
from baco.exploration.search.exact_factors import prime_powers
from baco.workloads.problem import DIMS

__all__ = [
    "Direction",
    "LoopFacts",
    "SchedulePoint",
    "ScheduleSpace",
    "loop_facts",
    "split_count",
]


@dataclass(frozen=True)
class LoopFacts:
    """What analysis says of a contraction.

    Attributes:
        spatial, reduction: extents of the loops that results are indexed by, and of those that are summed over.
        inputs: tensors that it reads.
    """

    spatial: dict[str, int]
    reduction: dict[str, int]
    inputs: tuple[str, ...]

    def size(self, parts: int) -> int:
        """Ways to split every loop into as many parts."""
        return math.prod(
            split_count(one, parts) for one in (*self.spatial.values(), *self.reduction.values())
        )


def loop_facts(operator: Contraction) -> LoopFacts:
    """Loops by kind, outermost first."""
    summed = set(operator.reduction)
    return LoopFacts(
        {name: extent for name, extent in operator.extents.items() if name not in summed},
        {name: extent for name, extent in operator.extents.items() if name in summed},
        tuple(one.operand for one in operator.inputs),
    )


def split_count(extent: int, parts: int) -> int:
    """Ways to write an extent as a product of so many factors, in order."""
    return math.prod(math.comb(n + parts - 1, parts - 1) for _, n in prime_powers(extent))


@dataclass(frozen=True)
class SchedulePoint:
    """A schedule.

    Attributes:
        factors: of each loop, by its parts.
        order: a place in `DRAM_ORDERS`.
        copies: of the tiles of W, I and O, 1 or 2.
    """

    factors: tuple[tuple[int, ...], ...]
    order: int
    copies: tuple[int, int, int]


@dataclass(frozen=True)
class Direction:
    """From a point to a neighbour: `up` takes a prime from `down` in a loop's split; without a loop (-1) the next order
    (up 1) or the one before (up -1), or the other number of copies of tensor `down`."""

    loop: int
    up: int
    down: int = -1


#: Places that a loop's parts are at, innermost first: along the array, then levels of `baco.compiler.mapping.nest`. Weights stay in
#: the array while pixels pass.
_PLACES: dict[str, tuple[str | int, ...]] = {
    "R": (1, 2, 3), "S": (1, 2, 3), "P": (0, 2, 3), "Q": (0, 2, 3), "N": (0, 2, 3),
    "C": ("rows", 1, 2, 3), "K": ("columns", 1, 2, 3),
}  # fmt: skip


class ScheduleSpace:
    """Schedules of a layer on an accelerator, as mappings in explicit code.

    Attributes:
        loops: those that run more than once.
        directions: all that there are, whether or not a point has a neighbour along them.
    """

    def __init__(self, layer: Layer, accelerator: Accelerator) -> None:
        self.layer, self.accelerator = layer, accelerator
        bounds = dict(zip(DIMS, layer.problem.bounds, strict=True))
        self.loops = {name: bounds[name] for name in DIMS if bounds[name] > 1}
        self._held: dict[SchedulePoint, bool] = {}

    @property
    def size(self) -> int:
        """Points, feasible or not."""
        ways = (split_count(extent, len(_PLACES[name])) for name, extent in self.loops.items())
        return math.prod(ways) * len(DRAM_ORDERS) * 8

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        found = []
        for number, name in enumerate(self.loops):
            parts = range(len(_PLACES[name]))
            found += [Direction(number, up, down) for up in parts for down in parts if up != down]
        found += [Direction(-1, 1), Direction(-1, -1)]
        return (*found, *(Direction(-1, 0, tensor) for tensor in range(3)))

    def draw(self, drawn: random.Random) -> SchedulePoint:
        """A random point: every prime of every loop at a random part."""
        factors = []
        for name, extent in self.loops.items():
            own = [1] * len(_PLACES[name])
            for prime, count in prime_powers(extent):
                for _ in range(count):
                    own[drawn.randrange(len(own))] *= prime
            factors.append(tuple(own))
        copies = (1 + drawn.randrange(2), 1 + drawn.randrange(2), 1 + drawn.randrange(2))
        return SchedulePoint(tuple(factors), drawn.randrange(len(DRAM_ORDERS)), copies)

    def neighbour(self, point: SchedulePoint, direction: Direction) -> SchedulePoint | None:
        """The nearest point along a direction; None where it ends."""
        if direction.loop < 0:
            if direction.down >= 0:
                copies = list(point.copies)
                copies[direction.down] = 3 - copies[direction.down]
                return replace(point, copies=(copies[0], copies[1], copies[2]))
            order = point.order + direction.up
            return replace(point, order=order) if 0 <= order < len(DRAM_ORDERS) else None
        own = list(point.factors[direction.loop])
        if own[direction.down] == 1:
            return None
        prime = prime_powers(own[direction.down])[0][0]
        own[direction.down] //= prime
        own[direction.up] *= prime
        factors = (*point.factors[: direction.loop], tuple(own), *point.factors[direction.loop + 1 :])
        return replace(point, factors=factors)

    def mapping(self, point: SchedulePoint) -> Mapping:
        """The point as a mapping."""
        temporal = [dict.fromkeys(DIMS, 1) for _ in range(4)]
        array = {"rows": 1, "columns": 1}
        for name, factors in zip(self.loops, point.factors, strict=True):
            for place, factor in zip(_PLACES[name], factors, strict=True):
                if isinstance(place, str):
                    array[place] = factor
                else:
                    temporal[place][name] = factor
        return Mapping(
            MACRO_DATAFLOW,
            array["rows"],
            array["columns"],
            tuple(tuple(level[name] for name in DIMS) for level in temporal),
            (INNER_ORDER, INNER_ORDER, INNER_ORDER, DRAM_ORDERS[point.order]),
            point.copies,
        )

    def feasible(self, point: SchedulePoint) -> bool:
        """Whether the accelerator holds it: no evaluation."""
        if point not in self._held:
            self._held[point] = self._holds(point)
        return self._held[point]

    def _holds(self, point: SchedulePoint) -> bool:
        a = self.accelerator
        for name, factors in zip(self.loops, point.factors, strict=True):
            if name in "CK" and factors[0] > a.dim:
                return False
        needed = requirement(self.mapping(point), self.layer.problem)
        return needed.accumulator_words <= a.accumulator_rows and needed.scratchpad_rows <= a.scratchpad_rows

    def encoded(self, point: SchedulePoint) -> Floats:
        """Numbers that a network is told of a point: its parts, order and copies, and what analysis says of it without an evaluation.

        That is how full array, accumulator and scratchpad are; words of the tiles, multiplications for each word of them and of a
        tile of the scratchpad for each of the accumulator; and words of each tensor that main memory moves for a row of
        multiplications. Numbers without an upper bound are logarithms.
        """
        mapping, problem, a = self.mapping(point), self.layer.problem, self.accelerator
        needed, words = requirement(mapping, problem), tile_words(mapping, problem)
        inner, outer = mapping.tile(1), mapping.tile(2)
        macs, results = math.prod(outer.values()), math.prod(outer[name] for name in RELEVANT["O"])
        moved = [
            words_of * _times_moved(mapping, tensor) * a.dim / problem.macs
            for tensor, words_of in (("W", words["W"]), ("I", words["I"]), ("O", results))
        ]
        quarters = [
            *(one for loop in point.factors for one in loop),
            mapping.rows / a.dim,
            mapping.columns / a.dim,
            *moved,
        ]
        eighths = [
            *words.values(),
            macs / words["W"],
            macs / words["I"],
            macs / results,
            macs / math.prod(inner.values()),
        ]
        logarithms = portable.log2(np.array([*quarters, *eighths]))
        logarithms[: len(quarters)] /= 4
        logarithms[len(quarters) :] /= 8
        shares = [needed.accumulator_words / a.accumulator_rows, needed.scratchpad_rows / a.scratchpad_rows]
        order = [float(place == point.order) for place in range(len(DRAM_ORDERS))]
        return np.array([*logarithms, *shares, *order, *(float(one - 1) for one in point.copies)])


def _times_moved(mapping: Mapping, tensor: str) -> int:
    """How often main memory's loops change a tensor's tile: those outside the innermost that it is indexed by, this included."""
    factors = [(name, mapping.factor(name, 3)) for name in mapping.order[3]]
    running = [(name, factor) for name, factor in factors if factor > 1]
    while running and running[0][0] not in RELEVANT[tensor]:
        running.pop(0)
    return math.prod(factor for _, factor in running)
