"""A kernel and its launch as the command line describes them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from baco.commands.compile_request import Request, Unit, buffer_of
from baco.commands.memory import check_memory
from baco.kernel_file import load_kernel
from common.errors import InputError
from compiler.codegen.buffer import Buffer
from compiler.language.forms import ceiling_quotient
from compiler.language.interpret import run_module
from compiler.language.jit import stored

__all__ = ["kernel_unit"]

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def kernel_unit(request: Request, file: Path, name: str) -> Unit:
    """The block program of a launch, with the arrays it is launched on.

    Raises InputError and KernelError, which show the line of the user's file.
    """
    kernel = load_kernel(file, name)
    values: dict[str, Any] = {}
    for index, text in enumerate(request.arguments):
        argument, equals, value = text.partition("=")
        if not equals or not argument.isidentifier():
            raise InputError(f"--arg: '{text}' is no argument", hint="write NAME=int8[64,64] or NAME=64")
        values[argument] = _value(text, value, index, request.seed)
        check_memory("the arguments", sum(getattr(one, "nbytes", 0) for one in values.values()))
    grid = _grid(request.grid or "1", values)
    launch = kernel[grid].bind(**values)
    module = launch.module()
    written = set(stored(module))
    before = [buffer.memory.copy() for buffer in launch.buffers]
    after = [buffer.memory.copy() for buffer in launch.buffers]
    if request.compare:
        run_module(module, after)
    buffers = tuple(
        Buffer(
            buffer.names[0],
            (buffer.size,),
            str(start.dtype),
            "inout" if index in written else "input",
            start,
            end if request.compare and index in written else None,
        )
        for index, (buffer, start, end) in enumerate(zip(launch.buffers, before, after, strict=True))
    )
    return Unit(name, "baco", module, _entry(module), buffers)


def _value(text: str, value: str, index: int, seed: int) -> Any:
    """A number, string, None or truth value, or an array."""
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        pass
    buffer = buffer_of(text, index, seed)
    if buffer.data is not None:
        return buffer.data.copy()
    return np.zeros(buffer.shape, buffer.dtype)


def _grid(text: str, values: dict[str, Any]) -> tuple[int, ...]:
    """The grid that `--grid` describes: integers, arguments, + - * // %, cdiv, separated by commas."""

    def number(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name) and type(values.get(node.id)) is int:
            return int(values[node.id])
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](number(node.left), number(node.right))
        if isinstance(node, ast.Call) and _is_cdiv(node.func) and len(node.args) == 2 and not node.keywords:
            dividend, divisor = map(number, node.args)
            if divisor < 1:
                raise InputError(f"--grid: cdiv by {divisor}")
            return ceiling_quotient(dividend, divisor)
        raise InputError(
            f"--grid: '{ast.unparse(node)}' is no number of programs",
            hint="use integers, integer arguments, + - * // % and cdiv(a, b)",
        )

    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return tuple(map(number, tree.elts)) if isinstance(tree, ast.Tuple) else (number(tree),)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(
            f"--grid: '{text}' cannot be read", hint="write it as '4,2' or 'cdiv(M, 32)'"
        ) from None
    except ZeroDivisionError:
        raise InputError(f"--grid: '{text}' divides by zero") from None


def _is_cdiv(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "cdiv" and isinstance(node.value, ast.Name)
    return isinstance(node, ast.Name) and node.id == "cdiv"


def _entry(module: Any) -> str:
    from xdsl.dialects.func import FuncOp

    from compiler.dialects.baco import GRID

    return next(
        op.sym_name.data for op in module.body.block.ops if isinstance(op, FuncOp) and GRID in op.attributes
    )
