"""Figures are the same wherever they are drawn."""

import subprocess
import sys
from pathlib import Path

import pytest

import baco.common.figure
from baco.main import run
from tests.hostile_folder import hostile_folder

ROOT = Path(baco.common.figure.__file__).resolve().parents[1]
LOG = "# baco command log 1, dim 16\nunit,id,funct,rs1,rs2,allocated,issued,done\nload,0,2,0x0,0x0,1,2,3\n"
#: What draws, by the files that it writes.
_COMMANDS = {
    "chart.svg": ["trace", "{place}/log.csv", "-o", "{out}/chart.svg"],
    "pareto.svg": [
        *("explore", "-n", "{place}/layers.yaml", "--space", "gemmini", "--cost-model", "reference"),
        *("--samples", "40", "--out", "{out}"),
    ],
}


def without_ids(svg: bytes) -> list[bytes]:
    """Its lines without dates and the names of parts, which are random where no salt is set."""
    return [
        line for line in svg.splitlines() if b"id=" not in line and b"#" not in line and b"date" not in line
    ]


@pytest.mark.parametrize("name", ["chart.svg", pytest.param("pareto.svg", marks=pytest.mark.slow)])
def test_settings_in_the_current_folder_are_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "layers.yaml").write_text("layers:\n  - {type: gemm, M: 8, K: 8, N: 8}\n")
    hostile, trace = hostile_folder(tmp_path)
    pictures = []
    for folder in (tmp_path, hostile):
        out = tmp_path / f"out-{folder.name}"
        out.mkdir()
        words = [word.format(place=tmp_path, out=out) for word in _COMMANDS[name]]
        if folder is hostile:
            command = [sys.executable, "-m", "baco", *words]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert "matplotlibrc" not in done.stderr
        else:
            assert run("baco", words) == 0
        pictures.append((out / name).read_bytes())
    assert len(without_ids(pictures[0])) > 50
    assert without_ids(pictures[0]) == without_ids(pictures[1])
    assert b"#ff0000" not in pictures[1]
    assert trace.read_text() == ""


def test_the_folder_is_put_back(tmp_path: Path) -> None:
    """Also where it has gone; and what others set stays theirs."""
    code = """
import os, sys
from baco.common.figure import drawing, figure_bytes, new_figure
os.mkdir("gone"); os.chdir("gone"); os.rmdir(os.getcwd())
with drawing({"font.size": 3}):
    import matplotlib
    assert matplotlib.rcParams["font.size"] == 3
    assert len(figure_bytes(new_figure(1, 1), "png", dpi=30)) > 50
os.chdir("..")
print(os.getcwd(), matplotlib.rcParams["font.size"] != 3)
"""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == [str(tmp_path.resolve()), "True"], done.stderr
