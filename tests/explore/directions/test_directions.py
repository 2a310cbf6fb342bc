"""Schedule spaces by analysis: published counts, neighbours, and searches along directions."""

from __future__ import annotations

import random

import pytest

from accel.config import Accelerator
from bench.directions import YOLO, yolo_layer
from compiler.mapping.contraction import convolution, matmul
from explore.directions.network import QNetwork, Transition
from explore.directions.search import METHODS, Method, search_directions
from explore.directions.space import (
    SchedulePoint,
    ScheduleSpace,
    loop_facts,
    split_count,
)
from explore.programs.annotation import divisions
from explore.search.exact_factors import prime_powers
from workloads.problem import Problem

MACHINE = Accelerator(dim=16, scratchpad_kib=256, accumulator_kib=64)
SPACE = ScheduleSpace(yolo_layer(7), MACHINE)


def test_published_counts() -> None:
    """1024 in four parts; a product of 1024 cubed; six directions, each both ways, between four parts."""
    assert split_count(1024, 4) == len(set(divisions(1024, 4))) == 286
    assert loop_facts(matmul(1024, 1024, 1024)).size(4) == 23_393_656
    space = ScheduleSpace(yolo_layer(7), MACHINE)
    four = [one for one in space.directions if list(space.loops)[one.loop] == "K" and one.loop >= 0]
    assert len({frozenset((one.up, one.down)) for one in four}) == 6
    assert len(four) == 12


def test_layers_of_yolo() -> None:
    """15 layers of 77.1 million to 3,699.4 million multiplications, what the published table calls FLOPs."""
    macs = [yolo_layer(number).problem.macs / 1e6 for number in range(len(YOLO))]
    assert len(macs) == 15
    assert (round(min(macs), 1), round(max(macs), 1)) == (77.1, 3699.4)


def test_loops_of_a_convolution() -> None:
    """Four loops that results are indexed by and three that are summed over."""
    facts = loop_facts(convolution(Problem(R=3, S=3, P=8, Q=8, C=4, K=6, N=2)))
    assert facts.spatial == {"N": 2, "P": 8, "Q": 8, "K": 6}
    assert facts.reduction == {"R": 3, "S": 3, "C": 4}
    assert set(facts.inputs) == {"I", "W"}


@pytest.mark.parametrize(("extent", "parts"), [(1, 3), (7, 2), (12, 3), (96, 4), (97, 4), (360, 3)])
def test_splits(extent: int, parts: int) -> None:
    found = list(divisions(extent, parts))
    assert len(found) == len(set(found)) == split_count(extent, parts)
    product = 1
    for prime, count in prime_powers(extent):
        product *= prime**count
    assert product == extent


def test_neighbours_keep_the_loops() -> None:
    """Along a direction one factor grows and one shrinks; the way back leads back."""
    drawn = random.Random(1)
    for _ in range(30):
        point = SPACE.draw(drawn)
        for direction in SPACE.directions:
            near = SPACE.neighbour(point, direction)
            if near is None:
                continue
            SPACE.mapping(near).check(SPACE.layer.problem)
            assert SPACE.mapping(near).padded_bounds == SPACE.mapping(point).padded_bounds
            assert near != point
            changed = sum(a != b for a, b in zip(_flat(near), _flat(point), strict=True))
            assert changed == (2 if direction.loop >= 0 else 1)
    assert len(SPACE.encoded(point)) == len(SPACE.encoded(near or point))


def _flat(point: SchedulePoint) -> list[int]:
    return [*(one for loop in point.factors for one in loop), point.order, *point.copies]


def _cost(space: ScheduleSpace, points: list[SchedulePoint]) -> list[float]:
    """Something with one best point: how far the factors of K and C along the array are from 16."""
    mappings = [space.mapping(one) for one in points]
    return [1.0 + abs(one.rows - 16) + abs(one.columns - 16) + sum(one.buffering) for one in mappings]


@pytest.mark.parametrize("method", METHODS)
def test_searches_find_the_best_point(method: Method) -> None:
    asked: list[SchedulePoint] = []

    def cost(space: ScheduleSpace, points: list[SchedulePoint]) -> list[float]:
        asked.extend(points)
        return _cost(space, points)

    found = search_directions(SPACE, cost, method=method, calls=700, seed=3, enough=4.0)  # type: ignore[arg-type]
    assert found.cycles == 4.0 == _cost(SPACE, [found.best])[0]
    assert found.calls == len(asked) == len(set(asked)) <= 700
    assert all(map(SPACE.feasible, asked))
    assert found.calls_to(4.0) == found.history[-1][0]
    again = search_directions(SPACE, _cost, method=method, calls=700, seed=3, enough=4.0)  # type: ignore[arg-type]
    assert again.history == found.history


def test_the_network_learns_which_direction_pays() -> None:
    """Direction 2 gains a half wherever one stands, the others lose: it comes to have the greatest value."""
    network = QNetwork(4, 5, seed=1)
    drawn = random.Random(2)
    points = [[drawn.random() for _ in range(4)] for _ in range(40)]
    steps = [
        Transition(point, way, points[(n + 1) % 40], [True] * 5, 0.5 if way == 2 else -0.3)
        for n, point in enumerate(points)
        for way in range(5)
    ]
    for _ in range(10):
        network.train(steps)
    assert all(max(range(5), key=one.__getitem__) == 2 for one in network.values(points))
