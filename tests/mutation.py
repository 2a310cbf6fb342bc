"""Whether the tests can fail: small faults are planted one by one in a scratch copy, and the tests of that room run.

`python -m tests.mutation --count 100 --seed 0` draws faults over four rooms (cost models, compiler, Verilog, studies), runs
first the tests that name the faulty file and prints what they catch. Those of the room then run once without a fault but with
marks in the functions that the other faults are in; each of these is judged by all tests that come through its function. What
survives is told with the faulty line. `--seconds` bounds what the tests of one fault may take. `--suite FOLDER` judges the tests of another checkout by the same faults.
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
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
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
#: A test that takes longer hangs, and that is noticed.
_PATIENCE_SECONDS = 600
#: What a mark calls: it tells which test comes by, also one in whose child processes that happens.
_MARKS = """\
import os

_told = set()


def passed(number):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if test and (number, test) not in _told:
        _told.add((number, test))
        with open({file!r}, "a", encoding="utf-8") as out:
            out.write(f"{{number}} {{test}}\\n")
"""


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
    tree = ast.parse(text)
    unread = {id(part) for annotation in _annotations(tree) for part in ast.walk(annotation)}
    for node in (node for node in ast.walk(tree) if id(node) not in unread):
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


def _annotations(tree: ast.AST) -> Iterator[ast.expr]:
    """What is said of types, which nothing computes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns


def marked(text: str, marks: Mapping[int, Mutant]) -> tuple[str, set[int]]:
    """A Python file with a mark in each function around a mutant, by number; and the numbers of those that are in none."""
    functions = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    lines = text.splitlines(keepends=True)
    outside, marked_at = set(), []
    for number, mutant in marks.items():
        line = text.count("\n", 0, mutant.start) + 1
        around = [node for node in functions if node.body[0].lineno <= line <= (node.end_lineno or 0)]
        if around:
            body = max(around, key=lambda node: node.lineno).body
            docstring = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
            marked_at.append((body[docstring and len(body) > 1], number))
        else:
            outside.add(number)
    for first, number in sorted(marked_at, key=lambda pair: -pair[0].lineno):
        mark = f'{" " * first.col_offset}__import__("tests.marks", fromlist=["passed"]).passed({number})\n'
        lines.insert(min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", ()))]) - 1, mark)
    return "".join(lines), outside


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


def _tests(room: str, root: Path) -> list[str]:
    """Files of a room's tests."""
    paths = [path for folder in ROOMS[room][1] for path in sorted((root / folder).rglob("test_*.py"))]
    return [str(path.relative_to(root)) for path in paths]


def near(mutant: Mutant, root: Path) -> list[str]:
    """Files of tests that name the faulty file."""
    path = Path(mutant.file)
    if path.suffix == ".py":
        parts = list(path.with_suffix("").parts)
        parts[0] = _PACKAGES[parts[0]]
        name = re.escape(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        pattern = re.compile(rf"\b{name}\b")
    else:
        pattern = re.compile(rf"\b{path.stem}\b")
    return [file for file in _tests(mutant.room, root) if pattern.search((root / file).read_text())]


class Bench:
    """A scratch copy of the sources with the tests of a suite."""

    def __init__(self, scratch: Path, suite: Path, seconds: int) -> None:
        self.scratch = scratch
        self._limit = f"--session-timeout={seconds}"
        ignore = shutil.ignore_patterns(*_LEFT_OUT)
        shutil.copytree(ROOT, scratch, symlinks=True, ignore=ignore, dirs_exist_ok=True)
        shutil.rmtree(scratch / "tests")
        shutil.copytree(suite / "tests", scratch / "tests", symlinks=True, ignore=ignore)
        self._wrong_anyway: dict[str, bool] = {}

    def _pytest(self, tests: Sequence[str], *options: str) -> tuple[int, str]:
        command = [
            *(sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", "-o", "addopts=")
        ]
        command += [*("-m", "not slow", "-rfE", f"--timeout={_PATIENCE_SECONDS}", *options, *tests)]
        environment = {**os.environ, "PYTHONPATH": str(self.scratch)}
        done = subprocess.run(
            command, cwd=self.scratch, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout

    def caught_by(self, mutant: Mutant, tests: Sequence[str]) -> str:
        """The first of some tests, or files of them, that fails with a fault and not without; nothing if it survives."""
        path = self.scratch / mutant.file
        sound = path.read_text()
        while tests:
            path.write_text(mutant.applied(sound))
            try:
                known = [f"--deselect={test}" for test, wrong in self._wrong_anyway.items() if wrong]
                code, said = self._pytest(tests, "-x", self._limit, *known)
            finally:
                self._restore(path, sound)
            if code in (0, 5):
                return ""
            failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", said, re.MULTILINE)
            if failed is None and "session-timeout" in said:
                return ""
            if failed is None:  # nothing could be run, or something stopped it
                return f"all of {tests[0]}: {(said.strip().splitlines() or ['no word'])[-1]}"
            test = failed[1]
            if test not in self._wrong_anyway:
                self._wrong_anyway[test] = self._pytest([test])[0] not in (0, 5)
            if not self._wrong_anyway[test]:
                return test
        return ""

    def passing(self, room: str, mutants: Mapping[int, Mutant]) -> dict[int, list[str]]:
        """For each of a room's mutants, the tests that come through its function, the quickest first; of a fault in no function,
        and of Verilog, all files of the room."""
        files = _tests(room, self.scratch)
        told = self.scratch / "passed.txt"
        told.write_text("")
        (self.scratch / "tests/marks.py").write_text(_MARKS.format(file=str(told)))
        by_file: dict[str, dict[int, Mutant]] = defaultdict(dict)
        for number, mutant in mutants.items():
            by_file[mutant.file][number] = mutant
        texts, everywhere = {}, set[int]()
        for name, marks in by_file.items():
            path = self.scratch / name
            if path.suffix == ".py":
                texts[path] = path.read_text()
                text, outside = marked(texts[path], marks)
                everywhere |= outside
                path.write_text(text)
            else:
                everywhere |= {*marks}
        said = self._pytest(files, "--durations=0", "-vv")[1] if len(everywhere) < len(mutants) else ""
        for path, text in texts.items():
            self._restore(path, text)
        seconds: dict[str, float] = defaultdict(float)
        for took, test in re.findall(r"^([\d.]+)s (?:call|setup) +(.+)$", said, re.MULTILINE):
            seconds[test.strip()] += float(took)
        tests: dict[int, set[str]] = defaultdict(set)
        for line in told.read_text().splitlines():
            mark, _, test = line.partition(" ")
            tests[int(mark)].add(test)
        return {
            number: files
            if number in everywhere
            else sorted(tests[number], key=lambda test: (seconds[test], test))
            for number in mutants
        }

    def _restore(self, path: Path, text: str) -> None:
        path.write_text(text)
        # byte code of a faulty file is told by its size and time, in whole seconds
        for kept in path.parent.glob(f"__pycache__/{path.stem}.*"):
            kept.unlink()


def main() -> None:
    """Draw faults, judge them, tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="faults (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default: %(default)s)")
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS), help="default: all")
    parser.add_argument(
        "--tests", choices=("auto", "near"), default="auto",
        help="near: only those that name the faulty file; auto: then all that come through it (default)",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=int, default=3600, help="for the tests of a fault, the quickest first (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--numbers", nargs="+", type=int, help="of the draw, these only, counted from 1")
    parser.add_argument("--sources", nargs="+", default=(), help="faults of these files or folders only")
    parser.add_argument("--judges", nargs="+", default=(), help="these test files or tests and no others")
    parser.add_argument("--suite", type=Path, default=ROOT, help="a checkout with the tests to judge")
    parser.add_argument("--json", type=Path, help="a line of JSON a fault goes there")
    given = parser.parse_args()
    if given.sources and len(given.rooms) != 1:
        parser.error("--sources belong to one of --rooms")
    drawn = dict(enumerate(draw(given.count, given.seed, given.rooms, sources=tuple(given.sources)), 1))
    left = {number: mutant for number, mutant in drawn.items() if number in (given.numbers or drawn)}
    caught, every = Counter[str](), Counter(mutant.room for mutant in left.values())

    def judge(number: int, tests: Sequence[str]) -> None:
        test = bench.caught_by(left[number], tests)
        if test:
            caught[left[number].room] += 1
            tell(number, left.pop(number), test)

    def tell(number: int, mutant: Mutant, test: str) -> None:
        shown = mutant.shown((bench.scratch / mutant.file).read_text())
        print(f"{number}. {'caught by ' + test if test else 'SURVIVED'}: {shown}", flush=True)
        if given.json:
            with given.json.open("a") as out:
                out.write(
                    json.dumps({"number": number, "room": mutant.room, "fault": shown, "test": test}) + "\n"
                )

    with tempfile.TemporaryDirectory(prefix="baco-mutation-") as folder:
        bench = Bench(Path(folder), given.suite.resolve(), given.seconds)
        for number, mutant in [*left.items()]:
            judge(number, given.judges or near(mutant, bench.scratch))
        for room in () if given.judges or given.tests == "near" else given.rooms:
            of_room = {number: mutant for number, mutant in left.items() if mutant.room == room}
            for number, tests in bench.passing(room, of_room).items() if of_room else ():
                judge(number, tests)
        for number, mutant in left.items():
            tell(number, mutant, "")
    for room, count in every.items():
        print(f"{room}: {caught[room]} of {count} caught")
    print(f"all: {sum(caught.values())} of {sum(every.values())} caught")


if __name__ == "__main__":
    main()
