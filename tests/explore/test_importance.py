"""Importance estimation, with section 4's numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from explore.importance import ALPHA, BETA, ImportanceEstimator


def estimator(patience: int = 12) -> ImportanceEstimator:
    """Two similar layers, the second with twice the work, and another kind."""
    return ImportanceEstimator(
        counts=np.array([1.0, 3.0, 1.0]),
        macs=np.array([10.0, 20.0, 5.0]),
        family=np.array([0, 0, 1]),
        patience=patience,
    )


def warm(patience: int = 12) -> ImportanceEstimator:
    one = estimator(patience)
    for layer, (energy, latency) in enumerate([(100.0, 10.0), (600.0, 20.0), (50.0, 40.0)]):
        one.update(layer, energy, latency, improved=True)
    return one


def test_every_layer_gets_a_first_unit() -> None:
    one = estimator()
    assert one.shares(3).tolist() == [1, 1, 1]
    one.update(1, 5.0, 5.0, improved=True)
    gradient = one.gradient()
    assert np.isneginf(gradient[[0, 2]]).all()
    assert gradient[1] == 0
    assert one.shares(4).tolist() == [2, 0, 2]


def test_the_gradient_by_hand() -> None:
    one = warm()
    one.update(1, 500.0, 20.0, improved=True)  # 2 units: energy fell by 100, latency by nothing
    total_e, total_l = 100 + 3 * 500 + 50, 10 + 3 * 20 + 40
    # Efficiency of similar layers: 10 pJ a MAC (layer 0) and 1 cycle a MAC.
    forecast_e = [
        min(-100.0, BETA * 10 * 10 - 100),
        min(-500 / 2, BETA * 20 * 10 - 500),
        min(-50.0, BETA * 5 * 10 - 50),
    ]
    forecast_l = [
        min(-10.0, BETA * 10 * 1 - 10),
        min(-20 / 2, BETA * 20 * 1 - 20),
        min(-40.0, BETA * 5 * 8 - 40),
    ]
    change_e = [(1 - ALPHA) * f for f in forecast_e]
    change_l = [(1 - ALPHA) * f for f in forecast_l]
    change_e[1] += ALPHA * (500 - 600)
    expected = [
        w * (total_l * e + total_e * t) for w, e, t in zip((1, 3, 1), change_e, change_l, strict=True)
    ]
    assert one.gradient() == pytest.approx(expected)
    assert (one.gradient() <= 0).all()


def test_shares_follow_the_gradient_and_sum_up() -> None:
    one = warm()
    shares = one.shares(30)
    assert shares.sum() == 30
    gain = -one.gradient()
    assert shares.argmax() == gain.argmax()
    # A unit never goes to a layer when another has more to gain from its next one.
    for i in range(3):
        for j in range(3):
            if shares[i]:
                assert gain[i] / shares[i] >= gain[j] / (1 + shares[j]) * (1 - 1e-12)


def test_layers_that_stop_improving_are_dropped_until_revived() -> None:
    one = warm(patience=2)
    for _ in range(2):
        one.update(1, 600.0, 20.0, improved=False)
    assert one.gradient()[1] == 0
    assert one.shares(10)[1] == 0
    one.update(1, 590.0, 20.0, improved=True)
    assert one.gradient()[1] < 0
    for layer in range(3):
        for _ in range(2):
            one.update(layer, 1.0, 1.0, improved=False)
    assert one.shares(5).tolist() == [0, 0, 0]
    one.revive()
    assert one.shares(5).sum() == 5


def test_state_round_trips() -> None:
    one, other = warm(), estimator()
    one.update(2, 45.0, 41.0, improved=False)
    other.restore(one.state())
    assert np.array_equal(one.gradient(), other.gradient())
    one.update(2, 1.0, 1.0, improved=True)  # a snapshot is a copy
    assert not np.array_equal(one.gradient(), other.gradient())
