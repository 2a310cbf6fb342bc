"""What a search produces: candidates, their costs, and the record of a batch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from baco.accel.config import Accelerator
from baco.common.shown import shown_html
from baco.common.units import si
from baco.compiler.mapping.nest import Mapping
from baco.exploration._json import Amount, Count
from baco.exploration.space.constraints import Constraints
from baco.exploration.space.points import named_units
from baco.workloads.network import Task

Source = Literal["predicted", "measured"]
CodeStyle = Literal["macro", "explicit", "packed"]
CostModelName = Literal["instruction", "reference"]
#: Resources that bound a latency in the reference model.
REFERENCE_RESOURCES = ("compute", "accumulator", "scratchpad", "dram")


@dataclass(frozen=True)
class Cost:
    """Cost of a workload (or of one layer) on one accelerator.

    Attributes:
        latency_cycles, energy_pj: totals, repetition counts and weights included.
        area_mm2: of the accelerator.
        source: where the numbers come from.
        clock_mhz: where designs of several clocks are compared, that of this one: then delays are nanoseconds, which are cycles
            of 1000 MHz. None where cycles are compared.
    """

    latency_cycles: Amount
    energy_pj: Amount
    area_mm2: Amount
    source: Source = "predicted"
    clock_mhz: Amount | None = None

    @property
    def delay(self) -> float:
        """Latency by which designs are compared: cycles, or with a `clock_mhz` nanoseconds."""
        return self.latency_cycles if self.clock_mhz is None else self.latency_cycles * (1e3 / self.clock_mhz)

    @property
    def energy_uj(self) -> float:
        """Energy in microjoules."""
        return self.energy_pj * 1e-6

    @property
    def edp(self) -> float:
        """Energy-delay product in microjoule-cycles, the unit of published results (see `delay` and `edp_unit`)."""
        return self.energy_uj * self.delay

    @property
    def edp_unit(self) -> str:
        """What `edp` is in."""
        return "µJ·cycles" if self.clock_mhz is None else "µJ·ns"

    def edp_js(self, clock_mhz: float) -> float:
        """Energy-delay product in joule-seconds at the accelerator's clock: what designs of different clocks are compared by."""
        return self.energy_pj * 1e-12 * self.latency_cycles / (clock_mhz * 1e6)

    @property
    def edap(self) -> float:
        """Energy-delay-area product, microjoule-cycle-mm2."""
        return self.edp * self.area_mm2


@dataclass(frozen=True)
class LayerCost:
    """Predicted cost of *one run* of one task under its mapping (multiply by `task.count` for the total).

    Attributes:
        accesses: words read and written at levels 0 (registers), 1 (accumulator), 2 (scratchpad), 3 (DRAM).
        latency_terms: cycles that each of `resources` needs.
        energy_pj: `energy_terms_pj` and `static_pj`.
        energy_terms_pj: (mac, registers, accumulator, scratchpad, dram).
        static_pj: leakage and clock of the whole accelerator while it lasts (`Accelerator.static_pj`).
        macs: multiply-accumulates executed, padding included.
        resources: what may bound the latency. With the reference model the latency is the largest of the terms; the
            instruction-aware model has resources of its own, and a latency that can be above all terms, since transfers
            hide behind computation only in part.
        style: code that runs the mapping, where the cost model tells: `macro`, `explicit`, or `packed`, which is explicit
            code that runs several groups at once.
    """

    latency_cycles: float
    energy_pj: float
    macs: float
    accesses: tuple[float, float, float, float]
    latency_terms: tuple[float, ...]
    energy_terms_pj: tuple[float, float, float, float, float]
    resources: tuple[str, ...] = REFERENCE_RESOURCES
    style: CodeStyle | None = None
    static_pj: float = 0.0

    @property
    def bottleneck(self) -> str:
        """The resource that needs most cycles."""
        terms = self.latency_terms
        return self.resources[max(range(len(terms)), key=lambda i: terms[i])]


@dataclass(frozen=True)
class Candidate:
    """A design point found by a search.

    Attributes:
        accelerator: the hardware.
        tasks: the workload's unique problems with counts, as searched.
        mappings: one for each task, same order.
        cost: of the whole workload.
        samples: problem-mapping evaluations spent when it was found.
        objective: the scalar that the search minimised for it (lower is better).
        front: True while no other candidate of the study dominates it.
    """

    accelerator: Accelerator
    tasks: tuple[Task, ...]
    mappings: tuple[Mapping, ...]
    cost: Cost
    samples: int
    objective: float
    front: bool = True

    def __repr__(self) -> str:
        # hundreds of mappings and operators would bury what people look for
        machine, cost = self.accelerator, self.cost
        return (
            f"<Candidate {machine.dim}x{machine.dim}, {machine.scratchpad_kib}+{machine.accumulator_kib} KiB, "
            f"{machine.dataflow}{named_units(machine)}: {cost.latency_cycles:,.0f} cycles, {cost.energy_uj:.4g} µJ, EDP {cost.edp:.4g} {cost.edp_unit}, "
            f"{cost.area_mm2:.3g} mm², {cost.source}>"
        )

    def _repr_html_(self) -> str:
        machine, cost = self.accelerator, self.cost
        facts = (
            ("accelerator", f"{machine.dim}×{machine.dim} {machine.dataflow}{named_units(machine)}"),
            ("scratchpad", f"{machine.scratchpad_kib:,} KiB"),
            ("accumulator", f"{machine.accumulator_kib:,} KiB"),
            (
                "latency",
                f"{si(cost.latency_cycles, 'cycles')}, {si(cost.latency_cycles / (machine.clock_mhz * 1e6), 's')}",
            ),
            ("energy", si(cost.energy_uj * 1e-6, "J")),
            (
                "energy-delay product",
                f"{cost.edp:.4g} {cost.edp_unit}, {si(cost.edp_js(machine.clock_mhz), 'J·s')}",
            ),
            ("area", f"{cost.area_mm2:.3g} mm²"),
            ("costs are", cost.source),
            ("found after", f"{self.samples:,} samples"),
        )
        rows = [(f"{task.count:g}×", task.problem, ", ".join(task.operators[:3])) for task in self.tasks]
        return shown_html("Candidate", facts, ("runs", "layer", "operators"), rows)


@dataclass(frozen=True)
class BatchSummary:
    """One line of a study's history, written when a batch of evaluations is done.

    Attributes:
        batch: number of the batch, from 0.
        evaluations: problem-mapping evaluations spent so far (a gradient counts as three).
        seconds: search time so far, interruptions excluded.
        best_objective: of the best feasible candidate so far; None before the first.
        phase: what the searcher was doing, for progress display (e.g. `descent`, `local search`).
        details: searcher-specific numbers.
    """

    batch: Count
    evaluations: Count
    seconds: Amount
    best_objective: float | None
    phase: str
    details: dict[str, float] = field(default_factory=dict)


class Beside(Protocol):
    """What programs do beside their tasks: the part of `baco.exploration.rest.RestOfPrograms` that is asked for here."""

    def counts(self, tasks: Sequence[Task], accelerator: Accelerator) -> list[float]: ...

    def total(self, network: str, accelerator: Accelerator) -> tuple[float, float]: ...


def network_costs(
    tasks: Sequence[Task],
    runs: Iterable[tuple[float, float]],
    accelerator: Accelerator,
    rest: Beside | None,
) -> dict[str, Cost]:
    """Cost of one run of each network of a design, by name.

    Args:
        runs: cycles and energy (pJ) of one run of each task.
        rest: what programs do beside the tasks; None where only the tasks count.
    """
    parts: dict[str, list[tuple[float, float]]] = {}
    counts = rest.counts(tasks, accelerator) if rest is not None else [task.count for task in tasks]
    for task, count, (cycles, energy) in zip(tasks, counts, runs, strict=True):
        times = count / task.weight
        parts.setdefault(task.network, []).append((times * cycles, times * energy))
    found = {}
    for name, own in parts.items():
        if rest is not None:
            own.append(rest.total(name, accelerator))
        cycles, energy = (math.fsum(column) for column in zip(*own, strict=True))
        found[name] = Cost(cycles, energy, accelerator.area_mm2)
    return found


def broken_bounds(
    constraints: Constraints,
    cost: Cost,
    tasks: Sequence[Task],
    runs: Iterable[tuple[float, float]],
    accelerator: Accelerator,
    rest: Beside | None,
) -> dict[str, tuple[float, float]]:
    """Of every constraint that a design breaks, (value reached, bound), by path.

    Args:
        cost: of the whole workload.
        runs, rest: as of `network_costs`; asked for where single networks are bounded.
    """
    networks = network_costs(tasks, runs, accelerator, rest) if constraints.networks else None
    values = constraints.values(
        cost,
        sram_kib=accelerator.scratchpad_kib + accelerator.accumulator_kib,
        clock_mhz=accelerator.clock_mhz,
        networks=networks,
    )
    return {path: (value, bound) for path, (value, bound) in values.items() if value > bound}
