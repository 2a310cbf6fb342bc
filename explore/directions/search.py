"""Searching a schedule space along directions: annealing says where from, Q-learning (or every direction) where to."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import torch

from baco.accel.config import Accelerator
from baco.common import portable
from baco.common.portable import Floats
from baco.compiler.latency import HardwareBatch, LayerBatch, latency
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.batch import MappingBatch
from baco.exploration.directions.network import BATCH, BATCHES, QNetwork
from baco.exploration.directions.space import SchedulePoint, ScheduleSpace

__all__ = ["METHODS", "DirectionSearch", "Method", "analytical_cycles", "search_directions"]

#: `q`: the direction of greatest value; `p`: all of them; `random`: any, what `q` is worth without learning.
Method = Literal["q", "p", "random"]
METHODS: tuple[Method, ...] = get_args(Method)
#: Cycles of some points.
Evaluate = Callable[[Sequence[SchedulePoint]], Sequence[float]]

#: Points that are drawn at the beginning, starts that Q-learning chooses of, and how much worse starts are liked less.
_FIRST, _STARTS, _GAMMA = 8, 4, 15.0
#: How often a step is any instead of the one of greatest value.
_CURIOUS = 0.3
#: Calls between trainings, or what part of those made if that is more; ends of the steps that one learns from.
_CALLS, _PART, _ENDS = 4, 16, 64
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
        self.told: dict[SchedulePoint, Floats] = {}
        self.ways: dict[SchedulePoint, tuple[list[SchedulePoint], Floats]] = {}
        self.found: DirectionSearch | None = None
        self.inputs = 2 * len(space.encoded(space.draw(random.Random(0))))
        self.network = QNetwork(self.inputs, seed) if method == "q" else None

    def run(self) -> DirectionSearch:
        first: dict[SchedulePoint, None] = {}
        for _ in range(_ATTEMPTS):
            if len(first) == min(_FIRST, self.most):
                break
            point = self.space.draw(self.drawn)
            if self.space.feasible(point):
                first.setdefault(point)
        self._ask(list(first))
        due = 2
        while not self._over and self.open:
            known = len(self.seen)
            if self.network is not None and known >= due:
                self._learn(self.network)
                due = known + max(_CALLS, known // _PART)
            self._round(self._starts())
        assert self.found is not None, "no feasible point was drawn"
        return self.found

    @property
    def _over(self) -> bool:
        return self.found is not None and (self.found.calls >= self.most or self.found.cycles <= self.enough)

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

    def _learn(self, network: QNetwork) -> None:
        """From steps between any two known points, also such as lead along several directions at once: the points that were
        drawn say something, too, and how often one was come by does not matter."""
        known = list(self.seen)
        ends = self.drawn.sample(known, min(_ENDS, len(known)))
        steps: list[Floats] = []
        rewards: list[float] = []
        places: list[int] = []
        while len(steps) < BATCHES * BATCH:
            place, start = self.drawn.randrange(len(ends)), known[self.drawn.randrange(len(known))]
            if start == ends[place]:
                continue
            steps.append(self._step(start, ends[place]))
            rewards.append(self.seen[start] / self.seen[ends[place]] - 1)
            places.append(place)
        follows = [self._near(one)[1] for one in ends]
        network.train(np.array(steps), np.array(rewards), np.array(places), follows)

    def _step(self, start: SchedulePoint, end: SchedulePoint) -> Floats:
        """What the network is told of a step: where it starts and what it changes."""
        for one in (start, end):
            if one not in self.told:
                self.told[one] = self.space.encoded(one)
        return np.concatenate([self.told[start], self.told[end] - self.told[start]])

    def _near(self, point: SchedulePoint) -> tuple[list[SchedulePoint], Floats]:
        """Feasible points beside one, and what the network is told of the steps to them."""
        if point not in self.ways:
            near = [self.space.neighbour(point, one) for one in self.space.directions]
            held = [one for one in near if one is not None and self.space.feasible(one)]
            steps = [self._step(point, one) for one in held if self.network]
            self.ways[point] = held, np.array(steps).reshape(len(steps), self.inputs)
        return self.ways[point]

    def _starts(self) -> list[SchedulePoint]:
        """Points, each liked in proportion to exp(-gamma (E* - E) / E*), E being 1 / cycles; none twice."""
        assert self.found is not None
        worse = [1 - self.found.cycles / self.seen[point] for point in self.open]
        liked = portable.exp([-_GAMMA * one for one in worse]).tolist()
        chosen = []
        for _ in range(min(_STARTS if self.network else 1, len(self.open))):
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
        """Asks for the points beside a start, or for one of them. Starts from which nothing is left to find are done with."""
        steps: list[tuple[SchedulePoint, int]] = []
        for start in starts:
            new = [(start, n) for n, one in enumerate(self._near(start)[0]) if one not in self.seen]
            if not new or self.method == "p":
                self.open.remove(start)
            steps += new
        if self.method != "p" and steps:
            steps = [self._chosen(steps)]
        self._ask(list(dict.fromkeys(self._near(start)[0][n] for start, n in steps)))

    def _chosen(self, steps: Sequence[tuple[SchedulePoint, int]]) -> tuple[SchedulePoint, int]:
        """The step that leads to the best performance, as far as the network knows: what its start has and what it gains."""
        if self.network is None or self.drawn.random() < _CURIOUS:
            return steps[self.drawn.randrange(len(steps))]
        values = self.network.values(np.array([self._near(start)[1][n] for start, n in steps]))
        reached = (1 + values) / np.array([self.seen[start] for start, _ in steps])
        return steps[int(np.argmax(reached))]
