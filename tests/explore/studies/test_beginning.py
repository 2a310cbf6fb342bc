"""The first seconds of a search: the study is there before anything slow, whatever ends the process."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from baco.common import companion as companions
from baco.common.errors import InputError, StoppedError
from baco.exploration.candidate import BatchSummary
from baco.exploration.objective import Objective
from baco.exploration.progress import Budget
from baco.exploration.report.study_report import report_data
from baco.exploration.report.why import explanation
from baco.exploration.search import groups, local_search
from baco.exploration.space import DesignSpace, load_space
from baco.exploration.studies.engine import SearchOutcome, run_exploration
from baco.exploration.studies.study import FILE_NAME, StudyRecord
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload
from tests.explore.study_helpers import content, early_phases

#: Samples on which groups are decided where a test is to come that far.
GROUPED_AFTER = 60
#: What is done before the first batch of a network with groups, in this order.
STAGES = (
    "reading mobilenet_v2 as a program",
    "operators beside the layers",
    "pricing operators as one unit",
    "choosing such units for kinds of accelerators",
)


def few_accelerators() -> DesignSpace:
    return dataclasses.replace(
        load_space("gemmini"), dim=(8,), scratchpad_kib=(64, 256), accumulator_kib=(32,), search_units=False
    )


class At:
    """Sends this process a signal when a stage begins, or else after the first batch."""

    def __init__(self, stage: str | None = None, number: int = signal.SIGKILL) -> None:
        self.stage, self.number = stage, number
        self.seen: list[tuple[str, int, int | None]] = []

    def doing(self, text: str, done: int = 0, of: int | None = None) -> None:
        self.seen.append((text, done, of))
        if text == self.stage and not done:
            os.kill(os.getpid(), self.number)

    def update(self, summary: BatchSummary, budget: Budget) -> None:
        if self.stage == "batch":
            os.kill(os.getpid(), self.number)

    def note(self, text: str) -> None:
        pass


def search(out: Path, progress: At | None = None, **changes: Any) -> SearchOutcome:
    mix = Workload.of([load_network("mobilenet_v2:image=32")])
    arguments = {"samples": 8, "seed": 1, "command": "explore", "resume": True, **changes}
    space = arguments.pop("space", few_accelerators())
    return run_exploration(mix, space, Objective.parse("edp"), out=out, progress=progress, **arguments)


@pytest.fixture
def groups_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are decided on a fifth of the samples that it takes else."""
    for module in (local_search, groups):
        monkeypatch.setattr(module, "GROUPED_AFTER", GROUPED_AFTER)


@pytest.fixture(scope="module")
def straight(short_networks: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[SearchOutcome, At]:
    """A search that nothing happens to, and what it said."""
    told = At()
    return search(tmp_path_factory.mktemp("straight"), told), told


def test_what_is_done_is_told_and_counted(straight: tuple[SearchOutcome, At]) -> None:
    seen = straight[1].seen
    assert tuple(dict.fromkeys(text for text, _, _ in seen)) == STAGES
    for stage in STAGES[2:]:
        counts = [(done, of) for text, done, of in seen if text == stage]
        assert len({of for _, of in counts}) == 1
        assert [done for done, _ in counts] == sorted(done for done, _ in counts)
        assert all(of is not None and done <= of for done, of in counts)
    groups = [done for text, done, _ in seen if text == "pricing operators as one unit"]
    assert groups == list(
        range(seen[[text for text, _, _ in seen].index("pricing operators as one unit")][2] or 0)
    )


def test_killed_in_its_first_seconds_a_search_goes_on(
    straight: tuple[SearchOutcome, At], tmp_path: Path
) -> None:
    """Killed once in every stage, and after the first batch: each time there is a study that `resume` takes."""
    fork = multiprocessing.get_context("fork")
    for stage in (*STAGES[:2], "batch", *STAGES[2:]):
        child = fork.Process(target=search, args=(tmp_path, At(stage)))
        child.start()
        child.join(120)
        assert child.exitcode == -signal.SIGKILL, stage
        with StudyRecord.open(tmp_path / FILE_NAME) as study:
            begun = stage not in STAGES[:2]
            assert (study.batches > 0, study.rest is not None) == (begun, begun)
            # groups are decided within the last batch
            assert study.undecided == begun
    outcome = search(tmp_path, samples=None)
    assert outcome.resumed
    assert content(outcome.path) == content(straight[0].path)


@pytest.mark.usefixtures("groups_soon", "short_networks")
def test_killed_around_the_batch_that_decides_groups_a_search_ends_the_same(tmp_path: Path) -> None:
    """Before, in, and after that batch: what has been found is rated anew once, and only once."""

    class Batches(At):
        """Sends a signal after so many batches."""

        def update(self, summary: BatchSummary, budget: Budget) -> None:
            if summary.batch == int(self.stage or 0):
                os.kill(os.getpid(), self.number)

    samples = 90
    whole = search(tmp_path / "straight", samples=samples)
    with StudyRecord.open(whole.path) as study:
        best = [one.best_objective or 0.0 for one in study.summaries()]
        steps = [one.evaluations // len(study.tasks) for one in study.summaries()]
        assert study.rest is not None
        assert study.rest.fused.points
    decides = next(n for n, step in enumerate(steps) if step >= GROUPED_AFTER)
    assert 0 < decides < len(steps) - 1
    assert best[decides] < best[decides - 1]
    assert best == sorted(best, reverse=True)
    fork = multiprocessing.get_context("fork")
    stops = [Batches(str(n)) for n in (decides - 1, decides, decides + 1)]
    for stop in [stops[0], At("pricing operators as one unit"), At(STAGES[-1]), *stops[1:]]:
        child = fork.Process(target=search, args=(tmp_path / "killed", stop), kwargs={"samples": samples})
        child.start()
        child.join(240)
        assert child.exitcode == -signal.SIGKILL
    again = search(tmp_path / "killed", samples=samples)
    assert content(again.path) == content(whole.path)


def test_interrupted_while_groups_are_decided_a_search_ends_with_them(tmp_path: Path) -> None:
    outcome = search(tmp_path, At("pricing operators as one unit", signal.SIGINT))
    assert outcome.evaluations > 0
    with StudyRecord.open(outcome.path) as study:
        assert study.batches > 0
        assert not study.undecided


@pytest.mark.parametrize("stage", STAGES[1:2])
def test_interrupted_before_its_first_batch_a_search_says_how_to_go_on(tmp_path: Path, stage: str) -> None:
    with pytest.raises(StoppedError, match="interrupted before") as caught:
        search(tmp_path, At(stage, signal.SIGINT))
    assert f"out='{tmp_path}', resume=True" in str(caught.value)


def test_a_search_that_is_refused_before_it_began_leaves_no_study(tmp_path: Path) -> None:
    impossible = few_accelerators().constrain("here", area_mm2=1e-3, power_mw=1.0)
    for changes in ({"searcher": "luck"}, {"space": impossible}):
        with pytest.raises(Exception, match=r"unknown searcher|no design is feasible"):
            search(tmp_path, **changes)
        assert os.listdir(tmp_path) == []


def test_other_settings_are_refused_of_a_study_that_has_only_begun(tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        search(tmp_path, At(STAGES[0], signal.SIGINT))
    with pytest.raises(InputError, match="seed is 1 in the study, 2 now"):
        search(tmp_path, seed=2)


def test_the_command_line_ends_an_early_interruption_with_130(tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text(few_accelerators().to_yaml())
    explore = [str(Path(sys.executable).with_name("explore")), "--network", "mobilenet_v2:image=32"]
    process = subprocess.Popen(
        [*explore, "--space", "space.yaml", "--samples", "8", "--out", "s"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line.partition(":")[0].strip())
        if lines[-1] == "operators beside the layers":
            assert (tmp_path / "s" / "progress.html").exists()
            process.send_signal(signal.SIGINT)
            break
    out, error = process.communicate(timeout=120)
    assert lines[:3] == [
        "reading mobilenet_v2",
        "loading the cost models",
        "reading mobilenet_v2 as a program",
    ]
    assert (process.returncode, out) == (130, "")
    assert "error: s: interrupted before any feasible design was found" in error
    assert "hint: continue with --resume --out s" in error
    assert (tmp_path / "s" / FILE_NAME).exists()


@pytest.mark.slow
@pytest.mark.usefixtures("groups_soon", "short_networks")
def test_a_companion_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of the study nor of what a report says of it; and it is asked for all that it could do."""
    monkeypatch.setattr(companions, "processors", lambda: 2)
    taken: set[str] = set()
    asked: set[int] = set()
    helped = False
    get = companions.Pending.get

    def counted(self: companions.Pending[Any], *here: Any) -> Any:
        end = time.monotonic() + 60
        # however busy the machine is, the companion gets as far as this
        while helped and id(self) not in asked and not self.begun and time.monotonic() < end:
            time.sleep(0.01)
        asked.add(id(self))
        if self.begun:
            taken.add(self.work.__name__)
        return get(self, *here)

    monkeypatch.setattr(companions.Pending, "get", counted)
    modules = ["baco.exploration.report.study_report", "baco.exploration.search.groups"]
    modules.append("tests.explore.short_mobilenet")  # there, as here
    found = []
    for helped in (False, True):
        with companions.companion(modules, wanted=helped), early_phases():
            outcome = search(tmp_path / str(helped), samples=110)
            why = explanation(report_data(outcome.path))
        assert why is not None
        found.append((content(outcome.path), why.lines, why.steps_html))
    assert found[0] == found[1]
    assert taken == {"_found", "_compiled", "_neighbour"}
