"""Code that seldom runs is told to LLVM, and does what it did."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.compiler.codegen.program import Buffer, build_program, lower_to_ir
from baco.compiler.ir.emit import Emitter
from baco.compiler.styles.explicit.jobs import MoveJob, Pace, Turns
from baco.sim.engines.program import run_program

SMALL = Accelerator(name="small", dim=4, scratchpad_kib=4, accumulator_kib=2)


def test_a_rare_condition_is_expected_not_to_hold() -> None:
    for rarely in (False, True):
        e = Emitter("program", ["n"])
        with e.when(e.compare("eq", e.arguments[0], 0), rarely=rarely):
            e.fence()
        assert ("@llvm.expect.i1" in lower_to_ir(e.finish())) == rarely


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        # one step each beat
        ([(10, 10, 1)], [10]),
        # three at a turn, the first ones a quarter early
        ([(9, 40, 3)], [9]),
        # two kinds, the slower one counts turns of the faster
        ([(20, 60, 2), (4, 60, 1)], [20, 4]),
        # more steps than beats
        ([(30, 10, 1)], [30]),
    ],
)
def test_all_steps_are_taken_while_the_beats_go_by(
    turns: Sequence[tuple[int, int, int]], expected: list[int]
) -> None:
    """Each job counts its steps in memory; the beats before their time must do."""
    e = Emitter("pace", ["counts"])

    def job(at: int, steps: int) -> MoveJob:
        def body(_: object, __: object) -> None:
            cell = e.add(e.arguments[0], 8 * at)
            e.store(cell, e.add(e.load(cell), 1))

        return MoveJob(e, 0, 1, lambda _: [steps], body, whole=False)

    jobs = [job(at, steps) for at, (steps, _, _) in enumerate(turns)]
    pace = Pace(e, [Turns([one], *numbers[:2], numbers[2]) for one, numbers in zip(jobs, turns, strict=True)])
    for one in jobs:
        one.start([])
    with e.loop(max(beats for _, beats, _ in turns)):
        pace.beat()
    counts = Buffer("counts", (len(turns),), "int64", "inout", data=np.zeros(len(turns), np.int64))
    outputs, result = run_program(build_program(e.finish(), "pace", [counts], SMALL))
    assert result.exit_code == 0
    assert outputs["counts"].tolist() == expected
