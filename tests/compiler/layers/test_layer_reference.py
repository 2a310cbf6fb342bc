"""The product's integer reference of layers against the tests' own, which is written apart."""

from __future__ import annotations

import numpy as np
import pytest

from baco.common.errors import InputError
from baco.compiler.layers.layer import Layer, Pooling
from baco.compiler.layers.reference import draw_tensors, layer_result, requantise
from baco.workloads.problem import Problem
from tests.compiler.layers.layer_oracle import run_layer
from tests.seeds import seeds


def _random_layer(random: np.random.Generator) -> Layer:
    def draw(most: int) -> int:
        return int(random.integers(1, most + 1))

    scale = None if random.integers(4) == 0 else float(2.0 ** -random.integers(3, 12))
    relu = scale is not None and bool(random.integers(2))
    if random.integers(2):
        problem = Problem(P=draw(9), C=draw(20), K=draw(20), groups=draw(3))
        transposed = bool(random.integers(2))
        residual = None if random.integers(2) else 0.5
        return Layer(problem, bias=bool(random.integers(2)), relu=relu, scale=scale, residual_scale=residual,
                     weights_transposed=transposed)  # fmt: skip
    kernel = (draw(3), draw(3))
    stride, dilation, pad = (draw(2), draw(2)), (draw(2), draw(2)), (draw(3) - 1, draw(3) - 1)
    size = [draw(10) + (kernel[i] - 1) * dilation[i] for i in (0, 1)]
    out = [(size[i] + 2 * pad[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in (0, 1)]
    problem = Problem(
        R=kernel[1], S=kernel[0], P=out[1], Q=out[0], C=draw(6), K=draw(6), N=draw(2), stride_h=stride[0],
        stride_w=stride[1], dilation_h=dilation[0], dilation_w=dilation[1], groups=draw(3),
    )  # fmt: skip
    pooling = None
    if scale is not None and random.integers(2):
        window, step = draw(3), draw(2)
        border = int(random.integers(window))
        sizes = [(extent + 2 * border - window) // step + 1 for extent in out]
        if min(sizes) >= 1:
            pooling = Pooling(window, step, border, *sizes)
    return Layer(problem, image=(size[0], size[1]), padding=pad, bias=bool(random.integers(2)), relu=relu,
                 scale=scale, pooling=pooling)  # fmt: skip


@pytest.mark.parametrize("seed", seeds(10, of=25))
def test_random_layers(seed: int) -> None:
    random = np.random.default_rng(seed)
    made = 0
    while made < 6:
        try:
            layer = _random_layer(random)
        except InputError:  # a window that never touches the image
            continue
        made += 1
        tensors = draw_tensors(layer, seed)
        np.testing.assert_array_equal(layer_result(layer, tensors), run_layer(layer, tensors))


def test_requantisation_rounds_to_even() -> None:
    values = np.array([1, 3, 5, -1, -3, 255, 257, 1 << 30, -(1 << 31)], np.int32)
    assert requantise(values, 0.5).tolist() == [0, 2, 2, 0, -2, 127, 127, 127, -128]


def test_sums_wrap() -> None:
    layer = Layer(Problem(P=1, C=1, K=1), bias=True, scale=None)
    tensors = {
        "input": np.array([127], np.int8),
        "weight": np.array([1], np.int8),
        "bias": np.array([2**31 - 1], np.int32),
    }
    assert layer_result(layer, tensors).tolist() == [-(2**31) + 126]


def test_the_same_seed_draws_the_same() -> None:
    layer = Layer(Problem(P=3, C=4, K=5), bias=True)
    first, second, other = draw_tensors(layer, 1), draw_tensors(layer, 1), draw_tensors(layer, 2)
    assert all((first[name] == second[name]).all() for name in first)
    assert any((first[name] != other[name]).any() for name in first)
