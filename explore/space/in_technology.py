"""A space in another technology: areas and energies are that technology's, and its clock is one that all its accelerators close at."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from baco.accel.config import Accelerator
from baco.accel.technology import technology
from baco.exploration.space.design_space import DesignSpace
from baco.exploration.space.reference_machine import reference_machine

#: Of the energy table: what silicon takes that does nothing, which a technology says or has none of.
_IDLE = {"leakage_mw_per_mm2": 0.0, "clock_pj_per_mm2": 0.0}


def in_technology(space: DesignSpace, name: str, given: Iterable[str] = ()) -> DesignSpace:
    """The space in a technology.

    Its clock is what the largest side closes at there (main memory keeps its GB/s), or what it was where clocks are assumed;
    clocks are no longer searched, since the supplies that others need are known of published machines alone. A bound on
    area stays as many times the area of Gemmini's default machine.

    Args:
        given: fields of the accelerator that were chosen for this technology: they stay.

    Raises InputError for an unknown technology, and for a clock that was chosen and that the largest side does not close at.
    """
    silicon, base = technology(name), space.base
    if name == base.technology:
        return space
    chosen, memory_gb_s = set(given), base.memory_gb_s
    changes: dict[str, object] = {"technology": name}
    if "energy" not in chosen:
        changes["energy"] = base.energy.model_dump() | _IDLE
    if silicon.period is None and "clock_mhz" not in chosen:
        # clocks are assumed there: that of all accelerators unless something is said
        mhz = Accelerator.model_fields["clock_mhz"].default
        changes |= {"clock_mhz": mhz, "dram_bytes_per_cycle": memory_gb_s * 1e3 / mhz}
    moved = dataclasses.replace(
        space,
        base=base.replace(**changes).in_technology(chosen, max(space.dim)),
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
