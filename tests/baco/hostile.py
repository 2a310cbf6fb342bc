"""Malformed and extreme inputs, and what every one of them must end with: one message, exit code 2, a clean terminal."""

import re
import signal
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from baco.main import run

#: What stands for a whole number somewhere, and is none that any field of ours takes.
NO_WHOLE_NUMBERS = (
    *("-1", "1.5", "nan", ".nan", ".inf", "-.inf", "1e400", "1" + "0" * 30, "9" * 5000, "-" + "9" * 30),
    *(
        "\u00b2",
        "\u0663",
        "\uff12",
        "1_000",
        "010",
        "1:30",
        "0b11",
        "true",
        "null",
        "[]",
        "{}",
        "'16'",
        "~",
        "0x",
    ),
)
#: Text that a terminal obeys, that forges lines of ours, or that no encoding has.
NO_NAMES = (
    *(
        "a\x1b[31mred",
        "a\nerror: forged",
        "a\r\nerror: forged",
        "a\rb",
        "a\tb",
        "a\x07",
        "a\x7fb",
        "a\x9b31mb",
    ),
    *(
        "a\u202egpj.exe",
        "a\u2066b",
        "a\u2028error: forged",
        "a\u2029b",
        "a\ufeffb",
        "a\u200bb",
        "a\U000e0041b",
    ),
    *("a\ufffe", "a\U0001ffff", "\x1b]0;title\x07", "\x1b[2J", "a\x00b", "a\x85b", "a\u00adb", "\x08\x08a"),
)
#: Names that are unusual and fine.
ODD_NAMES = (
    *("=1+1", "+cmd", "-2+3", "@SUM(A1)", "[red]markup[/red]", "[link=https://example.org]x[/link]", ":bug:"),
    *(
        "<script>alert(1)</script>",
        "a|b",
        "$x_{1}$",
        "${HOME}",
        "`id`",
        "%s%n",
        "{0}",
        "{{title}}",
        "a&b",
        '"quoted"',
    ),
    *("\u6f22\u5b57", "\u00b5m", "\U0001f600", "e\u0301", "a'b", "a\\nb", "</td><td>", "-->", "]]>", "&amp;"),
)


@dataclass(frozen=True)
class Case:
    """One attempt.

    Attributes:
        name: for the test's output.
        arguments: of `baco`; `{}` stands for the folder that `write` has filled.
        files: content by name.
    """

    name: str
    arguments: tuple[str, ...]
    files: dict[str, bytes | str] = field(default_factory=dict)


def write(case: Case, folder: Path) -> list[str]:
    """The arguments, after the files have been written."""
    for name, content in case.files.items():
        data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
        (folder / name).write_bytes(data)
    return [argument.replace("{}", str(folder)) for argument in case.arguments]


def check_message(code: int, out: str, err: str) -> None:
    """Exactly one message on standard error, exit code 2, nothing that a terminal obeys.

    What was being done when it failed may be said before it, in one line.
    """
    assert code == 2, f"exit code {code}: {err[-2000:]}"
    err = re.sub(r"\Areading [^\n]*\n", "", err)
    assert err.startswith("error: "), err[:2000]
    assert [line for line in err.split("\n") if line.startswith("error:")] == [err.split("\n")[0]], err[:2000]
    assert all(line.startswith("  ") for line in err.rstrip("\n").split("\n")[1:]), err[:2000]
    assert len(err) < 20_000
    for stream in (out, err):
        unfit = {c for c in stream if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
        assert not unfit, ascii(unfit)


def check_in_this_process(case: Case, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One message and exit code 2, after ten seconds of processor time at most."""
    arguments = write(case, folder)
    capsys.readouterr()
    with processor_seconds(10):
        code = run("baco", arguments)
    out, err = capsys.readouterr()
    check_message(code, out, err)


@contextmanager
def processor_seconds(limit: float) -> Iterator[None]:
    """Ends what takes longer, not counting what other processes take."""

    def late(*_: object) -> None:
        raise RuntimeError(f"more than {limit} s of processor time")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


#: The fixture `check_all`: tries every case, says which of them failed, and counts them.
CheckAll = Callable[[Iterable[Case]], int]


def check_all(
    cases: Iterable[Case], folder: Path, check: Callable[[Case, Path], None], *, third: bool = False
) -> int:
    """Check all of them, each in a folder of its own, say which of them failed, and count them.

    With `third`, one of each three in a row, the first, the second and the third in turn: of fields with values, each
    field with a third of the values, each value with a third of the fields.
    """
    number, failures = 0, []
    for number, case in enumerate(cases, 1):
        if third and (number - 1) % 3 != (number - 1) // 3 % 3:
            continue
        inner = folder / str(number)
        inner.mkdir()
        try:
            check(case, inner)
        except (AssertionError, Exception) as error:
            failures.append(f"{case.name}: {type(error).__name__}: {str(error)[:1500]}")
    assert not failures, f"{len(failures)} of {number}:\n" + "\n".join(failures[:40])
    return number


def quoted(text: str) -> str:
    """A YAML scalar in double quotes, every character beyond ASCII as an escape."""
    escaped = "".join(
        c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" if ord(c) > 0xFFFF else f"\\u{ord(c):04x}"
        for c in text
    )
    return f'"{escaped}"'


def product(
    *, lines: Callable[[str, str], str], fields: Iterable[str], values: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """(name, text) for every field with every value."""
    values = list(values)
    for one in fields:
        for value in values:
            yield f"{one}={value[:20]!r}", lines(one, value)
