"""Constraints on a design point, and by how much a cost violates them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Protocol

from pydantic import BaseModel, ConfigDict, Field

from baco.accel.config import Accelerator
from baco.common.errors import InputError, Location, did_you_mean
from baco.exploration.candidate import Cost
from baco.workloads.network import Task

Bound = Annotated[float, Field(gt=0, allow_inf_nan=False)]

#: Unit of each constraint, for messages.
UNITS = {
    "area_mm2": "mm²",
    "sram_kib": "KiB",
    "power_mw": "mW",
    "latency_cycles": "cycles",
    "energy_uj": "µJ",
}


class Beside(Protocol):
    """What programs do beside their tasks: the part of `baco.exploration.rest.RestOfPrograms` that is asked for here."""

    def counts(self, tasks: Sequence[Task], accelerator: Accelerator) -> list[float]: ...

    def total(self, network: str, accelerator: Accelerator) -> tuple[float, float]: ...


class NetworkConstraints(BaseModel):
    """Upper bounds on one run of one network."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    latency_cycles: Bound | None = Field(None, description="Longest latency of one run, in cycles.")
    energy_uj: Bound | None = Field(None, description="Most energy of one run, in microjoules.")


class Constraints(BaseModel):
    """Upper bounds; what is absent is not bounded. The totals are over the workload with its weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    area_mm2: Bound | None = Field(None, description="Largest area of the accelerator, in mm².")
    sram_kib: Bound | None = Field(None, description="Most scratchpad plus accumulator, in KiB.")
    power_mw: Bound | None = Field(None, description="Highest average power at the configured clock, in mW.")
    latency_cycles: Bound | None = Field(None, description="Longest latency of the workload, in cycles.")
    energy_uj: Bound | None = Field(None, description="Most energy of the workload, in microjoules.")
    networks: dict[str, NetworkConstraints] = Field(
        default_factory=dict, description="Bounds on single networks, by the name of the network."
    )

    @property
    def hardware_only(self) -> dict[str, float]:
        """The bounds that depend on the accelerator alone (area and SRAM), by name."""
        bounds = {"area_mm2": self.area_mm2, "sram_kib": self.sram_kib}
        return {name: bound for name, bound in bounds.items() if bound is not None}

    @property
    def any_on_mappings(self) -> bool:
        """True when some bound depends on the mappings, so that hardware alone does not decide."""
        own = (self.power_mw, self.latency_cycles, self.energy_uj)
        return any(bound is not None for bound in own) or bool(self.networks)

    def values(
        self, cost: Cost, *, sram_kib: float, clock_mhz: float, networks: Mapping[str, Cost] | None = None
    ) -> dict[str, tuple[float, float]]:
        """Of every bound that is set, (value reached, bound), by its path (`networks.resnet50.energy_uj`).

        Args:
            cost: of the whole workload.
            sram_kib: scratchpad plus accumulator.
            clock_mhz: turns energy and cycles into power.
            networks: cost of one run of each network; those absent are not judged.
        """
        reached = {
            "area_mm2": cost.area_mm2,
            "sram_kib": sram_kib,
            "power_mw": power_mw(cost, clock_mhz),
            "latency_cycles": cost.latency_cycles,
            "energy_uj": cost.energy_uj,
        }
        found = {n: (v, b) for n, v in reached.items() if (b := getattr(self, n)) is not None}
        for network, bounds in self.networks.items():
            one = (networks or {}).get(network)
            if one is None:
                continue
            for metric, value in (("latency_cycles", one.latency_cycles), ("energy_uj", one.energy_uj)):
                bound = getattr(bounds, metric)
                if bound is not None:
                    found[f"networks.{network}.{metric}"] = (value, bound)
        return found

    def violations(
        self, cost: Cost, *, sram_kib: float, clock_mhz: float, networks: Mapping[str, Cost] | None = None
    ) -> dict[str, float]:
        """Relative excess (value / bound − 1) of every bound that is broken; empty when feasible."""
        values = self.values(cost, sram_kib=sram_kib, clock_mhz=clock_mhz, networks=networks)
        return {name: value / bound - 1 for name, (value, bound) in values.items() if value > bound}

    def check_networks(self, names: Iterable[str], location: Location | None = None) -> None:
        """Raise InputError when a bound is set for a network that is not explored."""
        known = list(names)
        for name in self.networks:
            if name not in known:
                raise InputError(
                    f"a constraint is set for the network '{name}', which is not explored",
                    location=location,
                    hint=did_you_mean(name, known),
                )


def power_mw(cost: Cost, clock_mhz: float) -> float:
    """Average power: pJ per cycle × MHz is µW."""
    return cost.energy_pj / cost.latency_cycles * clock_mhz * 1e-3 if cost.latency_cycles > 0 else 0.0


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
