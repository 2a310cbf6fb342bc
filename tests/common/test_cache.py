"""The cache of built things: made once, never deleted from under somebody, never used damaged or planted."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import baco.common.cache
from baco.common.cache import KEEP_SECONDS, Cache, cache_folder
from baco.common.errors import StorageError

KEY, OTHER = "thing-0123456789abcdef", "thing-fedcba9876543210"


@pytest.fixture(autouse=True)
def _new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process knows of caches, as at its start."""
    forget(monkeypatch)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    for descriptor in baco.common.cache._uses.values():
        os.close(descriptor)
    baco.common.cache._uses.clear()
    monkeypatch.setattr(baco.common.cache, "_verified", {})


def fill(folder: Path) -> None:
    (folder / "program").write_text("#!/bin/sh\necho made\n")
    (folder / "program").chmod(0o755)
    (folder / "below").mkdir()
    (folder / "below" / "data").write_bytes(bytes(range(256)) * 16)


def output(entry: Path) -> str:
    return subprocess.run([entry / "program"], capture_output=True, text=True, check=True).stdout


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACO_CACHE", "/own/place")
    assert cache_folder() == Path("/own/place")
    monkeypatch.delenv("BACO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/baco")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder() == Path("/home/somebody/.cache/baco")


def test_an_entry_is_made_once(tmp_path: Path) -> None:
    cache, made = Cache(tmp_path), []

    def make(folder: Path) -> None:
        made.append(folder)
        fill(folder)

    first = cache.entry(KEY, make)
    assert output(first) == "made\n"
    assert cache.entry(KEY, make) == first == cache.find(KEY)
    assert len(made) == 1
    assert cache.find(OTHER) is None


def test_entries_asked_for_at_once_are_made_once_and_others_side_by_side(tmp_path: Path) -> None:
    made: list[Path] = []
    together = threading.Barrier(2, timeout=20)

    def make(folder: Path) -> None:
        made.append(folder)
        together.wait()  # passes only if both keys are being made at the same time

    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda i: Cache(tmp_path).entry((KEY, OTHER)[i % 2], make), range(8)))
    assert len(made) == 2
    assert {path.name for path in paths} == {KEY, OTHER}


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    def make(folder: Path) -> None:
        fill(folder)
        raise ArithmeticError("no")

    cache = Cache(tmp_path)
    with pytest.raises(ArithmeticError):
        cache.entry(KEY, make)
    assert cache.find(KEY) is None
    assert list((cache.folder / "making").iterdir()) == []
    assert cache.entry(KEY, fill).is_dir()


def test_only_what_is_ours_and_old_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else lies in the user's folder, or in ours, stays, however old."""
    cache = Cache(tmp_path)
    old, used = cache.entry(KEY, fill), cache.entry(OTHER, fill)
    foreign = [
        *(tmp_path / name for name in ("photographs", "rtl-0123456789abcdef", ".lock-x")),
        *(cache.folder / name for name in ("photographs", "entries/photographs", "making/photographs")),
    ]
    for folder in foreign:
        folder.mkdir()
        (folder / "picture").write_text("irreplaceable")
    (cache.folder / "measurements.sqlite").write_text("measured")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "letter").write_text("kept")
    linked = cache.folder / "entries" / "linked-0123456789abcdef"
    linked.symlink_to(outside)
    long_ago = time.time() - KEEP_SECONDS - 10
    for path in (*foreign, old, used, outside, cache.folder / "measurements.sqlite"):
        os.utime(path, (long_ago, long_ago))
    os.utime(linked, (long_ago, long_ago), follow_symlinks=False)
    assert cache.find(OTHER)
    forget(monkeypatch)
    Cache(tmp_path)
    assert not old.exists()
    assert output(used) == "made\n"
    assert all((folder / "picture").read_text() == "irreplaceable" for folder in foreign)
    assert (cache.folder / "measurements.sqlite").read_text() == "measured"
    assert not os.path.lexists(linked)
    assert (outside / "letter").read_text() == "kept"


_USER = """
import os, sys, time
from pathlib import Path
from baco.common.cache import Cache
def make(folder):
    (folder / "program").write_text("x")
    print("making", flush=True)
    time.sleep(float(sys.argv[2]))
Cache(Path(sys.argv[1])).entry(sys.argv[3], make)
print("made", flush=True)
sys.stdin.read()
"""


def other_process(folder: Path, seconds: float, key: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", _USER, str(folder), str(seconds), key],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(baco.common.cache.__file__).resolve().parents[1],
    )


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_wrong_clock_takes_nothing_from_a_live_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two other processes, one that uses an entry and one that is making one, and a clock that is a year ahead."""
    user, maker = other_process(tmp_path, 0, KEY), other_process(tmp_path, 3, OTHER)
    try:
        assert (said(user), said(user), said(maker)) == ("making", "made", "making")
        now = time.time()
        monkeypatch.setattr(baco.common.cache.time, "time", lambda: now + 400 * 24 * 3600)
        cache = Cache(tmp_path)
        cache.entry("third-0123456789abcdef", fill)
        assert cache.find(KEY)
        assert said(maker) == "made"
        assert cache.find(OTHER)
    finally:
        for process in (user, maker):
            process.communicate("")
    assert (user.returncode, maker.returncode) == (0, 0)


def test_what_a_killed_process_left_goes_at_the_next_start(tmp_path: Path) -> None:
    process = other_process(tmp_path, 60, KEY)
    assert said(process) == "making"
    process.send_signal(signal.SIGKILL)
    process.wait()
    making = tmp_path / "baco-cache" / "making"
    assert len(list(making.iterdir())) == 1
    Cache(tmp_path)
    assert list(making.iterdir()) == []


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for folder in (file, file / "below"):
        with pytest.raises(StorageError, match="cache of built programs") as caught:
            Cache(folder).entry(KEY, fill)
        assert "BACO_CACHE" in str(caught.value)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def not_executable(path: Path) -> None:
    path.chmod(path.stat().st_mode & ~0o111 | (0 if path.stat().st_mode & 0o111 else 0o111))


def folder_in_place(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link_in_place(path: Path) -> None:
    beside = path.parents[3] / "moved"
    shutil.move(path, beside)
    path.symlink_to(beside)


def missing(path: Path) -> None:
    path.unlink()


def pipe_in_place(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def one_more(path: Path) -> None:
    path.with_name("more.h").write_text("#error planted")


def for_everybody(path: Path) -> None:
    path.chmod(0o777)


DAMAGES: list[Callable[[Path], None]] = [
    *(empty, cut, flipped, not_executable, folder_in_place, link_in_place, missing),
    *(pipe_in_place, one_more, for_everybody),
]


@pytest.mark.parametrize(
    ("damage", "file"),
    [
        (damage, file)
        for damage in DAMAGES
        for file in ("program", "below/data", "manifest.json")
        if (damage, file) != (not_executable, "manifest.json")  # nobody runs that one
    ],
)
def test_a_damaged_entry_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None], file: str
) -> None:
    notes: list[str] = []
    cache = Cache(tmp_path, note=notes.append)
    entry = cache.entry(KEY, fill)
    damage(entry / file)
    for _ in range(2):
        assert cache.find(KEY) is None  # the process that made it, and a later one
        forget(monkeypatch)
        cache = Cache(tmp_path, note=notes.append)
    assert output(cache.entry(KEY, fill)) == "made\n"
    assert (entry / "below/data").read_bytes() == bytes(range(256)) * 16
    assert len(notes) == 1
    assert KEY in notes[0]
    assert "made anew" in notes[0]


@pytest.mark.parametrize("what", ["file", "link", "folder"])
def test_something_else_in_the_place_of_an_entry(tmp_path: Path, what: str) -> None:
    cache = Cache(tmp_path, note=lambda _: None)
    entry = cache.entry(KEY, fill)
    kept = cache.entry(OTHER, fill)
    shutil.rmtree(entry)
    if what == "file":
        entry.write_text("x")
    elif what == "link":
        entry.symlink_to(kept)
    else:
        shutil.copytree(kept, entry)  # whole, but another one's
    assert cache.find(KEY) is None
    assert output(cache.entry(KEY, fill)) == "made\n"
    assert not entry.is_symlink()
    assert output(kept) == "made\n"


def test_random_damages_are_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 entries with some of their bytes or files changed, each asked for again."""
    rng = random.Random(7)
    cache = Cache(tmp_path, note=lambda _: None)
    entry = cache.entry(KEY, fill)
    whole = {path.relative_to(entry): path.read_bytes() for path in entry.rglob("*") if path.is_file()}
    for _ in range(300):
        target = entry / rng.choice(sorted(whole))
        kind = rng.randrange(5)
        data = bytearray(target.read_bytes())
        if kind == 0:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[rng.randrange(len(data)) :]
        elif kind == 2:
            data += rng.randbytes(rng.randint(1, 64))
        elif kind == 3:
            start = rng.randrange(len(data))
            data[start : start + 16] = bytes(16)
        if kind == 4:
            target.unlink()
        else:
            target.write_bytes(data)
        changed = kind == 4 or bytes(data) != whole[target.relative_to(entry)]
        if rng.random() < 0.5:
            forget(monkeypatch)
            cache = Cache(tmp_path, note=lambda _: None)
        assert (cache.find(KEY) is None) == changed
        cache.entry(KEY, fill)
        assert all((entry / name).read_bytes() == content for name, content in whole.items())


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720])
def test_a_folder_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    cache = Cache(tmp_path)
    entry = cache.entry(KEY, fill)
    cache.folder.chmod(mode)
    with pytest.raises(StorageError, match="may be written by others") as caught:
        Cache(tmp_path)
    assert "BACO_CACHE" in str(caught.value)
    cache.folder.chmod(0o700)
    assert Cache(tmp_path).find(KEY) == entry


def test_a_folder_that_others_may_exchange_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    Cache(place)
    place.chmod(0o777)
    with pytest.raises(StorageError, match="may be written by everybody"):
        Cache(place)
    place.chmod(0o1777)  # like /tmp: everybody may only rename what is his own
    Cache(place)


def test_another_ones_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Cache(tmp_path).folder
    if os.geteuid() == 0:
        os.chown(folder, 12345, 12345)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StorageError, match="belongs to another user"):
        Cache(tmp_path)


def test_a_link_in_the_place_of_our_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "baco-cache").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="is a link"):
        Cache(tmp_path)


def test_locks_that_are_links_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    letter = tmp_path / "letter"
    letter.write_text("kept")
    cache = Cache(tmp_path)
    cache.entry(OTHER, fill)
    lock, users = cache.folder / "locks" / KEY, cache.folder / "users"
    lock.symlink_to(letter)
    with pytest.raises(StorageError, match="should be a lock file"):
        cache.entry(KEY, fill)
    forget(monkeypatch)
    users.unlink()
    users.symlink_to(letter)
    with pytest.raises(StorageError, match="should be a lock file"):
        Cache(tmp_path)
    users.unlink()
    assert letter.read_text() == "kept"
