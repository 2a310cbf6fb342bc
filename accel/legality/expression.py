"""Whole-number expressions of rules: parsed once, written as C++.

Python's syntax, restricted to names, numbers, subscripts, the operators + - * // % << >> & |, comparisons, and, or,
not, if-else and calls. Comparisons and `not` give 0 or 1. `//` and `%` are for operands that are not negative, since
C++ rounds otherwise. Every value fits a signed 64-bit number: rules bound sizes before they multiply them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "/",
    ast.Mod: "%",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


class RuleExpression:
    """One expression.

    Attributes:
        text: as it was written.
        names: what it refers to, functions left out, in order of first appearance.
    """

    def __init__(self, text: str) -> None:
        """Raises SyntaxError, or ValueError for what the language does not have."""
        self.text = text
        self.tree = ast.parse(text, mode="eval").body
        called = {id(node.func) for node in ast.walk(self.tree) if isinstance(node, ast.Call)}
        found = [
            node for node in ast.walk(self.tree) if isinstance(node, ast.Name) and id(node) not in called
        ]
        found.sort(key=lambda node: (node.lineno, node.col_offset))
        self.names = tuple(dict.fromkeys(node.id for node in found))

    def cpp(self, rename: Callable[[str], str]) -> str:
        """As a C++ expression of int64_t; `rename` says what a name is there."""
        return _cpp(self.tree, rename)


def _cpp(node: ast.expr, rename: Callable[[str], str]) -> str:
    def of(one: ast.expr) -> str:
        return _cpp(one, rename)

    match node:
        case ast.Constant(value=int() as number):
            return f"int64_t{{{int(number)}}}"
        case ast.Name(id=name):
            return rename(name)
        case ast.Subscript(value=ast.Name(id=name), slice=index):
            return f"{rename(name)}[{of(index)}]"
        case ast.BinOp(left=left, op=op, right=right):
            return f"({of(left)} {_BINARY[type(op)]} {of(right)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"!{of(operand)}"
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"-{of(operand)}"
        case ast.BoolOp(op=op, values=parts):
            word = " && " if isinstance(op, ast.And) else " || "
            return "(" + word.join(map(of, parts)) + ")"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return f"({of(left)} {_COMPARE[type(op)]} {of(right)})"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return f"({of(test)} ? {of(body)} : {of(orelse)})"
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return f"{rename(name)}({', '.join(map(of, arguments))})"
    raise ValueError(f"rules have no {ast.unparse(node)}")
