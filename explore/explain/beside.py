"""What programs do beside their layers on accelerators that a search has, or has not, looked at."""

from __future__ import annotations

from functools import cached_property

from baco.accel.config import Accelerator
from baco.common.errors import InputError
from baco.compiler.network.groups import Group, GroupSchedule
from baco.compiler.network.quantiser import DEFAULT, Quantiser
from baco.exploration.cost.program_rest import Programs
from baco.exploration.fused import Point
from baco.exploration.operators import OperatorCost
from baco.exploration.rest import RestBySettings, RestOfPrograms, SizedOperators
from baco.exploration.search.archive import Archive
from baco.exploration.search.groups import (
    PossibleGroups,
    leading_schedules,
    possible_groups,
    with_possible_groups,
)
from baco.exploration.space import DesignSpace
from baco.workloads.inputs.load import load_again
from baco.workloads.network import Network, Workload


class BesideLayers:
    """The rest of a study's programs on any accelerator.

    Args:
        workload: with graphs alone, as a study keeps it.
        space: that was searched.
        rest: what the study knows of it.
        best: the accelerator that others are compared with.
        quantiser: how the study's numbers were chosen.

    Attributes:
        leading: of every group, the schedules that lead on accelerators of the best one's sizes; None until they were decided on for
            one of these.
    """

    def __init__(
        self,
        workload: Workload,
        space: DesignSpace,
        rest: RestOfPrograms,
        best: Accelerator,
        quantiser: Quantiser = DEFAULT,
    ) -> None:
        self._quantiser = quantiser
        self._workload, self._space, self._rest, self._best = workload, space, rest, best
        self._possible: dict[object, dict[str, PossibleGroups]] = {}
        self.leading: dict[Group, set[GroupSchedule]] | None = None

    def of(self, accelerator: Accelerator) -> RestOfPrograms:
        """The rest of programs on an accelerator, without groups where these are decided anew (`with_groups`).

        Where a network is not there any more, it is what the study knows. Raises InputError where it knows nothing.
        """
        try:
            programs = self._programs
        except InputError:
            known = self._known(accelerator)
            if known is None:
                raise
            return known
        costs = {
            name: () if name in self._alone else programs.costs(name, accelerator)
            for name in self._rest.weights
        }
        weights, reasons, side = self._rest.weights, self._rest.reasons, accelerator.dim
        if accelerator.features.row_functions:
            sized = {name: {side: (SizedOperators(0, 0, one),)} for name, one in costs.items()}
            return RestOfPrograms(weights, {}, reasons, sized)
        return RestOfPrograms(weights, {name: {side: one} for name, one in costs.items()}, reasons)

    def with_groups(self, rest: RestOfPrograms, archive: Archive, metric: str) -> RestOfPrograms:
        """The rest on the accelerator of an archive with those groups of operators that lower a metric: of groups that the study has
        there, or, where it has not looked, on its best accelerator. Once they were decided on for that, others of its sizes choose
        among the schedules that lead there."""
        if rest.fused.points or not self._rest.fused.points:
            return rest
        machine, fused = archive.base, self._rest.fused
        there = machine if self._known(machine) is not None else self._best
        # these queues are the only part of an accelerator that no group's cost depends on
        key = machine.replace(name="any", execute_queue=8, store_queue=2)
        if key not in self._possible:
            same = _sizes(machine) == _sizes(self._best)
            found = {}
            for network in self._networks:
                fusion = fused.at(network.name, _sizes(there))
                if fusion is not None:
                    names = {one.operator for one in fusion.groups}
                    parts = self._programs.groups(network.name, machine)
                    among = self.leading if same else None
                    found[network.name] = possible_groups(
                        network, parts, names, archive.tasks, self._space, machine, among
                    )
            if same and self.leading is None:
                self.leading = leading_schedules(found.values(), machine)
                return with_possible_groups(rest, found, archive, metric)
            self._possible[key] = found
        return with_possible_groups(rest, self._possible[key], archive, metric)

    def _known(self, accelerator: Accelerator) -> RestOfPrograms | None:
        """What the study itself knows of an accelerator, groups of operators included; None where it knows nothing."""
        space, rest = self._space, self._rest
        if isinstance(rest, RestBySettings):
            choice = space.choice_of(accelerator)
            space = space.at(choice)
            if choice not in rest.known:
                return None
            rest = rest.known[choice]
        sizes = accelerator.dim, accelerator.accumulator_kib, accelerator.scratchpad_kib
        units = accelerator.features.row_functions
        there = units in space.units and bool(space.allowed(*sizes, units))
        return rest if there and space.has_settings_of(accelerator) else None

    @cached_property
    def _alone(self) -> set[str]:
        """Networks that have nothing beside their layers."""
        rest = self._rest
        found = set()
        for name in rest.weights:
            costs: list[tuple[OperatorCost, ...]] = [*rest.operators.get(name, {}).values()]
            costs += [one.operators for ones in rest.with_units.get(name, {}).values() for one in ones]
            if not any(costs) and name not in rest.fused.choices:
                found.add(name)
        return found

    @cached_property
    def _networks(self) -> list[Network]:
        """As they can be lowered; those that cannot become programs as they are."""
        return [
            one if one.name in self._rest.reasons or one.name in self._alone else load_again(one)
            for one in self._workload.networks
        ]

    @cached_property
    def _programs(self) -> Programs:
        return Programs(self._networks, quantiser=self._quantiser)


def _sizes(machine: Accelerator) -> Point:
    return machine.dim, machine.accumulator_kib, machine.scratchpad_kib, machine.features.row_functions
