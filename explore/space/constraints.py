"""Constraints on a design point, and by how much a cost violates them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from baco.common.errors import InputError, Location, did_you_mean

Bound = Annotated[float, Field(gt=0, allow_inf_nan=False)]

#: Unit of each constraint, for messages.
UNITS = {
    "area_mm2": "mm²",
    "sram_kib": "KiB",
    "power_mw": "mW",
    "latency_cycles": "cycles",
    "energy_uj": "µJ",
}


class Costs(Protocol):
    """What a design costs, or many: numbers, numpy arrays or torch tensors of one shape each (`baco.exploration.candidate.Cost`)."""

    @property
    def latency_cycles(self) -> Any: ...

    @property
    def energy_pj(self) -> Any: ...

    @property
    def energy_uj(self) -> Any: ...

    @property
    def area_mm2(self) -> Any: ...


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
    def on_mappings(self) -> Constraints:
        """The other bounds."""
        return self.model_copy(update=dict.fromkeys(self.hardware_only))

    @property
    def any_on_mappings(self) -> bool:
        """True when some bound depends on the mappings, so that hardware alone does not decide."""
        return bool(self.on_mappings.bounds) or bool(self.networks)

    @property
    def bounds(self) -> dict[str, float]:
        """All bounds that are set, by path (`networks.resnet50.energy_uj`)."""
        found = {name: bound for name in UNITS if (bound := getattr(self, name)) is not None}
        for network, own in self.networks.items():
            named = own.model_dump(exclude_none=True)
            found |= {f"networks.{network}.{name}": bound for name, bound in named.items()}
        return found

    def values(
        self,
        cost: Costs,
        *,
        sram_kib: Any,
        clock_mhz: float,
        networks: Mapping[str, Costs] | None = None,
    ) -> dict[str, tuple[Any, float]]:
        """Of every bound that is set, (value reached, bound), by its path: of one design, or arrays of many.

        Args:
            cost: of the whole workload.
            sram_kib: scratchpad plus accumulator.
            clock_mhz: turns energy and cycles into power.
            networks: cost of one run of each network; those absent are not judged.
        """
        reached = {
            "area_mm2": cost.area_mm2,
            "sram_kib": sram_kib,
            "latency_cycles": cost.latency_cycles,
            "energy_uj": cost.energy_uj,
        }
        if self.power_mw is not None:
            reached["power_mw"] = power_mw(cost, clock_mhz)
        for network, one in (networks or {}).items():
            for name in NetworkConstraints.model_fields:
                reached[f"networks.{network}.{name}"] = getattr(one, name)
        return {path: (reached[path], bound) for path, bound in self.bounds.items() if path in reached}

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


def power_mw(cost: Costs, clock_mhz: float) -> Any:
    """Average power: pJ per cycle × MHz is µW. Of arrays that of each; infinite where a latency is."""
    energy, latency = cost.energy_pj, cost.latency_cycles
    if isinstance(latency, np.ndarray):
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(latency), energy / latency, np.inf) * clock_mhz * 1e-3
    if isinstance(latency, float | int) and latency <= 0:
        return 0.0
    return energy / latency * clock_mhz * 1e-3
