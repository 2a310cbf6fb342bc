"""Trees whose sum over a program's statements is its throughput."""

import numpy as np
import pytest

from baco.bench.learned.scores import pairwise_accuracy
from baco.bench.programs.weighted import (
    grow_weighted,
    own_samples,
    program_scores,
    recall,
    throughputs,
    weighted_loss,
)
from baco.exploration.cost.learned.boosting import Booster, BoostingOptions


def test_loss_by_hand() -> None:
    # 1 (0.5 - 1)^2 and 0.5 (1 - 0.5)^2
    assert weighted_loss(np.array([0.5, 1.0]), np.array([1.0, 0.5])) == pytest.approx((0.25 + 0.125) / 2)


def test_throughputs_are_those_over_the_best_of_the_same_graph() -> None:
    found = throughputs(np.array([10.0, 20.0, 7.0, 28.0]), np.array([0, 0, 1, 1]))
    np.testing.assert_array_equal(found, [1, 0.5, 1, 0.25])


def test_recall_counts_the_fastest_among_the_best_scores() -> None:
    y = np.array([1.0, 0.9, 0.8, 0.1])
    assert recall(np.array([5.0, 1.0, 4.0, 0.0]), y, 2) == 0.5


def test_sums_over_statements_are_learned() -> None:
    random = np.random.default_rng(0)
    count = 300
    statements = random.integers(1, 4, count)
    program = np.repeat(np.arange(count), statements)
    x = random.random((len(program), 3))
    y = np.bincount(program, 0.1 + 0.2 * (x[:, 0] > 0.5) * x[:, 1], count)
    booster = Booster(BoostingOptions("squared", trees=50, depth=4, rate=0.2, least=5, columns=1.0))
    losses = grow_weighted(booster, x, program, y)
    assert losses[-1] < 0.02 * losses[0]
    scores = program_scores(booster, x, program, count)
    # what is kept of the trees says what they said
    assert weighted_loss(scores, y) == pytest.approx(losses[-1], rel=1e-3)
    accuracy = pairwise_accuracy(-scores, 1 / y, np.zeros(count, np.int64))
    assert accuracy is not None
    assert accuracy > 95


def test_fast_programs_weigh_more() -> None:
    x = np.repeat([[0.0], [1.0]], [50, 50], axis=0)
    # both halves look alike to a tree that may not split them: its value is the mean that y weighs
    y = np.where(x[:, 0] > 0.5, 1.0, 0.2)
    booster = Booster(BoostingOptions("squared", trees=200, depth=1, rate=0.2, least=60, columns=1.0))
    grow_weighted(booster, x, np.arange(100), y)
    scores = program_scores(booster, x, np.arange(100), 100)
    expected = (y * y).sum() / y.sum()
    np.testing.assert_allclose(scores, expected, rtol=1e-3)
    assert expected > y.mean()


@pytest.mark.slow
def test_programs_of_one_graph_are_ordered() -> None:
    (row,) = own_samples([100], 1500, 1)
    assert row["pairs in order, %"] >= 85
    assert row["recall of 30"] >= 0.6
