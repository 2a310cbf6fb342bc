"""What documentation in the code cites between backquotes exists: a name that was changed is changed where it is cited, too."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
_WORD = re.compile(r"[A-Za-z_]\w*")
#: Docstrings, which begin their lines, and comments.
_DOCUMENTATION = re.compile(r'(?:^[ \t]*"""(?s:.*?)"""|(?:^|(?<=\s))#[: ].*$)', re.MULTILINE)
#: A name or a path of names, called or not. What else stands between backquotes is a formula, a command or a form.
_REFERENCE = re.compile(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(\))?`")
#: Names that stand for whatever a user writes, as in HOST or MODEL.onnx.
_PLACEHOLDER = re.compile(r"(?:[a-z]+_)?[A-Z]+")
#: Files whose words are text about the code, or data, and define no name.
_PROSE = {".md", ".json", ".csv", ".ipynb", ".html", ".txt", ".svg"}
#: Names of other projects, and where a reader finds them.
_OF_OTHERS = {
    "GemminiArrayConfig": "Gemmini's Scala sources",
    "LlamaForCausalLM": "architectures of Hugging Face's config.json",
    "GPT2LMHeadModel": "architectures of Hugging Face's config.json",
    "BertModel": "architectures of Hugging Face's config.json",
    "ViTForImageClassification": "architectures of Hugging Face's config.json",
    "arr_0": "members of numpy's archives",
    "arr_1": "members of numpy's archives",
}


def _files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("the files of the repository are not known: this is no checkout of git")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def _python(text: str) -> tuple[set[str], list[tuple[int, str]]]:
    """Words of a module's code, strings of data among them, and lines of its docstrings and comments with their numbers."""
    code, documentation, start, line = [], [], 0, 1
    for found in _DOCUMENTATION.finditer(text):
        line += text.count("\n", start, found.start())
        code.append(text[start : found.start()])
        documentation += enumerate(found.group().split("\n"), line)
        line += found.group().count("\n")
        start = found.end()
    return set(_WORD.findall("".join([*code, text[start:]]))), documentation


def _missing(files: list[Path]) -> list[str]:
    known: set[str] = set(_OF_OTHERS)
    cited: list[tuple[str, str]] = []
    for path in files:
        known.update(_WORD.findall(str(path.relative_to(ROOT))))
        if path.suffix in _PROSE:
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if path.suffix != ".py":
            known.update(_WORD.findall(text))
            continue
        words, lines = _python(text)
        known |= words
        cited += [
            (f"{path.relative_to(ROOT)}:{number}", name)
            for number, line in lines
            for name in _REFERENCE.findall(line)
        ]
    return [
        f"{where}: `{name}`"
        for where, name in cited
        if not all(word in known or _PLACEHOLDER.fullmatch(word) for word in name.split("."))
    ]


def test_names_that_docstrings_and_comments_cite_exist() -> None:
    assert not _missing(_files())


def test_a_name_that_is_nowhere_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "one.py"
    path.write_text(
        'def f(x: int) -> int:\n    """As `g` of `f`, for `X.onnx` or `x`."""\n    return x  # `f.h`\n'
    )
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    assert _missing([path]) == ["one.py:2: `g`", "one.py:2: `X.onnx`", "one.py:3: `f.h`"]
