"""Designs to take instead of the best: cheap gains, against brute force over random fronts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from baco.exploration.explain.trade_offs import LEAST_GAIN, TradeOff, trade_offs
from tests.seeds import seeds

NAMES = ("edp", "latency", "energy", "area")


def front(seed: int, size: int = 40) -> dict[int, dict[str, float]]:
    """Costs over those of the best in EDP of a random front, by number."""
    random = np.random.default_rng(seed)
    latency, energy, area = np.exp(random.normal(0, 0.6, (3, size)))
    table = np.stack([latency * energy, latency, energy, area], 1)
    kept = [
        row
        for row in table
        if not any((other[1:] <= row[1:]).all() and (other != row).any() for other in table)
    ]
    best = min(kept, key=lambda row: row[0])
    return {
        number: dict(zip(NAMES, row / best, strict=True))
        for number, row in enumerate(kept)
        if not (row == best).all()
    }


def chosen(ratios: dict[int, dict[str, float]]) -> list[TradeOff]:
    return trade_offs(ratios, NAMES[1:], dict.fromkeys(ratios, "predicted"))


@pytest.mark.parametrize("seed", seeds(20, of=60))
def test_each_gain_is_the_cheapest_of_all_that_gain_a_tenth(seed: int) -> None:
    ratios = front(seed)
    found = chosen(ratios)
    assert len({trade_off.design for trade_off in found}) == len(found) <= 3
    prices = {}
    for trade_off in found:
        own = ratios[trade_off.design]
        assert own[trade_off.gains] <= 1 - LEAST_GAIN
        assert trade_off.pays == max((n for n in NAMES if n != trade_off.gains), key=lambda n: own[n])
        assert own[trade_off.pays] > 1  # nothing is for free: the best is on the front, too
        prices[trade_off.design] = math.log(own[trade_off.pays]) / math.log(1 / own[trade_off.gains])
    first = {trade_off.gains: trade_off for trade_off in reversed(found)}
    taken = [trade_off.design for trade_off in found]
    for name, trade_off in first.items():
        for number, own in ratios.items():
            if number in taken or own[name] > 1 - LEAST_GAIN:
                continue
            worst = max(own[n] for n in NAMES if n != name)
            assert math.log(max(worst, 1.005)) / math.log(1 / own[name]) >= prices[trade_off.design] - 1e-9
    # with two gains to be had, two are named
    gains = [own for own in ratios.values() if any(own[n] <= 1 - LEAST_GAIN for n in NAMES[1:])]
    assert len(found) >= min(1, len(gains))


def test_half_the_area_for_little_comes_before_less_for_more() -> None:
    ratios = {
        7: {"edp": 1.07, "latency": 1.05, "energy": 1.02, "area": 0.5},
        8: {"edp": 1.5, "latency": 1.4, "energy": 1.1, "area": 0.33},
        9: {"edp": 1.8, "latency": 0.9, "energy": 2.0, "area": 2.0},
    }
    found = chosen(ratios)
    assert [(one.design, one.gains, one.pays) for one in found] == [
        (7, "area", "edp"),
        (9, "latency", "energy"),
    ]


def test_without_a_second_metric_to_gain_a_second_design_gains_a_tenth_more() -> None:
    ratios = {
        1: {"edp": 1.1, "latency": 1.1, "energy": 1.0, "area": 0.8},
        2: {"edp": 1.2, "latency": 1.2, "energy": 1.0, "area": 0.78},
        3: {"edp": 1.6, "latency": 1.6, "energy": 1.0, "area": 0.6},
    }
    assert [one.design for one in chosen(ratios)] == [1, 3]


def test_what_gains_less_than_a_tenth_is_not_named() -> None:
    assert chosen({1: {"edp": 1.01, "latency": 1.0, "energy": 1.0, "area": 0.95}}) == []
