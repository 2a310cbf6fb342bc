"""Grouped convolutions of few channels as convolutions of fewer and wider groups: constant weights on the diagonals of matrices.

A group of C channels and K results fills C rows and K columns of the array. Side by side on the diagonal of one matrix, zeros
elsewhere, the weights of several groups are those of one, whose convolution any style can carry out, the loop macros too. The
style `packed` does the same, for weights that only the program knows: there the host core writes the matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.latency import predict_layers
from baco.compiler.layers.layer import Layer
from baco.compiler.network.lowered import Scheduler
from baco.compiler.ops.products import Convolution
from baco.compiler.schedules.schedule import DepthwiseSchedule
from baco.compiler.styles.packed import packed_layer

#: Of the cache, what the images of a strip take.
_SHARE = 0.5
#: How many neighbouring groups of a layer run as one (1: each by itself), and in strips of how many result rows.
Diagonals: TypeAlias = Callable[[Layer], tuple[int, int]]


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


def strip_rows(layer: Layer, accelerator: Accelerator) -> int:
    """Result rows of the strips in which a layer of several groups may better run.

    Each group reads its channels of every pixel, and with them the cache's whole lines: where the images have no room in a cache, the
    groups of a strip that has read the lines again while they are there.
    """
    problem, (height, width) = layer.problem, layer.size
    cache = PROFILES[accelerator.timing].cache_bytes
    moved = height * width * layer.input.pitch + problem.Q * problem.P * layer.output.pitch
    if cache == 0 or moved <= cache or problem.groups == 1 or problem.N > 1 or layer.pooling is not None:
        return problem.Q
    most = max(1, int(problem.Q * _SHARE * cache / moved))
    return max((n for n in range(most // 2 + 1, most + 1) if problem.Q % n == 0), default=most)


def row_strips(op: Convolution, rows: int) -> list[Convolution]:
    """A convolution of one image as those of strips of so many result rows."""
    found: list[Convolution] = []
    _, height, width, channels = op.input.shape
    for first in range(0, op.size[0], rows):
        count = min(rows, op.size[0] - first)
        top = first * op.stride[0] - op.padding[0]
        reach = (count - 1) * op.stride[0] + (op.weight.shape[0] - 1) * op.dilation[0] + 1
        begin, end = max(top, 0), min(top + reach, height)
        shape = (1, count, op.size[1], op.output.shape[3])
        strip = replace(
            op,
            input=op.input.sliced((0, begin, 0, 0), (1, end - begin, width, channels), (1, 1, 1, 1)),
            output=op.output.sliced((0, first, 0, 0), shape, (1, 1, 1, 1)),
            padding=(begin - top, op.padding[1]),
            size=(count, op.size[1]),
        )
        found.append(strip)
    return found


class DiagonalChoice:
    """Puts as many groups on a diagonal as the array has room for, in strips or not, where that is predicted to take fewer cycles.

    Args:
        schedule: chooses how either layer is carried out.
    """

    def __init__(self, accelerator: Accelerator, schedule: Scheduler) -> None:
        self._accelerator, self._schedule = accelerator, schedule
        self._known: dict[Layer, tuple[int, int]] = {}

    def __call__(self, layer: Layer) -> tuple[int, int]:
        """See `Diagonals`."""
        if layer not in self._known:
            self._known[layer] = self._chosen(layer)
        return self._known[layer]

    def _chosen(self, layer: Layer) -> tuple[int, int]:
        problem = layer.problem
        room = self._accelerator.dim // max(problem.C, problem.K)
        together = max((n for n in range(2, room + 1) if problem.groups % n == 0), default=1)
        if together == 1:
            return 1, problem.Q
        # where the host core would put the groups on diagonals, the same code takes fewer cycles without it
        ways = [(self._cycles(layer, on_host=False), (1, problem.Q))]
        wide = diagonal_layer(layer, together)
        for rows in {problem.Q, strip_rows(wide, self._accelerator)}:
            strip = wide if rows == problem.Q else _inner_strip(wide, rows)
            ways.append((problem.Q / rows * self._cycles(strip), (together, rows)))
        return min(ways)[1]

    def _cycles(self, layer: Layer, *, on_host: bool = True) -> float:
        """Predicted; without end for what the accelerator cannot compute, and unless `on_host` for what the host core diagonalises."""
        try:
            schedule, _ = self._schedule(layer)
        except InfeasibleError:
            return math.inf
        if isinstance(schedule, DepthwiseSchedule) and not on_host:
            return math.inf
        return float(predict_layers([layer], [schedule], self._accelerator)[0].cycles.item())


def _inner_strip(layer: Layer, rows: int) -> Layer:
    """A strip of so many result rows with no edge of the image above or below."""
    problem = layer.problem
    height = (rows - 1) * problem.stride_h + (problem.S - 1) * problem.dilation_h + 1
    image, padding = (height, layer.size[1]), (0, layer.padding[1])
    return replace(layer, problem=replace(problem, Q=rows), image=image, padding=padding)
