"""Errors name options as the user writes them: on the command line, or in Python."""

from __future__ import annotations

import pytest

from baco.common.door import at_command_line, in_the_words_of_the_door
from baco.common.errors import InputError, Location

ERROR = InputError(
    "--time-limit must be positive",
    location=Location("--cost-model"),
    hint="take --cost-model reference, raise --samples, or leave --timing out: `baco run --log FILE.csv`",
)


def test_python_callers_read_arguments() -> None:
    assert str(ERROR) == (
        "`cost_model`: `time_limit` must be positive\n"
        "  hint: take `cost_model='reference'`, raise `samples`, or leave `timing` out: `baco run --log FILE.csv`"
    )


def test_the_command_line_reads_options() -> None:
    with at_command_line():
        assert str(ERROR).startswith("--cost-model: --time-limit must be positive")
        assert "raise --samples" in str(ERROR)
    assert "--samples" not in str(ERROR)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("add --engine rtl", "add `engine='rtl'`"),
        ("--search dosa-published, or none", "`search='dosa-published'`, or none"),
        ("continue with --resume", "continue with `resume=True`"),
        ("enlarge memory with --memory-mib", "enlarge memory with `memory=MainMemory(size_bytes=...)`"),
        ("--engine and --timing exclude each other", "`engine` and `timing` exclude each other"),
        ("a--b, ---c and x --", "a--b, ---c and x --"),
    ],
)
def test_single_words(text: str, wanted: str) -> None:
    assert in_the_words_of_the_door(text) == wanted
