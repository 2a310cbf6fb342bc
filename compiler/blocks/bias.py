"""Bias and residual blocks that are added to a sum of products become what the sum begins with.

A load that overwrites the accumulator needs no order against products in flight, one that adds to it does (instruction
set, 6.5 c).
"""

from __future__ import annotations

from xdsl.dialects import bufferization, func, memref, scf, tensor
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from baco.compiler.blocks.analysis import AccumulatorSum, Analysis, used_once_beside
from baco.compiler.blocks.reading import filled_with
from baco.compiler.blocks.scalars import is_scalar_operation

_MOVABLE = (
    GenericOp,
    FillOp,
    memref.AllocOp,
    memref.CopyOp,
    memref.ReinterpretCastOp,
    bufferization.ToTensorOp,
    tensor.CastOp,
    tensor.EmptyOp,
    tensor.PadOp,
)


def begin_sums_with_addends(function: func.FuncOp, analysis: Analysis) -> bool:
    """Rewrite a structured function in place; whether anything changed."""
    changed = False
    for op in list(function.walk()):
        if not isinstance(op, GenericOp) or len(op.results) != 1:
            continue
        found = analysis.sum_of(op.results[0])
        start = None if found is None else _start(found, op, analysis)
        if found is None or start is None:
            continue
        consumer, position = start
        slice_ = _slice(found.addend_value, consumer)
        if slice_ is None:
            continue
        block = consumer.parent
        assert block is not None
        for one in slice_:
            one.detach()  # type: ignore[no-untyped-call]
            block.insert_op_before(one, consumer)
        consumer.operands[position] = found.addend_value
        op.results[0].replace_all_uses_with(found.total)
        Rewriter.erase_op(op)
        changed = True
    return changed


def _start(found: AccumulatorSum, op: Operation, analysis: Analysis) -> tuple[Operation, int] | None:
    """Where the sum begins with zeros: the operation beside `op`, and its operand."""
    value = found.total
    while used_once_beside(value) and isinstance(value.owner, Operation):
        owner = value.owner
        if owner.parent is not op.parent:
            return None
        if owner in analysis.products:
            position = len(owner.operands) - 1
        elif isinstance(owner, scf.ForOp):
            number = next(n for n, result in enumerate(owner.results) if result is value)
            if not analysis.carried(owner, number):
                return None
            position = 3 + number
        else:
            inner = analysis.sum_of(value)
            if inner is None:
                return None
            value = inner.total
            continue
        value = owner.operands[position]
        if filled_with(value) == 0:
            return owner, position
    return None


def _slice(value: SSAValue, before: Operation) -> list[Operation] | None:
    """Operations behind `before`, in its block, that the value comes from, in order; None if they cannot move."""
    block = before.parent
    assert block is not None
    later: list[Operation] = []
    op = before.next_op
    while op is not None:
        later.append(op)
        op = op.next_op
    needed: set[Operation] = set()
    pending: list[SSAValue] = [value]
    while pending:
        owner = pending.pop().owner
        if owner is before:
            return None
        if not isinstance(owner, Operation) or owner in needed or owner not in later:
            continue
        if not isinstance(owner, _MOVABLE) and not is_scalar_operation(owner):
            return None
        needed.add(owner)
        pending += owner.operands
        for inner in owner.walk():
            pending += inner.operands
        if isinstance(owner, memref.AllocOp):
            for use in owner.memref.uses:
                if isinstance(use.operation, memref.CopyOp):
                    needed.add(use.operation)
                    pending += use.operation.operands
    return [op for op in later if op in needed]
