"""The source of a kernel: its syntax tree and errors that point into it."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from baco.common.errors import BacoError, InputError, Location


class KernelError(InputError):
    """A kernel, or the way it is launched, is wrong. The message shows the user's line with a caret."""


@dataclass(frozen=True)
class KernelSource:
    """The text of a kernel's function.

    Attributes:
        file: as Python names it.
        first_line: number of the first line of `lines` in the file, counted from 1.
        lines: the function with its decorators.
        function: its syntax tree; line 1 is the first of `lines`, columns count UTF-8 bytes from 0.
    """

    file: str
    first_line: int
    lines: tuple[str, ...]
    function: ast.FunctionDef

    def location(self, node: ast.AST) -> Location:
        """Where `node` starts, in the user's file."""
        line = getattr(node, "lineno", 1)
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        column = len(text.encode()[: getattr(node, "col_offset", 0)].decode(errors="replace")) + 1
        return Location(self.file, self.first_line + line - 1, column)

    def error(self, node: ast.AST, message: str, hint: str | None = None) -> KernelError:
        """An error that shows the line of `node`, marked where it stands."""
        location = self.location(node)
        line = getattr(node, "lineno", 1)
        assert location.column is not None
        text = self.lines[line - 1].rstrip("\n") if line <= len(self.lines) else ""
        start = location.column - 1
        end = start + 1
        if getattr(node, "end_lineno", None) == line:
            end = max(end, len(text.encode()[: getattr(node, "end_col_offset", 0)].decode(errors="replace")))
        return KernelError(message, location=location, hint=hint, details=_marked(text, start, end))


def read_source(function: Callable[..., Any]) -> KernelSource:
    """The source of a Python function, which is never called.

    Raises:
        KernelError: there is none to read, or it is no plain `def`.
    """
    name = getattr(function, "__name__", str(function))
    if not inspect.isfunction(function):
        raise KernelError(
            f"`{name}` is no function, so it cannot be a kernel", hint="put `@baco.jit` above a `def`"
        )
    file = function.__code__.co_filename
    place = Location(file, function.__code__.co_firstlineno)
    try:
        lines, first_line = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise KernelError(
            f"the source of kernel `{name}` cannot be read, and a kernel is compiled from its source",
            location=place,
            hint="write the kernel into a file (or a notebook cell) instead of exec() or the prompt",
        ) from error
    # An indented function keeps its columns when it stands in an `if`.
    indented = lines[0][:1].isspace()
    try:
        tree = ast.parse(("if True:\n" if indented else "") + "".join(lines))
    except (SyntaxError, ValueError) as error:
        raise KernelError(
            f"kernel `{name}` cannot be read alone", location=place, hint="define it by a `def` of its own"
        ) from error
    body = tree.body
    if indented:
        ast.increment_lineno(tree, -1)
        assert isinstance(body[0], ast.If)
        body = body[0].body
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        raise KernelError(
            f"kernel `{name}` is no plain function",
            location=place,
            hint="define it by `def`, not as a lambda",
        )
    return KernelSource(file, first_line, tuple(lines), body[0])


def showing_line(error: BacoError) -> BacoError:
    """The error with the line of its location, marked; as it is if there is no such line."""
    place = error.location
    if place is None or place.line is None or place.column is None or error.details:
        return error
    text = linecache.getline(place.file, place.line).rstrip("\n")
    if not text[place.column - 1 :].strip():
        return error
    shown = _marked(text, place.column - 1, place.column)
    return type(error)(error.message, location=place, hint=error.hint, details=shown)


def _marked(text: str, start: int, end: int) -> tuple[str, str]:
    """A line without its indentation, and a line that marks the characters `start` ... `end` - 1 below it."""
    # A tab before the mark stays a tab, so that the mark stands below what it means.
    blank = "".join("\t" if c == "\t" else " " for c in text[:start])
    indent = min(len(text) - len(text.lstrip()), start)
    return f"  {text[indent:]}", f"  {blank[indent:]}^{'~' * (min(end, len(text)) - start - 1)}"
