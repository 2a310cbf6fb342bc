"""The finish of a search with the instruction-aware model: the compiler's own schedules, and the best macro tilings.

On leading accelerators each layer's macro tiling descends, beginning with the best known and the compiler's: all tilings
that differ from it along a pair of axes are evaluated, the best is next, until none is better. In the end the schedules
that the compiler would choose in any style, on the accelerator that leads, enter the archive, so that no search ends
worse than its compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.common.companion import Pending, ask
from baco.common.errors import InfeasibleError
from baco.compiler.choice.choose import AllowedStyles, choices
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.registry import mapping_of
from baco.exploration.cost.genome import FLOW, Genomes, explicit, from_mapping, is_macro_flow
from baco.exploration.cost.predicted import InstructionModel
from baco.exploration.search.archive import Archive
from baco.exploration.search.focus import Focus
from baco.exploration.search.moves import copies_around
from baco.exploration.search.selector import Elite
from baco.exploration.search.tilings import in_macro_form, tilings_around
from baco.exploration.space.points import HardwarePoints

Point = tuple[float, float, float]

#: Evaluations a task before the first descent of tilings, its share of those after, and least left to begin one.
_AFTER, _SHARE, _LEAST = 1000, 0.35, 400
#: Evaluations a task before the compiler's schedules are needed that a companion begins with those of accelerators that lead.
_AHEAD = 400
#: How far (in ln of the objective) behind the best a point may be to be worth it.
_WITHIN = 0.08
#: Of the compiler's schedules of a layer, how many are looked at; layers whose schedules a companion works out at once.
_SCHEDULES, _SLICE = 3, 6
#: Layers in one step: of compiling by style (explicit ones are slow to choose), and of descent.
_COMPILED: dict[AllowedStyles, int] = {"macro": 24, "auto": 6}
_DESCENT_SLICE = 32
#: Rounds of descent at most.
_ROUNDS = 4


class TilingFinish:
    """Works on one accelerator at a time, in steps of about a second.

    Args:
        tasks: whose mappings are looked for; None for all.

    Attributes:
        spent: evaluations.
        solved: accelerators whose tilings have descended.
        compiled: accelerators for which the compiler's schedules of all styles are in the archive.
        job: what is being done: point, weighing, next layer, round (0 for the compiler's schedules), whether to
            descend, layers that improved.
    """

    def __init__(self, archive: Archive, model: InstructionModel, tasks: Sequence[int] | None = None) -> None:
        self.archive = archive
        self._tasks = list(range(len(archive.tasks))) if tasks is None else sorted(tasks)
        self.model = model
        self.spent = 0
        self.solved: set[Point] = set()
        self.compiled: set[Point] = set()
        self.job: dict[str, Any] | None = None
        self._asked: dict[tuple[Point, AllowedStyles, int], Pending[list[list[Genomes]]]] = {}

    @property
    def phase(self) -> str:
        """What the next step does."""
        return "tilings" if self.job and self.job["round"] > 0 else "compiler's schedules"

    def reserve(self, elites: Sequence[Elite]) -> int:
        """Evaluations to hold back for the compiler's schedules on the accelerator that leads."""
        if not elites or elites[0].point in self.compiled:
            return 0
        return _SCHEDULES * len(self.archive.tasks)

    def due(self, elites: Sequence[Elite], evaluations: int, left: float) -> bool:
        """Whether a step should be made now.

        Args:
            evaluations, left: spent so far by the whole search, and left of its budget.
        """
        if left < 1 or not elites:
            self.job = None
            return False
        if self.job is not None:
            return True
        n = len(self.archive.tasks)
        late = evaluations - _AFTER * n
        self._look_ahead(elites, late, left)
        if late >= 0 and self.spent <= _SHARE * late and left >= _LEAST * n:
            for elite in elites:
                near = elite.value <= elites[0].value + _WITHIN
                if near and elite.violation == 0 and elite.point not in self.solved:
                    self._begin(elite, descend=True)
                    return True
        if left <= self.reserve(elites) and evaluations > 0:
            self._begin(elites[0], descend=False)
            return True
        return False

    def _look_ahead(self, elites: Sequence[Elite], late: float, left: float) -> None:
        """Have schedules of the compiler worked out that are likely to be needed."""
        n = len(self.archive.tasks)
        if late >= -_AHEAD * n and left >= _LEAST * n:
            for elite in reversed(elites):
                near = elite.value <= elites[0].value + _WITHIN and elite.violation == 0
                if near and elite.point not in self.solved:
                    self._ask(elite.point, "macro")
        if left <= _AHEAD * n and self.reserve(elites):
            self._ask(elites[0].point, "auto")

    def _ask(self, point: Point, style: AllowedStyles) -> None:
        for first in range(0, len(self.archive.tasks), _SLICE):
            if (point, style, first) not in self._asked:
                self._asked[point, style, first] = self._schedules(point, style, first)

    def _schedules(self, point: Point, style: AllowedStyles, first: int) -> Pending[list[list[Genomes]]]:
        """Of the layers of a step."""
        accelerator = self.archive.space.accelerator(int(point[0]), int(point[1]), int(point[2]))
        layers = [self.model.layers[task] for task in self._tasks if first <= task < first + _SLICE]
        return ask(_compiled, layers, accelerator, style, self.archive.double_buffer)

    def _begin(self, elite: Elite, *, descend: bool) -> None:
        self.job = {
            "point": list(elite.point),
            "ratio": elite.latency / elite.energy,
            "layer": 0,
            "round": 0,
            "descend": descend,
            "open": list(self._tasks),
        }

    def step(self, focus: Focus, left: float) -> int:
        """Evaluations spent on some layers, at most `left`."""
        job = self.job
        assert job is not None
        point: Point = (job["point"][0], job["point"][1], job["point"][2])
        first, last = job["layer"], len(self.archive.tasks)
        if job["round"] == 0:
            # explicit schedules are no beginning for a descent of tilings
            style: AllowedStyles = "macro" if job["descend"] else "auto"
            layers = range(first, min(last, first + _COMPILED[style]))
            spent = self._compile(point, style, layers, left)
        else:
            layers = range(first, min(last, first + _DESCENT_SLICE))
            spent = self._descend(point, focus.energy * job["ratio"] / focus.latency, layers, left)
        job["layer"] = layers.stop
        if layers.stop == last:
            self._next_round(point)
        self.spent += spent
        return spent

    def _next_round(self, point: Point) -> None:
        """All layers have had their turn: what follows, if anything."""
        job = self.job
        assert job is not None
        if not job["descend"]:
            self.compiled.add(point)
        job["layer"], job["round"] = 0, job["round"] + 1
        if not job["descend"] or job["round"] > _ROUNDS or not job["open"]:
            if job["descend"]:
                self.solved.add(point)
            self.job = None

    def _add(self, task: NDArray[np.int64], rows: Genomes, left: float) -> int:
        """Archive the rows not tried yet, as many as may be."""
        fresh = np.flatnonzero(self.archive.fresh(task, rows))[: int(min(left, len(rows)))]
        if len(fresh):
            self.archive.add(task[fresh], rows[fresh])
        return len(fresh)

    # -- the compiler's schedules ------------------------------------------------------------------------

    def _compile(self, point: Point, style: AllowedStyles, layers: range, left: float) -> int:
        side, found = int(point[0]), list[list[Genomes]]()
        for first in layers[::_SLICE]:
            known = self._asked.pop((point, style, first), None)
            found += (known or self._schedules(point, style, first)).get()
        mine = [task for task in layers if task in self._tasks]
        tasks = [task for task, ones in zip(mine, found, strict=True) for _ in ones]
        rows = [row for ones in found for row in ones]
        if not rows:
            return 0
        of = np.array(tasks)
        return self._add(of, self.model.styled(of, np.stack(rows), np.full(len(rows), side)), left)

    # -- descent -----------------------------------------------------------------------------------------

    def _descend(self, point: Point, weighing: float, layers: range, left: float) -> int:
        job = self.job
        assert job is not None
        side = int(point[0])
        place = int(np.searchsorted(self.model.sides, side))
        hardware = self.archive.point(point)
        tasks, blocks = [], []
        before: dict[int, tuple[float, float]] = {}
        for task in layers:
            score = self._score(task, hardware, weighing)
            if task not in job["open"] or not len(score) or not np.isfinite(score.min()):
                continue
            genomes, bounds = self.archive.genomes[task], self.archive.problems.bounds[task]
            macro = is_macro_flow(genomes[:, FLOW])
            known = np.where(macro, score, np.inf)
            before[task] = self._bests(task, hardware, weighing)
            around = []
            if self.model.able[task, place]:
                best = int((known if np.isfinite(known.min()) else score).argmin())
                row = in_macro_form(genomes[best : best + 1], bounds[None, :], np.array([side]))[0]
                around.append(tilings_around(row, bounds, side))
            if self.archive.double_buffer:
                row = explicit(genomes[[score.argmin()]])
                packed = self.archive.problems.packed(np.array([task]), row)
                of = self.archive.problems.packed_bounds(np.array([task]), packed)
                around.append(copies_around(row[0], of[0], int(self.archive.problems.groups[task])))
            rows = np.concatenate(around)
            mine = np.full(len(rows), task)
            acc, sp = self.archive.load(mine, rows, np.tile(np.array(point), (len(rows), 1)))
            rows = rows[(acc <= 1) & (sp <= 1)]
            tasks.append(np.full(len(rows), task))
            blocks.append(rows)
        if not blocks:
            job["open"] = [task for task in job["open"] if task not in layers]
            return 0
        spent = self._add(np.concatenate(tasks), np.concatenate(blocks), left)
        for task in layers:
            improved = task in before and any(
                now < then * (1 - 1e-9)
                for now, then in zip(self._bests(task, hardware, weighing), before[task], strict=True)
            )
            if not improved and task in job["open"]:
                job["open"].remove(task)
        return spent

    def _score(self, task: int, hardware: HardwarePoints, weighing: float) -> NDArray[np.float64]:
        energy, cycles = self.archive.costs(task, hardware)
        return np.asarray(weighing * energy[0] + cycles[0])

    def _bests(self, task: int, hardware: HardwarePoints, weighing: float) -> tuple[float, float]:
        """Scores of the best tiling and of the best explicit mapping."""
        score = self._score(task, hardware, weighing)
        macro = is_macro_flow(self.archive.genomes[task][:, FLOW])
        return float(score[macro].min(initial=np.inf)), float(score[~macro].min(initial=np.inf))

    # -- resuming ----------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "spent": self.spent,
            "solved": sorted(self.solved),
            "compiled": sorted(self.compiled),
            "job": self.job,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Undo `state`."""
        self.spent, self.job = state["spent"], state["job"]
        self.solved = {(p[0], p[1], p[2]) for p in state["solved"]}
        self.compiled = {(p[0], p[1], p[2]) for p in state["compiled"]}


def _compiled(
    layers: Sequence[Layer], accelerator: Accelerator, style: AllowedStyles, double_buffer: bool
) -> list[list[Genomes]]:
    """Of each layer, mappings of the compiler's best schedules."""
    found = []
    for layer in layers:
        rows = []
        for choice in choices(layer, accelerator, style=style)[:_SCHEDULES]:
            try:
                mapping = mapping_of(layer, choice.schedule, accelerator)
            except InfeasibleError:
                continue  # groups packed as no mapping says it
            row = from_mapping(mapping, accelerator.dim, layer.problem.groups, double_buffer)
            if row is not None:
                rows.append(row)
        found.append(rows)
    return found
