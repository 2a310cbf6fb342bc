"""The exact finish of a search: the best mappings on the leading accelerators, so that no neighbour wins
anything back that rounding or chance lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from baco.exploration.cost.exact import LayerSolver
from baco.exploration.cost.tiles import Point
from baco.exploration.search.archive import Archive
from baco.exploration.search.focus import Focus
from baco.exploration.search.selector import Elite

#: Evaluations a task before it starts (searchers are compared at 5,000, without it), and its share of those after.
_AFTER, _SHARE = 5000, 0.3
#: Least evaluations left a task to begin another point, and tilings opened a task before a solution is left as it is.
_LEAST, _NODES = 400, 100
#: How far (in ln of the objective) behind the best a point may be to be worth it.
_WITHIN = 0.08


class ExactFinish:
    """Solves hardware points one by one and keeps count.

    Attributes:
        spent: evaluations: every mapping ranked and every tiling opened is one.
        solved: hardware points done.
    """

    phase = "exact finish"

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.spent = 0
        self._elite: Elite | None = None
        self.solved: set[tuple[float, float, float]] = set()
        self._solvers = [LayerSolver(task.problem, archive.space) for task in archive.tasks]

    def reserve(self, elites: Sequence[Elite]) -> int:
        """Evaluations to hold back for the end: none, since what is left when there is time for it will do."""
        return 0

    def due(self, elites: Sequence[Elite], evaluations: int, left: float) -> bool:
        """Whether `step` should be made now; arguments as of `next`."""
        self._elite = self.next(elites, evaluations, left)
        return self._elite is not None

    def step(self, focus: Focus, left: float) -> int:
        """`solve` for the accelerator that `due` found."""
        assert self._elite is not None
        return self.solve(self._elite, focus, left)

    def next(self, elites: Sequence[Elite], evaluations: int, left: float) -> Elite | None:
        """The first of the elites (best first) worth solving, if it is time to.

        Args:
            evaluations, left: spent so far by the whole search, and left of its budget.
        """
        n = len(self._solvers)
        late = evaluations - _AFTER * n
        if late < 0 or self.spent > _SHARE * late or left < _LEAST * n:
            return None
        for elite in elites:
            near = elite.value <= elites[0].value + _WITHIN
            if near and elite.violation == 0 and elite.point not in self.solved:
                return elite
        return None

    def solve(self, elite: Elite, focus: Focus, left: float) -> int:
        """Find the best mapping of every task on an elite's accelerator, under its present trade of energy for
        latency, and archive them; what that cost in evaluations, at most `left`."""
        self.solved.add(elite.point)
        weighing = focus.energy * elite.latency / (focus.latency * elite.energy)
        point = Point(*(int(value) for value in elite.point))
        total = 0
        for index, solver in enumerate(self._solvers):
            found = solver.solve(point, weighing, tolerance=1e-6, node_limit=_NODES)
            cost = found.nodes + found.evaluations
            if total + cost > left:
                # The budget ran out in the middle of this one: its result does not count, its cost does.
                total = int(left)
                break
            total += cost
            task = np.array([index])
            if found.genome is not None and self.archive.fresh(task, found.genome[None, :])[0]:
                self.archive.add(task, found.genome[None, :])
        self.spent += total
        return total

    def state(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"spent": self.spent, "solved": sorted(self.solved)}

    def restore(self, state: dict[str, Any]) -> None:
        """Undo `state`."""
        self.spent = state["spent"]
        self.solved = {(p[0], p[1], p[2]) for p in state["solved"]}
