"""The scheduler of tasks: gradients by hand and by differences, and where the budget goes."""

import math
from collections.abc import Callable

import pytest

from baco.common.errors import InputError
from baco.exploration.samplers.tuning_tasks import OBJECTIVES, Objective, Scheduler, TuningTask, gradient


def test_published_gradient() -> None:
    assert gradient(3, 10, 13, 5, 3, alpha=0.2, beta=2, window=3) == pytest.approx(-10.2)


def falling(start: float, by: float, least: float) -> Callable[[], float]:
    """Latencies that fall by a factor a step, to a floor."""
    latency = [start / by]

    def step() -> float:
        latency[0] = max(least, latency[0] * by)
        return latency[0]

    return step


def begun(objective: Objective) -> Scheduler:
    histories = {"a": [8.0, 6.0, 5.0, 5.0, 4.0], "b": [9.0, 7.0, 7.0, 7.0, 7.0], "c": [3.0, 2.0]}
    tasks = {name: TuningTask(lambda: 1.0, 2.0, history=list(one)) for name, one in histories.items()}
    networks = [{"a": 2.0, "b": 1.0}, {"b": 3.0, "c": 1.0}]
    return Scheduler(tasks, networks, objective, required=(10.0, 30.0), references=(20.0, 46.0), curiosity=0)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_slopes_are_the_objectives_differences(objective: Objective) -> None:
    scheduler = begun(objective)
    for name, task in scheduler.tasks.items():
        slope, before, step = scheduler.slope(name), scheduler.value(), 1e-6
        stopped = scheduler._stop(task)
        task.history[-1] -= step
        if objective == "f4" and stopped:  # what has stopped counts as it was
            assert slope == 0
        else:
            assert (before - scheduler.value()) / step == pytest.approx(slope, rel=1e-4, abs=1e-6)
        task.history[-1] += step


def test_objectives_by_hand() -> None:
    # networks take 2*4 + 7 = 15 and 3*7 + 2 = 23
    assert begun("f1").value() == 38
    assert begun("f2").value() == 15 + 30
    assert begun("f3").value() == pytest.approx(-math.sqrt(20 / 15 * 46 / 23))
    assert begun("f4").value() == 38


def test_a_network_that_is_fast_enough_gets_nothing() -> None:
    scheduler = begun("f2")
    assert scheduler.slope("c") == 0
    assert scheduler.slope("b") == 1  # of the first network only
    scheduler.required = (100.0, 100.0)
    assert {scheduler.promise(name) for name in scheduler.tasks} == {0}


def test_every_task_is_begun_and_the_budget_goes_where_it_pays() -> None:
    tasks = {
        "stuck": TuningTask(falling(100, 1.0, 100), 100.0, "stuck"),
        "falls": TuningTask(falling(100, 0.9, 10), 100.0, "falls"),
        "light": TuningTask(falling(1, 0.9, 0.1), 1.0, "light"),
    }
    scheduler = Scheduler(tasks, [dict.fromkeys(tasks, 1.0)], curiosity=0, alpha=0.9)
    scheduler.spend(3)
    assert scheduler.order == ["stuck", "falls", "light"]
    scheduler.spend(20)
    spent = {name: task.units for name, task in tasks.items()}
    assert sum(spent.values()) == 23
    assert spent["falls"] > spent["stuck"] > spent["light"]


def test_a_task_that_stopped_is_left_for_others() -> None:
    tasks = {
        "stuck": TuningTask(falling(100, 1.0, 100), 1.0),
        "falls": TuningTask(falling(50, 0.9, 10), 1.0),
    }
    scheduler = Scheduler(tasks, [{"stuck": 1.0, "falls": 1.0}], "f4", patience=2, curiosity=0)
    scheduler.spend(20)
    assert tasks["stuck"].units <= 4


def test_curiosity_takes_any_task() -> None:
    tasks = {name: TuningTask(falling(1, 1.0, 1)) for name in "abc"}
    scheduler = Scheduler(tasks, [{"a": 1.0}], curiosity=1.0)
    scheduler.spend(40)
    assert set(scheduler.order[3:]) == set("abc")


def test_mistakes_are_refused() -> None:
    tasks = {"a": TuningTask(lambda: 1.0)}
    with pytest.raises(InputError, match="'b', which is no task"):
        Scheduler(tasks, [{"b": 1.0}])
    with pytest.raises(InputError, match="f3 needs a latency for each of 1 networks"):
        Scheduler(tasks, [{"a": 1.0}], "f3")
    with pytest.raises(InputError, match="too few"):
        Scheduler(tasks, [{"a": 1.0}]).spend(0)
