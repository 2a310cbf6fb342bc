"""Names say what things are: none stands for three different things in a function. Functions fit on a screen."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.test_imports import ROOT, package_files

#: Words that say nothing of what they name. In a function, each may stand for two things at most.
VAGUE = ("one", "found", "place")

#: What is looked at.
Function = ast.FunctionDef | ast.AsyncFunctionDef

#: Lines of a function with its docstring.
SCREEN = 80


def _bindings(function: ast.AST) -> Iterator[tuple[ast.AST | None, ast.AST | None]]:
    """(target, what it is bound to) for each loop, comprehension, assignment, `with` and parameter inside."""
    for node in ast.walk(function):
        match node:
            case ast.For() | ast.comprehension():
                yield node.target, node.iter
            case ast.Assign():
                yield from ((target, node.value) for target in node.targets)
            case ast.AnnAssign() | ast.NamedExpr():
                yield node.target, node.value
            case ast.withitem():
                yield node.optional_vars, node.context_expr
            case ast.arg():
                yield ast.Name(node.arg, ast.Store()), node.annotation


def _functions(text: str) -> list[Function]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, Function)]


def _vague(text: str, functions: list[Function]) -> list[str]:
    """`function: name` for each vague name that is three or more things in a function, those inside it included. Different things
    are bound to expressions that are written differently: iterables, values, and of parameters the annotations (all without one
    are one thing)."""
    seen, lines = [], text.splitlines()
    for function in functions:
        words = re.findall(r"\w+", "\n".join(lines[function.lineno - 1 : function.end_lineno]))
        if all(words.count(name) < 3 for name in VAGUE):
            continue  # most, which are not looked through
        things = defaultdict(set)
        for target, source in _bindings(function):
            for name in ast.walk(target) if target is not None else ():
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store) and name.id in VAGUE:
                    things[name.id].add("" if source is None else ast.dump(source))
        seen += [f"{function.name}: {name}" for name, sources in things.items() if len(sources) > 2]
    return seen


def test_no_vague_name_is_three_things_in_a_function_and_functions_fit_on_a_screen() -> None:
    files = [*package_files(), *sorted((ROOT / "tests").rglob("*.py"))]
    assert len(files) > 1000, "the files were not found"
    vague, long = {}, {}
    for path in files:
        text = path.read_text(encoding="utf-8")
        functions = _functions(text)
        vague[str(path.relative_to(ROOT))] = _vague(text, functions)
        long[str(path.relative_to(ROOT))] = _long(functions)
    assert {name: seen for name, seen in vague.items() if seen} == {}
    assert {name: seen for name, seen in long.items() if seen} == {}


@pytest.mark.parametrize(
    "body",
    [
        "[one for one in a], [one for one in b], [one for one in c]",
        "one = a\n    for one in b: pass\n    with c as one: pass",
        "(lambda one: one), [one for one in a if (one := b)]",
        "def inner(one: int, other): pass\n    one, other = a\n    one: int = b",
    ],
)
def test_the_check_sees_three_things(body: str) -> None:
    text = f"def outer():\n    {body}"
    assert _vague(text, _functions(text)) == ["outer: one"]


@pytest.mark.parametrize(
    "body",
    [
        "[one for one in a], [one for one in a], {one for one in a}, [one for one in b]",
        "found = []\n    found += a\n    found[0] = b\n    found.one = c\n    return sorted(found)",
        "[one for one in a], [found for found in b], [place for place in c]",
    ],
)
def test_the_check_leaves_two_things_alone(body: str) -> None:
    text = f"def outer():\n    {body}"
    assert _vague(text, _functions(text)) == []


def test_things_of_two_functions_are_not_counted_together() -> None:
    text = "def first():\n    [one for one in a], [one for one in b]\ndef second():\n    [one for one in c]\n"
    assert _vague(text, _functions(text)) == []


def _long(functions: list[Function]) -> list[str]:
    """`function: lines` for each that does not fit on a screen."""
    lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions}
    return [f"{name}: {lines}" for name, lines in lengths.items() if lines > SCREEN]


def test_the_check_sees_long_functions() -> None:
    assert _long(_functions("def f():\n" + "    pass\n" * SCREEN)) == [f"f: {SCREEN + 1}"]
    assert _long(_functions("def f():\n" + "    pass\n" * (SCREEN - 1))) == []
