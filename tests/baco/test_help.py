"""Help texts of all commands: shown as they are written, flags without types, names of options in one piece."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from baco.exploration.samplers.searchers import SEARCHERS
from baco.main import _app, run

_FRAME = str.maketrans("", "", "│╭╮╰╯─ \n")


def commands(program: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands of a program, groups too, with the words that lead to them."""

    def walk(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
        yield words, command
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk((*words, name), inner)

    return walk((), _app(program))


ALL = [(program, *one) for program in ("baco", "explore") for one in commands(program)]


def shown(
    program: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: Any, width: int
) -> str:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", width)
    assert run(program, [*words, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("program", "words", "command"), ALL, ids=lambda one: " ".join(one) if isinstance(one, tuple) else None
)
def test_help(
    program: str,
    words: tuple[str, ...],
    command: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide = shown(program, words, capsys, monkeypatch, 2000).translate(_FRAME)
    for parameter in command.params:
        # what stands in square brackets is markup to rich, unless it is escaped
        for bracketed in re.findall(r"\[[^\[\]]*\]", (parameter.help or "").replace("\\[", "[")):
            assert bracketed.translate(_FRAME) in wide, f"{parameter.name}: {bracketed} is swallowed"
    narrow = shown(program, words, capsys, monkeypatch, 80)
    for text in (wide, narrow):
        assert "<bool>" not in text
        assert "BOOLEAN" not in text
    for parameter in command.params:
        if getattr(parameter, "is_flag", False):
            assert parameter.metavar == ""
        elif parameter.metavar and " " not in parameter.metavar:
            assert parameter.metavar in narrow, f"{parameter.name}: {parameter.metavar} is broken"


def test_brackets_are_in_the_texts_that_are_tested() -> None:
    texts = [one.help or "" for _, _, command in ALL for one in command.params]
    assert any("baco\\[ray]" in text for text in texts)


def test_every_searcher_is_named() -> None:
    (text,) = (one.help for one in _app("explore").params if "--search" in one.opts)
    assert set(SEARCHERS) <= set(re.findall(r"[a-z-]+", text)) | {"blocks"}
