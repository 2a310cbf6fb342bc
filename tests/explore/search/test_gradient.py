"""What is particular to the main searcher; the rest is in the conformance suite."""

import functools

import numpy as np
import pytest

from baco.exploration.candidate import Candidate
from baco.exploration.cost.certificate import certify
from baco.exploration.objective import Objective
from baco.exploration.samplers.descent import GradientSearch
from baco.exploration.search.searcher import BatchResult, SearchSetup
from baco.exploration.space import load_space
from tests.explore.study_helpers import small_space, small_workload

TASKS = small_workload().tasks


def setup(samples: int, objective: str = "edp", seed: int = 0) -> SearchSetup:
    return SearchSetup(TASKS, small_space(), Objective.parse(objective), samples * len(TASKS), seed)


def run(search: GradientSearch) -> list[BatchResult]:
    results = []
    while not results or not results[-1].done:
        results.append(search.step())
    return results


def best(results: list[BatchResult]) -> Candidate:
    return min((c for r in results for c in r.candidates), key=lambda c: c.objective)


def test_all_kinds_of_batches_and_the_proven_optimum() -> None:
    results = run(GradientSearch(setup(8000)))
    assert {r.phase for r in results} == {"seeding", "descent", "local search", "exact finish"}
    assert all(r.evaluations <= 8000 * len(TASKS) for r in results)
    certificate = certify(TASKS, small_space(), tolerance=1e-4)
    assert certificate.bound <= best(results).cost.edp * (1 + 1e-12)
    assert best(results).cost.edp <= certificate.best * 1.002


def test_no_exact_finish_where_searchers_are_compared() -> None:
    assert "exact finish" not in {r.phase for r in run(GradientSearch(setup(5000)))}


def test_resuming_inside_the_exact_finish() -> None:
    search = GradientSearch(setup(8000))
    while search.step().phase != "exact finish":
        pass
    other = GradientSearch(setup(8000))
    other.restore(search.state())
    rest, again = run(search), run(other)
    assert [(r.phase, r.evaluations) for r in rest] == [(r.phase, r.evaluations) for r in again]
    assert [c for r in rest for c in r.candidates] == [c for r in again for c in r.candidates]


@functools.cache
def best_for(objective: str) -> Candidate:
    return best(run(GradientSearch(setup(1500, objective))))


@pytest.mark.parametrize(
    "objective", ["latency", pytest.param("energy", marks=pytest.mark.slow), "area", "edap"]
)
def test_each_objective_beats_the_others_designs(objective: str) -> None:
    """The best design for an objective is at least as good in it as those found for any other."""
    goal = Objective.parse(objective)
    for other in ("edp", "latency", "energy", "area", "edap"):
        assert goal.scalar(best_for(objective).cost) <= goal.scalar(best_for(other).cost) * 1.01


def test_several_objectives_span_a_front() -> None:
    results = run(GradientSearch(setup(1500, "latency,energy")))
    found = [c for r in results for c in r.candidates]
    latency = np.array([c.cost.latency_cycles for c in found])
    energy = np.array([c.cost.energy_pj for c in found])
    assert latency.min() <= best_for("latency").cost.latency_cycles * 1.01
    assert energy.min() <= best_for("energy").cost.energy_pj * 1.01


@pytest.mark.parametrize("area_mm2", [0.5, 0.02])
def test_tight_bounds_in_a_space_too_large_to_list(area_mm2: float) -> None:
    space = load_space("reference").constrain(area_mm2=area_mm2)
    found = best(run(GradientSearch(SearchSetup(TASKS, space, Objective.parse("edp"), 300 * len(TASKS), 0))))
    assert found.cost.area_mm2 <= area_mm2
    assert found.accelerator.area_mm2 == pytest.approx(found.cost.area_mm2)
