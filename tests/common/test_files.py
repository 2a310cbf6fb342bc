"""Reading user files, and writing that leaves either the old content or the new one."""

import errno
import os
import stat
from pathlib import Path

import pytest

from common import files
from common.errors import InputError, StorageError
from common.files import atomic_write, output_folder, read_input, read_input_text


def test_atomic_write_and_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    atomic_write(path, "µJ\n")
    assert read_input_text(path) == "µJ\n"
    atomic_write(path, b"\x00\x01")
    assert read_input(path) == b"\x00\x01"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"], "no temporary file stays"


def test_modes_are_those_of_ordinary_files(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        atomic_write(tmp_path / "new", "x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "kept").write_text("x")
    (tmp_path / "kept").chmod(0o600)
    atomic_write(tmp_path / "kept", "y")
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o600


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "a.txt"
    atomic_write(path, "old")

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, step, full)
    with pytest.raises(StorageError, match="the disk is full") as caught:
        atomic_write(path, "new")
    monkeypatch.undo()
    assert "free disk space" in (caught.value.hint or "")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_real_full_disk(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(OSError) as caught, open("/dev/full", "w") as file:
        file.write("x" * 100_000)
    assert "the disk is full" in str(files.storage_error(caught.value, "f"))


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        atomic_write(tmp_path / "missing" / "a.txt", "x")
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot be written"):
        atomic_write(tmp_path / "file" / "a.txt", "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError):
        atomic_write(tmp_path / "folder", "x")
    with pytest.raises(StorageError):
        atomic_write(tmp_path / ("n" * 300), "x")
    with pytest.raises(StorageError):
        atomic_write("nul\0name", "x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


def test_output_folder(tmp_path: Path) -> None:
    folder = output_folder(tmp_path / "a" / "b")
    assert folder.is_dir()
    assert list(folder.iterdir()) == []
    assert output_folder(folder) == folder
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="existing file"):
        output_folder(tmp_path / "file")
    with pytest.raises(StorageError):
        output_folder(tmp_path / "file" / "below")
    with pytest.raises(StorageError):
        output_folder("/proc/nowhere")
    with pytest.raises(StorageError):
        output_folder("nul\0name")


def test_read_only_folder(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("the superuser may write anywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="permission denied"):
        output_folder(tmp_path)


def test_inputs_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_input(tmp_path / "missing")
    with pytest.raises(InputError, match="folder"):
        read_input(tmp_path)
    with pytest.raises(InputError):
        read_input("nul\0name")
    with pytest.raises(InputError):
        read_input("x" * 5000)
    (tmp_path / "big").write_bytes(b"12345")
    with pytest.raises(InputError, match="5 bytes, more than the 4 allowed"):
        read_input(tmp_path / "big", limit_bytes=4)


def test_a_pipe_is_refused_rather_than_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        read_input(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        read_input("/dev/zero")
