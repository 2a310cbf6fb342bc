"""Hardware points as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from baco.common.portable import Floats

__all__ = ["Hardware"]


@dataclass(frozen=True)
class Hardware:
    """Hardware points as arrays of shape (H,): array side, KiB, KiB, and which have row functions where that is searched
    (`DesignSpace.area_of`)."""

    dim: Floats
    accumulator_kib: Floats
    scratchpad_kib: Floats
    units: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.dim)

    def take(self, index: NDArray[np.int64]) -> Hardware:
        """The points at `index`."""
        return Hardware(
            self.dim[index], self.accumulator_kib[index], self.scratchpad_kib[index], self.units[index]
        )

    def row(self, i: int) -> tuple[float, float, float]:
        """The sizes of one point."""
        return float(self.dim[i]), float(self.accumulator_kib[i]), float(self.scratchpad_kib[i])

    @classmethod
    def of(cls, points: Sequence[tuple[float, float, float]], units: bool = False) -> Hardware:
        """From rows of sizes, all with row functions or all without."""
        table = np.array(points, dtype=np.float64).reshape(-1, 3)
        dim, accumulator, scratchpad = (column.copy() for column in table.T)
        return cls(dim, accumulator, scratchpad, np.full(len(table), units))
