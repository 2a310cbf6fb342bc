"""Accelerators as arrays, and the instruction set's rules on capacities."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from baco.accel.config import Accelerator
from baco.common.portable import Bools, Floats, Ints


class Silicon(Protocol):
    """What area and static energy points have (`baco.exploration.space.DesignSpace`)."""

    def area_of(self, dim: Any, accumulator_kib: Any, scratchpad_kib: Any, units: Any = None) -> Any: ...

    def static_pj_of(
        self, cycles: Any, dim: Any, accumulator_kib: Any, scratchpad_kib: Any, units: Any = None
    ) -> Any: ...


@dataclass(frozen=True)
class HardwarePoints:
    """Accelerators of a space as arrays of one shape, usually (H,) (`baco.exploration.space.DesignSpace.points`).

    Attributes:
        dim, accumulator_kib, scratchpad_kib: their sizes, whole numbers or not.
        units: which have row functions (`baco.accel.config.Features.row_functions`), where that is searched.
        space: that they are points of, in it or not.
    """

    dim: Any
    accumulator_kib: Any
    scratchpad_kib: Any
    units: Any
    space: Silicon = field(repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.dim)

    @property
    def sizes(self) -> tuple[Any, Any, Any]:
        """Array side, accumulator KiB and scratchpad KiB, an array each."""
        return self.dim, self.accumulator_kib, self.scratchpad_kib

    @property
    def columns(self) -> tuple[Any, Any, Any, Any]:
        """`sizes` and `units`, as functions of a space take them."""
        return *self.sizes, self.units

    @property
    def table(self) -> Floats:
        """`sizes` side by side, (H, 3)."""
        return np.stack(self.sizes, -1).astype(np.float64)

    @cached_property
    def area_mm2(self) -> Floats:
        """Of each."""
        return np.asarray(self.space.area_of(*self.columns), dtype=np.float64)

    @cached_property
    def static_pj(self) -> Floats:
        """Static energy of each in a cycle."""
        return np.broadcast_to(self.space.static_pj_of(1.0, *self.columns), np.shape(self.dim))

    @property
    def sram_kib(self) -> Any:
        """Scratchpad plus accumulator."""
        return self.scratchpad_kib + self.accumulator_kib

    def take(self, index: Any) -> HardwarePoints:
        """The points at `index` (anything numpy indexes with)."""
        dim, accumulator, scratchpad, units = (column[index] for column in self.columns)
        return HardwarePoints(dim, accumulator, scratchpad, units, self.space)

    @cached_property
    def each(self) -> HardwarePoints:
        """The same with one more axis, of length 1, to broadcast with what there is of each point."""
        return self.take((..., None))

    def row(self, i: int) -> tuple[float, float, float]:
        """The sizes of one point."""
        return float(self.dim[i]), float(self.accumulator_kib[i]), float(self.scratchpad_kib[i])

    def floats(self) -> HardwarePoints:
        """The same with sizes as floating-point numbers."""
        dim, accumulator, scratchpad = (np.asarray(size, dtype=np.float64) for size in self.sizes)
        return replace(self, dim=dim, accumulator_kib=accumulator, scratchpad_kib=scratchpad)


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
