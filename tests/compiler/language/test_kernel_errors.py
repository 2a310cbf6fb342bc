"""Bad kernels and launches: every message shows the line that is wrong, and says what was expected."""

import random
import textwrap
import uuid
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import baco
from baco.common.errors import BacoError
from tests.compiler.language.bad_kernels import BAD, PARAMETERS
from tests.user_module import user_module

HEADER = """
import baco
import numpy as np

table = {1: 2}


def helper(v):
    raise RuntimeError("executed")


@baco.jit
def twice(v):
    return v + v


@baco.jit
def forever(v):
    return forever(v)


@baco.jit
def constant_only(v: baco.const):
    return v
"""


def load(folder: Path, text: str) -> ModuleType:
    """The text as a module."""
    return user_module(folder / f"user_{uuid.uuid4().hex}.py", text)


def arguments() -> list[Any]:
    read_only = np.zeros(32, np.uint8)
    read_only.flags.writeable = False
    a, b = np.ones((32, 32), np.int8), np.ones((32, 32), np.int8)
    return [a, b, np.zeros((32, 32), np.int32), np.zeros(32, np.int32), read_only, 32, 32, 32, 0.5, 4]


@pytest.mark.parametrize(("body", "reason"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_kernel(tmp_path: Path, body: str, reason: str) -> None:
    source = (
        HEADER
        + f"\n\n@baco.jit\ndef kernel({PARAMETERS}):\n"
        + textwrap.indent(body.strip("\n"), "    ")
        + "\n"
    )
    wrong = next(number for number, line in enumerate(source.splitlines(), 1) if line.endswith("#!"))
    try:
        compile(source, "kernel", "exec")
    except SyntaxError:
        pytest.skip("Python itself rejects this")
    with pytest.raises(BacoError, match=reason) as caught:
        load(tmp_path, source).kernel[(4,)].module(*arguments())
    error = caught.value
    if "read-only" in reason:
        return  # an error of the launch
    assert error.location is not None
    assert error.location.line == wrong, str(error)
    shown = source.splitlines()[wrong - 1].strip()
    assert shown in str(error)
    caret = str(error).splitlines()[2]
    assert caret.strip().startswith("^")
    # The caret stands below the column of the location.
    line = source.splitlines()[wrong - 1]
    indent = len(line) - len(line.lstrip())
    assert caret.index("^") == 4 + error.location.column - 1 - indent


def test_enough_bad_kernels() -> None:
    assert len(BAD) >= 150
    assert len({name for name, _, _ in BAD}) == len(BAD)


def test_a_kernel_is_never_executed(tmp_path: Path) -> None:
    target = tmp_path / "written"
    text = f"""
import baco
import os


@baco.jit
def kernel(a, n: baco.const):
    os.system("touch {target}")
    baco.store(a, n)
"""
    with pytest.raises(BacoError, match="not executed by Python"):
        load(tmp_path, text).kernel[1].module(np.zeros(4, np.int8), 3)
    assert not target.exists()


def test_recursion(tmp_path: Path) -> None:
    text = HEADER + "\n\n@baco.jit\ndef kernel(a, n):\n    v = forever(n)\n"
    with pytest.raises(BacoError, match="`forever` calls itself"):
        load(tmp_path, text).kernel[1].module(np.zeros(4, np.int8), 3)


def test_the_message_in_full(tmp_path: Path) -> None:
    text = (
        "import baco\n\n\n@baco.jit\ndef kernel(a, n):\n    pid = baco.program_id(0)\n    row = 1 + pid / n\n"
    )
    module = load(tmp_path, text)
    with pytest.raises(BacoError) as caught:
        module.kernel[1].module(np.zeros(4, np.int8), 3)
    assert str(caught.value) == (
        f"{module.__file__}:7:15: `/` gives a fraction, and a kernel computes with integers\n"
        "    row = 1 + pid / n\n"
        "              ^~~~~~~\n"
        "  hint: write `//` for the integer quotient"
    )


def test_columns_after_other_alphabets(tmp_path: Path) -> None:
    text = "import baco\n\n\n@baco.jit\ndef kernel(a, n):\n    größe = n; v = größe / n\n"
    with pytest.raises(BacoError) as caught:
        load(tmp_path, text).kernel[1].module(np.zeros(4, np.int8), 3)
    assert str(caught.value).splitlines()[2] == " " * 4 + " " * 15 + "^~~~~~~~~"


def test_indented_kernels(tmp_path: Path) -> None:
    text = """
import baco


def make():
    @baco.jit
    def kernel(a, n):
        baco.store(a, n)
        v = n / 2

    return kernel
"""
    with pytest.raises(BacoError) as caught:
        load(tmp_path, text).make()[1].module(np.zeros(4, np.int8), 3)
    assert caught.value.location is not None
    assert (caught.value.location.line, caught.value.location.column) == (9, 13)


def test_errors_in_helpers_show_the_helper(tmp_path: Path) -> None:
    text = """
import baco


@baco.jit
def half(v):
    return v / 2


@baco.jit
def kernel(a, n):
    baco.store(a, half(n))
"""
    with pytest.raises(BacoError, match="return v / 2") as caught:
        load(tmp_path, text).kernel[1].module(np.zeros(4, np.int8), 3)
    assert caught.value.location is not None
    assert caught.value.location.line == 7


SIMPLE = """
import baco


@baco.jit
def kernel(a, b, n, B: baco.const, flag=None):
    i = baco.program_id(0) * B + baco.arange(0, B)
    baco.store(b + i, baco.load(a + i, mask=i < n), mask=i < n)
"""


def _int8(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int8)


#: What differs from a launch that is right, and what is said.
BAD_LAUNCHES: list[tuple[dict[str, Any], str]] = [
    ({"size": 3}, "no parameter `size`"),
    ({"a": np.zeros(8)}, "`a` has elements float64"),
    ({"a": np.zeros(8, np.int64)}, "`a` has elements int64"),
    ({"a": np.zeros(8, ">i4")}, "`a` has elements"),
    ({"a": torch.zeros(8).double()}, "`a` has elements torch.float64"),
    ({"b": torch.eye(4, dtype=torch.int32).to_sparse()}, "no plain tensor"),
    ({"a": torch.zeros(8, dtype=torch.int8, device="meta")}, "`a` is on meta"),
    ({"a": _int8(0)}, "no elements"),
    ({"a": _int8(8)[::-1]}, "stored backwards"),
    ({"a": [1, 2]}, "`a` is of type list"),
    ({"a": object()}, "`a` is of type object"),
    ({"B": _int8(8)}, "`B` is a compile-time constant, got an array"),
    ({"n": 1 << 60}, "too large"),
    ({"grid": 0}, "has no programs"),
    ({"grid": (1, -1)}, "has no programs"),
    ({"grid": (1, 1, 1, 1)}, "1 to 3 axes"),
    ({"grid": ()}, "1 to 3 axes"),
    ({"grid": (1.5,)}, "not made of integers"),
    ({"grid": "12"}, "not made of integers"),
    ({"grid": (True,)}, "not made of integers"),
    ({"grid": (1 << 20, 1 << 20)}, "more than"),
    ({"a": 8}, "cannot|needs a pointer"),
    ({"n": _int8(1)}, "does not compare a pointer"),
]


@pytest.mark.parametrize(
    ("changes", "reason"), BAD_LAUNCHES, ids=lambda one: one if type(one) is str else None
)
def test_bad_launch(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    given = {"a": _int8(8), "b": _int8(8), "n": 8, "B": 8, "grid": 1} | changes
    with pytest.raises(BacoError, match=reason):
        load(tmp_path, SIMPLE).kernel[given.pop("grid")].module(**given)


def test_arguments_by_place(tmp_path: Path) -> None:
    launcher, a, b = load(tmp_path, SIMPLE).kernel[1], _int8(8), _int8(8)
    with pytest.raises(BacoError, match="no value for `n`, `B`"):
        launcher.module(a, b)
    with pytest.raises(BacoError, match="6 arguments for 5 parameters"):
        launcher.module(a, b, 8, 8, None, 3)
    with pytest.raises(BacoError, match="two values for `n`"):
        launcher.module(a, b, 8, 8, n=3)


def test_arrays_that_overlap_with_different_types(tmp_path: Path) -> None:
    whole = np.zeros(8, np.int32)
    with pytest.raises(BacoError, match="overlap in memory"):
        load(tmp_path, SIMPLE).kernel[1].module(whole, whole.view(np.int8), 8, 8)


def test_a_call_without_grid(tmp_path: Path) -> None:
    with pytest.raises(BacoError, match="without a grid"):
        load(tmp_path, SIMPLE).kernel(_int8(8), _int8(8), 8, 8)


def test_primitives_outside_of_kernels() -> None:
    with pytest.raises(BacoError, match="in kernels only"):
        baco.program_id(0)
    assert baco.cdiv(7, 2) == 4
    assert baco.cdiv(7, 2) * 3 == 12
    with pytest.raises(BacoError, match="positive"):
        baco.cdiv(7, 0)
    with pytest.raises(BacoError, match="two integers"):
        baco.cdiv(7.5, 2)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("@baco.jit\ndef kernel(*a):\n    pass\n", "a kernel has no `\\*a`"),
        ("@baco.jit\ndef kernel(**a):\n    pass\n", "a kernel has no `\\*a`"),
        ("kernel = baco.jit(lambda a: a)\n", "no plain function|cannot be read alone"),
        ("kernel = baco.jit(3)\n", "is no function"),
        ("kernel = baco.jit(len)\n", "is no function"),
        ("@baco.jit\nclass Kernel:\n    pass\n", "is no function"),
        ("@baco.jit\nasync def kernel(a):\n    pass\n", "no plain function"),
        ("exec('@baco.jit\\ndef kernel(a):\\n    pass')\n", "cannot be read"),
        ("@baco.autotune([])\n@baco.jit\ndef kernel(a, B: baco.const):\n    pass\n", "at least one Config"),
        ("@baco.autotune([3])\n@baco.jit\ndef kernel(a, B: baco.const):\n    pass\n", "list of Config"),
        (
            "@baco.autotune([baco.Config({'C': 3})])\n@baco.jit\ndef kernel(a, B: baco.const):\n    pass\n",
            "sets `C`",
        ),
        (
            "@baco.autotune([baco.Config({'a': 3})])\n@baco.jit\ndef kernel(a, B: baco.const):\n    pass\n",
            "sets `a`",
        ),
        (
            "@baco.autotune([baco.Config({'B': 3})], key=['z'])\n@baco.jit\ndef kernel(a, B: baco.const):\n    pass\n",
            "key `z`",
        ),
        (
            "@baco.autotune([baco.Config({'B': 3})])\ndef kernel(a, B: baco.const):\n    pass\n",
            "stands above @baco.jit",
        ),
        ("baco.Config(3)\n", "takes a dict"),
        ("baco.use(engin='rtl')\n", "no option 'engin'"),
    ],
)
def test_bad_definitions(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(BacoError, match=reason):
        load(tmp_path, "import baco\n\n" + text)


def test_unknown_names_of_the_module() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'lode'"):
        _ = baco.lode
    assert "program_id" in dir(baco.language)


VALUES = [
    "M",
    "0",
    "-3",
    "2.5",
    "True",
    "None",
    "'int8'",
    "baco.int32",
    "(M, 4)",
    "a",
    "c",
    "baco.program_id(0)",
    "i",
    "i[:, None]",
    "i * 3 + M",
    "(i < M)",
    "(i[:, None] < 3)",
    "z",
    "z.to('int8')",
    "z[:, None]",
    "baco.load(x + i)",
    "baco.load(a)",
    "(a + i)",
    "(a + i[:, None] * 32 + i)",
    "q",
    "twice",
    "baco",
    "range(3)",
]
BINARY = [
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    "@",
    "<",
    "==",
    "!=",
    "is",
    "in",
    "and",
    "or",
]
CALLS = [
    "baco.load({})",
    "baco.load({}, mask={})",
    "baco.load({}, other={})",
    "baco.store({}, {})",
    "baco.store({}, {}, mask={})",
    "baco.dot({}, {})",
    "baco.maximum({}, {})",
    "min({}, {})",
    "baco.where({}, {}, {})",
    "baco.zeros({}, {})",
    "baco.full({}, {}, {})",
    "baco.arange({}, {})",
    "baco.cdiv({}, {})",
    "baco.requantize({}, {})",
    "baco.cast({}, {})",
    "baco.sum({}, {})",
    "baco.max({}, axis={}, keep_dims={})",
    "baco.softmax({}, {})",
    "baco.softmax({}, {}, mask={})",
    "baco.trans({}, {})",
    "baco.expand_dims({}, {})",
    "baco.broadcast_to({}, {})",
    "baco.advance({}, {})",
    "baco.make_block_ptr({}, {}, {}, {}, {})",
    "{}.to({})",
    "{}.T",
    "{}.shape",
    "{}[:, None]",
    "{}[None]",
    "{}[{}]",
    "twice({})",
    "abs({})",
    "int({})",
    "len({})",
    "(-{})",
    "(~{})",
    "(not {})",
    "({} if {} else {})",
]


@pytest.mark.parametrize("seed", range(6))
def test_random_expressions_give_values_or_errors_of_ours(tmp_path: Path, seed: int) -> None:
    """Whatever is written, a message of ours comes, never a traceback of the compiler."""
    rng = random.Random(seed)

    def expression(depth: int) -> str:
        if depth == 0 or rng.random() < 0.2:
            return rng.choice(VALUES)
        if rng.random() < 0.4:
            return f"({expression(depth - 1)} {rng.choice(BINARY)} {expression(depth - 1)})"
        call = rng.choice(CALLS)
        return call.format(*("(" + expression(depth - 1) + ")" for _ in range(call.count("{}"))))

    functions = []
    for number in range(60):
        body = [
            "i = baco.arange(0, B)",
            "z = baco.zeros((B,))",
            "q = baco.make_block_ptr(a, (M, K), (K, 1), (0, 0), (4, 4))",
        ]
        name = rng.choice(["v", "z", "i", "q"])
        if rng.random() < 0.3:
            body += [f"for j in range({rng.choice(['3', 'M', '0', 'baco.program_id(0)'])}):"]
            body += [f"    {name} = {expression(2)}"]
        else:
            body += [f"{name} = {expression(rng.choice([1, 2, 3]))}"]
        functions.append(f"@baco.jit\ndef kernel{number}({PARAMETERS}):\n    " + "\n    ".join(body) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        module = load(tmp_path, HEADER + "\n\n" + "\n\n".join(functions))
    accepted = 0
    for number in range(60):
        try:
            getattr(module, f"kernel{number}")[(4,)].module(*arguments())
            accepted += 1
        except BacoError:
            continue
    assert accepted < 60
