"""How long a search will still take, against what searches took."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from baco.display.time_left import TimeLeft
from baco.display.validation import _Pace

#: Searches as they were recorded: (seconds, share of the budget spent) of every batch, to the end.
RECORDED = json.loads(Path(__file__).with_name("recorded_searches.json").read_text())


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_estimates_are_honest(name: str) -> None:
    """From a tenth of its time on until the last three seconds, most estimates are within a factor of two, and few
    promise an end within a third of the time it takes."""
    reports = RECORDED[name]
    end = reports[-1][0]
    estimates = TimeLeft()
    ratios = []
    for seconds, share in reports:
        estimates.report(seconds, share)
        left = estimates.left(seconds)
        if left is not None and 0.1 * end < seconds < end - 3:
            ratios.append(left / (end - seconds))
    assert len(ratios) > 20
    assert sum(0.5 <= one <= 2 for one in ratios) > 0.7 * len(ratios)
    assert sum(one < 1 / 3 for one in ratios) < 0.15 * len(ratios)


def test_an_even_pace_goes_on_and_a_quarter_is_for_the_end() -> None:
    estimates = TimeLeft()
    assert estimates.left(0) is None
    for step in range(5):
        estimates.report(10.0 + step, 0.2 + 0.1 * step)  # a resumed search: its past took another time
    assert estimates.left(14) == pytest.approx(4 + 1)
    assert estimates.left(16) == pytest.approx(2 + 1)
    assert estimates.left(99) == pytest.approx(1)


def test_a_stretch_that_spends_nothing_is_expected_again() -> None:
    estimates = TimeLeft()
    for seconds, share in ((0, 0.0), (1, 0.25), (2, 0.5), (8, 0.51), (9, 1.0)):
        estimates.report(seconds, share)
    assert estimates.left(9) == pytest.approx(6), "the budget is spent, but searches end with such a stretch"
    assert estimates.left(13) == pytest.approx(2)


def test_nothing_is_said_of_a_search_that_does_not_move() -> None:
    estimates = TimeLeft()
    for seconds in range(10):
        estimates.report(seconds, 0.5)
    assert estimates.left(10) is None


def test_the_time_that_a_validation_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three machines with four layers of 10 s each, and 60 s more for every machine's simulator."""
    now = 0.0
    monkeypatch.setattr("baco.display.validation.time.monotonic", lambda: now)
    pace = _Pace(12 * 1e6, 3)
    found = []
    for machine in "abc":
        for layer in range(4):
            now += 10.0 if layer else 70.0
            found.append((pace.left(1e6, machine), 300.0 - now))
    assert found[0][0] is None
    assert found[-1][0] is None
    for left, true in found[1:-1]:
        assert left is not None
        assert left == pytest.approx(true, abs=25)
