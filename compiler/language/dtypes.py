"""Element types of the block language: their names, their types in the `baco` dialect and in numpy, promotion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i1, i8, i16, i32
from xdsl.ir import Attribute

from baco.accel.number_formats import FORMATS
from baco.compiler.dialects.baco import FLOAT_ELEMENTS, f32, index, ui8, value_range


@dataclass(frozen=True)
class Dtype:
    """An element type.

    Attributes:
        name: as users write it, and as numpy (of floating point: ml_dtypes) names it.
        ir: the type in the `baco` dialect.
        floating: of floating point, its name among `baco.accel.number_formats.FORMATS`; empty for integers.
    """

    name: str
    ir: Attribute
    floating: str = ""

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """What memory holds: of floating point the codes, as signed integers."""
        return np.dtype(f"int{int(FORMATS[self.floating].bits)}" if self.floating else self.name)

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

float32 = Dtype("float32", f32, "fp32")
float8_e4m3fn, float8_e5m2, bfloat16 = (
    Dtype(name, FLOAT_ELEMENTS[form], form)
    for name, form in (("float8_e4m3fn", "fp8-e4m3"), ("float8_e5m2", "fp8-e5m2"), ("bfloat16", "bf16"))
)

#: Types of array elements: those of floating point on machines whose arrays compute it.
ARRAY_DTYPES = (int8, uint8, int16, int32, float32, float8_e4m3fn, float8_e5m2, bfloat16)
BY_NAME = {dtype.name: dtype for dtype in ARRAY_DTYPES}
BY_IR = {dtype.ir: dtype for dtype in (boolean, *ARRAY_DTYPES, offset)}


def promote(left: Dtype, right: Dtype) -> Dtype:
    """The type of an operation on both, as numpy promotes; an offset makes offsets."""
    if left == right:
        return left
    if offset in (left, right):
        return offset
    return BY_NAME[np.promote_types(left.numpy, right.numpy).name]
