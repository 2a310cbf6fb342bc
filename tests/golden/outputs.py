"""What other programs and people's scripts rely on, as lines: the Python interface, formats, and the form of consoles.

`python -m tests.golden.outputs` writes the lines anew into `tests/golden/expected`. Later changes may only add to them:
`git diff tests/golden` must show no line that went without a word in the commit.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import baco
from baco import language
from baco.main import run

EXPECTED = Path(__file__).with_name("expected")
TABLE = """
name: small
layers:
  - {name: window, type: conv, R: 3, S: 3, P: 6, Q: 6, C: 4, K: 8, count: 2}
  - {name: product, type: gemm, M: 12, K: 10, N: 9}
"""
SPACE = "name: tiny\ndim: [4, 8]\nscratchpad_kib: [16, 32]\naccumulator_kib: [8]\ndataflows: [WS]\n"


#: Lines of consoles that depend on the clock, or on what has been built before.
_CIRCUMSTANCES = (
    "samples/s|: [0-9,]+ of [0-9,]+$|of this left|simulated in|^building the|^compiling |^translating the"
)


def outputs() -> dict[str, list[str]]:
    """Lines by the name of their file. It searches a small network, which takes seconds."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name)
        (folder / "table.yaml").write_text(TABLE)
        (folder / "space.yaml").write_text(SPACE)
        found = {"interface": list(interface())}
        found["consoles"] = [line for command in CONSOLES for line in console(command)]
        study = folder / "study"
        summary = json.loads((study / "summary.json").read_text())
        found["summary"] = sorted(shape(summary))
        found["parquet"] = [
            # versions of Arrow differ in what they call an element
            f"{one.name}: {one.type}".replace("list<item:", "list<element:")
            for one in pq.read_schema(study / "candidates.parquet")
        ]
        found["study"] = list(tables(study / "study.sqlite"))
        found["json"] = [
            f"{' '.join(command)}: {line}"
            for command in DOCUMENTS
            for line in sorted(shape(printed(command)))
        ]
        found["files"] = sorted(
            path.relative_to(study).as_posix()
            for path in study.rglob("*")
            if path.is_file() and ".lock" not in path.name
        )
    return found


#: In the order they are called, since later ones need what earlier ones write.
CONSOLES = (
    ("explore", "--network", "table.yaml", "--space", "space.yaml", "--samples", "20", "--out", "study"),
    (
        "explore",
        "--network",
        "table.yaml",
        "--objective",
        "latency,area",
        "--samples",
        "20",
        "--out",
        "several",
    ),
    ("networks", "table.yaml"),
    ("compare", "study", "several"),
    ("evaluate", "study/best/mappings.csv", "--out", "predicted.csv"),
    ("run", "--conv", "6x6x4:8,k3,p1", "--accelerator", "study"),
    ("compile", "--gemm", "12x10x9", "--out", "product.elf"),
    ("rtl", "study", "--out", "accelerator.v"),
    ("report", "study"),
    ("explore", "--network", "resnet5"),
    (
        "explore",
        "--network",
        "table.yaml",
        "--space",
        "space.yaml",
        "--samples",
        "20",
        "--out",
        "later",
        "--resume",
    ),
    ("run", "--conv", "6x6"),
)
DOCUMENTS = (
    ("networks", "table.yaml", "--json"),
    ("compare", "study", "--json"),
    ("evaluate", "study/best/mappings.csv", "--out", "predicted.csv", "--json"),
    ("run", "--gemm", "12x10x9", "--json"),
)


def interface() -> Iterator[str]:
    """Every public name, a line a parameter, and the public members of classes: parameters and members may be added."""
    for name in (
        *baco.__all__,
        "compile",
        "max",
        "min",
        "sum",
        *sorted({*language.__all__} - {*baco.__all__}),
    ):
        thing = getattr(baco, name)
        if not inspect.isclass(thing):
            yield from _signature(name, thing)
            continue
        yield f"class {name}"
        fields = getattr(thing, "model_fields", None) or getattr(thing, "__dataclass_fields__", {})
        for member in sorted({*fields, *vars(thing)}):
            if not member.startswith(("_", "model_")):
                yield from _signature(f"{name}.{member}", inspect.getattr_static(thing, member, None))


def _signature(name: str, thing: Any) -> Iterator[str]:
    yield name
    function = getattr(thing, "__func__", thing)  # of a class method
    if inspect.isfunction(function):
        signature = inspect.signature(function)
        for one in signature.parameters.values():
            where = re.sub(r" at 0x[0-9a-f]+", "", str(one))  # of a default that is a function
            yield f"{name}({one.kind.description}) {where}"
        yield f"{name} -> {signature.return_annotation}"


def console(command: tuple[str, ...]) -> Iterator[str]:
    """What a command prints, in the form that does not depend on figures: numbers as #, without times."""
    code, out, err = call(command)
    for stream, text in (("out", out), ("err", err)):
        # progress depends on the clock, and what is built on the cache
        lines = [line for line in text.splitlines() if not re.search(_CIRCUMSTANCES, line)]
        for line in lines:
            yield f"{' '.join(command)} [{code}] {stream}: {_form(line)}"


def _form(line: str) -> str:
    line = re.sub(r"\b[0-9a-f]{16}\b", "HASH", line)
    # what is listed, chosen and counted may become more, or another
    line = re.sub(r"(allowed: |schedule: |commands  .*\(|unrolled to .*\(|worst \w+: ).*", r"\1...", line)
    line = re.sub(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?", "#", line)
    return re.sub(r"\s+", " ", line).strip()


def printed(command: tuple[str, ...]) -> Any:
    """The JSON document of a command."""
    return json.loads(call(command)[1])


def call(command: tuple[str, ...]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run("baco", list(command))
    return code, out.getvalue(), err.getvalue()


def shape(value: Any, path: str = "") -> set[str]:
    """Paths of a JSON document with the types of what is there."""
    if isinstance(value, dict):
        # dictionaries by names of users' things have no fields of ours
        named = path.endswith(
            (".versions", ".options", ".networks", ".commands", ".unrolled", ".counters", ".activity")
        )
        parts = [shape(one, f"{path}.{'*' if named else key}") for key, one in value.items()]
        return set().union({f"{path or '.'}: object"}, *parts)
    if isinstance(value, list):
        return set().union({f"{path or '.'}: list"}, *(shape(one, f"{path}[]") for one in value))
    kinds: dict[type, str] = {str: "text", bool: "truth", type(None): "null"}
    return {f"{path}: {kinds.get(type(value), 'number')}"}


def tables(path: Path) -> Iterator[str]:
    """Tables and columns of a study, and the shapes of the JSON in them."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        rows: Callable[[str], list[Any]] = lambda query: connection.execute(query).fetchall()  # noqa: E731
        yield f"application id {rows('PRAGMA application_id')[0][0]:#x}, version {rows('PRAGMA user_version')[0][0]}"
        for (table,) in rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"):
            for _, column, kind, *_ in rows(f"PRAGMA table_info({table})"):
                yield f"{table}.{column}: {kind}"
        for key, value in rows("SELECT key, value FROM meta ORDER BY key"):
            yield from (f"meta {key}{line}" for line in sorted(shape(json.loads(value))))


def gone(expected: list[str], found: list[str]) -> list[str]:
    """Lines that are expected and not found."""
    return [line for line in expected if line not in set(found)]


def read(name: str) -> list[str]:
    """The expected lines of a file."""
    return (EXPECTED / f"{name}.txt").read_text("utf-8").splitlines()


def main() -> None:
    """Write the lines anew, and say what went."""
    os.makedirs(EXPECTED, exist_ok=True)
    for name, lines in outputs().items():
        path = EXPECTED / f"{name}.txt"
        for line in gone(read(name), lines) if path.exists() else ():
            print(f"{name}: gone: {line}")
        path.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
