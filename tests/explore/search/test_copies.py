"""Tensors held once: neighbours with other copies, and gradients that keep them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from baco.accel.presets import load_accelerator
from baco.common import portable
from baco.compiler.mapping.batch import AXES
from baco.exploration.cost.genome import (
    C_AXIS,
    COLUMNS,
    FLOW,
    K_AXIS,
    MACRO,
    ONCE,
    ORDER,
    P_AXIS,
    ROWS,
    T1,
    T2,
    T3,
    ProblemSet,
    to_mapping,
    trivial,
)
from baco.exploration.cost.model import make_cost_model
from baco.exploration.cost.predicted import InstructionModel
from baco.exploration.samplers.relaxed import RelaxedStarts, Weights
from baco.exploration.search.archive import Archive
from baco.exploration.search.moves import copies_around
from baco.exploration.search.proposals import Proposals
from baco.exploration.space import DesignSpace
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.problem import Problem
from tests.explore.genome_helpers import random_rows
from tests.explore.study_helpers import small_workload

WORKLOAD = small_workload(32)
SPACE = DesignSpace(
    name="small",
    rules="gemmini",
    base=load_accelerator("gemmini-default"),
    dim=(8,),
    scratchpad_kib=(16,),
    accumulator_kib=(4,),
    dataflows=("WS",),
    double_buffer=True,
)


def model() -> InstructionModel:
    found = make_cost_model("instruction", layers_of_tasks(WORKLOAD.tasks, WORKLOAD), SPACE)
    assert isinstance(found, InstructionModel)
    return found


@pytest.mark.parametrize("groups", [1, 3])
def test_neighbours_hold_what_changes_once_or_twice_in_every_combination(groups: int) -> None:
    problem = Problem(P=24, C=48, K=24, groups=groups)
    row = trivial(1)[0]
    row[[ROWS, COLUMNS]] = 8
    row[T1][[P_AXIS, C_AXIS]] = 4, 2
    row[T2][K_AXIS] = 3
    row[T3][[P_AXIS, C_AXIS]] = 6, 3
    near = copies_around(row, ProblemSet([problem]).bounds[0], groups)
    mappings = [to_mapping(neighbour, groups, True) for neighbour in near]
    assert len(set(mappings)) == len(mappings)  # none twice, written in another way
    copies: dict[tuple[tuple[int, ...], ...], set[tuple[int, int, int]]] = {}
    for mapping in mappings:
        mapping.check(problem)
        copies.setdefault(mapping.temporal, set()).add(mapping.buffering)
        trips = {axis: mapping.factor(axis, 3) for axis in AXES}
        inner = math.prod(mapping.factor(axis, 2) for axis in "KPQN")
        tiles = (
            groups * trips["C"] * trips["K"],
            groups * trips["C"] * trips["P"],
            groups * trips["P"] * trips["K"] * inner,
        )
        wanted = set(itertools.product(*[(1, 2) if tile > 1 else (1,) for tile in tiles]))
        assert mapping.buffering in wanted
        copies[mapping.temporal] |= {(0, 0, len(wanted))}
    for found in copies.values():
        (number,) = (entry[2] for entry in found if entry[0] == 0)
        assert len(found) == number + 1
    # its own tiles, and whole axes in the accumulator or in the scratchpad
    own = to_mapping(row, groups, True)
    assert own.temporal in copies
    for axis, bound in (("P", 24), ("C", 6)):
        for level in (1, 2):
            sizes = {
                m.factor(axis, 0) * m.factor(axis, 1) if level == 1 else m.factor(axis, 2) for m in mappings
            }
            whole = bound if level == 1 else bound // (4 if axis == "P" else 2)
            assert whole in sizes


def test_proposals_fit_with_any_tensors_held_once_but_for_macros() -> None:
    archive = Archive(WORKLOAD.tasks, SPACE, model())
    proposals = Proposals(archive, [0], np.random.default_rng(0), model())
    task = np.arange(300) % len(WORKLOAD.tasks)
    limit = np.tile([8.0, 4.0, 16.0], (len(task), 1))
    rows, good = proposals.construct(task, limit)
    near_task, near = proposals.neighbours(task[good], rows[good], limit[good])
    tasks, every = np.concatenate([task[good], near_task]), np.concatenate([rows[good], near])
    accumulator, scratchpad = archive.load(tasks, every, np.tile([8.0, 4.0, 16.0], (len(tasks), 1)))
    assert (np.maximum(accumulator, scratchpad) <= 1).all()
    kinds = set()
    for t, row in zip(tasks, every, strict=True):
        assert row[FLOW] < MACRO or not row[ONCE]
        copies = to_mapping(row, WORKLOAD.tasks[t].problem.groups, True).buffering
        assert all(one == 1 for bit, one in enumerate(copies) if row[ONCE] & (1 << bit))
        kinds.add(int(row[ONCE]))
    assert kinds == set(range(8))


def test_gradients_keep_the_copies() -> None:
    problems = ProblemSet([task.problem for task in WORKLOAD.tasks])
    starts, n = 3, len(problems)
    rng = np.random.default_rng(1)
    rows = random_rows(np.tile(problems.bounds, (starts, 1)), 8, rng)
    rows[:, FLOW] = 0
    genomes = rows.reshape(starts, n, -1)

    def made(once: np.ndarray) -> RelaxedStarts:  # type: ignore[type-arg]
        return RelaxedStarts(
            problems,
            np.ones(n),
            model(),
            SPACE,
            np.full(starts, 8.0),
            np.zeros(starts, dtype=np.bool_),
            genomes[..., FLOW],
            genomes[..., ORDER],
            once,
            portable.log(genomes[..., [ROWS, COLUMNS, *range(T1.start, T2.stop)]].astype(np.float64)),
            Weights(np.ones(starts), np.ones(starts), np.zeros(starts)),
        )

    some, none = made(genomes[..., ONCE]), made(np.zeros((starts, n), dtype=np.int64))
    # what waits takes longer
    assert (some.loss(some.x) != none.loss(none.x)).all()
    some.descend(0.05)
    for variant in (0, 1):
        _, rounded = some.rounded(variant)
        assert np.array_equal(rounded[:, ONCE], rows[:, ONCE])
