"""Which candidates to measure: improvement by integration, and budgets."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from baco.exploration.cost.learned.selection import MeasurementChoice, expected_improvement, select


@pytest.mark.parametrize(("best", "mean", "deviation"), [(0.0, 0.1, 0.2), (1.0, 0.0, 0.05), (0.0, 1.0, 0.3)])
def test_expected_improvement_is_the_integral(best: float, mean: float, deviation: float) -> None:
    integral, _ = quad(lambda x: (best - x) * norm.pdf(x, mean, deviation), mean - 12 * deviation, best)
    found = expected_improvement(np.array([best]), np.array([mean]), np.array([deviation]))
    assert found[0] == pytest.approx(max(integral, 0.0), rel=1e-6, abs=1e-12)


def test_without_doubt_the_improvement_is_the_difference() -> None:
    found = expected_improvement(np.array([1.0, 1.0]), np.array([0.4, 2.0]), np.zeros(2))
    assert found == pytest.approx([0.6, 0.0], abs=1e-9)


def test_the_budget_holds_and_the_best_value_comes_first() -> None:
    choices = [
        MeasurementChoice(math.log(0.9), 0.01, 100, group=0, best=0.0),
        MeasurementChoice(math.log(0.5), 0.01, 100, group=1, best=0.0),
        MeasurementChoice(math.log(0.5), 0.01, 1000, group=2, best=0.0),
        MeasurementChoice(math.log(2.0), 0.01, 1, group=3, best=0.0),
    ]
    assert select(choices, 1200) == [1, 0, 2]
    assert select(choices, 200) == [1, 0]
    assert select(choices, 99) == []
    assert select([], 100) == []


def test_budgets_are_kept_for_any_choices() -> None:
    rng = np.random.default_rng(0)
    for _ in range(3):
        choices = [
            MeasurementChoice(
                rng.normal(), rng.uniform(0.01, 1), rng.uniform(1, 50), int(rng.integers(5)), rng.normal()
            )
            for _ in range(40)
        ]
        chosen = select(choices, 120)
        assert sum(choices[i].cycles for i in chosen) <= 120
        assert len(set(chosen)) == len(chosen)


def test_after_a_choice_the_rest_of_its_group_is_worth_less() -> None:
    group = [
        MeasurementChoice(0.0, 0.1, 10, group=0, best=0.5),
        MeasurementChoice(0.01, 0.1, 10, group=0, best=0.5),
    ]
    other = MeasurementChoice(0.3, 0.1, 10, group=1, best=0.5)
    assert select([*group, other], 20) == [0, 2]


def test_doubt_is_worth_measuring_and_weights_count() -> None:
    sure, unsure = MeasurementChoice(0.4, 0.001, 10, 0, 0.4), MeasurementChoice(0.4, 0.3, 10, 1, 0.4)
    assert select([sure, unsure], 10)[0] == 1
    assert select([MeasurementChoice(0.4, 0.2, 10, 0, 0.4, weight=3.0), unsure], 10) == [0]


def test_groups_without_a_measurement_are_measured_where_they_promise_most() -> None:
    choices = [MeasurementChoice(1.0, 0.1, 10, group=0), MeasurementChoice(0.2, 0.1, 10, group=0)]
    assert select(choices, 10) == [1]


def test_candidates_that_cannot_be_measured_are_left_out() -> None:
    assert select(
        [
            MeasurementChoice(math.inf, 0.1, 10),
            MeasurementChoice(0.0, 0.1, 0),
            MeasurementChoice(0.0, 0.1, 5),
        ],
        100,
    ) == [2]
