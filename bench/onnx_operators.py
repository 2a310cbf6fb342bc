"""The documentation's table of ONNX operators, from the import rules: `python -m baco.bench.onnx_operators > docs/onnx-operators.md`.

What an operator cannot is what its rule refuses: the texts of its refusals, read from the rule's own code.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import onnx.defs

from baco.workloads.onnx.expansions import EXPANSIONS, FUNCTIONS
from baco.workloads.onnx.operators import HANDLERS
from baco.workloads.onnx.semantics import RULES
from baco.workloads.onnx.views import view_rules

_HEAD = """# ONNX operators

Written by `python -m baco.bench.onnx_operators` from the import rules. Every attribute, optional input and output of a node is
read or refused by name; what follows an operator's name here is what its rule refuses beyond that. *written out*: in simpler
operators of this table, before the import, in the forms that the operator's own rule does not have or in all of them; by the
*function* by which ONNX itself defines it. *explored only*: it has a cost, but a program cannot run it. Operators of the standard
that are missing here are listed as unsupported, and the rest of the model is explored. What is computed from constants and shapes
alone is evaluated at import, whatever the operators.

| operator | how | refused |
|---|---|---|
"""


def _refusals(rule: Callable[..., Any], seen: set[str]) -> Iterator[str]:
    """Texts of the refusals in a rule and in the functions of its module that it calls; what is filled in becomes `…`."""
    while isinstance(rule, functools.partial):
        rule = rule.func
    name = getattr(rule, "__qualname__", "")
    if not inspect.isfunction(rule) or name in seen:
        return
    seen.add(name)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(rule)))
    except (OSError, SyntaxError, IndentationError):  # a lambda within an expression
        return
    module = sys.modules[rule.__module__]
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _CONSTANT
        ):
            what = _text(node.args[-1]) if len(node.args) > 1 else ""
            if what:
                yield f"computed {what}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("RefusedError", "UnsupportedNodeError") and node.args:
                text = _text(node.args[0])
                if text:
                    yield text
            else:
                called = getattr(module, node.func.id, None)
                if inspect.isfunction(called) and called.__module__ == rule.__module__:
                    yield from _refusals(called, seen)


#: Methods by which rules ask for constants; the last argument says what it is.
_CONSTANT = ("value", "numbers")


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)  # type: ignore[misc]
    return ""


def _row(name: str) -> tuple[str, str]:
    """(how, what is refused) of an operator."""
    how: list[str] = []
    refused: dict[str, None] = {}
    runs = name in RULES or name in view_rules() or name in _OWN
    if name in HANDLERS and runs:
        how.append("a rule of its own")
    if name in EXPANSIONS:
        when, rule = EXPANSIONS[name]
        part = "" if when.__name__ == "_always" or not runs else " where its rule ends"
        how.append("written out" + part)
        refused |= dict.fromkeys(_refusals(rule, set()))
        if when.__name__ == "_constants_behind":
            refused["computed parameters"] = None
    standard = onnx.defs.has(name)
    if name in FUNCTIONS or (standard and name not in HANDLERS and name not in EXPANSIONS):
        how.append("the function that defines it")
    own: tuple[Callable[..., Any] | None, ...] = (HANDLERS.get(name), RULES.get(name))
    for one in own:
        if one is not None:
            refused |= dict.fromkeys(_refusals(one, set()))
    return "; ".join(how) or "explored only", "; ".join(refused)


#: Operators whose handlers say themselves what they compute, beside shapes.
_OWN = frozenset(
    (
        *(
            "Conv",
            "ConvTranspose",
            "Gemm",
            "MatMul",
            "Einsum",
            "MaxPool",
            "AveragePool",
            "LpPool",
            "TopK",
            "Cast",
            "Identity",
            "Dropout",
        ),
        *("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "Shape", "Size", "Relu", "Clip"),
    )
)


def operator_names() -> list[str]:
    """All operators with a rule, or a function that ONNX defines."""
    names = set(HANDLERS) | set(EXPANSIONS)
    for schema in onnx.defs.get_all_schemas():
        defined: Any = schema
        if schema.domain == "" and (defined.has_function or defined.has_context_dependent_function):
            names.add(schema.name)
    return sorted(names, key=lambda name: (name.count("."), name.lower()))


def operators_page() -> str:
    """The page."""
    rows = []
    for name in operator_names():
        how, refused = _row(name)
        rows.append(f"| `{name}` | {how} | {refused.replace('|', '&#124;')} |")
    return _HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(operators_page())
