"""Grouped convolutions of few channels as convolutions of fewer and wider groups: constant weights on the diagonals of matrices.

A group of C channels and K results fills C rows and K columns of the array. Side by side on the diagonal of one matrix, zeros
elsewhere, the weights of several groups are those of one, whose convolution any style can carry out, the loop macros too. The
style `packed` does the same, for weights that only the program knows: there the host core writes the matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.latency import predict_layers
from baco.compiler.layers.layer import Layer
from baco.compiler.network.lowered import Scheduler
from baco.compiler.styles.packed import packed_layer

#: How many neighbouring groups of a layer run as one; 1: each by itself.
Diagonals: TypeAlias = Callable[[Layer], int]


def block_diagonal(weights: np.ndarray, groups: int, together: int) -> np.ndarray:
    """int8 [S, R, together * C, K]: weights [S, R, C, K] of `groups` groups as those of `groups / together` groups.

    Args:
        together: a divisor of `groups`.
    """
    taps_h, taps_w, depth, channels = weights.shape
    width = channels // groups
    found = np.zeros((taps_h, taps_w, together, depth, groups // together, together, width), weights.dtype)
    apart = weights.reshape(taps_h, taps_w, depth, groups // together, together, width)
    for one in range(together):
        found[:, :, one, :, :, one] = apart[:, :, :, :, one]
    return found.reshape(taps_h, taps_w, together * depth, channels)


def diagonal_layer(layer: Layer, together: int) -> Layer:
    """The layer with so many of its groups as one. Raises InfeasibleError unless neighbouring groups have neighbouring channels."""
    problem = layer.problem
    wide = packed_layer(layer, together)
    outs = together * problem.K
    return replace(wide, weight=replace(wide.weight, pitch=problem.groups * problem.K, group=outs))


class DiagonalChoice:
    """Puts as many groups on a diagonal as the array has room for, where that is predicted to take fewer cycles.

    Args:
        schedule: chooses how either layer is carried out.
    """

    def __init__(self, accelerator: Accelerator, schedule: Scheduler) -> None:
        self._accelerator, self._schedule = accelerator, schedule
        self._known: dict[Layer, int] = {}

    def __call__(self, layer: Layer) -> int:
        """See `Diagonals`."""
        if layer not in self._known:
            self._known[layer] = self._chosen(layer)
        return self._known[layer]

    def _chosen(self, layer: Layer) -> int:
        problem = layer.problem
        room = self._accelerator.dim // max(problem.C, problem.K)
        together = max((n for n in range(2, room + 1) if problem.groups % n == 0), default=1)
        if together == 1:
            return 1
        try:
            wide = self._cycles(diagonal_layer(layer, together))
        except InfeasibleError:
            return 1
        try:
            return together if wide < self._cycles(layer) else 1
        except InfeasibleError:
            return together

    def _cycles(self, layer: Layer) -> float:
        schedule, _ = self._schedule(layer)
        return float(predict_layers([layer], [schedule], self._accelerator)[0].cycles.item())
