"""The engine: budgets, determinism, interruption, resumption, refusals."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baco.common.door import at_command_line
from baco.common.errors import InfeasibleError, InputError, StoppedError, StorageError
from baco.exploration.candidate import BatchSummary
from baco.exploration.cost.infeasible import infeasible_error, nearest_details, violation
from baco.exploration.objective import Objective
from baco.exploration.progress import Budget
from baco.exploration.samplers import searchers
from baco.exploration.search.searcher import BatchResult
from baco.exploration.space import DesignSpace
from baco.exploration.space.constraints import Constraints, NetworkConstraints
from baco.exploration.studies import engine, preparation
from baco.exploration.studies.engine import SearchOutcome, run_exploration
from baco.exploration.studies.study import FILE_NAME, StudyRecord
from baco.workloads.network import Workload
from tests.explore.fake_searcher import FakeSearch
from tests.explore.study_helpers import FAKE, content, small_space, small_workload


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(searchers.SEARCHERS, "fake", FAKE)


class Recorder:
    """A progress display that calls something after a given batch."""

    def __init__(self, at: int | None = None, action: Any = None) -> None:
        self.seen: list[tuple[BatchSummary, Budget]] = []
        self.notes: list[str] = []
        self.at, self.action = at, action

    def update(self, summary: BatchSummary, budget: Budget) -> None:
        self.seen.append((summary, budget))
        if summary.batch == self.at:
            self.action()

    def note(self, text: str) -> None:
        self.notes.append(text)


def interrupt(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


def explore(out: Path, **changes: Any) -> SearchOutcome:
    arguments: dict[str, Any] = {
        "workload": small_workload(),
        "space": small_space(),
        "objective": Objective.parse("edp"),
        "searcher": "fake",
        "cost_model": "reference",
        "samples": 60,
        "seed": 3,
        "command": "explore --network tiny --seed 3",
    }
    return run_exploration(**{**arguments, **changes}, out=out)


def test_a_search_uses_its_budget_and_keeps_everything(tmp_path: Path) -> None:
    progress = Recorder()
    outcome = explore(tmp_path / "new" / "folder", progress=progress)
    assert outcome.evaluations == 60 * 2
    assert outcome.stopped == "budget"
    assert not outcome.interrupted
    assert not outcome.resumed
    assert outcome.path == tmp_path / "new" / "folder" / FILE_NAME
    assert [summary.batch for summary, _ in progress.seen] == list(range(20))
    assert {budget for _, budget in progress.seen} == {Budget(60, 120, None, 2)}
    bests = [summary.best_objective for summary, _ in progress.seen]
    assert bests == sorted(bests, reverse=True)  # type: ignore[type-var]
    with StudyRecord.open(outcome.path) as study:
        assert study.summaries() == [summary for summary, _ in progress.seen]
        assert study.best() == outcome.best
        assert tuple(study.front()) == outcome.front
        assert study.done
        assert study.provenance["command"] == "explore --network tiny --seed 3"
        assert study.provenance["seed"] == 3
        assert study.provenance["versions"]["python"]
        assert len(study.provenance["configuration_hash"]) == 16
        assert study.setup["space"] == small_space().to_yaml()
        assert [session["samples"] for session in study.sessions()] == [60]
    assert os.listdir(outcome.path.parent) == [FILE_NAME]


def test_same_seed_same_study_other_seed_another(tmp_path: Path) -> None:
    one, two, other = (explore(tmp_path / name, seed=seed) for name, seed in (("a", 3), ("b", 3), ("c", 4)))
    assert content(one.path) == content(two.path)
    assert content(one.path)["candidates"] != content(other.path)["candidates"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_anywhere_and_resumed_equals_uninterrupted(tmp_path: Path, number: int) -> None:
    expected = explore(tmp_path / "straight")
    before = signal.getsignal(number)
    rng = np.random.default_rng(number)
    for trial in range(5):
        out = tmp_path / f"broken{trial}"
        stops = sorted(rng.choice(19, 3, replace=False).tolist())
        for stop in stops:
            part = explore(out, resume=True, progress=Recorder(stop, lambda: interrupt(number)))
            assert part.interrupted
            assert part.best.cost.edp >= expected.best.cost.edp
            with StudyRecord.open(part.path) as study:
                assert study.batches == stop + 1
        whole = explore(out, resume=True)
        assert whole.resumed
        assert content(whole.path) == content(expected.path)
        assert whole.best == expected.best
        assert whole.front == expected.front
        assert signal.getsignal(number) is before


def test_seconds_go_on_where_they_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 10_000, 5))
    monkeypatch.setattr(engine.time, "monotonic", lambda: float(next(ticks)))
    explore(tmp_path, progress=Recorder(4, interrupt))
    outcome = explore(tmp_path, resume=True)
    with StudyRecord.open(outcome.path) as study:
        seconds = [summary.seconds for summary in study.summaries()]
    assert seconds == sorted(seconds)
    # Two clock readings a batch and one at each start; the pause between the sessions is not counted.
    assert outcome.seconds == seconds[-1] == 10 * 20


def test_the_clock_does_not_matter_when_samples_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = content(explore(tmp_path / "a").path)
    ticks = iter(1e6 * n * n for n in range(10_000))
    monkeypatch.setattr(engine.time, "monotonic", lambda: next(ticks))
    assert content(explore(tmp_path / "b").path) == expected


def test_time_limit_counts_search_time_of_all_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter(range(10_000))
    monkeypatch.setattr(engine.time, "monotonic", lambda: float(next(ticks)))
    part = explore(tmp_path, samples=None, time_limit=20.0, progress=Recorder(2, interrupt))
    assert part.interrupted
    whole = explore(tmp_path, samples=None, resume=True)
    assert whole.stopped == "time"
    assert 20 <= whole.seconds <= 22
    longer = explore(tmp_path, samples=None, time_limit=30.0, resume=True)
    assert longer.evaluations > whole.evaluations
    both = explore(tmp_path / "both", samples=10**6, time_limit=10.0)
    assert both.stopped == "time"


def test_a_second_signal_stops_at_once_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = explore(tmp_path / "straight")
    step = FakeSearch.step

    def impatient(self: FakeSearch) -> BatchResult:
        if self.batch == 7:
            interrupt()
            interrupt()
        return step(self)

    monkeypatch.setattr(FakeSearch, "step", impatient)
    with pytest.raises(KeyboardInterrupt):
        explore(tmp_path / "broken")
    monkeypatch.undo()
    monkeypatch.setitem(searchers.SEARCHERS, "fake", FAKE)
    with StudyRecord.open(tmp_path / "broken" / FILE_NAME) as study:
        assert study.batches == 7
    assert content(explore(tmp_path / "broken", resume=True).path) == content(expected.path)


def test_signals_are_left_alone_in_other_threads(tmp_path: Path) -> None:
    results: list[SearchOutcome] = []
    thread = threading.Thread(target=lambda: results.append(explore(tmp_path)))
    thread.start()
    thread.join()
    assert results[0].stopped == "budget"


def test_an_interruption_before_anything_feasible(tmp_path: Path) -> None:
    with pytest.raises(StoppedError, match="interrupted before") as caught:
        explore(tmp_path, space=small_space(latency_cycles=1.0), progress=Recorder(0, interrupt))
    assert f"out='{tmp_path}', resume=True" in str(caught.value)
    with at_command_line():
        with pytest.raises(StoppedError) as caught:
            explore(
                tmp_path, space=small_space(latency_cycles=1.0), resume=True, progress=Recorder(1, interrupt)
            )
        # words are chosen when an error is shown
        assert f"continue with --resume --out {tmp_path}" in str(caught.value)


# ---------------------------------------------------------------------- resuming


def test_a_finished_study_is_returned_or_goes_on_with_more(tmp_path: Path) -> None:
    first = explore(tmp_path)
    before = content(first.path)
    for samples in (60, 20, None):
        again = explore(tmp_path, samples=samples, resume=True)
        assert again.resumed
        assert again.best == first.best
        assert again.evaluations == first.evaluations
        assert content(first.path) == before
    more = explore(tmp_path, samples=90, resume=True)
    assert more.evaluations == 180
    assert more.best.cost.edp <= first.best.cost.edp
    with StudyRecord.open(more.path) as study:
        assert [session["samples"] for session in study.sessions()] == [60, 90]


def test_resuming_without_a_budget_takes_the_last_one(tmp_path: Path) -> None:
    expected = explore(tmp_path / "straight")
    explore(tmp_path / "broken", progress=Recorder(3, interrupt))
    assert content(explore(tmp_path / "broken", samples=None, resume=True).path) == content(expected.path)


def test_resume_without_a_study_starts_one_and_says_so(tmp_path: Path) -> None:
    progress = Recorder()
    outcome = explore(tmp_path / "x", resume=True, progress=progress)
    assert not outcome.resumed
    assert (
        progress.notes == list(outcome.notes) == [f"there is no study in {tmp_path / 'x'} yet: starting one"]
    )


def test_an_existing_study_is_not_touched_without_resume(tmp_path: Path) -> None:
    before = content(explore(tmp_path).path)
    with pytest.raises(StorageError, match="a study is already here") as caught:
        explore(tmp_path)
    assert "resume=True" in str(caught.value)
    assert content(tmp_path / FILE_NAME) == before


def weighted() -> Workload:
    return Workload(small_workload().networks, (2.0,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 4}, "seed is 3 in the study, 4 now"),
        (
            {"objective": Objective.parse("latency,energy")},
            "objective is edp in the study, latency,energy now",
        ),
        ({"searcher": "other"}, "searcher is fake in the study, other now"),
        ({"space": small_space(area_mm2=3.0)}, "space is small"),
        ({"space": dataclasses.replace(small_space(), dim=(8, 16))}, "space is small"),
        ({"workload": small_workload(32)}, r"network is tiny x1 in the study, tiny x1 now \(same names"),
        ({"workload": weighted()}, "network is tiny x1 in the study, tiny x2 now"),
        ({"seed": 4, "space": small_space(area_mm2=3.0)}, "space is small.*; seed is 3 in the study, 4 now"),
    ],
)
def test_other_settings_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    monkeypatch.setitem(searchers.SEARCHERS, "other", FAKE)
    before = content(explore(tmp_path, progress=Recorder(3, interrupt)).path)
    with pytest.raises(InputError, match=message) as caught:
        explore(tmp_path, resume=True, **changes)
    assert "explore --network tiny --seed 3" in str(caught.value)
    assert content(tmp_path / FILE_NAME) == before
    assert not (tmp_path / f"{FILE_NAME}.lock").exists()


def test_names_of_spaces_do_not_matter(tmp_path: Path) -> None:
    explore(tmp_path, progress=Recorder(3, interrupt))
    renamed = dataclasses.replace(small_space(), name="renamed")
    assert explore(tmp_path, resume=True, space=renamed).resumed


def test_other_versions_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    explore(tmp_path, progress=Recorder(3, interrupt))
    now = dict(preparation.versions())
    monkeypatch.setattr(preparation, "versions", lambda: {**now, "numpy": "0.1"})
    progress = Recorder()
    outcome = explore(tmp_path, resume=True, progress=progress)
    assert outcome.stopped == "budget"
    assert len(outcome.notes) == 1
    assert f"numpy {now['numpy']} -> 0.1" in outcome.notes[0]
    assert progress.notes == list(outcome.notes)


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": 0}, "samples must be"),
        ({"time_limit": 0.0}, "time_limit must be a positive"),
        ({"time_limit": float("nan")}, "time_limit must be a positive"),
        ({"time_limit": float("inf")}, "time_limit must be a positive"),
        ({"searcher": "fakke"}, "unknown searcher 'fakke'"),
        ({"workload": Workload((), ())}, "no operator that the accelerator could run"),
    ],
)
def test_bad_settings_leave_nothing_behind(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        explore(tmp_path, **changes)
    assert os.listdir(tmp_path) == []


def test_an_output_that_cannot_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        explore(tmp_path / "file")


def test_a_searcher_that_gets_nowhere_is_a_bug_not_a_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_MOST_IDLE_BATCHES", 5)
    monkeypatch.setattr(FakeSearch, "step", lambda self: BatchResult([], 0, "dreaming", False, {}))
    with pytest.raises(RuntimeError, match="FakeSearch makes no progress in phase 'dreaming'"):
        explore(tmp_path)


# ---------------------------------------------------------------------- infeasible


def infeasible_space(**bounds: float) -> DesignSpace:
    return dataclasses.replace(small_space(), constraints=Constraints(**bounds))


def test_an_impossible_constraint_is_named_with_the_nearest_value(tmp_path: Path) -> None:
    free = explore(tmp_path / "free", samples=400)
    bound = free.best.cost.latency_cycles / 10
    with pytest.raises(InfeasibleError, match=r"no design can satisfy the constraints") as caught:
        explore(tmp_path / "bound", space=infeasible_space(latency_cycles=bound))
    assert "in 120 evaluations" in caught.value.message
    with StudyRecord.open(tmp_path / "bound" / FILE_NAME) as study:
        nearest = study.summaries()[-1].details["nearest.latency_cycles"]
    excess = (
        f"{nearest / bound - 1:.2%} more than {bound:.6g} cycles"
        if nearest < 10 * bound
        else f"{nearest / bound:.3g} times as much as {bound:.6g} cycles"
    )
    assert f"latency_cycles with {nearest:.6g} cycles ({excess})" in caught.value.message
    suggested = re.search(r"together: latency_cycles (\S+) cycles", str(caught.value))
    assert suggested is not None
    assert nearest <= float(suggested[1]) <= 1.012 * nearest
    # Asking again says the same without searching again.
    with pytest.raises(InfeasibleError, match="latency_cycles") as again:
        explore(tmp_path / "bound", space=infeasible_space(latency_cycles=bound), resume=True)
    assert again.value.message == caught.value.message


def test_all_broken_bounds_are_listed_the_largest_excess_first() -> None:
    constraints = Constraints(
        area_mm2=2.0, energy_uj=10.0, networks={"bert": NetworkConstraints(latency_cycles=100.0)}
    )
    values = {
        "area_mm2": (2.2, 2.0),
        "energy_uj": (9.0, 10.0),
        "networks.bert.latency_cycles": (150.0, 100.0),
    }
    assert violation(values) == pytest.approx(0.5)
    assert violation({}) == -1.0
    message = infeasible_error(constraints, nearest_details(values), 1000).message
    assert (
        "breaks networks.bert.latency_cycles with 150 cycles (50.00% more than 100 cycles), area_mm2"
        in message
    )
    assert "area_mm2 with 2.2 mm² (10.00% more than 2 mm²)" in message
    assert "energy_uj" not in message


def test_without_a_report_of_the_searcher_all_constraints_are_listed() -> None:
    message = infeasible_error(Constraints(area_mm2=2.0, power_mw=5.0), {}, 10).message
    assert "area_mm2 <= 2 mm², power_mw <= 5 mW" in message
    assert "no design point that fits" in infeasible_error(Constraints(), {}, 10).message
