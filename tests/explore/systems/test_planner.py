"""Plans of tasks on units: against everything that could be planned, against their peers, and what is proven of them."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from baco.common.errors import InfeasibleError
from baco.exploration.systems.cut import PART, parts_of, plan_parts
from baco.exploration.systems.list_plans import greedy, heft, serial
from baco.exploration.systems.planner import plan_graph
from baco.exploration.systems.task_graph import Goal, TaskGraph
from baco.exploration.systems.timetable import Timetable, dispatch, replay
from tests.explore.systems.random_tasks import least_makespan, random_graph
from tests.seeds import seeds


def small(seed: int) -> TaskGraph:
    """Two to seven tasks on two or three units; three of four with transfers."""
    return random_graph(seed, 2 + seed % 6, 2 + seed % 2, density=0.2 + 0.1 * (seed % 3), moves=seed % 4 != 0)


def check(graph: TaskGraph, planned: Timetable) -> None:
    """Nothing begins before what it needs is there, and nothing runs beside another on one unit or on the channel."""
    slack = 1e-6
    moved = {one.edge: one for one in planned.spells}
    for (i, k), size in graph.edges.items():
        length = size * graph.per_byte[planned.units[i], planned.units[k]]
        if planned.units[i] != planned.units[k] and length:
            assert moved[i, k].start >= planned.finishes[i] - slack
            assert moved[i, k].finish == pytest.approx(moved[i, k].start + length)
            assert planned.starts[k] >= moved[i, k].finish - slack
        assert planned.starts[k] >= planned.finishes[i] - slack
    queues = [[(one.start, one.finish) for one in planned.spells]]
    for unit in range(len(graph.units)):
        tasks = [i for i, u in enumerate(planned.units) if u == unit]
        queues.append([(planned.starts[i], planned.finishes[i]) for i in tasks])
    for queue in queues:
        queue.sort()
        assert all(b[0] >= a[1] - slack for a, b in itertools.pairwise(queue))
    for i, unit in enumerate(planned.units):
        assert planned.finishes[i] - planned.starts[i] >= graph.times[i, unit] - slack


@pytest.mark.parametrize("seed", range(6, 26))
def test_the_oracle_leaves_out_nothing_that_is_better(seed: int) -> None:
    graph = random_graph(seed, 2 + seed % 3, 2, density=0.5)
    assert least_makespan(graph) == least_makespan(graph, prune=False)


@pytest.mark.parametrize("start", seeds(2, of=10))
def test_small_plans_are_the_optimum(start: int) -> None:
    for seed in range(20 * start, 20 * start + 20):
        graph = small(seed)
        planned = plan_graph(graph)
        check(graph, planned.best)
        assert planned.best.makespan == pytest.approx(least_makespan(graph)), seed
        assert planned.gap == 0


@pytest.mark.parametrize("start", seeds(1, of=25))
def test_plans_are_never_above_their_peers(start: int) -> None:
    for seed in range(20 * start, 20 * start + 20):
        graph = random_graph(seed, 3 + seed % 13, 2 + seed % 3, density=0.1 + 0.1 * (seed % 3))
        planned = plan_graph(graph, seconds=0.2)
        check(graph, planned.best)
        for peer in (heft(graph), greedy(graph), serial(graph, Goal())):
            check(graph, peer)
            assert planned.best.makespan <= peer.makespan + 1e-9
        assert planned.bound <= planned.best.makespan * (1 + 1e-6)


def test_parts_come_behind_what_they_read() -> None:
    graph = random_graph(1, 90, 3, density=0.03)
    parts = parts_of(graph)
    assert sorted(task for part in parts for task in part) == list(range(90))
    assert max(map(len, parts)) <= PART
    place = {task: at for at, part in enumerate(parts) for task in part}
    assert all(place[i] <= place[k] for i, k in graph.edges)
    check(graph, plan_parts(graph, Goal(), 5.0))


def test_a_part_of_one_rank_is_cut_although_no_rank_balances_it() -> None:
    """25 tasks without edges, and a star, of which every cut between ranks is out of balance until epsilon was raised often."""
    free = random_graph(2, 25, 2, density=0.0)
    assert max(map(len, parts_of(free))) <= PART
    star = replace(free, edges={(0, k): 1.0 for k in range(1, 25)})
    assert max(map(len, parts_of(star))) <= PART


@pytest.mark.slow
@pytest.mark.parametrize("moves", [False, True])
def test_two_hundred_tasks(moves: bool) -> None:
    graph = random_graph(3, 200, 3, density=0.01, moves=moves)
    planned = plan_graph(graph, seconds=20.0)
    check(graph, planned.best)
    assert 0 <= planned.gap < 1


def two(times: list[list[float]], **changes: object) -> TaskGraph:
    names = tuple(f"task{i}" for i in range(len(times)))
    return TaskGraph(names, ("a", "b"), np.array(times), **{"edges": {}, **changes})  # type: ignore[arg-type]


def test_energy_at_met_deadlines() -> None:
    """Unit a is fast, b frugal: b where the deadline leaves time; what the system takes by itself counts over the makespan."""
    times, energies = [[2.0, 5.0], [2.0, 5.0]], np.array([[10.0, 1.0], [10.0, 1.0]])

    def least(deadline: float, static: float = 0.0) -> tuple[float, float, str]:
        deadlines = np.full(2, deadline)
        graph = two(times, energies=energies, deadlines=deadlines, static=static)
        planned = plan_graph(graph, Goal.named("energy", graph))
        return planned.best.energy(graph), planned.best.makespan, planned.deadlines

    assert least(math.inf) == (2.0, 10.0, "met")
    assert least(5.0) == (11.0, 5.0, "met")
    assert least(4.0) == (20.0, 4.0, "met")
    assert least(3.0)[2] == "cannot be met"
    assert least(math.inf, static=2.0) == (21.0, 5.0, "met")


def test_what_tasks_share_slows_them_down() -> None:
    """Both need 0.8 of the resource: 8 + 8 of it take 16. With 0.5 each nothing is slower."""
    shares = np.array([[[8.0, 8.0], [8.0, 8.0]]])
    graph = two([[10.0, math.inf], [math.inf, 10.0]], shared=shares)
    assert plan_graph(graph).best.makespan == pytest.approx(16.0)
    assert plan_graph(graph).gap == 0
    half = replace(graph, shared=shares * 5 / 8)
    assert plan_graph(half).best.makespan == pytest.approx(10.0)
    # the one that ends first gives back what it had: 6 of 10 at 1 / 1.2, then the rest alone
    times = np.array([[5.0, math.inf], [math.inf, 10.0]])
    longer = replace(graph, times=times, shared=np.array([[[3.0, 3.0], [6.0, 6.0]]]))
    planned = replay(longer, dispatch(longer, [0, 1], [0, 1]))
    assert planned.finishes == pytest.approx((6.0, 11.0))


def test_a_task_for_no_unit_is_named() -> None:
    with pytest.raises(InfeasibleError, match="no unit of the system can run task1"):
        two([[1.0, 1.0], [math.inf, math.inf]])


def test_what_tasks_wait_for_at_a_resource_is_their_own_exposure() -> None:
    """The first needs a tenth of it and would take 5 longer if the other took all; that takes 0.6: 3 longer. The other works meanwhile."""
    times = np.array([[10.0, math.inf], [math.inf, 20.0]])
    shares = np.array([[[1.0, 0.0], [0.0, 12.0]]])
    graph = two(times.tolist(), shared=shares, exposed=np.array([[[5.0, 0.0], [0.0, 0.0]]]))
    assert replay(graph, dispatch(graph, [0, 1], [0, 1])).finishes == pytest.approx((13.0, 20.0))
