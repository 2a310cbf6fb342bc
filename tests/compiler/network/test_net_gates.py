"""A function and the product that alone reads it: one pass of the host, as exact as two."""

from __future__ import annotations

import numpy as np
import pytest

from baco.compiler.ops.arithmetic import FixedPoint
from baco.compiler.ops.elementwise import Map, Multiplication
from baco.compiler.ops.views import View
from tests.compiler.network.net_sketch import Sketch, check


def gated(s: Sketch, *, swapped: bool, rescale: FixedPoint, read_again: bool = False) -> list[str]:
    """A sketch's gate of all pairs of elements; the functions that its program calls."""
    left, right = np.meshgrid(np.arange(-128, 128, dtype=np.int8), np.arange(-128, 128, dtype=np.int8))
    table = s.value((256,), "constant")
    middle = s.value(left.shape, "output" if read_again else "intermediate")
    s.add(Map, middle, input=s.value(left.shape, "input", left), table=table)
    operands: tuple[View, View] = middle, s.value(right.shape, "input", right)
    if swapped:
        operands = operands[::-1]
    s.add(Multiplication, s.value(left.shape, "output"), left=operands[0], right=operands[1], rescale=rescale)
    return [
        step.function
        for step in check(s).lowered.steps
        if step.function.startswith("net_") and step.function != "net_check"
    ]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("multiplier", "shift"), [(2047, 20), (-1999, 17), (2**31 - 1, 46)])
def test_every_pair_of_elements_is_exact(swapped: bool, multiplier: int, shift: int) -> None:
    assert gated(
        Sketch(np.random.default_rng(1)), swapped=swapped, rescale=FixedPoint(multiplier, shift)
    ) == ["net_gate"]


def test_a_function_whose_result_is_wanted_is_computed_by_itself() -> None:
    assert gated(
        Sketch(np.random.default_rng(1)), swapped=False, rescale=FixedPoint(99, 12), read_again=True
    ) == [
        "net_map",
        "net_multiply",
    ]


def test_rows_of_a_length_that_is_no_multiple_of_eight() -> None:
    s = Sketch(np.random.default_rng(2))
    shape = (3, 13)
    middle = s.value(shape, "intermediate")
    s.add(Map, middle, input=s.value(shape), table=s.value((256,), "constant"))
    s.add(
        Multiplication,
        s.strided(shape, "output"),
        left=middle,
        right=s.strided(shape),
        rescale=FixedPoint(700, 13),
    )
    assert "net_gate" in [step.function for step in check(s).lowered.steps]


def test_a_function_that_is_repeated_along_rows_is_computed_once() -> None:
    """As where channels are weighed: a number a row, and all elements of it."""
    s = Sketch(np.random.default_rng(3))
    middle = s.value((6, 1), "intermediate")
    s.add(Map, middle, input=s.value((6, 1)), table=s.value((256,), "constant"))
    s.add(
        Multiplication,
        s.value((6, 40), "output"),
        left=s.value((6, 40)),
        right=middle.expanded((6, 40)),
        rescale=FixedPoint(700, 13),
    )
    called = [step.function for step in check(s).lowered.steps]
    assert "net_map" in called
    assert "net_gate" not in called
