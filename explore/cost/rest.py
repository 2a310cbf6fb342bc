"""What a network's program does beside its layers: additions and poolings on the accelerator, operators on the host.

None of it depends on mappings, and of the hardware of a space only on the array's side. So a search adds a number a side
to what its mappings cost, and minimises the cost of the whole program.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accel.config import Accelerator
from common.errors import BacoError
from compiler.layer import Layer
from compiler.network.graph import QuantisedNetwork
from compiler.network.lowering import LoweredNetwork, lower_network
from compiler.network.prediction import predict_step
from compiler.network.quantise import sketch
from compiler.schedule import ExplicitSchedule, Schedule
from workloads.network import Network, Workload

__all__ = ["OperatorCost", "RestOfPrograms", "RestOfSpace", "rest_costs"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OperatorCost:
    """Predicted cost of an operator that is no layer, in one run of its network.

    Attributes:
        operator: of the network; of repeated blocks the first one stands for all.
        function: that computes it: a name of `compiler/network/host/`, `addition` or `pooling`.
        on_accelerator: who does.
        runs: in one run of the network.
        cycles, energy_pj: of all of them.
    """

    operator: str
    function: str
    on_accelerator: bool
    runs: float
    cycles: float
    energy_pj: float


class RestOfPrograms:
    """The rest of the programs of a workload's networks.

    Args:
        workload: its networks with their weights.

    Attributes:
        reasons: why a network has no program, by its name: its rest counts as nothing.
    """

    def __init__(self, workload: Workload) -> None:
        self.weights = dict(zip((one.name for one in workload.networks), workload.weights, strict=True))
        self.reasons: dict[str, str] = {}
        self._sketches: dict[str, list[tuple[float, QuantisedNetwork]]] = {}
        for network in workload.networks:
            try:
                self._sketches[network.name] = _sketches(network)
            except BacoError as error:
                self.reasons[network.name] = error.message
        self._known: dict[tuple[str, str], tuple[OperatorCost, ...]] = {}

    def operators(self, network: str, accelerator: Accelerator) -> tuple[OperatorCost, ...]:
        """Of one run of a network, in order; empty for one without a program."""
        key = network, accelerator.config_hash
        if key not in self._known:
            parts = self._sketches.get(network, [])
            self._known[key] = _merged((times, rest_costs(one, accelerator)) for times, one in parts)
        return self._known[key]

    def total(self, network: str, accelerator: Accelerator) -> tuple[float, float]:
        """(cycles, energy in pJ) of one run of a network."""
        found = self.operators(network, accelerator)
        return math.fsum(one.cycles for one in found), math.fsum(one.energy_pj for one in found)

    def whole(self, accelerator: Accelerator) -> tuple[float, float]:
        """(cycles, energy in pJ) of the workload, with the weights of its networks."""
        parts = [(weight, *self.total(name, accelerator)) for name, weight in self.weights.items()]
        return sum(w * cycles for w, cycles, _ in parts), sum(w * pj for w, _, pj in parts)


def rest_costs(network: QuantisedNetwork, accelerator: Accelerator) -> list[OperatorCost]:
    """Costs of the operators of a network that are no layers, in the order of its program."""
    lowered = lower_network(network, accelerator, _no_schedule)
    found = []
    for step in lowered.steps:
        if step.function in lowered.layers:
            continue
        cost = predict_step(lowered, step, accelerator)
        found.append(
            OperatorCost(
                step.operator,
                _function(lowered, step.function),
                step.accelerator,
                1.0,
                cost.cycles,
                cost.energy_pj,
            )
        )
    return found


def _function(lowered: LoweredNetwork, function: str) -> str:
    if function in lowered.additions:
        return "addition"
    return "pooling" if function in lowered.pools else function


def _no_schedule(layer: Layer) -> tuple[Schedule, tuple[tuple[str, int], ...]]:
    """Layers are somebody else's business here."""
    return ExplicitSchedule(None), ()  # type: ignore[arg-type]


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
            name = one.operator.partition("[")[0] if len(costs) else one.operator
            total = sums.setdefault((name, one.function, one.on_accelerator), [0.0, 0.0, 0.0])
            for place, value in enumerate((one.runs, one.cycles, one.energy_pj)):
                total[place] += times * value
    return tuple(OperatorCost(*key, *values) for key, values in sums.items() if round(values[0], 6) > 0)


class RestOfSpace:
    """`RestOfPrograms` on the accelerators of a space, in arrays.

    Args:
        rest: None: nothing is left over, for searches that mind the accelerator's layers alone.
        sides: (S,) array sides, ascending, and an accelerator for each.
        networks: names, in the order of the results.
    """

    def __init__(
        self, rest: RestOfPrograms | None, machines: Mapping[int, Accelerator], networks: Sequence[str]
    ) -> None:
        self.networks = tuple(networks)
        self._sides = np.array(sorted(machines), dtype=np.float64)
        self._costs = np.zeros((2, len(self._sides), len(self.networks)))
        if rest is not None:
            for place, side in enumerate(sorted(machines)):
                for n, name in enumerate(self.networks):
                    self._costs[:, place, n] = np.array(rest.total(name, machines[side])) * rest.weights[name]

    def of(self, dim: Floats) -> tuple[Floats, Floats]:
        """(cycles, energy in pJ) of each network, weights included, on arrays of side `dim` (...,): (..., networks) each."""
        if not len(self._sides):
            return (np.zeros((*np.shape(dim), len(self.networks))),) * 2
        place = np.searchsorted(self._sides, dim).clip(0, len(self._sides) - 1)
        return self._costs[0][place], self._costs[1][place]
