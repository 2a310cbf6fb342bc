"""Which schedule every layer of a network's program gets, where a design says how its layers are mapped.

A search maps isolated layers. In the program they have epilogues that the search does not see (a pooling behind a
convolution can make a good mapping a bad one), so each layer takes the best of the mapping that was
searched for its problem, and the compiler's own.
"""

from __future__ import annotations

from collections.abc import Sequence

from baco.common.errors import InfeasibleError
from baco.compiler.choice.choose import choices, choose
from baco.compiler.layers.layer import Layer
from baco.compiler.network.group_choice import addition_alone, group_schedule
from baco.compiler.network.groups import Group, GroupCode, GroupSchedule
from baco.compiler.network.prediction import group_cost, row_cost
from baco.compiler.network.row_code import RowCode
from baco.compiler.network.steps import StepCost
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.styles.registry import plan_layer, realise
from baco.exploration.candidate import Candidate
from baco.exploration.cost.schedules import schedule_costs
from baco.exploration.objective import Objective

#: Of every way to write code, so many of the compiler's fastest schedules are looked at: the fastest is not always the one
#: that moves least.
_CHOICES = 4


class SearchedSchedules:
    """The schedules of a network's layers on a design; a `baco.compiler.network.lowering.Scheduler`.

    What a layer's schedule adds to the objective of the whole program is estimated to first order: a change of the
    latency T and the energy E changes their product by E·dT + T·dE; both are those of the design.

    Args:
        design: its mappings are taken for layers of the same problem.
        objective: of several, the first decides; area is given, so that it stands for the energy-delay product.

    Attributes:
        searched, chosen: layers carried out as the search mapped them, and as the compiler chooses.
    """

    def __init__(self, design: Candidate, objective: Objective) -> None:
        self._accelerator = design.accelerator
        self._mappings = {
            task.problem: mapping for task, mapping in zip(design.tasks, design.mappings, strict=True)
        }
        cost, metric = design.cost, objective.metrics[0]
        self._per_cycle = 0.0 if metric == "energy" else 1 / cost.latency_cycles
        self._per_pj = 0.0 if metric == "latency" else 1 / cost.energy_pj
        self.searched = self.chosen = 0
        self._groups: dict[tuple[Group, RowCode | None], tuple[GroupSchedule, float] | None] = {}
        self._alone: dict[Layer, float] = {}

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
        return found, plan_layer(layer, found, self._accelerator).workspaces

    def group(
        self, names: tuple[str, ...], group: Group, between: RowCode | None
    ) -> tuple[GroupSchedule, float] | None:
        """The schedule of operators as one unit, and how much less it adds to the objective than the operators one by one; None
        where it does not. A `baco.compiler.network.groups.GroupScheduler`."""
        key = (group, between)
        if key not in self._groups:
            self._groups[key] = self._rated_group(group, between)
        return self._groups[key]

    def _rated_group(self, group: Group, between: RowCode | None) -> tuple[GroupSchedule, float] | None:
        try:
            found = group_schedule(group, self._accelerator)
        except InfeasibleError:
            return None
        saved = -self._added(group_cost(GroupCode(group, found), self._accelerator))
        for layer in group.layers:
            if layer not in self._alone:
                counts = self.searched, self.chosen
                self._alone[layer] = self._rated(layer, [self(layer)[0]])[0]
                self.searched, self.chosen = counts
            saved += self._alone[layer]
        if between is not None:
            saved += self._added(row_cost(between, self._accelerator))
        addition = addition_alone(group, self._accelerator)
        if addition is not None:
            saved += self._added(addition[0])
        return (found, saved) if saved > 0 else None

    def _added(self, cost: StepCost) -> float:
        """What a step adds to the objective."""
        return cost.cycles * self._per_cycle + cost.energy_pj(self._accelerator) * self._per_pj

    def summary(self) -> str:
        """Who mapped the layers, in a sentence."""
        return f"{self.searched} different layers as the search mapped them, {self.chosen} as the compiler chooses"

    def _realised(self, layer: Layer) -> Schedule | None:
        mapping = self._mappings.get(layer.problem)
        if mapping is None:
            return None
        try:
            schedule = realise(layer, mapping, self._accelerator)
            plan_layer(layer, schedule, self._accelerator)
        except InfeasibleError:  # on the way out of this layer is more than the search knew of
            return None
        return schedule

    def _rated(self, layer: Layer, options: Sequence[Schedule]) -> list[float]:
        """What one run of the layer adds to the objective, by schedule."""
        costs = schedule_costs([layer] * len(options), options, self._accelerator, "instruction")
        return [cost.latency_cycles * self._per_cycle + cost.energy_pj * self._per_pj for cost in costs]
