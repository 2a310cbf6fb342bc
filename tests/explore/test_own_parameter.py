"""A hardware parameter of one's own: docs/hardware-parameters.md, done in a copy of the product."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from baco.accel.config import PARAMETERS, SETTINGS, Accelerator
from baco.accel.verilog.generate import rtl_parameters

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "hardware-parameters.md").read_text("utf-8")
ROOMS = ("accel", "baco", "common", "compiler", "explore", "sim", "workloads")


def applied(patch: str, folder: Path) -> None:
    """Change files as a patch says; every place must be there once."""
    for file, hunks in re.findall(
        r"^--- a/(\S+)\n\+\+\+ .*\n((?:@@.*\n(?:(?!--- a)[-+ ].*\n)*)+)", patch, re.M
    ):
        text = (folder / file).read_text("utf-8")
        for hunk in re.split(r"^@@.*\n", hunks, flags=re.M)[1:]:
            lines = hunk.splitlines(keepends=True)
            before, after = ("".join(one[1:] for one in lines if one[0] in kind) for kind in (" -", " +"))
            assert text.count(before) == 1, f"{file} has no one place for\n{hunk}"
            text = text.replace(before, after)
        (folder / file).write_text(text, "utf-8")


def test_the_example_is_searched_reported_and_built(tmp_path: Path) -> None:
    for room in ROOMS:
        shutil.copytree(
            ROOT / room, tmp_path / room, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    files = dict(re.findall(r"^cat > (\S+) <<'EOF'\n(.*?)^EOF$", PAGE, re.S | re.M))
    applied(files["command_queue.patch"], tmp_path)
    (tmp_path / "deep.yaml").write_text(files["deep.yaml"])
    (command,) = re.findall(r"^explore .*$", PAGE, re.M)
    run = subprocess.run(
        [sys.executable, "-m", "baco", *command.split(), "--seed", "1"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    shown = "".join(
        line + "\n"
        for name in ("accelerator.yaml", "accelerator.v")
        for line in (tmp_path / "found" / "best" / name).read_text("utf-8").splitlines()
        if re.search("^command_queue|BACO_COMMAND_QUEUE", line)
    )
    assert f"```text\n{shown}```" in PAGE
    table = pq.read_table(tmp_path / "found" / "candidates.parquet")
    assert set(table["accelerator.command_queue"].to_pylist()) <= {1, 2, 8, 32}
    assert "queue of all commands" in (tmp_path / "found" / "report.html").read_text("utf-8")


def test_every_row_is_a_field_with_bounds_and_every_verilog_parameter_a_row() -> None:
    for name, row in PARAMETERS.items():
        assert row.label, name
        assert Accelerator.model_fields[name].description
        assert not row.searched or row.readers, f"{name} is searched, and no model reads it"
    machine = Accelerator(dim=16, scratchpad_kib=256, accumulator_kib=64)
    for name, (field, row) in SETTINGS.items():
        value = getattr(machine, name) * (0.5 if name == "scale_lanes" else 2)
        there = machine.with_setting(name, value)
        assert getattr(there, name) == pytest.approx(value)
        if row.rtl:
            changed = {
                one for one, known in rtl_parameters(machine).items() if rtl_parameters(there)[one] != known
            }
            assert row.rtl in changed, field
    assert set(rtl_parameters(machine)) - {row.rtl for row in PARAMETERS.values()} == {"ADDR_BITS", "ID_BITS"}
