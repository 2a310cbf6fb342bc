"""Which direction to go: a network of four layers that learns what each is worth while a search goes on (Q-learning)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from common import tensors

__all__ = ["QNetwork", "Transition"]

#: Numbers between layers; batches of a training, steps of a batch; of what follows, what counts.
_HIDDEN, _BATCHES, _BATCH, _DISCOUNT = 32, 16, 32, 0.2
#: Of AdaDelta.
_DECAY, _LEAST = 0.9, 1e-4


@dataclass(frozen=True)
class Transition:
    """From a point along a direction to another.

    Attributes:
        before, after: what the network is told of both.
        ways: whether each direction leads anywhere from there.
        reward: by what part performance grew.
    """

    before: Sequence[float]
    direction: int
    after: Sequence[float]
    ways: Sequence[bool]
    reward: float


class QNetwork:
    """Values of directions; trained on steps taken, beside a target network that follows it."""

    def __init__(self, inputs: int, directions: int, seed: int) -> None:
        self._drawn = random.Random(seed)
        sizes = (inputs, _HIDDEN, _HIDDEN, _HIDDEN, directions)
        self.weights: list[Tensor] = []
        for number, (rows, columns) in enumerate(pairwise(sizes)):
            width = math.sqrt(6 / rows) if number < 3 else 0.01
            values = [[width * (2 * self._drawn.random() - 1) for _ in range(columns)] for _ in range(rows)]
            self.weights += [
                torch.tensor(values, dtype=torch.float64),
                torch.zeros(columns, dtype=torch.float64),
            ]
        self.target = [one.clone() for one in self.weights]
        self._squares = [torch.zeros_like(one) for one in self.weights]
        self._moves = [torch.zeros_like(one) for one in self.weights]

    def values(self, points: Sequence[Sequence[float]]) -> list[list[float]]:
        """Of all directions, from each point."""
        with torch.no_grad():
            found: list[list[float]] = _forward(
                self.weights, torch.tensor(points, dtype=torch.float64)
            ).tolist()
        return found

    def train(self, steps: Sequence[Transition]) -> None:
        """On batches of some steps: values towards the reward and the best that the target says follows; then that is copied.

        What follows is worth nothing at least, since no direction has to be taken.
        """
        before = torch.tensor([one.before for one in steps], dtype=torch.float64)
        after = torch.tensor([one.after for one in steps], dtype=torch.float64)
        reward = torch.tensor([_limited(one.reward) for one in steps], dtype=torch.float64)
        ways = torch.tensor([one.ways for one in steps])
        with torch.no_grad():
            follows = _forward(self.target, after).masked_fill(~ways, 0.0).amax(1).clamp(min=0.0)
        goal = reward + _DISCOUNT * follows
        taken = torch.tensor([one.direction for one in steps])
        for _ in range(_BATCHES):
            chosen = torch.tensor([self._drawn.randrange(len(steps)) for _ in range(_BATCH)])
            self._batch(before[chosen], taken[chosen], goal[chosen])
        self.target = [one.clone() for one in self.weights]

    def _batch(self, before: Tensor, taken: Tensor, goal: Tensor) -> None:
        """Once along the gradient of the squared error, by AdaDelta."""
        leaves = [one.clone().requires_grad_(True) for one in self.weights]
        error = _forward(leaves, before)[torch.arange(_BATCH), taken] - goal
        tensors.total(error * error / _BATCH).backward()  # type: ignore[no-untyped-call]
        for place, leaf in enumerate(leaves):
            assert leaf.grad is not None
            self._squares[place] = _DECAY * self._squares[place] + (1 - _DECAY) * leaf.grad * leaf.grad
            move = leaf.grad * ((self._moves[place] + _LEAST).sqrt() / (self._squares[place] + _LEAST).sqrt())
            self._moves[place] = _DECAY * self._moves[place] + (1 - _DECAY) * move * move
            self.weights[place] = self.weights[place] - move


def _forward(weights: Sequence[Tensor], x: Tensor) -> Tensor:
    for number in range(0, len(weights), 2):
        matrix, shift = weights[number], weights[number + 1]
        x = tensors.total(tensors.spread(x, matrix.shape[1], 2) * tensors.spread(matrix, x.shape[0]), 1)
        x = x + tensors.spread(shift, x.shape[0])
        if number + 2 < len(weights):
            x = x.clamp(min=0.0)
    return x


def _limited(reward: float) -> float:
    """x / (1 + |x|): rewards as large as one likes are 1 at most."""
    return reward / (1 + abs(reward))
