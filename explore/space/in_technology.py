"""A space in another technology: areas and energies are that technology's, and its clock is one that all its accelerators close at."""

from __future__ import annotations

import dataclasses

from baco.accel.config import Accelerator
from baco.accel.technology import technology
from baco.exploration.space.design_space import DesignSpace
from baco.exploration.space.reference_machine import reference_machine

#: Of the energy table: what silicon takes that does nothing, which a technology says, assumes, or has none of.
IDLE = ("leakage_mw_per_mm2", "clock_pj_per_mm2")


def in_technology(space: DesignSpace, name: str) -> DesignSpace:
    """The space in a technology.

    Its clock is what the largest side closes at there, with all units that it may have (main memory keeps its GB/s), or 1 GHz where clocks are assumed;
    clocks are no longer searched, since the supplies that others need are known of published machines alone. A bound on
    area stays as many times the area of Gemmini's default machine. Raises InputError for an unknown technology.
    """
    silicon, base = technology(name), space.base
    if name == base.technology:
        return space
    # without what dividing by clocks has added in the last digits
    memory_gb_s = float(f"{base.memory_gb_s:.12g}")
    idle = dict.fromkeys(IDLE, 0.0) | silicon.idle
    changes: dict[str, object] = {"technology": name, "energy": base.energy.model_dump() | idle}
    if silicon.period is None:
        # clocks are assumed there: that of all accelerators
        mhz = Accelerator.model_fields["clock_mhz"].default
        changes |= {"clock_mhz": mhz, "dram_bytes_per_cycle": memory_gb_s * 1e3 / mhz}
    moved = dataclasses.replace(
        space,
        base=base.replace(**changes).in_technology((), max(space.dim), units=space.search_units),
        settings=tuple(one for one in space.settings if one[0] != "clock_mhz" or silicon.period is None),
        doc=None,
    )
    moved = dataclasses.replace(moved, clocks=moved.different_clocks)
    bound = space.constraints.area_mm2
    if bound is None:
        return moved
    ratio = reference_machine(moved).area_mm2 / reference_machine(space).area_mm2
    scaled = space.constraints.model_copy(update={"area_mm2": float(f"{bound * ratio:.4g}")})
    return dataclasses.replace(moved, constraints=scaled)
