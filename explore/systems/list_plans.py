"""Schedules by rules, as peers of the integer program and where that is too large.

* HEFT: tasks by urgency, each on the unit where it ends first (Topcuoglu et al. 2002), gaps included.
* greedy enumeration: of the most urgent tasks that could begin, all units of the next few together (HOPE's, K tasks, |D|^K tries).
* serial dynamic programming: units of tasks one after the other, as if nothing ran beside (MOSAIC's).
* descent: units of single tasks changed, and urgencies, as long as that is better.

Urgency is how late a task may begin: before its deadline and those behind it, or before an end that all share.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from baco.exploration.systems.task_graph import Floats, Goal, TaskGraph
from baco.exploration.systems.timetable import Board, Timetable, dispatch, orderly, replay

#: Tasks that greedy enumeration places together, and the most tries that it makes for them.
_TOGETHER, _TRIES = 3, 81
#: Schedules that descent looks at.
_LOOKS = 2000


def latest_starts(graph: TaskGraph) -> Floats:
    """(n,) until when tasks begin, with mean times: before deadlines, or before an end far away that is that of all."""
    finite = np.isfinite(graph.times)
    mean = np.where(finite, graph.times, 0.0).sum(1) / finite.sum(1)
    far = float(mean.sum() + graph.ready.max(initial=0.0))
    found = np.minimum(graph.deadlines, far)
    for task in range(len(graph.names) - 1, -1, -1):
        for consumer in graph.behind[task]:
            found[task] = min(found[task], found[consumer])
        found[task] -= mean[task]
    return np.asarray(found)


def heft(graph: TaskGraph) -> Timetable:
    """See the module."""
    board = Board(graph)
    for task in orderly(graph, latest_starts(graph).tolist()):
        board.put(task, board.soonest(task))
    return board.timetable


def greedy(graph: TaskGraph) -> Timetable:
    """See the module: of all tries the one whose last end is first, then of least ends together."""
    keys = latest_starts(graph).tolist()
    left = [len(one) for one in graph.before]
    ready = [task for task, count in enumerate(left) if not count]
    board = Board(graph)
    while ready:
        ready.sort(key=lambda task: (keys[task], task))
        chosen = ready[:_TOGETHER]
        while len(chosen) > 1 and np.prod([len(graph.able[task]) for task in chosen]) > _TRIES:
            chosen.pop()
        del ready[: len(chosen)]
        board = min(
            (_tried(board, chosen, units) for units in itertools.product(*(graph.able[t] for t in chosen))),
            key=lambda tried: _ends(tried, chosen),
        )
        for task in chosen:
            for consumer in graph.behind[task]:
                left[consumer] -= 1
                if not left[consumer]:
                    ready.append(consumer)
    return board.timetable


def _tried(board: Board, tasks: Sequence[int], units: Sequence[int]) -> Board:
    new = board.copy()
    for task, unit in zip(tasks, units, strict=True):
        new.put(task, unit)
    return new


def _ends(board: Board, tasks: Sequence[int]) -> tuple[float, float]:
    ends = [board.finishes[task] for task in tasks]
    return max(ends), sum(ends)


def serial(graph: TaskGraph, goal: Goal) -> Timetable:
    """See the module."""
    costs, chosen = goal.costs(graph), []
    best = np.zeros(len(graph.units))
    for task in range(len(graph.names)):
        edge = (task - 1, task)
        moves = goal.time * graph.edges.get(edge, 0.0) * (graph.per_byte - np.diag(np.diag(graph.per_byte)))
        through = best[:, None] + moves
        chosen.append(through.argmin(0))
        best = through.min(0) + costs[task]
    units = [int(best.argmin())] if graph.names else []
    for task in range(len(graph.names) - 1, 0, -1):
        units.append(int(chosen[task][units[-1]]))
    return dispatch(graph, units[::-1], range(len(graph.names)))


def descend(
    graph: TaskGraph, goal: Goal, begin: Timetable, enough: Callable[[], bool] = lambda: False
) -> Timetable:
    """A schedule at least as good: tasks on other units one at a time, and orders by urgency or by when they began, while that is
    better and not `enough`."""
    best, value = begin, begin.value(graph, goal)
    urgency = orderly(graph, latest_starts(graph).tolist())
    looks, better = _LOOKS, True
    while better and looks > 0 and not enough():
        better = False
        # the tasks that end last first: they are the ones that hold the end up
        for task in sorted(range(len(graph.names)), key=lambda t: -best.finishes[t]):
            for unit in graph.able[task]:
                if unit == best.units[task] or looks <= 0 or enough():
                    continue
                units = [*best.units[:task], unit, *best.units[task + 1 :]]
                for order in (orderly(graph, best.starts), urgency):
                    looks -= 1
                    tried = replay(graph, dispatch(graph, units, order))
                    if (new := tried.value(graph, goal)) < value:
                        best, value, better = tried, new, True
    return best
