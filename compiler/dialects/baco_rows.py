"""Operations of the `baco` dialect that see more than one element at a time: reductions, softmax."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import (
    I64,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from baco.compiler.dialects.baco_types import STORED_TYPES, block_type, check_value, element_type, shape_of
from baco.compiler.row_functions import MOST_COLUMNS, exponentials, softmax_numerator

#: Kinds of reductions.
REDUCTIONS = ("sum", "max", "min")


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """The sum, greatest or least of the elements along `axis`, which the result does not have; a scalar of a block with one
    dimension. Sums are int32 and wrap; the others keep the type.
    """

    name = "baco.reduce"

    kind = prop_def(StringAttr)
    block = operand_def(TensorType)
    axis = prop_def(IntegerAttr[I64])
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$kind $block `along` $axis attr-dict `:` type($block) `to` type($result)"

    def __init__(self, kind: str, block: SSAValue | Operation, axis: int) -> None:
        block = SSAValue.get(block)
        super().__init__(
            operands=[block],
            result_types=[_reduced(kind, block.type, axis)],
            properties={"kind": StringAttr(kind), "axis": IntegerAttr(axis, i64)},
        )

    def verify_(self) -> None:
        if self.kind.data not in REDUCTIONS:
            raise VerifyException(f"no reduction '{self.kind.data}', expected one of {', '.join(REDUCTIONS)}")
        check_value(self.block.type, STORED_TYPES, "the operand")
        axis = self.axis.value.data
        if not 0 <= axis < len(shape_of(self.block.type)):
            raise VerifyException(f"axis {axis} does not exist in {self.block.type}")
        expected = _reduced(self.kind.data, self.block.type, axis)
        if self.result.type != expected:
            raise VerifyException(f"this reduction gives {expected}, not {self.result.type}")


def _reduced(kind: str, operand: Attribute, axis: int) -> Attribute:
    shape = shape_of(operand)
    return block_type((*shape[:axis], *shape[axis + 1 :]), i32 if kind == "sum" else element_type(operand))


@irdl_op_definition
class SoftmaxOp(IRDLOperation):
    """The softmax of each row of an i8 block, in the integers of `baco.compiler.row_functions.softmax`.

    Elements count steps of `scale`, those of the result steps of `out_scale`. Without a mask all elements of a row take part,
    else those where it is true; the others become 0.
    """

    name = "baco.softmax"

    value = operand_def(TensorType)
    mask = opt_operand_def(TensorType)
    scale = prop_def(FloatAttr[Float64Type])
    out_scale = prop_def(FloatAttr[Float64Type])
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$value (`mask` $mask^ `:` type($mask))? `by` $scale `into` $out_scale attr-dict `:` type($value) `to` type($result)"

    def __init__(
        self, value: SSAValue | Operation, scale: float, out_scale: float, mask: SSAValue | None = None
    ) -> None:
        value = SSAValue.get(value)
        super().__init__(
            operands=[value, mask],
            result_types=[value.type],
            properties={
                "scale": FloatAttr(scale, Float64Type()),
                "out_scale": FloatAttr(out_scale, Float64Type()),
            },
        )

    @property
    def table(self) -> np.ndarray:
        """int32 [256]: `exponentials` of the scale."""
        return exponentials(self.scale.value.data)

    @property
    def numerator(self) -> int:
        """`softmax_numerator` of the result's scale."""
        return softmax_numerator(self.out_scale.value.data)

    def verify_(self) -> None:
        check_value(self.value.type, (i8,), "the operand")
        if self.result.type != self.value.type:
            raise VerifyException(f"the softmax of {self.value.type} cannot give {self.result.type}")
        if self.mask is not None and self.mask.type != block_type(shape_of(self.value.type), i1):
            raise VerifyException(
                f"the mask of {self.value.type} must have its shape and type i1, got {self.mask.type}"
            )
        if shape_of(self.value.type)[-1] > MOST_COLUMNS:
            raise VerifyException(f"a row of a softmax has at most {MOST_COLUMNS} elements")
        for one in (self.scale.value.data, self.out_scale.value.data):
            if not (np.isfinite(one) and one > 0):
                raise VerifyException("scales of a softmax are positive numbers")
