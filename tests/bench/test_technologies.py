"""What a technology changes in a search, of a small network."""

from __future__ import annotations

from pathlib import Path

import pytest

from baco.bench.technologies import page, run


def test_the_page_says_what_the_searches_found(tmp_path: Path) -> None:
    rows = run(["deepbench_ocr"], samples=40, out=tmp_path)
    published, netlists = rows
    assert [row["technology"] for row in rows] == ["published-45nm", "ihp-sg13g2"]
    for row in rows:
        assert row["edp_js"] == pytest.approx(row["joules"] * row["seconds"])
        assert row["seconds"] == pytest.approx(row["cycles"] / row["clock_mhz"] * 1e-6)
        assert row["over_limit"] >= 1
        assert sum(row["energy"].values()) <= 1 + 1e-9
        assert row["front"]["least_time"] <= 1 + 1e-9 >= row["front"]["least_energy"]
        assert sum(row["front"]["sides"].values()) == row["front"]["designs"]
        assert bool(row["beyond"]) == (row["technology"] != "published-45nm" and row["dim"] > 32)
    assert published["compared"]["first_is_worse"] == pytest.approx(1)
    assert published["compared"]["rank"] == pytest.approx(1)
    assert netlists["compared"]["accelerators"] <= published["compared"]["accelerators"]
    # the same GB/s, at another clock
    assert published["memory_bytes"] * published["clock_mhz"] == pytest.approx(
        netlists["memory_bytes"] * netlists["clock_mhz"]
    )
    text = (tmp_path / "technologies.md").read_text("utf-8")
    assert text == page(rows)
    for row in rows:
        assert f"| {row['technology']} | {row['design']} | {row['area_mm2']:.4g} |" in text
    assert f"{netlists['seconds'] / published['seconds']:.3g} times the time" in text

    # studies that are there are not searched again
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("study.sqlite")}
    assert len(before) == 2
    assert run(["deepbench_ocr"], samples=40, out=tmp_path) == rows
    assert before == {path: path.stat().st_mtime_ns for path in before}
