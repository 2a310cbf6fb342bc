"""Schedule spaces by analysis: published counts, neighbours, and searches along directions."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.bench.directions import YOLO, converged, yolo_layer
from baco.common.portable import Floats
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.contraction import convolution, matmul
from baco.compiler.mapping.factors import prime_powers
from baco.compiler.mapping.nest import Mapping
from baco.exploration.samplers.q_learning import (
    METHODS,
    DirectionSpace,
    Method,
    QNetwork,
    analytical_cycles,
    search_directions,
)
from baco.workloads.problem import Problem

MACHINE = Accelerator(dim=16, scratchpad_kib=256, accumulator_kib=64)
SPACE = DirectionSpace(yolo_layer(7), MACHINE)


def test_published_counts() -> None:
    """1024 in four parts, whose primes are shared out one by one; a product of 1024 cubed; six directions, each both ways,
    between four parts."""
    ways = {
        extent: math.prod(math.comb(n + 3, 3) for _, n in prime_powers(extent))
        for extent in matmul(1024, 1024, 1024).extents.values()
    }
    assert ways == {1024: 286}
    assert ways[1024] ** 3 == 23_393_656
    space = DirectionSpace(yolo_layer(7), MACHINE)
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
    one = convolution(Problem(R=3, S=3, P=8, Q=8, C=4, K=6, N=2))
    spatial = {name: extent for name, extent in one.extents.items() if name not in one.reduction}
    assert spatial == {"N": 2, "P": 8, "Q": 8, "K": 6}
    assert {name: one.extents[name] for name in one.reduction} == {"R": 3, "S": 3, "C": 4}
    assert {access.operand for access in one.inputs} == {"I", "W"}


def test_neighbours_keep_the_loops() -> None:
    """Along a direction one factor grows and one shrinks; the way back leads back."""
    drawn = random.Random(1)
    for _ in range(30):
        point = SPACE.draw(drawn)
        for direction in SPACE.directions:
            near = SPACE.neighbour(point, direction)
            if near is None:
                continue
            near.check(SPACE.layer.problem)
            assert near.padded_bounds == point.padded_bounds
            assert near != point
            changed = sum(a != b for a, b in zip(_flat(near), _flat(point), strict=True))
            assert changed == (2 if direction.loop >= 0 else 1)
    assert len(SPACE.encoded(point)) == len(SPACE.encoded(near or point))


def _flat(point: Mapping) -> list[int | str]:
    return [*(one for loop in SPACE.factors(point) for one in loop), point.order[3], *point.buffering]


def _cost(points: Sequence[Mapping]) -> list[float]:
    """Something with one best point: how far the factors of K and C along the array are from 16."""
    return [1.0 + abs(one.rows - 16) + abs(one.columns - 16) + sum(one.buffering) for one in points]


@pytest.mark.parametrize("method", METHODS)
def test_searches_find_the_best_point(method: Method) -> None:
    asked: list[Mapping] = []

    def cost(points: Sequence[Mapping]) -> list[float]:
        asked.extend(points)
        return _cost(points)

    found = search_directions(SPACE, cost, method=method, calls=700, seed=3, enough=4.0)
    assert found.cycles == 4.0 == _cost([found.best])[0]
    assert found.calls == len(asked) == len(set(asked)) <= 700
    assert all(map(SPACE.feasible, asked))
    assert found.calls_to(4.0) == found.history[-1][0]
    again = search_directions(SPACE, _cost, method=method, calls=700, seed=3, enough=4.0)
    assert again.history == found.history


def test_the_network_learns_which_steps_pay() -> None:
    """Steps gain what they change number 2 by, and lose otherwise, wherever one stands: so do steps that were never taken."""
    network, drawn = QNetwork(8, seed=1), np.random.default_rng(2)

    def steps(count: int) -> Floats:
        return np.concatenate([drawn.random((count, 4)), drawn.integers(-1, 2, (count, 4)) / 2], 1)

    def rewards(steps: Floats) -> Floats:
        gains: Floats = steps[:, 6] - np.abs(steps[:, [4, 5, 7]]).sum(1) / 8
        return gains

    known, nothing = steps(4096), np.empty((0, 8))
    for first in range(0, 4096, 256):
        some = known[first : first + 256]
        network.train(some, rewards(some), np.zeros(256, dtype=np.int64), [nothing])
    new = steps(500)
    gains, values = rewards(new), network.values(new)
    expected = gains / (1 + np.abs(gains))
    assert np.corrcoef(values, expected)[0, 1] > 0.97
    assert np.sqrt(np.mean((values - expected) ** 2)) < 0.1


def test_the_network_moves_along_the_gradient() -> None:
    """Against differences of the squared error: AdaDelta's first step is the gradient g times sqrt(e / (0.1 g² + e)), e = 1e-4."""
    network, drawn = QNetwork(5, seed=1), np.random.default_rng(0)
    steps, rewards = drawn.random((32, 5)), drawn.random(32) - 0.5
    before = QNetwork(5, seed=1)
    weights, small = before._weights, 1e-6

    def error(place: int, by: float) -> float:
        before._weights = weights.copy()
        before._weights[place] += by
        return float(np.mean((before.values(steps) - rewards / (1 + np.abs(rewards))) ** 2))

    network.train(steps, rewards, np.zeros(32, dtype=np.int64), [np.empty((0, 5))])
    for place in range(0, len(weights), 97):
        slope = (error(place, small) - error(place, -small)) / (2 * small)
        moved = network._weights[place] - weights[place]
        assert moved == pytest.approx(-slope * (1e-4 / (0.1 * slope**2 + 1e-4)) ** 0.5, abs=1e-8)


def test_what_follows_counts_a_fifth() -> None:
    """Training is that towards rewards with 0.2 of the best that was last said to follow in them; what loses is not taken."""
    drawn = np.random.default_rng(1)
    steps, rewards, ends = drawn.random((64, 4)), drawn.random(64) / 2 - 0.25, np.arange(64) % 3
    ahead = [np.empty((0, 4)), drawn.random((6, 4)), drawn.random((9, 4)) + 1.0]
    one, other = QNetwork(4, seed=3), QNetwork(4, seed=3)
    ahead[1][:, 0] -= 2.0
    for network in (one, other):
        for _ in range(20):
            network.train(steps, 4 * steps[:, 0] - 2, 0 * ends, ahead[:1])
    best = [float(one.values(some).max()) for some in ahead[1:]]
    assert best[0] < -0.1 < 0.1 < best[1]
    best = [0.0, 0.0, best[1]]
    goals = rewards / (1 + np.abs(rewards)) + 0.2 * np.array(best)[ends]
    one.train(steps, rewards, ends, ahead)
    other.train(steps, goals / (1 - np.abs(goals)), 0 * ends, ahead[:1])
    assert one.values(ahead[2]) == pytest.approx(other.values(ahead[2]), abs=1e-9)
    assert one.values(ahead[2]) != pytest.approx(QNetwork(4, seed=3).values(ahead[2]), abs=1e-3)


def test_facts_of_a_point() -> None:
    """What analysis says without an evaluation: a whole array, tiles by hand, words that main memory's loops move."""
    layer = Layer(Problem(P=16, Q=16, C=32, K=32), scale=1 / 512)
    space = DirectionSpace(layer, MACHINE)
    # P, Q, C, K: everything is in the scratchpad but half of the output channels, which main memory's loop brings
    point = space.mapping(((16, 1, 1), (4, 4, 1), (16, 1, 2, 1), (16, 1, 1, 2)), 0, (1, 2, 1))
    numbers = space.encoded(point).tolist()
    factors, array, moved, tiles = numbers[:14], numbers[14:16], numbers[16:19], numbers[19:26]
    assert factors == [1, 0, 0, 0.5, 0.5, 0, 1, 0, 0.25, 0, 1, 0, 0, 0.25]
    assert array == [0, 0]
    macs = 16 * 16 * 32 * 32
    # weights and results change with the loop over K, innermost of those that run; the input stays
    words = [32 * 16 * 2, 16 * 16 * 32, 16 * 16 * 16 * 2]
    assert [2 ** (4 * logarithm) for logarithm in moved] == pytest.approx(
        [16 * number / macs for number in words]
    )
    sizes = [32 * 16, 16 * 16 * 32, 16 * 4]
    # multiplications of a tile of the scratchpad: for each word of weights, of input, of results, and for one of the accumulator
    each = [16 * 16 * 32 * 16 / tile for tile in (32 * 16, 16 * 16 * 32, 16 * 16 * 16, 16 * 4 * 16)]
    assert [2 ** (8 * logarithm) for logarithm in tiles] == pytest.approx([*sizes, *each])
    assert numbers[-16:-14] == [64 / MACHINE.accumulator_rows, (32 + 2 * 256 * 2) / MACHINE.scratchpad_rows]
    assert numbers[-14:] == [1, *[0] * 10, 0, 1, 0]


@pytest.mark.parametrize("layers", [(13,), pytest.param((6, 13), marks=pytest.mark.slow)])
def test_q_learning_needs_less_than_a_third_of_the_calls(layers: tuple[int, ...]) -> None:
    """To the quality of 300 random mappings, against all directions from the same starts (published: 27.6% of the time)."""
    goals, calls = {}, {"q": 0, "p": 0}
    for number in layers:
        space = DirectionSpace(yolo_layer(number), MACHINE)
        cycles = analytical_cycles(space.layer, MACHINE)
        goals[number] = converged(space, cycles)
        for method in ("q", "p"):
            for seed in range(2):
                found = search_directions(
                    space,
                    cycles,
                    method=method,
                    calls=2000,
                    seed=seed,
                    enough=goals[number],  # type: ignore[arg-type]
                )
                calls[method] += found.calls_to(goals[number]) or 2000
    assert calls["q"] <= 0.3 * calls["p"]
