"""Block programs as programs: from a `baco` module and its buffers to the `instgem` level and what it needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp

from baco.accel.config import Accelerator
from baco.common.errors import InputError
from baco.compiler.blocks.to_instgem import ACCUMULATOR_ROWS, SCRATCHPAD_ROWS, WORKSPACE, WORKSPACE_BEGINS
from baco.compiler.codegen.buffer import Buffer
from baco.compiler.codegen.pipeline import run_pass
from baco.compiler.dialects.context import all_dialects
from baco.compiler.passes.baco_to_linalg import BacoToLinalg
from baco.compiler.passes.linalg_to_instgem import LinalgToInstGem
from baco.compiler.passes.pipeline_loads import PipelineLoads


def lower_block_program(
    module: ModuleOp,
    accelerator: Accelerator,
    stages: int | None = None,
    *,
    blockwise: bool = False,
) -> ModuleOp:
    """Lower a module at the `baco` level, in place, to `instgem`; it is returned.

    The functions take the byte addresses of their buffers, and last that of a workspace if they need one: see
    `with_workspace`. `stages` are places of blocks that are loaded ahead (None: as the
    model says), `blockwise` as of `LinalgToInstGem`. Raises InfeasibleError for blocks that exceed a local
    memory and InputError for what cannot be compiled, with the line of the kernel.
    """
    context = all_dialects()
    for one in (BacoToLinalg(), PipelineLoads(accelerator, stages), LinalgToInstGem(accelerator, blockwise)):
        run_pass(module, one, context)
    return module


def with_workspace(module: ModuleOp, entry: str, buffers: Sequence[Buffer]) -> tuple[Buffer, ...]:
    """The buffers of an entry function at the `instgem` level, its workspace added if it needs one."""
    size = _numbers(module, entry).get(WORKSPACE, 0)
    if not size:
        return tuple(buffers)
    words = _entry(module, entry).attributes.get(WORKSPACE_BEGINS)
    begins = None
    if isinstance(words, DenseArrayBase):
        begins = np.zeros(size, np.int8)
        known = np.array(words.get_values(), np.int64).view(np.int8)
        begins[: len(known)] = known
    return (*buffers, Buffer("workspace", (size,), "int8", "workspace", begins))


def requirement_of(module: ModuleOp, entry: str, accelerator: Accelerator) -> dict[str, int]:
    """Least hardware of an entry function at the `instgem` level: array side and rows of the local memories."""
    numbers = _numbers(module, entry)
    return {
        "dim": accelerator.dim,
        "scratchpad_rows": numbers.get(SCRATCHPAD_ROWS, 0),
        "accumulator_rows": numbers.get(ACCUMULATOR_ROWS, 0),
    }


def _numbers(module: ModuleOp, entry: str) -> dict[str, int]:
    attributes = _entry(module, entry).attributes
    return {name: one.value.data for name, one in attributes.items() if isinstance(one, IntegerAttr)}


def _entry(module: ModuleOp, entry: str) -> func.FuncOp:
    for op in module.ops:
        if isinstance(op, func.FuncOp) and op.sym_name.data == entry:
            return op
    raise InputError(f"the module has no function @{entry}")
