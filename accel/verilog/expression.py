"""Values of constant Verilog expressions, as Pyverilog's syntax trees hold them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from baco.common.errors import BacoError

_LITERAL = re.compile(r"(\d*)\s*'\s*[sS]?([bodhBODH])\s*([0-9a-fA-F_]+)")
_BASES = {"b": 2, "o": 8, "d": 10, "h": 16}


def _divide(a: int, b: int) -> int:
    """Verilog divides towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_BINARY: dict[str, Callable[[int, int], int]] = {
    "Plus": lambda a, b: a + b,
    "Minus": lambda a, b: a - b,
    "Times": lambda a, b: a * b,
    "Divide": _divide,
    "Mod": lambda a, b: a - _divide(a, b) * b,
    "Power": lambda a, b: a**b,
    "Sll": lambda a, b: a << b,
    "Srl": lambda a, b: a >> b,
    "Sla": lambda a, b: a << b,
    "Sra": lambda a, b: a >> b,
    "LessThan": lambda a, b: a < b,
    "GreaterThan": lambda a, b: a > b,
    "LessEq": lambda a, b: a <= b,
    "GreaterEq": lambda a, b: a >= b,
    "Eq": lambda a, b: a == b,
    "NotEq": lambda a, b: a != b,
    "And": lambda a, b: a & b,
    "Or": lambda a, b: a | b,
    "Xor": lambda a, b: a ^ b,
    "Land": lambda a, b: bool(a) and bool(b),
    "Lor": lambda a, b: bool(a) or bool(b),
}
_UNARY: dict[str, Callable[[int], int]] = {
    "Uplus": lambda a: a,
    "Uminus": lambda a: -a,
    "Ulnot": lambda a: not a,
}


def evaluate(node: Any, values: Mapping[str, int]) -> int:
    """Value of a constant expression.

    Numbers are unbounded: what Verilog would cut to the width of an operand is kept, which differs only where a
    constant overflows 32 bits.

    Args:
        node: expression of a Pyverilog syntax tree.
        values: parameters and generate variables by name.

    Raises BacoError for an unknown name and for what is no constant expression.
    """
    kind = type(node).__name__
    if kind in _BINARY:
        return int(_BINARY[kind](evaluate(node.left, values), evaluate(node.right, values)))
    if kind in _UNARY:
        return int(_UNARY[kind](evaluate(node.right, values)))
    if kind == "Cond":
        taken = node.true_value if evaluate(node.cond, values) else node.false_value
        return evaluate(taken, values)
    if kind == "IntConst":
        return _literal(node.value)
    if kind == "Identifier":
        if node.name not in values:
            raise BacoError(f"line {node.lineno}: '{node.name}' is no constant")
        return values[node.name]
    if kind == "SystemCall" and node.syscall == "clog2":
        return max(0, evaluate(node.args[0], values) - 1).bit_length()
    if kind == "SystemCall" and node.syscall in ("signed", "unsigned"):
        return evaluate(node.args[0], values)
    if kind == "Partselect":
        low, high = evaluate(node.lsb, values), evaluate(node.msb, values)
        return evaluate(node.var, values) >> low & (1 << high - low + 1) - 1
    raise BacoError(f"line {node.lineno}: {kind} is not understood in a constant expression")


def _literal(text: str) -> int:
    match = _LITERAL.fullmatch(text.strip())
    if match is None:
        return int(text.replace("_", ""))
    value = int(match[3].replace("_", ""), _BASES[match[2].lower()])
    return value & (1 << int(match[1])) - 1 if match[1] else value
