"""Convolutions of groups as those of fewer groups, with weights on the diagonals of matrices."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from baco.accel.presets import load_accelerator
from baco.compiler.layers.layer import Layer
from baco.compiler.network.combinations import Combinations
from baco.compiler.network.diagonal import DiagonalChoice, block_diagonal, diagonal_layer, strip_rows
from baco.compiler.network.layers import convolution_layer
from baco.compiler.network.program import compile_network, scheduler
from baco.compiler.ops.products import Convolution
from baco.workloads.problem import Problem
from tests.compiler.network.net_sketch import DIM4, Sketch, check
from tests.seeds import seeds


def convolution(s: Sketch, groups: int, depth: int, outs: int, **fixed: Any) -> Convolution:
    n, side, kernel, stride = 1, int(s.random.integers(5, 9)), 3, int(s.random.integers(1, 3))
    size = (side - 1) // stride + 1
    s.add(
        Convolution, s.value((n, size, size, groups * outs), "output"), input=s.value((n, side, side, groups * depth)),
        weight=s.value((kernel, kernel, depth, groups * outs), "constant"),
        bias=s.value((groups * outs,), "constant", s.random.integers(-999, 999, groups * outs, dtype=np.int32)),
        stride=(stride, stride), padding=(1, 1), dilation=(1, 1), size=(size, size), groups=groups, relu=True,
        scale=float(np.float32(s.random.uniform(1e-3, 1e-2))), **fixed,
    )  # fmt: skip
    (made,) = s.operators
    assert isinstance(made, Convolution)
    return made


@pytest.mark.parametrize(
    ("groups", "depth", "outs", "together"), [(8, 1, 1, 4), (6, 2, 1, 2), (6, 1, 2, 2), (4, 2, 2, 2)]
)
@pytest.mark.parametrize("seed", range(2))
def test_a_network_computes_the_same_with_groups_on_diagonals(
    seed: int, groups: int, depth: int, outs: int, together: int
) -> None:
    s = Sketch(np.random.default_rng(seed))
    op = convolution(s, groups, depth, outs)
    asked: list[Layer] = []

    def diagonals(layer: Layer) -> tuple[int, int]:
        asked.append(layer)
        return together, layer.problem.Q

    program = check(s, combinations=Combinations(diagonals=diagonals), schedule=scheduler(DIM4))
    (code,) = program.lowered.layers.values()
    assert code.layer == diagonal_layer(asked[0], together)
    assert code.layer.problem.groups == groups // together
    assert (together * depth, together * outs) == (code.layer.problem.C, code.layer.problem.K)
    weights = program.lowered.constants[f"{op.weight.value}.diagonal{together}"]
    # a product with every group's own channels, and with nothing else
    given = s.data[op.weight.value]
    assert np.count_nonzero(weights) == np.count_nonzero(given)
    for k in range(groups * outs):
        inside = k // outs % together
        assert (weights[:, :, inside * depth : (inside + 1) * depth, k] == given[..., k]).all()


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("seed", seeds(2, of=4))
def test_a_network_computes_the_same_in_strips_of_rows(seed: int, rows: int) -> None:
    s = Sketch(np.random.default_rng(seed))
    op = convolution(s, 8, 1, 1)
    program = check(s, combinations=Combinations(diagonals=lambda layer: (4, rows)), schedule=scheduler(DIM4))
    steps = [step for step in program.lowered.steps if step.function in program.lowered.layers]
    assert len(steps) == -(-op.size[0] // rows)
    # no two write the same, and none waits for another
    assert not any(program.waits[1 : len(steps) - 1])


def test_images_that_the_cache_has_no_room_for_run_in_strips() -> None:
    machine = load_accelerator("gemmini-default").model_copy(update={"timing": "gemmini"})
    problem = Problem(R=3, S=3, P=56, Q=56, C=1, K=1, stride_w=2, stride_h=2, groups=96)
    layer = Layer(problem, padding=(1, 1), image=(112, 112), bias=True)
    together, rows = DiagonalChoice(machine, scheduler(machine))(layer)
    assert (together, rows) == (16, strip_rows(diagonal_layer(layer, 16), machine))
    # half of the cache
    assert (112 * 112 + 56 * 56) * 96 * rows / 56 <= 256 * 1024
    small = replace(layer, problem=replace(problem, Q=20, P=20), image=(40, 40))
    assert strip_rows(diagonal_layer(small, 16), machine) == 20
    ours = load_accelerator("gemmini-default")
    assert DiagonalChoice(ours, scheduler(ours))(layer) == (16, 56)


def test_one_group_on_a_diagonal_is_as_it_was() -> None:
    weights = np.arange(-18, 18, dtype=np.int8).reshape(3, 3, 1, 4)
    assert (block_diagonal(weights, 4, 1) == weights).all()


def test_weights_that_are_no_constants_stay_as_they_are() -> None:
    s = Sketch(np.random.default_rng(0))
    op = convolution(s, 8, 1, 1)
    s.operators[0] = replace(op, weight=s.value(op.weight.shape))
    program = check(
        s, combinations=Combinations(diagonals=lambda layer: (4, layer.problem.Q)), schedule=scheduler(DIM4)
    )
    (code,) = program.lowered.layers.values()
    assert code.layer.problem.groups == 8


@pytest.mark.parametrize("timing", ["baco", "gemmini"])
def test_the_choice_fills_the_array_with_a_depthwise_layer(timing: str) -> None:
    machine = load_accelerator("gemmini-default").model_copy(update={"timing": timing})
    choice = DiagonalChoice(machine, scheduler(machine))
    problem = Problem(R=3, S=3, P=14, Q=14, C=1, K=1, groups=96)
    assert choice(Layer(problem, padding=(1, 1), image=(14, 14), bias=True)) == (16, 14)
    # seventeen groups have no divisor that the array has room for; wide groups fill it by themselves
    for other in (
        Problem(R=3, S=3, P=14, Q=14, C=1, K=1, groups=17),
        Problem(P=14, Q=14, C=16, K=16, groups=4),
    ):
        assert choice(Layer(other, padding=(0, 0))) == (1, 14)


def test_the_compiler_puts_groups_on_diagonals_by_itself() -> None:
    s = Sketch(np.random.default_rng(1))
    op = convolution(s, 32, 1, 1)
    machine = load_accelerator("gemmini-default")
    layers = compile_network(s.network(), machine, data=s.inputs(), check=False).lowered.layers
    assert [one.layer.problem.groups for one in layers.values()] == [2]
    own = convolution_layer(op)
    given = compile_network(s.network(), machine, schedule=scheduler(machine), check=False).lowered.layers
    assert [one.layer.problem for one in given.values()] == [own.problem]
