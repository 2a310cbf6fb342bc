"""What plans say that their code issues, in whole numbers, against an interpreter that counts what is emitted."""

from __future__ import annotations

import random

import pytest

from baco.accel.config import Accelerator
from baco.compiler.analysis.arrays import NUMPY
from baco.compiler.schedules.schedule import (
    DepthwiseSchedule,
    ExplicitSchedule,
    LoopConvSchedule,
    LoopWsSchedule,
)
from baco.compiler.styles.explicit.code import prepare
from baco.compiler.styles.explicit.loads import count_input_loads, count_weight_loads
from baco.compiler.styles.explicit.passes import count_passes
from baco.compiler.styles.explicit.plan import ExplicitPlan
from baco.compiler.styles.explicit.reach import ImageReach
from baco.compiler.styles.explicit.results import count_fences, count_results
from baco.compiler.styles.macros.estimate import macro_cycles
from baco.compiler.styles.macros.runs import CONSTANTS
from baco.compiler.styles.packed import packed_layer
from tests.compiler.ir.counting_machine import CountingMachine, issued_commands
from tests.compiler.styles.layer_programs import Case
from tests.compiler.styles.random_layers import (
    draw_conv_schedule,
    draw_convolution,
    draw_product,
    draw_product_schedule,
)
from tests.compiler.styles.random_mappings import draw_case
from tests.seeds import seeds


def _accelerator(r: random.Random) -> Accelerator:
    dim = r.choice((2, 4, 8, 16))
    return Accelerator(
        name="random", dim=dim, scratchpad_kib=r.choice((4, 16)) * dim, accumulator_kib=r.choice((2, 4)) * dim,
        dataflow="both", dma_bits=64, dma_max_bytes=r.choice((16, 32, 64)), partial_sum_bits=r.choice((20, 32)),
    )  # fmt: skip


def _compare_plan(plan: ExplicitPlan, found: CountingMachine, where: str) -> None:
    layer, issued = plan.layer, found.issued
    passes, results, weights = count_passes(plan), count_results(plan), count_weight_loads(plan)
    spilled = plan.times_left - 1
    opening = int(layer.bias) + int(layer.residual_scale is not None)
    expected = {
        "preload": passes.passes,
        "compute_preloaded": passes.weight_blocks,
        "compute_accumulated": passes.passes - passes.weight_blocks,
        "mvin2": weights.loads,
        "mvin3": results.moves * (opening + spilled),
    }
    if layer.pooling is None:
        expected["mvout"] = results.moves * (1 + spilled)
    assert {name: issued[name] for name in expected} == expected, where
    assert isinstance(passes.passes, int)
    assert isinstance(weights.loads, int)
    assert found.rows["mvin2"] == weights.spans, where
    assert plan.spills == (count_fences(plan) > 0), where
    inputs = count_input_loads(plan, ImageReach.of(plan, layer.problem, layer.size, layer.padding))
    assert found.rows["mvin"] >= inputs.spans, where
    if layer.padding == (0, 0) and inputs.zeros == 0:
        assert issued["mvin"] == inputs.loads, where
    else:  # loads of zeros beside the image are estimated
        assert abs(inputs.loads + inputs.zeros - issued["mvin"]) <= 0.5 * issued["mvin"] + 8, where


def _explicit(seed: int, count: int) -> int:
    r = random.Random(seed)
    compared = 0
    while compared < count:
        accelerator = _accelerator(r)
        case = draw_case(r, accelerator, r.choice(("WS", "OS")))
        compared += _compared(case, accelerator)
    return compared


def _compared(case: Case, accelerator: Accelerator) -> bool:
    layer, schedule = case.layer, case.schedule
    if isinstance(schedule, DepthwiseSchedule):
        if layer.problem.groups % schedule.packed:
            return False  # the last pack is smaller than the others
        inner = packed_layer(layer, schedule.packed)
    else:
        assert isinstance(schedule, ExplicitSchedule)
        inner = layer
    ready = prepare(inner, schedule.mapping, accelerator)
    if ready.pooled_after:
        return False  # by code of its own
    _compare_plan(ready.plan, issued_commands(layer, schedule, accelerator), str(case))
    return True


@pytest.mark.parametrize("seed", seeds(2, of=20))
def test_plans_of_explicit_code_issue_what_they_say(seed: int) -> None:
    assert _explicit(seed, 6) == 6


@pytest.mark.parametrize("seed", seeds(1, of=20))
def test_macros_run_as_often_as_predicted(seed: int) -> None:
    r = random.Random(seed)
    for _ in range(6):
        accelerator = _accelerator(r)
        constants = CONSTANTS[accelerator.timing]
        schedule: LoopWsSchedule | LoopConvSchedule | None
        if r.random() < 0.5:
            layer = draw_product(r, *(r.randint(1, 5 * accelerator.dim) for _ in range(3)))
            schedule = draw_product_schedule(r, layer, accelerator)
            name, each = "loop_ws", constants.host_ws
        else:
            layer = draw_convolution(r)
            schedule = draw_conv_schedule(r, layer, accelerator)
            name, each = "loop_conv_ws", constants.host_conv
        if schedule is None:
            continue
        found = issued_commands(layer, schedule, accelerator).issued
        assert found[name] == NUMPY.up(macro_cycles(layer, schedule, accelerator).host / each), (
            layer,
            schedule,
        )
