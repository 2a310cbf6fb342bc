"""Costs of schedules that no search found, against the RTL."""

from __future__ import annotations

import pytest

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import LoopConvSchedule, LoopWsSchedule, Schedule
from baco.exploration.cost.schedules import schedule_costs
from baco.exploration.measure.layer import measure_layer
from baco.workloads.problem import Problem

SMALL = Accelerator(name="small", dim=8, scratchpad_kib=32, accumulator_kib=16)
#: Neither rows nor channels are whole numbers of the tiles below.
CONV = Layer(Problem(R=3, S=3, P=23, Q=19, C=40, K=48), scale=0.01)
POINTWISE = Layer(Problem(P=28, Q=28, C=40, K=64), scale=0.01)


@pytest.mark.parametrize(
    ("layer", "schedule"),
    [
        pytest.param(CONV, LoopConvSchedule(1, 7, 8, 8, 3, 3, 32), marks=pytest.mark.slow),
        (CONV, LoopConvSchedule(1, 5, 12, 16, 3, 3, 40)),
        (POINTWISE, LoopConvSchedule(1, 8, 8, 16, 1, 1, 32)),
        (POINTWISE, LoopConvSchedule(1, 8, 8, 16, 1, 1, 40)),
        (POINTWISE, LoopConvSchedule(1, 8, 8, 16, 1, 1, 40, keep_input=True)),
        (POINTWISE, LoopWsSchedule(9, 3, 3)),
        (POINTWISE, LoopWsSchedule(9, 3, 5, keep_a=True)),
    ],
    ids=str,
)
def test_leftovers_and_kept_operands_cost_what_they_cost(layer: Layer, schedule: Schedule) -> None:
    (cost,) = schedule_costs([layer], [schedule], SMALL, "instruction")
    measured = measure_layer(layer, schedule, SMALL)
    assert measured.status == "measured"
    assert cost.latency_cycles == pytest.approx(measured.cycles, rel=0.2)
    moved = measured.activity["dram_read_bytes"] + measured.activity["dram_write_bytes"]
    assert cost.accesses[3] == pytest.approx(moved, rel=0.04)
    assert cost.energy_pj == pytest.approx(measured.energy_pj, rel=0.06)


def test_an_operand_that_is_not_kept_is_loaded_again() -> None:
    kept, loaded = (LoopConvSchedule(1, 8, 8, 16, 1, 1, 40, keep_input=keep) for keep in (True, False))
    slow = SMALL.replace(dram_bytes_per_cycle=1.0)
    (less,), (more,) = (schedule_costs([POINTWISE], [one], slow, "instruction") for one in (kept, loaded))
    # four tiles of channels: 28 x 28 x 40 inputs once or four times, a byte a cycle, and results once
    assert more.latency_cycles - less.latency_cycles == pytest.approx(3 * 28 * 28 * 40, rel=0.3)


def test_the_reference_model_and_what_cannot_be_carried_out() -> None:
    (cost,) = schedule_costs([POINTWISE], [LoopWsSchedule(9, 3, 5)], SMALL, "reference")
    assert cost.style is None
    assert cost.latency_cycles == max(cost.latency_terms)
    with pytest.raises(InfeasibleError):
        schedule_costs([CONV], [LoopWsSchedule(1, 1, 1)], SMALL, "instruction")
