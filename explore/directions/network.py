"""Which direction to go: a network of four layers that learns what a step is worth while a search goes on (Q-learning)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from baco.common import portable
from baco.common.portable import Floats, Ints

__all__ = ["BATCH", "BATCHES", "QNetwork"]

#: Batches of a training, steps of a batch.
BATCHES, BATCH = 16, 32
#: Numbers between layers; of what follows, what counts.
_HIDDEN, _DISCOUNT = 32, 0.2
#: Of AdaDelta.
_DECAY, _LEAST = 0.9, 1e-4


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
