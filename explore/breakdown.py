"""What a design costs, as one tree: program, network, group | layer | other operator (accelerator or host), members and components.

It is built once for a design, and everything that says where time and energy go is drawn from it: so parts add up to the
headline by construction, and `DesignCosts.check` says so of every tree that is made. Predicted and measured stand beside
each other. The parts of a program run one after the other, so that their cycles add up; energy adds up over parts and components.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from baco.accel.config import Accelerator
from baco.exploration.candidate import Cost, LayerCost
from baco.exploration.operators import OperatorCost
from baco.workloads.network import Task

#: What energy goes to. `host`: the host core and the cache lines that it moves; `array`: multiplications, registers and functions
#: of rows of groups and other operators, which the model does not tell apart, and in a technology with figures of switching all of
#: the array as measured; `control`: commands on their way, likewise; the others as of `LayerCost` and measurements.
COMPONENTS = (
    *("mac", "registers", "accumulator", "scratchpad", "dram", "functions", "normalisations"),
    *("array", "control", "static", "host"),
)
#: Of a layer, in the order of `LayerCost.energy_terms_pj`.
_LAYER_TERMS = ("mac", "registers", "accumulator", "scratchpad", "dram")
#: Between the names of a group's operators.
_NEXT = " > "
#: Relative difference between a headline and the sum of its parts that rounding explains.
_ROUNDING = 1e-9

EntryKind = Literal["layer", "group", "operator"]
Where = Literal["accelerator", "host"]


@dataclass(frozen=True)
class MeasuredPart:
    """What was measured of an entry, all its runs, weights included.

    Attributes:
        runs: how many.
        cycles: of all of them.
        energy_pj: likewise; None where only the energy of the whole program was measured.
        assumed: as predicted, since layers alone were measured.
    """

    runs: float
    cycles: float
    energy_pj: float | None = None
    assumed: bool = False

    def plus(self, other: MeasuredPart) -> MeasuredPart:
        """Both together."""
        known = None
        if self.energy_pj is not None and other.energy_pj is not None:
            known = self.energy_pj + other.energy_pj
        return MeasuredPart(
            self.runs + other.runs, self.cycles + other.cycles, known, self.assumed and other.assumed
        )


@dataclass(frozen=True)
class CostEntry:
    """What runs as one unit of a program.

    Attributes:
        network: that it is part of.
        name: of a layer its task's, of a group the names of its operators.
        kind: `layer`, `group`, or another `operator`.
        function: what it computes: the kind of a layer's problem, `group`, or what computes the operator.
        on: what runs it.
        runs: predicted, by itself in the workload, weights included; 0 for a layer that runs in groups alone, and for what only a
            measured program has.
        cycles: of one run.
        energy_terms_pj: of one run, by `COMPONENTS`; what is left out is 0.
        operators: names of the operators of the network that it stands for: nodes of a layer's task, members of a group.
        macs: multiply-accumulates of one run that its layers ask for.
        dram_words: that one run moves through main memory for the accelerator.
        task: place of a layer among the tasks.
        layer: a layer's cost in detail.
        groups: names of the groups that a layer runs in besides.
        measured: None where nothing was.
    """

    network: str
    name: str
    kind: EntryKind
    function: str
    on: Where
    runs: float
    cycles: float
    energy_terms_pj: Mapping[str, float]
    operators: tuple[str, ...] = ()
    macs: float = 0.0
    dram_words: float = 0.0
    task: int | None = None
    layer: LayerCost | None = field(default=None, repr=False)
    groups: tuple[str, ...] = ()
    measured: MeasuredPart | None = None

    @property
    def key(self) -> tuple[str, str, bool]:
        """Network, name, and whether it is a group: a group of one operator is called as the layer that it replaces."""
        return self.network, self.name, self.kind == "group"

    @property
    def energy_pj(self) -> float:
        """Of one run."""
        return math.fsum(self.energy_terms_pj.values())

    @property
    def total_cycles(self) -> float:
        """Of all runs, predicted."""
        return self.runs * self.cycles

    @property
    def total_pj(self) -> float:
        """Of all runs, predicted."""
        return self.runs * self.energy_pj


class _Sums:
    """Predicted sums over entries."""

    if TYPE_CHECKING:

        @property
        def entries(self) -> tuple[CostEntry, ...]:
            """That are summed up."""

    @property
    def cycles(self) -> float:
        """Predicted."""
        return math.fsum(one.total_cycles for one in self.entries)

    @property
    def energy_pj(self) -> float:
        """Predicted."""
        return math.fsum(one.total_pj for one in self.entries)


@dataclass(frozen=True)
class NetworkCosts(_Sums):
    """One network of a workload, weight included.

    Attributes:
        name: of the network.
        entries: what its program consists of.
    """

    name: str
    entries: tuple[CostEntry, ...]

    @property
    def measured_cycles(self) -> float | None:
        """None where nothing was measured."""
        found = [one.measured.cycles for one in self.entries if one.measured is not None]
        return math.fsum(found) if found else None


@dataclass(frozen=True)
class DesignCosts(_Sums):
    """All that a workload's programs cost on one design.

    Attributes:
        layers: one a task, in their order.
        beside: groups of operators, and operators that are no layers.
        whole: whether predicted costs are of whole programs; else what is `beside` is apart from them.
        measured: cost of the whole, where it was measured.
        measured_terms_pj: its energy by `COMPONENTS`, where whole programs were measured.
        measured_networks: cycles and energy (pJ) of each network, weights included, where they were measured.
    """

    layers: tuple[CostEntry, ...]
    beside: tuple[CostEntry, ...]
    whole: bool
    measured: Cost | None = None
    measured_terms_pj: Mapping[str, float] = field(default_factory=dict)
    measured_networks: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether the headline is of whole programs, measured ones or predicted ones."""
        return self.whole or bool(self.measured_terms_pj)

    @property
    def layer_costs(self) -> tuple[LayerCost, ...]:
        """Of one run of each task."""
        return tuple(one.layer for one in self.layers if one.layer is not None)

    @property
    def entries(self) -> tuple[CostEntry, ...]:
        """What the predicted headline consists of."""
        found = (*self.layers, *self.beside) if self.whole else self.layers
        return tuple(one for one in found if one.runs > 0)

    @property
    def measured_entries(self) -> tuple[CostEntry, ...]:
        """What the measured headline consists of."""
        return tuple(one for one in (*self.layers, *self.beside) if one.measured is not None)

    @property
    def networks(self) -> tuple[NetworkCosts, ...]:
        """In the order of their first entries, predicted ones and measured ones."""
        counted = set(map(id, (*self.entries, *self.measured_entries)))
        found: dict[str, list[CostEntry]] = {}
        for one in (*self.layers, *self.beside):
            if id(one) in counted:
                found.setdefault(one.network, []).append(one)
        return tuple(NetworkCosts(name, tuple(ones)) for name, ones in found.items())

    @property
    def energy_terms_pj(self) -> dict[str, float]:
        """Predicted energy by component, what is nothing left out."""
        found = {
            name: math.fsum(one.runs * one.energy_terms_pj.get(name, 0.0) for one in self.entries)
            for name in COMPONENTS
        }
        return {name: value for name, value in found.items() if value}

    def host_cycles(self, network: str | None = None) -> float:
        """Of the host core, of one network or all: measured if it was, else predicted, whether part of the headline or apart."""
        ones = [
            entry
            for entry in (*self.layers, *self.beside)
            if entry.on == "host" and network in (None, entry.network)
        ]
        if self.measured is not None and self.complete:
            return math.fsum(entry.measured.cycles for entry in ones if entry.measured is not None)
        return math.fsum(entry.total_cycles for entry in ones)

    def totals(self, network: str) -> tuple[float, float]:
        """Cycles and energy (pJ) of a network, weight included: measured if it was, else predicted."""
        if self.measured is not None:
            return self.measured_networks.get(network, (0.0, 0.0))
        found = {one.name: (one.cycles, one.energy_pj) for one in self.networks}
        return found.get(network, (0.0, 0.0))

    def check(self, predicted: Cost | None) -> None:
        """Raise ValueError (a programming error) where parts do not add up to a headline, rounding aside.

        Args:
            predicted: the headline of the search; None where there is none to compare with.
        """
        sums = []
        if predicted is not None:
            sums += [
                ("predicted cycles", self.cycles, predicted.latency_cycles),
                ("predicted energy", self.energy_pj, predicted.energy_pj),
            ]
        sums.append(("predicted energy by component", sum(self.energy_terms_pj.values()), self.energy_pj))
        if self.measured is not None:
            each = self.measured_networks.values()
            sums += [
                (
                    "measured cycles of networks",
                    math.fsum(cycles for cycles, _ in each),
                    self.measured.latency_cycles,
                ),
                (
                    "measured energy of networks",
                    math.fsum(energy for _, energy in each),
                    self.measured.energy_pj,
                ),
            ]
            found = [entry.measured for entry in self.measured_entries if entry.measured is not None]
            sums.append(
                (
                    "measured cycles",
                    math.fsum(measured.cycles for measured in found),
                    self.measured.latency_cycles,
                )
            )
            if self.measured_terms_pj:
                terms = math.fsum(self.measured_terms_pj.values())
                sums.append(("measured energy by component", terms, self.measured.energy_pj))
            elif found and all(measured.energy_pj is not None for measured in found):
                energy = math.fsum(measured.energy_pj or 0.0 for measured in found)
                sums.append(("measured energy", energy, self.measured.energy_pj))
        for what, parts, whole in sums:
            if not math.isclose(parts, whole, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
                raise ValueError(f"{what}: parts add up to {parts!r}, the whole is {whole!r}")

    def with_measured(
        self,
        cost: Cost,
        parts: Mapping[tuple[str, str, bool], MeasuredPart],
        networks: Mapping[str, tuple[float, float]],
        more: Iterable[CostEntry] = (),
        terms_pj: Mapping[str, float] | None = None,
    ) -> DesignCosts:
        """The same with what was measured.

        Args:
            cost: of the whole.
            parts: by `CostEntry.key`.
            networks: cycles and energy (pJ) of each.
            more: entries that only the measured program has.
            terms_pj: energy of the whole by component.
        """

        left = dict(parts)

        def joined(ones: Iterable[CostEntry]) -> tuple[CostEntry, ...]:
            # an operator that takes several kinds of steps has as many entries: what was measured of it stands in the first
            return tuple(replace(one, measured=left.pop(one.key, None)) for one in ones)

        return replace(
            self,
            layers=joined(self.layers),
            beside=(*joined(self.beside), *more),
            measured=cost,
            measured_terms_pj=dict(terms_pj or {}),
            measured_networks=networks,
        )


def layer_entries(
    tasks: Sequence[Task], layers: Sequence[LayerCost], runs: Sequence[float], beside: Sequence[CostEntry]
) -> tuple[CostEntry, ...]:
    """The layers of a design, one a task.

    Args:
        layers: cost of one run of each.
        runs: how often each runs by itself, weights included.
        beside: what runs besides, for the groups that layers are in.
    """
    inside: dict[tuple[str, str], list[str]] = {}
    for one in beside:
        if one.kind == "group":
            for name in one.operators:
                inside.setdefault((one.network, name), []).append(one.name)
    found = []
    for place, (task, cost, times) in enumerate(zip(tasks, layers, runs, strict=True)):
        terms = dict(zip(_LAYER_TERMS, cost.energy_terms_pj, strict=True))
        groups = [group for name in task.operators for group in inside.get((task.network, name), ())]
        found.append(
            CostEntry(
                task.network,
                task.name,
                "layer",
                task.problem.kind,
                "accelerator",
                times,
                cost.latency_cycles,
                {**terms, "static": cost.static_pj},
                task.operators,
                task.problem.macs,
                cost.accesses[3],
                place,
                cost,
                tuple(dict.fromkeys(groups)),
            )
        )
    return tuple(found)


def operator_entries(
    network: str,
    weight: float,
    operators: Sequence[OperatorCost],
    accelerator: Accelerator,
    macs: Mapping[str, float],
) -> tuple[CostEntry, ...]:
    """What a network's program does beside its layers on an accelerator.

    Args:
        weight: of the network.
        macs: multiply-accumulates of one run of its layers, by the names of their operators.
    """
    table = accelerator.energy_law
    accumulator = table.accumulator_pj(float(accelerator.accumulator_kib), float(accelerator.dim))
    scratchpad = table.scratchpad_pj(float(accelerator.scratchpad_kib), float(accelerator.dim))
    found = []
    for one in operators:
        group = one.function == "group"
        members = tuple(one.operator.split(_NEXT)) if group else (one.operator,)
        moved = table.dram_pj * one.cost.dram_bytes
        left = one.cost.fixed_pj - moved
        if abs(left) <= _ROUNDING * moved:
            moved, left = one.cost.fixed_pj, 0.0
        terms = {
            "array" if one.on_accelerator else "host": left,
            "dram": moved,
            "accumulator": float(accumulator) * one.cost.accumulator_words,
            "scratchpad": float(scratchpad) * one.cost.scratchpad_words,
            "static": accelerator.static_pj(one.cost.cycles),
        }
        found.append(
            CostEntry(
                network,
                one.operator,
                "group" if group else "operator",
                one.function,
                "accelerator" if one.on_accelerator else "host",
                one.runs * weight,
                one.cost.cycles / one.runs,
                {name: value / one.runs for name, value in terms.items() if value},
                members,
                sum(macs.get(name, 0.0) for name in members),
                one.cost.dram_bytes / one.runs,
            )
        )
    return tuple(found)


def plain_name(operator: str) -> str:
    """Of the operators of repeated blocks, the name of the first."""
    return operator.partition("[")[0]
