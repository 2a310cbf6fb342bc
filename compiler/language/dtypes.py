"""Element types of the block language: their names, their types in the `baco` dialect and in numpy, promotion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i1, i8, i16, i32
from xdsl.ir import Attribute

from baco.compiler.dialects.baco import index, ui8, value_range


@dataclass(frozen=True)
class Dtype:
    """An element type.

    Attributes:
        name: as users write it, and as numpy names it.
        ir: the type in the `baco` dialect.
    """

    name: str
    ir: Attribute

    @property
    def numpy(self) -> np.dtype[np.generic]:
        return np.dtype(self.name)

    @property
    def range(self) -> tuple[int, int]:
        """Least and greatest value."""
        return value_range(self.ir)

    def __str__(self) -> str:
        return self.name


boolean = Dtype("bool", i1)
int8 = Dtype("int8", i8)
uint8 = Dtype("uint8", ui8)
int16 = Dtype("int16", i16)
int32 = Dtype("int32", i32)
#: Offsets and program ids; never stored.
offset = Dtype("int64", index)

#: Types of array elements.
ARRAY_DTYPES = (int8, uint8, int16, int32)
BY_NAME = {dtype.name: dtype for dtype in ARRAY_DTYPES}
BY_IR = {dtype.ir: dtype for dtype in (boolean, *ARRAY_DTYPES, offset)}


def promote(left: Dtype, right: Dtype) -> Dtype:
    """The type of an operation on both, as numpy promotes; an offset makes offsets."""
    if left == right:
        return left
    if offset in (left, right):
        return offset
    return BY_NAME[np.promote_types(left.numpy, right.numpy).name]
