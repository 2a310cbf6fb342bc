"""The optimality benchmark on a small network."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from baco.bench import optimality
from baco.workloads.problem import Problem

TABLE = """network,R,S,P,Q,C,K,N,stride_h,stride_w,dilation_h,dilation_w,count
tiny,3,3,14,14,32,48,1,1,1,1,1,2
tiny,1,1,1,1,64,100,1,1,1,1,1,1
"""


@pytest.fixture
def network(tmp_path: Path) -> str:
    path = tmp_path / "layers.csv"
    path.write_text(TABLE)
    return f"{path}:tiny"


def test_rows_are_ordered_bounds(network: str, tmp_path: Path) -> None:
    notes: list[str] = []
    result = optimality.run(
        [network], samples=400, small=False, out=tmp_path / "out", say=notes.append, tolerance=1e-3
    )
    free, limited = result["networks"]
    assert (free["area"], limited["area"]) == ("free", "gemmini-default")
    for row in (free, limited):
        assert row["compulsory_bound"] <= row["capacity_bound"] * (1 + 1e-9)
        assert row["capacity_bound"] <= row["certified_bound"] * (1 + 1e-9)
        assert row["certified_bound"] <= row["best_edp_known"] <= row["found_edp"]
        assert row["gap"] == pytest.approx(row["found_edp"] / row["certified_bound"] - 1)
        assert (row["better_point"] is None) == (row["best_edp_known"] == row["found_edp"])
    assert limited["area_limit_mm2"] < free["area_limit_mm2"]
    assert limited["certified_bound"] >= free["certified_bound"]
    assert result["largest_gap"] == max(free["gap"], limited["gap"])
    assert not result["interrupted"]
    assert any("optimum" in note for note in notes)
    with (tmp_path / "out" / "optimality.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["found_edp"]) for row in rows] == [free["found_edp"], limited["found_edp"]]


def test_small_layers_are_solved_exactly(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimality, "SMALL_PROBLEMS", (Problem(P=4, C=3, K=3), Problem(R=3, P=4, groups=3)))
    monkeypatch.setattr(optimality, "_SMALL_SAMPLES", 1500)
    result = optimality.run([network], samples=200)
    assert len(result["small_layers"]) == 2
    for row in result["small_layers"]:
        assert row["mappings"] > 1000
        assert row["solver_difference"] <= 1e-12
        assert row["gap"] >= -1e-12  # brute force is the floor
        assert row["gap"] <= 0.02


def test_ctrl_c_keeps_what_is_done(network: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def note(text: str) -> None:
        if "as in the space: at most" in text:
            raise KeyboardInterrupt

    result = optimality.run([network], samples=200, say=note, out=tmp_path)
    assert result["interrupted"]
    assert [row["area"] for row in result["networks"]] == ["free"]
    assert (tmp_path / "optimality.csv").read_text().count("\n") == 2
