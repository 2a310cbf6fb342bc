"""Units, orders and starts of tasks as an integer program (HOPE's, with transfers on a channel of their own), solved by HiGHS.

Variables: whether a task is on a unit, its start, whether it goes before another one that could be on the same unit; the same for
transfers on the channel between memories. Of two tasks one goes first where both are on one unit:

    before(i, k) + before(k, i) >= on(i, u) + on(k, u) - 1        for every unit u of both
    start(k) >= start(i) + time(i) - M (1 - before(i, k))

M is no large number, but the latest end of i less the earliest start of k that any schedule as good as a known one has. Without
orders, loads of units and paths through the graph alone bound what any schedule takes; the units that are best so are those of a
good schedule, too.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from baco.exploration.systems.task_graph import Edge, Floats, Goal, TaskGraph
from baco.exploration.systems.timetable import Spell, Timetable

#: What the longest time of a program is scaled to: tolerances of the solver are absolute, about a millionth.
_SCALE = 1000.0
#: Relative distance from the known value within which nothing better is looked for.
_SAME = 1e-6


@dataclass(frozen=True)
class IntegerSolution:
    """What the solver says.

    Attributes:
        planned: the best schedule that it knows; None for none. Its times may be off by rounding: `replay` makes them exact.
        bound: what the goal is at least.
        proven: whether nothing is better than `planned`, or than the known value where that is None.
    """

    planned: Timetable | None
    bound: float
    proven: bool


@dataclass
class _Program:
    """Rows and columns of an integer program."""

    lows: list[float]
    highs: list[float]
    whole: list[int]
    costs: list[float]
    entries: list[tuple[int, int, float]]
    least: list[float]

    def column(self, low: float, high: float, *, whole: bool = False, cost: float = 0.0) -> int:
        """A variable."""
        self.lows.append(low)
        self.highs.append(high)
        self.whole.append(int(whole))
        self.costs.append(cost)
        return len(self.lows) - 1

    def row(self, terms: Mapping[int, float], least: float) -> None:
        """The sum of terms is at least so much."""
        self.entries += [(len(self.least), column, factor) for column, factor in terms.items() if factor]
        self.least.append(least)


def solve(
    graph: TaskGraph, goal: Goal, *, upper: float, seconds: float, ordered: bool = True
) -> IntegerSolution:
    """The best schedule that meets all deadlines and is better than a known one.

    Args:
        upper: the goal of the known one; infinite for none.
        seconds: after which the solver stops with what it has.
        ordered: whether tasks on one unit, and transfers, exclude each other; without, the solution is a bound, with no transfers and with units and starts that no
            schedule need have.
    """
    return _Formulation(graph, goal, upper, ordered=ordered).solve(seconds)


def pairs_of(graph: TaskGraph) -> list[Edge]:
    """Tasks that could be on the same unit and neither of which lies before the other."""
    return [
        (i, k)
        for i, k in itertools.combinations(range(len(graph.names)), 2)
        if not graph.ancestors[k] >> i & 1 and set(graph.able[i]) & set(graph.able[k])
    ]


@contextmanager
def _quiet() -> Iterator[None]:
    """HiGHS writes some messages to the process's standard output whatever it is told; they are dropped."""
    sys.stdout.flush()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


class _Formulation:
    def __init__(self, graph: TaskGraph, goal: Goal, upper: float, *, ordered: bool) -> None:
        self.graph, self.goal, self._upper = graph, goal, upper
        finite = np.where(np.isfinite(graph.times), graph.times, 0.0)
        moved = math.fsum(size * float(graph.per_byte.max()) for size in graph.edges.values())
        horizon = float(graph.ready.max(initial=0.0)) + float(finite.max(1).sum()) + moved
        costs = np.where(np.isfinite(graph.times), graph.energies, math.inf)
        least = math.fsum((goal.energy * costs.min(1)).tolist()) if goal.energy else 0.0
        if goal.time and upper < math.inf:
            horizon = min(horizon, (upper - least) / goal.time)
        horizon = max(horizon, float((graph.heads + graph.times.min(1) + graph.tails).max(initial=0.0)))
        self._unit = horizon / _SCALE or 1.0
        self.horizon = horizon / self._unit
        self.p = _Program([], [], [], [], [], [])
        self._latest = np.minimum(horizon - graph.tails, graph.deadlines) / self._unit
        self._variables()
        self._moves()
        if ordered:
            self._orders()
            self._channel()

    def _variables(self) -> None:
        graph, p, scale = self.graph, self.p, self._unit
        # the goal in units of what the horizon costs, so that it is about as large as times
        per_time = self.goal.time * scale
        self.end = p.column(0.0, self.horizon, cost=per_time)
        self.on = [
            {u: p.column(0, 1, whole=True, cost=self.goal.energy * float(graph.energies[i, u])) for u in able}
            for i, able in enumerate(graph.able)
        ]
        self.time = [
            {column: float(graph.times[i, u]) / scale for u, column in on.items()}
            for i, on in enumerate(self.on)
        ]
        self.start = [p.column(float(head) / scale, self.horizon) for head in graph.heads]
        for i, (on, start) in enumerate(zip(self.on, self.start, strict=True)):
            p.row(dict.fromkeys(on.values(), 1.0), 1.0)
            p.row(dict.fromkeys(on.values(), -1.0), -1.0)
            p.row({start: 1.0} | {c: -float(graph.ready[i, u]) / scale for u, c in on.items()}, 0.0)
            p.row(self._minus(i) | {self.end: 1.0}, float(graph.tails[i]) / scale)
            if graph.deadlines[i] < math.inf:
                p.row(self._minus(i), -float(graph.deadlines[i]) / scale)
        self._loads()

    def _loads(self) -> None:
        """Units and shared resources do one thing at a time: all tasks until the end, and those that must be done between a begin and a
        deadline until that."""
        graph, p, scale = self.graph, self.p, self._unit
        begins, due = graph.ready.min(1), graph.deadlines.copy()
        for task in range(len(graph.names) - 1, -1, -1):
            due[task] = min((due[task], *(due[consumer] for consumer in graph.behind[task])))
        needs = [
            [
                (column, float(graph.times[i, u]))
                for i, on in enumerate(self.on)
                for v, column in on.items()
                if v == u
            ]
            for u in range(len(graph.units))
        ]
        needs += [
            [(c, float(need[i, u])) for i, on in enumerate(self.on) for u, c in on.items()]
            for need in graph.shared
        ]
        owner = {column: i for i, on in enumerate(self.on) for column in on.values()}
        first = float(begins.min(initial=math.inf)) if graph.names else 0.0
        for terms in needs:
            p.row({self.end: 1.0} | {column: -time / scale for column, time in terms}, first / scale)
            for begin, end in itertools.product(np.unique(begins), np.unique(due[np.isfinite(due)])):
                inside = {
                    column: -time / scale
                    for column, time in terms
                    if begins[owner[column]] >= begin and due[owner[column]] <= end
                }
                if begin < end and inside:
                    p.row(inside, -float(end - begin) / scale)

    def _minus(self, task: int) -> dict[int, float]:
        """Terms of minus a task's end."""
        return {self.start[task]: -1.0} | {column: -time for column, time in self.time[task].items()}

    def _moves(self) -> None:
        """What needs what, with transfers between."""
        graph, p = self.graph, self.p
        self.spell: dict[Edge, tuple[int, int, int]] = {}
        for i, k in sorted(graph.edges):
            p.row(self._minus(i) | {self.start[k]: 1.0}, 0.0)
            lengths = {
                (u, v): graph.transfer((i, k), (u, v)) / self._unit for u in self.on[i] for v in self.on[k]
            }
            if not any(lengths.values()):
                continue
            length, moved = p.column(0.0, max(lengths.values())), p.column(0.0, 1.0)
            begin = p.column(float(graph.heads[i]) / self._unit, self.horizon)
            self.spell[i, k] = begin, length, moved
            for (u, v), time in lengths.items():
                if time:
                    p.row({length: 1.0, self.on[i][u]: -time, self.on[k][v]: -time}, -time)
                    p.row({moved: 1.0, self.on[i][u]: -1.0, self.on[k][v]: -1.0}, -1.0)
            p.row(self._minus(i) | {begin: 1.0}, 0.0)
            p.row({self.start[k]: 1.0, begin: -1.0, length: -1.0}, 0.0)
        if self.spell:
            p.row({self.end: 1.0} | {length: -1.0 for _, length, _ in self.spell.values()}, 0.0)

    def _orders(self) -> None:
        p = self.p
        for i, k in pairs_of(self.graph):
            first, second = self._either()
            for u in self.on[i].keys() & self.on[k].keys():
                p.row({first: 1.0, second: 1.0, self.on[i][u]: -1.0, self.on[k][u]: -1.0}, -1.0)
            for order, a, b in ((first, i, k), (second, k, i)):
                slack = max(0.0, float(self._latest[a] - self.graph.heads[b] / self._unit))
                p.row(self._minus(a) | {self.start[b]: 1.0, order: -slack}, -slack)

    def _either(self) -> tuple[int, int]:
        """Two orders, of which at most one holds."""
        first, second = (self.p.column(0, 1, whole=True) for _ in range(2))
        self.p.row({first: -1.0, second: -1.0}, -1.0)
        return first, second

    def _channel(self) -> None:
        """Transfers one at a time, those that there are."""
        p, ancestors = self.p, self.graph.ancestors
        for one, other in itertools.combinations(self.spell, 2):
            if any(
                a[1] == b[0] or ancestors[b[0]] >> a[1] & 1 for a, b in itertools.permutations((one, other))
            ):
                continue
            first, second = self._either()
            p.row({first: 1.0, second: 1.0, self.spell[one][2]: -1.0, self.spell[other][2]: -1.0}, -1.0)
            for order, a, b in ((first, one, other), (second, other, one)):
                begin, length, _ = self.spell[a]
                row = {self.spell[b][0]: 1.0, begin: -1.0, length: -1.0, order: -self.horizon}
                p.row(row, -self.horizon)

    def solve(self, seconds: float) -> IntegerSolution:
        """See `solve`."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        p = self.p
        costs = np.array(p.costs)
        largest = float(np.abs(costs).max(initial=0.0)) or 1.0
        rows, columns, factors = (np.array(one) for one in zip(*p.entries, strict=True))
        matrix = csr_array((factors, (rows, columns)), shape=(len(p.least), len(p.lows)))
        constraints = [LinearConstraint(matrix, np.array(p.least), np.inf)]
        known = self._upper < math.inf
        if known:
            better = self._upper * (1 - _SAME) / largest
            constraints.append(LinearConstraint((costs / largest)[None, :], -np.inf, better))
        with _quiet():
            found = milp(
                costs / largest,
                integrality=p.whole,
                bounds=Bounds(np.array(p.lows), np.array(p.highs)),
                constraints=constraints,
                options={"time_limit": seconds, "mip_rel_gap": _SAME},
            )
        bound = 0.0 if found.mip_dual_bound is None else float(found.mip_dual_bound) * largest
        if found.x is None:
            # nothing is better than the known value: that is proven, and its own bound
            none = found.status == 2
            return IntegerSolution(None, self._upper * (1 - _SAME) if none and known else bound, none)
        return IntegerSolution(self._planned(found.x), bound, found.status == 0)

    def _planned(self, values: Floats) -> Timetable:
        units = tuple(max(on, key=lambda u: float(values[on[u]])) for on in self.on)
        starts = [float(values[column]) * self._unit for column in self.start]
        finishes = [
            start + float(self.graph.times[i, u])
            for i, (start, u) in enumerate(zip(starts, units, strict=True))
        ]
        spells = [
            Spell(edge, begin := float(values[columns[0]]) * self._unit, begin)
            for edge, columns in self.spell.items()
        ]
        return Timetable(units, tuple(starts), tuple(finishes), tuple(spells))
