"""Schedules to measure: the choice first, different ones behind it, and tilings that no neighbour beats by the same estimate."""

from __future__ import annotations

import math

import pytest

from baco.accel.presets import load_accelerator
from baco.compiler.choice.choose import choices, choose
from baco.compiler.choice.neighbours import alike, climb, neighbours, runs_of
from baco.compiler.choice.promising import promising
from baco.compiler.layers.text import parse_layer
from baco.compiler.schedules.schedule import LoopConvSchedule, LoopWsSchedule
from baco.compiler.styles.registry import parse_schedule, plan_layer

ORIGINAL = load_accelerator("gemmini-default").replace(timing="gemmini")
PRODUCT = "P48 C384 K256 bias scale 0.001"
LAYERS = (
    pytest.param(PRODUCT, marks=pytest.mark.slow),
    "P16 Q16 C48 K92 stride 2x2 bias scale 0.001",
    pytest.param("R3 S3 P14 Q14 groups 32 image 14x14 padding 1x1 scale 0.001", marks=pytest.mark.slow),
)


@pytest.mark.parametrize("text", LAYERS)
def test_the_choice_comes_first_and_the_others_differ_and_can_be_carried_out(text: str) -> None:
    layer = parse_layer(text)
    found = [choice.schedule for choice in promising(layer, ORIGINAL, 8)]
    assert found[0] == choose(layer, ORIGINAL)
    assert 2 <= len(found) <= 8
    for n, schedule in enumerate(found):
        plan_layer(layer, schedule, ORIGINAL)
        assert not any(alike(layer, ORIGINAL.dim, schedule, other) for other in found[:n])


def test_climbing_looks_at_more_than_the_choice_does() -> None:
    layer = parse_layer(PRODUCT)
    plain, climbed = (
        choices(layer, ORIGINAL, best=4, style="macro", climbing=climbing) for climbing in (False, True)
    )
    assert min(one.cycles for one in climbed) < min(one.cycles for one in plain)


@pytest.mark.parametrize("start", ["loop_ws 1,1,1 order ijk", "loop_conv 1,1,40,64,1,1,64 order nqpksrc"])
def test_climbing_ends_where_no_neighbour_is_faster(start: str) -> None:
    layer, dim = parse_layer("P64 C96 K128 scale 0.001"), 16
    begin = parse_schedule(start)
    assert isinstance(begin, LoopWsSchedule | LoopConvSchedule)

    def cycles(schedule: LoopWsSchedule | LoopConvSchedule) -> float | None:
        sizes = (
            (schedule.i, schedule.j, schedule.k) if isinstance(schedule, LoopWsSchedule) else schedule.tile
        )
        return None if max(sizes) > 64 else sum(abs(math.log2(size) - 2) for size in sizes)

    first = cycles(begin)
    assert first is not None
    found = climb(layer, dim, {begin: first}, cycles)
    assert begin in found or runs_of(layer, dim, begin) in {
        runs_of(layer, dim, schedule) for schedule in found
    }
    best = min(found, key=lambda schedule: found[schedule])
    assert found[best] < first
    near = [took for schedule in neighbours(layer, dim, best) if (took := cycles(schedule)) is not None]
    assert min(near) >= found[best]


def test_loops_of_one_trip_make_no_difference() -> None:
    layer = parse_layer("P32 C64 K32 scale 0.001")
    first, second, third = (
        parse_schedule(f"loop_ws {tile} order {order}")
        for tile, order in (("2,2,1", "ijk"), ("2,2,1", "jik"), ("1,1,1", "jik"))
    )
    assert isinstance(first, LoopWsSchedule)
    assert isinstance(second, LoopWsSchedule)
    assert isinstance(third, LoopWsSchedule)
    assert runs_of(layer, 16, first) == runs_of(layer, 16, second)
    assert alike(layer, 16, first, second)
    assert not alike(layer, 16, second, third)
