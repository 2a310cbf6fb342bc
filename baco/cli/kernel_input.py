"""A kernel and its launch as the command line describes them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from baco.api.unit import Unit, launch_unit
from baco.cli.compile_request import Request, described_buffer, filled_buffers
from baco.cli.kernel_file import load_kernel
from common.errors import InputError
from compiler.codegen.buffer import Buffer
from compiler.language.forms import ceiling_quotient

__all__ = ["evaluated", "kernel_unit", "parsed_grid", "whole_expression"]

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
    return evaluated(parsed_grid(text), values)


def parsed_grid(text: str) -> ast.expr:
    """What `--grid` says. Raises InputError."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(
            f"--grid: '{text}' cannot be read", hint="write it as '4,2' or 'cdiv(M, 32)'"
        ) from None


def evaluated(grid: ast.expr, values: Mapping[str, Any]) -> tuple[int, ...]:
    """The numbers of a grid, or of a lambda's or function's result, whose arguments are `values`. Raises InputError."""
    try:
        axes = grid.elts if isinstance(grid, ast.Tuple) else [grid]
        return tuple(whole_expression(one, values) for one in axes)
    except ZeroDivisionError:
        raise InputError(f"--grid: '{ast.unparse(grid)}' divides by zero") from None


def whole_expression(node: ast.expr, values: Mapping[str, Any]) -> int:
    """A whole number: integers, arguments (also as `meta["M"]`), + - * // % and cdiv. Raises InputError."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    name: object = node.id if isinstance(node, ast.Name) else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        name = node.slice.value
    if isinstance(name, str) and type(values.get(name)) is int:
        return int(values[name])
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](
            whole_expression(node.left, values), whole_expression(node.right, values)
        )
    if isinstance(node, ast.Call) and _is_cdiv(node.func) and len(node.args) == 2 and not node.keywords:
        dividend, divisor = (whole_expression(one, values) for one in node.args)
        if divisor < 1:
            raise InputError(f"--grid: cdiv by {divisor}")
        return ceiling_quotient(dividend, divisor)
    raise InputError(
        f"--grid: '{ast.unparse(node)}' is no number of programs",
        hint="use integers, integer arguments, + - * // % and cdiv(a, b)",
    )


def _is_cdiv(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "cdiv" and isinstance(node.value, ast.Name)
    return isinstance(node, ast.Name) and node.id == "cdiv"
