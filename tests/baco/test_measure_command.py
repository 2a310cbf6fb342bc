"""`explore --measure` from end to end, on an accelerator that is quickly built."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from baco.exploration.measure.layer import measure_layer
from baco.exploration.measure.session import measured_designs
from baco.exploration.measure.store import measurement_key
from baco.exploration.report.summary import SCHEMA_PATH
from baco.exploration.studies.study import StudyRecord
from baco.main import run
from tests.baco.test_validate_command import SPACE, TABLE

pytestmark = pytest.mark.usefixtures("short_reports")


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
    designs = {design["name"]: design for design in summary["validation"]["designs"]}
    winner = designs["measured search"]
    assert winner["status"] == "measured"
    assert summary["best"]["cost"]["source"] == "measured"
    for other in designs.values():
        assert edp(winner) <= edp(other)
    # again: everything is known, and ends the same
    code, again, err = call(capsys, tmp_path, "--measure", "40k", "--resume")
    assert code == 0, err
    assert [line for line in again.splitlines() if "EDP" in line and "measured," in line] == [
        line for line in out.splitlines() if "EDP" in line and "measured," in line
    ]
    repeated = json.loads(path.read_text())["validation"]["designs"]
    assert {design["name"]: design["measured"] for design in repeated} == {
        name: design["measured"] for name, design in designs.items()
    }


def test_layers_are_compared_by_the_timed_model_and_the_winner_runs_on_its_verilog(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = call(capsys, tmp_path, "--measure", "40k", "--measure-engine", "timed")
    assert code == 0, err
    assert "best so far" in err
    assert "measured search: 4x4" in out
    # what stands in the study is what the Verilog took, layer by layer
    with StudyRecord.open(tmp_path / "out" / "study.sqlite") as record:
        designs = [one for one in measured_designs(record) if one.status == "measured"]
    assert "measured search" in [one.name for one in designs]
    for design in designs:
        for layer in design.layers:
            assert layer.schedule is not None
            again = measure_layer(layer.layer, layer.schedule, design.accelerator)
            assert layer.measured is not None
            assert layer.measured.cycles == again.cycles
            assert layer.key == measurement_key(layer.layer, layer.schedule, design.accelerator)
            timed = measure_layer(layer.layer, layer.schedule, design.accelerator, engine="timed")
            assert timed.cycles == pytest.approx(again.cycles, rel=0.01)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--measure-engine", "timed"), "--measure-engine goes with --measure"),
        (("--measure", "40k", "--measure-engine", "functional"), "counted by rtl or timed"),
        (
            ("--measure", "40k", "--measure-engine", "timed", "--timing", "gemmini"),
            "not those of the timing 'gemmini'",
        ),
    ],
)
def test_engines_that_count_no_such_cycles(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    code, _, err = call(capsys, tmp_path, *words)
    assert code in (2, 3), err
    assert said in err


@pytest.mark.parametrize("text", ["many", "-3M", "0", "1e999"])
def test_bad_budgets(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str) -> None:
    code, _, err = call(capsys, tmp_path, f"--measure={text}")
    assert code == 2
    assert "is no number of cycles" in err


def test_the_reference_model_cannot_be_measured(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = call(capsys, tmp_path, "--measure", "40k", "--cost-model", "reference", "--no-proof")
    assert code == 2
    assert "needs the instruction-aware cost model" in err
