"""The best plan of several solvers, and how far from the optimum it can be at most."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from baco.exploration.systems.cut import PART, plan_parts
from baco.exploration.systems.integer_program import IntegerSolution, pairs_of, solve
from baco.exploration.systems.list_plans import descend, greedy, heft, latest_starts, serial
from baco.exploration.systems.task_graph import Goal, TaskGraph
from baco.exploration.systems.timetable import PlanValue, Timetable, dispatch, orderly, replay

#: Pairs of tasks that exclude each other up to which the whole graph is one integer program with orders.
_PAIRS = 600
#: Distance from the bound, relative, that is rounding.
_PROVEN = 2e-6

Deadlines = Literal["met", "missed", "cannot be met"]


@dataclass(frozen=True)
class PlannedSystem:
    """What was planned.

    Attributes:
        best: the plan, sharing included.
        solver: who made it.
        values: of every solver's schedule.
        bound: what the goal is at least, in any schedule.
        deadlines: whether tasks end in time; where `cannot be met`, that is proven.
    """

    best: Timetable
    solver: str
    values: Mapping[str, PlanValue]
    bound: float
    deadlines: Deadlines

    @property
    def gap(self) -> float:
        """Share of the goal by which a better schedule could have less, at most; 0: this is the optimum."""
        value = self.values[self.solver].goal
        gap = (value - self.bound) / value if value > 0 else 0.0
        return gap if gap > _PROVEN else 0.0


def plan_graph(graph: TaskGraph, goal: Goal | None = None, *, seconds: float = 20.0) -> PlannedSystem:
    """The best plan of all solvers.

    Args:
        goal: what there is to be least of; by default the makespan.
        seconds: that solvers of integer programs have together.
    """
    return _Planner(graph, goal or Goal(), seconds).plan()


def rule_plans(graph: TaskGraph, goal: Goal) -> dict[str, Timetable]:
    """Schedules by rules, by name; sharing is left to `replay`."""
    return {
        "HEFT": heft(graph),
        "greedy": greedy(graph),
        "serial": serial(graph, goal),
        "cheapest": dispatch(graph, goal.costs(graph).argmin(1).tolist(), _urgency(graph)),
    }


def _urgency(graph: TaskGraph) -> list[int]:
    return orderly(graph, latest_starts(graph).tolist())


class _Planner:
    def __init__(self, graph: TaskGraph, goal: Goal, seconds: float) -> None:
        self.graph, self.goal, self.seconds = graph, goal, seconds
        self.known: dict[str, Timetable] = {}
        self.values: dict[str, PlanValue] = {}
        self.bound = 0.0

    def plan(self) -> PlannedSystem:
        """See `plan_graph`."""
        graph, goal, began = self.graph, self.goal, time.monotonic()
        for name, made in rule_plans(graph, goal).items():
            self._take(name, made)
        loose = solve(graph, goal, upper=np.inf, seconds=self.seconds / 4, ordered=False)
        self._raise(loose)
        impossible = loose.planned is None and loose.proven
        if loose.planned is not None:
            self._take("loads", dispatch(graph, loose.planned.units, _urgency(graph)))
        if len(graph.names) > PART and not self._proven:
            self._take("parts", plan_parts(graph, goal, self.seconds / 4))
        if not self._proven:
            spent = 0.75 * self.seconds
            self._take(
                "descent",
                descend(graph, goal, self.known[self._best], lambda: time.monotonic() - began > spent),
            )
        if not self._proven and not impossible and len(pairs_of(graph)) <= _PAIRS:
            left = max(self.seconds - (time.monotonic() - began), self.seconds / 4)
            late, value, _ = self.values[self._best]
            exact = solve(graph, goal, upper=np.inf if late else value, seconds=left)
            self._raise(exact)
            impossible |= exact.planned is None and exact.proven and bool(late)
            if exact.planned is not None:
                self._take("integer program", exact.planned)
        best = self._best
        missed = self.values[best].lateness > 0
        deadlines: Deadlines = "cannot be met" if impossible and missed else "missed" if missed else "met"
        return PlannedSystem(self.known[best], best, self.values, self.bound, deadlines)

    def _take(self, name: str, made: Timetable) -> None:
        self.known[name] = replay(self.graph, made)
        self.values[name] = self.known[name].value(self.graph, self.goal)

    def _raise(self, solved: IntegerSolution) -> None:
        self.bound = max(self.bound, solved.bound)

    @property
    def _best(self) -> str:
        return min(self.values, key=lambda name: self.values[name])

    @property
    def _proven(self) -> bool:
        late, value, _ = self.values[self._best]
        return not late and value - self.bound <= _PROVEN * value
