"""Operators of elements on real numbers become one pass: the program's results are numpy's of the operators one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from baco.compiler.network.fuse_elements import fused_elements
from baco.compiler.network.prediction import predict_steps
from baco.compiler.ops.elements import (
    MOST_INPUTS,
    Decoded,
    Encoded,
    FusedElements,
    RealFunction,
    RealPair,
    RealSelection,
    ScaledSums,
)
from baco.compiler.ops.operator import IntegerTensor
from baco.compiler.ops.views import View
from tests.compiler.network.net_sketch import DIM4, Sketch, check
from tests.seeds import seeds

_FUNCTIONS = ("abs", "neg", "floor", "round", "tanh", "sigmoid", "clip", "leaky_relu")
_PAIRS = ("add", "sub", "mul", "maximum", "less", "greater_equal", "and", "prelu")


def real(s: Sketch, shape: tuple[int, ...], role: str = "intermediate") -> View:
    """A value of float32 numbers that an operator writes."""
    view = s.value(shape, role)
    s.values[view.value] = replace(s.values[view.value], dtype="float32")
    return view


def given(s: Sketch, shape: tuple[int, ...]) -> View:
    """Numbers at hand: an input, a number for each row, one number, or decoded bytes of a view of any kind."""
    kind = s.random.integers(4)
    if kind == 0:
        return s.value(shape, "input", s.random.normal(0, 3, shape).astype(np.float32))
    if kind == 1:
        rows = s.random.normal(0, 3, (shape[0], 1)).astype(np.float32)
        return s.value(rows.shape, "constant", rows).expanded(shape)
    if kind == 2:
        return s.value((), "constant", np.asarray(s.random.normal(), np.float32)).expanded(shape)
    table = s.value((256,), "constant", s.random.normal(0, 3, 256).astype(np.float32))
    target = real(s, shape)
    s.add(Decoded, target, input=s.either(shape, "input"), table=table)
    return target


def one_more(s: Sketch, numbers: list[View], target: View) -> None:
    """An operator of some of these numbers, whose results are numbers: the sign of what is none differs between processors."""
    first, second, third = (numbers[int(s.random.integers(len(numbers)))] for _ in range(3))
    kind = s.random.integers(4)
    if kind == 0:
        name = str(s.random.choice(_FUNCTIONS))
        s.add(RealFunction, target, input=first, function=name, parameters=(-0.5, 2.0))
    elif kind == 1:
        s.add(RealSelection, target, condition=first, left=second, right=third)
    else:
        s.add(RealPair, target, left=first, right=second, function=str(s.random.choice(_PAIRS)))


@pytest.mark.parametrize("seed", seeds(3, of=6))
def test_what_is_fused_computes_what_its_operators_do_one_by_one(seed: int) -> None:
    s = Sketch(np.random.default_rng(seed))
    shape = (int(s.random.integers(1, 6)), int(s.random.integers(1, 12)))
    numbers = [given(s, shape) for _ in range(4)]
    for _ in range(14):
        target = real(s, shape, "output" if s.random.random() < 0.15 else "intermediate")
        one_more(s, numbers, target)
        numbers.append(target)
    one_more(s, numbers[-3:], last := real(s, shape))
    scale = float(s.random.choice([0.03, 0.25, 1.0]))
    s.add(Encoded, s.either(shape, "output"), input=last, scale=scale, zero=3, low=-100, high=120)
    program = check(s)  # every value that is left, and the outputs, with numpy's of the operators in `s`
    fused = [op for op in program.network.operators if isinstance(op, FusedElements)]
    assert len(program.network.operators) < len(s.operators)
    assert sum(len(op.steps) for op in fused) == len(s.operators)
    assert all(len(op.operands) <= MOST_INPUTS for op in fused)
    assert all(cost.cycles > 0 for cost in predict_steps(program.lowered, DIM4))


def test_sums_of_products_are_scaled_by_numbers_among_the_parameters() -> None:
    s = Sketch(np.random.default_rng(1))
    shape = (3, 40)
    sums = s.value(shape, "input", s.random.integers(-(2**31), 2**31, shape).astype(np.int32))
    none = s.value((1,), "constant", np.full(1, 7, np.int32)).expanded(shape)
    factors = s.value((1,), "constant", np.full(1, 0.125, np.float32)).expanded(shape)
    target = real(s, shape, "output")
    s.add(ScaledSums, target, input=sums, rows=none, columns=none, factors=factors)
    program = check(s)
    (op,) = program.network.operators
    assert isinstance(op, FusedElements)
    assert op.operands == (sums,)
    assert dict(op.literals) == {none: 7, factors: 0.125}


def _chain(s: Sketch, *, role: str = "intermediate", part: bool = False) -> int:
    """Operators that are left of a root of an absolute value, of which something else reads the latter, or a part of it."""
    x = s.value((4, 6), "input", s.random.normal(0, 3, (4, 6)).astype(np.float32))
    between, result = real(s, (4, 6), role), real(s, (4, 6), "output")
    s.add(RealFunction, between, input=x, function="abs")
    s.add(RealFunction, result, input=between, function="sqrt")
    if part:
        box = between.sliced((1, 1), (2, 3), (1, 1))
        s.add(RealFunction, real(s, (2, 3), "output"), input=box, function="neg")
    return len(check(s).network.operators)


def test_what_something_else_reads_is_stored() -> None:
    assert _chain(Sketch(np.random.default_rng(0))) == 1
    assert _chain(Sketch(np.random.default_rng(0)), role="output") == 2
    assert _chain(Sketch(np.random.default_rng(0)), part=True) == 3


def test_functions_that_differ_in_numbers_alone_are_one_file() -> None:
    s = Sketch(np.random.default_rng(0))
    for scale, shape in ((0.03, (4, 6)), (0.07, (50,))):
        x = s.value(shape, "input", s.random.normal(0, 3, shape).astype(np.float32))
        between = real(s, shape)
        s.add(RealFunction, between, input=x, function="clip", parameters=(-scale, scale))
        s.add(Encoded, s.value(shape, "output"), input=between, scale=scale, zero=1, low=-128, high=127)
    program = check(s)
    assert len({step.function for step in program.lowered.steps if "elements" in step.function}) == 1


def test_values_between_are_gone() -> None:
    s = Sketch(np.random.default_rng(0))
    _chain(s)
    network = fused_elements(check(s).network)
    assert [value.role for value in network.values.values()] == ["input", "output"]
    assert all(isinstance(value, IntegerTensor) for value in network.values.values())
