"""Whether the tests can fail: small faults are planted one by one in a scratch copy, and the tests of that room run.

`python -m tests.mutation --count 100 --seed 0` draws faults over four rooms (cost models, compiler, Verilog, studies), runs
first the tests that name the faulty file and then, if they pass, the others of the room, and prints what was caught and
what survived with the faulty line. `--suite FOLDER` judges the tests of another checkout by the same faults.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Sources that faults are planted in, and folders of the tests that should see them.
ROOMS = {
    "model": (("explore/cost", "compiler/latency"), ("tests/explore/cost", "tests/compiler/latency")),
    "compiler": (
        ("compiler/mapping", "compiler/schedules", "compiler/styles", "compiler/passes", "compiler/network"),
        ("tests/compiler",),
    ),
    "rtl": (("accel/rtl",), ("tests/accel/rtl", "tests/sim/engines", "tests/sim/cosim")),
    "study": (("explore/studies",), ("tests/explore/studies",)),
}
#: In the repository and as it is imported.
_PACKAGES = {"explore": "baco.exploration", "compiler": "baco.compiler"}
#: Not copied: what tests of these rooms do not read.
_LEFT_OUT = (".git", ".venv", "results", "__pycache__", "build", "*.egg-info", ".*_cache")
_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
_COUNTED: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*"), ast.Div: ("/", "*"),
    ast.Mod: ("%", "*"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
}  # fmt: skip
#: Verilog: what stands there, and what is put there. `<=` also assigns, so that orders are left alone.
_VERILOG = (
    (r"==", lambda m: "!="),
    (r"!=", lambda m: "=="),
    (r"&&", lambda m: "||"),
    (r"\|\|", lambda m: "&&"),
    (r"(?<=[\w)\]]) \+ (?=[\w(])", lambda m: " - "),
    (r"(?<=[\w)\]]) - (?=[\w(])", lambda m: " + "),
    (r"(?<=')d(\d+)\b", lambda m: f"d{int(m[1]) ^ 1}"),
)
#: Beside ten times as long as without a fault: then it hangs, and that is noticed.
_PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        room: one of ROOMS.
        file: in the repository.
        start: offset of what is replaced in the file's text; `end` behind it.
        new: what stands there instead.
    """

    room: str
    file: str
    start: int
    end: int
    new: str

    def applied(self, text: str) -> str:
        """The file with the fault."""
        return text[: self.start] + self.new + text[self.end :]

    def shown(self, text: str) -> str:
        """Where it is, and the line without and with it."""
        first = text.rfind("\n", 0, self.start) + 1
        last = text.find("\n", self.end)
        wrong = text[first : self.start] + self.new + text[self.end : last]
        line = text.count("\n", 0, self.start) + 1
        return f"{self.file}:{line}\n    - {text[first:last].strip()}\n    + {wrong.strip()}"


@functools.cache  # of all files, for every draw
def python_faults(text: str) -> list[tuple[int, int, str]]:
    """Start, end and replacement of each fault of a Python file."""
    lines = [0]
    for line in text.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    raw = text.encode()

    def place(line: int, column: int) -> int:
        return len(raw[: lines[line - 1] + column].decode())

    def span(node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)

    def between(left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[tuple[int, int, str]]:
        begin, end = span(left)[1], span(right)[0]
        matches = list(re.finditer(re.escape(old), text[begin:end]))
        if len(matches) == 1:
            yield begin + matches[0].start(), begin + matches[0].end(), new

    faults: list[tuple[int, int, str]] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and type(node.value) is int and text[slice(*span(node))].isdigit():
            faults += [(*span(node), str(node.value + 1)), (*span(node), str(max(node.value - 1, 0)))]
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
            begin, end = span(node.left)[1], span(node.comparators[0])[0]
            old = re.fullmatch(r"\)*\s*([<>=!]+|(?:not )?in|is(?: not)?)\s*\(*", text[begin:end])
            if old:
                faults.append((begin + old.start(1), begin + old.end(1), _COMPARED[type(node.ops[0])]))
        elif isinstance(node, ast.BinOp) and type(node.op) in _COUNTED:
            faults += between(node.left, node.right, *_COUNTED[type(node.op)])
        elif isinstance(node, ast.BoolOp):
            old_word, new_word = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            faults += between(node.values[0], node.values[1], old_word, new_word)
        elif isinstance(node, ast.If | ast.While | ast.IfExp):
            begin, end = span(node.test)
            faults.append((begin, end, f"(not ({text[begin:end]}))"))
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max")
        ):
            faults.append((*span(node.func), "max" if node.func.id == "min" else "min"))
    return [one for one in faults if text[one[0] : one[1]] != one[2]]


@functools.cache
def verilog_faults(text: str) -> list[tuple[int, int, str]]:
    """Start, end and replacement of each fault of a Verilog file, outside of comments and directives."""
    found = []
    at = 0
    for line in text.splitlines(keepends=True):
        code = line.split("//")[0]
        if not code.lstrip().startswith(("`", "/*", "*")):
            for pattern, new in _VERILOG:
                changed: Callable[[re.Match[str]], str] = new
                found += [(at + m.start(), at + m.end(), changed(m)) for m in re.finditer(pattern, code)]
        at += len(line)
    return found


def draw(
    count: int, seed: int, rooms: list[str], root: Path = ROOT, sources: tuple[str, ...] = ()
) -> list[Mutant]:
    """Faults in turn over the rooms; in a room every file is as likely as its share of possible faults.

    `sources`: files or folders instead of those of the only room.
    """
    chosen = random.Random(seed)
    queues = []
    for room in rooms:
        found = []
        for place in sources or ROOMS[room][0]:
            whole = root / place
            for path in [whole] if whole.is_file() else sorted(whole.rglob("*.*")):
                if path.suffix in (".py", ".v"):
                    faults = (python_faults if path.suffix == ".py" else verilog_faults)(path.read_text())
                    found += [Mutant(room, str(path.relative_to(root)), *one) for one in faults]
        chosen.shuffle(found)
        queues.append(found)
    return [queue[n] for n in range(-(-count // len(queues))) for queue in queues if n < len(queue)][:count]


def judges(mutant: Mutant, scratch: Path) -> list[list[str]]:
    """Test files that name the faulty file, then the others of its room."""
    every = [
        path for folder in ROOMS[mutant.room][1] for path in sorted((scratch / folder).rglob("test_*.py"))
    ]
    path = Path(mutant.file)
    if path.suffix == ".py":
        parts = list(path.with_suffix("").parts)
        parts[0] = _PACKAGES[parts[0]]
        name = re.escape(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        pattern = re.compile(rf"\b{name}\b")
    else:
        pattern = re.compile(rf"\b{path.stem}\b")
    near = [file for file in every if pattern.search(file.read_text())]
    far = [file for file in every if file not in near]
    return [[str(file.relative_to(scratch)) for file in some] for some in (near, far) if some]


class Bench:
    """A scratch copy of the sources with the tests of a suite."""

    def __init__(self, scratch: Path, suite: Path) -> None:
        self.scratch = scratch
        ignore = shutil.ignore_patterns(*_LEFT_OUT)
        shutil.copytree(ROOT, scratch, symlinks=True, ignore=ignore, dirs_exist_ok=True)
        shutil.rmtree(scratch / "tests")
        shutil.copytree(suite / "tests", scratch / "tests", symlinks=True, ignore=ignore)
        self._clean: dict[tuple[str, ...], tuple[list[str], float]] = {}

    def _pytest(self, files: list[str], *options: str, timeout: float | None = None) -> tuple[int, str]:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--tb=no",
            "-p",
            "no:cacheprovider",
            "-o",
            "addopts=",
        ]
        command += ["-m", "not slow", "-rfE", *options, *files]
        environment = {**os.environ, "PYTHONPATH": str(self.scratch)}
        try:
            done = subprocess.run(
                command, cwd=self.scratch, env=environment, capture_output=True, text=True, timeout=timeout
            )
        except subprocess.TimeoutExpired:
            return 1, "it hangs"
        return done.returncode, done.stdout

    def _without_faults(self, files: list[str]) -> tuple[list[str], float]:
        """What fails here anyway, and how long the tests take [s]."""
        key = tuple(files)
        if key not in self._clean:
            start = time.monotonic()
            _, said = self._pytest(files)
            failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
            self._clean[key] = failed, time.monotonic() - start
        return self._clean[key]

    def judge(self, mutant: Mutant, far: bool, named: Sequence[str] = ()) -> str:
        """The first test that fails with the fault; nothing if it survives. `named`: run these tests and no others."""
        path = self.scratch / mutant.file
        sound = path.read_text()
        groups = [list(named)] if named else judges(mutant, self.scratch)
        for files in groups if far else groups[:1]:
            failing, seconds = self._without_faults(files)
            path.write_text(mutant.applied(sound))
            try:
                options = ["-x", *(f"--deselect={one}" for one in failing)]
                code, said = self._pytest(files, *options, timeout=10 * seconds + _PATIENCE_SECONDS)
            finally:
                path.write_text(sound)
                # byte code of the faulty file is told by its size and time, in whole seconds
                for kept in path.parent.glob(f"__pycache__/{path.stem}.*"):
                    kept.unlink()
            if code == 1 or code == 2:
                first = re.search(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
                return first[1] if first else said.strip().splitlines()[-1]
        return ""


def main() -> None:
    """Draw faults, judge them, tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="faults (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default: %(default)s)")
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS), help="default: all")
    parser.add_argument(
        "--tests", choices=("auto", "near"), default="auto",
        help="near: only the tests that name the faulty file; auto: then the others of the room (default)",
    )  # fmt: skip
    parser.add_argument("--sources", nargs="+", default=(), help="faults of these files or folders only")
    parser.add_argument("--judges", nargs="+", default=(), help="these test files and no others")
    parser.add_argument("--suite", type=Path, default=ROOT, help="a checkout with the tests to judge")
    parser.add_argument("--json", type=Path, help="a line of JSON a fault goes there")
    given = parser.parse_args()
    if given.sources and len(given.rooms) != 1:
        parser.error("--sources belong to one of --rooms")
    caught: dict[str, list[bool]] = {room: [] for room in given.rooms}
    with tempfile.TemporaryDirectory(prefix="baco-mutation-") as folder:
        bench = Bench(Path(folder), given.suite.resolve())
        drawn = draw(given.count, given.seed, given.rooms, sources=tuple(given.sources))
        for number, mutant in enumerate(drawn, 1):
            test = bench.judge(mutant, far=given.tests == "auto", named=given.judges)
            caught[mutant.room].append(bool(test))
            shown = mutant.shown((ROOT / mutant.file).read_text())
            print(f"{number}. {'caught by ' + test if test else 'SURVIVED'}: {shown}", flush=True)
            if given.json:
                with given.json.open("a") as out:
                    out.write(json.dumps({"room": mutant.room, "fault": shown, "test": test}) + "\n")
    for room, found in caught.items():
        print(f"{room}: {sum(found)} of {len(found)} caught")
    every = [one for found in caught.values() for one in found]
    print(f"all: {sum(every)} of {len(every)} caught")


if __name__ == "__main__":
    main()
