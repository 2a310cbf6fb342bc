"""The bound of a layer's cycles, against brute force and plain arithmetic."""

import functools
import random

import numpy as np

from baco.accel.presets import load_accelerator
from baco.bench.cycle_bound import bound, pass_cycles
from baco.compiler.layers.layer import Layer
from baco.workloads.problem import Problem
from tests.compiler.styles.random_layers import draw_convolution

DEFAULT = load_accelerator("gemmini-default")


def test_cheapest_cut_into_passes():
    """Against all cuts of up to 60 rows: every pass takes max(rows, 4), one of them the array's side."""
    dim = 8

    @functools.cache
    def best(rows: int, carried: bool) -> int:
        if rows == 0:
            return 0 if carried else 10**6
        found = []
        for taken in range(1, min(rows, dim) + 1):
            found.append(max(taken, 4) + best(rows - taken, carried))
            if not carried:
                found.append(dim + best(rows - taken, True))
        return min(found)

    for rows in range(1, 61):
        assert pass_cycles(rows, dim) == best(rows, False)


def test_bound_of_a_product():
    found = bound(Layer(Problem(P=100, C=40, K=33), bias=True, scale=None), DEFAULT)
    assert found.array_cycles == 16 + 3 * 3 * 100
    assert found.memory_bytes == 100 * 40 + 40 * 33 + 4 * 33 + 4 * 100 * 33
    assert found.memory_cycles == found.memory_bytes / 8
    assert found.cycles == found.memory_cycles


def test_bytes_of_a_convolution():
    """Against marking every pixel that a window touches."""
    r = random.Random(5)
    for _ in range(100):
        layer = draw_convolution(r)
        p = layer.problem
        touched = set()
        for q, x, s, rr in np.ndindex(p.Q, p.P, p.S, p.R):
            row = q * p.stride_h + s * p.dilation_h - layer.padding[0]
            column = x * p.stride_w + rr * p.dilation_w - layer.padding[1]
            if 0 <= row < layer.size[0] and 0 <= column < layer.size[1]:
                touched.add((row, column))
        stored = layer.pooling.rows * layer.pooling.columns if layer.pooling else p.P * p.Q
        wanted = p.N * len(touched) * p.C + p.S * p.R * p.C * p.K + 4 * p.K * layer.bias + p.N * stored * p.K
        assert bound(layer, DEFAULT).memory_bytes == p.groups * wanted


def test_bound_packs_what_loads_can_put_together():
    first = Layer(Problem(R=7, S=7, P=8, Q=8, C=3, K=16, stride_w=2, stride_h=2), (16, 16), (3, 3))
    assert bound(first, DEFAULT).array_cycles == 16 + 7 * 2 * 64  # 21 neighbouring bytes: two blocks a row
    depthwise = Layer(Problem(R=3, S=3, P=8, Q=8, groups=40), (8, 8), (1, 1))
    assert bound(depthwise, DEFAULT).array_cycles == 16 + 3 * 9 * 64  # 16 groups a block
