"""The commands that take systems: rtl and cosim."""

from __future__ import annotations

from pathlib import Path

import pytest

from baco.compiler.codegen.toolchain import kept_objects, link_program, runtime_objects
from baco.main import run


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run("baco", list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_system_is_written_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    system, out = tmp_path / "pair.yaml", tmp_path / "pair.v"
    system.write_text("units: ['gemmini-default,dim=4', host, 'gemmini-default,dim=2,dataflow=WS']\n")
    code, printed, err = call(capsys, "rtl", str(system), "-o", str(out), "--check")
    assert (code, err) == (0, "")
    assert "all as the configuration says" in printed
    text = out.read_text()
    assert "module baco_system (" in text
    assert "unit0_cmd_valid" in text
    assert "unit1_cmd_valid" not in text
    assert "unit2_cmd_valid" in text
    code, printed, err = call(capsys, "rtl", str(system), "-o", str(out), "--bus", "axi4", "--check")
    assert (code, err) == (0, "")
    assert "all as the configuration says" in printed
    assert "module baco_system_axi4 (" in out.read_text()
    code, _, err = call(capsys, "rtl", str(system), "-o", str(out), "--header", str(tmp_path / "x.h"))
    assert code == 2
    assert "belongs to a single accelerator" in err


def test_streams_of_one_accelerator_are_not_for_a_system(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    system = tmp_path / "pair.yaml"
    system.write_text("units: ['gemmini-default,dim=4', host]\n")
    code, _, err = call(capsys, "cosim", "-a", str(system), "--illegal")
    assert code == 2
    assert "--illegal is for single accelerators, not for a system" in err


def test_a_program_runs_on_the_harts_of_a_system(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '#include "runtime.h"\nvolatile int said; int baco_main(int hart) {'
    text += (
        ' if (hart == 1) { print("here is one\\n"); said = 1; } if (hart == 0) while (!said) {} return 0; }'
    )
    header = Path(__file__).parents[2] / "compiler/codegen/runtime/runtime.h"
    objects = kept_objects({"runtime.h": header.read_text(), "main.c": text})
    link_program([*runtime_objects(harts=True), *objects], tmp_path / "main.elf")
    (tmp_path / "pair.yaml").write_text("units: ['gemmini-default,dim=4', host]\n")
    where = ("-a", str(tmp_path / "pair.yaml"), "--engine", "functional")
    code, printed, err = call(capsys, "simulate", str(tmp_path / "main.elf"), *where)
    assert (code, err) == (0, "")
    assert "here is one" in printed
    code, _, err = call(
        capsys, "simulate", str(tmp_path / "main.elf"), *where, "--log", str(tmp_path / "log.csv")
    )
    assert code == 2
    assert "without a command log" in err
