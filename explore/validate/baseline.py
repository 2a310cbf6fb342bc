"""The machine to compare with: Gemmini's default configuration under Gemmini's default tiling, and the same machine
under mappings that were searched for it."""

from __future__ import annotations

from collections.abc import Sequence

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.choice.choose import choose
from baco.compiler.choice.gemmini import gemmini_schedule
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.styles import check_schedule
from baco.exploration.cost.model import CostModel
from baco.exploration.reference_machine import reference_machine
from baco.exploration.space import DesignSpace
from baco.exploration.validate.design import Design, design_of_schedules
from baco.workloads.network import Task

__all__ = ["baseline_design", "baseline_schedules"]


def baseline_design(
    space: DesignSpace, tasks: Sequence[Task], layers: Sequence[Layer], model: CostModel
) -> Design:
    """The reference machine with what Gemmini's library would run on it (`baco.compiler.choice.gemmini`).

    Convolutions of one pixel are matrix products, as in the ResNet-50 that comes with Gemmini; as convolutions they would
    take up to three times as long. Layers that the library's macros cannot express run as this compiler chooses, which the
    design's name tells.
    """
    machine = reference_machine(space)
    name, schedules = baseline_schedules(layers, machine)
    return design_of_schedules(
        name, "baseline", machine, tasks, layers, schedules, model, clocks=space.clocks
    )


def baseline_schedules(layers: Sequence[Layer], machine: Accelerator) -> tuple[str, list[Schedule]]:
    """What the baseline is called, and its schedules (see `baseline_design`)."""
    schedules: list[Schedule] = []
    own = 0
    for layer in layers:
        schedule: Schedule = gemmini_schedule(layer, machine)
        try:
            check_schedule(layer, schedule, machine)
        except InfeasibleError:
            schedule, own = choose(layer, machine), own + 1
        schedules.append(schedule)
    name = f"{machine.name}, Gemmini's tiling"
    if own:
        name += f" ({own} of {len(layers)} layers, which its macros cannot express, as this compiler chooses)"
    return name, schedules
