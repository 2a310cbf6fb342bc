"""Studies that somebody else made: read in bounded time and memory, or refused with the place; never a traceback."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

import baco.exploration.measure.session as running
from baco.common.arrays import unpack_arrays
from baco.common.errors import BacoError, StorageError
from baco.exploration.measure.session import ValidationOptions, validate_file
from baco.exploration.measure.store import MeasurementStore
from baco.exploration.objective import Objective
from baco.exploration.report.study_report import write_study_report
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.study import StudyRecord
from tests.explore import forgery
from tests.explore.forgery import COLUMNS, forge, replace_row
from tests.explore.validate_helpers import fake_measuring, made_up, products, small_space
from tests.seeds import some

WORKLOAD = products(3)
SPACE = small_space(dim=(4, 8), scratchpad_kib=(16, 32))


@pytest.fixture(
    scope="module",
    params=some(2, ["gradient", "bayesian", "genetic", "two-loop", "dosa"]),
)
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """A searcher, and a study that it made, with measured designs."""
    folder = tmp_path_factory.mktemp("whole")
    search(folder, request.param, 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "gather", fake_measuring())
        validate_file(folder / "study.sqlite", ValidationOptions(1, 1))
        yield request.param, folder / "study.sqlite"


def search(folder: Path, searcher: str, samples: int, *, resume: bool = False) -> None:
    run_exploration(
        WORKLOAD,
        SPACE,
        Objective.parse("edp"),
        searcher,
        samples,
        seed=1,
        out=folder,
        resume=resume,
        cost_model="reference",
    )


def used(study: Path, searcher: str) -> None:
    """Everything a person would do with a study; errors for people are fine, others are raised."""
    uses: list[Callable[[], object]] = [
        lambda: write_study_report(study, study.parent / "report"),
        lambda: validate_file(study, ValidationOptions(1, 1)),
        lambda: search(study.parent, searcher, 80, resume=True),
    ]
    for use in uses:
        start = time.thread_time()
        with suppress(BacoError):
            use()
        assert time.thread_time() - start < 20


def forged(whole: tuple[str, Path], folder: Path, seeds: range) -> None:
    searcher, source = whole
    for seed in seeds:
        study = folder / str(seed) / "study.sqlite"
        study.parent.mkdir()
        shutil.copyfile(source, study)
        what = forge(study, random.Random(f"{searcher}{seed}"))
        try:
            used(study, searcher)
        except Exception as error:
            raise AssertionError(f"{searcher}, seed {seed}: {what}") from error
        shutil.rmtree(study.parent)


def test_random_forgeries(whole: tuple[str, Path], tmp_path: Path) -> None:
    forged(whole, tmp_path, range(2))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_random_forgeries(whole: tuple[str, Path], tmp_path: Path) -> None:
    """1,000 over the searchers."""
    forged(whole, tmp_path, range(100, 300))


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    search(folder, "random", 20)
    return folder / "study.sqlite"


def copy(one: Path, folder: Path) -> Path:
    shutil.copyfile(one, folder / "study.sqlite")
    return folder / "study.sqlite"


def row_of(study: Path, table: str) -> list[object]:
    with closing(sqlite3.connect(study)) as connection:
        return list(connection.execute(f"SELECT {', '.join(COLUMNS[table])} FROM {table} LIMIT 1").fetchone())


def edit(study: Path, table: str, column: str, value: object) -> None:
    row = row_of(study, table)
    key = row[0]
    row[COLUMNS[table].index(column)] = value
    replace_row(study, table, tuple(row), key)


@pytest.mark.parametrize(
    ("table", "column", "value", "message"),
    [
        ("meta", "value", "[1]", "the provenance|the set-up"),
        ("meta", "value", "[" * 200_000, "nested too deeply"),
        ("meta", "value", '{"a":' * 5_000 + "1" + "}" * 5_000, "nested too deeply"),
        ("tasks", "task", "{}", "a task has no 'network'"),
        ("sessions", "record", '{"samples": 1}', "a session"),
        ("batches", "details", '{"a": 1e999}', "batch 0: 1e999 is beyond the range of numbers"),
        ("batches", "details", '{"a": NaN}', "batch 0: NaN is no number"),
        ("batches", "seconds", float("inf"), "batch 0.*not JSON compliant"),
        ("candidates", "latency_cycles", float("inf"), "candidate .*not JSON compliant"),
        ("candidates", "energy_pj", -1.0, "candidate .*greater than or equal to 0"),
        ("candidates", "energy_pj", "many", "candidate .*energy_pj: Input should be a valid number"),
        ("candidates", "mappings", '{"mappings": {}}', "candidate .*mappings: Input should be a valid array"),
        ("candidates", "accelerator", "[]", "candidate .*a list is no object"),
        ("candidates", "accelerator", '{"dim": 1e400}', "candidate .*beyond the range"),
        ("snapshot", "arrays", b"PK", "snapshot"),
        ("snapshot", "arrays", "text", "no array of bytes"),
        ("snapshot", "arrays", forgery.pickled(), "size is not what it says"),
        ("snapshot", "arrays", forgery.huge_header(), "size is not what it says"),
    ],
)
def test_what_is_forged_is_named(
    one: Path, tmp_path: Path, table: str, column: str, value: object, message: str
) -> None:
    study = copy(one, tmp_path)
    edit(study, table, column, value)

    def use() -> None:
        write_study_report(study, tmp_path / "report")
        search(tmp_path, "random", 40, resume=True)

    with pytest.raises(StorageError, match=message) as caught:
        use()
    assert str(study) in str(caught.value)


def test_an_archive_that_inflates_without_end() -> None:
    with pytest.raises(ValueError, match="far too large"):
        unpack_arrays(forgery.bomb(600))


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"


@pytest.mark.parametrize(
    "statements",
    [
        f"CREATE VIEW endless AS {ENDLESS}",
        "ALTER TABLE tasks RENAME TO old; CREATE VIEW tasks AS "
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS position, '{}' AS task, '' AS digest FROM c",
        "CREATE TRIGGER evil AFTER INSERT ON sessions BEGIN DELETE FROM candidates; END",
        "CREATE INDEX more ON candidates (objective)",
        "CREATE TABLE more (a)",
    ],
)
def test_nothing_but_our_tables_is_read(one: Path, tmp_path: Path, statements: str) -> None:
    study = copy(one, tmp_path)
    with closing(sqlite3.connect(study)) as connection:
        connection.executescript(statements)
    for read_only in (True, False):
        with pytest.raises(StorageError, match="its tables are not those of the study"):
            StudyRecord.open(study, read_only=read_only)


def test_pages_that_form_a_maze_end_in_time(one: Path, tmp_path: Path) -> None:
    """Interior pages of the schema that all lead to the same pages below: an exponential number of ways."""
    study = copy(one, tmp_path)
    data = bytearray(study.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    pages = len(data) // size
    levels = 18
    leaf = pages + levels  # number of the last page of all, an empty leaf
    for level in range(levels):
        below = pages + 2 + level if level < levels - 1 else leaf
        page = bytearray(size)
        entries = 60
        page[0] = 5  # interior of a table
        page[3:5] = entries.to_bytes(2, "big")
        page[5:7] = (size - 5 * entries).to_bytes(2, "big")
        page[8:12] = below.to_bytes(4, "big")
        for i in range(entries):
            at = size - 5 * (i + 1)
            page[12 + 2 * i : 14 + 2 * i] = at.to_bytes(2, "big")
            page[at : at + 5] = below.to_bytes(4, "big") + bytes([i])
        data += page
    data += bytes([13, 0, 0, 0, 0]) + size.to_bytes(2, "big") + bytes(size - 7)
    # the first page, behind the file's header, becomes an interior page with one way: to the maze
    data[100:112] = bytes([5, 0, 0, 0, 0]) + size.to_bytes(2, "big") + b"\0" + (pages + 1).to_bytes(4, "big")
    data[28:32] = (pages + levels).to_bytes(4, "big")
    study.write_bytes(data)
    start = time.thread_time()
    with pytest.raises(StorageError, match="damaged"):
        StudyRecord.open(study, read_only=True)
    assert time.thread_time() - start < 20


BESIDE = (
    "study.sqlite",
    "study.sqlite.lock",
    "study.sqlite-wal",
    "study.sqlite-wal.kept",
    "study.sqlite-wal.kept.new",
)


@pytest.mark.parametrize("name", [*BESIDE, "study.sqlite-shm", "study.sqlite-journal", "study.sqlite.new"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_no_link_is_followed(one: Path, tmp_path: Path, name: str, kind: str) -> None:
    """Not by a search that goes on, a report or a validation, whatever the link's name is."""
    study, letter = copy(one, tmp_path), tmp_path / "letter"
    letter.write_text("kept")
    place = tmp_path / name
    place.unlink(missing_ok=True)
    if kind == "link":
        place.symlink_to(letter)
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    for use in (
        lambda: StudyRecord.open(study).close(),
        lambda: write_study_report(study, tmp_path / "report"),
        lambda: search(tmp_path, "random", 40, resume=True),
    ):
        with pytest.raises(StorageError):
            use()
    assert letter.read_text() == "kept"


def test_a_lock_with_two_names_is_refused(one: Path, tmp_path: Path) -> None:
    study, letter = copy(one, tmp_path), tmp_path / "letter"
    letter.write_text("kept")
    os.link(letter, tmp_path / "study.sqlite.lock")
    with pytest.raises(StorageError, match="should be a lock file"):
        StudyRecord.open(study)
    assert letter.read_text() == "kept"


def test_a_file_of_many_gigabytes_is_refused(one: Path, tmp_path: Path) -> None:
    study = copy(one, tmp_path)
    os.truncate(study, 1 << 40)  # takes no room on the disk
    with pytest.raises(StorageError, match=r"1,099,511,627,776 bytes, more than"):
        StudyRecord.open(study, read_only=True)


# ---------------------------------------------------------------- measurements


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "measurements.sqlite"
    with MeasurementStore(path) as opened:
        for key in "abc":
            opened.put(key, made_up_measurement())
    return path


def made_up_measurement():  # type: ignore[no-untyped-def]
    from baco.accel.presets import load_accelerator
    from baco.exploration.measure.job import MeasurementJob
    from baco.exploration.task_layers import layers_of_tasks

    layer = layers_of_tasks(WORKLOAD.tasks, WORKLOAD)[0]
    return made_up(MeasurementJob(layer, None, load_accelerator("gemmini-default")))  # type: ignore[arg-type]


def test_edited_measurements_are_not_believed(store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection, connection:
        record = json.loads(
            connection.execute("SELECT record FROM measurements WHERE key = 'b'").fetchone()[0]
        )
        record["cycles"] = 1
        connection.execute("UPDATE measurements SET record = ? WHERE key = 'b'", (json.dumps(record),))
    notes: list[str] = []
    with MeasurementStore(store, note=notes.append) as opened:
        assert opened.get("b") is None
        assert sorted(opened.all()) == ["a", "c"]
        again = made_up_measurement()
        assert opened.put("b", again) == again == opened.get("b")
    assert "the measurement b in" in notes[0]


@pytest.mark.parametrize(
    "record",
    [
        "{}",
        "[]",
        '{"status": "measured", "cycles": -1}',
        '{"status": "measured", "cycles": 1e999}',
        "[" * 100_000,
    ],
)
def test_forged_measurements_are_not_believed(store: Path, record: str) -> None:
    from baco.exploration._database import row_digest

    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute(
            "UPDATE measurements SET record = ?, digest = ? WHERE key = 'b'",
            (record, row_digest("b", record)),
        )
    with MeasurementStore(store, note=lambda _: None) as opened:
        assert opened.get("b") is None


def test_another_programs_database_is_left_as_it_is(tmp_path: Path) -> None:
    for mode in ("DELETE", "WAL"):
        path = tmp_path / f"bookmarks-{mode}"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(f"PRAGMA journal_mode={mode}; CREATE TABLE bookmarks (url TEXT);")
        before = path.read_bytes()
        with pytest.raises(StorageError, match="its header is not that of the store of measurements"):
            MeasurementStore(path)
        assert path.read_bytes() == before
        assert sorted(os.listdir(tmp_path)) == sorted(
            {path.name, *os.listdir(tmp_path)} - {f"{path.name}-wal"}
        )


def test_links_beside_measurements_are_refused(store: Path) -> None:
    letter = store.with_name("letter")
    letter.write_text("kept")
    store.with_name(f"{store.name}-wal").symlink_to(letter)
    with pytest.raises(StorageError, match="a link or something else"):
        MeasurementStore(store)
    assert letter.read_text() == "kept"


def test_random_damage_to_measurements_is_measured_again_or_told(store: Path) -> None:
    """Bytes changed, cut off or zeroed at random: no measurement comes out that did not go in."""
    rng = np.random.default_rng(3)
    right = made_up_measurement()
    whole, refused = store.read_bytes(), 0
    for _ in range(150):
        data = bytearray(whole)
        kind, at = rng.integers(3), int(rng.integers(len(data)))
        if kind == 0:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del data[at:]
        else:
            data[at : at + 64] = bytes(len(data[at : at + 64]))
        for name in store.parent.glob("measurements.sqlite-*"):
            name.unlink()
        store.write_bytes(data)
        try:
            with MeasurementStore(store, note=lambda _: None) as opened:
                found = [opened.get(key) for key in "abc"]
        except StorageError:
            refused += 1
        else:
            assert all(one in (None, right) for one in found)
    assert 10 < refused < 140
