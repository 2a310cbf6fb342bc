"""Whatever malformed input is given, the command line answers with one message and exit code 2."""

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from baco.api.preparation import PreparedSearch
from baco.common.errors import InputError
from baco.main import run
from tests.seeds import some
from tests.system.malformed_inputs import EXPLORE, Case, cases

CASES = cases()
ACCEPTED = "the input was accepted"


def accepted(*_: object) -> NoReturn:
    """In place of a search: no case may reach one."""
    raise InputError(ACCEPTED)


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 300


def _id(case: Case) -> str:
    return case.name.encode("ascii", "replace").decode()[:90]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("case", some(len(CASES) // 3, CASES[::3] + CASES[1::3] + CASES[2::3]), ids=_id)
def test_one_message_and_exit_code_2(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for name, data in case.files.items():
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_bytes(data)
    monkeypatch.chdir(here)
    if case.arguments[: len(EXPLORE)] == EXPLORE:
        monkeypatch.setattr(PreparedSearch, "run", accepted)
    out = str(tmp_path / "out")

    code = run("baco", [argument.replace("{out}", out) for argument in case.arguments])

    captured = capfd.readouterr()
    assert code == 2, captured
    assert "Traceback" not in captured.out + captured.err
    messages = [line for line in captured.err.splitlines() if line.startswith("error: ")]
    assert len(messages) == 1, captured.err
    assert captured.out == ""
    assert ACCEPTED not in captured.err
    assert "internal error" not in captured.err
    assert case.words in captured.err
    assert len(captured.err) < 6000, "a message, not a dump"
    assert set(_files(here)) == set(case.files), "nothing is left behind beside the input"


def _files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder))
