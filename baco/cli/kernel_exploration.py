"""`explore --kernel FILE.py:FUNCTION --shape ...` as the command line describes it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from baco.api.kernels import KernelSearch, block_choices
from baco.cli.compile_request import filled_buffers
from baco.cli.kernel_file import KernelInFile, kernel_in_file
from baco.cli.kernel_input import evaluated, parsed_grid, whole_expression
from common.errors import InputError, Location, did_you_mean
from compiler.codegen.buffer import Buffer
from compiler.language.names import REQUIRED

if TYPE_CHECKING:
    from compiler.language.jit import Kernel

__all__ = ["kernel_search"]

_ARRAY = re.compile(r"\s*(u?int8|int16|int32)\s*\[(.*)\]\s*", re.DOTALL)
_ARRAY_HINT = 'write the type of the array into the kernel: a: "int8[M, K]"'


def kernel_search(spec: str, shape: str | None, grid: str | None, seed: int = 0) -> KernelSearch:
    """The kernel that the options describe, with random arrays.

    Args:
        spec: FILE.py:FUNCTION.
        shape: values of its arguments, `M=512,N=512`.
        grid: number of programs; by default what the file's `grid(meta)` returns.
        seed: of the arrays.

    Raises InputError and KernelError, with the place in the user's file where there is one.
    """
    file, colon, name = spec.rpartition(":")
    if not colon or not file.endswith(".py"):
        raise InputError(
            f"'{spec}' names no kernel", location=Location("--kernel"), hint="write FILE.py:FUNCTION"
        )
    found = kernel_in_file(Path(file), name)
    values = _shape_values(found.kernel, shape)
    values |= _arrays(found.kernel, values, seed)
    choices = block_choices(found.kernel, tuple(values), _configs(found, values))
    _check_complete(found.kernel, {**values, **choices[0]})
    programs = parsed_grid(grid) if grid is not None else found.grid
    if programs is None:
        raise InputError(
            f"how many programs kernel `{name}` is launched with is not known",
            location=Location(str(file), found.kernel.source.first_line),
            hint='write `grid = lambda meta: (baco.cdiv(meta["M"], meta["BM"]), ...)` into the file, or give --grid',
        )
    return KernelSearch(found.kernel, spec, partial(evaluated, programs), values, choices)


def _configs(found: KernelInFile, values: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...] | None:
    """The configurations of the kernel, checked against its parameters."""
    kernel = found.kernel
    known = [one.name for one in kernel.parameters if one.compile_time]
    for config in found.configs or ():
        for name in config:
            if name not in known:
                raise InputError(
                    f"a configuration of kernel `{kernel.name}` sets `{name}`, which is no compile-time constant",
                    location=Location(kernel.source.file, kernel.source.first_line),
                    hint=did_you_mean(name, known) if known else f"mark it in the kernel: {name}: baco.const",
                )
            if name in values:
                raise InputError(
                    f"`{name}` is set by configurations of kernel `{kernel.name}`",
                    location=Location("--shape"),
                    hint="leave it out",
                )
    return found.configs


def _shape_values(kernel: Kernel, text: str | None) -> dict[str, Any]:
    """Arguments by name."""
    names = [one.name for one in kernel.parameters]
    values: dict[str, Any] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        name, equals, value = (one.strip() for one in part.partition("="))
        try:
            number = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            number = None
        if not equals or not isinstance(number, int | float) or name in values:
            raise InputError(
                f"'{part.strip()[:100]}' is no argument of its own",
                location=Location("--shape"),
                hint="write NAME=NUMBER, separated by commas: 'M=512,N=512,K=256'",
            )
        if name not in names:
            raise InputError(
                f"kernel `{kernel.name}` has no parameter `{name}`",
                location=Location("--shape"),
                hint=did_you_mean(name, names),
            )
        values[name] = number
    return values


def _arrays(kernel: Kernel, values: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The arrays that parameters are annotated as, `a: "int8[M, K]"`, with random numbers."""
    buffers: list[Buffer | None] = []
    spec = kernel.source.function.args
    for node in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]:
        text = node.annotation
        if not isinstance(text, ast.Constant) or not isinstance(text.value, str) or node.arg in values:
            continue
        found = _ARRAY.fullmatch(text.value)
        if found is None:
            raise kernel.source.error(text, f"'{text.value}' is no type of an array", _ARRAY_HINT)
        try:
            sizes = ast.parse(f"({found[2]},)", mode="eval").body
            assert isinstance(sizes, ast.Tuple)
            shape = tuple(int(whole_expression(one, values)) for one in sizes.elts)
        except (SyntaxError, InputError, ZeroDivisionError, AssertionError):
            names = {one.id for one in ast.walk(_parsed(found[2])) if isinstance(one, ast.Name)}
            missing = sorted(name for name in names if type(values.get(name)) is not int)
            parameters = [one.name for one in kernel.parameters]
            hint = _ARRAY_HINT
            if missing:
                known = missing[0] in parameters
                hint = (
                    f"add it to --shape: {missing[0]}=..." if known else did_you_mean(missing[0], parameters)
                )
            unknown = f", since `{missing[0]}` has no value" if missing else ""
            raise kernel.source.error(text, f"the size of `{node.arg}` is not known{unknown}", hint) from None
        if not shape or min(shape) < 1:
            raise kernel.source.error(text, f"`{node.arg}` has no elements: {found[1]}{list(shape)}")
        buffers.append(Buffer(node.arg, shape, found[1], "inout"))
    filled = filled_buffers(buffers, seed)
    return {one.name: np.asarray(one.data) for one in filled if one is not None}


def _parsed(text: str) -> ast.AST:
    try:
        return ast.parse(f"({text},)", mode="eval")
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _check_complete(kernel: Kernel, values: Mapping[str, Any]) -> None:
    """Every parameter has a value."""
    spec = kernel.source.function.args
    nodes = {node.arg: node for node in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]}
    for one in kernel.parameters:
        if one.name not in values and one.default is REQUIRED:
            raise kernel.source.error(
                nodes[one.name],
                f"`{one.name}` of kernel `{kernel.name}` has no value",
                f"a number comes from --shape: {one.name}=...; {_ARRAY_HINT}",
            )
