"""Cycles of a set's programs by the timed model of the accelerator: compiled from mappings, nothing measured or fitted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.sets.dataset import Dataset
from compiler.codegen.layer_program import layer_program
from compiler.layers.reference import draw_tensors
from explore.cost.learned.protocol import Floats
from sim.engines.program import run_program

__all__ = ["timed_cycles"]


def timed_cycles(dataset: Dataset, progress: Callable[[str], None] | None = None) -> Floats:
    """Cycles (B,) of each row's layer, from its first command to the end of its work.

    Some tenths of a second a row. Raises InfeasibleError for an accelerator that the timed model does not cover.
    """
    cycles = []
    rows = zip(dataset.layers, dataset.schedules, dataset.accelerators, strict=True)
    for number, (layer, schedule, accelerator) in enumerate(rows, 1):
        program = layer_program(layer, schedule, accelerator, draw_tensors(layer, 0))
        _, result = run_program(program, engine="timed")
        first, last = (
            result.counters[f"accelerator_{name}_cycle"] for name in ("first_command", "last_work")
        )
        cycles.append(last + 1 - first)
        if progress:
            progress(f"{number} of {len(dataset)}: {dataset.rows[number - 1].layer}")
    return np.array(cycles, dtype=np.float64)
