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
from baco.workloads.onnx.operators import OPERATORS
from baco.workloads.onnx.reading import HARMLESS
from baco.workloads.onnx.views import view_rule, view_rules

_HEAD = """# ONNX operators

Written by `python -m baco.bench.onnx_operators` from the import rules. Every attribute, optional input and output of a node is
read or refused by name; what follows an operator's name here is what its rule refuses beyond that. *written out*: in simpler
operators of this table, before the import, in the forms that the operator's own rule does not have or in all of them; by the
*function* by which ONNX itself defines it. *explored only*: it has a cost, but a program cannot run it. Operators of the standard
that are missing here are listed as unsupported, and the rest of the model is explored. What is computed from constants and shapes
alone is evaluated at import, whatever the operators.

*reads*: the attributes, of all operator sets, that the rule reads, then in brackets those that it need not, for they decide
nothing here; any other attribute is refused by its name unless it has its default. Inputs are read as far as the operator's
definition has them, or refused by name; *outputs* are those that a rule gives where the definition has several.

| operator | how | reads | outputs | refused |
|---|---|---|---|---|
"""

#: Methods by which rules ask for an attribute, and for all of them; what stands for all.
_ATTRIBUTES, _ALL, _EVERY = (
    ("integer", "number", "text", "integers", "array", "attribute"),
    "raw_attributes",
    "*",
)
#: Of an output: as many as there are.
_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic
#: Modules of the rules.
_MODULES = "baco.workloads.onnx."


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


def _functions(rule: Callable[..., Any], seen: dict[str, ast.AST]) -> dict[str, ast.AST]:
    """The code of a rule and of the functions of baco's ONNX modules that it calls, by name."""
    while isinstance(rule, functools.partial):
        rule = rule.func
    name = f"{getattr(rule, '__module__', '')}.{getattr(rule, '__qualname__', '')}"
    if not inspect.isfunction(rule) or name in seen or not rule.__module__.startswith(_MODULES):
        return seen
    source = textwrap.dedent(inspect.getsource(rule)).strip()
    # a lambda comes with the entry of the table that it stands in
    seen[name] = ast.parse(source if source.startswith(("def ", "@")) else "{" + source + "}")
    module = sys.modules[rule.__module__]
    for node in ast.walk(seen[name]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            _functions(getattr(module, node.func.id, None), seen)  # type: ignore[arg-type]
    return seen


@functools.cache
def _known_attributes() -> dict[str, set[str]]:
    """Attributes of the standard's operators, of all versions."""
    known: dict[str, set[str]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            known.setdefault(schema.name, set()).update(schema.attributes)
    return known


def _attributes_read(name: str, rule: Callable[..., Any]) -> set[str]:
    """Names of attributes in the code of a rule, and among the keywords that it is given."""
    known = _known_attributes().get(name, set())
    found: set[str] = set()
    inner: Any = rule
    while isinstance(inner, functools.partial):
        found |= set(inner.keywords) & known
        inner = inner.func
    for tree in _functions(rule, {}).values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in known:
                found.add(node.value)
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr == _ALL:
                found.add(_EVERY)
            elif node.func.attr in _ATTRIBUTES and node.args and isinstance(node.args[0], ast.Constant):
                found.add(str(node.args[0].value))
    return found & (known | {_EVERY}) if known or onnx.defs.has(name) else found


def _outputs_given(name: str, rules: list[Callable[..., Any]]) -> str:
    """How many of an operator's outputs rules give; empty for an operator of one."""
    if not onnx.defs.has(name):
        return ""
    outputs = onnx.defs.get_schema(name).outputs
    if len(outputs) < 2 and not any(output.option == _VARIADIC for output in outputs):
        return ""
    given = {0}
    for rule in rules:
        for tree in _functions(rule, {}).values():
            for node in ast.walk(tree):
                if not isinstance(node, ast.Call):
                    continue
                called = getattr(node.func, "attr", getattr(node.func, "id", ""))
                places = [k.value for k in node.keywords if k.arg in ("output", "outputs")]
                places += node.args[1:2] if called in ("emit", "wants") else []
                if called in ("finish", "emit", "settle") or "output" in called:
                    given |= {
                        p.value for p in places if isinstance(p, ast.Constant) and isinstance(p.value, int)
                    }
                    if any(not isinstance(p, ast.Constant) for p in places):
                        return "all"
    count = len(outputs)
    named = [outputs[i].name for i in sorted(given) if i < count]
    return "all" if len(named) == count > 1 else ", ".join(f"`{label}`" for label in named)


def _reads(name: str, rules: list[Callable[..., Any]], by_function: bool) -> str:
    """The attributes that rules read; in brackets those that they need not."""
    known = _known_attributes().get(name, set())
    read = set().union(*(_attributes_read(name, rule) for rule in rules))
    if by_function or _EVERY in read:
        read = (read | known) - {_EVERY}
    spared = sorted((set(HARMLESS.get(name, {})) & known) - read)
    text = ", ".join(f"`{attribute}`" for attribute in sorted(read))
    return text + (f" ({', '.join(f'`{attribute}`' for attribute in spared)})" if spared else "")


#: Methods by which rules ask for constants; the last argument says what it is.
_CONSTANT = ("value", "numbers")


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)  # type: ignore[misc]
    return ""


def _row(name: str) -> tuple[str, str, str, str]:
    """(how, what is read, outputs, what is refused) of an operator."""
    how: list[str] = []
    refused: dict[str, None] = {}
    operator = OPERATORS.get(name)
    runs = name in view_rules() or name in _OWN or (operator is not None and operator.rule is not None)
    if operator is not None and runs:
        how.append("a rule of its own")
    if name in EXPANSIONS:
        when, rule = EXPANSIONS[name]
        part = "" if when.__name__ == "_always" or not runs else " where its rule ends"
        how.append("written out" + part)
        refused |= dict.fromkeys(_refusals(rule, set()))
        if when.__name__ == "_constants_behind":
            refused["computed parameters"] = None
    standard = onnx.defs.has(name)
    by_function = name in FUNCTIONS or (standard and operator is None and name not in EXPANSIONS)
    if by_function:
        how.append("the function that defines it")
    own: list[Callable[..., Any] | None] = [*(operator or ()), view_rule(name)]
    rules = [rule for rule in own if rule is not None]
    for rule in rules:
        refused |= dict.fromkeys(_refusals(rule, set()))
    if name in EXPANSIONS:
        rules.append(EXPANSIONS[name][1])
    outputs = "all" if by_function and _outputs_given(name, []) else _outputs_given(name, rules)
    return "; ".join(how) or "explored only", _reads(name, rules, by_function), outputs, "; ".join(refused)


#: Operators whose handlers say themselves what they compute, beside shapes.
_OWN = frozenset(
    (
        *("Conv", "ConvTranspose", "Gemm", "MatMul", "Einsum", "MaxPool", "AveragePool", "LpPool", "TopK"),
        *(
            "QuantizeLinear",
            "DequantizeLinear",
            "RequantShift",
            "Cast",
            "Identity",
            "Dropout",
            "Shape",
            "Size",
            "Relu",
            "Clip",
        ),
        *("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"),
    )
)


def operator_names() -> list[str]:
    """All operators with a rule, or a function that ONNX defines."""
    names = set(OPERATORS) | set(EXPANSIONS)
    for schema in onnx.defs.get_all_schemas():
        defined: Any = schema
        if schema.domain == "" and (defined.has_function or defined.has_context_dependent_function):
            names.add(schema.name)
    return sorted(names, key=lambda name: (name.count("."), name.lower()))


def operators_page() -> str:
    """The page."""
    rows = []
    for name in operator_names():
        how, reads, outputs, refused = _row(name)
        rows.append(f"| `{name}` | {how} | {reads} | {outputs} | {refused.replace('|', '&#124;')} |")
    return _HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(operators_page())
