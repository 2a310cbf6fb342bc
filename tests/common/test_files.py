"""Reading user files, and writing that leaves either the old content or the new one."""

import errno
import os
import socket
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from baco.common import files
from baco.common.errors import InputError, StorageError
from baco.common.files import atomic_write, output_folder, read_input, read_input_text


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


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="this system has no /dev/null")
def test_devices_are_written_in_place(tmp_path: Path) -> None:
    """As the superuser as well, to whom nothing is denied."""
    atomic_write("/dev/null", "gone")
    assert Path("/dev/null").is_char_device()
    if Path("/dev/full").is_char_device():
        with pytest.raises(StorageError, match="the disk is full"):
            atomic_write("/dev/full", "x")
        assert Path("/dev/full").is_char_device()


def test_a_pipe_is_written_in_place(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = b"x" * 1_000_000  # more than a pipe holds
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(pipe.read_bytes)
        atomic_write(pipe, data)
        assert reader.result(20) == data
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_pipe_that_nobody_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(files, "_PIPE_SECONDS", 0.1)
    with pytest.raises(StorageError, match="nobody reads this pipe"):
        atomic_write(tmp_path / "pipe", "x")


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/./stdout"])
@pytest.mark.parametrize("where", ["file", "pipe"])
def test_standard_output_is_written_after_what_was_printed(tmp_path: Path, name: str, where: str) -> None:
    """Also where it is a file: opened anew, that would lose its beginning."""
    if not os.path.lexists(os.path.normpath(name)):
        pytest.skip(f"this system has no {name}")
    script = (
        "from baco.common.files import atomic_write\n"
        f"print('before'); atomic_write({name!r}, 'content\\n'); print('after')\n"
    )
    root = Path(files.__file__).resolve().parents[1]
    command = [sys.executable, "-c", script]
    if where == "file":
        with open(tmp_path / "out", "wb") as out:
            subprocess.run(command, stdout=out, check=True, cwd=root)
        text = (tmp_path / "out").read_text()
    else:
        text = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=root, text=True).stdout
    assert text == "before\ncontent\nafter\n"


def test_links_are_refused(tmp_path: Path) -> None:
    letter = tmp_path / "letter"
    letter.write_text("kept")
    for name, target in (("file", letter), ("nothing", tmp_path / "new"), ("device", Path("/dev/null"))):
        link = tmp_path / name
        link.symlink_to(target)
        with pytest.raises(StorageError, match=f"this is a link to {target}"):
            atomic_write(link, "x")
        assert link.is_symlink()
    assert letter.read_text() == "kept"
    assert not (tmp_path / "new").exists()


def test_a_write_protected_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    file.chmod(0o444)
    with pytest.raises(StorageError, match="write-protected"):
        atomic_write(file, "x")
    assert file.read_text() == "kept"


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.bind("socket")
        with pytest.raises(StorageError, match="this is a socket"):
            atomic_write("socket", "x")


def test_folders_of_ours_are_no_links(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "named").symlink_to(elsewhere)
    assert output_folder(tmp_path / "named").is_symlink()  # the user's own choice
    assert output_folder(tmp_path / "named", "best", "programs") == tmp_path / "named/best/programs"
    (tmp_path / "best").symlink_to(elsewhere)
    with pytest.raises(StorageError, match="this folder is a link"):
        output_folder(tmp_path, "best")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="existing file"):
        output_folder(tmp_path, "file")
