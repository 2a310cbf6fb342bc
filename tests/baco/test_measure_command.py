"""`explore --measure` from end to end, on an accelerator that is quickly built."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from baco.exploration.report.summary import SCHEMA_PATH
from baco.main import run
from tests.baco.test_validate_command import SPACE, TABLE


def call(capsys: pytest.CaptureFixture[str], folder: Path, *more: str) -> tuple[int, str, str]:
    (folder / "table.yaml").write_text(TABLE)
    (folder / "space.yaml").write_text(SPACE)
    arguments = ["--network", str(folder / "table.yaml"), "--space", str(folder / "space.yaml")]
    arguments += ["--search", "random", "--samples", "20", "--out", str(folder / "out"), *more]
    code = run("explore", arguments)
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.out, captured.err


def edp(design: dict[str, Any]) -> float:
    cost: dict[str, float] = design["measured"]
    return cost["energy_uj"] * cost["latency_cycles"]


def test_measured_search_and_its_repetition(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = call(capsys, tmp_path, "--measure", "40k")
    assert code == 0, err
    assert "round 0: 2 programs measured" in err
    assert "measured search: 4x4" in out
    path = tmp_path / "out" / "summary.json"
    summary = json.loads(path.read_text())
    jsonschema.validate(summary, json.loads(SCHEMA_PATH.read_text()))
    designs = {one["name"]: one for one in summary["validation"]["designs"]}
    winner = designs["measured search"]
    assert winner["status"] == "measured"
    assert summary["best"]["cost"]["source"] == "measured"
    for other in designs.values():
        assert edp(winner) <= edp(other)
    # again: everything is known, and ends the same
    code, again, err = call(capsys, tmp_path, "--measure", "40k", "--resume")
    assert code == 0, err
    assert [one for one in again.splitlines() if "EDP" in one and "measured," in one] == [
        one for one in out.splitlines() if "EDP" in one and "measured," in one
    ]
    repeated = json.loads(path.read_text())["validation"]["designs"]
    assert {one["name"]: one["measured"] for one in repeated} == {
        name: one["measured"] for name, one in designs.items()
    }


@pytest.mark.parametrize("text", ["many", "-3M", "0", "1e999"])
def test_bad_budgets(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str) -> None:
    code, _, err = call(capsys, tmp_path, f"--measure={text}")
    assert code == 2
    assert "is no number of cycles" in err


def test_the_reference_model_cannot_be_measured(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = call(capsys, tmp_path, "--measure", "40k", "--cost-model", "reference", "--no-proof")
    assert code == 2
    assert "needs the instruction-aware cost model" in err
