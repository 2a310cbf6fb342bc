"""Predicted energy against what switches in RTL: one small program measured here, and the rows that are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from baco.bench.fit.energy import MACHINES, NETWORKS, errors, gated_clock, page, run, silicon
from tests.machines import SMALL

ROWS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "results" / "energy.json").read_text("utf-8")
)
NETWORK = "deepbench_ocr:width=48,height=48"


def test_a_small_program_is_near_and_not_measured_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (row,) = run(tmp_path, [NETWORK], {"small": SMALL})
    switched = sum(row["switched"].values())
    assert row["clock"] == pytest.approx(silicon(SMALL).static_pj(row["cycles"]))
    assert row["predicted"]["numbers"]["rest"] == pytest.approx(switched, rel=0.12)
    whole = row["predicted"]["numbers"]["rest"] + row["predicted"]["numbers"]["clock"]
    assert whole == pytest.approx(switched + row["clock"], rel=0.08)
    assert 0 < row["gated"] < 1

    def twice(*_: Any, **__: Any) -> None:
        raise AssertionError("it is known")

    monkeypatch.setattr("baco.bench.fit.energy.run_network", twice)
    assert run(tmp_path, [NETWORK], {"small": SMALL}) == [row]
    assert NETWORK in (tmp_path / "energy.md").read_text("utf-8")


def test_rows_are_of_all_networks_and_machines_and_the_page_is_theirs() -> None:
    assert {(one["network"], one["machine"]) for one in ROWS} == {(n, m) for n in NETWORKS for m in MACHINES}
    assert len(ROWS) == len(NETWORKS) * len(MACHINES) >= 36
    kept = (Path(__file__).parents[3] / "results" / "energy.md").read_text("utf-8")
    assert page(ROWS) == kept


def test_errors_of_the_rows_within_what_is_claimed() -> None:
    true = np.array([one["clock"] + sum(one["switched"].values()) for one in ROWS])
    guess = np.array([sum(one["predicted"]["numbers"][part] for part in ("clock", "rest")) for one in ROWS])
    found = errors(ROWS, "numbers", clock=True)
    assert found["mean"] == pytest.approx(np.abs(guess / true - 1).mean())
    assert found["mean"] <= 0.08
    assert found["rank"] == pytest.approx(spearmanr(true, guess).statistic)
    assert found["rank"] >= 0.97
    assert errors(ROWS, "numbers", clock=False)["mean"] <= 0.08
    # what numbers do is known: the typical ones are farther off
    assert errors(ROWS, "numbers", clock=False)["mean"] < errors(ROWS, "typical", clock=False)["mean"]


def test_gating_saves_what_idles(tmp_path: Path) -> None:
    from baco.sim.engines.base import run_job
    from baco.sim.job import Job

    (tmp_path / "stream").write_text("fence\n")
    idle = run_job(Job(SMALL, stream=tmp_path / "stream"), engine="rtl")
    # an array that never advances and unrollers that never work could be off all the time
    without = SMALL.replace(features=SMALL.features.model_copy(update={"loop_ws": False, "loop_conv": False}))
    registers = [silicon(one).static_pj(1) for one in (SMALL, without)]
    assert 1 - registers[1] / registers[0] < gated_clock(idle, SMALL) < 1
