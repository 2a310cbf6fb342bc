"""Layers whose weights lie two a byte in main memory, exact against numpy integers."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from baco.accel.config import Accelerator, Features
from baco.accel.dataflows import Dataflow
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.layers.layer import Layer, Layout, packed_nibbles
from baco.compiler.layers.text import layer_text, parse_layer
from baco.compiler.schedules.schedule import DepthwiseSchedule, ExplicitSchedule, LoopWsSchedule
from baco.compiler.styles.registry import plan_layer
from baco.workloads.problem import Problem
from tests.compiler.layers.layer_oracle import two_a_byte
from tests.compiler.styles.layer_programs import Case, wrong_layers
from tests.compiler.styles.random_layers import (
    draw_conv_schedule,
    draw_convolution,
    draw_product,
    draw_product_schedule,
)
from tests.compiler.styles.random_mappings import draw_layer, draw_mapping
from tests.machines import WHOLE
from tests.seeds import seeds, some

PACKING = Features(packed_weights=True)
SMALL = Accelerator(name="small", dim=4, scratchpad_kib=4, accumulator_kib=2, features=PACKING)
#: The port is narrower than a row of the array, and than half of one.
NARROW = SMALL.replace(name="narrow", dim=16, scratchpad_kib=16, accumulator_kib=16, dma_bits=32)


def packed(layer: Layer) -> Layer | None:
    """The layer with weights of 4 bits, in rows that are an even number of elements apart; None where groups begin inside a byte."""
    if layer.problem.groups > 1 and layer.weight.group % 2:
        return None
    pitch = layer.weight.pitch + layer.weight.pitch % 2
    group = layer.weight.group
    if layer.weight.group and layer.is_product and layer.problem.groups > 1:
        group = pitch * (layer.problem.K if layer.weights_transposed else layer.problem.C)
    return replace(layer, weight=Layout(pitch, group), weight_bits=4)


def product_cases(r: random.Random, machine: Accelerator, count: int) -> list[Case]:
    """By LOOP_WS: every size, transposed ones and groups among them."""
    cases: list[Case] = []
    while len(cases) < count:
        sizes = (r.randint(1, 2 * machine.dim + 3) for _ in range(3))
        layer = packed(draw_product(r, *sizes))
        if layer is not None:
            cases.append(Case(layer, draw_product_schedule(r, layer, machine)))
    return cases


def convolution_cases(r: random.Random, machine: Accelerator, count: int) -> list[Case]:
    """By LOOP_CONV_WS."""
    cases: list[Case] = []
    while len(cases) < count:
        layer = packed(draw_convolution(r))
        schedule = None if layer is None else draw_conv_schedule(r, layer, machine)
        if layer is not None and schedule is not None:
            cases.append(Case(layer, schedule))
    return cases


def explicit_cases(r: random.Random, machine: Accelerator, dataflow: Dataflow, count: int) -> list[Case]:
    """By wild mappings."""
    cases: list[Case] = []
    while len(cases) < count:
        layer = packed(draw_layer(r))
        if layer is None:
            continue
        case = Case(layer, ExplicitSchedule(draw_mapping(r, layer.problem, machine.dim, dataflow)))
        try:
            plan_layer(layer, case.schedule, machine)
        except InfeasibleError:
            continue
        cases.append(case)
    return cases


@pytest.mark.parametrize(
    ("machine", "engine"),
    some(2, [(SMALL, "functional"), (NARROW, "timed"), (SMALL, "timed"), (NARROW, "functional")]),
    ids=lambda one: getattr(one, "name", one),
)
def test_packed_weights(machine: Accelerator, engine: str) -> None:
    r = random.Random(machine.dim)
    cases = product_cases(r, machine, 5) + convolution_cases(r, machine, 5)
    cases += explicit_cases(r, machine, "WS", 3) + explicit_cases(r, machine, "OS", 3)
    assert wrong_layers(cases, machine, engine) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(4, of=40))
def test_many_packed_weights(seed: int) -> None:
    r = random.Random(seed)
    cases = product_cases(r, SMALL, 20) + convolution_cases(r, SMALL, 20)
    cases += explicit_cases(r, SMALL, "WS", 10) + explicit_cases(r, SMALL, "OS", 10)
    assert wrong_layers(cases, SMALL) == []


def test_packed_weights_on_rtl() -> None:
    r = random.Random(7)
    cases = product_cases(r, WHOLE, 3) + convolution_cases(r, WHOLE, 3) + explicit_cases(r, WHOLE, "WS", 2)
    assert wrong_layers(cases, WHOLE, "rtl") == []


def test_bytes_hold_two_elements() -> None:
    elements = np.random.default_rng(0).integers(-8, 8, 101, dtype=np.int8)
    assert np.array_equal(packed_nibbles(elements), two_a_byte(elements))
    rows = elements[:99].reshape(9, 11)
    assert np.array_equal(packed_nibbles(rows)[4], two_a_byte(rows[4]))


def test_what_cannot_be_packed() -> None:
    product = Layer(Problem(P=4, C=4, K=6), weight_bits=4)
    with pytest.raises(InfeasibleError, match="loads no weights of 4 bits"):
        plan_layer(product, LoopWsSchedule(1, 1, 1), SMALL.replace(features={"packed_weights": False}))
    with pytest.raises(InputError, match="must be even"):
        Layer(Problem(P=4, C=4, K=5), weight_bits=4)
    with pytest.raises(InputError, match="4 or 8 bits"):
        Layer(Problem(P=4, C=4, K=4), weight_bits=6)
    grouped = Layer(Problem(P=4, C=2, K=2, Q=2, groups=2), weight_bits=4)
    mapping = draw_mapping(random.Random(0), replace(grouped.problem, C=4, K=4, groups=1), 4, "WS")
    with pytest.raises(InfeasibleError, match="these have 4 bits"):
        plan_layer(grouped, DepthwiseSchedule(mapping, 2), SMALL)


def test_text_says_that_weights_are_packed() -> None:
    layer = Layer(Problem(P=4, C=4, K=6), bias=True, weight_bits=4)
    assert layer_text(layer).endswith(" int4")
    assert parse_layer(layer_text(layer)) == layer
