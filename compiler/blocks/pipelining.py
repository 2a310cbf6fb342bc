"""Which loads of a function can run ahead of the loop that uses them (ALCOP: identification of buffers for pipelining).

Three rules. The block is filled by an asynchronous copy: loads bring it as it lies in an array that nothing stores to. The copy
is in the body of a sequential loop whose rounds are known before it begins, and where a later round's block lies follows from
loop numbers alone. The hardware orders loads and products on the block by itself: no fence is needed around them.

Loops directly inside each other are one loop with as many rounds as their product ("inner-pipeline fusion"): the last rounds of
an inner loop load for the first ones of its next run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from baco.compiler.blocks.analysis import Analysis, enclosing_loops
from baco.compiler.blocks.memory import InMemory
from baco.compiler.blocks.reading import BlockLoad, Factor, block_load
from baco.compiler.blocks.scalars import is_scalar_operation
from baco.compiler.blocks.scratchpad import layout_of, loadable, needs_fences
from baco.compiler.ir.known import known

#: Attribute of an operation whose result is a block: places that the block has, of which all but one are loaded ahead.
STAGES = "baco.stages"


@dataclass(frozen=True)
class PipelinedLoad:
    """A block that can be loaded some rounds before it is used.

    Attributes:
        value: the block.
        load: where it lies.
        nest: loops directly inside each other, outermost first, the block in the body of the last: as many as are known,
            before the first begins, to run so and so often.
        slices: for each of them, the operations of its body that the place of the block follows from.
        stages: places of the block in the scratchpad; 1 until the pass `linalg-pipeline` says more.
    """

    value: SSAValue
    load: BlockLoad
    nest: tuple[scf.ForOp, ...]
    slices: tuple[tuple[Operation, ...], ...]
    stages: int = 1


def pipelined_loads(function: func.FuncOp, analysis: Analysis, dim: int) -> list[PipelinedLoad]:
    """The blocks of a function that can be, in program order, with the stages that they are marked with.

    Args:
        dim: side of the array.
    """
    found = []
    for op in function.walk():
        for value in op.results:
            if value in analysis.factors:
                one = _pipelined(value, op, analysis, dim)
                if one is not None:
                    found.append(replace(one, stages=_marked(op)))
    return found


def mark(load: PipelinedLoad, stages: int) -> None:
    """Give a block as many places."""
    assert isinstance(load.value.owner, Operation)
    load.value.owner.attributes[STAGES] = IntegerAttr(stages, i64)


def _marked(op: Operation) -> int:
    stages = op.attributes.get(STAGES)
    return max(1, stages.value.data) if isinstance(stages, IntegerAttr) else 1


def _pipelined(value: SSAValue, op: Operation, analysis: Analysis, dim: int) -> PipelinedLoad | None:
    load = block_load(value)
    if load is None or load.source in analysis.stored or not load.zero_padded_high:
        return None
    if not all(isinstance(stride, int) for stride in load.strides):
        return None
    if not _unfenced(load, analysis.rights.get(value, ()), dim):
        return None
    nest: list[scf.ForOp] = []
    inner: Operation = op
    for loop in enclosing_loops(op):
        step = known(loop.step)
        if inner.parent_op() is not loop or step is None or step < 1:
            break
        nest.insert(0, loop)
        inner = loop
    while nest:
        slices = _slices(load, nest)
        if slices is not None and all(_outside(one, nest[0]) for loop in nest for one in (loop.lb, loop.ub)):
            return PipelinedLoad(value, load, tuple(nest), slices)
        nest.pop(0)
    return None


def _unfenced(load: BlockLoad, rights: Sequence[Factor], dim: int) -> bool:
    # sizes that the program computes are no numbers yet: what matters is which are known
    block = InMemory(0, load.strides, load.sizes, load.low, load.shape, load.bits)
    return loadable(block) and not needs_fences(rights, block, layout_of(block, dim), dim)


def _outside(value: SSAValue, loop: scf.ForOp) -> bool:
    """The number is there before the loop begins."""
    if known(value) is not None:
        return True
    owner = value.owner
    op = owner.parent_op() if isinstance(owner, Block) else owner
    return op is not None and not loop.is_ancestor(op)


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
