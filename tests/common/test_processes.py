"""Python processes beside ours: nothing that lies in the folder of a user is run, whatever it is called."""

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import baco.common.processes
from baco.common.processes import python_children
from tests.hostile_folder import hostile_folder

ROOT = Path(baco.common.processes.__file__).resolve().parents[1]


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    return hostile_folder(tmp_path)[0]


def executed(hostile: Path) -> str:
    return hostile.with_name("executed").read_text()


def test_the_trap_works(hostile: Path) -> None:
    """What the others test would be noticed."""
    subprocess.run([sys.executable, "-c", "import struct"], cwd=hostile, check=False)
    assert "struct" in executed(hostile)


_POOL = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import multiprocessing, os
from concurrent.futures import ProcessPoolExecutor
from baco.common.processes import python_children
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    with python_children(), ProcessPoolExecutor(2, mp_context=context) as pool:
        print(sorted(pool.map(abs, [-2, -1])))
"""


def test_workers_run_nothing_of_the_current_folder(hostile: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_POOL)
    done = subprocess.run([sys.executable, script], cwd=hostile, capture_output=True, text=True, check=False)
    assert (done.stdout, executed(hostile)) == ("[1, 2]\n", "")


@pytest.mark.parametrize("arguments", [["--help"], ["networks"], ["isa", "--help"]])
def test_the_command_runs_nothing_of_the_current_folder(hostile: Path, arguments: list[str]) -> None:
    """`python -m baco`, which Python itself starts with the current folder first."""
    done = subprocess.run(
        [sys.executable, "-m", "baco", *arguments], cwd=hostile, capture_output=True, text=True, check=False
    )
    assert executed(hostile) == ""
    assert done.returncode == 0, done.stderr


def test_the_environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = dict(os.environ)
    with python_children(single_threads=True):
        assert os.environ["PYTHONSAFEPATH"] == "1"
        assert os.environ["OMP_NUM_THREADS"] == "3"
        assert os.environ["MKL_NUM_THREADS"] == "1"
    assert dict(os.environ) == before


def test_a_pool_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hostile: Path) -> None:
    monkeypatch.chdir(hostile)
    with python_children(), ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(abs, -3).result() == 3
    assert executed(hostile) == ""
