"""The compiler's choice against Gemmini's default tiling on the RTL, where programs are short and predictions least certain."""

from __future__ import annotations

import pytest

from baco.accel.presets import load_accelerator
from baco.compiler.choice.choose import choices, choose
from baco.compiler.choice.gemmini import gemmini_paths
from baco.compiler.latency import schedule_cycles
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import LoopConvSchedule
from baco.compiler.styles.macros.estimate import macro_choice_cycles
from baco.compiler.styles.registry import parse_schedule
from baco.exploration.measure.layer import measure_layer
from baco.workloads.problem import Problem

MACHINE = load_accelerator("gemmini-default")


def cycles(layer: Layer, schedule: object) -> int:
    found = measure_layer(layer, schedule, MACHINE)  # type: ignore[arg-type]
    assert found.cycles is not None, found.reason
    return found.cycles


@pytest.mark.parametrize(
    "problem",
    [
        Problem(R=3, P=74, C=128, K=128),
        Problem(R=3, P=36, C=128, K=128),
        Problem(P=57, C=64, K=256),
        Problem(K=597),
        Problem(C=288, K=142),
        Problem(P=3944, K=8),
    ],
    ids=str,
)
def test_the_choice_is_no_slower_than_the_default(problem: Problem) -> None:
    layer = Layer(problem)
    default = min(cycles(layer, one) for one in gemmini_paths(layer, MACHINE))
    assert cycles(layer, choose(layer, MACHINE)) <= 1.01 * default


@pytest.mark.parametrize(
    ("problem", "tiling"),
    [
        # one run; weights that stay for four; a tile of channels each
        (Problem(R=3, P=64, C=128, K=128), "loop_conv 1,1,64,128,1,3,128 order nqpksrc"),
        (Problem(R=3, P=64, C=128, K=128), "loop_conv 1,1,16,128,1,3,128 order nqpksrc keep weights"),
        (Problem(R=3, P=58, C=64, K=128), "loop_conv 1,1,29,128,1,3,64 order nqpksrc keep weights"),
        (Problem(R=3, P=21, C=128, K=128), "loop_conv 1,1,21,32,1,3,128 order nqpksrc keep input"),
    ],
)
def test_the_first_run_counts(problem: Problem, tiling: str) -> None:
    layer, schedule = Layer(problem), parse_schedule(tiling)
    assert isinstance(schedule, LoopConvSchedule)
    measured = cycles(layer, schedule)
    counted = float(macro_choice_cycles(layer, schedule, MACHINE).total)
    steady = schedule_cycles(layer, schedule, MACHINE)
    assert counted >= steady
    assert abs(counted / measured - 1) < 0.08
    assert abs(counted / measured - 1) <= abs(steady / measured - 1)


def test_the_default_stays_where_nothing_is_clearly_faster() -> None:
    near, far = Layer(Problem(P=57, C=64, K=256)), Layer(Problem(R=3, P=36, C=128, K=128))
    found = choices(near, MACHINE)
    assert found[0].schedule in gemmini_paths(near, MACHINE)
    assert found[1].cycles < found[0].cycles  # by less than a hundredth
    assert choose(far, MACHINE) not in gemmini_paths(far, MACHINE)
