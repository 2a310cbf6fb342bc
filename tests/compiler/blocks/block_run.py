"""Compiles launches of the block language by the block lowering and runs them, for tests."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from baco.accel.config import Accelerator
from baco.compiler.codegen.block_program import lower_block_program, requirement_of, with_workspace
from baco.compiler.codegen.buffer import Buffer
from baco.compiler.codegen.program import build_program
from baco.compiler.dialects.baco import GRID
from baco.compiler.language.jit import stored
from baco.sim.engines.program import run_program
from tests.compiler.product_kernels import Case


def machine(dim: int, **changes: Any) -> Accelerator:
    """An accelerator with enough memory for the kernels of the tests."""
    base = Accelerator(dim=dim, scratchpad_kib=64, accumulator_kib=32)
    return base.replace(**changes) if changes else base


def entry_of(module: ModuleOp) -> str:
    """The kernel's function."""
    return next(
        op.sym_name.data for op in module.ops if isinstance(op, func.FuncOp) and GRID in op.attributes
    )


def execute(
    case: Case,
    accelerator: Accelerator,
    engine: str = "functional",
    stages: int | None = None,
    *,
    blockwise: bool = True,
) -> tuple[dict[str, int], Any]:
    """Run a case and compare every array with what it must hold; the requirement and the run's result.

    `blockwise`: products too are done block by block, and not by the layer compiler's code.
    """
    launch = case.launcher.bind(*case.arguments)
    module = launch.module()
    entry = entry_of(module)
    written = set(stored(module))
    buffers = [
        Buffer(
            one.names[0],
            (one.size,),
            str(one.memory.dtype),
            "inout" if i in written else "input",
            one.memory.copy(),
        )
        for i, one in enumerate(launch.buffers)
    ]
    lower_block_program(module, accelerator, stages=stages, blockwise=blockwise)
    requirement = requirement_of(module, entry, accelerator)
    program = build_program(module, entry, with_workspace(module, entry, buffers), accelerator)
    outputs, result = run_program(program, engine=engine)
    assert result.exit_code == 0, case.name
    for index, one in enumerate(launch.buffers):
        if index in written:
            one.memory[:] = outputs[one.names[0]]
    case.compare()
    return requirement, result
