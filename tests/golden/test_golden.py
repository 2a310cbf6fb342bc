"""What other programs and people's scripts rely on is still there (see `tests/golden/outputs.py`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.golden.outputs import EXPECTED, gone, outputs, read

NAMES = sorted(path.stem for path in EXPECTED.glob("*.txt"))
FORMATS = Path(__file__).parents[2] / "docs" / "formats.md"


@pytest.fixture(scope="module")
def found() -> dict[str, list[str]]:
    return outputs()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_went(found: dict[str, list[str]], name: str) -> None:
    lines = gone(read(name), found[name])
    listed = "\n  ".join(lines)
    assert not lines, (
        f"{len(lines)} lines of {name}.txt went, on which scripts may rely:\n  {listed}\n"
        "Bring them back; if they must go, say so in the commit and run: python -m tests.golden.outputs"
    )


def test_everything_is_frozen(found: dict[str, list[str]]) -> None:
    new = [f"{name}: {line}" for name, lines in found.items() for line in gone(lines, read(name))]
    assert sorted(found) == NAMES
    assert not new, "not frozen yet; run python -m tests.golden.outputs:\n  " + "\n  ".join(new)


def test_what_goes_is_named() -> None:
    assert gone(["a: text", "b: number"], ["b: number", "c: text", "a: number"]) == ["a: text"]


def test_the_page_of_formats_names_everything() -> None:
    page = re.sub(r"```.*?```", "", FORMATS.read_text("utf-8"), flags=re.DOTALL)
    said = set(re.findall(r"`([^`]+)`", page))
    columns = [line.split(":")[0] for line in read("parquet")]
    fields = [line[1:].split(":")[0] for line in read("summary") if re.match(r"\.\w+:", line)]
    stored = [line.split(":")[0].split(".") for line in read("study") if re.match(r"\w+\.\w+: [A-Z]", line)]
    wanted = {*columns, *fields, *(table for table, _ in stored), *(column for _, column in stored)}
    assert wanted - said - {"format_version"} == set()
    assert len(wanted) > 60
