"""`--timing`: what is predicted, searched and reported under it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from baco.api.preparation import SearchOptions
from baco.api.study import explore
from baco.common.errors import InputError
from baco.main import run

pytestmark = pytest.mark.usefixtures("short_reports")

ROWS = "prob.R,prob.S,prob.P,prob.Q,prob.C,prob.K,prob.N,arch.meshX,arch.mem1_entries,arch.mem2_entries,mapping.mapping\n"


def test_a_search_has_the_timing_in_its_designs_and_its_report(tmp_path: Path) -> None:
    found = explore(
        "deepbench_face", samples=30, timing="gemmini", search="random", out=tmp_path / "s", progress=False
    )
    assert found.best.accelerator.timing == "gemmini"
    summary = json.loads((found.save_report().parent / "summary.json").read_text())
    assert summary["best"]["accelerator"]["timing"] == "gemmini"
    assert 'timing: "gemmini"' in found.best.accelerator.to_yaml()
    assert "the original Gemmini" in (tmp_path / "s" / "report.html").read_text()
    ours = explore("deepbench_face", samples=30, search="random", out=tmp_path / "o", progress=False)
    assert ours.best.cost.latency_cycles != found.best.cost.latency_cycles


def test_the_reference_model_knows_no_timing() -> None:
    with pytest.raises(InputError, match="the reference cost model knows no timing 'gemmini'"):
        SearchOptions("deepbench_face", timing="gemmini", cost_model="reference").prepared()


def test_a_run_is_predicted_by_its_timing(capsys: pytest.CaptureFixture[str]) -> None:
    predicted = {}
    for timing in ("baco", "gemmini"):
        assert (
            run("baco", ["run", "--gemm", "128x128x128", "--engine", "rtl", "--timing", timing, "--json"])
            == 0
        )
        found = json.loads(capsys.readouterr().out)
        predicted[timing] = found["predicted_cycles"]
        assert predicted[timing] == pytest.approx(found["cycles"], rel=0.3)
    assert predicted["baco"] != predicted["gemmini"]


def test_an_unknown_timing_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("baco", ["run", "--gemm", "16x16x16", "--timing", "gemini"]) == 2
    assert "there is no timing 'gemini'" in capsys.readouterr().err
