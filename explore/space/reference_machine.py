"""The machine to compare with: Gemmini's default array and memories, in the technology of a space."""

from __future__ import annotations

import dataclasses

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.exploration.space.constraints import Constraints
from baco.exploration.space.design_space import DesignSpace
from baco.exploration.space.points import with_units

_PRESET = "gemmini-default"


def reference_machine(space: DesignSpace) -> Accelerator:
    """Gemmini's default array and memories in the technology of a space: its clock, DRAM, DMA and energy table. It has no
    row functions. In a space of floating point it computes that, weight-stationary."""
    preset = load_accelerator(_PRESET)
    return with_units(space.base, False).replace(
        name=_PRESET,
        dim=preset.dim,
        dataflow=preset.dataflow if space.base.input_format == "integer" else space.base.dataflow,
        scratchpad_kib=preset.scratchpad_kib,
        scratchpad_banks=preset.scratchpad_banks,
        accumulator_kib=preset.accumulator_kib,
        accumulator_banks=preset.accumulator_banks,
    )


def reference_space(space: DesignSpace) -> DesignSpace:
    """The space of which the reference machine is the only accelerator: a search there finds mappings alone."""
    machine = reference_machine(space)
    return dataclasses.replace(
        space.without_units(),
        name=f"{_PRESET} only",
        base=machine,
        dim=(machine.dim,),
        scratchpad_kib=(machine.scratchpad_kib,),
        accumulator_kib=(machine.accumulator_kib,),
        constraints=Constraints(),
    )
