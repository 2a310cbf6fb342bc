"""A kernel and its launch as the command line describes them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from baco.api.unit import Unit, launch_unit
from baco.cli.compile_request import Request, described_buffer, filled_buffers
from baco.cli.kernel_file import load_kernel
from common.errors import InputError
from compiler.codegen.buffer import Buffer
from compiler.language.forms import ceiling_quotient

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
    values = _arguments(request.arguments, request.seed)
    grid = _grid(request.grid or "1", values)
    return launch_unit(kernel[grid].bind(**values), compare=request.compare)


def _arguments(texts: Sequence[str], seed: int) -> dict[str, Any]:
    """Values by name: numbers, strings, None, truth values and arrays."""
    values: dict[str, Any] = {}
    described: list[Buffer | None] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"--arg: '{text}' is no argument", hint="write NAME=int8[64,64] or NAME=64")
        if name in values:
            raise InputError(f"--arg: '{name}' is given twice")
        try:
            values[name] = ast.literal_eval(value)
            described.append(None)
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            described.append(described_buffer(text))
            values[name] = None
    for buffer in filled_buffers(described, seed):
        if buffer is not None:
            # one from a file may be read-only
            values[buffer.name] = np.zeros(buffer.shape, buffer.dtype) if buffer.data is None else buffer.data
    return values


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
