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

#: Numbers between layers; steps learned from at a time; of what follows, what counts; trainings between two copies of the target.
_HIDDEN, _BATCH, _DISCOUNT, _COPY = 32, 24, 0.5, 4
#: Of AdaDelta.
_DECAY, _LEAST = 0.9, 1e-4
#: Rewards beyond are as good as this.
_MOST = 2.0


@dataclass(frozen=True)
class Transition:
    """One that was taken: where from, along which direction, where to, and by what part performance grew."""

    before: Sequence[float]
    direction: int
    after: Sequence[float]
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
        self._trained = 0

    def values(self, points: Sequence[Sequence[float]]) -> list[list[float]]:
        """Of all directions, from each point."""
        with torch.no_grad():
            found: list[list[float]] = _forward(
                self.weights, torch.tensor(points, dtype=torch.float64)
            ).tolist()
        return found

    def train(self, steps: Sequence[Transition]) -> None:
        """Once, on some steps: values towards the reward and the best that the target says follows."""
        chosen = [steps[self._drawn.randrange(len(steps))] for _ in range(_BATCH)]
        before = torch.tensor([one.before for one in chosen], dtype=torch.float64)
        after = torch.tensor([one.after for one in chosen], dtype=torch.float64)
        reward = torch.tensor([max(-1.0, min(_MOST, one.reward)) for one in chosen], dtype=torch.float64)
        with torch.no_grad():
            goal = reward + _DISCOUNT * _forward(self.target, after).amax(1)
        leaves = [one.clone().requires_grad_(True) for one in self.weights]
        values = _forward(leaves, before)
        rows = torch.arange(_BATCH)
        error = values[rows, torch.tensor([one.direction for one in chosen])] - goal
        tensors.total(error * error / _BATCH).backward()  # type: ignore[no-untyped-call]
        for place, leaf in enumerate(leaves):
            assert leaf.grad is not None
            self._squares[place] = _DECAY * self._squares[place] + (1 - _DECAY) * leaf.grad * leaf.grad
            move = leaf.grad * ((self._moves[place] + _LEAST).sqrt() / (self._squares[place] + _LEAST).sqrt())
            self._moves[place] = _DECAY * self._moves[place] + (1 - _DECAY) * move * move
            self.weights[place] = self.weights[place] - move
        self._trained += 1
        if self._trained % _COPY == 0:
            self.target = [one.clone() for one in self.weights]


def _forward(weights: Sequence[Tensor], x: Tensor) -> Tensor:
    for number in range(0, len(weights), 2):
        matrix, shift = weights[number], weights[number + 1]
        x = tensors.total(tensors.spread(x, matrix.shape[1], 2) * tensors.spread(matrix, x.shape[0]), 1)
        x = x + tensors.spread(shift, x.shape[0])
        if number + 2 < len(weights):
            x = x.clamp(min=0.0)
    return x
