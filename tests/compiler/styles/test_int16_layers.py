"""Layers of integers of 16 bits in all code styles, exact against numpy's 64-bit integers that are wrapped once."""

from __future__ import annotations

import random

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.choice.choose import choices
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.reference import draw_tensors, layer_result
from baco.compiler.layers.text import layer_text, parse_layer
from baco.compiler.styles.registry import plan_layer
from baco.workloads.problem import Problem
from tests.compiler.layers.layer_oracle import run_layer
from tests.compiler.styles.layer_programs import Case, wrong_layers
from tests.compiler.styles.random_mappings import draw_layer
from tests.compiler.styles.test_float_layers import cases, real
from tests.machines import WIDE_INTS
from tests.seeds import seeds

ROOMY = WIDE_INTS.replace(name="roomy", scratchpad_kib=8, accumulator_kib=2)
#: Rows of 16 elements, which are several beats of the port, and one dataflow.
LONG = ROOMY.replace(name="long", dim=16, dataflow="WS", scratchpad_kib=32, accumulator_kib=32)


@pytest.mark.parametrize(("machine", "engine"), [(ROOMY, "functional"), (LONG, "timed")])
def test_every_style(machine: Accelerator, engine: str) -> None:
    assert wrong_layers(cases(random.Random(machine.dim), machine, 3), machine, engine) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(4, of=40))
def test_many_layers(seed: int) -> None:
    machine = (ROOMY, LONG)[seed % 2]
    assert wrong_layers(cases(random.Random(seed), machine, 15), machine) == []


def test_on_rtl() -> None:
    machine = WIDE_INTS
    assert wrong_layers(cases(random.Random(3), machine, 3), machine, "rtl") == []


@pytest.mark.parametrize("seed", seeds(5, of=25))
def test_reference(seed: int) -> None:
    r = random.Random(seed)
    for _ in range(4):
        layer = real(r, draw_layer(r), ROOMY)
        tensors = draw_tensors(layer, seed)
        np.testing.assert_array_equal(layer_result(layer, tensors), run_layer(layer, tensors))
        assert parse_layer(layer_text(layer)) == layer


def test_order_does_not_matter() -> None:
    """Sums wrap, so that the best schedules, which add up in any order, have the same results where they leave 32 bits."""
    layer = Layer(
        Problem(R=3, S=3, P=6, Q=6, C=96, K=24), padding=(1, 1), scale=None, elements=ROOMY.input_format
    )
    tensors = {name: np.full_like(one, np.iinfo(one.dtype).min) for name, one in draw_tensors(layer).items()}
    exact = 2**30 * 96 * 4  # at a corner
    assert layer_result(layer, tensors)[0] == (exact + 2**31) % 2**32 - 2**31 != exact
    found = choices(layer, ROOMY, best=3)
    assert wrong_layers([Case(layer, one.schedule) for one in found], ROOMY) == []


def test_what_is_refused() -> None:
    layer = Layer(Problem(P=4, C=8, K=4), elements="int16")
    with pytest.raises(InputError, match="a layer of int16 has no weights of 4 bits"):
        Layer(Problem(P=4, C=8, K=4), elements="int16", weight_bits=4)
    schedule = choices(layer, ROOMY)[0].schedule
    with pytest.raises(InfeasibleError, match="the layer is of int16, and narrow computes integers"):
        plan_layer(layer, schedule, ROOMY.in_format("integer").replace(name="narrow"))
