"""What the host core executes, counted from the compiled program without simulating any hardware.

How many instructions the loops that issue commands take is known only once they are compiled. The functional model runs
the program with an accelerator that takes no time: the instructions and commands executed are the same as on the RTL, for
nothing in a program depends on time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from baco.accel.config import Accelerator
from baco.bench.sets.dataset import Dataset
from baco.compiler.codegen.layer_program import layer_program
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.reference import draw_tensors
from baco.compiler.schedules.schedule import Schedule
from baco.exploration.cost.learned.protocol import Floats
from baco.sim.engines.program import run_program

__all__ = ["PROGRAM_TERMS", "counts_of_dataset", "counts_of_programs"]

#: Commands that the accelerator's units execute, macros unrolled, and the data set's columns of them.
_UNROLLED = {
    "loads": ("MVIN", "MVIN2", "MVIN3"),
    "stores": ("MVOUT", "MVOUT_SPAD"),
    "preloads": ("PRELOAD",),
    "computes": ("COMPUTE_PRELOADED", "COMPUTE_ACCUMULATED"),
    "configurations": ("CONFIG_EX", "CONFIG_LD", "CONFIG_ST"),
}
#: What these commands move and compute (`baco.sim.job.Simulation.activity`); the data set's columns have the same names.
_ACTIVITY = (
    "array_macs",
    "accumulator_read_words",
    "accumulator_write_words",
    "scratchpad_read_bytes",
    "scratchpad_write_bytes",
)
#: Names that the counts have among the terms of an analytical model.
PROGRAM_TERMS = (
    "host program instructions",
    "host program commands",
    *(f"program {name}" for name in _UNROLLED),
    *(f"program {name.replace('_', ' ')}" for name in _ACTIVITY),
)


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
        counts.append(
            [
                result.instructions,
                result.counters["host_rocc_commands"],
                *(sum(result.unrolled.get(one, 0) for one in names) for names in _UNROLLED.values()),
                *(result.activity[name] for name in _ACTIVITY),
            ]
        )
    columns = np.array(counts, dtype=np.float64).reshape(-1, len(PROGRAM_TERMS)).T
    return dict(zip(PROGRAM_TERMS, columns, strict=True))


def counts_of_dataset(dataset: Dataset) -> dict[str, Floats]:
    """The same counts of measured programs, from the data set, which keeps them."""
    columns = ("host_instructions", "host_commands", *_UNROLLED, *_ACTIVITY)
    return {term: dataset.numbers(column) for term, column in zip(PROGRAM_TERMS, columns, strict=True)}
