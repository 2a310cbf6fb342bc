"""kill -9 at random times, over and over: nothing acknowledged is lost, and the result is the same.

The long version: `pytest -m slow tests/system/test_kill_resume.py`.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from baco.exploration.studies.study import FILE_NAME, StudyRecord
from tests.explore.study_helpers import content
from tests.forks import Fork, fork_server
from tests.seeds import some

CHILD = Path(__file__).with_name("explore_child.py")
#: Longest time between a session's first batch and its end, and the least time a batch takes.
LONGEST, DELAY = 0.3, 0.005


class Runs:
    """Sessions of one study in processes of their own."""

    def __init__(self, folder: Path, searcher: str, samples: int) -> None:
        folder.mkdir(parents=True)
        self.out = folder / "out"
        self.log = folder / "log"
        self.log.touch()
        self.arguments = [str(self.out), str(self.log), searcher, str(samples)]

    @property
    def study(self) -> Path:
        return self.out / FILE_NAME

    def start(self, delay: float = 0.0, *limit: str) -> Fork:
        return fork_server().start(CHILD, [*self.arguments, str(delay), *limit])

    def finish(self, *limit: str) -> tuple[int, str]:
        child = self.start(0.0, *limit)
        text, _ = child.communicate(timeout=200)
        return child.wait(), text

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()

    def sessions(self) -> list[list[str]]:
        """The log, session by session."""
        found: list[list[str]] = []
        for line in self.lines():
            if line == "session":
                found.append([])
            elif found:
                found[-1].append(line)
        return found

    def acknowledged(self) -> int:
        return sum(line.startswith("acknowledged") for line in self.lines())

    def kill_after(self, wait_for_batch: bool, seconds: float) -> bool:
        """Run a session and kill it; False if it ended first."""
        before = self.acknowledged()
        child = self.start(DELAY)
        deadline = time.monotonic() + 60
        while wait_for_batch and self.acknowledged() == before and child.poll() is None:
            assert time.monotonic() < deadline, "the child does not get anywhere"
            time.sleep(0.002)
        time.sleep(seconds)
        ended = child.poll() is not None
        child.kill()
        text, _ = child.communicate(timeout=60)
        assert child.returncode == (0 if ended else -signal.SIGKILL), text
        return not ended

    def check(self, expected: Runs) -> int:
        """Reopen, and compare everything acknowledged with the study that nothing happened to."""
        numbers = [int(line.split()[1]) for line in self.lines() if line.startswith("acknowledged")]
        if not self.study.exists():
            assert not numbers
            return 0
        with StudyRecord.open(self.study) as study:
            recorded = study.batches
            # A batch may have been recorded when the kill came before its acknowledgement.
            assert numbers == sorted(set(numbers)), "an acknowledged batch was repeated"
            assert set(numbers) <= set(range(recorded)), "an acknowledged batch was lost"
            history = content(self.study)["batches"]
            assert history == content(expected.study)["batches"][:recorded]
            best = study.best()
            assert (best.cost.edp if best else None) == (history[-1][2] if history else None)
            assert (study.state() is not None) == bool(history)
        started = sum(line == "started" for session in self.sessions() for line in session)
        # Every session may have one batch under way when it is killed, and repeats no other.
        assert started <= recorded + len(self.sessions())
        return recorded


def kill_and_resume(tmp_path: Path, kills: int, searcher: str, samples: int) -> None:
    expected = Runs(tmp_path / "expected", searcher, samples)
    code, text = expected.finish()
    assert code == 0, text
    runs = Runs(tmp_path / "killed", searcher, samples)
    rng = np.random.default_rng(kills)
    recorded, done = 0, 0
    for number in range(kills):
        # Most kills hit a running search; some hit whatever a process does before its first batch.
        running = number % 5 != 4
        done += runs.kill_after(running, float(rng.uniform(0, LONGEST if running else 1.0)))
        now = runs.check(expected)
        assert now >= recorded
        recorded = now
    assert done >= 0.75 * kills, "the search is too short for so many kills"
    code, text = runs.finish()
    assert code == 0, text
    assert sorted(os.listdir(runs.out)) == [FILE_NAME]
    assert content(runs.study) == content(expected.study)
    started = sum(line == "started" for line in runs.lines())
    total = len(content(expected.study)["batches"])
    assert total <= started <= total + done


def test_killed_and_resumed(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, 8, "fake", 3 * 400)


@pytest.mark.slow
def test_killed_fifty_times(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, 50, "fake", 3 * 2500)


@pytest.mark.slow
def test_the_main_searcher_killed_and_resumed(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, 3, "gradient", 6_000)


@pytest.mark.parametrize("number", some(1, [signal.SIGINT, signal.SIGTERM]))
def test_a_polite_signal_ends_with_a_whole_batch(tmp_path: Path, number: int) -> None:
    expected = Runs(tmp_path / "expected", "fake", 600)
    expected.finish()
    runs = Runs(tmp_path / "stopped", "fake", 600)
    child = runs.start(DELAY)
    while runs.acknowledged() < 3 and child.poll() is None:
        time.sleep(0.002)
    child.send_signal(number)
    text, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    assert text.strip() == "interrupted"
    assert runs.acknowledged() == runs.check(expected)
    kinds = [line.split()[0] for line in runs.lines()]
    # that the signal has come is said by a thread of its own, before or after the batch's line
    assert "acknowledged" in kinds[-2:]
    assert set(kinds[-2:]) <= {"acknowledged", "note"}
    assert runs.finish()[0] == 0
    assert content(runs.study) == content(expected.study)


def test_a_second_explorer_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    runs = Runs(tmp_path / "first", "fake", 100_000)
    child = runs.start(DELAY)
    while runs.acknowledged() < 1 and child.poll() is None:
        time.sleep(0.002)
    code, text = runs.finish()
    assert code == 2
    assert f"process {child.pid} on " in text
    assert "explore_child.py" in text
    child.kill()
    child.communicate(timeout=60)


@pytest.mark.parametrize("limit_bytes", some(1, [40_000, 1_000]))
def test_a_write_that_fails_is_a_message_and_loses_nothing(tmp_path: Path, limit_bytes: int) -> None:
    expected = Runs(tmp_path / "expected", "fake", 900)
    expected.finish()
    runs = Runs(tmp_path / "limited", "fake", 900)
    code, text = runs.finish(str(limit_bytes))
    assert code == 2, text
    assert "Traceback" not in text
    assert FILE_NAME in text
    assert "hint:" in text
    assert runs.acknowledged() <= runs.check(expected)
    assert runs.finish()[0] == 0
    assert content(runs.study) == content(expected.study)
