"""The benchmark of importance: pairs, means and intervals, and what is kept."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baco.bench import importance as bench
from baco.bench.runs import RunKey, SearchRun
from baco.common.errors import InputError


def run(searcher: str, seed: int, *curve: tuple[int, float, float]) -> SearchRun:
    return SearchRun(RunKey("n", "gemmini", searcher, seed, 100), 2, 200, 1.0, curve)


def test_ratios_are_of_pairs_at_shares_of_the_budget() -> None:
    even = run("gradient-even", 0, (30, 0.1, 8.0), (150, 0.2, 2.0))
    guided = run("gradient", 0, (30, 0.1, 8.0), (40, 0.2, 4.0), (190, 0.3, 1.0))
    # 100 samples of two layers: shares are 20, 40, 80 and 200 evaluations
    assert bench._logs(even, guided, 100) == pytest.approx([0, math.log(2), math.log(2), math.log(2)])


def test_intervals_hold_the_mean_and_shrink_to_it() -> None:
    rng = np.random.default_rng(1)
    wide = bench._row("reference", "", 0, [rng.normal(0.1, 0.05, (8, 4)) for _ in range(3)])
    assert wide.pairs == 24
    for mean, low, high in zip(wide.ratios, wide.low, wide.high, strict=True):
        assert 1 < low < mean < high < 1.2
    same = bench._row("reference", "", 0, [np.full((3, 4), math.log(1.5))])
    assert same.low == same.high == pytest.approx((1.5,) * 4)


def test_both_searches_begin_alike_and_runs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rows() -> list[dict[str, Any]]:
        return bench.run(["deepbench_ocr"], ["reference"], 80, 2, tmp_path)["rows"]

    first = rows()
    assert [row["network"] for row in first] == ["deepbench_ocr", ""]
    assert first[0]["ratios"][0] == 1.0  # before the first local search
    kept = json.loads((tmp_path / "importance.json").read_text())
    assert kept["rows"][0]["ratios"] == first[0]["ratios"]
    assert "deepbench" in (tmp_path / "importance.md").read_text()
    monkeypatch.setattr(bench, "_make", lambda *_: pytest.fail("searched again"))
    assert rows() == first


def test_unknown_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown cost model"):
        bench.run(cost_models=["exact"], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
