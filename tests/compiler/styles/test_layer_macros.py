"""Layers by the loop macros, exact against numpy integers."""

import random
from itertools import product

import pytest

from baco.accel.config import Accelerator, Features
from baco.common.errors import InfeasibleError
from baco.compiler.choice.choose import choose
from baco.compiler.choice.gemmini import gemmini_schedule
from baco.compiler.layers.layer import Layer, Pooling
from baco.compiler.schedules.schedule import LoopConvSchedule, LoopWsSchedule
from baco.compiler.styles.macros.loop_conv_check import plan_loop_conv
from baco.compiler.styles.macros.loop_ws import check_loop_ws
from baco.compiler.styles.registry import plan_layer
from baco.workloads.problem import Problem
from tests.compiler.styles.layer_programs import Case, wrong_layers
from tests.compiler.styles.random_layers import (
    draw_conv_schedule,
    draw_convolution,
    draw_product,
    draw_product_schedule,
)

SMALL = Accelerator(name="small", dim=4, scratchpad_kib=4, accumulator_kib=2)
#: The whole range of GEMMs at dim 4.
SIZES = list(product(range(1, 10), repeat=3))


def _products(sizes: list[tuple[int, int, int]], accelerator: Accelerator, seed: int) -> list[Case]:
    r = random.Random(seed)
    layers = [draw_product(r, *size) for size in sizes]
    return [Case(layer, draw_product_schedule(r, layer, accelerator)) for layer in layers]


def _convolutions(count: int, accelerator: Accelerator, seed: int) -> list[Case]:
    r = random.Random(seed)
    cases: list[Case] = []
    while len(cases) < count:
        layer = draw_convolution(r)
        schedule = draw_conv_schedule(r, layer, accelerator)
        if schedule is not None:
            cases.append(Case(layer, schedule))
    return cases


def test_products():
    assert wrong_layers(_products(random.Random(1).sample(SIZES, 24), SMALL, 1), SMALL) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(9))
def test_all_small_products(part):
    assert wrong_layers(_products(SIZES[part::9], SMALL, part), SMALL) == []


@pytest.mark.parametrize("order", ["ijk", "ikj", "jik", "jki", "kij", "kji"])
def test_orders_with_sums_in_memory(order):
    """Where the depth is not innermost, sums go through a workspace, or through the raw output itself."""
    cases = []
    for scale, bias, residual in (
        (0.02, True, None),
        (None, True, None),
        (0.02, False, 0.5),
        (None, False, None),
    ):
        layer = Layer(Problem(P=11, C=13, K=10, groups=2), bias=bias, residual_scale=residual, scale=scale)
        schedule = LoopWsSchedule(1, 2, 1, order, keep_a=True, keep_b=True)
        cases.append(Case(layer, schedule))
        spilled = order.index("k") < 2 and scale is not None
        assert plan_layer(layer, schedule, SMALL).workspaces == ((("partial_sums", 440),) if spilled else ())
    assert wrong_layers(cases, SMALL) == []


def test_convolutions():
    assert wrong_layers(_convolutions(16, SMALL, 2), SMALL) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_many_convolutions(seed):
    dim = (4, 4, 8, 2)[seed % 4]
    accelerator = SMALL.replace(dim=dim, scratchpad_kib=4 * dim // 4 or 4, accumulator_kib=2 * dim // 4 or 2)
    assert wrong_layers(_convolutions(50, accelerator, seed), accelerator) == []


@pytest.mark.slow
def test_on_the_rtl():
    cases = [*_products(random.Random(3).sample(SIZES, 25), SMALL, 3), *_convolutions(20, SMALL, 4)]
    assert wrong_layers(cases, SMALL, "rtl") == []


def test_default_tiling_and_choice():
    """Schedules of the heuristic, and those that the estimate chooses, of the same layers."""
    layers = [
        Layer(Problem(P=37, C=50, K=23), bias=True, scale=0.01),
        Layer(Problem(P=9, Q=9, R=3, S=3, C=7, K=9), (9, 9), (1, 1), relu=True, scale=0.02),
        Layer(Problem(P=6, Q=6, C=9, K=5, stride_h=2, stride_w=2), (12, 12), scale=0.02),
        Layer(Problem(P=10, Q=10, R=3, S=3, C=2, K=6), (12, 12), scale=0.02, pooling=Pooling(3, 2, 1, 5, 5)),
        Layer(Problem(P=7, Q=7, R=3, S=3, C=1, K=1, groups=6), (7, 7), (1, 1), scale=0.05),
        Layer(Problem(P=7, Q=4, R=3, S=3, C=5, K=6, stride_h=2), (7, 7), (1, 1), scale=0.05),
        Layer(Problem(P=20, C=9, K=9), bias=True, residual_scale=0.5, scale=0.05),
        Layer(Problem(P=6, Q=6, R=3, S=3, C=5, K=6), (6, 6), (1, 1), scale=None),
    ]
    cases = [Case(layer, gemmini_schedule(layer, SMALL)) for layer in layers[:5]]
    cases += [Case(layer, choose(layer, SMALL)) for layer in layers]
    assert wrong_layers(cases, SMALL) == []


def test_kept_operands_stay():
    """Each of them is loaded once in this order."""
    layer = Layer(Problem(P=24, C=8, K=24, groups=3), scale=0.05)
    schedules = [
        LoopWsSchedule(2, 2, 2, "ijk", keep_a=True),
        LoopWsSchedule(2, 2, 2, "jik", keep_b=True),
        LoopWsSchedule(1, 6, 1, "ijk", keep_b=True),
    ]
    conv = Layer(Problem(P=6, Q=6, R=3, S=3, C=4, K=12), (6, 6), (1, 1), scale=0.05)
    kept = [
        LoopConvSchedule(1, 2, 6, 4, 3, 3, 4, keep_input=True),
        LoopConvSchedule(1, 2, 6, 4, 3, 3, 4, "knqpsrc", keep_weights=True),
        LoopConvSchedule(1, 3, 6, 8, 3, 3, 4, "knqpsrc", keep_input=True, keep_weights=True),
    ]
    cases = [Case(layer, one) for one in schedules] + [Case(conv, one) for one in kept]
    assert wrong_layers(cases, SMALL) == []


CONV = Layer(Problem(P=6, Q=6, R=3, S=3, C=8, K=8), (6, 6), (1, 1))


@pytest.mark.parametrize(
    ("layer", "schedule", "message"),
    [
        (Layer(CONV.problem, (6, 6), (1, 1), scale=None), LoopConvSchedule(1, 1, 1, 4, 3, 3, 4), "raw int32"),
        (Layer(Problem(P=4, C=4, K=4), residual_scale=1.0), LoopConvSchedule(1, 1, 1, 4, 1, 1, 4), "residual"),
        (Layer(Problem(P=4, C=4, K=4), weights_transposed=True), LoopConvSchedule(1, 1, 1, 4, 1, 1, 4), "transposed"),
        (CONV, LoopConvSchedule(1, 6, 6, 4, 3, 3, 4, "cnqpksr"), "partial sums"),
        (CONV, LoopConvSchedule(1, 6, 6, 8, 3, 3, 8, pixels=2), "2 pixels of 8 channels"),
        (CONV, LoopConvSchedule(1, 6, 6, 8, 3, 3, 8, downsample=True), "downsampling needs"),
        (CONV, LoopConvSchedule(1, 6, 6, 8, 3, 3, 8), "rows of the accumulator"),
        (
            Layer(Problem(P=6, Q=3, R=3, S=3, C=4, K=4, stride_h=2), (7, 6), (1, 1)),
            LoopConvSchedule(1, 3, 6, 4, 3, 3, 4),
            "one stride, the layer has 2 down and 1 across",
        ),
        (
            Layer(Problem(P=6, Q=4, R=3, S=3, C=4, K=4, dilation_h=2), (6, 6), (1, 1)),
            LoopConvSchedule(1, 1, 6, 4, 3, 3, 4),
            "one dilation, the layer has 2 down and 1 across",
        ),
        (
            Layer(Problem(P=300, Q=2, C=4, K=4), (2, 300), pooling=Pooling(2, 2, 0, 1, 150)),
            LoopConvSchedule(1, 1, 150, 4, 1, 1, 4),
            "8 bits for the sides of a pooled tile or image, not enough for 300",
        ),
    ],
)  # fmt: skip
def test_what_loop_conv_cannot(layer, schedule, message):
    small = (
        SMALL
        if "accumulator" in message or "rows" in message
        else SMALL.replace(scratchpad_kib=64, accumulator_kib=64)
    )
    with pytest.raises(InfeasibleError, match=message):
        plan_loop_conv(layer, schedule, small)


def test_unequal_steps_in_narrow_tiles():
    """One stride and one dilation are enough where the other direction has one element a tile."""
    layer = Layer(Problem(P=5, Q=4, R=3, S=2, C=3, K=5, stride_h=3, dilation_h=2), (12, 7), (1, 0), scale=0.1)
    wide = Layer(Problem(P=4, Q=5, R=2, S=3, C=3, K=5, stride_w=3, dilation_w=2), (7, 12), (0, 1), scale=0.1)
    cases = [
        Case(layer, LoopConvSchedule(1, 1, 5, 4, 1, 3, 3)),
        Case(layer, LoopConvSchedule(1, 4, 1, 4, 2, 1, 3)),
        Case(wide, LoopConvSchedule(1, 5, 1, 4, 3, 1, 3)),
        Case(wide, LoopConvSchedule(1, 1, 4, 4, 1, 2, 3)),
    ]
    assert wrong_layers(cases, SMALL) == []


@pytest.mark.parametrize(
    ("layer", "features", "message"),
    [
        (CONV, {}, "the layer is a convolution"),
        (Layer(Problem(P=4, C=4, K=4), bias=True, residual_scale=1.0), {}, "both a bias and a residual"),
        (Layer(Problem(P=4, C=4, K=4)), {"loop_ws": False}, "no LOOP_WS"),
        (Layer(Problem(P=4, C=4, K=4), scale=None), {"read_full_width": False}, "int32"),
        (Layer(Problem(P=4, C=4, K=4)), {"read_small_width": False}, "requantised"),
        (Layer(Problem(P=4, C=4, K=4), relu=True), {"activations": False}, "ReLU"),
        (Layer(Problem(P=4, C=4, K=4), scale=0.5), {"accumulator_scale": False}, "scale results"),
        (Layer(Problem(P=4, C=4, K=4), residual_scale=0.5), {"mvin_scale": False}, "scale a residual"),
    ],
)
def test_what_loop_ws_cannot(layer, features, message):
    accelerator = SMALL.replace(features=Features(**features))
    with pytest.raises(InfeasibleError, match=message):
        check_loop_ws(layer, LoopWsSchedule(1, 1, 1), accelerator)


def test_tiles_beyond_half_a_memory():
    layer = Layer(Problem(P=400, C=400, K=400))
    with pytest.raises(InfeasibleError, match="a tile takes 1024 rows of the scratchpad, 512 more than half"):
        check_loop_ws(layer, LoopWsSchedule(4, 4, 32), SMALL)
    with pytest.raises(InfeasibleError, match="a tile takes 144 rows of the accumulator, 80 more than half"):
        check_loop_ws(layer, LoopWsSchedule(6, 6, 1), SMALL)
