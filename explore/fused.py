"""Groups of operators that run as one unit in the programs of a search's designs: which, on which accelerator, and what for.

A group (`baco.compiler.network.groups`) replaces layers whose mappings a search looks for, and other operators, by code whose
cost depends on the accelerator alone. So on every accelerator of a space some tasks run less often, and the rest of
the programs (`baco.exploration.rest`) is another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, PlainSerializer

from baco.compiler.network.steps import StepCost
from baco.exploration._json import Amount, Count, listed
from baco.exploration.operators import OperatorCost, total

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Array side, accumulator KiB, scratchpad KiB, and whether there are row functions.
Point = tuple[Count, Count, Count, bool]
#: What networks do on accelerators; in files, a list of pairs.
_Places = Annotated[
    Mapping[Point, tuple[Count, ...]],
    PlainSerializer(lambda places: [[list(point), list(ones)] for point, ones in places.items()]),
    BeforeValidator(lambda pairs: {tuple(listed(at)): tuple(listed(ones)) for at, ones in listed(pairs)}),
]


@dataclass(frozen=True)
class Fusion:
    """What runs as one unit in one run of a network.

    Attributes:
        groups: their costs.
        replaced: operators that are no layers, and what of them is in groups.
        runs: of each of the network's tasks, how many are in groups.
    """

    groups: tuple[OperatorCost, ...]
    replaced: tuple[OperatorCost, ...]
    runs: tuple[Amount, ...]

    @cached_property
    def added(self) -> StepCost:
        """What the program does more than one by one, layers apart."""
        more, less = total(self.groups), total(self.replaced)
        return StepCost(*(one - other for one, other in zip(more, less, strict=True)))

    def of(self, operators: tuple[OperatorCost, ...]) -> tuple[OperatorCost, ...]:
        """The rest of a program with groups, from that without."""
        gone = {operator.operator: operator for operator in self.replaced}
        kept = []
        for operator in operators:
            less = gone.get(operator.operator)
            if less is None:
                kept.append(operator)
            elif operator.runs - less.runs > 1e-9:
                cost = StepCost(*(a - b for a, b in zip(operator.cost, less.cost, strict=True)))
                kept.append(
                    OperatorCost(
                        operator.operator,
                        operator.function,
                        operator.on_accelerator,
                        operator.runs - less.runs,
                        cost,
                    )
                )
        return (*kept, *self.groups)


@dataclass(frozen=True)
class FusedPrograms:
    """Which groups the programs of a workload have, by accelerator; on those that are not named there are none.

    Attributes:
        tasks: how many each network has.
        choices: of each network, by its name.
        points: accelerators, and the place in `choices` of what each network does there, in the order of their names.
    """

    tasks: Mapping[str, Count] = field(default_factory=dict)
    choices: Mapping[str, tuple[Fusion, ...]] = field(default_factory=dict)
    points: _Places = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises ValueError (a damaged file) for parts that do not fit together."""
        for name, ones in self.choices.items():
            if any(len(fusion.runs) != self.tasks.get(name) for fusion in ones):
                raise ValueError(f"the groups of {name} are not of its tasks")
        numbers = tuple(len(self.choices[name]) for name in sorted(self.choices))
        for places in set(self.points.values()):
            if len(places) != len(numbers) or any(
                at >= number for at, number in zip(places, numbers, strict=True)
            ):
                raise ValueError(f"{places!r} are no groups")

    def at(self, network: str, point: Point) -> Fusion | None:
        """What a network does on an accelerator; None without groups."""
        found = self.points.get(point)
        if found is None or network not in self.choices:
            return None
        return self.choices[network][found[sorted(self.choices).index(network)]]

    def added(self, network: str, dim: Any, accumulator: Any, scratchpad: Any, units: Any) -> Floats:
        """What one run of a network takes more than without groups, but for its layers, on accelerators of one shape (...,):
        (5, ...) as the fields of `StepCost`."""
        return np.moveaxis(
            self._tables[network][0][self._place(network, dim, accumulator, scratchpad, units)], -1, 0
        )

    def grouped(self, network: str, dim: Any, accumulator: Any, scratchpad: Any, units: Any) -> Floats:
        """Runs of a network's tasks that are in groups, likewise: (..., tasks)."""
        if network not in self.choices:
            return np.zeros((*np.shape(dim), self.tasks.get(network, 0)))
        return self._tables[network][1][self._place(network, dim, accumulator, scratchpad, units)]

    @cached_property
    def _tables(self) -> dict[str, tuple[Floats, Floats]]:
        """Of every network's choices, what is added (choices, 5) and runs (choices, tasks); none first."""
        return {
            name: (
                np.array([(0.0,) * len(StepCost._fields), *(tuple(one.added) for one in ones)]),
                np.array([(0.0,) * self.tasks[name], *(one.runs for one in ones)]),
            )
            for name, ones in self.choices.items()
        }

    @cached_property
    def _known(self) -> tuple[Ints, dict[str, Ints]]:
        """Keys of the accelerators, ascending, and the choice of each by network."""
        keys = np.array([_key(*one) for one in self.points], dtype=np.int64)
        order = np.argsort(keys, kind="stable")
        table = np.array([*self.points.values()], dtype=np.int64).reshape(len(keys), len(self.choices))
        return keys[order], {name: table[order, n] for n, name in enumerate(sorted(self.choices))}

    def _place(self, network: str, dim: Any, accumulator: Any, scratchpad: Any, units: Any) -> Ints:
        """Rows of `_tables`, of any shape."""
        keys, chosen = self._known
        asked = _key(*np.broadcast_arrays(dim, accumulator, scratchpad, units))
        if not keys.size:
            return np.zeros(np.shape(asked), dtype=np.int64)
        place = np.searchsorted(keys, asked).clip(0, len(keys) - 1)
        return np.where(keys[place] == asked, chosen[network][place] + 1, 0)


def _key(dim: Any, accumulator: Any, scratchpad: Any, units: Any) -> Any:
    """A number for each accelerator; no other for one whose sizes are infinite or no whole numbers."""
    sizes = [np.asarray(size, dtype=np.float64) for size in (dim, accumulator, scratchpad)]
    whole = np.logical_and.reduce(
        [(size == np.floor(size)) & (size < 1 << 20) & (size >= 0) for size in sizes]
    )
    side, acc, sp = (np.where(whole, size, 0).astype(np.int64) for size in sizes)
    key = (((side << 20) + acc << 20) + sp << 1) + np.asarray(units, dtype=np.int64)
    return np.where(whole, key, -1)
