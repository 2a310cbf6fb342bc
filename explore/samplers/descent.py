"""The main searcher with gradient descent beside local search, where the reference model predicts.

The relaxed mappings of all tasks on several leading accelerators, each minimising its own weighing of energy, latency and area, move
together by gradients, the accelerator being inferred from them; what they round to on the way is evaluated. With the
instruction-aware model there is none: it costs much time there, and is worth nothing (docs/how-good-is-the-search.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from baco.common import portable
from baco.exploration.cost.genome import (
    COLUMNS,
    DRAM_ORDERS,
    FLOW,
    ONCE,
    ORDER,
    ROWS,
    T1,
    T2,
    Genomes,
    is_macro_flow,
)
from baco.exploration.samplers.relaxed import RelaxedStarts, Weights
from baco.exploration.search.focus import Focus
from baco.exploration.search.local_search import LocalSearch
from baco.exploration.search.searcher import SearchSetup, State
from baco.exploration.search.selector import Elite

#: Descent: starts in a batch, steps, Adam's step in units of ln(factor), and steps between roundings.
_STARTS, _STEPS, _RATE, _ROUND_EVERY = 4, 6, 0.05, 2
#: Evaluations a task before the first descent: gradients need designs worth improving.
_WARM_UP = 300


class GradientSearch(LocalSearch):
    """See the module's description."""

    #: Share of descent in the evaluations since the warm-up, above which local search goes on; None for none. With macros apart.
    descent_share: float | None = 0.2
    macro_descent_share: float | None = None

    def __init__(self, setup: SearchSetup) -> None:
        super().__init__(setup)
        self.spent_descending = 0

    def _improve(self) -> str:
        share = self.descent_share if self.macros is None else self.macro_descent_share
        warm = self.spent - _WARM_UP * len(self.setup.tasks)
        wanted = share is not None and self.spent_descending <= share * warm
        if not wanted or not self.elites[0] or self._descent_cost() > self._room():
            return super()._improve()
        before = self.spent
        self._descend()
        self.spent_descending += self.spent - before
        return "descent"

    def _descent_cost(self) -> int:
        each = 3 * _STEPS + len(DRAM_ORDERS) + 2 * (_STEPS // _ROUND_EVERY)
        return len(self.setup.tasks) * _STARTS * each

    def _descend(self) -> None:
        """Let all mappings of some elites move together by gradients, and evaluate what they round to on the way.

        The starts are leaders of the first focus and, in turn, the leaders of the others; each minimises its own
        focus. What a step of one layer cannot pay for alone (a smaller scratchpad for all, say), the common
        gradient finds.
        """
        n = len(self.setup.tasks)
        chosen = self._starting_elites()
        genomes = np.stack(
            [[self.archive.genomes[t][elite.choice[t]] for t in range(n)] for _, elite in chosen]
        )
        starts = RelaxedStarts(
            self.archive.problems,
            self.archive.counts,
            self.archive.model,
            self.setup.space,
            np.array([elite.point[0] for _, elite in chosen]),
            np.array([elite.units for _, elite in chosen]),
            genomes[..., FLOW],
            self._best_orders(genomes),
            genomes[..., ONCE],
            portable.log(genomes[..., [ROWS, COLUMNS, *range(T1.start, T2.stop)]].astype(np.float64)),
            Weights(*np.array([[f.energy, f.latency, f.area] for f, _ in chosen]).T),
        )
        for i in range(_STEPS):
            starts.descend(_RATE)
            self.spent += 3 * starts.size
            if i % _ROUND_EVERY == _ROUND_EVERY - 1:
                for variant in (0, 1):
                    task, rows = starts.rounded(variant)
                    fresh = self.archive.fresh(task, rows)
                    self._evaluate(task[fresh], rows[fresh])

    def _starting_elites(self) -> list[tuple[Focus, Elite]]:
        own = [(self.focuses[0], elite) for elite in self.elites[0]]
        sweep = [
            (focus, elites[0])
            for focus, elites in zip(self.focuses[1:], self.elites[1:], strict=True)
            if elites
        ]
        turn = self.batches % max(1, len(sweep))
        mixed = own[: _STARTS - _STARTS // 3] + sweep[turn:] + sweep[:turn] + own[_STARTS - _STARTS // 3 :]
        return mixed[:_STARTS]

    def _best_orders(self, genomes: Genomes) -> NDArray[np.int64]:
        """Of all DRAM orders, the one with the least traffic for each mapping, (S, n)."""
        starts, n = genomes.shape[:2]
        orders = len(DRAM_ORDERS)
        rows = genomes.reshape(-1, genomes.shape[-1])
        best = rows[:, ORDER].copy()
        # Macros have orders of their own, which are for the local search to choose from.
        free = np.flatnonzero(~is_macro_flow(rows[:, FLOW]))
        if len(free):
            many = np.repeat(rows[free], orders, axis=0)
            many[:, ORDER] = np.tile(np.arange(orders), len(free))
            task = np.repeat(free % n, orders)
            # Orders differ in traffic alone, and DRAM words dominate both energy and time.
            traffic = self._evaluate(task, many).a3.numpy().reshape(len(free), orders)
            best[free] = traffic.argmin(-1)
        return best.reshape(starts, n)

    def go_on_from(self, other: LocalSearch) -> None:
        """See `LocalSearch`."""
        super().go_on_from(other)
        assert isinstance(other, GradientSearch)
        self.spent_descending = other.spent_descending

    def state(self) -> State:
        """Snapshot, and what descent has spent."""
        return {**super().state(), "descent.spent": np.array(self.spent_descending)}

    def restore(self, state: State) -> None:
        """Undo `state`."""
        super().restore(state)
        self.spent_descending = int(state["descent.spent"])
