"""Elements in floating point, as an array multiplies them and adds them up (`Accelerator.input_format`): to the bit, in numpy.

Elements are codes (int8 or int16 arrays hold their bits), products float32, which is exact but for subnormal ones of bfloat16, and so are sums. A result is added up in one order, whatever
the schedule: the bias if there is one, then blocks, one for every kernel row, kernel column and `rows` channels, in this order; the
products of a block are added from 0 on one after the other in the order of channels, and their sum is added to what came before.
Every addition is rounded once, to the nearest, ties to even.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.input_format import InputFormat
from baco.accel.number_formats import FORMATS, FloatFormat
from baco.common.errors import InfeasibleError, InputError

Array = np.ndarray
_TINY = np.finfo(np.float32).tiny


@dataclass(frozen=True)
class FloatSums:
    """How an array computes.

    Attributes:
        form: of elements, none of integers.
        rows: of the array: products of a block.
    """

    #: Type of sums in memory.
    sum_type: ClassVar[Literal["float32"]] = "float32"

    form: InputFormat
    rows: int

    def __str__(self) -> str:
        return f"{self.form} for arrays of {self.rows} rows"

    @property
    def _format(self) -> FloatFormat:
        found = FORMATS[self.form]
        assert isinstance(found, FloatFormat)
        return found

    @property
    def wide(self) -> bool:
        """Whether codes have more than 8 bits, and no scales: their numbers reach as far as sums."""
        return self._format.bits > 8

    def numbers(self, codes: Array) -> Array:
        """What codes stand for, float32."""
        return self._format.numbers(codes)

    def codes(self, sums: Array, relu: bool, scale: float) -> Array:
        """Codes of float32 sums times a power of two, rounded once: saturated; where codes have 8 bits subnormal sums count as 0, and
        with `relu` all that has its sign set, but NaN, becomes 0."""
        fraction, exponent = math.frexp(scale)
        if fraction != 0.5:
            raise InputError(f"results in {self.form} are scaled by powers of two, not by {scale:g}")
        lost = (np.abs(sums) < _TINY) & (self._format.bits == 8)
        kept = np.where(lost, np.copysign(np.float32(0), sums), sums)
        if relu:
            kept = np.where(np.signbit(kept) & ~np.isnan(kept), np.float32(0), kept)
        with np.errstate(invalid="ignore"):
            scaled = np.ldexp(kept.astype(np.float64), exponent - 1)
        return self._format.codes(scaled)

    def added(self, before: Array | None, left: Array, right: Array) -> Array:
        """Sums [..., M, N], float32, with the blocks of left [..., M, K] times right [..., K, N], float32, added to them."""
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, left.shape[-1], self.rows):
                block = _products(left, right, start, min(start + self.rows, left.shape[-1]))
                before = block if before is None else before + block
        assert before is not None, "a sum has products"
        return np.where(np.isnan(before), np.float32(np.nan), before)


def _products(left: Array, right: Array, start: int, stop: int) -> Array:
    shape = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    total = np.zeros((*shape, left.shape[-2], right.shape[-1]), np.float32)
    for k in range(start, stop):
        total += left[..., k, None] * right[..., k : k + 1, :]
    return total


def float_sums(accelerator: Accelerator) -> FloatSums | None:
    """Of an accelerator; None where elements are integers."""
    return FloatSums(accelerator.input_format, accelerator.dim) if accelerator.floating else None


def check_sum_order(loops: Iterable[tuple[str, int]], what: str) -> None:
    """Raise InfeasibleError unless loops add up as this module's docstring says.

    Args:
        loops: axes ("S" kernel rows, "R" kernel columns, "C" blocks of channels) and trips, outermost first.
        what: has these loops.
    """
    order = ["SRC".index(axis) for axis, trips in loops if trips > 1]
    if order != sorted(order):
        raise InfeasibleError(
            f"{what} would add up channels before the kernel's positions are done, in another order than real numbers are to be added in",
            hint="tile channels only where a tile has one position of the kernel",
        )


def in_sum_order(
    trips: Mapping[str, Any], rank: Mapping[str, Any], tile: Mapping[str, Any], rows: Any
) -> Any:
    """Which of many tilings add up as this module's docstring says, whole blocks of channels included: what `check_sum_order` lets pass.

    Args:
        trips, rank: of the loops over tiles, by axis ("S", "R", "C"): how often they run and their places, innermost smallest.
        tile: extents of a tile.
        rows: of the array.

    All are arrays or tensors that broadcast.
    """
    runs = {axis: trips[axis] > 1.5 for axis in "SRC"}
    fine = ~(runs["C"] & (tile["C"] % rows > 0.5))
    for outer, inner in ("SR", "SC", "RC"):
        outside = (tile[outer] > 1.5) | (runs[outer] & (rank[inner] > rank[outer]))
        fine = fine & ~(runs[inner] & outside)
    return fine
