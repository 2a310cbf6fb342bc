"""Planted faults are such that a test can judge them: each changes one place of a file that still parses."""

import ast
from collections import Counter

import pytest

from tests.mutation import ROOMS, ROOT, Mutant, draw, marked, near, python_faults, verilog_faults


def test_faults_of_python() -> None:
    text = "def f(a, b):\n    '''3 + 4'''\n    return max(a, 2) - b if a < b and not a in (b,) else f(a)[0]\n"
    found = {text[:start] + new + text[end:] for start, end, new in python_faults(text)}
    for old, new in (
        ("max", "min"),
        ("2)", "3)"),
        (" - ", " + "),
        ("<", "<="),
        ("and", "or"),
        ("[0]", "[1]"),
    ):
        assert text.replace(old, new) in found
    assert all("'''3 + 4'''" in one for one in found)


def test_faults_of_verilog() -> None:
    text = "  if (a == b && c) x <= y + 2'd1; // a == b\n`define X 1 + 2\n"
    found = {text[start:end] + new for start, end, new in verilog_faults(text)}
    assert found == {"==!=", "&&||", " +  - ", "d1d0"}


def test_faults_are_drawn_from_all_rooms_and_have_tests() -> None:
    mutants = draw(8, 0, list(ROOMS))
    assert Counter(one.room for one in mutants) == dict.fromkeys(ROOMS, 2)
    assert mutants == draw(8, 0, list(ROOMS)) != draw(8, 1, list(ROOMS))
    for mutant in mutants:
        text = (ROOT / mutant.file).read_text()
        wrong = mutant.applied(text)
        assert wrong != text
        if mutant.file.endswith(".py"):
            assert ast.dump(ast.parse(wrong)) != ast.dump(ast.parse(text))
    assert any(near(mutant, ROOT) for mutant in mutants)


def test_functions_around_faults_are_marked() -> None:
    text = (
        'LIMIT = 3\n\n\ndef outer(a):\n    """Doc."""\n\n    @cache\n    def inner(b):\n'
        "        return b + 1\n\n    return inner(a) * 2\n"
    )
    offsets = {7: text.index("3"), 8: text.index("1\n"), 9: text.index("2\n")}
    mutants = {number: Mutant("model", "", start, start + 1, "0") for number, start in offsets.items()}
    whole, outside = marked(text, mutants)
    assert outside == {7}
    mark = '__import__("tests.marks", fromlist=["passed"]).passed'
    assert f'"""\n\n    {mark}(9)\n    @cache' in whole
    assert f"(b):\n        {mark}(8)\n        return" in whole
    ast.parse(whole)


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_faults_of_its_files(room: str) -> None:
    assert len({one.file for one in draw(200, 0, [room])}) >= 5
