"""What `baco compile` and `baco run` are asked to compile, as a module with its buffers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from baco.api.arrays import filled_buffers
from baco.api.layers import schedule_for
from baco.api.unit import Unit, layer_unit
from baco.cli.compile_request import Request, described_buffer
from baco.cli.layer_input import layer_of
from baco.common.errors import InputError, only_with

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from baco.compiler.codegen.buffer import Buffer

__all__ = ["check_request", "prepare"]


def prepare(request: Request) -> Unit:
    """The unit that the command line describes. Raises InputError, and what the compiler's parts raise."""
    check_request(request)
    if request.source is None:
        return _layer(request)
    if kernel_name(request.source) is not None:
        from baco.cli.kernel_input import kernel_unit

        file, _, name = request.source.rpartition(":")
        return kernel_unit(request, Path(file), name)
    return _text(request, Path(request.source))


def check_request(request: Request) -> None:
    """Raises InputError for what does not go together, before anything is read."""
    source, layer = request.source, request.layer
    if (source is None) != layer.given:
        raise InputError(
            "name one thing to compile: a file, or a layer by --gemm or --conv",
            hint="see 'baco compile --help'",
        )
    kernel = source is not None and kernel_name(source) is not None
    if source is not None and source.endswith(".py"):
        raise InputError("name the kernel as well", hint=f"{source}:FUNCTION")
    only_with("a kernel, FILE.py:FUNCTION", {"--grid": None if kernel else request.grid})
    if source is None or kernel:
        only_with("text of the IR, FILE.mlir", {"--from": request.level, "--entry": request.entry})
    if source is None:
        only_with("text of the IR or a kernel", {"--arg": request.arguments})
    else:
        only_with("a layer, --gemm or --conv", layer.given_options())


def kernel_name(source: str) -> str | None:
    """The kernel that `FILE.py:FUNCTION` names; None for anything else."""
    file, colon, name = source.rpartition(":")
    return name if colon and file.endswith(".py") else None


# -------------------------------------------------------------------- layers


def _layer(request: Request) -> Unit:
    options, accelerator = request.layer, request.accelerator
    layer = layer_of(options)
    schedule = schedule_for(
        layer,
        accelerator,
        style=options.style,
        mapping=options.mapping,
        baseline=options.baseline,
    )
    return layer_unit(layer, schedule, accelerator, seed=request.seed, compare=request.compare)


# -------------------------------------------------------------------- text of the IR


def _text(request: Request, file: Path) -> Unit:
    from baco.cli.ir_input import read_module
    from baco.compiler.dialects.context import all_dialects
    from baco.compiler.ir.text import check_level, level_of

    module = read_module(file, all_dialects(), request.level)
    level = request.level or level_of(module)
    check_level(module, level)
    entry = request.entry or _only_function(module)
    buffers: tuple[Buffer, ...] | None = None
    if request.arguments:
        described = [described_buffer(text) for text in request.arguments]
        buffers = tuple(one for one in filled_buffers(described, request.seed) if one is not None)
    return Unit(entry, level, module, entry, buffers)


def _only_function(module: ModuleOp) -> str:
    """The function to call when none is named: the only one with a body that is not private."""
    from xdsl.dialects import func, llvm

    names = []
    for op in module.body.block.ops:
        if isinstance(op, (func.FuncOp, llvm.FuncOp)) and op.body.blocks:
            hidden = op.sym_visibility is not None and op.sym_visibility.data == "private"
            if not hidden and not (isinstance(op, llvm.FuncOp) and op.linkage.linkage.data == "internal"):
                names.append(op.sym_name.data)
    if len(names) != 1:
        known = ", ".join(names) or "none"
        raise InputError(
            "name the function to begin with by --entry", hint=f"the module's functions: {known}"
        )
    return names[0]
