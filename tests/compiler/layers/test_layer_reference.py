"""The product's integer reference of layers against the tests' own, which is written apart."""

from __future__ import annotations

import random

import numpy as np
import pytest

from baco.compiler.layers.layer import Layer
from baco.compiler.layers.reference import draw_tensors, layer_result, requantise
from baco.workloads.problem import Problem
from tests.compiler.layers.layer_oracle import run_layer
from tests.compiler.styles.random_mappings import draw_layer
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(5, of=25))
def test_random_layers(seed: int) -> None:
    r = random.Random(seed)
    for _ in range(6):
        layer = draw_layer(r)
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
