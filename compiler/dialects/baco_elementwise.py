"""Elementwise operations of the `baco` dialect. Users import them from `baco.compiler.dialects.baco`."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    Float32Type,
    FloatAttr,
    StringAttr,
    i1,
    i8,
    i16,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from baco.compiler.dialects.baco_types import (
    ELEMENT_TYPES,
    FLOAT_ELEMENTS,
    FLOAT_TYPES,
    block_type,
    check_value,
    element_type,
    f32,
    shape_of,
)


class BinaryOp(IRDLOperation):
    """Base of the elementwise operations on two scalars or blocks of the same type."""

    T: ClassVar = VarConstraint("T", AnyAttr())

    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($result)"

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation) -> None:
        lhs = SSAValue.get(lhs)
        super().__init__(operands=[lhs, rhs], result_types=[lhs.type])

    def verify_(self) -> None:
        check_value(self.result.type, ELEMENT_TYPES, "the result")


@irdl_op_definition
class AddOp(BinaryOp):
    """lhs + rhs."""

    name = "baco.add"


@irdl_op_definition
class SubOp(BinaryOp):
    """lhs - rhs."""

    name = "baco.sub"


@irdl_op_definition
class MulOp(BinaryOp):
    """lhs * rhs, the low half of the product."""

    name = "baco.mul"


@irdl_op_definition
class FloorDivOp(BinaryOp):
    """floor(lhs / rhs), rounded towards minus infinity as in Python; rhs is never 0."""

    name = "baco.floordiv"


@irdl_op_definition
class ModOp(BinaryOp):
    """lhs - rhs * floor(lhs / rhs): the remainder with the sign of rhs, as in Python; rhs is never 0."""

    name = "baco.mod"


@irdl_op_definition
class MaximumOp(BinaryOp):
    """The larger of both."""

    name = "baco.maximum"


@irdl_op_definition
class MinimumOp(BinaryOp):
    """The smaller of both."""

    name = "baco.minimum"


@irdl_op_definition
class AndOp(BinaryOp):
    """lhs & rhs, bit by bit; of `i1`: both."""

    name = "baco.and"


@irdl_op_definition
class OrOp(BinaryOp):
    """lhs | rhs, bit by bit; of `i1`: at least one."""

    name = "baco.or"


@irdl_op_definition
class XorOp(BinaryOp):
    """lhs ^ rhs, bit by bit; of `i1`: exactly one."""

    name = "baco.xor"


@irdl_op_definition
class ShlOp(BinaryOp):
    """lhs << rhs with 0 <= rhs < width."""

    name = "baco.shl"


@irdl_op_definition
class ShrOp(BinaryOp):
    """lhs >> rhs with 0 <= rhs < width, rounding towards minus infinity (arithmetic shift; `ui8`: logical)."""

    name = "baco.shr"


PREDICATES = ("eq", "ne", "lt", "le", "gt", "ge")


@irdl_op_definition
class CmpOp(IRDLOperation):
    """Compares elementwise, by the order of the integers that the operands stand for; gives `i1`."""

    name = "baco.cmp"

    T: ClassVar = VarConstraint("T", AnyAttr())

    predicate = prop_def(StringAttr)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$predicate $lhs `,` $rhs attr-dict `:` type($lhs) `to` type($result)"

    def __init__(self, predicate: str, lhs: SSAValue | Operation, rhs: SSAValue | Operation) -> None:
        lhs = SSAValue.get(lhs)
        super().__init__(
            operands=[lhs, rhs],
            result_types=[block_type(shape_of(lhs.type), i1)],
            properties={"predicate": StringAttr(predicate)},
        )

    def verify_(self) -> None:
        if self.predicate.data not in PREDICATES:
            raise VerifyException(
                f"no comparison '{self.predicate.data}', expected one of {', '.join(PREDICATES)}"
            )
        check_value(self.lhs.type, ELEMENT_TYPES, "the operand")
        if self.result.type != block_type(shape_of(self.lhs.type), i1):
            raise VerifyException(f"comparing {self.lhs.type} cannot give {self.result.type}")


@irdl_op_definition
class SelectOp(IRDLOperation):
    """`yes` where the condition is true, else `no`, elementwise."""

    name = "baco.select"

    T: ClassVar = VarConstraint("T", AnyAttr())

    condition = operand_def()
    yes = operand_def(T)
    no = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$condition `,` $yes `,` $no attr-dict `:` type($condition) `,` type($yes)"

    def __init__(
        self, condition: SSAValue | Operation, yes: SSAValue | Operation, no: SSAValue | Operation
    ) -> None:
        yes = SSAValue.get(yes)
        super().__init__(operands=[condition, yes, no], result_types=[yes.type])

    def verify_(self) -> None:
        check_value(self.yes.type, ELEMENT_TYPES, "the value")
        if self.condition.type != block_type(shape_of(self.yes.type), i1):
            raise VerifyException(
                f"a selection of {self.yes.type} needs a condition of its shape and type i1, "
                f"got {self.condition.type}"
            )


@irdl_op_definition
class CastOp(IRDLOperation):
    """The integer in another type: widened by its sign (`ui8`, `i1`: by zeros), narrowed by dropping high
    bits. An element of floating point as `f32`.
    """

    name = "baco.cast"

    value = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `to` type($result)"

    def __init__(self, value: SSAValue | Operation, element: Attribute) -> None:
        value = SSAValue.get(value)
        super().__init__(operands=[value], result_types=[block_type(shape_of(value.type), element)])

    def verify_(self) -> None:
        check_value(self.value.type, ELEMENT_TYPES, "the operand")
        check_value(self.result.type, ELEMENT_TYPES, "the result")
        if shape_of(self.value.type) != shape_of(self.result.type):
            raise VerifyException(
                f"a cast keeps the shape: {self.value.type} cannot become {self.result.type}"
            )
        kinds = element_type(self.value.type), element_type(self.result.type)
        if any(kind in FLOAT_TYPES for kind in kinds) and (
            kinds[0] not in FLOAT_ELEMENTS.values() or kinds[1] != f32
        ):
            raise VerifyException(
                f"elements of floating point are cast to f32, not {self.value.type} to {self.result.type}"
            )


@irdl_op_definition
class RequantizeOp(IRDLOperation):
    """i32 to i8 or i16 as the accelerator stores results (instruction set, section 10).

    int32 -> float32, to nearest even; times `scale` in float32, to nearest even; -> integer, to nearest
    even; saturated to -128 ... 127, or -32768 ... 32767. Or f32 to an element of floating point: times `scale`, a power of two, and
    rounded once, saturated.
    """

    name = "baco.requantize"

    value = operand_def()
    scale = prop_def(FloatAttr[Float32Type])
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$value `by` $scale attr-dict `:` type($value) `to` type($result)"

    def __init__(self, value: SSAValue | Operation, scale: float, element: Attribute = i8) -> None:
        value = SSAValue.get(value)
        super().__init__(
            operands=[value],
            result_types=[block_type(shape_of(value.type), element)],
            properties={"scale": FloatAttr(float(np.float32(scale)), Float32Type())},
        )

    def verify_(self) -> None:
        check_value(self.value.type, (i32, f32), "the operand")
        floats = element_type(self.value.type) == f32
        results = tuple(FLOAT_ELEMENTS.values()) if floats else (i8, i16)
        if self.result.type not in [block_type(shape_of(self.value.type), one) for one in results]:
            raise VerifyException(f"requantising {self.value.type} cannot give {self.result.type}")
        if floats and np.frexp(self.scale.value.data)[0] != 0.5:
            raise VerifyException(
                f"numbers in floating point are scaled by powers of two, not {self.scale.value.data:g}"
            )
        if not isinstance(self.scale.type, Float32Type) or not np.isfinite(self.scale.value.data):
            raise VerifyException("the scale must be a finite f32")
