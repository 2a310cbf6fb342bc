"""A kernel and its launch as the command line describes them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from baco.api.arrays import filled_buffers
from baco.api.kernel_arguments import annotated_arrays, whole_expression
from baco.cli.array_input import described_buffer
from baco.cli.kernel_file import kernel_in_file
from baco.common.errors import InputError
from baco.compiler.codegen.buffer import Buffer

if TYPE_CHECKING:
    from baco.compiler.language.jit import BoundLaunch


def launch_in_file(
    file: Path, name: str, arguments: Sequence[str], grid: str | None, seed: int
) -> BoundLaunch:
    """A launch with the arrays it is launched on: those of --arg, and random ones of annotations.

    The grid is --grid, else what the file's `grid(meta)` returns, else one program.

    Raises InputError and KernelError, which show the line of the user's file.
    """
    found = kernel_in_file(file, name)
    values = _arguments(arguments, seed)
    values |= annotated_arrays(found.kernel, values, seed, "--arg")
    programs = parsed_grid(grid) if grid is not None else found.grid
    launched = 1 if programs is None else partial(evaluated, programs)
    return found.kernel[launched].bind(**values)


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
        raise InputError(f"the grid: '{ast.unparse(grid)}' divides by zero") from None
