"""Trees that learn throughputs, fast programs weighing more."""

import numpy as np
import pytest

from baco.bench.learned.scores import pairwise_accuracy
from baco.bench.programs.weighted import own_samples, recall, throughputs, weighted_trees


def test_throughputs_are_those_over_the_best_of_the_same_graph() -> None:
    found = throughputs(np.array([10.0, 20.0, 7.0, 28.0]), np.array([0, 0, 1, 1]))
    np.testing.assert_array_equal(found, [1, 0.5, 1, 0.25])


def test_recall_counts_the_fastest_among_the_best_scores() -> None:
    y = np.array([1.0, 0.9, 0.8, 0.1])
    assert recall(np.array([5.0, 1.0, 4.0, 0.0]), y, 2) == 0.5


def test_throughputs_are_learned() -> None:
    x = np.random.default_rng(0).random((300, 3))
    x[::7, 2] = np.nan
    y = 0.1 + 0.8 * (x[:, 0] > 0.5) * x[:, 1]
    scores = weighted_trees(x, y, max_features=1.0).predict(np.nan_to_num(x, nan=-1e9))
    assert (y * (scores - y) ** 2).mean() < 0.02 * (y**3).mean()
    assert (pairwise_accuracy(-scores, 1 / y, np.zeros(300, np.int64)) or 0.0) > 95


def test_fast_programs_weigh_more() -> None:
    x = np.repeat([[0.0], [1.0]], [50, 50], axis=0)
    # both halves look alike to a tree that may not split them: its value is the mean that y weighs
    y = np.where(x[:, 0] > 0.5, 1.0, 0.2)
    trees = weighted_trees(x, y, max_depth=1, min_samples_leaf=60, max_features=1.0)
    expected = (y * y).sum() / y.sum()
    np.testing.assert_allclose(trees.predict(x), expected, rtol=1e-3)
    assert expected > y.mean()


@pytest.mark.slow
def test_programs_of_one_graph_are_ordered() -> None:
    (row,) = own_samples([100], 1500, 1)
    assert row["pairs in order, %"] >= 85
    assert row["recall of 30"] >= 0.6
