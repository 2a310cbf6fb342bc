"""A rough count of the accelerator commands of a block program, to compare block sizes without compiling them."""

from __future__ import annotations

from math import ceil, prod

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp
from xdsl.ir import Block

from accel.config import MOVE_BYTES
from compiler.dialects.baco import GRID, DotOp, LoadOp, StoreOp, shape_of
from compiler.ir.known import known

#: What it costs to run an iteration of any loop on the host, in commands.
LOOP_OVERHEAD = 4


def estimated_commands(module: ModuleOp, dim: int) -> float:
    """Commands (and host work, in units of commands) of all programs of the kernel in `module`.

    A product of blocks takes a PRELOAD and a COMPUTE for each tile of dim x dim x dim, a load or store one command
    for `dim` rows of as many columns as one command moves. Loops whose bounds are known only at run time count once.
    """
    total = 0.0
    for operation in module.walk():
        if isinstance(operation, func.FuncOp) and GRID in operation.attributes:
            grid = operation.attributes[GRID]
            assert isinstance(grid, DenseArrayBase)
            programs = prod(int(count) for count in grid.get_values())
            total += programs * (LOOP_OVERHEAD + _block(operation.body.block, dim))
    return total


def _block(block: Block, dim: int) -> float:
    total = 0.0
    for operation in block.ops:
        if isinstance(operation, scf.ForOp):
            total += _trips(operation) * (LOOP_OVERHEAD + _block(operation.body.block, dim))
        elif isinstance(operation, DotOp):
            (rows, depth), (_, columns) = shape_of(operation.a.type), shape_of(operation.b.type)
            total += 2 * ceil(rows / dim) * ceil(depth / dim) * ceil(columns / dim)
        elif isinstance(operation, LoadOp):
            total += _moves(shape_of(operation.pointer.type), dim, max(1, MOVE_BYTES // dim))
        elif isinstance(operation, StoreOp):
            total += _moves(shape_of(operation.pointer.type), dim, 1)
    return total


def _moves(shape: tuple[int, ...], dim: int, blocks: int) -> int:
    rows, columns = prod(shape[:-1]), shape[-1] if shape else 1
    return ceil(rows / dim) * ceil(columns / (dim * blocks))


def _trips(loop: scf.ForOp) -> int:
    bounds = [known(value) for value in (loop.lb, loop.ub, loop.step)]
    start, end, step = bounds
    if start is None or end is None or step is None:
        return 1
    return len(range(start, end, step))
