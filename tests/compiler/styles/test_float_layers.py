"""Layers of codes of floating point in all code styles, exact against ml_dtypes and float32 additions one after the other."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.choice.choose import choices
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.reference import draw_tensors, layer_result
from baco.compiler.layers.text import layer_text, parse_layer
from baco.compiler.schedules.schedule import DepthwiseSchedule, ExplicitSchedule, LoopConvSchedule
from baco.compiler.styles.packed import packed_layer
from baco.compiler.styles.registry import plan_layer
from baco.workloads.problem import Problem
from tests.compiler.layers.layer_oracle import run_layer
from tests.compiler.styles.layer_programs import Case, wrong_layers
from tests.compiler.styles.random_layers import (
    draw_conv_schedule,
    draw_convolution,
    draw_product,
    draw_product_schedule,
)
from tests.compiler.styles.random_mappings import draw_layer, draw_mapping
from tests.machines import BFLOATS, FLOATS
from tests.seeds import seeds, some

ROOMY = FLOATS.replace(name="roomy", scratchpad_kib=4, accumulator_kib=2)
OTHER = ROOMY.replace(name="other", input_format="fp8-e5m2", dim=8, scratchpad_kib=16, accumulator_kib=8)
#: With elements of 16 bits.
WIDE = ROOMY.replace(name="wide", input_format="bf16", scratchpad_kib=8)


def real(r: random.Random, layer: Layer, machine: Accelerator) -> Layer:
    """The layer in the machine's numbers."""
    if not machine.floating:
        scale = None if layer.scale is None else r.choice((1.0, 2.0**-16, 3e-7, -0.01))
        return replace(layer, scale=scale, elements=machine.input_format)
    scale = None if layer.scale is None else 2.0 ** r.randint(-6, 4)
    return replace(layer, residual_scale=None, scale=scale, elements=machine.input_format)


def cases(r: random.Random, machine: Accelerator, count: int) -> list[Case]:
    """So many of LOOP_WS, LOOP_CONV_WS, wild mappings, and groups at once."""
    found: list[Case] = []
    kinds = [0] * 4
    while min(kinds) < count:
        kind = kinds.index(min(kinds))
        layer = draw_layer(r)
        if kind == 0:
            layer = draw_product(r, *(r.randint(1, 2 * machine.dim + 3) for _ in range(3)))
        elif kind == 1:
            layer = draw_convolution(r)
        layer = real(r, layer, machine)
        try:
            if kind == 0:
                schedule = draw_product_schedule(r, layer, machine)
            elif kind == 1:
                schedule = draw_conv_schedule(r, layer, machine)
            elif kind == 2:
                schedule = ExplicitSchedule(
                    draw_mapping(r, layer.problem, machine.dim, r.choice(machine.dataflows))
                )
            else:
                packed = r.randint(2, machine.dim)
                inner = packed_layer(layer, packed)
                schedule = DepthwiseSchedule(draw_mapping(r, inner.problem, machine.dim, "WS"), packed)
            if schedule is None:
                continue
            plan_layer(layer, schedule, machine)
        except InfeasibleError:
            continue
        kinds[kind] += 1
        found.append(Case(layer, schedule))
    return found


@pytest.mark.parametrize(
    ("machine", "engine"),
    some(
        3,
        [
            (ROOMY, "functional"),
            (OTHER, "timed"),
            (WIDE, "functional"),
            (WIDE, "timed"),
            (ROOMY, "timed"),
            (OTHER, "functional"),
        ],
    ),
    ids=lambda one: getattr(one, "name", one),
)
def test_every_style(machine: Accelerator, engine: str) -> None:
    assert wrong_layers(cases(random.Random(machine.dim), machine, 3), machine, engine) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(4, of=40))
def test_many_layers(seed: int) -> None:
    machine = (ROOMY, OTHER, WIDE)[seed % 3]
    assert wrong_layers(cases(random.Random(seed), machine, 15), machine) == []


@pytest.mark.parametrize("machine", some(1, [FLOATS, BFLOATS, ROOMY, WIDE]), ids=lambda one: one.name)
def test_on_rtl(machine: Accelerator) -> None:
    assert wrong_layers(cases(random.Random(3), machine, 3), machine, "rtl") == []


@pytest.mark.parametrize("seed", seeds(5, of=25))
def test_reference(seed: int) -> None:
    r = random.Random(seed)
    for _ in range(4):
        machine = (ROOMY, OTHER, WIDE)[seed % 3]
        layer = real(r, draw_layer(r), machine)
        tensors, side = draw_tensors(layer, seed), machine.dim
        np.testing.assert_array_equal(
            layer_result(layer, tensors, side), run_layer(layer, tensors, side=side)
        )


def test_chosen_schedules_add_up_in_order() -> None:
    """Channels that do not fit are tiled where a tile has one position of the kernel."""
    layer = Layer(Problem(R=3, S=3, P=6, Q=6, C=96, K=24), padding=(1, 1), elements=ROOMY.input_format)
    found = choices(layer, ROOMY, best=3)
    assert found
    for choice in found:
        plan_layer(layer, choice.schedule, ROOMY)
    assert wrong_layers([Case(layer, found[0].schedule)], ROOMY) == []


def test_another_order_is_refused() -> None:
    layer = Layer(Problem(R=3, S=3, P=4, Q=4, C=8, K=4), elements=ROOMY.input_format)
    with pytest.raises(InfeasibleError, match="before the kernel's positions are done"):
        plan_layer(layer, LoopConvSchedule(1, 2, 2, 4, 3, 3, 4), ROOMY)
    plan_layer(layer, LoopConvSchedule(1, 2, 2, 4, 1, 1, 4), ROOMY)
    with pytest.raises(InfeasibleError, match="packed in a row"):
        plan_layer(
            replace(layer, problem=replace(layer.problem, C=1)),
            LoopConvSchedule(1, 2, 2, 4, 3, 3, 1, pixels=3),
            ROOMY,
        )
    two = Layer(Problem(R=3, S=3, P=4, Q=4, C=3, K=3, groups=2), elements=ROOMY.input_format)
    with pytest.raises(InfeasibleError, match="two blocks of sums"):
        plan_layer(
            two,
            DepthwiseSchedule(draw_mapping(random.Random(0), packed_layer(two, 2).problem, 4, "WS"), 2),
            ROOMY,
        )


def test_what_there_is_not() -> None:
    with pytest.raises(InfeasibleError, match=r"of integers, and roomy computes fp8-e4m3"):
        plan_layer(Layer(Problem(P=4, C=4, K=4)), LoopConvSchedule(1, 1, 1, 1, 1, 1, 1), ROOMY)
    with pytest.raises(InputError, match="has no residual, and weights of 8 bits"):
        Layer(Problem(P=4, C=4, K=4), residual_scale=1.0, elements=ROOMY.input_format)


def test_text() -> None:
    layer = Layer(Problem(P=4, C=4, K=6), bias=True, elements="fp8-e5m2")
    assert layer_text(layer).endswith(" fp8-e5m2")
    assert parse_layer(layer_text(layer)) == layer
