"""Contractions of networks' operators touch the elements that the operators need."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from baco.common.errors import InputError
from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.expression import variable


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
