"""Contractions of networks' operators touch the elements that the operators need."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from baco.common.errors import InputError
from baco.compiler.mapping.contraction import Access, Contraction, operator_contraction
from baco.compiler.mapping.expression import variable
from baco.workloads.builder import GraphBuilder


def _touched(access: Access, extents: dict[str, int]) -> Iterator[tuple[int, ...]]:
    for numbers in itertools.product(*map(range, extents.values())):
        at = dict(zip(extents, numbers, strict=True))
        yield tuple(index.evaluate(at) for index in access.indices)


def test_slices_are_boxes_around_what_is_touched() -> None:
    random = np.random.default_rng(0)
    for _ in range(100):
        a, b, c, d = (int(n) for n in random.integers(1, 4, 4))
        access = Access("T", (variable("x") * a + variable("y") * b - 1, variable("y") * c, variable("z")))
        extents = {"x": a + 1, "y": c, "z": d}
        touched = np.array(list(_touched(access, extents)))
        assert access.slice(extents) == list(touched.max(0) - touched.min(0) + 1)


@pytest.mark.parametrize("bad", ["int7", "INT8", ""])
def test_unknown_data_types_are_refused(bad: str) -> None:
    with pytest.raises(InputError, match="unknown data type"):
        Access("T", (), bad)


def test_indices_are_affine() -> None:
    i = variable("i")
    with pytest.raises(InputError, match="no sum of multiples"):
        Contraction({"i": 4}, Access("D", (i,)), (Access("A", (i // 2,)),), "pointwise")


def test_operators_of_a_network() -> None:
    g = GraphBuilder("small")
    x = g.input("x", (1, 3, 9, 9))
    y = g.conv2d(x, 8, 3, stride=2, padding=1, name="conv")
    z = g.relu(y, name="relu")
    p = g.maxpool(z, 2, 2, name="pool")
    ops = {op.name: op for op in g.build(outputs=[p]).operators}
    conv = operator_contraction(ops["conv"], "int16")
    rows = [element[1] for element in _touched(conv.inputs[0], dict(conv.extents))]
    assert (min(rows), max(rows)) == (-1, 9), "a row of padding on either side"
    assert [access.operand for access in conv.accesses] == ["conv", "x", "conv.weight"]
    assert [access.bits for access in conv.accesses] == [32, 16, 16]
    assert conv.macs == 5 * 5 * 3 * 3 * 3 * 8
    relu = operator_contraction(ops["relu"])
    assert list(_touched(relu.inputs[0], dict(relu.extents))) == list(
        _touched(relu.output, dict(relu.extents))
    )
    pool = operator_contraction(ops["pool"])
    assert pool.body == "maximum"
    assert pool.inputs[0].slice(pool.extents) == [1, 4, 4, 8]
    assert set(pool.reduction) == {"r", "s"}
