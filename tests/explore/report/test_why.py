"""What a report says of its best design against Gemmini's default machine, and what it says without a study behind it."""

from __future__ import annotations

import pytest

from baco.exploration.report.page import page_html
from baco.exploration.report.payload import payload
from baco.exploration.report.units import significant
from baco.exploration.report.why import explanation
from tests.explore import report_helpers as helpers
from tests.explore.report.test_report_page import Engine


@pytest.mark.parametrize("seed", range(5))
def test_the_card_against_the_baseline_says_the_ratio_of_areas(seed: int) -> None:
    data = helpers.report_data(seed=seed)
    assert data.baseline is not None
    (card,) = [one for one in payload(data)["cards"] if one["label"] == "Against gemmini-default"]
    times = data.best.cost.area_mm2 / data.baseline.cost.area_mm2
    assert card["remark"].endswith(f"EDP, {significant(times)}× the area")


@pytest.mark.parametrize("seed", range(8))
def test_the_best_of_no_more_than_the_baselines_area_is_a_row_of_the_page(seed: int) -> None:
    data = helpers.report_data(candidates=12, seed=seed)
    assert data.baseline is not None
    area = data.baseline.cost.area_mm2
    small = [(one.objective, n) for n, one in enumerate(data.candidates) if one.cost.area_mm2 <= area]
    found, engine = explanation(data), Engine(page_html(data))
    assert found is not None
    assert found.baseline is not None
    if small:
        assert found.baseline.equal_area == min(small)[1]
        assert f"#{min(small)[1]}, the best no larger than gemmini-default" in engine.text("alternatives")
    else:
        assert found.baseline.equal_area is None
        assert "No design found is as small as gemmini-default" in engine.text("why-baseline")


def test_a_report_without_a_study_says_that_nothing_can_be_mapped_anew() -> None:
    found = explanation(helpers.report_data())
    assert found is not None
    assert found.neighbours is None
    assert "not known (no search is known" in found.lines[1]
    assert found.steps().empty
    assert found.limits
