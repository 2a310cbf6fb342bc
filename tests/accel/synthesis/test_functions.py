"""Liberty's functions: every row of their truth tables, whatever they are written like; what is none is said."""

from __future__ import annotations

import itertools
import random

import pytest

from baco.accel.synthesis.functions import read_function
from baco.common.errors import BacoError
from tests.seeds import seeds


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("A", "A"),
        ("!A", "1 - A"),
        ("A'", "1 - A"),
        ("!(A B)", "1 - (A & B)"),
        ("A B + C", "(A & B) | C"),
        ("A + B * C", "A | (B & C)"),
        ("A & B ^ C", "A & (B ^ C)"),
        ("(A+B)' C", "(1 - (A | B)) & C"),
        ("!A*!B|C&1", "((1 - A) & (1 - B)) | C"),
        ('(D[3] * A) + 0', "D & A"),
    ],
)  # fmt: skip
def test_operators_bind_as_the_user_guide_says(text: str, python: str) -> None:
    function = read_function(text)
    for values in itertools.product((0, 1), repeat=4):
        known = dict(zip("ABCD", values, strict=True))
        wanted = eval(python, {}, known)
        assert function.probability(lambda name, known=known: float(known[name[0]])) == wanted


@pytest.mark.parametrize("seed", seeds(10, of=200))
def test_random_functions_in_verilog_and_as_probabilities(seed: int) -> None:
    rng = random.Random(seed)

    def made(depth: int) -> tuple[str, str]:
        """A text of Liberty, and the same for Python, where bits are booleans."""
        kind = rng.choice(["pin", "not", "and", "or", "xor"]) if depth else "pin"
        if kind == "pin":
            name = rng.choice("ABC")
            return name, name
        first, second = made(depth - 1), made(depth - 1)
        if kind == "not":
            return f"!({first[0]})", f"(not {first[1]})"
        mark, word = {"and": ("*", "and"), "or": ("+", "or"), "xor": ("^", "!=")}[kind]
        return f"(({first[0]}) {mark} ({second[0]}))", f"(bool({first[1]}) {word} bool({second[1]}))"

    text, python = made(4)
    function = read_function(text)
    verilog = function.verilog({name: name for name in "ABC"})
    for values in itertools.product((False, True), repeat=3):
        known = dict(zip("ABC", values, strict=True))
        wanted = bool(eval(python, {}, known))
        assert function.probability(lambda name, known=known: float(known[name])) == float(wanted)
        # `~` of a boolean is that of an integer, so the lowest bit counts
        assert eval(verilog, {}, {name: int(bit) for name, bit in known.items()}) & 1 == wanted


@pytest.mark.parametrize("text", ["", "A +", "(A", "A)", "A ? B", "+", "A 2"])
def test_what_is_no_function_is_said(text: str) -> None:
    with pytest.raises(BacoError, match="is no function of Liberty"):
        read_function(text)
