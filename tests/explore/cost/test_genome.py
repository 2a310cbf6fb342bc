"""Genomes: needs agree with the model and the compiler, mappings cover their problems, tightening is minimal."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from baco.compiler.mapping.nest import requirement
from baco.exploration.cost.genome import (
    COLUMNS,
    FLOW,
    K_AXIS,
    ONCE,
    ROW_AXIS,
    ROWS,
    T1,
    T2,
    T3,
    ProblemSet,
    count,
    from_mapping,
    needs,
    plain_copies,
    tighten,
    to_mapping,
    trivial,
)
from baco.workloads.problem import Problem
from tests.explore.genome_helpers import random_rows

PROBLEMS = ProblemSet(
    [
        Problem(R=3, S=3, P=14, Q=14, C=24, K=40, stride_w=2, stride_h=2),
        Problem(R=3, S=2, P=17, Q=5, groups=5, dilation_w=2),
        Problem(P=50, C=30, K=70, N=2),
        Problem(),
    ]
)
SIZE = 400


@pytest.fixture
def task() -> np.ndarray:
    return np.arange(SIZE) % len(PROBLEMS)


@pytest.fixture
def rows(task: np.ndarray) -> np.ndarray:
    return random_rows(PROBLEMS.bounds[task], 16, np.random.default_rng(3))


@pytest.mark.parametrize("double_buffer", [False, True])
def test_needs_are_those_of_the_model_and_of_the_compiler(
    task: np.ndarray, rows: np.ndarray, double_buffer: bool
) -> None:
    accumulator, words, lines = needs(PROBLEMS, task, rows, double_buffer)
    counts = count(PROBLEMS, task, rows, double_buffer)
    assert np.array_equal(accumulator, counts.accumulator_words.numpy())
    assert np.array_equal(words, counts.scratchpad_words.numpy())
    assert np.array_equal(lines, counts.scratchpad_rows.numpy())
    for i, row in enumerate(rows):
        problem = PROBLEMS.problems[task[i]]
        need = requirement(to_mapping(row, problem.groups, double_buffer), problem)
        assert (need.rows, need.columns) == (row[ROWS], row[COLUMNS])
        assert need.accumulator_words == accumulator[i]
        assert need.scratchpad_words == words[i]
        assert need.scratchpad_rows == lines[i]


def test_mappings_cover_their_problems(task: np.ndarray, rows: np.ndarray) -> None:
    for row, t in zip(rows, task, strict=True):
        problem = PROBLEMS.problems[t]
        to_mapping(row, problem.groups, True).check(problem)


def test_tiles_that_change_are_held_twice() -> None:
    problem = Problem(P=8, C=8, K=8)
    row = trivial(1)[0]
    row[T1][4:] = (8, 1, 1)
    row[ROWS], row[COLUMNS] = 8, 8
    assert to_mapping(row, 1, True).buffering == (1, 1, 1)
    assert to_mapping(row, 2, True).buffering == (2, 2, 2)  # another group follows with other tiles
    row[COLUMNS], row[T3][K_AXIS] = 4, 2
    assert to_mapping(row, 1, True).buffering == (2, 1, 2)  # K moves weights and outputs
    assert to_mapping(row, 1, False).buffering == (1, 1, 1)
    to_mapping(row, 1, True).check(problem)


def test_tensors_held_once_come_back_from_their_mappings(task: np.ndarray, rows: np.ndarray) -> None:
    """Copies as the nest itself has them: two unless the tensor is held once or its tile is the only one."""
    single = 0
    for t, row in zip(task, rows, strict=True):
        problem = PROBLEMS.problems[t]
        mapping = to_mapping(row, problem.groups, True)
        for bit, (dims, inner) in enumerate((("RSCK", ""), ("RSCPQN", ""), ("KPQN", "KPQN"))):
            tiles = problem.groups
            for level, names in ((3, dims), (2, inner)):
                tiles *= math.prod(mapping.factor(name, level) for name in names)
            once = bool(row[ONCE] & (1 << bit))
            assert mapping.buffering[bit] == (1 if once or tiles == 1 else 2)
            single += once and tiles > 1
        back = from_mapping(mapping, 16, problem.groups, True)
        assert back is not None
        # loops that run once may stand elsewhere in the order
        assert dataclasses.replace(to_mapping(back, problem.groups, True), order=mapping.order) == mapping
        assert back[ONCE] == plain_copies(row[None], problem.groups)[0, ONCE]
        # a space of single buffers has rows for what is held twice only where a macro holds all so
        if mapping.buffering != (2, 2, 2):
            assert (from_mapping(mapping, 16, problem.groups, False) is None) == (2 in mapping.buffering)
    assert single > 200


def _product(rows: np.ndarray) -> np.ndarray:
    product = rows[:, T1] * rows[:, T2] * rows[:, T3]
    index = np.arange(len(rows))
    product[index, ROW_AXIS[rows[:, FLOW]]] *= rows[:, ROWS]
    product[:, K_AXIS] *= rows[:, COLUMNS]
    return product


def test_tightening_leaves_no_factor_that_could_be_smaller(task: np.ndarray, rows: np.ndarray) -> None:
    bounds = PROBLEMS.bounds[task]
    tight = rows.copy()
    tighten(tight, bounds)
    assert (_product(tight) >= bounds).all()
    assert (tight <= rows).all()
    for place in [ROWS, COLUMNS, *range(T1.start, T3.stop)]:
        smaller = tight.copy()
        smaller[:, place] -= 1
        still = (smaller[:, place] >= 1) & (_product(smaller) >= bounds).all(1)
        assert not still.any(), place
    again = tight.copy()
    tighten(again, bounds)
    assert np.array_equal(again, tight)
