"""The proof at the end of an exploration, against brute force."""

import dataclasses
from pathlib import Path

import pytest

from baco.accel.presets import load_accelerator
from baco.bench.exhaustive import enumerate_all
from baco.exploration.candidate import Candidate
from baco.exploration.cost.bound import capacity_bound
from baco.exploration.cost.layer_costs import layer_costs
from baco.exploration.cost.proof import BOUND, PHASE, TOLERANCE
from baco.exploration.cost.tiles import Point
from baco.exploration.objective import Objective
from baco.exploration.report.study_report import report_data
from baco.exploration.space import DesignSpace
from baco.exploration.space.constraints import Constraints, power_mw
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.study import StudyRecord
from baco.workloads.network import Network, Operator, Tensor, Workload
from baco.workloads.problem import Problem
from tests.explore.study_helpers import small_space, small_workload

PROBLEM = Problem(R=2, P=5, C=3, K=6)
SPACE = DesignSpace(
    name="tiny",
    rules="gemmini",
    base=load_accelerator("gemmini-default"),
    dim=(2, 4),
    scratchpad_kib=(4, 8),
    accumulator_kib=(1, 2),
    dataflows=("WS", "OS"),
    double_buffer=True,
)
EDP = Objective.parse("edp")


def one_layer(problem: Problem) -> Workload:
    given, made = Tensor("in", (problem.P, problem.C)), Tensor("out", (problem.P, problem.K))
    return Workload.of([Network("one", (given,), (Operator("mm", "matmul", ("in",), made, problem),))])


def explore(out: Path, workload: Workload, space: DesignSpace, samples: int, **options: bool) -> Candidate:
    return run_exploration(
        workload, space, EDP, samples=samples, out=out, cost_model="reference", **options
    ).best


def last_details(folder: Path) -> tuple[str, dict[str, float]]:
    with StudyRecord.open(folder / "study.sqlite", read_only=True) as study:
        last = study.summaries()[-1]
    return last.phase, dict(last.details)


def test_finds_the_optimum_that_a_short_search_missed(tmp_path: Path) -> None:
    points = SPACE.hardware()
    every = [
        Point(int(d), int(a), int(s))
        for d, a, s in zip(points.dim, points.accumulator_kib, points.scratchpad_kib, strict=True)
    ]
    optimum = enumerate_all(PROBLEM, every, SPACE).edp.min()
    missed = explore(tmp_path / "without", one_layer(PROBLEM), SPACE, samples=1)
    found = explore(tmp_path / "with", one_layer(PROBLEM), SPACE, samples=1, proof=True)
    assert missed.cost.edp > optimum * 1.05, "the case no longer needs a proof"
    assert optimum <= found.cost.edp <= optimum * (1 + TOLERANCE)
    phase, details = last_details(tmp_path / "with")
    assert phase == PHASE
    assert found.cost.edp / (1 + TOLERANCE) <= details[BOUND] <= optimum * (1 + 1e-12)
    # Its cost is that of its own mappings.
    (layer,) = layer_costs([PROBLEM], found.mappings, found.accelerator)
    assert found.cost.energy_pj == pytest.approx(layer.energy_pj)
    assert found.cost.latency_cycles == pytest.approx(layer.latency_cycles)


def test_is_made_once_and_shown(tmp_path: Path) -> None:
    best = explore(tmp_path, small_workload(), small_space(), samples=30, proof=True)
    again = run_exploration(
        small_workload(),
        small_space(),
        EDP,
        samples=30,
        out=tmp_path,
        resume=True,
        proof=True,
        cost_model="reference",
    )
    assert again.best == best
    with StudyRecord.open(tmp_path / "study.sqlite", read_only=True) as study:
        assert [s.phase for s in study.summaries()].count(PHASE) == 1
    bounds = {bound.name: bound.edp for bound in report_data(tmp_path / "study.sqlite").bounds}
    cheap = capacity_bound(best.tasks, small_space()).edp
    assert cheap <= bounds["proven"] * (1 + 1e-9) <= best.cost.edp * (1 + 1e-9)


def test_a_finished_search_is_proven_later(tmp_path: Path) -> None:
    explore(tmp_path, small_workload(), small_space(), samples=30)
    assert last_details(tmp_path)[0] != PHASE
    explore(tmp_path, small_workload(), small_space(), samples=30, resume=True, proof=True)
    assert last_details(tmp_path)[0] == PHASE


def test_designs_that_may_break_a_constraint_are_not_offered(tmp_path: Path) -> None:
    fast = explore(tmp_path / "free", small_workload(), small_space(), samples=300, proof=True)
    power = power_mw(fast.cost, 1000.0)
    slack = dataclasses.replace(small_space(), constraints=Constraints(power_mw=0.8 * power, area_mm2=None))
    held = explore(tmp_path / "held", small_workload(), slack, samples=300, proof=True)
    assert power_mw(held.cost, 1000.0) <= 0.8 * power
    assert held.cost.edp > fast.cost.edp
    assert last_details(tmp_path / "held")[1][BOUND] <= held.cost.edp
