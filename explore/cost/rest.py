"""The rest of programs (`explore.rest`) from networks: lowered as they are compiled, without their layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from accel.config import Accelerator
from common.errors import BacoError
from compiler.layers.layer import Layer
from compiler.network.graph import QuantisedNetwork
from compiler.network.lowered import step_kind
from compiler.network.lowering import lower_network
from compiler.network.prediction import predict_step
from compiler.network.quantise import sketch
from compiler.network.steps import StepCost
from compiler.schedules.schedule import LoopWsSchedule, Schedule
from explore.cost.host import host_costs
from explore.cost.predicted import side_machines
from explore.hardware import with_units
from explore.reference_machine import reference_machine
from explore.rest import OperatorCost, RestOfPrograms
from explore.space import DesignSpace
from workloads.network import Network, Workload

__all__ = ["rest_costs", "rest_in_space", "rest_of_programs"]


def rest_in_space(workload: Workload, space: DesignSpace) -> RestOfPrograms:
    """The rest of programs on the accelerators of a space, and on the machine to compare with."""
    machines = [with_units(one, units) for units in space.units for one in side_machines(space)]
    return rest_of_programs(workload, [*machines, reference_machine(space)])


def rest_of_programs(workload: Workload, machines: Iterable[Accelerator]) -> RestOfPrograms:
    """The rest of the programs of a workload on accelerators that differ in what matters by their sides and by whether
    they have row functions only.

    Networks that are no programs (operators that cannot be run, say) are named with the reason; what their host operators
    take is estimated from the graph (`explore.cost.host`).
    """
    tables: dict[bool, dict[str, dict[int, tuple[OperatorCost, ...]]]] = {False: {}, True: {}}
    reasons: dict[str, str] = {}
    unlike = {(one.features.row_functions, one.dim): one for one in machines}
    for network in workload.networks:
        parts: list[tuple[float, QuantisedNetwork]] = []
        try:
            parts = _sketches(network)
        except BacoError as error:
            reasons[network.name] = error.message
        for (units, side), machine in unlike.items():
            tables[units].setdefault(network.name, {})[side] = (
                _merged((times, rest_costs(one, machine)) for times, one in parts)
                if parts
                else tuple(host_costs(network, machine))
            )
    weights = {one.name: weight for one, weight in zip(workload.networks, workload.weights, strict=True)}
    return RestOfPrograms(weights, tables[False], reasons, tables[True])


def rest_costs(network: QuantisedNetwork, accelerator: Accelerator) -> list[OperatorCost]:
    """Costs of the operators of a network that are no layers, in the order of its program."""
    lowered = lower_network(network, accelerator, _no_schedule)
    found = []
    for step in lowered.steps:
        if step.function in lowered.layers:
            continue
        cost = predict_step(lowered, step, accelerator)
        kind = step_kind(lowered, step.function)
        found.append(OperatorCost(step.operator, kind, step.accelerator, 1.0, cost))
    return found


def _no_schedule(layer: Layer) -> tuple[Schedule, tuple[tuple[str, int], ...]]:
    """Any: layers are somebody else's business here."""
    return LoopWsSchedule(1, 1, 1), ()


def _sketches(network: Network) -> list[tuple[float, QuantisedNetwork]]:
    """Integer networks whose costs, each so many times, add up to those of a network.

    Blocks that repeat are looked at in networks of one and of two of them: what each further one adds is the difference.
    """
    counts = {block.count for block in network.blocks}
    if len(counts) != 1 or counts <= {1, 2}:
        return [(1.0, sketch(network))]
    more = float(counts.pop() - 1)
    return [(1.0 - more, sketch(network, 1)), (more, sketch(network, 2))]


def _merged(parts: Iterable[tuple[float, Sequence[OperatorCost]]]) -> tuple[OperatorCost, ...]:
    """Sums by operator (copies of a block are one), in order of first appearance."""
    sums: dict[tuple[str, str, bool], list[float]] = {}
    for times, costs in parts:
        for one in costs:
            name = one.operator.partition("[")[0]
            total = sums.setdefault((name, one.function, one.on_accelerator), [0.0] * 5)
            for place, value in enumerate((one.runs, *one.cost)):
                total[place] += times * value
    return tuple(
        OperatorCost(*key, runs, StepCost(*amounts))
        for key, (runs, *amounts) in sums.items()
        if round(runs, 6) > 0
    )
