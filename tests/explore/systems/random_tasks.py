"""Random task graphs, and the least makespan of small ones by trying everything."""

from __future__ import annotations

import itertools
import math

import numpy as np

from baco.exploration.systems.task_graph import TaskGraph


def random_graph(seed: int, tasks: int, units: int, *, density: float = 0.3, moves: bool = True) -> TaskGraph:
    """Whole times of 1 to 19, a tenth of the pairs of task and unit impossible, whole transfers where there are moves."""
    rng = np.random.default_rng(seed)
    times = rng.integers(1, 20, (tasks, units)).astype(float)
    times[rng.random((tasks, units)) < 0.1] = np.inf
    times[np.arange(tasks), rng.integers(0, units, tasks)] = rng.integers(1, 20, tasks)
    edges = {
        (i, k): float(rng.integers(1, 8))
        for i, k in itertools.combinations(range(tasks), 2)
        if rng.random() < density
    }
    per_byte = np.ones((units, units)) - np.eye(units) if moves else np.zeros((units, units))
    names = tuple(f"task{i}" for i in range(tasks))
    return TaskGraph(names, tuple(f"unit{u}" for u in range(units)), times, edges, per_byte=per_byte)


def least_makespan(graph: TaskGraph, *, prune: bool = True) -> float:
    """Over all units of all tasks, and over all orders in which tasks and transfers can be begun; with `prune` those are left out
    whose loads or paths alone take as long as the best so far."""
    able = [[u for u, time in enumerate(row) if time < math.inf] for row in graph.times.tolist()]
    best = [math.inf]
    for units in sorted(itertools.product(*able), key=lambda units: _load(graph, units)):
        _Orders(graph, units, best, prune).extend({}, [0.0] * (len(graph.units) + 1))
    return best[0]


def _load(graph: TaskGraph, units: tuple[int, ...]) -> float:
    """Of the unit that has most to do."""
    loads = [0.0] * len(graph.units)
    for task, unit in enumerate(units):
        loads[unit] += graph.times[task, unit]
    return max(loads)


class _Orders:
    """Every order of the tasks on given units and of the transfers between them, each begun as early as those before allow."""

    def __init__(self, graph: TaskGraph, units: tuple[int, ...], best: list[float], prune: bool) -> None:
        self.best, self.prune = best, prune
        self.lengths = [float(graph.times[i, u]) for i, u in enumerate(units)]
        self.queues = list(units)
        self.needs: list[list[int]] = [[] for _ in units]
        for (i, k), size in graph.edges.items():
            if units[i] != units[k] and graph.per_byte[units[i], units[k]]:
                self.lengths.append(float(size * graph.per_byte[units[i], units[k]]))
                self.queues.append(len(graph.units))
                self.needs.append([i])
                self.needs[k].append(len(self.lengths) - 1)
            else:
                self.needs[k].append(i)
        self.tails = [self._tail(one) for one in range(len(self.lengths))]
        self.seen: set[tuple[object, ...]] = set()

    def _tail(self, activity: int) -> float:
        behind = [one for one, needs in enumerate(self.needs) if activity in needs]
        return self.lengths[activity] + max((self._tail(one) for one in behind), default=0.0)

    def extend(self, ends: dict[int, float], free: list[float]) -> None:
        """All orders of what has no end yet, on queues that are free from these times on."""
        left = [one for one in range(len(self.lengths)) if one not in ends]
        if not left:
            self.best[0] = min(self.best[0], max(ends.values()))
            return
        for queue, start in enumerate(free):  # all that is left of a queue comes behind what it has
            load = sum(self.lengths[one] for one in left if self.queues[one] == queue)
            if self.prune and load and start + load >= self.best[0]:
                return
        state = (tuple(sorted(ends.items())), tuple(free))
        if self.prune and state in self.seen:
            return
        self.seen.add(state)
        for one in left:
            if all(need in ends for need in self.needs[one]):
                start = max([free[self.queues[one]], *(ends[need] for need in self.needs[one])])
                if not self.prune or start + self.tails[one] < self.best[0]:
                    after = list(free)
                    after[self.queues[one]] = start + self.lengths[one]
                    self.extend({**ends, one: after[self.queues[one]]}, after)
