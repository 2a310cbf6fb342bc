"""Random genomes for tests, drawn without the product's own moves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from baco.exploration.cost.genome import (
    COLUMNS,
    DRAM_ORDERS,
    FLOW,
    K_AXIS,
    ONCE,
    ORDER,
    ROW_AXIS,
    ROWS,
    T1,
    T2,
    T3,
    Genomes,
    trivial,
)


def random_rows(bounds: NDArray[np.int64], dim: int, rng: np.random.Generator) -> Genomes:
    """One row for each of `bounds` (B, 7): factors at all levels, the outermost covering the bound, padded; tensors held
    once at random."""
    size = len(bounds)
    rows = trivial(size)
    rows[:, FLOW] = rng.integers(0, 2, size)
    rows[:, ORDER] = rng.integers(0, len(DRAM_ORDERS), size)
    rows[:, ROWS] = rng.integers(1, dim + 1, size)
    rows[:, COLUMNS] = rng.integers(1, dim + 1, size)
    spatial = np.ones_like(bounds)
    spatial[np.arange(size), ROW_AXIS[rows[:, FLOW]]] = rows[:, ROWS]
    spatial[:, K_AXIS] *= rows[:, COLUMNS]
    left = -(-bounds // spatial)
    for level in (T1, T2):
        factor = np.where(rng.random(bounds.shape) < 0.5, 1, rng.integers(1, left + 1))
        rows[:, level] = factor
        left = -(-left // factor)
    rows[:, T3] = left
    rows[:, ONCE] = rng.integers(0, 8, size)
    return rows
