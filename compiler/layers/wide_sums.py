"""Integers of 16 bits, as an array multiplies them and adds them up for networks of real numbers: in numpy, to the bit.

Sums have 32 bits and are exact: numbers are chosen so that none can leave these (`baco.compiler.network.wide_integers`), so that the
order of additions does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.input_format import InputFormat
from baco.compiler.layers.float_sums import FloatSums, float_sums
from baco.compiler.layers.reference import requantise

Array = np.ndarray


@dataclass(frozen=True)
class WideSums:
    """How an array of int16 computes; members as those of `FloatSums`.

    Attributes:
        form: of elements.
        rows: 0, since arrays of any side have the same sums.
    """

    #: Type of sums in memory, and whether elements have more than 8 bits.
    sum_type: ClassVar[Literal["int32"]] = "int32"
    wide: ClassVar[bool] = True

    form: InputFormat = "int16"
    rows: int = 0

    def __str__(self) -> str:
        return self.form

    def numbers(self, codes: Array) -> Array:
        """Elements as float64, in which products and sums are exact."""
        return codes.astype(np.float64)

    def codes(self, sums: Array, relu: bool, scale: float) -> Array:
        """int16 of int32 sums times a float32, rounded and saturated as an array does."""
        return requantise(np.maximum(sums, 0) if relu else sums, scale, 16)

    def added(self, before: Array | None, left: Array, right: Array) -> Array:
        """Sums [..., M, N], int32, with left [..., M, K] times right [..., K, N], float64, added to them. Raises OverflowError for
        a sum beyond 32 bits."""
        total = left @ right if before is None else left @ right + before
        if total.size and np.abs(total).max() >= 2**31:
            raise OverflowError("a sum is beyond 32 bits")
        return np.asarray(total, np.int32)


#: How arrays compute for networks of real numbers, where elements are not int8.
ArraySums: TypeAlias = FloatSums | WideSums


def array_sums(accelerator: Accelerator) -> ArraySums | None:
    """Of an accelerator; None where elements are int8."""
    return WideSums() if accelerator.input_format == WideSums.form else float_sums(accelerator)
