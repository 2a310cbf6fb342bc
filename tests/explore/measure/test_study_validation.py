"""Measurements and validated designs in a study."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from baco.common.errors import StorageError
from baco.exploration.studies.study import FILE_NAME, StudyRecord
from tests.explore.study_helpers import batches, new_study

RECORD = {"status": "measured", "cycles": 123, "reason": "", "activity": {"macs": 5}}


def _study(folder: Path) -> Path:
    path = folder / FILE_NAME
    with new_study(path) as study:
        for summary, candidates, state in batches(3):
            study.record(summary, candidates, state)
    return path


def test_what_was_measured_is_there_after_reopening(tmp_path: Path) -> None:
    path = _study(tmp_path)
    with StudyRecord.open(path) as study:
        study.keep_measurement("a", RECORD)
        study.keep_measurement("b", {**RECORD, "cycles": 7})
        study.keep_measurement("a", {**RECORD, "cycles": 124})
        study.keep_validation("first", {"layers": ["a"]})
        study.keep_validation("second", {"layers": ["b"]})
    for read_only in (True, False):
        with StudyRecord.open(path, read_only=read_only) as study:
            assert study.measurements() == {"a": {**RECORD, "cycles": 124}, "b": {**RECORD, "cycles": 7}}
            assert study.validations() == [{"layers": ["a"]}, {"layers": ["b"]}]


def test_a_design_kept_again_takes_the_place_of_the_first(tmp_path: Path) -> None:
    with StudyRecord.open(_study(tmp_path)) as study:
        for layers in (["a"], ["a", "b"]):
            study.keep_validation("one", {"layers": layers})
        assert study.validations() == [{"layers": ["a", "b"]}]


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE measurements SET record = replace(record, '123', '124')", "measurements row 'a'"),
        ("UPDATE validations SET number = 5", "validations row 'first'"),
        ("DROP TABLE measurements", "measurements"),
    ],
)
def test_damage_is_named(tmp_path: Path, statement: str, named: str) -> None:
    path = _study(tmp_path)
    with StudyRecord.open(path) as study:
        study.keep_measurement("a", RECORD)
        study.keep_validation("first", {"layers": ["a"]})
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    for read_only in (True, False):
        with pytest.raises(StorageError, match="damaged") as raised:
            StudyRecord.open(path, read_only=read_only)
        assert named in str(raised.value)
