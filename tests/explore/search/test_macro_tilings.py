"""Macro tilings as the search proposes them, against what the compiler makes of their mappings."""

from __future__ import annotations

import numpy as np
import pytest

from baco.compiler.choice.choose import choices
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import requirement
from baco.compiler.schedules.schedule import ExplicitSchedule
from baco.compiler.styles.registry import macro_form, mapping_of, realise
from baco.exploration.cost.genome import (
    FLOW,
    MACRO,
    ORDER,
    ORDERS,
    T1,
    T2,
    T3,
    Genomes,
    explicit,
    from_mapping,
    macro_flow,
    macro_side,
    tighten,
    to_mapping,
)
from baco.exploration.cost.predicted import InstructionModel
from baco.exploration.search.archive import Archive
from baco.exploration.search.moves import mutate
from baco.exploration.search.tilings import (
    construct_tilings,
    in_macro_form,
    tiling_neighbours,
    tilings_around,
)
from baco.exploration.space import load_space
from baco.workloads.network import Task
from baco.workloads.problem import Problem

LAYERS = (
    Layer(Problem(P=49, C=40, K=72), bias=True),
    Layer(Problem(R=3, S=3, P=14, Q=14, C=24, K=40), image=(14, 14), padding=(1, 1), bias=True, relu=True),
    Layer(Problem(R=7, S=7, P=16, Q=16, C=3, K=20, stride_w=2, stride_h=2), image=(32, 32), padding=(3, 3)),
    Layer(Problem(P=9, Q=7, C=33, K=65), image=(7, 9)),
    Layer(Problem(P=8, Q=8, C=32, K=48, stride_w=2, stride_h=2), image=(16, 16)),
    Layer(Problem(R=3, S=3, P=10, Q=10, C=1, K=1, groups=12), image=(12, 12)),
    Layer(Problem(P=6, C=18, K=9, groups=4)),
    Layer(Problem(R=3, S=3, P=9, Q=9, C=8, K=8, N=3, dilation_w=2, dilation_h=2)),
)
SPACE = load_space("gemmini")
MODEL = InstructionModel(LAYERS, SPACE)
TASKS = tuple(Task("net", layer.problem, 1.0, (f"layer{n}",)) for n, layer in enumerate(LAYERS))
POINTS = ((4, 4, 8), (8, 16, 32), (16, 64, 256), (32, 64, 128), (64, 128, 512))
ARCHIVE = Archive(TASKS, SPACE, MODEL)


def rows_on(point: tuple[int, int, int], seed: int, size: int = 60) -> tuple[np.ndarray, Genomes]:
    """Random tilings that fit an accelerator, and neighbours of them, with their tasks."""
    rng = np.random.default_rng(seed)
    task = rng.integers(0, len(LAYERS), size)
    limit = np.tile(np.array(point, dtype=float), (size, 1))
    dim = np.full(size, point[0])
    bounds = ARCHIVE.problems.bounds[task]

    def load(index: np.ndarray, rows: Genomes) -> tuple[np.ndarray, np.ndarray]:
        return ARCHIVE.load(task[index], rows, limit[index])

    rows, fits = construct_tilings(bounds, dim, load, rng)
    near, near_fits = tiling_neighbours(rows, bounds, dim, load, rng)
    every, good = np.concatenate([rows, near]), np.concatenate([fits, near_fits])
    assert good.mean() > 0.4
    return np.concatenate([task, task])[good], every[good]


@pytest.mark.parametrize("point", POINTS, ids=lambda p: f"{p[0]}x{p[0]}")
def test_tilings_that_fit_run_as_macros_on_their_accelerator(point: tuple[int, int, int]) -> None:
    accelerator = SPACE.accelerator(*point)
    place = int(np.searchsorted(MODEL.sides, point[0]))
    for task, row in zip(*rows_on(point, seed=1), strict=True):
        layer = LAYERS[task]
        mapping = to_mapping(row, layer.problem.groups, SPACE.double_buffer)
        mapping.check(layer.problem)
        assert macro_side(row[FLOW]) == point[0]
        macro = not isinstance(realise(layer, mapping, accelerator), ExplicitSchedule)
        assert macro == bool(MODEL.able[task, place]), (layer, mapping)
        need = requirement(mapping, layer.problem)
        assert need.accumulator_words <= accelerator.accumulator_rows
        assert need.scratchpad_rows <= accelerator.scratchpad_rows


def test_the_shape_of_rows_is_the_compilers() -> None:
    rng = np.random.default_rng(5)
    seen = {True: 0, False: 0}
    for point in POINTS:
        task, rows = rows_on(point, seed=2)
        bounds = ARCHIVE.problems.bounds[task]
        dim = np.full(len(rows), point[0])
        plain = explicit(rows)
        plain[:, ORDER] = rng.integers(0, len(ORDERS), len(rows))
        tighten(plain, bounds)
        changed = mutate(plain, bounds, dim, [0, 1], rng)
        for batch in (rows, plain, changed):
            for side in MODEL.sides.tolist():
                accelerator = SPACE.accelerator(side, 64, 256) if side > 8 else SPACE.accelerator(side, 4, 16)
                found = MODEL.macro_shape(task, batch, np.full(len(batch), side))
                for t, row, shaped in zip(task, batch, found, strict=True):
                    layer = LAYERS[t]
                    mapping = to_mapping(row, layer.problem.groups, SPACE.double_buffer)
                    expected = macro_form(layer, mapping, accelerator) is not None
                    assert shaped == expected, (layer, mapping, side)
                    seen[expected] += 1
    assert min(seen.values()) > 500


def test_macro_form_covers_the_problem_and_keeps_what_is_in_it() -> None:
    for point in POINTS:
        task, rows = rows_on(point, seed=3)
        bounds = ARCHIVE.problems.bounds[task]
        assert (rows[:, T2] == 1).all()
        assert np.array_equal(in_macro_form(rows, bounds, np.full(len(rows), point[0])), rows)
        for other in (4, 16, 64):
            moved = in_macro_form(rows, bounds, np.full(len(rows), other))
            assert (macro_side(moved[:, FLOW]) == other).all()
            for t, row in zip(task, moved, strict=True):
                to_mapping(row, 1, True).check(LAYERS[t].problem)


def test_flows_of_macro_form_name_sides() -> None:
    sides = np.array([2, 4, 8, 16, 32, 64, 128])
    assert np.array_equal(macro_side(macro_flow(sides)), sides)
    assert np.array_equal(macro_side(np.array([0, 1])), [0, 0])
    assert macro_flow(np.array(2)) == MACRO


def test_rows_come_back_from_their_mappings() -> None:
    for point in POINTS:
        task, rows = rows_on(point, seed=4)
        for t, row in zip(task, rows, strict=True):
            groups = LAYERS[t].problem.groups
            mapping = to_mapping(row, groups, True)
            back = from_mapping(mapping, point[0], groups, True)
            assert back is not None
            again = to_mapping(back, groups, True)
            assert (again.temporal, again.rows, again.columns) == (
                mapping.temporal,
                mapping.rows,
                mapping.columns,
            )
            assert again.buffering == mapping.buffering


def test_the_compilers_schedules_become_rows() -> None:
    found = 0
    for point in POINTS[2:]:
        accelerator = SPACE.accelerator(*point)
        for layer in LAYERS:
            for choice in choices(layer, accelerator):
                mapping = mapping_of(layer, choice.schedule, accelerator)
                row = from_mapping(mapping, point[0], layer.problem.groups, True)
                assert row is not None, mapping
                again = realise(layer, to_mapping(row, layer.problem.groups, True), accelerator)
                # explicit moves can have macro form, then they run as a macro; never the other way round
                if not isinstance(choice.schedule, ExplicitSchedule):
                    assert not isinstance(again, ExplicitSchedule)
                    found += 1
    assert found > 30


def test_all_tilings_around_one_are_listed_once() -> None:
    bounds = ARCHIVE.problems.bounds[1]
    _, rows = rows_on(POINTS[2], seed=6)
    row = in_macro_form(rows[:1], bounds[None, :], np.array([16]))[0]
    near = tilings_around(row, bounds, 16)
    assert len(np.unique(near, axis=0)) == len(near)
    assert (near == row).all(1).any()
    # the exhaustive neighbourhood along rows and columns of pixels, in the order of the row
    mine = near[(near[:, ORDER] == row[ORDER])]
    for q in (1, 2, 7, 14):
        wanted = row.copy()
        wanted[T1.start + 5] = q
        wanted = in_macro_form(wanted[None, :], bounds[None, :], np.array([16]))[0]
        assert (mine == wanted).all(1).any()
        assert mine[:, T3].min() >= 1
