"""What the host core executes, counted from the compiled program without simulating any hardware.

How many instructions the loops that issue commands take is known only once they are compiled. The functional model runs
the program with an accelerator that takes no time: the instructions and commands executed are the same as on the RTL, for
nothing in a program depends on time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accel.config import Accelerator
from compiler.layer import Layer
from compiler.layer_program import layer_program
from compiler.layer_reference import draw_tensors
from compiler.schedule import Schedule
from explore.cost.learned.protocol import Floats
from explore.measure.dataset import Dataset
from sim.program import run_program

__all__ = ["PROGRAM_TERMS", "counts_of_dataset", "counts_of_programs"]

#: Names that the counts have among the terms of an analytical model.
PROGRAM_TERMS = ("host program instructions", "host program commands")


def counts_of_programs(
    layers: Sequence[Layer], schedules: Sequence[Schedule], accelerators: Sequence[Accelerator]
) -> dict[str, Floats]:
    """Counts (B,) by `PROGRAM_TERMS`, by compiling each layer and running it on the functional model.

    Some tenths of a second each. Raises InfeasibleError for a schedule that the accelerator cannot carry out.
    """
    counts = []
    for layer, schedule, accelerator in zip(layers, schedules, accelerators, strict=True):
        program = layer_program(layer, schedule, accelerator, draw_tensors(layer, 0))
        _, result = run_program(program, engine="functional")
        counts.append((result.instructions, result.counters["host_rocc_commands"]))
    columns = np.array(counts, dtype=np.float64).reshape(-1, 2).T
    return dict(zip(PROGRAM_TERMS, columns, strict=True))


def counts_of_dataset(dataset: Dataset) -> dict[str, Floats]:
    """The same counts of measured programs, from the data set, which keeps them."""
    return {
        PROGRAM_TERMS[0]: dataset.numbers("host_instructions"),
        PROGRAM_TERMS[1]: dataset.numbers("host_commands"),
    }
