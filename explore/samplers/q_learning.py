"""Mappings of a layer along directions (FlexTensor, sections 4.3 and 4.4): annealing says where from, Q-learning where to.

Two mappings are neighbours along a direction (i, j) of a loop if the factor of part i is one prime larger and that of part j as much
smaller, everything else equal: a space of many dimensions, in which near points are alike. Beside splits there are loop orders over main
memory and copies of tiles. A network of four layers learns what a step is worth while a search goes on.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
import torch

from baco.accel.config import Accelerator
from baco.accel.dataflows import MACRO_DATAFLOW, RELEVANT
from baco.common import portable
from baco.common.portable import Floats, Ints
from baco.compiler.latency import HardwareBatch, LayerBatch, latency
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.batch import MappingBatch
from baco.compiler.mapping.factors import prime_powers
from baco.compiler.mapping.nest import Mapping, requirement, tile_words
from baco.exploration.cost.genome import DRAM_ORDERS, INNER_ORDER
from baco.workloads.problem import DIMS

#: `q`: the direction of greatest value; `p`: all of them; `random`: any, what `q` is worth without learning.
Method = Literal["q", "p", "random"]
METHODS: tuple[Method, ...] = get_args(Method)

#: Points that are drawn at the beginning, starts that Q-learning chooses of, and how much worse starts are liked less.
_FIRST, _STARTS, _GAMMA = 8, 4, 15.0
#: How often a step is any instead of the one of greatest value.
_CURIOUS = 0.3
#: Calls between trainings, or what part of those made if that is more; ends of the steps that one learns from.
_CALLS, _PART, _ENDS = 4, 16, 64
#: Attempts at drawing a point that is feasible.
_ATTEMPTS = 4000
#: Batches of a training, steps of a batch.
BATCHES, BATCH = 16, 32
#: Numbers between layers of the network; of what follows, what counts.
_HIDDEN, _DISCOUNT = 32, 0.2
#: Of AdaDelta.
_DECAY, _LEAST = 0.9, 1e-4


# -------------------------------------------------------------------- the space


@dataclass(frozen=True)
class Direction:
    """From a mapping to a neighbour: `up` takes a prime from `down` in a loop's split; without a loop (-1) the next order
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


class DirectionSpace:
    """Mappings of a layer on an accelerator in explicit code, with exact factors.

    Attributes:
        loops: those that run more than once.
        directions: all that there are, whether or not a mapping has a neighbour along them.
    """

    def __init__(self, layer: Layer, accelerator: Accelerator) -> None:
        self.layer, self.accelerator = layer, accelerator
        bounds = dict(zip(DIMS, layer.problem.bounds, strict=True))
        self.loops = {name: bounds[name] for name in DIMS if bounds[name] > 1}
        self._held: dict[Mapping, bool] = {}

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        ways = []
        for number, name in enumerate(self.loops):
            parts = range(len(_PLACES[name]))
            ways += [Direction(number, up, down) for up in parts for down in parts if up != down]
        ways += [Direction(-1, 1), Direction(-1, -1)]
        return (*ways, *(Direction(-1, 0, tensor) for tensor in range(3)))

    def mapping(
        self, factors: Sequence[Sequence[int]], order: int = 0, copies: tuple[int, int, int] = (1, 1, 1)
    ) -> Mapping:
        """A mapping of the factors of every loop by its parts, a place in `DRAM_ORDERS`, and copies of the tiles of W, I and O."""
        temporal = [dict.fromkeys(DIMS, 1) for _ in range(4)]
        array = {"rows": 1, "columns": 1}
        for name, own in zip(self.loops, factors, strict=True):
            for place, factor in zip(_PLACES[name], own, strict=True):
                if isinstance(place, str):
                    array[place] = factor
                else:
                    temporal[place][name] = factor
        return Mapping(
            MACRO_DATAFLOW,
            array["rows"],
            array["columns"],
            tuple(tuple(level[name] for name in DIMS) for level in temporal),
            (INNER_ORDER, INNER_ORDER, INNER_ORDER, DRAM_ORDERS[order]),
            copies,
        )

    def factors(self, mapping: Mapping) -> list[list[int]]:
        """Of every loop, by its parts."""
        return [
            [
                int(getattr(mapping, place)) if isinstance(place, str) else mapping.factor(name, place)
                for place in _PLACES[name]
            ]
            for name in self.loops
        ]

    def draw(self, drawn: random.Random) -> Mapping:
        """A random mapping: every prime of every loop at a random part."""
        factors = []
        for name, extent in self.loops.items():
            own = [1] * len(_PLACES[name])
            for prime, count in prime_powers(extent):
                for _ in range(count):
                    own[drawn.randrange(len(own))] *= prime
            factors.append(own)
        copies = (1 + drawn.randrange(2), 1 + drawn.randrange(2), 1 + drawn.randrange(2))
        return self.mapping(factors, drawn.randrange(len(DRAM_ORDERS)), copies)

    def neighbour(self, mapping: Mapping, direction: Direction) -> Mapping | None:
        """The nearest mapping along a direction; None where it ends."""
        if direction.loop < 0:
            if direction.down >= 0:
                copies = list(mapping.buffering)
                copies[direction.down] = 3 - copies[direction.down]
                return replace(mapping, buffering=(copies[0], copies[1], copies[2]))
            order = DRAM_ORDERS.index(mapping.order[3]) + direction.up
            if not 0 <= order < len(DRAM_ORDERS):
                return None
            return replace(mapping, order=(*mapping.order[:3], DRAM_ORDERS[order]))
        factors = self.factors(mapping)
        own = factors[direction.loop]
        if own[direction.down] == 1:
            return None
        prime = prime_powers(own[direction.down])[0][0]
        own[direction.down] //= prime
        own[direction.up] *= prime
        return self.mapping(factors, DRAM_ORDERS.index(mapping.order[3]), mapping.buffering)

    def feasible(self, mapping: Mapping) -> bool:
        """Whether the accelerator holds it: no evaluation."""
        if mapping not in self._held:
            need, a = requirement(mapping, self.layer.problem), self.accelerator
            self._held[mapping] = (
                max(mapping.rows, mapping.columns) <= a.dim
                and need.accumulator_words <= a.accumulator_rows
                and need.scratchpad_rows <= a.scratchpad_rows
            )
        return self._held[mapping]

    def encoded(self, mapping: Mapping) -> Floats:
        """Numbers that a network is told of a mapping: its parts, order and copies, and what analysis says of it without an
        evaluation.

        That is how full array, accumulator and scratchpad are; words of the tiles, multiplications for each word of them and of a
        tile of the scratchpad for each of the accumulator; and words of each tensor that main memory moves for a row of
        multiplications. Numbers without an upper bound are logarithms.
        """
        problem, a = self.layer.problem, self.accelerator
        needed, words = requirement(mapping, problem), tile_words(mapping, problem)
        inner, outer = mapping.tile(1), mapping.tile(2)
        macs, results = math.prod(outer.values()), math.prod(outer[name] for name in RELEVANT["O"])
        moved = [
            words_of * _times_moved(mapping, tensor) * a.dim / problem.macs
            for tensor, words_of in (("W", words["W"]), ("I", words["I"]), ("O", results))
        ]
        quarters = [
            *(factor for loop in self.factors(mapping) for factor in loop),
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
        order = [float(dram_order == mapping.order[3]) for dram_order in DRAM_ORDERS]
        return np.array([*logarithms, *shares, *order, *(float(copies - 1) for copies in mapping.buffering)])


def _times_moved(mapping: Mapping, tensor: str) -> int:
    """How often main memory's loops change a tensor's tile: those outside the innermost that it is indexed by, this included."""
    factors = [(name, mapping.factor(name, 3)) for name in mapping.order[3]]
    running = [(name, factor) for name, factor in factors if factor > 1]
    while running and running[0][0] not in RELEVANT[tensor]:
        running.pop(0)
    return math.prod(factor for _, factor in running)


def analytical_cycles(layer: Layer, accelerator: Accelerator) -> Callable[[Sequence[Mapping]], list[float]]:
    """The instruction-aware latency model as what evaluates mappings, many at once."""
    layers, hardware = LayerBatch.of([layer]), HardwareBatch.of([accelerator])

    def cycles(mappings: Sequence[Mapping]) -> list[float]:
        index = torch.zeros(len(mappings), dtype=torch.int64)
        batch = MappingBatch.of(list(mappings))
        found = latency(
            layers.take(index), batch, hardware.take(index), torch.zeros(len(mappings), dtype=torch.bool)
        )
        values: list[float] = found.cycles.expand(len(mappings)).tolist()
        return values

    return cycles


# -------------------------------------------------------------------- the sampler


@dataclass
class DirectionSearch:
    """What a search found.

    Attributes:
        best: the mapping of fewest cycles.
        cycles: of it.
        calls: mappings that the evaluator was asked for.
        history: calls and best cycles whenever these fell.
    """

    best: Mapping
    cycles: float
    calls: int = 0
    history: list[tuple[int, float]] = field(default_factory=list)

    def calls_to(self, cycles: float) -> int | None:
        """Calls until so few cycles were reached; None if they were not."""
        return next((calls for calls, found in self.history if found <= cycles), None)


def search_directions(
    space: DirectionSpace,
    evaluate: Callable[[Sequence[Mapping]], Sequence[float]],
    *,
    method: Method = "q",
    calls: int = 1000,
    seed: int = 0,
    enough: float = 0.0,
) -> DirectionSearch:
    """The best mapping found with so many evaluator calls, or when `enough` cycles are reached.

    Mappings that are not feasible are never asked for, and none is asked for twice.
    """
    sampler, search = DirectionSampler(space, method, seed), None
    while search is None or (search.calls < calls and search.cycles > enough):
        points = sampler.ask()[: calls - (search.calls if search else 0)]
        if not points:
            break
        values = evaluate(points)
        sampler.tell(points, values)
        for point, cycles in zip(points, values, strict=True):
            search = search or DirectionSearch(point, math.inf)
            search.calls += 1
            if cycles < search.cycles:
                search.best, search.cycles = point, cycles
                search.history.append((search.calls, cycles))
    assert search is not None, "no feasible mapping was drawn"
    return search


class DirectionSampler:
    """Asks for mappings beside those that it was told of."""

    def __init__(self, space: DirectionSpace, method: Method = "q", seed: int = 0) -> None:
        self.space, self.method = space, method
        self._drawn = random.Random(seed)
        self._seen: dict[Mapping, float] = {}
        self._open: list[Mapping] = []
        self._told: dict[Mapping, Floats] = {}
        self._ways: dict[Mapping, tuple[list[Mapping], Floats]] = {}
        self._inputs = 2 * len(space.encoded(space.draw(random.Random(0))))
        self._network = QNetwork(self._inputs, seed) if method == "q" else None
        self._due = 2

    def ask(self) -> list[Mapping]:
        """Feasible mappings that were not asked for before, a few at first; none where nothing is left to find."""
        if not self._seen:
            first: dict[Mapping, None] = {}
            for _ in range(_ATTEMPTS):
                if len(first) == _FIRST:
                    break
                point = self.space.draw(self._drawn)
                if self.space.feasible(point):
                    first.setdefault(point)
            return list(first)
        while self._open:
            known = len(self._seen)
            if self._network is not None and known >= self._due:
                self._learn(self._network)
                self._due = known + max(_CALLS, known // _PART)
            points = self._beside(self._starts())
            if points:
                return points
        return []

    def tell(self, points: Sequence[Mapping], cycles: Sequence[float]) -> None:
        """What mappings cost."""
        self._seen.update(zip(points, cycles, strict=True))
        self._open += points

    def _learn(self, network: QNetwork) -> None:
        """From steps between any two known mappings, also such as lead along several directions at once: those that were
        drawn say something, too, and how often one was come by does not matter."""
        known, drawn = list(self._seen), self._drawn
        ends = drawn.sample(known, min(_ENDS, len(known)))
        steps: list[Floats] = []
        rewards: list[float] = []
        places: list[int] = []
        while len(steps) < BATCHES * BATCH:
            place, start = drawn.randrange(len(ends)), known[drawn.randrange(len(known))]
            if start == ends[place]:
                continue
            steps.append(self._step(start, ends[place]))
            rewards.append(self._seen[start] / self._seen[ends[place]] - 1)
            places.append(place)
        follows = [self._near(one)[1] for one in ends]
        network.train(np.array(steps), np.array(rewards), np.array(places), follows)

    def _step(self, start: Mapping, end: Mapping) -> Floats:
        """What the network is told of a step: where it starts and what it changes."""
        for one in (start, end):
            if one not in self._told:
                self._told[one] = self.space.encoded(one)
        return np.concatenate([self._told[start], self._told[end] - self._told[start]])

    def _near(self, point: Mapping) -> tuple[list[Mapping], Floats]:
        """Feasible mappings beside one, and what the network is told of the steps to them."""
        if point not in self._ways:
            near = [self.space.neighbour(point, direction) for direction in self.space.directions]
            held = [
                neighbour for neighbour in near if neighbour is not None and self.space.feasible(neighbour)
            ]
            steps = [self._step(point, neighbour) for neighbour in held if self._network]
            self._ways[point] = held, np.array(steps).reshape(len(steps), self._inputs)
        return self._ways[point]

    def _starts(self) -> list[Mapping]:
        """Mappings, each liked in proportion to exp(-gamma (E* - E) / E*), E being 1 / cycles; none twice."""
        least = min(self._seen.values())
        worse = [1 - least / self._seen[point] for point in self._open]
        liked = portable.exp([-_GAMMA * one for one in worse]).tolist()
        chosen = []
        for _ in range(min(_STARTS if self._network else 1, len(self._open))):
            left = self._drawn.random() * sum(liked)
            place = 0
            while place < len(liked) - 1 and left >= liked[place]:
                left -= liked[place]
                place += 1
            if liked[place] == 0.0:
                break
            chosen.append(self._open[place])
            liked[place] = 0.0
        return chosen

    def _beside(self, starts: Sequence[Mapping]) -> list[Mapping]:
        """All mappings beside a start, or one of them. Starts from which nothing is left to find are done with."""
        steps: list[tuple[Mapping, int]] = []
        for start in starts:
            new = [(start, n) for n, one in enumerate(self._near(start)[0]) if one not in self._seen]
            if not new or self.method == "p":
                self._open.remove(start)
            steps += new
        if self.method != "p" and steps:
            steps = [self._chosen(steps)]
        return list(dict.fromkeys(self._near(start)[0][n] for start, n in steps))

    def _chosen(self, steps: Sequence[tuple[Mapping, int]]) -> tuple[Mapping, int]:
        """The step that leads to the best performance, as far as the network knows: what its start has and what it gains."""
        if self._network is None or self._drawn.random() < _CURIOUS:
            return steps[self._drawn.randrange(len(steps))]
        values = self._network.values(np.array([self._near(start)[1][n] for start, n in steps]))
        reached = (1 + values) / np.array([self._seen[start] for start, _ in steps])
        return steps[int(np.argmax(reached))]


# -------------------------------------------------------------------- the network


class QNetwork:
    """Values of steps; trained on known ones, beside a target network that follows it.

    One network for all directions: a step is told by where it starts and what it changes, so what is learned of one direction
    says something of others.
    """

    def __init__(self, inputs: int, seed: int) -> None:
        drawn = random.Random(seed)
        sizes = (inputs, _HIDDEN, _HIDDEN, _HIDDEN, 1)
        self._shapes = [shape for rows, columns in pairwise(sizes) for shape in ((rows, columns), (columns,))]
        self._ends = np.cumsum([math.prod(shape) for shape in self._shapes])[:-1]
        parts = []
        for number, (rows, columns) in enumerate(pairwise(sizes)):
            width = math.sqrt(6 / rows) if number < 3 else 0.01
            parts += [[width * (2 * drawn.random() - 1) for _ in range(rows * columns)], [0.0] * columns]
        self._weights = np.array([one for part in parts for one in part])
        self._target = self._weights
        self._squares, self._moves = np.zeros_like(self._weights), np.zeros_like(self._weights)

    def values(self, steps: Floats) -> Floats:
        """Of steps (n, inputs)."""
        return self._forward(self._weights, steps)[-1][:, 0]

    def train(self, steps: Floats, rewards: Floats, ends: Ints, follows: Sequence[Floats]) -> None:
        """On batches of steps: values towards the reward and the best that the target says follows; then that is copied.

        `ends` are places in `follows`, where all steps lie that lead on. What follows is worth nothing at least, since no step has
        to be taken.
        """
        best = np.zeros(len(follows))
        ahead = self._forward(self._target, np.concatenate(follows))[-1][:, 0]
        first = 0
        for place, some in enumerate(follows):
            best[place] = max([0.0, *ahead[first : first + len(some)].tolist()])
            first += len(some)
        goals = _limited(rewards) + _DISCOUNT * best[ends]
        for first in range(0, len(steps), BATCH):
            self._batch(steps[first : first + BATCH], goals[first : first + BATCH])
        self._target = self._weights

    def _parts(self, weights: Floats) -> list[Floats]:
        parts = np.split(weights, self._ends)
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def _forward(self, weights: Floats, x: Floats) -> list[Floats]:
        """What goes into each layer, and what comes out of the last."""
        parts = self._parts(weights)
        flows = [x]
        for number in range(0, len(parts), 2):
            x = portable.matmul(x, parts[number]) + parts[number + 1]
            if number + 2 < len(parts):
                x = np.maximum(x, 0.0)
            flows.append(x)
        return flows

    def _batch(self, steps: Floats, goals: Floats) -> None:
        """Once along the gradient of the mean squared error, by AdaDelta."""
        flows = self._forward(self._weights, steps)
        parts = self._parts(self._weights)
        slope = 2 * (flows[-1] - goals[:, None]) / len(goals)
        gradients: list[Floats] = []
        for number in range(len(parts) - 2, -1, -2):
            into = flows[number // 2]
            gradients = [portable.matmul(into.T, slope).ravel(), portable.total(slope, 0), *gradients]
            if number:
                slope = portable.matmul(slope, parts[number].T) * (into > 0)
        gradient = np.concatenate(gradients)
        self._squares = _DECAY * self._squares + (1 - _DECAY) * gradient * gradient
        move = gradient * np.sqrt((self._moves + _LEAST) / (self._squares + _LEAST))
        self._moves = _DECAY * self._moves + (1 - _DECAY) * move * move
        self._weights = self._weights - move


def _limited(rewards: Floats) -> Floats:
    """x / (1 + |x|): rewards as large as one likes are 1 at most."""
    limited: Floats = rewards / (1 + np.abs(rewards))
    return limited
