"""What a network's program does beside its layers: additions and poolings on the accelerator, operators on the host.

None of it depends on mappings, and of the hardware of a space only on the array's side and on whether there are row
functions (`baco.accel.config.Features.row_functions`), but for the energy of an access, and for row functions whose rows small
memories do not hold, so that the host computes them. So a search adds a few numbers a side to what its mappings cost, and minimises the cost of the whole program.
Where operators run in groups (`baco.exploration.fused`), some layers run less often, too: `runs`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from baco.accel.config import Accelerator
from baco.common.errors import InputError
from baco.compiler.network.steps import StepCost
from baco.exploration._json import Amount, Json, from_json, reader, to_json
from baco.exploration.fused import FusedPrograms
from baco.exploration.operators import OperatorCost, total
from baco.exploration.space import Choice, DesignSpace
from baco.workloads.network import Task

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class SizedOperators:
    """Operators of a program on accelerators whose memories are at least so large (0: any)."""

    accumulator_kib: Amount
    scratchpad_kib: Amount
    operators: tuple[OperatorCost, ...]

    #: (accumulator KiB, scratchpad KiB) of an accelerator that these are the operators of; not kept in files.
    found_at: Annotated[tuple[int, int] | None, Field(exclude=True)] = field(default=None, compare=False)

    @property
    def cost(self) -> StepCost:
        """Of all operators."""
        return total(self.operators)


#: By network and array side.
Operators = Mapping[str, Mapping[int, tuple[OperatorCost, ...]]]
#: Likewise; of those whose memories are small enough, the last holds.
OperatorsBySize = Mapping[str, Mapping[int, tuple[SizedOperators, ...]]]


@dataclass(frozen=True)
class RestOfPrograms:
    """The rest of the programs of a workload's networks, by array side.

    Attributes:
        weights: of the networks, by name.
        operators: of one run of a network on accelerators without row functions, by name and side.
        reasons: why a network has no program, by name: its rest is an estimate.
        with_units: as `operators`, on accelerators with row functions, by the memories that these need.
        fused: which operators run as one unit, by accelerator.
    """

    weights: Mapping[str, Amount]
    operators: Operators
    reasons: Mapping[str, str]
    with_units: OperatorsBySize = field(default_factory=dict)
    fused: FusedPrograms = field(default_factory=FusedPrograms)

    @functools.cached_property
    def networks(self) -> tuple[str, ...]:
        """Names, ascending."""
        return tuple(sorted(self.weights))

    def at(self, space: DesignSpace) -> RestOfPrograms:
        """On the accelerators of a space that differs in settings (`DesignSpace.at`) from the one it is of."""
        return self

    def without_units(self) -> RestOfPrograms:
        """What is known of accelerators without row functions."""
        return replace(self, with_units={})

    def without_groups(self) -> RestOfPrograms:
        """Of programs whose operators run one by one: what the compiler does with schedules that no search found."""
        return replace(self, fused=FusedPrograms())

    def units_may_pay(self, *, power_bounded: bool) -> bool:
        """Whether on arrays of some side any amount (`of`) is less with row functions than without.

        Where none is, every design with row functions has a twin without them that takes no more cycles, energy and area:
        the same mappings on the same sizes. Nor does it take more power, unless it takes fewer cycles.

        Args:
            power_bounded: whether there is a bound on power, so that cycles must be the same.
        """
        if not self.with_units:
            return False
        sides, *_, units = self._units
        plain = _at(self._plain, sides)[:, :, None]
        costs = slice(4)  # bytes cost nothing of their own
        return bool((units[costs] < plain[costs]).any() or (power_bounded and (units[0] != plain[0]).any()))

    def operators_of(self, network: str, accelerator: Accelerator) -> tuple[OperatorCost, ...]:
        """Of one run of a network on an accelerator of one of the sides, groups included."""
        sizes = accelerator.accumulator_kib, accelerator.scratchpad_kib
        units = accelerator.features.row_functions
        if units:
            operators = next(
                one.operators
                for one in reversed(self.with_units[network][accelerator.dim])
                if one.accumulator_kib <= sizes[0] and one.scratchpad_kib <= sizes[1]
            )
        else:
            operators = self.operators[network][accelerator.dim]
        fusion = self.fused.at(network, (accelerator.dim, *sizes, units))
        return operators if fusion is None else fusion.of(operators)

    def counts(self, tasks: Sequence[Task], accelerator: Accelerator) -> list[float]:
        """How often each of a workload's tasks runs by itself on an accelerator, weights included."""
        found: list[float] = self.runs(
            tasks,
            float(accelerator.dim),
            float(accelerator.accumulator_kib),
            float(accelerator.scratchpad_kib),
            accelerator.features.row_functions,
        ).tolist()
        return found

    def runs(
        self,
        tasks: Sequence[Task],
        dim: float | Floats,
        accumulator_kib: float | Floats,
        scratchpad_kib: float | Floats,
        units: bool | Bools,
    ) -> Floats:
        """`counts` on accelerators (...,), as of `of`: (..., tasks)."""
        found = np.empty((*np.shape(dim), len(tasks)))
        for network in dict.fromkeys(task.network for task in tasks):
            place = [n for n, task in enumerate(tasks) if task.network == network]
            count, weight = np.array([(tasks[n].count, tasks[n].weight) for n in place]).T
            grouped = self.fused.grouped(network, dim, accumulator_kib, scratchpad_kib, units)
            found[..., place] = (
                np.maximum(0.0, count - weight * grouped) if network in self.fused.choices else count
            )
        return found

    def total(self, network: str, accelerator: Accelerator) -> tuple[float, float]:
        """(cycles, energy in pJ) of one run of a network."""
        cost = total(self.operators_of(network, accelerator))
        return cost.cycles, cost.energy_pj(accelerator)

    def whole(self, accelerator: Accelerator) -> tuple[float, float]:
        """(cycles, energy in pJ) of the workload, with the weights of its networks."""
        parts = [(weight, *self.total(name, accelerator)) for name, weight in self.weights.items()]
        return math.fsum(w * cycles for w, cycles, _ in parts), math.fsum(w * pj for w, _, pj in parts)

    def of(
        self,
        dim: Floats,
        accumulator_kib: float | Floats = math.inf,
        scratchpad_kib: float | Floats = math.inf,
        units: bool | Bools = False,
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """What each network takes on arrays of side `dim` (...,), weights included: cycles, energy that does not depend on
        capacities, words accessed at accumulator and scratchpad; (..., networks) each, in the order of `networks`.

        Args:
            accumulator_kib, scratchpad_kib: of the accelerators, of shapes that broadcast with `dim`; for those with row
                functions.
            units: which accelerators have row functions, likewise.
        """
        chosen = np.broadcast_to(units, np.shape(dim))
        if not chosen.any():
            amounts = _at(self._plain, dim)
        else:
            sizes = (np.broadcast_to(one, np.shape(dim)) for one in (accumulator_kib, scratchpad_kib))
            amounts = self._with_units(dim, *sizes)
        if chosen.any() and not chosen.all():
            amounts = np.where(chosen[..., None], amounts, _at(self._plain, dim))
        if self.fused.points:
            more = [
                self.weights[name] * self.fused.added(name, dim, accumulator_kib, scratchpad_kib, units)
                if name in self.fused.choices
                else np.zeros((len(StepCost._fields), *np.shape(dim)))
                for name in self.networks
            ]
            amounts = amounts + np.stack(more, -1)
        cycles, fixed, accumulator, scratchpad, _ = amounts
        return cycles, fixed, accumulator, scratchpad

    @functools.cached_property
    def _plain(self) -> tuple[Floats, Floats]:
        return self._table(self.operators)

    def _with_units(self, dim: Floats, accumulator_kib: Floats, scratchpad_kib: Floats) -> Floats:
        """(5, ..., networks) amounts with row functions."""
        sides, least_acc, least_sp, amounts = self._units
        place = np.searchsorted(sides, dim).clip(0, len(sides) - 1)
        holds = least_acc[place] <= accumulator_kib[..., None, None]
        holds &= least_sp[place] <= scratchpad_kib[..., None, None]
        last = holds.shape[-2] - 1 - holds[..., ::-1, :].argmax(-2)
        return amounts[:, place[..., None], last, np.arange(len(self.networks))]

    @functools.cached_property
    def _units(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Sides (S,), least capacities (S, K, networks) each, and (5, S, K, networks) amounts, weights included; the first
        of fewer than K repeated."""
        sides = sorted(next(iter(self.with_units.values())))
        each = [[self.with_units[name][side] for name in self.networks] for side in sides]
        most = max(len(sized) for row in each for sized in row)
        full = [[(*(sized[:1] * (most - len(sized))), *sized) for sized in row] for row in each]

        def table(of: Callable[[SizedOperators], float | tuple[float, ...]]) -> Floats:
            return np.array(
                [[[of(operators) for operators in ones] for ones in row] for row in full]
            ).swapaxes(1, 2)

        weights = np.array([self.weights[name] for name in self.networks])[:, None]
        amounts = np.moveaxis(table(lambda operators: tuple(operators.cost)) * weights, -1, 0)
        capacities = (
            table(lambda operators: operators.accumulator_kib),
            table(lambda operators: operators.scratchpad_kib),
        )
        return np.array(sides, dtype=np.float64), *capacities, amounts

    def _table(self, operators: Operators) -> tuple[Floats, Floats]:
        """Sides (S,), and (5, S, networks) amounts, weights included."""
        sides = sorted(next(iter(operators.values())))
        each = [
            [np.array(total(operators[name][side])) * self.weights[name] for name in self.networks]
            for side in sides
        ]
        return np.array(sides, dtype=np.float64), np.moveaxis(np.array(each), -1, 0)

    def to_json(self) -> Json:
        """Plain values; `from_json` is the way back."""
        found: Json = to_json(self, RestOfPrograms)
        return found

    @staticmethod
    @reader("the rest of its programs")
    def from_json(data: Json) -> RestOfPrograms:
        """Inverse of `to_json`. Raises InputError for anything else."""
        return from_json(RestOfPrograms, data)


@dataclass(frozen=True)
class RestBySettings(RestOfPrograms):
    """The rest of programs in a space with settings: for those of its `base` as any other, for others found when first asked.

    Attributes:
        space: with settings.
        find: says it of one of the spaces that `DesignSpace.at` gives; None where nothing more can be found.
        known: by the places of the settings' values.
    """

    space: DesignSpace = field(kw_only=True, repr=False)
    find: Callable[[DesignSpace], RestOfPrograms] | None = field(kw_only=True, repr=False, compare=False)
    known: dict[Choice, RestOfPrograms] = field(default_factory=dict, kw_only=True, repr=False)

    def at(self, space: DesignSpace) -> RestOfPrograms:
        """See `RestOfPrograms`. Raises InputError for settings of which nothing is known."""
        if space is self.space:
            return self
        choice = self.space.choice_of(space.base)
        if choice not in self.known:
            if space.has_settings_of(self.space.base):  # which no design of a study need have
                return RestOfPrograms(self.weights, self.operators, self.reasons, self.with_units, self.fused)
            if self.find is None:
                raise InputError(f"the study has no rest of programs for the settings {space.base.name}")
            self.known[choice] = self.find(space)
        return self.known[choice]

    def operators_of(self, network: str, accelerator: Accelerator) -> tuple[OperatorCost, ...]:
        """See `RestOfPrograms`; of an accelerator without the settings of the space (to compare with), as of its base."""
        choice = self.space.choice_of(accelerator)
        there = self.space.at(choice)
        if not there.has_settings_of(accelerator):
            return super().operators_of(network, accelerator)
        return self.at(there).operators_of(network, accelerator)

    def record(self, accelerator: Accelerator) -> tuple[str, Json]:
        """What is kept in a study of the programs on accelerators with the settings of one of its designs: a name and plain values."""
        choice = self.space.choice_of(accelerator)
        return ",".join(map(str, choice)), self.at(self.space.at(choice)).to_json()

    @classmethod
    def kept(cls, base: RestOfPrograms, space: DesignSpace, records: Mapping[str, Json]) -> RestBySettings:
        """From what was kept (`record`), by name."""
        known = {
            tuple(int(n) for n in name.split(",")): RestOfPrograms.from_json(one)
            for name, one in records.items()
        }
        parts = base.weights, base.operators, base.reasons, base.with_units
        return cls(*parts, space=space, find=None, known=known)

    def without_units(self) -> RestBySettings:
        """What is known of accelerators without row functions."""
        find = self.find
        return replace(
            self,
            with_units={},
            space=self.space.without_units(),
            find=None if find is None else lambda space: find(space).without_units(),
            known={choice: one.without_units() for choice, one in self.known.items()},
        )


def _at(table: tuple[Floats, Floats], dim: Floats) -> Floats:
    """(5, ..., networks) amounts of a table on arrays of side `dim` (...,)."""
    sides, amounts = table
    return amounts[:, np.searchsorted(sides, dim).clip(0, len(sides) - 1)]
