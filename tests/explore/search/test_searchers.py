"""Every registered searcher against the conformance suite, in both kinds of spaces."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from baco.accel.presets import load_accelerator
from baco.exploration.objective import Objective
from baco.exploration.samplers import searchers
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.searcher import Searcher, SearchSetup
from baco.exploration.studies.engine import run_exploration
from tests.explore import searcher_conformance as conformance
from tests.explore.fake_searcher import FakeSearch, toy_cost
from tests.explore.study_helpers import GEMMINI, REFERENCE, content, small_workload

SPACES = {"gemmini": GEMMINI, "reference": REFERENCE}


def make(name: str, setup: SearchSetup) -> Searcher:
    if name == "fake":
        return FakeSearch(setup)
    return make_searcher(name, setup)


def setup_in(name: str, space: str, samples: int, objective: str = "edp") -> SearchSetup:
    tasks = small_workload().tasks
    if name == "dosa-published":  # whose samples are steps of descent, and take as much longer
        samples = -(-samples // 3)
    return SearchSetup(tasks, SPACES[space], Objective.parse(objective), samples * len(tasks), 11)


def recompute(name: str) -> conformance.Recompute:
    if name == "fake":
        return lambda candidate: toy_cost(candidate.accelerator, candidate.tasks, candidate.mappings)
    return conformance.model_cost


@pytest.fixture(params=["fake", *searchers.SEARCHERS])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[100, pytest.param(600, marks=pytest.mark.slow)])
def samples(request: pytest.FixtureRequest) -> int:
    """Of a search, six times as many with the slow tests."""
    return int(request.param)


def other_base(setup: SearchSetup) -> SearchSetup:
    """On accelerators that have more of everything than the space's own."""
    base = load_accelerator("gemmini-default").replace(
        scratchpad_banks=8, dma_requests=64, execute_queue=32, counters=16, features={"loop_conv": False}
    )
    return dataclasses.replace(setup, space=dataclasses.replace(setup.space, base=base))


#: What is checked, with how many times the samples of a search (none: so few that a batch is too large).
CHECKS: dict[str, tuple[Callable[[conformance.Make, SearchSetup, conformance.Recompute], None], float]] = {
    "determinism": (lambda make, setup, _: conformance.check_determinism(make, setup), 1),
    "state": (lambda make, setup, _: conformance.check_state(make, setup), 5),
    "budget": (lambda make, setup, _: conformance.check_budget(make, setup), 1),
    "more budget": (lambda make, setup, _: conformance.check_more_budget(make, setup), 2.5),
    "tiny budgets": (lambda make, setup, _: conformance.check_tiny_budgets(make, setup), 0),
    "constraints": (conformance.check_constraints, 1),
    # all that a base has is charged for: areas of candidates are those of their accelerators, also at a bound
    "constraints, another base": (
        lambda make, setup, cost: conformance.check_constraints(make, other_base(setup), cost),
        1,
    ),
}
#: A descent through all layers for each sample of a search that is long.
LONG = {("dosa-published", check) for check in ("state", "more budget", "constraints, another base")}
OBJECTIVES = ("edp", "latency,energy", "area", "edap")


def spread(options: Sequence[str]) -> list[Any]:
    """Every searcher in every space with every option; one of the options in each space is no slow test."""
    found = []
    for number, name in enumerate(("fake", *searchers.SEARCHERS)):
        for place, space in enumerate(SPACES):
            for index, option in enumerate(options):
                marks = [] if index == (number + place) % len(options) else [pytest.mark.slow]
                found.append(pytest.param(name, space, option, marks=marks))
    return found


def alternating() -> list[Any]:
    """Every searcher in every space with every check; each in one of the spaces is no slow test."""
    return [
        pytest.param(
            *(name, space, check),
            marks=[]
            if (number + place + index) % len(SPACES) and (name, check) not in LONG
            else [pytest.mark.slow],
        )
        for number, name in enumerate(("fake", *searchers.SEARCHERS))
        for place, space in enumerate(SPACES)
        for index, check in enumerate(CHECKS)
    ]


@pytest.mark.parametrize(("name", "space", "check"), alternating())
def test_conformance(name: str, space: str, check: str, samples: int) -> None:
    call, times = CHECKS[check]
    call(lambda setup: make(name, setup), setup_in(name, space, int(times * samples) or 1), recompute(name))


@pytest.mark.parametrize(("name", "space", "objective"), spread(OBJECTIVES))
def test_candidates(name: str, space: str, objective: str, samples: int) -> None:
    check = conformance.check_candidates
    check(lambda setup: make(name, setup), setup_in(name, space, samples, objective), recompute(name))


def test_interrupted_and_resumed_equals_uninterrupted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(searchers.SEARCHERS, "fake", ("tests.explore.fake_searcher", "FakeSearch", ""))
    make(name, setup_in(name, "gemmini", 1))

    class Stop:
        def update(self, summary: object, budget: object) -> None:
            raise KeyboardInterrupt

        def note(self, text: str) -> None:
            pass

    def explore(out: Path, **changes: object) -> Path:
        return run_exploration(
            small_workload(),
            GEMMINI,
            Objective.parse("edp"),
            name,
            75 if name == "dosa-published" else 300,  # a descent through all layers for each
            seed=5,
            out=out,
            cost_model="reference",
            **changes,  # type: ignore[arg-type]
        ).path

    expected = content(explore(tmp_path / "straight"))
    for _ in range(4):
        # Stopped dead after every recorded batch: the progress display is called when it is safe.
        try:
            explore(tmp_path / "broken", resume=True, progress=Stop())
        except KeyboardInterrupt:
            continue
    assert content(explore(tmp_path / "broken", resume=True)) == expected
