"""The study keeps what it promises to keep, and refuses what it cannot trust."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import pickle
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from baco.common.arrays import pack_arrays, unpack_arrays
from baco.common.errors import StorageError
from baco.exploration._database import row_digest
from baco.exploration.candidate import Candidate
from baco.exploration.front import nondominated, thin
from baco.exploration.objective import Objective, metric
from baco.exploration.records import DecidedPrograms
from baco.exploration.rest import RestOfPrograms
from baco.exploration.studies import kept
from baco.exploration.studies.preparation import describe_setup
from baco.exploration.studies.study import StudyRecord
from tests.explore.study_helpers import (
    PROVENANCE,
    batches,
    content,
    equal_states,
    new_study,
    small_space,
    small_workload,
)

#: A measurement, as far as a study looks at it.
RECORD = {"status": "measured", "cycles": 123, "reason": "", "activity": {"macs": 5}}


def filled(path: Path, count: int = 8, objective: str = "edp", seed: int = 0) -> Path:
    """A closed study of `count` batches, with a measurement and a design that was chosen to be measured."""
    with new_study(path, objective) as study:
        for batch in batches(count, seed, objective):
            study.record(*batch)
        study.keep_measurement("a", RECORD)
        study.keep_validation("first", {"layers": ["a"]})
    return path


def test_what_was_measured_is_there_after_reopening(tmp_path: Path) -> None:
    """Of a measurement and of a design the last record counts."""
    path = filled(tmp_path / "s.sqlite", 3)
    with StudyRecord.open(path) as study:
        study.keep_measurement("b", {**RECORD, "cycles": 7})
        study.keep_measurement("a", {**RECORD, "cycles": 124})
        for layers in (["b"], ["b", "a"]):
            study.keep_validation("second", {"layers": layers})
    for read_only in (True, False):
        with StudyRecord.open(path, read_only=read_only) as study:
            assert study.measurements() == {"a": {**RECORD, "cycles": 124}, "b": {**RECORD, "cycles": 7}}
            assert study.validations() == [{"layers": ["a"]}, {"layers": ["b", "a"]}]


def dominates(one: Candidate, other: Candidate, names: tuple[str, ...]) -> bool:
    """By the definition: no worse in any metric, better in one."""
    pairs = [(metric(one.cost, name), metric(other.cost, name)) for name in names]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def point(candidate: Candidate, names: tuple[str, ...]) -> tuple[float, ...]:
    return tuple(metric(candidate.cost, name) for name in names)


def test_what_was_recorded_is_read_back(tmp_path: Path) -> None:
    recorded = batches(6)
    path = filled(tmp_path / "study.sqlite", 6)
    with StudyRecord.open(path) as study:
        assert study.batches == 6
        assert study.summaries() == [summary for summary, _, _ in recorded]
        assert equal_states(study.state() or {}, recorded[-1][2])
        assert study.provenance == PROVENANCE
        assert study.workload() == small_workload()
        assert study.tasks == small_workload().tasks
        everything = [candidate for _, found, _ in recorded for candidate in found]
        best = min(everything, key=lambda c: c.cost.edp)
        found = study.best()
        assert found is not None
        assert dataclasses.replace(found, front=best.front) == best
        for kept in study.candidates():
            assert dataclasses.replace(kept, front=True) in everything


def test_an_empty_study_has_nothing(tmp_path: Path) -> None:
    with new_study(tmp_path / "s.sqlite") as study:
        assert study.best() is None
        assert study.front() == study.candidates() == study.summaries() == []
        assert study.state() is None
        assert not study.done


@pytest.mark.parametrize("objective", ["edp", "latency,energy", "area,edap,latency"])
@pytest.mark.parametrize("seed", range(4))
def test_front_and_improvements_are_those_of_brute_force(tmp_path: Path, objective: str, seed: int) -> None:
    recorded = batches(15, seed, objective)
    names = Objective.parse(objective).front_metrics
    score = Objective.parse(objective).scalar
    with StudyRecord.open(filled(tmp_path / "s.sqlite", 15, objective, seed)) as study:
        everything = [candidate for _, found, _ in recorded for candidate in found]
        front = {point(c, names) for c in everything if not any(dominates(o, c, names) for o in everything)}
        assert [point(c, names) for c in study.front()] == sorted(front)
        improvements, best = set(), np.inf
        for _, found, _ in recorded:
            least = min((score(c.cost) for c in found), default=np.inf)
            if least < best:
                best = least
                improvements.add(least)
        kept = study.candidates()
        assert all(c.front == (point(c, names) in front) for c in kept if c.front)
        assert {score(c.cost) for c in kept if not c.front} <= improvements
        assert improvements <= {score(c.cost) for c in kept}
        assert study.best_objective == best == score(study.best().cost)  # type: ignore[union-attr]


def test_front_in_other_metrics_is_that_of_the_kept(tmp_path: Path) -> None:
    with StudyRecord.open(filled(tmp_path / "s.sqlite", 20)) as study:
        kept = study.candidates()
        names = ("edp", "area")
        expected = {point(c, names) for c in kept if not any(dominates(o, c, names) for o in kept)}
        assert {point(c, names) for c in study.front(names)} == expected


def test_nondominated_agrees_with_the_definition() -> None:
    rng = np.random.default_rng(1)
    small = [rng.integers(0, 6, (rng.integers(1, 40), rng.integers(1, 4))) for _ in range(50)]
    # of more rows than are compared at a time, most of them members
    along = rng.integers(0, 300, 700)
    large = np.stack([along, 300 - along, rng.integers(0, 3, 700)], axis=1)
    for points in [*small, large]:
        expected = [
            i
            for i, row in enumerate(points)
            if not any((other <= row).all() and (other < row).any() for other in points)
            and not any((points[j] == row).all() for j in range(i))
        ]
        assert nondominated(points).tolist() == expected
    assert nondominated(np.empty((0, 3))).tolist() == []


def test_thinning_covers_the_front() -> None:
    angle = np.linspace(0.01, np.pi / 2 - 0.01, 400)
    points = np.stack([2 - np.cos(angle), 2 - np.sin(angle)], axis=1)
    chosen = thin(points, 20, always=[123])
    assert len(chosen) == 20
    assert {0, 123, 399} <= set(chosen.tolist())
    # Even cover: no point is farther from a chosen one than a twentieth of the arc, give or take the scaling.
    away = np.abs(np.arange(400)[:, None] - chosen[None, :]).min(axis=1)
    assert away.max() <= 40
    assert thin(points, 400).tolist() == list(range(400))


def test_a_large_front_is_thinned_alike_with_and_without_reopening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "FRONT_LIMIT", 5)
    names = Objective.parse("edp").front_metrics
    recorded = batches(40)
    straight = filled(tmp_path / "straight.sqlite", 40)
    broken = tmp_path / "broken.sqlite"
    new_study(broken).close()
    for batch in recorded:
        with StudyRecord.open(broken) as study:
            study.record(*batch)
    assert content(straight) == content(broken)
    with StudyRecord.open(straight) as study:
        front = study.front()
        assert len(front) <= 5
        everything = [candidate for _, found, _ in recorded for candidate in found]
        for name in names:
            assert min(metric(c.cost, name) for c in front) == min(metric(c.cost, name) for c in everything)
        best = study.best()
        assert best is not None
        assert best.cost.edp == min(c.cost.edp for c in everything)


def test_batches_come_in_order(tmp_path: Path) -> None:
    first, second, third = batches(3)
    with new_study(tmp_path / "s.sqlite") as study:
        study.record(*first)
        with pytest.raises(ValueError, match="batch 2 recorded where 1 was expected"):
            study.record(*third)
        with pytest.raises(ValueError, match="batch 0"):
            study.record(*first)
        study.record(*second)
        assert study.batches == 2


def test_broken_candidates_are_refused_whole(tmp_path: Path) -> None:
    summary, found, state = batches(1)[0]
    bad_cost = dataclasses.replace(found[0], cost=dataclasses.replace(found[0].cost, energy_pj=float("nan")))
    bad_tasks = dataclasses.replace(found[0], tasks=found[0].tasks[:1])
    with new_study(tmp_path / "s.sqlite") as study:
        for bad in (bad_cost, bad_tasks):
            with pytest.raises(ValueError, match=r"finite|tasks"):
                study.record(summary, [*found, bad], state)
        assert study.batches == 0
        assert study.candidates() == []
        study.record(summary, found, state)
    with StudyRecord.open(tmp_path / "s.sqlite") as study:
        assert study.batches == 1


def test_negative_zero_and_extreme_floats_survive(tmp_path: Path) -> None:
    summary, found, state = batches(1)[0]
    odd = dataclasses.replace(found[0], objective=-0.0)
    tiny = dataclasses.replace(found[0], cost=dataclasses.replace(found[0].cost, latency_cycles=5e-324))
    huge = dataclasses.replace(found[0], cost=dataclasses.replace(found[0].cost, area_mm2=0.1 + 0.2))
    with new_study(tmp_path / "s.sqlite") as study:
        study.record(summary, [odd, tiny, huge], state)
    with StudyRecord.open(tmp_path / "s.sqlite") as study:
        assert tiny.cost in [candidate.cost for candidate in study.candidates()]


def test_snapshot_round_trip_is_exact_and_free_of_time() -> None:
    state = {
        "file": np.arange(5, dtype=np.int8),
        "a/b": np.array(3.5),
        "names": np.array(["é", "x"], dtype="U3"),
        "empty": np.zeros((0, 7)),
        "order": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "bits": np.array([np.nan, -0.0, np.inf]).view(np.uint64),
    }
    assert equal_states(unpack_arrays(pack_arrays(state)), state)
    assert pack_arrays(state) == pack_arrays(dict(reversed(state.items())))
    assert unpack_arrays(pack_arrays({})) == {}


def test_snapshots_hold_no_objects() -> None:
    with pytest.raises(TypeError, match="'x' holds Python objects"):
        pack_arrays({"x": np.array([object()], dtype=object)})
    buffer = io.BytesIO()
    np.savez(buffer, x=np.array([{"a": 1}], dtype=object))
    for data in (
        buffer.getvalue(),
        pickle.dumps({"x": 1}),
        b"",
        b"PK\x03\x04",
        pack_arrays({"x": np.ones(9)})[:-30],
    ):
        with pytest.raises(ValueError, match="no archive of arrays"):
            unpack_arrays(data)


# ---------------------------------------------------------------------- one writer


def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    with new_study(path) as study:
        code = (
            "import sys; from pathlib import Path; from baco.exploration.studies.study import StudyRecord; from baco.common.errors import *\n"
            "try: StudyRecord.open(Path(sys.argv[1]))\n"
            "except StorageError as error: print(error)\n"
        )
        told = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60, check=True
        )
        assert f"process {os.getpid()} on " in told.stdout
        assert "is writing this study" in told.stdout
        assert "hint: wait for it" in told.stdout
        with pytest.raises(StorageError, match="is writing this study"):
            StudyRecord.open(path)
        # Reading does not need the lock, and sees what is recorded meanwhile.
        with StudyRecord.open(path, read_only=True) as reader:
            for batch in batches(3):
                study.record(*batch)
            assert len(reader.summaries()) == 3
            with pytest.raises(StorageError):
                reader.begin_session({**PROVENANCE, "samples": 1, "time_limit": None})
    StudyRecord.open(path).close()
    assert sorted(os.listdir(tmp_path)) == ["study.sqlite"]


@pytest.mark.parametrize("units", [True, False])
def test_a_space_has_the_choice_of_units_where_they_were_searched(tmp_path: Path, units: bool) -> None:
    workload, space = small_workload(), dataclasses.replace(small_space(), search_units=True)
    described = describe_setup(workload, space, Objective.parse("edp"), "fake", 0, "instruction", whole=True)
    with StudyRecord.create(tmp_path / "study.sqlite", described, workload.tasks, PROVENANCE) as study:
        study.keep_programs(DecidedPrograms(RestOfPrograms({"tiny": 1.0}, {"tiny": {4: ()}}, {}), units))
        assert study.space().search_units == study.searches_units == units
    with StudyRecord.open(tmp_path / "study.sqlite", read_only=True) as study:
        assert study.space().search_units == study.searches_units == units


def test_an_existing_study_is_not_overwritten(tmp_path: Path) -> None:
    path = filled(tmp_path / "s.sqlite", 2)
    before = path.read_bytes()
    with pytest.raises(StorageError, match="already here"):
        new_study(path)
    assert path.read_bytes() == before


def test_leftovers_of_an_interrupted_creation_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    for name in (
        "s.sqlite.new",
        "s.sqlite.new-wal",
        "s.sqlite.new-journal",
        "s.sqlite-wal",
        "s.sqlite-wal.kept",
    ):
        (tmp_path / name).write_bytes(b"left over" * 1000)
    (tmp_path / "s.sqlite.lock").write_text("not json")
    filled(path, 3)
    with StudyRecord.open(path) as study:
        assert study.batches == 3


def test_reading_in_a_folder_without_write_access() -> None:
    superuser = os.geteuid() == 0
    # Not pytest's folder: that of the superuser is closed to the user this test turns into.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = filled(folder / "s.sqlite", 3)
        folder.chmod(0o555)
        if superuser:
            os.seteuid(65534)
        try:
            with StudyRecord.open(path, read_only=True) as study:
                assert len(study.summaries()) == 3
                assert os.listdir(folder) == ["s.sqlite"]
            with pytest.raises(StorageError, match=r"[Pp]ermission denied"):
                StudyRecord.open(path)
            with pytest.raises(StorageError, match=r"[Pp]ermission denied"):
                new_study(folder / "other.sqlite")
        finally:
            if superuser:
                os.seteuid(0)
            folder.chmod(0o755)


def test_reading_leaves_nothing_behind_and_changes_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path / "s.sqlite", 3)
    before = path.read_bytes()
    with StudyRecord.open(path, read_only=True) as study:
        assert len(study.candidates()) > 0
        with pytest.raises(StorageError, match="no access"):
            study.record(*batches(4)[3])
        with StudyRecord.open(path) as writer:  # a reader is in nobody's way
            writer.record(*batches(4)[3])
        assert study.batches == 3
    path.write_bytes(before)
    with StudyRecord.open(path, read_only=True) as study:
        study.verify()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["s.sqlite"]


# ---------------------------------------------------------------------- damage


def change(statement: str) -> Callable[[Path], None]:
    """Damage done through SQLite itself, which only checksums can see."""

    def apply(path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.commit()
        connection.close()

    return apply


def overwrite(data: bytes) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        path.write_bytes(data)

    return apply


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (overwrite(b""), "not that of the study"),
        (overwrite(b"PK\x03\x04 something else entirely" * 500), "not an SQLite file"),
        (truncate, "damaged"),
        (change("PRAGMA application_id = 7"), "not that of the study"),
        (change("PRAGMA user_version = 99"), "format version 99"),
        (change("UPDATE meta SET value = '{}' WHERE key = 'setup'"), "checksum of meta row 'setup'"),
        (change("DELETE FROM meta"), "set-up or provenance is missing"),
        (change("UPDATE tasks SET task = '{}' WHERE position = 1"), "checksum of tasks row 1"),
        (
            change("UPDATE batches SET evaluations = evaluations + 1 WHERE batch = 2"),
            "checksum of batches row 2",
        ),
        (change("UPDATE candidates SET energy_pj = 1 WHERE id = 1"), "checksum of candidates row 1"),
        (change("UPDATE snapshot SET arrays = x'00'"), "checksum of snapshot row"),
        (change("DELETE FROM snapshot"), "snapshot is not that of the last batch"),
        (change("DELETE FROM batches WHERE batch = 3"), "batches are missing"),
        (change("DELETE FROM batches WHERE batch = 7"), "snapshot is not that of the last batch"),
        (
            change("UPDATE measurements SET record = replace(record, '123', '124')"),
            "checksum of measurements row 'a'",
        ),
        (change("UPDATE validations SET number = 5"), "checksum of validations row 'first'"),
        (change("DROP TABLE measurements"), "its tables are not those of the study: measurements"),
        (change("DROP TABLE candidates"), "its tables are not those of the study: candidates"),
        (change("ALTER TABLE batches DROP COLUMN phase"), "its tables are not those of the study: batches"),
    ],
)
def test_damage_is_named(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    path = filled(tmp_path / "s.sqlite")
    damage(path)
    for read_only in (False, True):
        with pytest.raises(StorageError, match=message) as caught:
            StudyRecord.open(path, read_only=read_only)
        assert str(path) in str(caught.value)
        assert caught.value.hint
    assert not (tmp_path / "s.sqlite.lock").exists()


def test_rows_with_a_right_checksum_and_wrong_content_are_named(tmp_path: Path) -> None:
    path = filled(tmp_path / "s.sqlite", 2)
    connection = sqlite3.connect(path)
    names = kept.COLUMNS
    row = list(connection.execute(f"SELECT {', '.join(names)} FROM candidates ORDER BY id").fetchone())
    accelerator = json.loads(row[names.index("accelerator")])
    accelerator["dim"] = 2 * accelerator["dim"]
    row[names.index("accelerator")] = json.dumps(accelerator)
    connection.execute(
        "UPDATE candidates SET accelerator = ?, digest = ? WHERE id = ?",
        (row[names.index("accelerator")], row_digest(*row), row[0]),
    )
    connection.commit()
    connection.close()
    with pytest.raises(StorageError, match=f"candidate {row[0]}: its accelerator has hash"):
        StudyRecord.open(path)


def test_a_missing_study_is_an_error_with_a_hint(tmp_path: Path) -> None:
    for path in (tmp_path / "none.sqlite", tmp_path):
        with pytest.raises(StorageError, match="no study here"):
            StudyRecord.open(path)
    with pytest.raises(StorageError):
        new_study(tmp_path / "no" / "folder" / "s.sqlite")


def test_flipped_bytes_never_pass_unnoticed(tmp_path: Path) -> None:
    path = filled(tmp_path / "s.sqlite", 5)
    good, expected = path.read_bytes(), content(path)
    rng = np.random.default_rng(3)
    refused = 0
    for trial in range(150):
        data = bytearray(good)
        at = int(rng.integers(100)) if trial % 5 == 0 else int(rng.integers(len(data)))
        data[at] ^= int(rng.integers(1, 256))
        path.write_bytes(data)
        for leftover in tmp_path.glob("s.sqlite-*"):
            leftover.unlink()
        try:
            with StudyRecord.open(path) as study:
                study.candidates(), study.summaries(), study.state(), study.sessions(), study.workload()
            assert content(path) == expected, f"byte {at}"
        except StorageError:
            refused += 1
    assert refused > 25
