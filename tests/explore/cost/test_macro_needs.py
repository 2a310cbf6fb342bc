"""Rows of the local memories that mappings in macro form need: blocks counted one by one, as Gemmini's macros place them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import LoopConvSchedule
from baco.compiler.styles.macros.loop_conv_check import plan_loop_conv
from baco.exploration.cost.genome import (
    COLUMNS,
    FLOW,
    ONCE,
    ORDER,
    ORDERS,
    PLAIN,
    ROWS,
    T1,
    T2,
    T3,
    WIDTH,
    macro_flow,
)
from baco.exploration.cost.model import make_cost_model
from baco.exploration.cost.predicted import InstructionModel
from baco.exploration.search.archive import Archive
from baco.exploration.space import load_space
from baco.workloads.network import Task
from baco.workloads.problem import Problem

SIDE = 4
SPACE = dataclasses.replace(load_space("gemmini").without_units(), dim=(SIDE,))
#: Order of the axes in a row of factors.
AXES = "rsckpqn"


def blocks(extent: int) -> list[int]:
    return [at for at in range(extent) if at % SIDE == 0]


def placed(layer: Layer, tile: dict[str, int]) -> tuple[int, int]:
    """Rows of accumulator and scratchpad of one tile. LOOP_WS places square blocks; LOOP_CONV_WS a pixel a row for every block of
    channels, of an image `orows * stride + dilated_krows - 1` high (and as wide), half of either where it downsamples, and a row of
    weights for every block of output channels, window position and channel."""
    p = layer.problem
    if p.R * p.S == 1 and p.stride_w == p.stride_h == 1:
        pixels = blocks(tile["p"] * tile["q"] * tile["n"])
        square = lambda a, b: sum(SIDE for _ in a for _ in b)  # noqa: E731
        channels, results = blocks(tile["c"]), blocks(tile["k"])
        return square(pixels, results), square(pixels, channels) + square(channels, results)
    height, width = (
        tile[out] * stride + (tile[window] + (dilation - 1) * (tile[window] - 1)) - 1
        for out, window, stride, dilation in (
            ("q", "s", p.stride_h, p.dilation_h), ("p", "r", p.stride_w, p.dilation_w),
        )
    )  # fmt: skip
    if p.R * p.S == 1 and p.stride_w == p.stride_h == 2 and all(side % 2 == 0 for side in layer.size):
        height, width = height // 2, width // 2
    image = sum(1 for _ in range(tile["n"]) for _ in range(height) for _ in range(width))
    weights = sum(1 for _ in range(tile["s"]) for _ in range(tile["r"]) for _ in range(tile["c"]))
    results = sum(1 for _ in range(tile["n"]) for _ in range(tile["q"]) for _ in range(tile["p"]))
    return (
        sum(results for _ in blocks(tile["k"])),
        sum(image for _ in blocks(tile["c"])) + sum(weights for _ in blocks(tile["k"])),
    )


LAYERS = [
    Layer(Problem(P=14, Q=3, C=18, K=23, N=2)),
    Layer(Problem(R=3, S=2, P=9, Q=6, C=9, K=10, N=2, stride_w=1, stride_h=1)),
    Layer(Problem(R=3, S=3, P=7, Q=5, C=6, K=9, stride_w=2, stride_h=2)),
    Layer(Problem(R=2, S=4, P=6, Q=7, C=5, K=4, stride_w=3, stride_h=3, dilation_w=2, dilation_h=2)),
    Layer(Problem(R=4, S=3, P=5, Q=8, C=4, K=6, dilation_w=2, dilation_h=2)),
    Layer(Problem(P=6, Q=4, C=7, K=9, stride_w=2, stride_h=2), (8, 12)),
    Layer(Problem(P=6, Q=4, C=7, K=9, stride_w=2, stride_h=2), (7, 11)),
]


UNEVEN = [
    Problem(R=3, S=3, P=7, Q=5, C=6, K=9, stride_w=2),
    Problem(R=2, S=4, P=6, Q=7, C=5, K=4, stride_h=3, dilation_w=2),
    Problem(R=4, S=3, P=5, Q=8, C=4, K=6, dilation_h=2),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda one: str(one.problem))
def test_macro_form_needs_both_halves_of_what_the_macro_places(layer: Layer) -> None:
    rng = np.random.default_rng(5)
    model = make_cost_model("instruction", [layer], SPACE)
    bounds = {axis: getattr(layer.problem, axis.upper()) for axis in AXES}
    rows = np.ones((200, WIDTH), np.int64)
    rows[:, FLOW], rows[:, ORDER] = macro_flow(np.array([SIDE]))[0], ORDERS.index("CRSKPQN")
    rows[:, [ROWS, COLUMNS]], rows[:, T2] = SIDE, 1
    tiles = []
    for row in rows:
        tile = {axis: int(rng.integers(1, bound + 1)) for axis, bound in bounds.items()}
        factors = {**tile, "c": -(-tile["c"] // SIDE), "k": -(-tile["k"] // SIDE)}
        row[T1] = [factors[axis] for axis in AXES]
        row[T3] = [-(-bounds[axis] // max(1, tile[axis])) for axis in AXES]
        tiles.append(
            {**tile, **{axis: min(bounds[axis], SIDE * factors[axis]) for axis in "ck"}},
        )
    nothing = np.zeros(len(rows))
    accumulator, scratchpad = model.needs(np.zeros(len(rows), np.int64), rows, nothing, nothing)
    expected = np.array([placed(layer, tile) for tile in tiles])
    np.testing.assert_array_equal(accumulator, 2 * expected[:, 0])
    np.testing.assert_array_equal(scratchpad, 2 * expected[:, 1])
    more = expected.max(0) * 2.0 + 1
    same = model.needs(np.zeros(len(rows), np.int64), rows, nothing + more[0], nothing + more[1])
    assert (same[0] == more[0]).all()
    assert (same[1] == more[1]).all()
    rows[:, FLOW] = 0
    assert not np.concatenate(model.needs(np.zeros(len(rows), np.int64), rows, nothing, nothing)).any()


@pytest.mark.parametrize("problem", UNEVEN, ids=str)
def test_strides_that_differ_have_macro_form_where_the_compiler_says_so(problem: Problem) -> None:
    """LOOP_CONV_WS has one stride and one dilation: tiles of one row or column do without the other."""
    rng = np.random.default_rng(6)
    layer = Layer(problem)
    model = make_cost_model("instruction", [layer], SPACE)
    assert isinstance(model, InstructionModel)
    machine = Accelerator(name="roomy", dim=SIDE, dataflow="WS", scratchpad_kib=256, accumulator_kib=64)
    rows, expected, needed = [], [], []
    for _ in range(200):
        tile = {
            axis: 1 if rng.random() < 0.4 else int(rng.integers(1, getattr(problem, axis.upper()) + 1))
            for axis in AXES
        }
        tile |= {axis: min(getattr(problem, axis.upper()), SIDE * -(-tile[axis] // SIDE)) for axis in "ck"}
        row = np.ones(WIDTH, np.int64)
        row[FLOW], row[ORDER] = macro_flow(np.array([SIDE]))[0], ORDERS.index("CRSKPQN")
        row[[ROWS, COLUMNS]] = SIDE
        row[T1] = [-(-tile[axis] // SIDE) if axis in "ck" else tile[axis] for axis in AXES]
        row[T3] = [-(-getattr(problem, axis.upper()) // tile[axis]) for axis in AXES]
        rows.append(row)
        schedule = LoopConvSchedule(*(tile[axis] for axis in "nqpksrc"), order="nqpksrc")
        try:
            needed.append(plan_loop_conv(layer, schedule, machine).rows)
            expected.append(True)
        except InfeasibleError as error:
            assert "has one" in error.message  # noqa: PT017
            expected.append(False)
    genomes, task = np.array(rows), np.zeros(len(rows), np.int64)
    found = model.macro_shape(task, genomes, np.full(len(rows), SIDE))
    np.testing.assert_array_equal(found, expected)
    assert 20 < sum(expected) < 180
    weights, inputs, results = np.array(needed).T
    nothing = np.zeros(len(needed))
    accumulator, scratchpad = model.needs(task[found], genomes[found], nothing, nothing)
    np.testing.assert_array_equal(accumulator, 2 * results)
    np.testing.assert_array_equal(scratchpad, 2 * (weights + inputs))


def test_what_has_macro_form_runs_as_a_macro_where_its_halves_just_fit() -> None:
    """Tiles of whole blocks take as much as two halves, no less: they cost what the macro costs. With a block that is not full the
    halves take more than the mapping says it needs, so that nothing is said of it."""
    for pixels, predicted in ((8, True), (6, False)):
        task = Task("net", Problem(P=pixels, C=8, K=8), 1.0)
        model = make_cost_model("instruction", [Layer(task.problem)], SPACE)
        row = np.ones((1, WIDTH), np.int64)
        row[0, FLOW], row[0, ORDER], row[0, ONCE] = PLAIN, ORDERS.index("CRSKPQN"), 0
        row[0, [ROWS, COLUMNS]] = SIDE
        row[0, T1] = [pixels // 2 if axis == "p" else 1 for axis in AXES]
        row[0, T3] = [2 if axis in "pck" else 1 for axis in AXES]
        costs = []
        for rows in (row, model.styled(np.zeros(1, np.int64), row)):
            archive = Archive((task,), SPACE, model)
            archive.add(np.zeros(1, np.int64), rows)
            pj, cycles = archive.costs(0, SPACE.points_of([(SIDE, 64, 256)]))
            costs.append((float(pj[0, 0]), float(cycles[0, 0])))
        assert np.isfinite(costs[1]).all()
        assert costs[0] == costs[1] if predicted else not np.isfinite(costs[0]).any()
