"""Formats of arrays side by side: which rows are on the front, and a network on all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from baco.accel.input_format import INPUT_FORMATS
from baco.bench.array_formats import FormatRow, machines, main, table
from baco.bench.digits import write_digits


def test_front_by_hand() -> None:
    found = list(machines((4,)))
    assert [one.input_format for one in found] == list(INPUT_FORMATS)
    first, second, third, *_ = found
    rows = [
        FormatRow(first, 100, 2.0, 0.9, 40.0),
        FormatRow(second, 100, 2.0, 0.9, 39.0),
        FormatRow(third, 50, 2.0, 0.9, 20.0),
    ]
    assert rows[1].dominated_by(rows[0])
    assert not rows[0].dominated_by(rows[2])
    lines = table(rows).splitlines()
    assert [line.endswith("| yes |") for line in lines[2:]] == [True, False, True]
    assert "| 200 |" in lines[2]


def test_a_network_on_all_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = write_digits(tmp_path, epochs=2)
    assert main([str(model), str(data), "--engine", "timed", "--sides", "4"]) == 0
    rows = [[cell.strip() for cell in line.split("|")] for line in capsys.readouterr().out.splitlines()[2:]]
    noise = [float(row[3]) for row in rows]
    assert (
        noise[3] > noise[0] > noise[1] > noise[2] > 15
    )  # 8 bits of floating point, 8, 4 and 3 significant bits


def test_a_missing_model_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.onnx"), str(tmp_path / "none.npz")]) == 2
    assert capsys.readouterr().err.startswith("error: ")
