"""A few plain mappings of every task, so that no accelerator is without one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from baco.accel.dataflows import DATAFLOWS
from baco.common.portable import Ints
from baco.exploration.cost.genome import (
    FLOWS,
    K_AXIS,
    MACRO_ORDER_INDEX,
    ORDER,
    ROW_AXIS,
    Genomes,
    tighten,
    trivial,
)
from baco.exploration.search.tilings import in_macro_form

if TYPE_CHECKING:
    from baco.exploration.cost.predicted import InstructionModel


def plain_mappings(
    bounds: Ints, sides: Ints, flows: Sequence[int], macros: InstructionModel | None
) -> tuple[Ints, Genomes]:
    """The array filled, one tile of pixels a pass, everything else at DRAM: tasks and rows for some array sides.

    Args:
        bounds: (tasks, 7) of the problems.
        sides: of arrays, which have a mapping of every task each.
        flows: dataflows to choose from.
        macros: the model that tells macros from explicit code, for which there are the same in macro form; None if none does.
    """
    n = len(bounds)
    tasks, rows = [], []
    for side in sides.tolist():
        for flow in flows:
            for tile in (1, 16):
                genomes = trivial(n, flow)
                row_axis = ROW_AXIS[flow]
                genomes[:, 1] = np.minimum(bounds[:, row_axis], side)
                genomes[:, 2] = np.minimum(bounds[:, K_AXIS], side)
                if not DATAFLOWS[FLOWS[flow]].sums_stay:
                    genomes[:, 3 + 4] = np.minimum(bounds[:, 4], tile)
                genomes[:, ORDER] = 2
                if macros is not None:  # floating point is added up channels first
                    genomes[macros.real, ORDER] = MACRO_ORDER_INDEX[0]
                tighten(genomes, bounds)
                tasks.append(np.arange(n))
                rows.append(genomes)
    task, mappings = np.concatenate(tasks), np.concatenate(rows)
    if macros is not None:
        dim = np.repeat(sides, len(flows) * 2 * n)
        able = macros.can(task, dim)
        shaped = in_macro_form(mappings[able], bounds[task[able]], dim[able])
        task, mappings = np.concatenate([task, task[able]]), np.concatenate([mappings, shaped])
    return task, mappings
