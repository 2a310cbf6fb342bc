"""A kernel to explore, from the kernel itself, numbers by name and a grid: arrays come from its annotations, block sizes are open."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from baco.api.arrays import filled_buffers
from baco.api.kernels import KernelSearch, block_choices
from baco.common.errors import InputError, Location, did_you_mean
from baco.compiler.codegen.buffer import Buffer
from baco.compiler.language.arrays import as_array
from baco.compiler.language.forms import ceiling_quotient
from baco.compiler.language.names import REQUIRED

if TYPE_CHECKING:
    from baco.compiler.language.jit import Grid, Kernel


_ARRAY = re.compile(r"\s*(u?int8|int16|int32)\s*\[(.*)\]\s*", re.DOTALL)
_ARRAY_HINT = 'write the type of the array into the kernel: a: "int8[M, K]"'
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def kernel_search(
    kernel: Kernel, shape: Mapping[str, Any] | None, grid: Grid | None, seed: int = 0
) -> KernelSearch:
    """The kernel with arrays for its annotations, and with the block sizes that there are to choose from.

    Args:
        kernel: what is explored; of an autotuned one the configurations are the choices.
        shape: its arguments by name: numbers, and arrays where annotations do not say what they are.
        grid: number of programs, as of a launch.
        seed: of the arrays.

    Raises InputError and KernelError, with the place in the user's file where there is one.
    """
    from baco.compiler.language.autotune import AutotunedKernel
    from baco.compiler.language.jit import Kernel, Options

    if not isinstance(kernel, Kernel):
        raise InputError(
            f"{type(kernel).__name__} is no kernel",
            location=Location("kernel"),
            hint="put @baco.jit above a function, and give the function itself",
        )
    values = _known_values(kernel, shape or {})
    if isinstance(kernel, AutotunedKernel):
        for name in kernel.configs[0].constants:
            if name in values:
                raise InputError(
                    f"`{name}` is set by configurations of kernel `{kernel.name}`",
                    location=Location("shape"),
                    hint="leave it out",
                )
    values |= annotated_arrays(kernel, values, seed)
    plain = Kernel(kernel.function) if isinstance(kernel, AutotunedKernel) else kernel
    if grid is None:
        raise InputError(
            f"how many programs kernel `{kernel.name}` is launched with is not known",
            location=Location(plain.source.file, plain.source.first_line),
            hint="give the grid that you would launch it with, best as a function of the block sizes: "
            'grid=lambda meta: (baco.cdiv(meta["M"], meta["BM"]), ...)',
        )
    configs = None
    if isinstance(kernel, AutotunedKernel):
        _check_complete(plain, {**values, **kernel.configs[0].constants})
        tried = kernel.pruned(lambda **chosen: plain.bind(grid, (), {**values, **chosen}, Options()))
        configs = [one.constants for one in tried]
    choices = block_choices(plain, tuple(values), configs)
    _check_complete(plain, {**values, **choices[0]})
    return KernelSearch(plain, f"{plain.source.file}:{plain.name}", grid, values, choices)


def _known_values(kernel: Kernel, shape: Mapping[str, Any]) -> dict[str, Any]:
    """The values of `shape` by name. Raises InputError for a name that the kernel does not have."""
    names = [one.name for one in kernel.parameters]
    values: dict[str, Any] = {}
    for name, value in shape.items():
        if name not in names:
            raise InputError(
                f"kernel `{kernel.name}` has no parameter `{name}`",
                location=Location("shape"),
                hint=did_you_mean(name, names),
            )
        array = as_array(name, value)
        values[name] = (
            array if array is not None else value.item() if isinstance(value, np.generic) else value
        )
    return values


def annotated_arrays(
    kernel: Kernel, values: Mapping[str, Any], seed: int, given_by: str = "--shape"
) -> dict[str, Any]:
    """The arrays that parameters without a value are annotated as, `a: "int8[M, K]"`, with random numbers.

    `given_by`: what gives numbers their values, for errors. Raises KernelError at an annotation that says no array.
    """
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
            shape = tuple(int(whole_expression(size, values)) for size in sizes.elts)
        except (SyntaxError, InputError, ZeroDivisionError, AssertionError):
            names = {node.id for node in ast.walk(_parsed(found[2])) if isinstance(node, ast.Name)}
            missing = sorted(name for name in names if type(values.get(name)) is not int)
            parameters = [parameter.name for parameter in kernel.parameters]
            hint = _ARRAY_HINT
            if missing:
                known = missing[0] in parameters
                hint = (
                    f"give it by {given_by}: {missing[0]}=..."
                    if known
                    else did_you_mean(missing[0], parameters)
                )
            unknown = f", since `{missing[0]}` has no value" if missing else ""
            raise kernel.source.error(text, f"the size of `{node.arg}` is not known{unknown}", hint) from None
        if not shape or min(shape) < 1:
            raise kernel.source.error(text, f"`{node.arg}` has no elements: {found[1]}{list(shape)}")
        buffers.append(Buffer(node.arg, shape, found[1], "inout"))
    filled = filled_buffers(buffers, seed)
    return {buffer.name: np.asarray(buffer.data) for buffer in filled if buffer is not None}


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
                f"a number comes from the shape: {one.name}=...; {_ARRAY_HINT}",
            )


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
            raise InputError(f"the grid: cdiv by {divisor}")
        return ceiling_quotient(dividend, divisor)
    if isinstance(name, str) and name not in values:
        raise InputError(f"the grid needs `{name}`, which has no value", hint=did_you_mean(name, values))
    raise InputError(
        f"the grid: '{ast.unparse(node)}' is no number of programs",
        hint="use integers, integer arguments, + - * // % and cdiv(a, b)",
    )


def _is_cdiv(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "cdiv" and isinstance(node.value, ast.Name)
    return isinstance(node, ast.Name) and node.id == "cdiv"
