"""Accelerators as arrays, and the instruction set's rules on capacities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from baco.accel.config import Accelerator
from baco.common.portable import Bools, Ints


@dataclass(frozen=True)
class HardwarePoints:
    """Accelerators as arrays of one length, ascending by (units, dim, scratchpad, accumulator).

    `units` says which have row functions (`baco.accel.config.Features.row_functions`).
    """

    dim: Ints
    accumulator_kib: Ints
    scratchpad_kib: Ints
    area_mm2: NDArray[np.float64]
    units: Bools

    def __len__(self) -> int:
        return len(self.dim)

    @property
    def sram_kib(self) -> Ints:
        """Scratchpad plus accumulator."""
        return self.scratchpad_kib + self.accumulator_kib

    def take(self, index: Any) -> HardwarePoints:
        """The points at `index` (anything numpy indexes with)."""
        return HardwarePoints(
            self.dim[index],
            self.accumulator_kib[index],
            self.scratchpad_kib[index],
            self.area_mm2[index],
            self.units[index],
        )


def with_units(accelerator: Accelerator, units: bool) -> Accelerator:
    """The accelerator with row functions, or without."""
    if accelerator.features.row_functions == units:
        return accelerator
    return accelerator.replace(features={**accelerator.features.model_dump(), "row_functions": units})


def units_of(accelerator: Accelerator) -> str:
    """The units for non-linear functions that an accelerator has, as a space file names them."""
    return "row_functions" if accelerator.features.row_functions else "none"


def named_units(accelerator: Accelerator) -> str:
    """The units of an accelerator as the end of a list of what it has; nothing for one without any."""
    return ", row functions" if accelerator.features.row_functions else ""


def member(values: ArrayLike, choices: Ints) -> Bools:
    """Membership in an ascending array, without numpy's sorting of the (much longer) values."""
    array = np.asarray(values)
    index = np.minimum(np.searchsorted(choices, array), len(choices) - 1)
    return np.asarray(choices[index] == array)


def legal_bank(dim: ArrayLike, kib: ArrayLike, banks: int, word_bits: int) -> Bools:
    """Bank rows (KiB·8192 / (banks·dim·word bits)) are whole, a power of two and a multiple of dim.

    Source: Gemmini's configuration rules (GemminiConfigs.scala), interface specification section 3.1.
    """
    d, bits = np.asarray(dim, dtype=np.int64), np.asarray(kib, dtype=np.int64) * 8192
    row = banks * d * word_bits
    rows = bits // row
    whole = (bits % row == 0) & (rows > 0)
    return np.asarray(whole & ((rows & (rows - 1)) == 0) & (rows % d == 0) & ((d & (d - 1)) == 0))
