"""Cycles of a set's programs by the timed model of the accelerator: compiled from mappings, nothing measured or fitted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from baco.bench.sets.dataset import Dataset
from baco.common.errors import BacoError
from baco.exploration.cost.learned.protocol import Floats
from baco.exploration.measure.layer import measure_layer

__all__ = ["timed_cycles"]


def timed_cycles(dataset: Dataset, progress: Callable[[str], None] | None = None) -> Floats:
    """Cycles (B,) of each row's layer, from its first command to the end of its work.

    Some tenths of a second a row. Raises BacoError for an accelerator that the timed model does not cover, or a wrong result.
    """
    cycles = []
    rows = zip(dataset.layers, dataset.schedules, dataset.accelerators, strict=True)
    for number, (layer, schedule, accelerator) in enumerate(rows, 1):
        found = measure_layer(layer, schedule, accelerator, engine="timed")
        if found.cycles is None:
            raise BacoError(f"row {number}: {found.reason}")
        cycles.append(found.cycles)
        if progress:
            progress(f"{number} of {len(dataset)}: {dataset.rows[number - 1].layer}")
    return np.array(cycles, dtype=np.float64)
