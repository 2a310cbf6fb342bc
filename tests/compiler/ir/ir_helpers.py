"""What the tests of the IR share."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from baco.compiler.dialects.context import all_dialects
from baco.compiler.ir.text import Level, read_ir


def parsed(text: str, level: Level | None = None) -> ModuleOp:
    """The checked module of a text."""
    return read_ir(text, "test.mlir", all_dialects(), level)


def function(body: str, arguments: str = "%a: i64, %b: i64") -> str:
    """Text of a module with one function `f` that returns nothing."""
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    return f"func.func @f({arguments}) {{\n{lines}\n  func.return\n}}\n"
