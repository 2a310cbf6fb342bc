"""Movement and work of tile trees are those of a walk that carries them out with sets of elements."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from compiler.mapping.contraction import Contraction, convolution
from compiler.mapping.movement import Transfer, fresh, movement, work
from compiler.mapping.tree import Tile, tree_of
from tests.compiler.mapping.random_trees import draw_fused
from tests.compiler.mapping.slice_walk import Walk


def _counts(found: list[Transfer]) -> dict[tuple[str, int, int, tuple[str, ...]], tuple[int, int, int]]:
    return {(t.tensor, t.outer, t.inner, t.operators): (t.down, t.up, t.own) for t in found}


def _compare(tree: Tile, operators: list[Contraction]) -> None:
    walk = Walk(tree, operators)
    assert _counts(movement(tree, operators)) == {
        key: (c["down"], c["up"], c["own"]) for key, c in walk.counts.items()
    }
    for name, one in work(tree, operators).items():
        assert one.executed == walk.executed[name]
        if walk.distinct[name]:
            assert one.distinct == walk.distinct[name]


@pytest.mark.parametrize("part", range(10))
def test_fused_trees_move_what_a_walk_moves(part: int) -> None:
    r = random.Random(part)
    done = 0
    while done < 52:
        tree, operators = draw_fused(r)
        if sum(one.executed for one in work(tree, operators).values()) > 1500:
            continue
        _compare(tree, operators)
        done += 1
