"""`explore --kernel FILE.py:FUNCTION --shape ... --grid ...` as arguments of `baco.explore`."""

from __future__ import annotations

import ast
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from baco.common.errors import InputError, Location

if TYPE_CHECKING:
    from baco.compiler.language.jit import Grid, Kernel


class KernelArguments(TypedDict, total=False):
    """What `baco.explore` is given of a kernel."""

    kernel: Kernel
    shape: dict[str, Any]
    grid: Grid


def kernel_arguments(spec: str | None, shape: str | None, grid: str | None) -> KernelArguments:
    """The kernel that the options describe; nothing where none is asked for.

    Args:
        spec: FILE.py:FUNCTION.
        shape: values of its arguments, `M=512,N=512`.
        grid: number of programs; by default what the file's `grid(meta)` returns.

    Raises InputError and KernelError, with the place in the user's file where there is one.
    """
    if spec is None:
        for option, value in (("--shape", shape), ("--grid", grid)):
            if value is not None:
                raise InputError(
                    "only a kernel has arguments",
                    location=Location(option),
                    hint="add --kernel FILE.py:FUNCTION",
                )
        return {}
    from baco.cli.kernel_file import kernel_in_file
    from baco.cli.kernel_input import evaluated, parsed_grid

    file, colon, name = spec.rpartition(":")
    if not colon or not file.endswith(".py"):
        raise InputError(
            f"'{spec}' names no kernel", location=Location("--kernel"), hint="write FILE.py:FUNCTION"
        )
    found = kernel_in_file(Path(file), name)
    values = _shape_values(shape)
    programs = parsed_grid(grid) if grid is not None else found.grid
    if programs is None:
        raise InputError(
            f"how many programs kernel `{name}` is launched with is not known",
            location=Location(str(file), found.kernel.source.first_line),
            hint='write `grid = lambda meta: (baco.cdiv(meta["M"], meta["BM"]), ...)` into the file, or give --grid',
        )
    return {"kernel": found.configured(), "shape": values, "grid": partial(evaluated, programs)}


def _shape_values(text: str | None) -> dict[str, Any]:
    """Numbers by name."""
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
        values[name] = number
    return values
