"""Ill-formed modules are rejected at every level, with the line and the reason, and never with a traceback."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from baco.common.errors import InputError
from baco.main import run
from tests.compiler.ir.ir_helpers import function, parsed

_ERROR = re.compile(r"// error(?: in (\w+))?( anywhere)?: (.*)")


class BadText(NamedTuple):
    """What is read as `level` (None: as any) must fail at `line` (None: at some line) with `reason`."""

    text: str
    line: int | None
    reason: str
    level: str | None = None


def marked(file: str, *, bodies: bool) -> list[BadText]:
    """The texts of a file beside this one; `bodies`: of functions."""
    _, *sections = Path(__file__).with_name(file).read_text(encoding="utf-8").split("\n\n")
    found = []
    for section in sections:
        text = function(section) if bodies else section.rstrip("\n") + "\n"
        ((line, mark),) = [
            (number, mark) for number, one in enumerate(text.split("\n"), 1) if (mark := _ERROR.search(one))
        ]
        found.append(BadText(text, None if mark[2] else line, mark[3], mark[1]))
    return found


BAD_TEXTS = [
    BadText("\x01\x02", 1, "."),
    # the error is behind the last line
    BadText("", 1, "entire input"),
    BadText("// nothing\n", 2, "entire input"),
    BadText("builtin.module {\n", 2, "block"),
    BadText("func.func @f() {\n  func.return\n", 3, "block"),
    BadText("builtin.module {\n" * 300 + "}\n" * 300, 101, "nested too deeply"),
    *marked("invalid_modules.mlir", bodies=False),
    *marked("invalid_functions.mlir", bodies=True),
]


def test_there_are_many() -> None:
    assert len({bad.text for bad in BAD_TEXTS}) == len(BAD_TEXTS) >= 110


@pytest.mark.parametrize("bad", BAD_TEXTS, ids=lambda bad: bad.reason)
def test_the_message_names_line_and_reason(bad: BadText) -> None:
    with pytest.raises(InputError) as caught:
        parsed(bad.text, bad.level)  # type: ignore[arg-type]
    error = caught.value
    assert re.search(bad.reason, str(error)), str(error)
    assert "\n" not in error.message
    assert "Traceback" not in str(error)
    assert error.location is not None
    assert error.location.file == "test.mlir"
    assert error.location.line is not None
    assert bad.line in (None, error.location.line), str(error)


@pytest.mark.parametrize("bad", BAD_TEXTS[::6], ids=lambda bad: bad.reason)
def test_the_command_line_says_so(bad: BadText, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.mlir"
    path.write_text(bad.text)
    assert run("baco", ["opt", str(path), *(["--from", bad.level] if bad.level else [])]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {path}:")
    assert "Traceback" not in err
    assert "internal error" not in err
