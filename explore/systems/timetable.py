"""When tasks run on units: orders carried out, with what tasks of different units take from each other.

Tasks that run at the same time and need a shared resource hold each other up, each in proportion to the share that the others need (need
over time) while they are held up themselves, and to its own exposure: nothing where it works while it waits. Tasks that then still need more together than there is slow
down alike. So a shared resource never gives more than it has, and no lower bound of the problem without sharing, or of the load of a
resource, is undercut.
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from baco.exploration.systems.task_graph import Edge, Goal, TaskGraph

#: Of what is left of a task, relative to its time: less is rounding.
_ROUNDING = 1e-12
#: After which rates of tasks that hold each other up are known well enough.
_ROUNDS = 6


class Spell(NamedTuple):
    """A transfer: bytes of an edge on the channel between memories."""

    edge: Edge
    start: float
    finish: float


class PlanValue(NamedTuple):
    """Less is better, the first first: what tasks end behind deadlines, what the goal says, and when tasks end, all together."""

    lateness: float
    goal: float
    ends: float


@dataclass(frozen=True)
class Timetable:
    """Unit, start and end of every task, and the transfers between them."""

    units: tuple[int, ...]
    starts: tuple[float, ...]
    finishes: tuple[float, ...]
    spells: tuple[Spell, ...] = ()

    @property
    def makespan(self) -> float:
        """End of the last task."""
        return max(self.finishes, default=0.0)

    def lateness(self, graph: TaskGraph) -> float:
        """What tasks end behind their deadlines, all together."""
        late = np.array(self.finishes) - graph.deadlines
        # a deadline that is met to the last bit is met
        slack = 1e-9 * max(self.makespan, 1e-30)
        return float(late[late > slack].sum()) if len(late) else 0.0

    def energy(self, graph: TaskGraph) -> float:
        """Of all tasks and of the system while they last."""
        return self.value(graph, Goal(graph.static, 1.0)).goal

    def value(self, graph: TaskGraph, goal: Goal) -> PlanValue:
        """What is less for a better timetable."""
        tasks = math.fsum(graph.energies[range(len(self.units)), self.units].tolist())
        return PlanValue(
            self.lateness(graph), goal.time * self.makespan + goal.energy * tasks, math.fsum(self.finishes)
        )


class Board:
    """Times at which units and the channel are taken, as tasks are put on them one after the other."""

    def __init__(self, graph: TaskGraph) -> None:
        self._graph = graph
        self._units: list[list[tuple[float, float]]] = [[] for _ in graph.units]
        self._channel: list[tuple[float, float]] = []
        self.unit = [-1] * len(graph.names)
        self.starts = [0.0] * len(graph.names)
        self.finishes = [0.0] * len(graph.names)
        self._spells: dict[Edge, Spell] = {}

    def trial(self, task: int, unit: int) -> tuple[float, float, list[Spell]]:
        """(end, start, transfers) of a task whose producers are on the board, in the first gaps of unit and channel."""
        graph, channel, spells = self._graph, self._channel, []
        ready = float(graph.ready[task, unit])
        for producer in graph.before[task]:
            arrived = self.finishes[producer]
            length = graph.transfer((producer, task), (self.unit[producer], unit))
            if length:
                if channel is self._channel:
                    channel = list(channel)
                start = _gap(channel, arrived, length)
                bisect.insort(channel, (start, start + length))
                spells.append(Spell((producer, task), start, start + length))
                arrived = start + length
            ready = max(ready, arrived)
        start = _gap(self._units[unit], ready, float(graph.times[task, unit]))
        return start + float(graph.times[task, unit]), start, spells

    def soonest(self, task: int) -> int:
        """The unit on which a task ends first."""
        return min(self._graph.able[task], key=lambda unit: self.trial(task, unit)[0])

    def put(self, task: int, unit: int) -> None:
        """Put the task there."""
        finish, start, spells = self.trial(task, unit)
        self.unit[task], self.starts[task], self.finishes[task] = unit, start, finish
        bisect.insort(self._units[unit], (start, finish))
        for spell in spells:
            bisect.insort(self._channel, (spell.start, spell.finish))
            self._spells[spell.edge] = spell

    def copy(self) -> Board:
        """A board of its own."""
        new = Board(self._graph)
        new._units = [list(one) for one in self._units]
        new._channel, new._spells = list(self._channel), dict(self._spells)
        new.unit, new.starts, new.finishes = list(self.unit), list(self.starts), list(self.finishes)
        return new

    @property
    def free(self) -> list[float]:
        """Time from which on each unit has nothing more to do."""
        return [max((end for _, end in taken), default=0.0) for taken in self._units]

    @property
    def timetable(self) -> Timetable:
        """Once all tasks are on the board."""
        return Timetable(
            tuple(self.unit), tuple(self.starts), tuple(self.finishes), tuple(self._spells.values())
        )


def _gap(taken: Sequence[tuple[float, float]], ready: float, length: float) -> float:
    """The first start from `ready` on at which so much is free between what is taken, ascending."""
    # what ends before `ready` leaves no gap behind it
    first = bisect.bisect_left(taken, (ready, -math.inf))
    start = max(ready, taken[first - 1][1]) if first else ready
    for begin, end in taken[first:]:
        if start + length <= begin:
            break
        start = max(start, end)
    return start


def dispatch(graph: TaskGraph, units: Sequence[int], order: Iterable[int]) -> Timetable:
    """Tasks on their units, in an order in which they come behind what they need, each in the first gap."""
    board = Board(graph)
    for task in order:
        board.put(task, units[task])
    return board.timetable


def orderly(graph: TaskGraph, keys: Sequence[float]) -> list[int]:
    """All tasks behind what they need, of those that could come next the one of the least key first."""
    return _in_turn([len(one) for one in graph.before], graph.behind, keys)


def _in_turn(waits: Sequence[int], behind: Sequence[Iterable[int]], keys: Sequence[float]) -> list[int]:
    """All numbers behind what they need, of those that could come next the one of the least key first.

    Args:
        waits: how many others each needs; `behind`: which need it.
    """
    left, order = list(waits), list[int]()
    heap = [(keys[one], one) for one, count in enumerate(left) if not count]
    heapq.heapify(heap)
    while heap:
        _, first = heapq.heappop(heap)
        order.append(first)
        for one in behind[first]:
            left[one] -= 1
            if not left[one]:
                heapq.heappush(heap, (keys[one], one))
    return order


def replay(graph: TaskGraph, planned: Timetable) -> Timetable:
    """The timetable's units, and its orders on units and channel, with everything as early as that allows and as late as sharing makes it."""
    activities = _Activities(graph, planned)
    activities.run()
    count = len(planned.units)
    spells = tuple(
        Spell(edge, activities.starts[count + at], activities.finishes[count + at])
        for at, edge in enumerate(activities.edges)
    )
    return Timetable(
        planned.units, tuple(activities.starts[:count]), tuple(activities.finishes[:count]), spells
    )


class _Activities:
    """Tasks (0 to n-1) and transfers (behind them) on units and the channel, the last queue."""

    def __init__(self, graph: TaskGraph, planned: Timetable) -> None:
        tasks, units = len(planned.units), planned.units
        self.edges = [
            (a, b) for a, b in sorted(graph.edges) if graph.transfer((a, b), (units[a], units[b])) > 0
        ]
        moved = {edge: tasks + at for at, edge in enumerate(self.edges)}
        self.times = [float(graph.times[task, unit]) for task, unit in enumerate(units)]
        self.times += [graph.transfer(edge, (units[edge[0]], units[edge[1]])) for edge in self.edges]
        self.ready = [float(graph.ready[task, unit]) for task, unit in enumerate(units)] + [0.0] * len(moved)
        self.waits = [0] * len(self.times)
        self.frees: list[list[int]] = [[] for _ in self.times]
        for edge in sorted(graph.edges):
            producer, consumer = edge
            for before, behind in (
                ((producer, moved[edge]), (moved[edge], consumer)) if edge in moved else (edge,)
            ):
                self.frees[before].append(behind)
                self.waits[behind] += 1
        self._shares = [
            [
                (resource, need / self.times[task], exposed / self.times[task])
                for resource, (need, exposed) in enumerate(
                    zip(
                        graph.shared[:, task, units[task]].tolist(),
                        graph.exposed[:, task, units[task]].tolist(),
                        strict=True,
                    )
                )
                if need > 0
            ]
            for task in range(tasks)
        ] + [[] for _ in moved]
        self.starts, self.finishes = [0.0] * len(self.times), [0.0] * len(self.times)
        self._queues = self._in_order(planned, moved, len(graph.units))

    def _in_order(self, planned: Timetable, moved: dict[Edge, int], units: int) -> list[list[int]]:
        """What each unit, and the channel behind them, runs, the last first: parts of one order that keeps what waits behind it."""
        keys = [*planned.starts, *(0.0 for _ in moved)]
        for spell in planned.spells:
            if spell.edge in moved:
                keys[moved[spell.edge]] = spell.start
        queues: list[list[int]] = [[] for _ in range(units + 1)]
        for activity in reversed(_in_turn(self.waits, self.frees, keys)):
            queues[planned.units[activity] if activity < len(planned.units) else units].append(activity)
        return queues

    def run(self) -> None:
        """Everything from the first start to the last end."""
        now, running, left = 0.0, {}, self.times.copy()
        while True:
            later = math.inf
            for queue, activities in enumerate(self._queues):
                if queue not in running and activities and not self.waits[activities[-1]]:
                    if self.ready[activities[-1]] <= now:
                        running[queue] = activities.pop()
                        self.starts[running[queue]] = now
                    else:
                        later = min(later, self.ready[activities[-1]])
            if not running:
                if later == math.inf:
                    return
                now = later
                continue
            rates = self._rates(list(running.values()))
            ends = {queue: now + left[one] / rates[one] for queue, one in running.items()}
            then = min(later, *ends.values())
            for queue, activity in list(running.items()):
                left[activity] -= (then - now) * rates[activity]
                if ends[queue] <= then or left[activity] <= _ROUNDING * self.times[activity]:
                    del running[queue]
                    self.finishes[activity] = then
                    for behind in self.frees[activity]:
                        self.waits[behind] -= 1
            now = then

    def _rates(self, running: list[int]) -> dict[int, float]:
        """How much of its time alone each activity gets done in a unit of time."""
        rates = dict.fromkeys(running, 1.0)
        if sum(bool(self._shares[activity]) for activity in running) < 2:  # nobody holds another one up
            return rates
        wanted: dict[int, float] = {}
        for activity in running:
            for resource, share, _ in self._shares[activity]:
                wanted[resource] = wanted.get(resource, 0.0) + share
        asked = wanted
        for _ in range(_ROUNDS):  # who is held up asks for less
            rates = {
                activity: 1
                / (
                    1
                    + sum(
                        exposed * max(0.0, asked[resource] - share * rates[activity])
                        for resource, share, exposed in self._shares[activity]
                    )
                )
                for activity in running
            }
            asked = dict.fromkeys(wanted, 0.0)
            for activity in running:
                for resource, share, _ in self._shares[activity]:
                    asked[resource] += share * rates[activity]
        return {
            activity: rate / max((1.0, *(asked[resource] for resource, *_ in self._shares[activity])))
            for activity, rate in rates.items()
        }
