"""`baco-to-linalg`: block programs to structured operations on tensors and strided accesses to memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import builtin, func, memref
from xdsl.dialects.bufferization import ToTensorOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination
from xdsl.transforms.loop_invariant_code_motion import LoopInvariantCodeMotionPass

from baco.compiler.blocks.to_linalg import kernel_to_linalg
from baco.compiler.dialects.baco import GRID


@dataclass(frozen=True)
class BacoToLinalg(ModulePass):
    """Converts every function with a `baco.grid` (see `baco.compiler.blocks.to_linalg`); other functions stay.

    Arithmetic that is dead, repeated or the same in every round of a loop is cleared away afterwards.
    """

    name: ClassVar[str] = "baco-to-linalg"

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        kernels = [one for one in op.ops if isinstance(one, func.FuncOp) and GRID in one.attributes]
        for kernel in kernels:
            converted = kernel_to_linalg(kernel)
            op.body.block.insert_op_before(converted, kernel)
            op.body.block.erase_op(kernel)
        if kernels:
            _remove_dead_loads(op)
            DeadCodeElimination().apply(ctx, op)
            LoopInvariantCodeMotionPass().apply(ctx, op)
            CommonSubexpressionElimination().apply(ctx, op)
            op.verify()


def _remove_dead_loads(module: builtin.ModuleOp) -> None:
    """Loads of blocks that nothing uses: the tensor, the buffer and the copy into it."""
    for one in reversed(list(module.walk())):
        if isinstance(one, ToTensorOp) and not any(one.tensor.uses):
            buffer = one.memref.owner
            Rewriter.erase_op(one)
            if isinstance(buffer, memref.AllocOp):
                for use in list(buffer.memref.uses):
                    Rewriter.erase_op(use.operation)
                Rewriter.erase_op(buffer)
