"""What a network's program does beside its layers: additions and poolings on the accelerator, operators on the host.

None of it depends on mappings, and of the hardware of a space only on the array's side, but for the energy of an access.
So a search adds a few numbers a side to what its mappings cost, and minimises the cost of the whole program.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel.config import Accelerator
from compiler.network.steps import StepCost
from explore._json import Json, listed, number, reader, text

__all__ = ["OperatorCost", "RestOfPrograms"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OperatorCost:
    """Predicted cost of an operator that is no layer, in one run of its network.

    Attributes:
        operator: of the network; of repeated blocks the first one stands for all.
        function: that computes it: a name of `compiler/network/host/`, `addition` or `pooling`.
        on_accelerator: who does.
        runs: in one run of the network.
        cost: of all of them.
    """

    operator: str
    function: str
    on_accelerator: bool
    runs: float
    cost: StepCost


@dataclass(frozen=True)
class RestOfPrograms:
    """The rest of the programs of a workload's networks, by array side.

    Attributes:
        weights: of the networks, by name.
        operators: of one run of a network on arrays of a side, by name and side.
        reasons: why a network has no program, by name: its rest is an estimate.
    """

    weights: Mapping[str, float]
    operators: Mapping[str, Mapping[int, tuple[OperatorCost, ...]]]
    reasons: Mapping[str, str]

    @functools.cached_property
    def networks(self) -> tuple[str, ...]:
        """Names, ascending."""
        return tuple(sorted(self.weights))

    def total(self, network: str, accelerator: Accelerator) -> tuple[float, float]:
        """(cycles, energy in pJ) of one run of a network."""
        cost = self._cost(network, accelerator.dim)
        return cost.cycles, cost.energy_pj(accelerator)

    def whole(self, accelerator: Accelerator) -> tuple[float, float]:
        """(cycles, energy in pJ) of the workload, with the weights of its networks."""
        parts = [(weight, *self.total(name, accelerator)) for name, weight in self.weights.items()]
        return math.fsum(w * cycles for w, cycles, _ in parts), math.fsum(w * pj for w, _, pj in parts)

    def of(self, dim: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """What each network takes on arrays of side `dim` (...,), weights included: cycles, energy that does not depend on
        capacities, words accessed at accumulator and scratchpad; (..., networks) each, in the order of `networks`."""
        sides, amounts = self._table
        place = np.searchsorted(sides, dim).clip(0, len(sides) - 1)
        cycles, fixed, accumulator, scratchpad = (one[place] for one in amounts)
        return cycles, fixed, accumulator, scratchpad

    def _cost(self, network: str, side: int) -> StepCost:
        found = [one.cost for one in self.operators[network][side]] or [StepCost(0.0)]
        return StepCost(*(math.fsum(column) for column in zip(*found, strict=True)))

    @functools.cached_property
    def _table(self) -> tuple[Floats, Floats]:
        """Sides (S,), and (4, S, networks) amounts, weights included."""
        sides = sorted(next(iter(self.operators.values())))
        each = [
            [np.array(self._cost(name, side)) * self.weights[name] for name in self.networks]
            for side in sides
        ]
        return np.array(sides, dtype=np.float64), np.moveaxis(np.array(each), -1, 0)

    def to_json(self) -> Json:
        """Plain values; `from_json` is the way back."""
        return {
            "weights": dict(self.weights),
            "operators": {
                name: {
                    str(side): [[*list(vars(one).values())[:-1], *one.cost] for one in costs]
                    for side, costs in by_side.items()
                }
                for name, by_side in self.operators.items()
            },
            "reasons": dict(self.reasons),
        }

    @classmethod
    @reader("the rest of its programs")
    def from_json(cls, data: Json) -> RestOfPrograms:
        """Inverse of `to_json`. Raises InputError for anything else."""
        return cls(
            {str(name): number(one, 0) for name, one in data["weights"].items()},
            {
                str(name): {
                    int(side): tuple(map(_operator_cost, listed(costs))) for side, costs in by_side.items()
                }
                for name, by_side in data["operators"].items()
            },
            {str(name): text(one) for name, one in data["reasons"].items()},
        )


def _operator_cost(row: list[Any]) -> OperatorCost:
    operator, function, on_accelerator, runs, *numbers = row
    if not isinstance(on_accelerator, bool) or len(numbers) != len(StepCost._fields):
        raise ValueError(f"{row!r} is no operator")
    cost = StepCost(*(number(one, 0) for one in numbers))
    return OperatorCost(text(operator), text(function), on_accelerator, number(runs, 0), cost)
