"""Arithmetic on blocks of offsets that gives offsets, or a window, again."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Operation

from baco.compiler.blocks.elementwise import scalar
from baco.compiler.blocks.indexing import IndexBuilder, Number
from baco.compiler.blocks.pointers import Meaning, StridedOffsets, window_where
from baco.compiler.dialects import baco


def offset_arithmetic(op: Operation, operands: list[StridedOffsets], build: IndexBuilder) -> Meaning | None:
    """What an operation on offsets gives, as far as the analysis can say; None if it is data."""
    if isinstance(op, baco.CmpOp):
        return window_where(op.predicate.data, operands[0], operands[1], build) if operands[0].shape else None
    if not isinstance(baco.element_type(op.results[0].type), IndexType) or not operands:
        return None
    if isinstance(op, baco.AddOp | arith.AddiOp):
        return operands[0].plus(operands[1], build)
    if isinstance(op, baco.SubOp | arith.SubiOp):
        return operands[0].minus(operands[1], build)
    if isinstance(op, baco.MulOp | arith.MuliOp):
        return operands[0].times(operands[1], build)
    if not all(operand.uniform for operand in operands):
        return None
    bases = [operand.base for operand in operands]
    first = operands[0]
    if isinstance(op, baco.MinimumOp | arith.MinSIOp):
        base: Number = build.min(bases[0], bases[1])
    elif isinstance(op, baco.MaximumOp | arith.MaxSIOp):
        base = build.max(bases[0], bases[1])
    elif isinstance(op, baco.FloorDivOp | arith.FloorDivSIOp) and isinstance(bases[1], int) and bases[1] > 0:
        base = build.floor_div(bases[0], bases[1])
    elif op.dialect_name() == "baco":
        made = scalar(op, [build.value(base) for base in bases], build.insert)
        if made is None:
            return None
        base = build.number(made)
    elif op.dialect_name() == "arith" and len(op.results) == 1:
        copy = type(op).create(
            operands=[build.value(base) for base in bases],
            result_types=[IndexType()],
            properties=op.properties,
            attributes=op.attributes,
        )
        base = build.number(build.insert(copy))
    else:
        return None
    return StridedOffsets(base, first.strides, first.shape)
