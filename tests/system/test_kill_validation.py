"""kill -9 while candidates are measured, over and over: no finished measurement is lost or made again.

The long version: `pytest -m slow tests/system/test_kill_validation.py`.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from baco.exploration._json import to_json
from baco.exploration.measure.session import STORE_NAME, measured_designs
from baco.exploration.measure.store import MeasurementStore
from baco.exploration.studies.study import StudyRecord
from tests.explore.validate_helpers import explored, products
from tests.forks import Fork, fork_server

CHILD = Path(__file__).with_name("validate_child.py")


class Runs:
    """Validations of one study in processes of their own."""

    def __init__(self, study: Path) -> None:
        self.study = study
        self.log = study.with_name("log")
        self.log.touch()

    def start(self, workers: int = 2, *, session: bool = False) -> Fork:
        return fork_server().start(CHILD, [str(self.study), str(self.log), str(workers)], session=session)

    def finish(self) -> str:
        child = self.start(workers=0)
        text, _ = child.communicate(timeout=500)
        assert child.returncode == 0, text
        return text

    def acknowledged(self) -> list[tuple[str, str]]:
        """(key, seconds it took) of every measurement that was reported, repetitions included."""
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return [(words[1], words[2]) for words in lines if words[0] == "acknowledged"]

    def kill_after(self, new: int, seconds: float) -> bool:
        """Run until so many more lines are acknowledged, and a moment longer; False if it ended first."""
        before = len(self.acknowledged())
        child = self.start()
        deadline = time.monotonic() + 120
        while len(self.acknowledged()) < before + new and child.poll() is None:
            assert time.monotonic() < deadline, "the child does not get anywhere"
            time.sleep(0.005)
        time.sleep(seconds)
        ended = child.poll() is not None
        child.kill()
        child.wait()
        return not ended

    def check(self) -> None:
        """All that was acknowledged is in the study or can be taken from the workers' file, as it was measured."""
        acknowledged = dict(self.acknowledged())
        # a measurement made twice would have taken another time
        assert set(self.acknowledged()) == set(acknowledged.items())
        with MeasurementStore(self.study.with_name(STORE_NAME)) as store:
            for key, seconds in acknowledged.items():
                found = store.get(key)
                assert found is not None
                assert repr(found.seconds) == seconds
        with StudyRecord.open(self.study, read_only=True) as study:
            kept = study.measurements()
        assert acknowledged.keys() <= kept.keys()


def kill_and_resume(tmp_path: Path, kills: int, layers: int) -> None:
    study = explored(tmp_path / "study", products(layers), samples=30)
    expected = tmp_path / "expected" / study.name
    shutil.copytree(study.parent, expected.parent)
    assert Runs(expected).finish().startswith("done measured measured")  # builds the simulator, too
    runs = Runs(study)
    rng = np.random.default_rng(kills)
    done = 0
    for number in range(kills):
        # most kills hit running measurements; some hit whatever a process does before its first one
        new = 0 if number % 5 == 4 else int(rng.integers(1, 4)) + len(set(runs.acknowledged()))
        done += runs.kill_after(new, float(rng.uniform(0, 2.0 if new == 0 else 0.3)))
        runs.check()
    assert done >= 0.7 * kills, "the validation is too short for so many kills"
    assert runs.finish().startswith("done measured measured")
    runs.check()
    with StudyRecord.open(expected, read_only=True) as one, StudyRecord.open(study, read_only=True) as other:
        pairs = list(zip(measured_designs(one), measured_designs(other), strict=True))
    assert pairs
    for first, second in pairs:
        assert first.measured == second.measured
        assert to_json(first) == to_json(second)


def test_killed_and_resumed(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, 2, 4)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_twenty_times(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, 20, 60)


def test_an_interrupted_validation_leaves_a_study_that_goes_on(tmp_path: Path) -> None:
    runs = Runs(explored(tmp_path / "study", products(6), samples=30))
    child = runs.start(workers=1, session=True)
    while len(runs.acknowledged()) < 2 and child.poll() is None:
        time.sleep(0.005)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: the workers get it too
    text, _ = child.communicate(timeout=120)
    assert (child.returncode, text.split()[0]) == (0, "interrupted"), text
    assert "Traceback" not in text
    runs.check()
    assert runs.finish().startswith("done measured measured")
    runs.check()
