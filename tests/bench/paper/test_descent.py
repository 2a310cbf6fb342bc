"""DOSA at its own protocol: how its samples are counted, and how it is compared."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from baco.bench.paper import descent, report
from baco.bench.runs import RunKey, SearchRun
from baco.workloads.inputs.load import load_network


def run(searcher: str, evaluations: int, seconds: float, *curve: tuple[int, float, float]) -> SearchRun:
    return SearchRun(RunKey("n", "reference", searcher, 0, 100), 2, evaluations, seconds, curve)


def test_a_row_by_hand() -> None:
    runs = [
        run("dosa-nearest", 200, 2.0, (200, 2.0, 12.0)),
        run("dosa-published", 200, 4.0, (100, 2.0, 9.0), (200, 4.0, 6.0)),
        run("dosa", 200, 2.0, (200, 2.0, 8.0)),
        run("gradient", 200, 16.0, (20, 1.0, 6.5), (50, 3.0, 5.0), (180, 14.0, 4.0)),
    ]
    row = descent.descent_row("network", "n", runs)
    assert (row.runs, row.edp, row.seconds) == (1, 6.0, 4.0)
    assert (row.nearest_edp, row.nearest_ratio) == (12.0, pytest.approx(12 / 4))
    assert row.nearest_seconds_ratio == pytest.approx(12 / 6.5)
    assert row.samples_ratio == pytest.approx(6 / 4)
    assert row.counted_ratio == pytest.approx(8 / 4)
    assert row.seconds_ratio == pytest.approx(6 / 5)
    assert row.samples_needed == pytest.approx(50 / 200)
    assert row.seconds_needed == pytest.approx(3 / 4)
    page = report.descent_page([row], descent.PROTOCOL)
    for text in ("10,430 samples", "1.50", "2.00", "1.20", "25.00%", "75.00%"):
        assert text in page


def test_means_are_geometric_and_missing_ones_show() -> None:
    pairs = []
    for seed, factor in enumerate((2.0, 8.0)):
        for searcher, edp in (
            ("dosa-nearest", factor),
            ("dosa-published", factor),
            ("dosa", 4 * factor),
            ("gradient", 1.0),
        ):
            key = RunKey("n", "reference", searcher, seed, 100)
            pairs.append(SearchRun(key, 2, 200, 1.0, ((10, 0.1, edp),)))
    row = descent.descent_row("GEMM", "", pairs)
    assert row.samples_ratio == pytest.approx(math.sqrt(2 * 8))
    assert row.counted_ratio == pytest.approx(4 * math.sqrt(2 * 8))
    worse = [
        run("dosa-nearest", 200, 1.0),
        run("dosa-published", 200, 1.0, (9, 0.1, 1.0)),
        run("dosa", 200, 1.0),
        run("gradient", 200, 1.0, (9, 0.1, 2.0)),
    ]
    row = descent.descent_row("GEMM", "", worse)
    assert row.samples_ratio == pytest.approx(0.5)
    assert (row.counted_ratio, row.samples_needed) == (None, None)


def test_all_kinds_are_run_by_all_four(tmp_path: Path) -> None:
    rows = descent.run_descent(tmp_path, [], samples=24, cases=1)
    assert [row.kind for row in rows] == ["GEMM", "GEMV", "Conv1D", "Conv2D"]
    assert all(row.runs == 1 and row.samples_ratio for row in rows)
    assert len(list((tmp_path / "runs").glob("*.json"))) == 16
    assert len(load_network(f"{tmp_path / 'operators.csv'}:Conv2D-1").tasks) == 1
