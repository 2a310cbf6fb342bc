"""`baco validate` and `explore --validate` on the command line: a small network on the Verilog of a small array."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import jsonschema
import pytest

from baco.accel.verilog.generate import TOP
from baco.exploration.report.summary import SCHEMA_PATH
from baco.main import run

pytestmark = pytest.mark.usefixtures("short_reports")

TABLE = """
name: small
layers:
  - {name: window, type: conv, R: 3, S: 3, P: 6, Q: 6, C: 4, K: 8, count: 2}
  - {name: product, type: gemm, M: 12, K: 10, N: 9}
"""
#: One accelerator, whose simulator other tests build as well (`tests.sim.harness_helpers.SMALL`).
SPACE = """
name: tiny
rules: gemmini
base: gemmini-default
dim: [4]
scratchpad_kib: [16]
accumulator_kib: [8]
dataflows: [WS, OS]
"""


def call(capsys: pytest.CaptureFixture[str], *arguments: str, program: str = "baco") -> tuple[int, str, str]:
    code = run(program, list(arguments))
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.out, captured.err


def _explored(capsys: pytest.CaptureFixture[str], folder: Path, *more: str) -> tuple[str, str]:
    (folder / "table.yaml").write_text(TABLE)
    (folder / "space.yaml").write_text(SPACE)
    arguments = ["--network", str(folder / "table.yaml"), "--space", str(folder / "space.yaml")]
    arguments += ["--search", "random", "--samples", "30", "--cost-model", "reference", "--no-proof"]
    code, out, err = call(capsys, *arguments, "--out", str(folder / "out"), *more, program="explore")
    assert code == 0, err
    return out, err


def test_explore_and_validate_on_rtl(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The outcome's command, small: search, compile, generate, simulate, compare, and report side by side."""
    out, err = _explored(capsys, tmp_path, "--validate", "2")
    assert "best 1, window:" in err
    assert "cycles (" in err
    folder = tmp_path / "out"
    summary = json.loads((folder / "summary.json").read_text())
    jsonschema.validate(summary, json.loads(SCHEMA_PATH.read_text()))
    designs = summary["validation"]["designs"]
    assert [design["status"] for design in designs] == ["measured"] * len(designs)
    assert [design["name"] for design in designs[:2]] == ["best 1", "best 2"]
    assert [bound["name"] for bound in summary["bounds"]] == ["compulsory work"]
    assert summary["bounds"][0]["ratio"] >= 1
    assert "measured" in out
    for design in designs:
        window, product = design["layers"]
        total = 2 * window["measured_cycles"] + product["measured_cycles"]
        assert design["measured"]["latency_cycles"] == total
        energy = 2 * window["measured_energy_uj"] + product["measured_energy_uj"]
        assert design["measured"]["energy_uj"] == pytest.approx(energy)
        # no design multiplies faster than its array can
        assert window["measured_cycles"] >= 9 * 36 * 4 * 8 / 16
    assert summary["best"]["cost"]["source"] == "measured"
    verilog = (folder / "best" / "accelerator.v").read_text()
    assert f"module {TOP}" in verilog

    # again, from the command of its own: nothing new to measure, and programs that check themselves
    (folder / "best/programs").mkdir(parents=True)
    (folder / "best/programs/mine.elf").write_text("kept")
    (folder / "best/programs/002-earlier.elf").write_text("of another design")
    code, out, err = call(capsys, "validate", str(folder), "--best", "2", "--programs", "--json")
    assert code == 0, err
    assert json.loads(out)["validation"]["designs"] == designs
    programs = sorted((folder / "best" / "programs").glob("0*.elf"))
    assert [path.name for path in programs] == ["000-window.elf", "001-product.elf"]
    assert (folder / "best/programs/mine.elf").read_text() == "kept"
    assert not (folder / "best/programs/002-earlier.elf").exists()
    for path in programs:
        machine = str(folder / "best" / "accelerator.yaml")
        code, _, err = call(capsys, "simulate", str(path), "--accelerator", machine, "--engine", "functional")
        assert code == 0, err


def test_errors_of_users(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = call(capsys, "validate", str(tmp_path))
    assert code == 2
    assert "there is no study here" in err
    assert "hint:" in err

    _explored(capsys, tmp_path)
    folder = tmp_path / "out"
    for arguments, said in (
        (["--best", "0"], "at least 1 candidate"),
        (["--spread", "-1"], "a spread of -1"),
        (["--workers", "0"], "at least 1 worker"),
        (["--cycle-limit", "0"], "cycle limit"),
        (["--time-limit", "nan"], "must be finite"),
    ):
        code, _, err = call(capsys, "validate", str(folder), *arguments)
        assert code == 2
        assert said in err
    for arguments, said in (
        (["--baseline"], "add --validate K"),
        (["--validate-time", "5"], "add --validate K"),
        (["--validate", "-1"], "at least 1 candidate"),
    ):
        code, _, err = call(capsys, "--network", "deepbench_ocr", *arguments, program="explore")
        assert code == 2
        assert said in err

    connection = sqlite3.connect(folder / "study.sqlite")
    connection.execute("UPDATE candidates SET energy_pj = energy_pj + 1")
    connection.commit()
    connection.close()
    code, _, err = call(capsys, "validate", str(folder))
    assert code == 2
    assert "the study is damaged" in err


def test_a_store_that_is_no_store_and_a_folder_that_cannot_be_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _explored(capsys, tmp_path)
    folder = tmp_path / "out"
    (folder / "measurements.sqlite").write_text(
        "something else, longer than the header of a database file " * 20
    )
    code, _, err = call(capsys, "validate", str(folder), "--best", "1", "--spread", "0")
    assert code == 2
    assert "measurements.sqlite" in err
    assert "hint:" in err
    assert "TRACEBACK" not in err.upper()


def test_help_shows_the_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "validate", "--help")
    assert code == 0
    assert "--baseline" in out
    # the shorthand has it, too
    assert run("explore", ["--help"]) == 0
    assert "--validate" in capsys.readouterr().out
