"""Whole-number expressions of rules: parsed once, evaluated in Python, written as C++.

Python's syntax, restricted to names, numbers, subscripts, the operators + - * // % << >> & |, comparisons, and, or,
not, if-else and calls. Comparisons and `not` give 0 or 1. `//` and `%` are for operands that are not negative, since
C++ rounds otherwise. Every value fits a signed 64-bit number: rules bound sizes before they multiply them.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence

__all__ = ["RuleExpression", "Value"]

#: A number, or an array of them.
Value = int | Sequence[int]

_BINARY: dict[type[ast.operator], tuple[str, Callable[[int, int], int]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.FloorDiv: ("/", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.LShift: ("<<", operator.lshift),
    ast.RShift: (">>", operator.rshift),
    ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_),
}
_COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[int, int], bool]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
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

    def value(self, values: Mapping[str, Value], call: Callable[[str, list[int]], int]) -> int:
        """What it is for these values; `call` evaluates functions. Raises KeyError for an unknown name."""
        return _evaluate(self.tree, values, call)

    def cpp(self, rename: Callable[[str], str]) -> str:
        """As a C++ expression of int64_t; `rename` says what a name is there."""
        return _cpp(self.tree, rename)


def _evaluate(node: ast.expr, values: Mapping[str, Value], call: Callable[[str, list[int]], int]) -> int:
    def of(one: ast.expr) -> int:
        return _evaluate(one, values, call)

    match node:
        case ast.Constant(value=int() as number):
            return int(number)
        case ast.Name(id=name):
            found = values[name]
            assert isinstance(found, int), f"{name} is an array"
            return found
        case ast.Subscript(value=ast.Name(id=name), slice=index):
            array = values[name]
            assert not isinstance(array, int), f"{name} is no array"
            return array[of(index)]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)][1](of(left), of(right))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return int(not of(operand))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -of(operand)
        case ast.BoolOp(op=ast.And(), values=parts):
            return int(all(of(part) for part in parts))
        case ast.BoolOp(op=ast.Or(), values=parts):
            return int(any(of(part) for part in parts))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return int(_COMPARE[type(op)][1](of(left), of(right)))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return of(body) if of(test) else of(orelse)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return call(name, [of(one) for one in arguments])
    raise ValueError(f"rules have no {ast.unparse(node)}")


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
            return f"({of(left)} {_BINARY[type(op)][0]} {of(right)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"!{of(operand)}"
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"-{of(operand)}"
        case ast.BoolOp(op=op, values=parts):
            word = " && " if isinstance(op, ast.And) else " || "
            return "(" + word.join(map(of, parts)) + ")"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return f"({of(left)} {_COMPARE[type(op)][0]} {of(right)})"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return f"({of(test)} ? {of(body)} : {of(orelse)})"
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return f"{rename(name)}({', '.join(map(of, arguments))})"
    raise ValueError(f"rules have no {ast.unparse(node)}")
