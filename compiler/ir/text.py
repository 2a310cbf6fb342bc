"""Reading, checking and writing the text of the IR, at any level; errors name the line and the reason."""

from __future__ import annotations

import io
import re
from typing import Literal, get_args

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError

from baco.common.errors import InputError
from baco.compiler.ir.checks import check_ir, reason_of
from baco.compiler.ir.limits import check_tokens, place
from baco.compiler.ir.location import location_of
from baco.compiler.ir.parser import IrParser

Level = Literal["baco", "linalg", "instgem", "llvm"]
#: From the highest to the lowest.
LEVELS: tuple[Level, ...] = get_args(Level)

#: Operations of each level, by their whole name or by their dialect.
_ALLOWED: dict[Level, frozenset[str]] = {
    "baco": frozenset(("builtin", "baco", "func", "scf", "arith", "math")),
    "linalg": frozenset(
        (
            *("builtin", "linalg", "tensor", "bufferization", "memref", "func", "scf", "arith", "math", "cf"),
            "baco.softmax",
        )
    ),
    "instgem": frozenset(
        (
            *("builtin", "instgem", "func", "scf", "arith", "math", "cf"),
            *("memref.alloca", "memref.load", "memref.store"),
            *("llvm.inttoptr", "llvm.ptrtoint", "llvm.load", "llvm.store", "llvm.call_intrinsic"),
        )
    ),
    "llvm": frozenset(("builtin", "llvm")),
}


def read_ir(text: str, name: str, context: Context, level: Level | None = None) -> ModuleOp:
    """The module that a text holds, checked, every operation with its line.

    Args:
        text: what `write_ir`, or any MLIR tool, wrote.
        name: of the file, for messages.
        context: the dialects known.
        level: what operations may occur; None for any.

    Raises InputError with line and reason for a text that is no well-formed module of that level.
    """
    check_tokens(text, name)
    parser = None
    try:
        parser = IrParser(context, text, name)
        module = parser.parse_module()
    except ParseError as error:
        position = _culprit(text, error, parser.started if parser else [])
        raise InputError(error.msg.strip().splitlines()[0], location=place(text, name, position)) from None
    except Exception as error:  # operations and attributes check themselves in many ways while they are made
        at = place(text, name, parser.started[-1] if parser and parser.started else 0)
        deep = isinstance(error, RecursionError)
        raise InputError("the text is nested too deeply" if deep else reason_of(error), location=at) from None
    check_ir(module)
    if level is not None:
        check_level(module, level)
    return module


def write_ir(module: ModuleOp) -> str:
    """The text of a module, ending with a newline."""
    stream = io.StringIO()
    Printer(stream).print_op(module)
    return stream.getvalue() + "\n"


def check_level(module: ModuleOp, level: Level) -> None:
    """Raises InputError, with the line if it is known, for an operation that does not belong to a level."""
    allowed = _ALLOWED[level]
    for op in module.walk():
        if op.name not in allowed and op.dialect_name() not in allowed:
            levels = [one for one in LEVELS if op.name in _ALLOWED[one] or op.dialect_name() in _ALLOWED[one]]
            hint = f"it belongs to the level {' or '.join(levels)}" if levels else None
            raise InputError(
                f"{op.name} cannot occur at the level '{level}'", location=location_of(op), hint=hint
            )


def level_of(module: ModuleOp) -> Level:
    """The highest level that has all operations of a module.

    Raises InputError, naming the operation, when there is none.
    """
    fitting = list(LEVELS)
    for op in module.walk():
        left = [
            level for level in fitting if op.name in _ALLOWED[level] or op.dialect_name() in _ALLOWED[level]
        ]
        if not left:
            raise InputError(
                f"{op.name} cannot occur beside what precedes it: no level has both", location=location_of(op)
            )
        fitting = left
    # a module without operations of its own kind, as plain arithmetic, needs nothing above `instgem`
    return (
        fitting[0]
        if len(fitting) == 1
        else next(level for level in ("instgem", *fitting) if level in fitting)
    )


def _culprit(text: str, error: ParseError, started: list[int]) -> int:
    """Position of a mistake that the parser noticed."""
    undefined = re.match(r"values used but not defined: \[(%[^,\]]+)", error.msg)
    if undefined:
        name = re.escape(undefined[1]) + r"(?![\w$.-])"
        uses = [one.start() for one in re.finditer(name + r"(?!\s*=)", text)] or [0]
        # a value that exists somewhere is used where it cannot be seen: more likely behind than before
        return uses[-1] if re.search(name + r"\s*=", text) else uses[0]
    position = int(error.span.start)
    before = text[:position].rstrip()
    # what an operation lacks at the end of its line is noticed at the next line's first word
    if started and "\n" in text[len(before) : position] and "{" not in text[started[-1] : position]:
        return max(len(before) - 1, started[-1])
    return position
