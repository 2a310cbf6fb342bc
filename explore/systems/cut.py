"""Large graphs in parts: cut between two ranks (HOPE's), each part an integer program behind the parts before it.

The published cut misses two things. Its test of the balance never fires (it compares with a least difference that nothing sets), and
where there is no cut it lowers the balance's epsilon, which allows fewer cuts yet: here it is raised until there is one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from baco.exploration.systems.integer_program import solve
from baco.exploration.systems.task_graph import Goal, TaskGraph
from baco.exploration.systems.timetable import Board, Timetable, orderly, replay

#: Tasks of a part at most, as published.
PART = 12
#: Epsilon of the balance that a cut is first looked for with, and what it is raised by.
_EPSILON, _RAISE = 0.2, 0.1


def ranks_of(graph: TaskGraph) -> list[int]:
    """Length of the longest path to every task, in tasks."""
    found: list[int] = []
    for producers in graph.before:
        found.append(1 + max((found[producer] for producer in producers), default=0))
    return found


def bisect(graph: TaskGraph, tasks: Sequence[int], ranks: Sequence[int]) -> tuple[list[int], list[int]]:
    """Two parts of some tasks, the second of higher ranks, with at most (1 + epsilon) of half the tasks each and the fewest tasks that
    the second reads from the first; tasks of one rank in two halves."""
    inside, choices = set(tasks), []
    for rank in sorted({ranks[task] for task in tasks})[:-1]:
        first = [task for task in tasks if ranks[task] <= rank]
        second = [task for task in tasks if ranks[task] > rank]
        crossing = sum(any(k in inside and ranks[k] > rank for k in graph.behind[task]) for task in first)
        larger = max(len(first), len(second))
        choices.append((crossing, larger, first, second))
    if not choices:
        return list(tasks[: len(tasks) // 2]), list(tasks[len(tasks) // 2 :])
    epsilon = _EPSILON
    while not (balanced := [one for one in choices if one[1] <= (1 + epsilon) * len(tasks) / 2]):
        epsilon += _RAISE
    _, _, first, second = min(balanced, key=lambda one: one[:2])
    return first, second


def parts_of(graph: TaskGraph, size: int = PART) -> list[list[int]]:
    """All tasks in parts of a size at most, each behind all that it reads from."""
    ranks = ranks_of(graph)

    def cut(tasks: list[int]) -> list[list[int]]:
        if len(tasks) <= size:
            return [tasks] if tasks else []
        return [part for half in bisect(graph, tasks, ranks) for part in cut(half)]

    return cut(list(range(len(graph.names))))


def plan_parts(graph: TaskGraph, goal: Goal, seconds: float) -> Timetable:
    """The parts' integer programs one after the other, on units as the parts before leave them."""
    board = Board(graph)
    parts = parts_of(graph)
    for part in parts:
        ready = graph.ready[part].copy()
        for at, task in enumerate(part):
            for producer in graph.before[task]:
                if (unit := board.unit[producer]) >= 0:
                    for other in graph.able[task]:
                        arrived = board.finishes[producer] + graph.transfer((producer, task), (unit, other))
                        ready[at, other] = max(ready[at, other], arrived)
        for unit, free in enumerate(board.free):
            ready[:, unit] = np.maximum(ready[:, unit], free)
        inner = graph.part(part, ready)
        found = solve(inner, goal, upper=math.inf, seconds=seconds / len(parts)).planned
        order = orderly(inner, list(range(len(part))) if found is None else found.starts)
        for at in order:
            if found is None:  # deadlines that cannot be met any more, or no time left
                unit = board.soonest(part[at])
            else:
                unit = found.units[at]
            board.put(part[at], unit)
    return replay(graph, board.timetable)
