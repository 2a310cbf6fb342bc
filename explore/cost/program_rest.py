"""The layers of programs, which searches tile, and their rest (`baco.exploration.rest`), from networks lowered as they are compiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from baco.accel.config import Accelerator
from baco.common.errors import BacoError
from baco.compiler.layers.layer import Layer
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.groups import Group
from baco.compiler.network.lowered import LoweredNetwork, step_kind
from baco.compiler.network.lowering import lower_network
from baco.compiler.network.prediction import predict_step
from baco.compiler.network.quantise import sketch
from baco.compiler.network.quantiser import DEFAULT, Quantiser
from baco.compiler.network.row_code import RowCode
from baco.compiler.network.steps import StepCost
from baco.compiler.schedules.schedule import LoopWsSchedule, Schedule
from baco.exploration.cost.host import host_costs
from baco.exploration.cost.predicted import side_machines
from baco.exploration.operators import OperatorCost
from baco.exploration.progress import Doing, silent
from baco.exploration.rest import RestBySettings, RestOfPrograms, SizedOperators
from baco.exploration.space import DesignSpace
from baco.exploration.space.reference_machine import reference_machine
from baco.exploration.task_layers import LoweredTask, alike, result_scale
from baco.workloads.network import Network, Task, Workload

#: Groups of operators by the names of these.
GroupsByNames = Mapping[tuple[str, ...], Group]


def rest_in_space(
    workload: Workload, space: DesignSpace, doing: Doing = silent, programs: Programs | None = None
) -> RestOfPrograms:
    """The rest of programs on the accelerators of a space, and on the machine to compare with; `programs` as of
    `rest_of_programs`."""
    machines = [reference_machine(space)]
    if False in space.units:
        machines += side_machines(space)
    if True in space.units:
        points = space.rule_points()
        points = points.take(points.units)
        sizes = zip(points.dim, points.accumulator_kib, points.scratchpad_kib, strict=True)
        machines += [space.accelerator(*one, units=True) for one in sizes]
    return rest_of_programs(workload, machines, doing, programs)


def rest_by_settings(
    workload: Workload, space: DesignSpace, doing: Doing = silent, programs: Programs | None = None
) -> RestBySettings:
    """The rest of programs in a space with settings: `rest_in_space` for those of its base, and for others when asked.

    What a program does beside its layers is the same code whatever the settings are, so that it is lowered once for each array
    side and each size of memories that makes a difference, and only predicted anew.
    """
    programs = programs or Programs(workload.networks)
    base = rest_in_space(workload, space, doing, programs)

    def find(there: DesignSpace) -> RestOfPrograms:
        sides = {machine.dim: machine for machine in side_machines(there)}

        def plain(name: str) -> dict[int, tuple[OperatorCost, ...]]:
            return {side: programs.costs(name, machine) for side, machine in sides.items()}

        def sized(one: SizedOperators, name: str, side: int) -> SizedOperators:
            assert one.found_at is not None
            machine = there.accelerator(side, *one.found_at, units=True)
            return replace(one, operators=programs.costs(name, machine))

        return replace(
            base,
            operators={name: plain(name) for name in base.operators}
            if False in space.units
            else base.operators,
            with_units={
                name: {side: tuple(sized(one, name, side) for one in ones) for side, ones in of.items()}
                for name, of in base.with_units.items()
            },
        )

    return RestBySettings(base.weights, base.operators, base.reasons, base.with_units, space=space, find=find)


class Programs:
    """What programs of networks do beside their layers, lowered once for all accelerators that differ in settings alone.

    Args:
        keep: whether what is lowered is kept, of every accelerator that differs in more.
        quantiser: how numbers are chosen, as far as programs differ by it.

    Attributes:
        reasons: why a network cannot become a program, by name, of those that were asked about.
    """

    def __init__(
        self, networks: Sequence[Network], *, keep: bool = True, quantiser: Quantiser = DEFAULT
    ) -> None:
        self._networks, self._keep = {one.name: one for one in networks}, keep
        self._quantiser = quantiser
        self.reasons: dict[str, str] = {}
        self._parts: dict[str, list[tuple[float, QuantisedNetwork]]] = {}
        self._lowered: dict[tuple[str, int, Accelerator], tuple[LoweredNetwork, GroupsByNames]] = {}
        self._predicted: dict[tuple[str, Accelerator], tuple[OperatorCost, ...]] = {}

    def costs(self, name: str, machine: Accelerator) -> tuple[OperatorCost, ...]:
        """Of the operators of a network that are no layers."""
        asked = name, machine.replace(name="any")
        if asked not in self._predicted:
            parts = self.parts(name)
            if not parts:
                self._predicted[asked] = tuple(host_costs(self._networks[name], machine))
            else:
                self._predicted[asked] = _merged(
                    (times, predicted_costs(self._lowering(name, n, one, machine)[0], machine))
                    for n, (times, one) in enumerate(parts)
                )
        return self._predicted[asked]

    def parts(self, name: str) -> list[tuple[float, QuantisedNetwork]]:
        """`sketches` of a network; empty for one that cannot become a program."""
        if name not in self._parts:
            try:
                self._parts[name] = sketches(self._networks[name], self._quantiser)
            except BacoError as error:
                self._parts[name], self.reasons[name] = [], error.message
        return self._parts[name]

    def tasks(self, name: str, machine: Accelerator, weight: float = 1.0) -> tuple[Task, ...]:
        """What a search tiles of a network: the layers of its program on an accelerator, those that are tiled and cost alike
        together, in the order of their first calls; of one that cannot become a program, the problems of its graph."""
        layers: dict[Layer, Layer] = {}
        runs: dict[Layer, float] = {}
        operators: dict[Layer, dict[str, None]] = {}
        for n, (times, one) in enumerate(self.parts(name)):
            lowered, _ = self._lowering(name, n, one, machine)
            for step in lowered.steps:
                if step.function in lowered.layers:
                    layer = lowered.layers[step.function].layer
                    kind = alike(layer)
                    layers.setdefault(kind, layer)
                    runs[kind] = runs.get(kind, 0.0) + times
                    operators.setdefault(kind, {})[step.operator.partition("[")[0]] = None
        if not layers:
            tasks = self._networks[name].tasks
            return tuple(replace(one, count=one.count * weight, weight=weight) for one in tasks)
        return tuple(
            LoweredTask(
                name,
                layer.problem,
                round(runs[kind], 6) * weight,
                tuple(operators[kind]),
                weight,
                layer=layer if layer.scale is None else replace(layer, scale=result_scale(layer.problem)),
            )
            for kind, layer in layers.items()
            if round(runs[kind], 6) > 0
        )

    def searched(self, workload: Workload, space: DesignSpace) -> tuple[Task, ...]:
        """`tasks` of all networks, with their weights; what little of these depends on the accelerator is that of the machine to
        compare with."""
        machine, networks = reference_machine(space), zip(workload.networks, workload.weights, strict=True)
        return tuple(
            task for network, weight in networks for task in self.tasks(network.name, machine, weight)
        )

    def groups(self, name: str, machine: Accelerator) -> list[tuple[float, QuantisedNetwork, GroupsByNames]]:
        """`parts` of a network, each with the groups in it that an accelerator could run as one unit."""
        return [
            (times, one, self._lowering(name, n, one, machine)[1])
            for n, (times, one) in enumerate(self.parts(name))
        ]

    def _lowering(
        self, name: str, part: int, network: QuantisedNetwork, machine: Accelerator
    ) -> tuple[LoweredNetwork, GroupsByNames]:
        network = network.on(machine)
        if not self._keep:
            return lowered_with_groups(network, machine)
        coded = machine.as_coded  # what is kept is a matter of nothing else
        if (name, part, coded) not in self._lowered:
            self._lowered[name, part, coded] = lowered_with_groups(network, coded)
        return self._lowered[name, part, coded]


def rest_of_programs(
    workload: Workload,
    machines: Iterable[Accelerator],
    doing: Doing = silent,
    programs: Programs | None = None,
) -> RestOfPrograms:
    """The rest of the programs of a workload on accelerators that differ in what matters by their sides and by whether
    they have row functions only, those that have in what their memories hold besides.

    Networks that are no programs (operators that cannot be run, say) are named with the reason; what their host operators
    take is estimated from the graph (`baco.exploration.cost.host`).

    Args:
        programs: of the workload, where somebody else will ask about them too.
    """
    programs = programs or Programs(workload.networks, keep=False)
    operators: dict[str, dict[int, tuple[OperatorCost, ...]]] = {}
    units: dict[str, dict[int, tuple[SizedOperators, ...]]] = {}
    by_side: dict[int, Accelerator] = {}
    sized: dict[int, list[Accelerator]] = {}
    for machine in machines:
        if machine.features.row_functions:
            sized.setdefault(machine.dim, []).append(machine)
        else:
            by_side.setdefault(machine.dim, machine)
    # how many memories make a difference to row functions is found out on the way
    lowered, total = itertools.count(), None if sized else len(by_side) * len(workload.networks)
    for name in (network.name for network in workload.networks):
        doing(f"reading {name} as a program")
        programs.parts(name)

        def costs(machine: Accelerator, name: str = name) -> tuple[OperatorCost, ...]:
            doing("operators beside the layers", next(lowered), total)
            return programs.costs(name, machine)

        operators[name] = {side: costs(machine) for side, machine in by_side.items()}
        if sized:
            units[name] = {side: _by_size(ones, costs) for side, ones in sized.items()}
    weights = {one.name: weight for one, weight in zip(workload.networks, workload.weights, strict=True)}
    return RestOfPrograms(weights, operators, dict(programs.reasons), units)


def _by_size(
    machines: Sequence[Accelerator], costs: Callable[[Accelerator], tuple[OperatorCost, ...]]
) -> tuple[SizedOperators, ...]:
    """What accelerators of one side take, by the least memories that it takes, most cycles first.

    What memories hold, larger ones hold as well: if accelerators with the least memories of all and with the largest take
    the same, all do; else, of those with the same scratchpad, all between two that do.
    """
    sizes = {(machine.accumulator_kib, machine.scratchpad_kib): machine for machine in machines}
    ends = [
        sizes.get(
            (pick(accumulator for accumulator, _ in sizes), pick(scratchpad for _, scratchpad in sizes))
        )
        for pick in (min, max)
    ]
    if None not in ends:
        worst, best = (costs(machine) for machine in ends if machine is not None)
        if worst == best:
            return (SizedOperators(0, 0, best, max(sizes)),)
    found: dict[tuple[OperatorCost, ...], list[tuple[int, int]]] = {}
    rows: dict[int, list[Accelerator]] = {}
    for machine in sorted(machines, key=lambda machine: machine.accumulator_kib):
        rows.setdefault(machine.scratchpad_kib, []).append(machine)
    for scratchpad, row in rows.items():
        known: dict[int, tuple[OperatorCost, ...]] = {}
        open_ = [(0, len(row) - 1)]
        while open_:
            low, high = open_.pop()
            for index in (low, high):
                if index not in known:
                    known[index] = costs(row[index])
            if known[low] == known[high]:
                known |= dict.fromkeys(range(low, high), known[low])
            elif high - low > 1:
                middle = (low + high) // 2
                open_ += [(low, middle), (middle, high)]
        for index, operators in known.items():
            found.setdefault(operators, []).append((row[index].accumulator_kib, scratchpad))
    ordered = sorted(found, key=lambda operators: -sum(operator.cost.cycles for operator in operators))
    sized = [SizedOperators(0, 0, ordered[0], found[ordered[0]][0])]
    for operators in ordered[1:]:
        pairs = found[operators]
        least = [
            pair
            for pair in pairs
            if not any(other != pair and other[0] <= pair[0] and other[1] <= pair[1] for other in pairs)
        ]
        sized += [SizedOperators(*pair, operators, pair) for pair in sorted(least)]
    return tuple(sized)


def searched_tasks(workload: Workload, space: DesignSpace) -> tuple[Task, ...]:
    """`Programs.searched`."""
    return Programs(workload.networks, keep=False).searched(workload, space)


def places_of_calls(
    network: QuantisedNetwork, name: str, tasks: Sequence[Task], space: DesignSpace
) -> dict[str, tuple[int, ...]]:
    """By the name of an operator, which of some tasks it calls, each as often as it does.

    Args:
        network: one of the `sketches` of the network of this name.
        tasks, space: of the search.
    """
    lowered = lower_network(network, reference_machine(space), no_schedule)
    places = {
        alike(one.layer): n
        for n, one in enumerate(tasks)
        if isinstance(one, LoweredTask) and one.network == name
    }
    found: dict[str, tuple[int, ...]] = {}
    for step in lowered.steps:
        if step.function in lowered.layers:
            place = places[alike(lowered.layers[step.function].layer)]
            found[step.operator] = (*found.get(step.operator, ()), place)
    return found


def rest_costs(network: QuantisedNetwork, accelerator: Accelerator) -> list[OperatorCost]:
    """Costs of the operators of a network that are no layers, in the order of its program."""
    return predicted_costs(lower_network(network, accelerator, no_schedule), accelerator)


def predicted_costs(lowered: LoweredNetwork, accelerator: Accelerator) -> list[OperatorCost]:
    """`rest_costs` of a network that is lowered already."""
    return [
        OperatorCost(
            step.operator,
            step_kind(lowered, step.function),
            step.accelerator,
            1.0,
            predict_step(lowered, step, accelerator),
        )
        for step in lowered.steps
        if step.function not in lowered.layers
    ]


def lowered_with_groups(
    network: QuantisedNetwork, accelerator: Accelerator
) -> tuple[LoweredNetwork, GroupsByNames]:
    """A network without schedules for its layers, its operators one by one; and the groups that these could run as."""
    known: dict[tuple[str, ...], Group] = {}

    def note(names: tuple[str, ...], group: Group, between: RowCode | None) -> None:
        known[names] = group

    return lower_network(network, accelerator, no_schedule, note), known


def no_schedule(layer: Layer) -> tuple[Schedule, tuple[tuple[str, int], ...]]:
    """Any: layers are somebody else's business here."""
    return LoopWsSchedule(1, 1, 1), ()


def sketches(network: Network, quantiser: Quantiser = DEFAULT) -> list[tuple[float, QuantisedNetwork]]:
    """Integer networks whose costs, each so many times, add up to those of a network.

    Blocks that repeat are looked at in networks of one and of two of them: what each further one adds is the difference.
    """
    counts = {block.count for block in network.blocks}
    if len(counts) != 1 or counts <= {1, 2}:
        return [(1.0, sketch(network, quantiser=quantiser))]
    more = float(counts.pop() - 1)
    return [(1.0 - more, sketch(network, 1, quantiser)), (more, sketch(network, 2, quantiser))]


def _merged(parts: Iterable[tuple[float, Sequence[OperatorCost]]]) -> tuple[OperatorCost, ...]:
    """Sums by operator (copies of a block are one), in order of first appearance."""
    sums: dict[tuple[str, str, bool], list[float]] = {}
    for times, costs in parts:
        for one in costs:
            name = one.operator.partition("[")[0]
            key = (name, one.function, one.on_accelerator)
            total = sums.setdefault(key, [0.0] * (1 + len(StepCost._fields)))
            for place, value in enumerate((one.runs, *one.cost)):
                total[place] += times * value
    return tuple(
        OperatorCost(*key, runs, StepCost(*amounts))
        for key, (runs, *amounts) in sums.items()
        if round(runs, 6) > 0
    )
