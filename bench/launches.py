"""Cycles on the RTL of programs whose results are known, and of kernels' launches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from baco.accel.config import Accelerator
from baco.common.errors import BacoError
from baco.compiler.codegen.program import Program
from baco.compiler.language.compile import buffer_names, compile_launch
from baco.compiler.language.jit import BoundLaunch
from baco.sim.engines.program import run_program


def program_cycles(
    program: Program, inputs: Mapping[str, Any], name: str, expected: Any, timing: str | None = None
) -> int:
    """Of a program on the RTL. Raises BacoError where its output `name` is not what is expected."""
    outputs, result = run_program(program, dict(inputs), "rtl", timing=timing)
    if result.exit_code or not np.array_equal(outputs[name].reshape(-1), expected.reshape(-1)):
        raise BacoError(f"{program.name}: the result is not what numpy's integers give")
    assert result.cycles is not None
    return result.cycles


def launch_cycles(
    launch: BoundLaunch, accelerator: Accelerator, name: str, expected: Any, *, blockwise: bool = False
) -> int:
    """Of a kernel's launch, by the accelerator's timing; `blockwise` as its text says, block by block. Raises as `program_cycles`,
    and InfeasibleError for blocks that do not fit."""
    memories = {
        buffer: np.ascontiguousarray(one.memory)
        for buffer, one in zip(buffer_names(launch), launch.buffers, strict=True)
    }
    program = compile_launch(launch, accelerator, blockwise=blockwise)
    return program_cycles(program, memories, name, expected, accelerator.timing)
