"""The write-ahead log: cut anywhere it loses only its tail; a full disk loses nothing that was acknowledged."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from baco.common.errors import StorageError
from baco.exploration.studies import study as study_module
from baco.exploration.studies.study import StudyRecord
from tests.explore.study_helpers import batches, content, new_study


def copy_study(source: Path, folder: Path) -> Path:
    """The files as a killed process would leave them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for file in source.parent.iterdir():
        if file.is_file() and not file.name.endswith(".lock"):
            shutil.copyfile(file, folder / file.name)
    return folder / source.name


def prefixes(folder: Path, count: int) -> list[dict[str, list[tuple[object, ...]]]]:
    """Content after 0, 1, ... `count` batches, from a study that nothing ever happened to."""
    path = folder / "reference.sqlite"
    found = []
    with new_study(path) as study:
        found.append(content(path))
        for batch in batches(count):
            study.record(*batch)
            found.append(content(path))
    return found


def reopened_is_prefix(path: Path, expected: list[dict[str, list[tuple[object, ...]]]]) -> int:
    """Open, compare with the prefix it claims to be, go on to the end, and compare again."""
    count = len(expected) - 1
    with StudyRecord.open(path) as study:
        kept = study.batches
        assert content(path) == expected[kept]
        for batch in batches(count)[kept:]:
            study.record(*batch)
    assert content(path) == expected[count]
    return kept


def cuts(log: bytes, number: int) -> list[int]:
    """Every byte around the log's header and its first frames, and random ones behind."""
    rng = np.random.default_rng(5)
    near = [0, 1, 31, 32, 33, 55, 56, 57, 32 + 24 + 4096 - 1, 32 + 24 + 4096, len(log) - 1, len(log)]
    return sorted({min(cut, len(log)) for cut in near} | {int(c) for c in rng.integers(0, len(log), number)})


def test_log_cut_anywhere_loses_only_its_tail(tmp_path: Path) -> None:
    expected = prefixes(tmp_path, 10)
    live = tmp_path / "live"
    live.mkdir()
    with new_study(live / "s.sqlite") as study:
        for batch in batches(10):
            study.record(*batch)
        log = (live / "s.sqlite-wal").read_bytes()
        kept = []
        for cut in cuts(log, 60):
            path = copy_study(live / "s.sqlite", tmp_path / "cut")
            os.truncate(tmp_path / "cut" / "s.sqlite-wal", cut)
            kept.append(reopened_is_prefix(path, expected))
    assert kept[0] == 0
    assert kept[-1] == 10
    assert kept == sorted(kept)
    assert len(set(kept)) > 5


def test_log_overwritten_with_garbage_loses_only_its_tail(tmp_path: Path) -> None:
    expected = prefixes(tmp_path, 6)
    live = tmp_path / "live"
    live.mkdir()
    with new_study(live / "s.sqlite") as study:
        for batch in batches(6):
            study.record(*batch)
        log = (live / "s.sqlite-wal").read_bytes()
        for cut in cuts(log, 15):
            path = copy_study(live / "s.sqlite", tmp_path / "cut")
            (tmp_path / "cut" / "s.sqlite-wal").write_bytes(log[:cut] + b"\xa5" * (len(log) - cut))
            reopened_is_prefix(path, expected)


@pytest.mark.parametrize("moment", ["before", "halfway", "copied", "truncated"])
def test_log_cut_while_it_is_folded_in(tmp_path: Path, moment: str) -> None:
    """Once newer pages are in the database, older frames replayed from a shortened log would spoil it."""
    expected = prefixes(tmp_path, 10)
    live = tmp_path / "live"
    live.mkdir()
    states: dict[str, Path] = {}
    with new_study(live / "s.sqlite") as study:
        store = study._store
        for batch in batches(8):
            if batch[0].batch == 3:
                store.checkpoint()
            study.record(*batch)
        states["before"] = copy_study(store.path, tmp_path / "before")
        log = (live / "s.sqlite-wal").read_bytes()
        # The steps of Store.checkpoint, with the process killed after each.
        (live / "s.sqlite-wal.kept").write_bytes(log)
        states["halfway"] = copy_study(store.path, tmp_path / "halfway")
        store.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        states["copied"] = copy_study(store.path, tmp_path / "copied")
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        states["truncated"] = copy_study(store.path, tmp_path / "truncated")
    kept = []
    source = states[moment]
    for cut in cuts(log, 25):
        path = copy_study(source, tmp_path / "cut")
        log_path = path.with_name("s.sqlite-wal")
        if log_path.stat().st_size > cut:
            os.truncate(log_path, cut)
        with StudyRecord.open(path, read_only=True) as study:
            seen = study.batches
        kept.append(reopened_is_prefix(path, expected))
        assert seen == kept[-1]
    assert min(kept) >= 3
    assert kept[-1] == 8
    if moment != "before":
        assert set(kept) == {8}, "the copy of the log puts everything back"
    else:
        assert len(set(kept)) > 3


def test_the_log_is_folded_in_when_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = prefixes(tmp_path, 12)
    monkeypatch.setattr(study_module, "CHECKPOINT_BYTES", 40_000)
    path = tmp_path / "s.sqlite"
    lengths = []
    with new_study(path) as study:
        for batch in batches(12):
            study.record(*batch)
            lengths.append((tmp_path / "s.sqlite-wal").stat().st_size)
            assert not (tmp_path / "s.sqlite-wal.kept").exists()
    assert max(lengths) <= 40_000
    assert lengths.count(0) >= 2
    assert content(path) == expected[12]


def test_a_copy_of_the_log_from_before_is_not_used_again(tmp_path: Path) -> None:
    expected = prefixes(tmp_path, 8)
    live = tmp_path / "live"
    live.mkdir()
    with new_study(live / "s.sqlite") as study:
        for batch in batches(8)[:4]:
            study.record(*batch)
        old_log = (live / "s.sqlite-wal").read_bytes()
        study._store.checkpoint()
        assert not (live / "s.sqlite-wal.kept").exists()
        assert (live / "s.sqlite-wal").stat().st_size == 0
        for batch in batches(8)[4:]:
            study.record(*batch)
        (live / "s.sqlite-wal.kept").write_bytes(old_log)
        path = copy_study(live / "s.sqlite", tmp_path / "copy")
    with StudyRecord.open(path, read_only=True) as study:
        assert study.batches == 8
    assert reopened_is_prefix(path, expected) == 8


def test_a_reader_in_the_way_delays_folding_and_loses_nothing(tmp_path: Path) -> None:
    expected = prefixes(tmp_path, 6)
    live = tmp_path / "live"
    live.mkdir()
    path = live / "s.sqlite"
    study = new_study(path)
    study._store.connection.execute("PRAGMA busy_timeout=50")
    for batch in batches(6)[:3]:
        study.record(*batch)
    reader = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM batches").fetchone()
    study.record(*batches(6)[3])
    study._store.checkpoint()
    assert (live / "s.sqlite-wal.kept").exists()
    for batch in batches(6)[4:]:
        study.record(*batch)
    log = (live / "s.sqlite-wal").read_bytes()
    for cut in cuts(log, 20):
        copied = copy_study(path, tmp_path / "cut")
        os.truncate(copied.with_name("s.sqlite-wal"), cut)
        assert reopened_is_prefix(copied, expected) >= 4
    reader.close()
    study.close()
    assert sorted(os.listdir(live)) == ["s.sqlite"]
    assert content(path) == expected[6]


# ---------------------------------------------------------------------- a full disk


def test_full_disk_is_a_clear_error_and_leaves_the_study_intact(tmp_path: Path) -> None:
    expected = prefixes(tmp_path, 8)
    path = tmp_path / "s.sqlite"
    with new_study(path) as study:
        recorded = batches(8)
        for batch in recorded[:5]:
            study.record(*batch)
        connection = study._store.connection
        connection.execute(f"PRAGMA max_page_count={connection.execute('PRAGMA page_count').fetchone()[0]}")
        summary, found, state = recorded[5]
        large = {**state, "large": np.random.default_rng(0).integers(0, 2**63, 10_000)}
        for _ in range(3):
            with pytest.raises(StorageError, match="the disk is full") as caught:
                study.record(summary, found, large)
        assert "resume the study" in str(caught.value)
        assert study.batches == 5
        assert content(path) == expected[5]
        connection.execute("PRAGMA max_page_count=1000000")
        for batch in recorded[5:]:
            study.record(*batch)
    assert content(path) == expected[8]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts file systems of some KiB; skips where that is not allowed."""
    mounted: list[Path] = []

    def mount(kib: int) -> Path:
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        if shutil.which("mount") is None:
            pytest.skip("no mount command")
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            pytest.skip(f"mounting a small file system is not permitted here: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


def test_really_full_disk(tmp_path: Path, tiny_disk: Callable[[int], Path]) -> None:
    expected = prefixes(tmp_path, 200)
    for kib in (16, 40, 64, 120, 300):
        folder = tiny_disk(kib)
        path = folder / "s.sqlite"
        acknowledged = 0
        with (  # noqa: PT012 - which batch the disk takes last is what is measured
            pytest.raises(StorageError, match=r"full|failed") as caught,
            new_study(path) as study,
        ):
            for batch in batches(200):
                study.record(*batch)
                acknowledged += 1
        assert caught.value.hint
        if not path.exists():
            assert acknowledged == 0
            continue
        roomy = copy_study(path, tmp_path / "roomy")
        with StudyRecord.open(roomy, read_only=True) as study:
            assert study.batches >= acknowledged
        assert reopened_is_prefix(roomy, expected) >= acknowledged
