"""Groups of operators that run as one unit in the programs of a search's designs: which, on which accelerator, and what for.

A group (`baco.compiler.network.groups`) replaces layers whose mappings a search looks for, and other operators, by code whose
cost depends on the accelerator alone. So on every accelerator of a space some tasks run less often, and the rest of
the programs (`baco.exploration.rest`) is another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.compiler.network.steps import StepCost
from baco.exploration._json import Json, listed, number
from baco.exploration.operators import OperatorCost, operators_from_json, operators_to_json, total

__all__ = ["FusedPrograms", "Fusion"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Array side, accumulator KiB, scratchpad KiB, and whether there are row functions.
Point = tuple[int, int, int, bool]


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
    runs: tuple[float, ...]

    @cached_property
    def added(self) -> StepCost:
        """What the program does more than one by one, layers apart."""
        more, less = total(self.groups), total(self.replaced)
        return StepCost(*(one - other for one, other in zip(more, less, strict=True)))

    def of(self, operators: tuple[OperatorCost, ...]) -> tuple[OperatorCost, ...]:
        """The rest of a program with groups, from that without."""
        gone = {one.operator: one for one in self.replaced}
        kept = []
        for one in operators:
            less = gone.get(one.operator)
            if less is None:
                kept.append(one)
            elif one.runs - less.runs > 1e-9:
                cost = StepCost(*(a - b for a, b in zip(one.cost, less.cost, strict=True)))
                kept.append(
                    OperatorCost(one.operator, one.function, one.on_accelerator, one.runs - less.runs, cost)
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

    tasks: Mapping[str, int] = field(default_factory=dict)
    choices: Mapping[str, tuple[Fusion, ...]] = field(default_factory=dict)
    points: Mapping[Point, tuple[int, ...]] = field(default_factory=dict)

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
        place = np.searchsorted(keys, asked).clip(0, max(0, len(keys) - 1))
        return np.where(keys[place] == asked, chosen[network][place] + 1, 0)

    def to_json(self) -> Json:
        """Plain values; `from_json` is the way back."""
        return {
            "tasks": dict(self.tasks),
            "choices": {
                name: [
                    [operators_to_json(one.groups), operators_to_json(one.replaced), list(one.runs)]
                    for one in ones
                ]
                for name, ones in self.choices.items()
            },
            "points": [[*point, list(places)] for point, places in self.points.items()],
        }

    @classmethod
    def from_json(cls, data: Json) -> FusedPrograms:
        """Inverse of `to_json`. Raises ValueError, KeyError or TypeError for anything else."""
        tasks = {str(name): _whole(count) for name, count in data["tasks"].items()}
        choices = {
            str(name): tuple(
                Fusion(
                    operators_from_json(groups),
                    operators_from_json(replaced),
                    tuple(number(one) for one in listed(runs)),
                )
                for groups, replaced, runs in listed(ones)
            )
            for name, ones in data["choices"].items()
        }
        for name, ones in choices.items():
            if not ones or any(len(one.runs) != tasks[name] for one in ones):
                raise ValueError(f"the groups of {name} are not of its tasks")
        points: dict[Point, tuple[int, ...]] = {}
        for dim, accumulator, scratchpad, units, places in listed(data["points"]):
            found = tuple(_whole(one) for one in listed(places))
            if len(found) != len(choices) or any(
                one >= len(choices[name]) for one, name in zip(found, sorted(choices), strict=True)
            ):
                raise ValueError(f"{places!r} are no groups")
            if not isinstance(units, bool):
                raise ValueError(f"{units!r} does not say whether there are row functions")
            points[_whole(dim), _whole(accumulator), _whole(scratchpad), units] = found
        return cls(tasks, choices, points)


def _key(dim: Any, accumulator: Any, scratchpad: Any, units: Any) -> Any:
    """A number for each accelerator; no other for one whose sizes are infinite or no whole numbers."""
    sizes = [np.asarray(one, dtype=np.float64) for one in (dim, accumulator, scratchpad)]
    whole = np.logical_and.reduce([(one == np.floor(one)) & (one < 1 << 20) & (one >= 0) for one in sizes])
    side, acc, sp = (np.where(whole, one, 0).astype(np.int64) for one in sizes)
    key = (((side << 20) + acc << 20) + sp << 1) + np.asarray(units, dtype=np.int64)
    return np.where(whole, key, -1)


def _whole(value: object) -> int:
    found = number(value, 0)
    if found != int(found):
        raise ValueError(f"{value!r} is no whole number")
    return int(found)
