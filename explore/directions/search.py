"""Searching a schedule space along directions: annealing says where from, Q-learning (or every direction) where to."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch

from accel.config import Accelerator
from common import portable
from compiler.latency import HardwareBatch, LayerBatch, latency
from compiler.layers.layer import Layer
from compiler.mapping.batch import MappingBatch
from explore.directions.network import QNetwork, Transition
from explore.directions.space import SchedulePoint, ScheduleSpace

__all__ = ["METHODS", "DirectionSearch", "Method", "analytical_cycles", "search_directions"]

#: `q`: the direction of greatest value; `p`: all of them; `random`: any, what `q` is worth without learning.
Method = Literal["q", "p", "random"]
METHODS: tuple[Method, ...] = get_args(Method)
#: Cycles of some points.
Evaluate = Callable[[Sequence[SchedulePoint]], Sequence[float]]

#: Points that are drawn at the beginning, starts of a round, and how much worse starts are liked less.
_FIRST, _STARTS, _GAMMA = 16, 4, 30.0
#: How often any direction is taken at last, and calls until then (as in deep Q-learning, Mnih et al. 2015).
_CURIOUS, _KNOWING = 0.1, 50
#: Last steps that are learned from.
_REMEMBERED = 1000
#: Attempts at drawing a point that is feasible.
_ATTEMPTS = 4000


@dataclass
class DirectionSearch:
    """What a search found.

    Attributes:
        best: the point of fewest cycles.
        cycles: of it.
        calls: points that the evaluator was asked for.
        history: calls and best cycles whenever these fell.
    """

    best: SchedulePoint
    cycles: float
    calls: int = 0
    history: list[tuple[int, float]] = field(default_factory=list)

    def calls_to(self, cycles: float) -> int | None:
        """Calls until so few cycles were reached; None if they were not."""
        return next((calls for calls, found in self.history if found <= cycles), None)


def analytical_cycles(
    layer: Layer, accelerator: Accelerator
) -> Callable[[ScheduleSpace, Sequence[SchedulePoint]], list[float]]:
    """The instruction-aware latency model as what evaluates points of a space, many at once."""
    layers, hardware = LayerBatch.of([layer]), HardwareBatch.of([accelerator])

    def cycles(space: ScheduleSpace, points: Sequence[SchedulePoint]) -> list[float]:
        index = torch.zeros(len(points), dtype=torch.int64)
        mappings = MappingBatch.of([space.mapping(one) for one in points])
        found = latency(
            layers.take(index), mappings, hardware.take(index), torch.zeros(len(points), dtype=torch.bool)
        )
        values: list[float] = found.cycles.expand(len(points)).tolist()
        return values

    return cycles


def search_directions(
    space: ScheduleSpace,
    evaluate: Callable[[ScheduleSpace, Sequence[SchedulePoint]], Sequence[float]],
    *,
    method: Method = "q",
    calls: int = 1000,
    seed: int = 0,
    enough: float = 0.0,
) -> DirectionSearch:
    """The best point found with so many evaluator calls, or when `enough` cycles are reached.

    Points that are not feasible are never asked for, and none is asked for twice.
    """
    return _Search(space, evaluate, method, calls, seed, enough).run()


class _Search:
    def __init__(
        self,
        space: ScheduleSpace,
        evaluate: Callable[[ScheduleSpace, Sequence[SchedulePoint]], Sequence[float]],
        method: Method,
        calls: int,
        seed: int,
        enough: float,
    ) -> None:
        self.space, self.evaluate, self.method, self.most, self.enough = (
            space,
            evaluate,
            method,
            calls,
            enough,
        )
        self.drawn = random.Random(seed)
        self.seen: dict[SchedulePoint, float] = {}
        self.open: list[SchedulePoint] = []
        self.steps: list[Transition] = []
        self.near: dict[SchedulePoint, list[SchedulePoint | None]] = {}
        self.found: DirectionSearch | None = None
        inputs = len(space.encoded(space.draw(random.Random(0))))
        self.network = QNetwork(inputs, len(space.directions), seed) if method == "q" else None

    def run(self) -> DirectionSearch:
        first: dict[SchedulePoint, None] = {}
        for _ in range(_ATTEMPTS):
            if len(first) == min(_FIRST, self.most):
                break
            point = self.space.draw(self.drawn)
            if self.space.feasible(point):
                first.setdefault(point)
        self._ask(list(first))
        while not self._over and self.open:
            self._round(self._starts())
            if self.network is not None and self.steps and not self._over:
                self.network.train(self.steps[-_REMEMBERED:])
        assert self.found is not None, "no feasible point was drawn"
        return self.found

    @property
    def _over(self) -> bool:
        return self.found is not None and (self.found.calls >= self.most or self.found.cycles <= self.enough)

    @property
    def _curiosity(self) -> float:
        """How often a direction is any instead of the one of greatest value: less and less, as the network comes to know."""
        return max(_CURIOUS, 1.0 - (len(self.seen) - _FIRST) / _KNOWING)

    def _ask(self, points: Sequence[SchedulePoint]) -> None:
        points = points[: self.most - (self.found.calls if self.found else 0)]
        if not points:
            return
        for point, cycles in zip(points, self.evaluate(self.space, points), strict=True):
            self.seen[point] = cycles
            self.open.append(point)
            if self.found is None:
                self.found = DirectionSearch(point, cycles)
                self.found.history.append((1, cycles))
            self.found.calls += 1
            if cycles < self.found.cycles:
                self.found.best, self.found.cycles = point, cycles
                self.found.history.append((self.found.calls, cycles))
            if self.network is not None:
                self._learn(point)

    def _learn(self, point: SchedulePoint) -> None:
        """Steps from a new point to all known ones beside it, and from those to it: what is known says more than the steps taken."""
        near = [self.space.neighbour(point, one) for one in self.space.directions]
        self.near[point] = near
        for way, other in enumerate(near):
            if other not in self.near:
                continue
            self._step(point, way, other)
            if point in self.near[other]:
                self._step(other, self.near[other].index(point), point)

    def _step(self, start: SchedulePoint, way: int, end: SchedulePoint) -> None:
        ways = [one is not None for one in self.near[end]]
        gain = self.seen[start] / self.seen[end] - 1
        before, after = self.space.encoded(start), self.space.encoded(end)
        self.steps.append(Transition(before, way, after, ways, gain))

    def _starts(self) -> list[SchedulePoint]:
        """Points, each liked in proportion to exp(-gamma (E* - E) / E*), E being 1 / cycles; none twice."""
        assert self.found is not None
        worse = [1 - self.found.cycles / self.seen[point] for point in self.open]
        liked = portable.exp([-_GAMMA * one for one in worse]).tolist()
        chosen = []
        for _ in range(min(_STARTS, len(self.open))):
            left = self.drawn.random() * sum(liked)
            place = 0
            while place < len(liked) - 1 and left >= liked[place]:
                left -= liked[place]
                place += 1
            if liked[place] == 0.0:
                break
            chosen.append(self.open[place])
            liked[place] = 0.0
        return chosen

    def _round(self, starts: Sequence[SchedulePoint]) -> None:
        moves: list[tuple[SchedulePoint, int, SchedulePoint]] = []
        asked: set[SchedulePoint] = set()
        values = self.network.values([self.space.encoded(one) for one in starts]) if self.network else None
        for number, start in enumerate(starts):
            ways = list(range(len(self.space.directions)))
            if self.method == "random" or (values is not None and self.drawn.random() < self._curiosity):
                self.drawn.shuffle(ways)
            elif values is not None:
                ways.sort(key=lambda way: -values[number][way])
            before = len(moves)
            for way in ways:
                point = self.space.neighbour(start, self.space.directions[way])
                if point is None or point in self.seen or point in asked or not self.space.feasible(point):
                    continue
                asked.add(point)
                moves.append((start, way, point))
                if self.method != "p":
                    break
            if len(moves) == before or self.method == "p":
                self.open.remove(start)  # nothing is left to find from there
        self._ask([point for _, _, point in moves])
