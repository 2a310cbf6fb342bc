"""Which schedule every layer of a network's program gets, where a design says how its layers are mapped.

A search maps the layers of programs, so each takes the mapping that was found for it. It takes the compiler's own where that is
better (a search may have had few samples), where the program has a layer that was not searched (what the accelerator of the design
does in another way than that on which layers were told apart), or where only problems were; which these are, is said.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from baco.common.errors import InfeasibleError
from baco.compiler.choice.choose import choices, choose
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.compiler.network.group_choice import addition_alone, group_options, group_schedule
from baco.compiler.network.groups import Group, GroupCode, GroupSchedule
from baco.compiler.network.prediction import group_cost
from baco.compiler.network.row_code import RowCode
from baco.compiler.network.steps import StepCost
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.styles.registry import plan_layer, realise
from baco.exploration.candidate import Candidate
from baco.exploration.cost.schedules import schedule_costs
from baco.exploration.objective import Objective
from baco.exploration.task_layers import LoweredTask, alike
from baco.workloads.problem import Problem

#: Of every way to write code, so many of the compiler's fastest schedules are looked at: the fastest is not always the one
#: that moves least.
_CHOICES = 4


class SearchedSchedules:
    """The schedules of a network's layers on a design; a `baco.compiler.network.lowering.Scheduler`.

    What a layer's schedule adds to the objective of the whole program is estimated to first order: a change of the
    latency T and the energy E changes their product by E·dT + T·dE; both are those of the design.

    Args:
        design: its mappings are taken for its layers; those of problems for all layers of these.
        objective: of several, the first decides; area is given, so that it stands for the energy-delay product.

    Attributes:
        searched: how many layers are carried out as the search mapped them.
        chosen: those that are not, and why.
    """

    def __init__(self, design: Candidate, objective: Objective) -> None:
        self._accelerator = design.accelerator
        self._mappings: dict[Layer | Problem, Mapping] = {
            alike(task.layer) if isinstance(task, LoweredTask) else task.problem: mapping
            for task, mapping in zip(design.tasks, design.mappings, strict=True)
        }
        cost, metric = design.cost, objective.metrics[0]
        self._per_cycle = 0.0 if metric == "energy" else 1 / cost.latency_cycles
        self._per_pj = 0.0 if metric == "latency" else 1 / cost.energy_pj
        self.searched = 0
        self.chosen: dict[Layer, str] = {}
        self._groups: dict[tuple[Group, RowCode | None], tuple[GroupSchedule, float] | None] = {}
        self._alone: dict[Layer, float] = {}

    def __call__(self, layer: Layer) -> tuple[Schedule, tuple[tuple[str, int], ...]]:
        """The schedule, and the buffers that it needs besides the tensors (name, bytes)."""
        found, why = self._best(layer)
        if why is None:
            self.searched += 1
        else:
            self.chosen[layer] = why
        return found, plan_layer(layer, found, self._accelerator).workspaces

    def _best(self, layer: Layer) -> tuple[Schedule, str | None]:
        """The schedule, and why it is not as the search mapped the layer, if it is not."""
        searched = self._realised(layer)
        options = [one.schedule for one in choices(layer, self._accelerator, best=_CHOICES)]
        if not options:
            options = [choose(layer, self._accelerator)]  # raises, with the reasons
        if isinstance(searched, str):
            return options[self._least(layer, options)[0]], searched
        options = [searched, *(one for one in options if one != searched)]
        place, less = self._least(layer, options)  # the searched one if none is better
        return options[place], f"costs {less:.1%} less so" if place else None

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
        options = self._ways(group)
        if not options:
            return None
        found, added = min(options, key=lambda option: option[1])
        saved = -added
        for layer in group.layers:
            if layer not in self._alone:
                self._alone[layer] = self._rated(layer, [self._best(layer)[0]])[0]
            saved += self._alone[layer]
        if between is not None:
            saved += self._added(between.cost(self._accelerator))
        addition = addition_alone(group, self._accelerator)
        if addition is not None:
            saved += self._added(addition[0])
        return (found, saved) if saved > 0 else None

    def _ways(self, group: Group) -> list[tuple[GroupSchedule, float]]:
        """Schedules of a group, and what each adds to the objective: all that a search chooses from, and the compiler's own."""
        machine = self._accelerator
        found = [
            (schedule, self._added(cost))
            for schedule, scratchpad, accumulator, cost in group_options(group, machine)
            if scratchpad <= machine.scratchpad_rows and accumulator <= machine.accumulator_rows
        ]
        with contextlib.suppress(InfeasibleError):
            own = group_schedule(group, machine)
            found.append((own, self._added(group_cost(GroupCode(group, own), machine))))
        return found

    def _added(self, cost: StepCost) -> float:
        """What a step adds to the objective."""
        return cost.cycles * self._per_cycle + cost.energy_pj(self._accelerator) * self._per_pj

    def summary(self) -> str:
        """Who mapped the layers, in a sentence."""
        text = f"{self.searched} different layers as the search mapped them, {len(self.chosen)} as the compiler chooses"
        reasons = (f"{layer.problem}, {why}" for layer, why in self.chosen.items())
        return f"{text}: {'; '.join(reasons)}" if self.chosen else text

    def _realised(self, layer: Layer) -> Schedule | str:
        """As the search mapped the layer, else why that cannot be."""
        mapping = self._mappings.get(alike(layer)) or self._mappings.get(layer.problem)
        if mapping is None:
            return "which was not searched"
        try:
            schedule = realise(layer, mapping, self._accelerator)
            plan_layer(layer, schedule, self._accelerator)
        except InfeasibleError as error:  # on the way out of this layer is more than the search knew of
            return error.message
        return schedule

    def _least(self, layer: Layer, options: Sequence[Schedule]) -> tuple[int, float]:
        """The schedule that adds least, by place, and by how much less than the first, as a share."""
        rated = self._rated(layer, options)
        place = min(range(len(options)), key=rated.__getitem__)
        return place, 1 - rated[place] / rated[0]

    def _rated(self, layer: Layer, options: Sequence[Schedule]) -> list[float]:
        """What one run of the layer adds to the objective, by schedule."""
        costs = schedule_costs([layer] * len(options), options, self._accelerator, "instruction")
        return [cost.latency_cycles * self._per_cycle + cost.energy_pj * self._per_pj for cost in costs]
