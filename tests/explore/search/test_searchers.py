"""Every registered searcher against the conformance suite, in both kinds of spaces."""

from __future__ import annotations

import dataclasses
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


@pytest.fixture(params=list(SPACES))
def space(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[200, pytest.param(600, marks=pytest.mark.slow)])
def samples(request: pytest.FixtureRequest) -> int:
    """Of a search, thrice as many with the slow tests."""
    return int(request.param)


def test_determinism(name: str, space: str, samples: int) -> None:
    conformance.check_determinism(lambda setup: make(name, setup), setup_in(name, space, samples))


def test_state(name: str, space: str, samples: int) -> None:
    conformance.check_state(lambda setup: make(name, setup), setup_in(name, space, 5 * samples // 2))


def test_budget(name: str, space: str, samples: int) -> None:
    conformance.check_budget(lambda setup: make(name, setup), setup_in(name, space, samples))


def test_tiny_budgets(name: str, space: str) -> None:
    conformance.check_tiny_budgets(lambda setup: make(name, setup), setup_in(name, space, 1))


def test_costs_and_bounds_with_another_base(name: str, space: str, samples: int) -> None:
    """All that a base has is charged for: areas of candidates are those of their accelerators, also at a bound."""
    base = load_accelerator("gemmini-default").replace(
        scratchpad_banks=8, dma_requests=64, execute_queue=32, counters=16, features={"loop_conv": False}
    )
    setup = setup_in(name, space, samples)
    setup = dataclasses.replace(setup, space=dataclasses.replace(setup.space, base=base))
    conformance.check_constraints(lambda s: make(name, s), setup, recompute(name))


def test_more_budget(name: str) -> None:
    conformance.check_more_budget(lambda setup: make(name, setup), setup_in(name, "gemmini", 500))


OBJECTIVES = ("edp", "latency,energy", "area", "edap")


def _searched() -> list[Any]:
    """Every searcher, space and objective; each searcher's own objective on each space is no slow test."""
    found = []
    for number, name in enumerate(("fake", *searchers.SEARCHERS)):
        for place, space in enumerate(SPACES):
            for index, objective in enumerate(OBJECTIVES):
                marks = [] if index == (number + place) % len(OBJECTIVES) else [pytest.mark.slow]
                found.append(pytest.param(name, space, objective, marks=marks))
    return found


@pytest.mark.parametrize(("name", "space", "objective"), _searched())
def test_candidates(name: str, space: str, objective: str, samples: int) -> None:
    check = conformance.check_candidates
    check(lambda setup: make(name, setup), setup_in(name, space, samples, objective), recompute(name))


def test_constraints(name: str, space: str, samples: int) -> None:
    conformance.check_constraints(
        lambda setup: make(name, setup), setup_in(name, space, samples), recompute(name)
    )


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
            600,
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
