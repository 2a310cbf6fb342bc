"""The names of the block language (`import baco.language as bl`), and how launches are run: compiled, then simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from baco.compiler.language.autotune import Config, autotune, do_bench
from baco.compiler.language.dtypes import (
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float32,
    int8,
    int16,
    int32,
    uint8,
)
from baco.compiler.language.jit import BoundLaunch, jit, set_executor, use
from baco.compiler.language.names import const
from baco.compiler.language.primitives import PRIMITIVES
from baco.compiler.language.source import KernelError

if TYPE_CHECKING:
    from baco.sim.job import Simulation

advance = PRIMITIVES["advance"]
arange = PRIMITIVES["arange"]
broadcast_to = PRIMITIVES["broadcast_to"]
cast = PRIMITIVES["cast"]
cdiv = PRIMITIVES["cdiv"]
dot = PRIMITIVES["dot"]
expand_dims = PRIMITIVES["expand_dims"]
full = PRIMITIVES["full"]
load = PRIMITIVES["load"]
make_block_ptr = PRIMITIVES["make_block_ptr"]
max = PRIMITIVES["max"]
maximum = PRIMITIVES["maximum"]
min = PRIMITIVES["min"]
minimum = PRIMITIVES["minimum"]
num_programs = PRIMITIVES["num_programs"]
program_id = PRIMITIVES["program_id"]
requantise = PRIMITIVES["requantise"]
requantize = PRIMITIVES["requantize"]
softmax = PRIMITIVES["softmax"]
static_range = PRIMITIVES["static_range"]
store = PRIMITIVES["store"]
sum = PRIMITIVES["sum"]
trans = PRIMITIVES["trans"]
where = PRIMITIVES["where"]
zeros = PRIMITIVES["zeros"]


def _execute(launch: BoundLaunch) -> Simulation:
    """Compiles a launch, runs it on a simulator, and writes the results into the user's arrays."""
    from baco.api.unit import check_run
    from baco.compiler.language.compile import buffer_names, compile_launch
    from baco.sim.engines.program import run_program

    machine = launch.options.machine()
    check_run(machine, launch.options.engine)
    program = compile_launch(launch, machine)
    memories = dict(zip(buffer_names(launch), (buffer.memory for buffer in launch.buffers), strict=True))
    inputs = {name: np.ascontiguousarray(memory) for name, memory in memories.items()}
    outputs, result = run_program(program, inputs, launch.options.engine)
    if result.exit_code:
        raise KernelError(
            f"kernel `{launch.kernel.name}` ended with exit code {result.exit_code}: {result.console.strip()}"
        )
    for name, content in outputs.items():
        if name in memories:
            memories[name][:] = content
    return result


set_executor(_execute)

# without max, min and sum: `from baco.language import *` leaves Python's own alone
__all__ = [
    "Config",
    "KernelError",
    "advance",
    "arange",
    "autotune",
    "bfloat16",
    "broadcast_to",
    "cast",
    "cdiv",
    "const",
    "do_bench",
    "dot",
    "expand_dims",
    "float8_e4m3fn",
    "float8_e5m2",
    "float32",
    "full",
    "int8",
    "int16",
    "int32",
    "jit",
    "load",
    "make_block_ptr",
    "maximum",
    "minimum",
    "num_programs",
    "program_id",
    "requantise",
    "requantize",
    "softmax",
    "static_range",
    "store",
    "trans",
    "uint8",
    "use",
    "where",
    "zeros",
]
