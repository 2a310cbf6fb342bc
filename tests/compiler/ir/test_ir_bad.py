"""Ill-formed modules are rejected at every level, with the line and the reason, and never with a traceback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from baco.common.errors import InputError
from baco.main import run
from tests.compiler.ir.bad_ir import BAD_TEXTS, BadText
from tests.compiler.ir.ir_helpers import parsed


def test_there_are_many() -> None:
    assert len(BAD_TEXTS) >= 110
    assert len({bad.what for bad in BAD_TEXTS}) == len(BAD_TEXTS)


@pytest.mark.parametrize("bad", BAD_TEXTS, ids=[bad.what for bad in BAD_TEXTS])
def test_the_message_names_line_and_reason(bad: BadText) -> None:
    with pytest.raises(InputError) as caught:
        parsed(bad.text, bad.level)  # type: ignore[arg-type]
    error = caught.value
    assert re.search(bad.reason, str(error)), str(error)
    assert "\n" not in error.message
    assert "Traceback" not in str(error)
    assert error.location is not None
    assert error.location.file == "test.mlir"
    if bad.line is None:
        assert error.location.line is not None
    else:
        assert error.location.line == bad.line, str(error)


@pytest.mark.parametrize("bad", BAD_TEXTS[::6], ids=[bad.what for bad in BAD_TEXTS[::6]])
def test_the_command_line_says_so(bad: BadText, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.mlir"
    path.write_text(bad.text)
    assert run("baco", ["opt", str(path), *(["--from", bad.level] if bad.level else [])]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {path}:")
    assert "Traceback" not in err
    assert "internal error" not in err
