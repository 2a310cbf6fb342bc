"""The model of loops that load ahead: published numbers, and the exact form against walking through all rounds."""

from __future__ import annotations

import pytest

from baco.compiler.analysis.pipelined import LoopTimes, loop_cycles


def walked(load: int, use: int, rounds: int, stages: int) -> int:
    """A load begins when the round before that had the place is done with it; uses follow one another."""
    ends: list[int] = []
    now = 0
    for number in range(rounds):
        start = ends[number - stages] if number >= stages else 0
        now = max(now, start + load) + use
        ends.append(now)
    return now


def test_short_loops_are_exact() -> None:
    for load in range(0, 90, 7):
        for use in (1, 4, 9, 20, 31):
            for rounds in range(14):
                for stages in range(1, 7):
                    assert loop_cycles(load, use, rounds, stages) == walked(load, use, rounds, stages)


def test_long_loops_take_the_published_cycles_a_round() -> None:
    """Loads of 60 and uses of 20 cycles: 80, 40, 26.7, 20, 20 a round with 1 to 5 stages."""
    found = [loop_cycles(60, 20, 60_000, stages) / 60_000 for stages in range(1, 6)]
    assert found == pytest.approx([80, 40, 80 / 3, 20, 20], rel=1e-3)


def test_a_serial_loader_is_a_bound() -> None:
    """Two places hide what follows the loads, not the loads: more places change nothing, or keep products waiting."""
    slow = LoopTimes(latency=60, busy=100, use=40, rounds=50)
    assert [slow.cycles(stages) for stages in (2, 3, 4)] == [160 + 100 * 49 + 40] * 3
    assert slow.cycles(1) == 200 * 50
    assert slow.stages(8) == 2
    assert LoopTimes(latency=400, busy=10, use=50, rounds=500).stages(12) == 10
    assert LoopTimes(latency=400, busy=10, use=50, rounds=1).stages(12) == 1
