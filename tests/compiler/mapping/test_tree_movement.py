"""Movement and work of tile trees are those of a walk that carries them out with sets of elements."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from baco.accel.dataflows import Dataflow
from baco.common.errors import InputError
from baco.compiler.mapping.batch import MappingBatch, ProblemBatch
from baco.compiler.mapping.contraction import Contraction, convolution, matmul
from baco.compiler.mapping.movement import Transfer, Work, fresh, movement, work
from baco.compiler.mapping.nest import REGISTER_DIMS, Mapping
from baco.compiler.mapping.slices import place
from baco.compiler.mapping.tree import Loop, Residency, Tile, tree_of
from baco.exploration.cost.reference import tensor_accesses
from baco.workloads.problem import DIMS, Problem
from tests.compiler.mapping.random_trees import draw_fused
from tests.compiler.mapping.slice_walk import Walk
from tests.seeds import seeds


def _counts(found: list[Transfer]) -> dict[tuple[str, int, int, tuple[str, ...]], tuple[int, int, int]]:
    return {(t.tensor, t.outer, t.inner, t.operators): (t.down, t.up, t.own) for t in found}


def compare(tree: Tile, operators: list[Contraction]) -> None:
    walk = Walk(tree, operators).everything()
    assert _counts(movement(tree, operators)) == {
        key: (c["down"], c["up"], c["own"]) for key, c in walk.counts.items()
    }
    for name, one in work(tree, operators).items():
        assert one.executed == walk.executed[name]
        if walk.distinct[name]:
            assert one.distinct == walk.distinct[name]


@pytest.mark.parametrize("part", seeds(2, of=10))
def test_fused_trees_move_what_a_walk_moves(part: int) -> None:
    r = random.Random(part)
    done = 0
    while done < 52:
        tree, operators = draw_fused(r)
        if sum(one.executed for one in work(tree, operators).values()) > 500:
            continue
        compare(tree, operators)
        done += 1


def draw_mapping(
    r: random.Random, most: int, flows: Sequence[Dataflow] = ("WS", "OS")
) -> tuple[Mapping, Problem]:
    """A mapping of at most so many iterations, and the problem that it covers exactly or with padding."""
    flow = r.choice(flows)
    rows, columns = r.choice((1, 2, 3)), r.choice((1, 2, 3))
    temporal = [[1] * 7 for _ in range(4)]
    budget = most // (rows * columns)
    for _ in range(r.randint(1, 9)):
        level, dim, factor = r.randrange(4), r.randrange(7), r.choice((2, 2, 3))
        if (level == 0 and DIMS[dim] not in REGISTER_DIMS[flow]) or budget < factor:
            continue
        temporal[level][dim] *= factor
        budget //= factor
    order = tuple("".join(r.sample(DIMS, 7)) for _ in range(4))
    copies = tuple(r.choice((1, 2)) for _ in range(3))
    mapping = Mapping(flow, rows, columns, tuple(map(tuple, temporal)), order, copies)  # type: ignore[arg-type]
    bounds = [max(1, bound - r.choice((0, 0, 0, 1))) for bound in mapping.padded_bounds]
    shape = [r.choice((1, 1, 2, 3)) for _ in range(4)]
    return mapping, Problem(*bounds, *shape, groups=r.choice((1, 1, 1, 2)))


@pytest.mark.parametrize("part", seeds(2, of=12))
def test_mappings_move_what_a_walk_moves(part: int) -> None:
    r = random.Random(part)
    for _ in range(100):
        mapping, problem = draw_mapping(r, 64)
        compare(tree_of(mapping, problem.groups), [convolution(problem)])


def _brought_as_in_the_reference(mapping: Mapping, problem: Problem, transfer: Transfer) -> float:
    """Words of the input that the reference brings: as much as differences of blocks, as long as the innermost loop of
    main memory that moves the input runs; afresh when a loop further out goes on."""
    root = place(tree_of(mapping, problem.groups), [convolution(problem)])
    tile = next(one for one in root.all if one.tile.level == 2)
    loops, kept = [], True
    for trip in reversed(root.trips):
        if trip.factor > 1:
            loops.append((trip.factor, tile.step(trip, "I"), kept))
            kept &= not tile.moved_by(trip, "I")
    return float(fresh(tile.block("I"), loops))


def test_counts_of_the_reference_follow_from_transfers() -> None:
    r = random.Random(7)
    drawn = [draw_mapping(r, 1 << 16) for _ in range(400)]
    expected = tensor_accesses(
        ProblemBatch.of([p for _, p in drawn]), MappingBatch.of([m for m, _ in drawn])
    ).permute(2, 0, 1)
    less = 0
    for (mapping, problem), counts in zip(drawn, expected.tolist(), strict=True):
        found = {
            (t.tensor, t.outer, t.inner): t
            for t in movement(tree_of(mapping, problem.groups), [convolution(problem)])
        }
        inputs = found["I", 3, 2]
        reference = _brought_as_in_the_reference(mapping, problem, inputs)
        assert inputs.down <= reference
        less += inputs.down < reference
        weights, results = found["W", 3, 2].down, found["O", 3, 1]
        if mapping.dataflow == "WS":
            registers = [found["W", 0, -1].own + found["W", 2, 0].own, 0, 0]
            sums, read = found["O", 1, -1].words, found["W", 2, 0].down
        else:
            registers = [0, 0, found["O", 0, -1].own + found["O", 1, 0].own]
            sums, read = found["O", 1, 0].words, found["W", 2, -1].down
        assert counts == [
            registers,
            [0, 0, sums + results.up],
            [read + weights, found["I", 2, -1].down + reference, 0],
            [weights, reference, results.words],
        ]
    assert 0 < less < 200, "the two ways of counting the input differ for some mappings, agree for most"


def test_worked_example_of_a_fused_convolution() -> None:
    """One dimension, windows of 3, tiles of 4 of 8 results: the input of the first of two convolutions overlaps by 4."""
    first = convolution(Problem(R=3, P=10), names=("W0", "X", "Y"), operator="first")
    second = convolution(Problem(R=3, P=8), names=("W1", "Y", "Z"), operator="second")
    keeps = tuple(map(Residency, ("X", "W0", "W1", "Z")))
    chain = [
        Tile(0, (), (Loop("P", n), Loop("R", 3)), operator=name) for n, name in ((6, "first"), (4, "second"))
    ]
    fused = Tile(1, (*keeps, Residency("Y")), (Loop("P", 2),), tuple(chain), "Shar")
    # the tile of level 1 is the whole: its loops run inside; around it nothing moves
    tree = Tile(2, keeps, (), (fused,))
    assert {t.tensor: t.words for t in movement(tree, [first, second]) if t.inner == 1} == {
        "X": 12, "W0": 3, "W1": 3, "Z": 8,
    }  # fmt: skip
    inner = Tile(1, (*keeps, Residency("Y")), (), tuple(chain), "Shar")
    tree = Tile(2, keeps, (Loop("P", 2),), (inner,))
    assert {t.tensor: t.words for t in movement(tree, [first, second]) if t.inner == 1} == {
        "X": 8 + 4, "W0": 3, "W1": 3, "Z": 8,
    }  # fmt: skip
    assert work(tree, [first, second])["first"] == Work(executed=2 * 6 * 3, distinct=10 * 3)


def test_templates_take_arrays_and_gradients() -> None:
    mapping, problem = draw_mapping(random.Random(3), 4000)
    tree, operators = tree_of(mapping), [convolution(problem)]
    factors = [loop.factor for tile in tree.tiles for loop in tile.loops]
    several = [np.array([factor, 2, 3]) for factor in factors]
    exact = movement(tree, operators)
    for one, batch in zip(exact, movement(tree, operators, several), strict=True):
        assert one.words == np.broadcast_to(batch.words, 3)[0]
    real = torch.tensor(factors, dtype=torch.float64, requires_grad=True)
    total = sum(t.words for t in movement(tree, operators, list(real)))
    assert total.item() == sum(t.words for t in exact)
    total.backward()
    step = 1e-6
    for place_, gradient in enumerate(real.grad.tolist()):
        near = [
            sum(
                float(t.words)
                for t in movement(tree, operators, [f + by * (n == place_) for n, f in enumerate(factors)])
            )
            for by in (step, -step)
        ]
        ahead, behind = ((near[0] - total.item()) / step, (total.item() - near[1]) / step)
        low, high = sorted((ahead, behind))
        assert low - 1e-2 * (1 + abs(low)) <= gradient <= high + 1e-2 * (1 + abs(high))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loops": (Loop("x", 2),)}, "moves none of the operators"),
        ({"keeps": (Residency("B"), Residency("D"))}, "no tile keeps A"),
        ({"children": (Tile(0, operator="b"),)}, "not the operators"),
        ({"children": (Tile(0, loops=(Loop("m", 2), Loop("n", 2))),)}, "less than its extent 2"),
    ],
)
def test_trees_that_do_not_belong_to_the_operators_are_refused(change: dict[str, Any], message: str) -> None:
    tree = Tile(1, tuple(map(Residency, "ABD")), (), (Tile(0, (), tuple(Loop(d, 2) for d in "mnk")),))
    assert {t.words for t in movement(tree, [matmul(2, 2, 2)])} == {8, 12}
    with pytest.raises(InputError, match=message):
        movement(replace(tree, **change), [matmul(2, 2, 2)])
