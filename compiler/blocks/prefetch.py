"""Which factors can be loaded a round ahead: where they lie next is known from the numbers of loops alone."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func, scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from compiler.blocks.analysis import Analysis, enclosing_loops
from compiler.blocks.reading import BlockLoad, block_load
from compiler.blocks.scalars import is_scalar_operation
from compiler.ir.known import known

__all__ = ["Prefetch", "bounds_of_loop", "find_prefetches"]


@dataclass(frozen=True)
class Prefetch:
    """A factor that is loaded while the round before it computes.

    Attributes:
        value: the block.
        load: where it lies.
        nest: loops directly inside each other, outermost first, the block in the body of the last; their bounds are
            known and none is empty.
        slices: for each of them, the operations of its body that the place of the block follows from.
    """

    value: SSAValue
    load: BlockLoad
    nest: tuple[scf.ForOp, ...]
    slices: tuple[tuple[Operation, ...], ...]


def find_prefetches(function: func.FuncOp, analysis: Analysis) -> list[Prefetch]:
    """The factors of a function that can be, in program order, each with the largest nest that it can be with."""
    found = []
    for op in function.walk():
        for value in op.results:
            if value in analysis.factors:
                one = _prefetch(value, op, analysis)
                if one is not None:
                    found.append(one)
    return found


def bounds_of_loop(loop: scf.ForOp) -> tuple[int, int, int] | None:
    """Known first number, end and step of a loop that runs at least once."""
    lower, upper, step = map(known, (loop.lb, loop.ub, loop.step))
    if lower is None or upper is None or step is None or step < 1 or lower >= upper:
        return None
    return lower, upper, step


def _prefetch(value: SSAValue, op: Operation, analysis: Analysis) -> Prefetch | None:
    load = block_load(value)
    if load is None or load.source in analysis.stored or not load.zero_padded_high:
        return None
    if not all(isinstance(stride, int) for stride in load.strides):
        return None
    nest: list[scf.ForOp] = []
    inner: Operation = op
    for loop in enclosing_loops(op):
        if inner.parent_op() is not loop or bounds_of_loop(loop) is None:
            break
        nest.insert(0, loop)
        inner = loop
    while nest:
        slices = _slices(load, nest)
        if slices is not None:
            return Prefetch(value, load, tuple(nest), slices)
        nest.pop(0)
    return None


def _slices(load: BlockLoad, nest: list[scf.ForOp]) -> tuple[tuple[Operation, ...], ...] | None:
    """Operations in the bodies of the nest that the block's place is computed by; None if by anything else."""
    bodies: list[Block] = [loop.body.block for loop in nest]
    needed: set[Operation] = set()
    sizes = (load.offset, *load.sizes, *load.low)
    pending = [one for one in sizes if isinstance(one, SSAValue)]
    while pending:
        value = pending.pop()
        if isinstance(value, BlockArgument):
            if value.owner in bodies and value.index > 0:
                return None  # carried
            continue
        op = value.owner
        assert isinstance(op, Operation)
        if op in needed or not nest[0].is_ancestor(op):
            continue
        if op.parent not in bodies or not is_scalar_operation(op):
            return None
        needed.add(op)
        pending += op.operands
    return tuple(tuple(op for op in body.ops if op in needed) for body in bodies)
