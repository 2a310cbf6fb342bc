"""Importance estimation, with numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from baco.exploration.cost.bound import compulsory_bound, compulsory_costs
from baco.exploration.importance import ImportanceEstimator
from baco.exploration.objective import Objective
from baco.exploration.samplers.descent import GradientSearch
from baco.exploration.search.searcher import SearchSetup
from baco.exploration.space import load_space
from baco.workloads.inputs.load import load_network
from tests.explore.study_helpers import small_workload


def observed() -> ImportanceEstimator:
    """Three layers; the second runs three times. Their least costs are 50, 90 and 50 percent of what they cost now."""
    one = ImportanceEstimator(np.array([1.0, 3.0, 1.0]))
    energy, latency = np.array([100.0, 600.0, 100.0]), np.array([10.0, 20.0, 30.0])
    share = np.array([0.5, 0.9, 0.5])
    one.observe(energy, latency, energy * share, latency * share)
    return one


def test_regret_by_hand() -> None:
    """The second layer has reached 90% of what it could, so that is what the others are asked to reach."""
    total_e, total_l = 100 + 3 * 600 + 100, 10 + 3 * 20 + 30
    cost = np.array(
        [100 / total_e + 10 / total_l, 600 / total_e + 20 / total_l, 100 / total_e + 30 / total_l]
    )
    expected = np.array([1, 3, 1]) * cost * (1 - np.array([0.5, 0.9, 0.5]) / 0.9)
    one = observed()
    assert one.regret() == pytest.approx(expected)
    assert one.gradient() == pytest.approx(-expected)
    one.charge(np.array([3, 0, 0]))
    assert one.gradient() == pytest.approx([-expected[0] / 4, 0, -expected[2]])


def test_what_the_program_does_beside_the_layers_makes_them_less_important() -> None:
    one, alone = observed(), observed()
    one.rest = np.array([2000.0, 100.0])
    assert one.regret() == pytest.approx(alone.regret() / 2)


@pytest.mark.parametrize("units", [1, 2, 7, 100, 1001])
def test_shares_leave_the_same_gain_everywhere(units: int) -> None:
    rng = np.random.default_rng(units)
    one = ImportanceEstimator(rng.integers(1, 5, 12).astype(float))
    energy, latency = rng.random((2, 12)) + 0.1
    reached = rng.random(12)
    one.observe(energy, latency, energy * reached, latency * reached)
    one.charge(rng.integers(0, 40, 12))
    shares = one.shares(units)
    assert shares.sum() == units
    # One at a time to whoever gains most ends, but for rounding, with the same.
    greedy = np.zeros(12)
    for _ in range(units):
        greedy[np.argmax(one.regret() / (one.units + greedy))] += 1
    assert np.abs(shares - greedy).max() <= 2


def test_layers_are_charged_what_they_were_granted_and_come_back_when_overtaken() -> None:
    one = observed()
    first = one.shares(60)
    assert first[1] == 0
    one.charge(first)
    assert one.units.tolist() == (1 + first).tolist()
    # Another accelerator leads, on which the second layer is the one that is far from what it could be.
    energy, latency = one.energy, one.latency
    one.observe(energy, latency, energy * [0.9, 0.1, 0.9], latency * [0.9, 0.1, 0.9])
    assert one.shares(60).tolist() == [0, 60, 0]


def test_nothing_is_granted_where_nothing_is_left() -> None:
    one = ImportanceEstimator(np.ones(3))
    assert one.shares(5).tolist() == [0, 0, 0]
    one.observe(np.ones(3), np.ones(3), np.ones(3) * 2, np.ones(3))
    assert one.shares(5).tolist() == [0, 0, 0]


def test_state_round_trips() -> None:
    one, other = observed(), ImportanceEstimator(np.ones(3))
    one.charge(np.array([5, 0, 1]))
    other.restore(one.state())
    assert np.array_equal(one.gradient(), other.gradient())
    one.charge(np.array([5, 0, 1]))  # a snapshot is a copy
    assert not np.array_equal(one.gradient(), other.gradient())


def test_compulsory_costs_are_those_of_the_bound() -> None:
    """The published bound is the best side's product of sums; memories that cost nothing for their size are no part of it."""
    space = load_space("reference")
    tasks = load_network("deepbench_ocr").tasks
    counts = np.array([task.count for task in tasks])
    found = []
    for dim in range(8, 129):
        accelerator = space.accelerator(dim, 1, 1)
        energy, cycles = compulsory_costs([task.problem for task in tasks], accelerator)
        found.append((energy @ counts) * 1e-6 * (cycles @ counts))
    bound = compulsory_bound(tasks, space.base.energy, space.base.dram_bytes_per_cycle, space.dataflows)
    assert bound <= min(found) <= 1.05 * bound


@pytest.mark.parametrize("by_importance", [True, False])
def test_the_search_charges_what_it_grants(by_importance: bool) -> None:
    """Proposals of all batches of local search, and no others, are charged; evenly where importance has no say."""
    tasks = small_workload().tasks

    class Counting(GradientSearch):
        granted = np.zeros(len(tasks), dtype=np.int64)

        def _tasks_for(self, focus: int, amount: int) -> np.ndarray:
            task = super()._tasks_for(focus, amount)
            assert len(task) == amount
            self.granted = self.granted + np.bincount(task, minlength=len(tasks))
            return task

    Counting.by_importance = by_importance
    search = Counting(SearchSetup(tasks, load_space("gemmini"), Objective(("edp",)), 200 * len(tasks), 0))
    while not search.step().done:
        pass
    assert search.importance.units.tolist() == (1 + search.granted).tolist()
    spread = search.granted.max() - search.granted.min()
    assert (spread > 20) == by_importance
    assert search.importance.least_energy.min() > 0
    assert (search.importance.least_energy <= search.importance.energy).all()
