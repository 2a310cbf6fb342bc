"""From a launch to a program: the block program, lowered, and built once for all launches that share it."""

from __future__ import annotations

from collections import OrderedDict

from baco.accel.config import Accelerator
from baco.common.errors import BacoError
from baco.compiler.codegen.block_program import lower_block_program, requirement_of, with_workspace
from baco.compiler.codegen.buffer import Buffer
from baco.compiler.codegen.program import Program, build_program
from baco.compiler.language.jit import BoundLaunch, stored
from baco.compiler.language.source import showing_line

#: Programs kept for launches that repeat, the least recently used one goes first.
_KEPT = 64
_programs: OrderedDict[tuple[str, str], Program] = OrderedDict()


def buffer_names(launch: BoundLaunch) -> list[str]:
    """Names of the launch's buffers in its program: those of the parameters where a symbol can be called so."""
    names: list[str] = []
    for index, buffer in enumerate(launch.buffers):
        name = buffer.names[0]
        usable = name.isascii() and name != "workspace"
        names.append(name if usable else f"argument_{index}")
    return names


def compile_launch(launch: BoundLaunch, accelerator: Accelerator, *, blockwise: bool = False) -> Program:
    """The program of a launch, without the contents of its arrays: these are given when it runs.

    Args:
        blockwise: do products block by block, as the text says (`baco.compiler.passes.linalg_to_instgem`).

    Raises:
        KernelError: the kernel is ill-formed.
        InfeasibleError: its blocks exceed the accelerator's memories.
        InputError: it cannot be compiled for another reason.
    """
    module = launch.module()
    names = buffer_names(launch)
    # The text of the block program says everything that the program depends on, helpers and constants included.
    key = (f"{blockwise} {','.join(names)}\n{module}", accelerator.config_hash)
    if key in _programs:
        _programs.move_to_end(key)
        return _programs[key]
    written = set(stored(module))
    buffers = [
        Buffer(name, (buffer.size,), buffer.dtype.numpy.name, "inout" if index in written else "input")
        for index, (name, buffer) in enumerate(zip(names, launch.buffers, strict=True))
    ]
    entry = launch.kernel.name
    try:
        lower_block_program(module, accelerator, blockwise=blockwise)
    except BacoError as error:
        raise showing_line(error) from None
    program = build_program(
        module,
        entry,
        with_workspace(module, entry, buffers),
        accelerator,
        requirement=requirement_of(module, entry, accelerator),
    )
    _programs[key] = program
    if len(_programs) > _KEPT:
        _programs.popitem(last=False)
    return program
