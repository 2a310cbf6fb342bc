"""Which schedule every layer of a network's program gets, where a design says how its layers are mapped.

A search maps isolated layers. In the program they have epilogues that the search does not see (a pooling behind a
convolution can make a good mapping a bad one), so each layer takes the best of the mapping that was
searched for its problem, and the compiler's own.
"""

from __future__ import annotations

from collections.abc import Sequence

from common.errors import InfeasibleError
from compiler.choice.choose import choices, choose
from compiler.layers.layer import Layer
from compiler.network.chains import ChainCode
from compiler.network.prediction import chain_cost, row_cost
from compiler.network.row_code import RowCode
from compiler.network.steps import StepCost
from compiler.schedules.schedule import Schedule
from compiler.styles import check_schedule, workspaces
from compiler.styles.fused.chain import ChainSchedule, ProductChain
from compiler.styles.fused.predict import choose_chain
from compiler.styles.realise import realise
from explore.candidate import Candidate
from explore.cost.schedules import schedule_costs
from explore.objective import Objective

__all__ = ["SearchedSchedules"]

#: Of every way to write code, so many of the compiler's fastest schedules are looked at: the fastest is not always the one
#: that moves least.
_CHOICES = 4


class SearchedSchedules:
    """The schedules of a network's layers on a design; a `compiler.network.lowering.Scheduler`.

    What a layer's schedule adds to the objective of the whole program is estimated to first order: a change of the
    latency T and the energy E changes their product by E·dT + T·dE; both are those of the design.

    Args:
        design: its mappings are taken for layers of the same problem.
        objective: of several, the first decides; area is given, so that it stands for the energy-delay product.

    Attributes:
        searched, chosen: layers carried out as the search mapped them, and as the compiler chooses.
        fused: chains that run as one unit.
    """

    def __init__(self, design: Candidate, objective: Objective) -> None:
        self._accelerator = design.accelerator
        self._mappings = {
            task.problem: mapping for task, mapping in zip(design.tasks, design.mappings, strict=True)
        }
        cost, metric = design.cost, objective.metrics[0]
        self._per_cycle = 0.0 if metric == "energy" else 1 / cost.latency_cycles
        self._per_pj = 0.0 if metric == "latency" else 1 / cost.energy_pj
        self.searched = self.chosen = self.fused = 0

    def __call__(self, layer: Layer) -> tuple[Schedule, tuple[tuple[str, int], ...]]:
        """The schedule, and the buffers that it needs besides the tensors (name, bytes)."""
        searched = self._realised(layer)
        options = [one.schedule for one in choices(layer, self._accelerator, best=_CHOICES)]
        if not options:
            options = [choose(layer, self._accelerator)]  # raises, with the reasons
        if searched is not None:
            options = [searched, *(one for one in options if one != searched)]
        rated = self._rated(layer, options)
        found = options[min(range(len(options)), key=rated.__getitem__)]  # the searched one if none is better
        if found is searched:
            self.searched += 1
        else:
            self.chosen += 1
        return found, workspaces(layer, found, self._accelerator)

    def chain(self, chain: ProductChain, between: RowCode | None) -> ChainSchedule | None:
        """The schedule of a chain of products as one unit, where that adds less to the objective than its operators one by one; a
        `compiler.network.chains.ChainScheduler`."""
        try:
            fused = choose_chain(chain, self._accelerator)
        except InfeasibleError:
            return None
        searched, chosen = self.searched, self.chosen
        alone = 0.0
        for layer in (chain.first, chain.second):
            alone += self._rated(layer, [self(layer)[0]])[0]
        self.searched, self.chosen = searched, chosen
        if between is not None:
            alone += self._added(row_cost(between, self._accelerator))
        if self._added(chain_cost(ChainCode(chain, fused), self._accelerator)) > alone:
            return None
        self.fused += 1
        return fused

    def _added(self, cost: StepCost) -> float:
        """What a step adds to the objective."""
        return cost.cycles * self._per_cycle + cost.energy_pj(self._accelerator) * self._per_pj

    def summary(self) -> str:
        """Who mapped the layers, in a sentence."""
        chains = f", {self.fused} chains as one unit" if self.fused else ""
        return f"{self.searched} different layers as the search mapped them, {self.chosen} as the compiler chooses{chains}"

    def _realised(self, layer: Layer) -> Schedule | None:
        mapping = self._mappings.get(layer.problem)
        if mapping is None:
            return None
        try:
            schedule = realise(layer, mapping, self._accelerator)
            check_schedule(layer, schedule, self._accelerator)
        except InfeasibleError:  # on the way out of this layer is more than the search knew of
            return None
        return schedule

    def _rated(self, layer: Layer, options: Sequence[Schedule]) -> list[float]:
        """What one run of the layer adds to the objective, by schedule."""
        costs = schedule_costs([layer] * len(options), options, self._accelerator, "instruction")
        return [cost.latency_cycles * self._per_cycle + cost.energy_pj * self._per_pj for cost in costs]
