"""Tuning by few trials, on a space whose cycles are known."""

from __future__ import annotations

import numpy as np
import pytest

from baco.bench.learned.guided import METHODS, TrialSpace, tune, tune_together


def space(rows: int, operators: int, *, right: bool) -> TrialSpace:
    """Cycles that grow with the first of three features; the analytical model says so, or the opposite."""
    drawn = np.random.default_rng(4)
    features = drawn.random((rows, 3))
    measured = 1000 * np.exp(features[:, 0])
    return TrialSpace(
        "made up", features, measured if right else 1e6 / measured, measured, np.arange(rows) % operators
    )


@pytest.mark.parametrize("method", METHODS)
def test_no_schedule_is_measured_twice(method: str) -> None:
    rows = tune(space(15, 1, right=True), method, 15, 0)
    assert sorted(rows) == list(range(15))


def test_predictions_say_where_to_begin() -> None:
    known = space(30, 1, right=True)
    best = int(np.argmin(known.measured))
    assert tune(known, "analytical", 1, 0) == tune(known, "analytical + learned", 1, 0) == [best]


def test_measurements_overrule_wrong_predictions() -> None:
    """What is predicted best is slowest: the analytical model ends there, the one that learns does not."""
    wrong = space(60, 1, right=False)

    def reached(method: str) -> float:
        return float(wrong.measured.min() / wrong.measured[tune(wrong, method, 12, 0)].min())

    assert reached("analytical + learned") > reached("analytical")


def test_operators_share_their_trials() -> None:
    """After as many trials as schedules each operator has its best one, whatever is measured first."""
    for method in METHODS:
        assert tune_together(space(12, 3, right=True), method, 12, 1) == 1.0
    assert tune_together(space(12, 3, right=True), "analytical", 1, 1) == 1.0
