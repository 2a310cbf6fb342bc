"""Folders for intermediate files: gone at the end, or at the next start after a kill; never a live process's."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import baco.common.scratch
from baco.common.errors import StorageError
from baco.common.scratch import scratch_folder

_HOLDER = """
import sys, time
from baco.common.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "file").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of temporary files of one's own, and a process that has not tidied it yet."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    baco.common.scratch._remove_stale.cache_clear()
    yield tmp_path
    baco.common.scratch._remove_stale.cache_clear()


def holder() -> "tuple[subprocess.Popen[str], Path]":
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(baco.common.scratch.__file__).resolve().parents[1],
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_it_is_empty_and_gone_afterwards(place: Path) -> None:
    with scratch_folder() as folder:
        assert folder.parent == place
        assert [path.name for path in folder.iterdir()] == [".in-use"]
        (folder / "below").mkdir()
        (folder / "below" / "file").write_text("x")
    assert list(place.iterdir()) == []


def test_what_killed_processes_left_goes_and_what_others_use_stays(place: Path) -> None:
    (killed, left), (alive, used) = holder(), holder()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert (left / "file").exists()
    with scratch_folder():
        assert not left.exists()
        assert (used / "file").exists()
    alive.communicate("")
    assert list(place.iterdir()) == []


def test_nothing_else_goes(place: Path) -> None:
    """Another program's folder, one of another user's, a link of our name, and one that is just being made."""
    prefix = f"baco-scratch-{os.geteuid()}-"
    others = [place / "baco-notes", place / f"baco-scratch-{os.geteuid() + 1}-x", place / f"{prefix}new"]
    for folder in others:
        folder.mkdir()
    (place / "letters").mkdir()
    (place / "letters" / ".in-use").write_text("")
    (place / f"{prefix}link").symlink_to(place / "letters")
    (place / f"{prefix}old").mkdir()
    long_ago = time.time() - 2 * 24 * 3600
    os.utime(place / f"{prefix}old", (long_ago, long_ago))
    with scratch_folder():
        pass
    assert all(folder.is_dir() for folder in others)
    assert (place / "letters" / ".in-use").exists()
    assert not (place / f"{prefix}old").exists()


def test_failing_to_write_there_is_a_storage_error_and_other_failures_are_not(place: Path) -> None:
    with pytest.raises(StorageError, match="cannot be written"), scratch_folder() as folder:
        (folder / "missing" / "file").write_text("x")
    with pytest.raises(FileNotFoundError), scratch_folder():
        (place / "elsewhere").read_text()
    with pytest.raises(BrokenPipeError), scratch_folder():
        raise BrokenPipeError
    assert list(place.iterdir()) == []
