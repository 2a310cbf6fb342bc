"""What searches decide by is computed with operations that give the same bits everywhere (see `baco.common.portable`)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "baco"
#: Files that a search, its proof, its measurements and its compiler consist of.
FILES = (
    "exploration/**/*.py",
    *(
        f"compiler/{name}/**/*.py"
        for name in ("analysis", "choice", "latency", "layers", "mapping", "schedules", "styles")
    ),
    "accel/*.py",
    "workloads/*.py",
)
#: Files of these that compute nothing that a search decides by: meanings of networks, words for people, plans of systems, whose
#: solver stops by the clock; and what the rest is made of.
OTHERS = (
    "common/tensors.py",
    "exploration/report/*.py",
    "exploration/systems/*.py",
    "workloads/semantics.py",
)
#: Functions of the others that may do what they like, and why.
ALLOWED = {
    ("compiler/layers/reference.py", "_sums"): "whole numbers",
    ("compiler/layers/wide_sums.py", "added"): "whole numbers",
    ("exploration/search/exact_factors.py", "_shares"): "whole numbers",
    ("compiler/mapping/factors.py", "divisors"): "whole numbers",
    ("exploration/cost/evaluate.py", "spearman"): "statistics for people",
    ("exploration/cost/evaluate.py", "total"): "statistics for people",
    ("exploration/cost/infeasible.py", "_round_up"): "a number in a message",
    ("exploration/space/shortfall.py", "_ceil"): "a number in a message",
    ("exploration/space/reading.py", "_no_legal_pair"): "a number in a message",
}
#: Functions and methods whose last bits, or whose order of equal elements, are not the same everywhere.
DIFFER = frozenset(
    (
        *("exp", "exp_", "exp2", "expm1", "log", "log_", "log2", "log10", "log1p", "logaddexp", "logsumexp"),
        *(
            "softmax",
            "softplus",
            "sigmoid",
            "tanh",
            "pow",
            "pow_",
            "float_power",
            "erf",
            "erfc",
            "ndtr",
            "lgamma",
        ),
        *("sin", "cos", "tan", "atan", "arctan", "sinh", "cosh", "hypot", "cbrt"),
        *("dot", "vdot", "matmul", "mm", "bmm", "mv", "addmm", "einsum", "tensordot"),
        *("convolve", "correlate", "corrcoef", "cov", "interp"),
        *("lerp", "lerp_", "addcmul", "addcmul_", "addcdiv", "addcdiv_"),
        *("argpartition", "geometric", "normal", "standard_normal", "exponential", "standard_exponential"),
        *("lognormal", "poisson", "binomial"),
    )
)
#: Such names that others than these modules use for something else.
OF_MODULES = frozenset(("power", "inner", "gamma", "beta"))
MODULES = frozenset(("np", "numpy", "math", "torch", "F", "rng"))
#: Whose functions of such names are portable: the modules, and `baco.compiler.analysis.arrays.Arrays`.
PORTABLE = frozenset(("portable", "tensors", "a"))


def offences(source: str) -> Iterator[tuple[int, str, str]]:
    """(line, function that it is in, what) of every operation that is not portable."""
    tree = ast.parse(source)
    inside: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            inside[child] = node.name if isinstance(node, ast.FunctionDef) else inside.get(node, "")
    for node in ast.walk(tree):
        what = _offence(node)
        if what:
            yield node.lineno, inside[node], what  # type: ignore[attr-defined]


def _offence(node: ast.AST) -> str | None:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return _imported(node)
    if isinstance(node, ast.Attribute):
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        if node.attr == "linalg" or (owner in MODULES and node.attr in DIFFER | OF_MODULES):
            return node.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _called(node, node.func)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return "@"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and not _exact(node.left, node.right):
        return "**"
    return None


def _imported(node: ast.Import | ast.ImportFrom) -> str | None:
    names = {one.name for one in node.names}
    modules = names if isinstance(node, ast.Import) else {node.module or ""}
    if any(module.split(".")[0] == "scipy" or module.endswith("linalg") for module in modules):
        return f"import of {', '.join(sorted(modules))}"
    if modules & {"math", "numpy", "torch"} and names & (DIFFER | OF_MODULES):
        return f"import of {', '.join(sorted(names))}"
    return None


def _called(node: ast.Call, function: ast.Attribute) -> str | None:
    keywords = {one.arg for one in node.keywords}
    owner = function.value.id if isinstance(function.value, ast.Name) else ""
    if function.attr in DIFFER and owner not in PORTABLE:
        return function.attr
    if function.attr == "argsort" and not keywords & {"kind", "stable"}:
        return "argsort that is not stable"
    if "alpha" in keywords:
        return "a product and a sum at once"
    return None


def _exact(base: ast.expr, exponent: ast.expr) -> bool:
    """Squares, constants, and whole powers of whole constants."""
    if isinstance(exponent, ast.Constant) and exponent.value == 2:
        return True
    if not isinstance(base, ast.Constant):
        return False
    return isinstance(base.value, int) or not any(isinstance(part, ast.Name) for part in ast.walk(exponent))


def _searched() -> list[Path]:
    others = {path for pattern in OTHERS for path in ROOT.glob(pattern)}
    return sorted({path for pattern in FILES for path in ROOT.glob(pattern)} - others)


def test_searches_use_portable_operations_only() -> None:
    found, used = [], set()
    for path in _searched():
        name = str(path.relative_to(ROOT))
        for line, function, what in offences(path.read_text(encoding="utf-8")):
            excuse = next((key for key in ((name, function), (name, "*")) if key in ALLOWED), None)
            if excuse is None:
                found.append(f"{name}:{line} ({function}): {what}")
            else:
                used.add(excuse)
    assert not found, "\n".join(found)
    assert used == set(ALLOWED), f"no longer needed: {set(ALLOWED) - used}"


@pytest.mark.parametrize(
    "source",
    [
        "x = np.log(y)",
        "x = math.exp(y)",
        "x = y.log()",
        "x = torch.pow(y, 3)",
        "x = y ** 0.5",
        "x = y ** n",
        "x = 2.0 ** n",
        "x = a @ b",
        "x = np.linalg.inv(a)",
        "from scipy.special import ndtr",
        "from math import log",
        "x = np.argsort(a)",
        "x = a.argsort()",
        "x = a.add(b, alpha=0.1)",
        "x = rng.normal()",
        "x = np.argpartition(a, 3)",
    ],
)
def test_what_is_not_portable_is_found(source: str) -> None:
    assert list(offences(source))


@pytest.mark.parametrize(
    "source",
    [
        "x = portable.log(y)",
        "x = tensors.power(y, 3.0)",
        "x = y ** 2",
        "x = 2 ** n",
        "x = 2.0 ** 54",
        "x = np.sqrt(y) + y / 3",
        "x = np.argsort(a, kind='stable')",
        "x = math.prod(y)",
    ],
)
def test_what_is_portable_is_not(source: str) -> None:
    assert not list(offences(source))
