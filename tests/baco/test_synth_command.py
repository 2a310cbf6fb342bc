"""`baco synth`: files in a row, one message for what is wrong with them, and a whole accelerator in cells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import baco
from baco.common.errors import InputError
from baco.main import run
from tests.accel.synthesis.tiny_library import AREA, tiny_file, tiny_library

SMALL = "gemmini-default,dim=2,scratchpad_kib=4,accumulator_kib=2,dma_bits=32"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no such file"),
        ("", "the file holds no library"),
        ("module m; endmodule", "neither an attribute nor a group"),
        (tiny_library()[:2000], "the file ends inside"),
        (tiny_library(without=("DFF",)), "no flip-flops"),
    ],
)
def test_one_message_for_a_file_that_is_no_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, said: str
) -> None:
    path = tmp_path / "cells.lib"
    if text is not None:
        path.write_text(text)
    assert run("baco", ["synth", "gemmini-default", "--liberty", str(path)]) == 2
    message = capsys.readouterr().err
    assert message.count("error:") == 1
    assert said in message


def test_files_in_a_row_are_all_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tiny_file(tmp_path), tmp_path / "second.lib"
    bad.write_text("library (t) {")
    for order in ([str(good), str(bad)], [str(bad), str(good)]):
        assert run("baco", ["synth", "--liberty", *order, "gemmini-default"]) == 2
        assert "second.lib" in capsys.readouterr().err


def test_python_takes_a_path_or_several(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        baco.synthesise(liberty=tmp_path / "none.lib")
    with pytest.raises(InputError, match="no such file"):
        baco.synthesise(liberty=[tiny_file(tmp_path), tmp_path / "none.lib"])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_whole_accelerator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyosys")
    monkeypatch.setenv("BACO_CACHE", str(tmp_path / "cache"))
    assert run("baco", ["synth", SMALL, "--liberty", str(tiny_file(tmp_path)), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["area_mm2"] == pytest.approx(found["logic_mm2"] + found["memories_mm2"])
    assert sum(module["mm2"] for module in found["modules"]) == pytest.approx(found["logic_mm2"])
    assert sum(found["cell_classes"].values()) == pytest.approx(found["logic_mm2"])
    assert found["leakage_mw"] > found["logic_mm2"] * 1e6 * 1e-9 * 1e3 * 0.99  # a nW for each um2 of cells
    assert {module["name"] for module in found["modules"]} >= {
        "baco_mesh_row",
        "baco_reservation",
        "baco_scale",
    }
    # a row of the array holds at least its operands' and sums' registers
    row = next(module for module in found["modules"] if module["name"] == "baco_mesh_row")
    assert row["mm2"] * 1e6 > 2 * 2 * (8 + 32 + 32) * AREA["DFF"]
    paths = found["worst_paths"]
    assert paths == sorted(paths, key=lambda path: -path["need_ns"])
    assert found["clock_mhz"] == pytest.approx(1e3 / paths[0]["need_ns"] / (1 + found["margin"]))
    assert dict(found["banks"])
