"""What a reader copies works: every shell block of README and docs runs in bash, as it stands, page by page.

The blocks of a page run in order, in one folder that holds `model.onnx` and `image.npy`, the files that pages take from
their reader. A block behind the comment `<!-- minutes -->` is left to the slow test, one behind `<!-- command N -->` to
those of the installation, one behind `<!-- changed -->` runs (here or in a test of its own) on a copy of the product with the changes of the page's
block `diff`. Output that a page shows below a block must appear, but for numbers, hashes and spacing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.forks import fork_server

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
#: Files that a page must have made in the end.
MADE = {
    "guide-onnx-to-verilog.md": (
        *("design/report.html", "design/best/accelerator.yaml", "design/best/mappings.yaml"),
        *("design/study.sqlite", "accelerator.v", "gemmini_params.h", "model.elf", "result.npy"),
    ),
}


@dataclass(frozen=True)
class Step:
    """A block of commands with the output shown below it, if any."""

    commands: str
    shown: tuple[str, ...]
    note: str


def steps(text: str) -> list[Step]:
    blocks = re.findall(
        r"(?:<!-- ([^>]*) -->\n)?^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", text, re.S | re.M
    )
    return [Step(commands, tuple(shown.splitlines()), note) for note, commands, shown in blocks]


_HASH, _NUMBER = r"\b[0-9a-f]{16}\b", r"\d[\d,]*(?:\.\d+)?"


def pattern(line: str) -> str:
    """A shown line as a regular expression: any numbers, hashes and spacing, `...` for anything."""
    words = []
    for word in line.split():
        if word == "...":
            words.append(".*")
            continue
        parts = re.split(f"({_HASH}|{_NUMBER})", word)
        kinds = [_HASH if re.fullmatch(_HASH, part) else _NUMBER for part in parts[1::2]]
        texts = [re.escape(part) for part in parts[::2]]
        words.append("".join(a + b for a, b in zip(texts, [*kinds, ""], strict=True)))
    return r"\s+".join(words)


def missing(shown: tuple[str, ...], output: str) -> list[str]:
    """Shown lines that the output does not have, in their order."""
    text = re.sub(r"[ \t]+", " ", output)
    at, lost = 0, []
    for line in shown:
        if line.strip() == "...":
            continue
        found = re.compile(pattern(line)).search(text, at)
        if found is None:
            lost.append(line)
        else:
            at = found.end()
    return lost


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds `model.onnx` and `image.npy`, and is where commands run."""
    random = np.random.default_rng(0)
    shapes = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 8, 3, 3), "b2": (8,), "w3": (10, 8), "b3": (10,)}
    weights = [
        numpy_helper.from_array(random.normal(0, 0.2, shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    conv = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], **conv),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2", "b2"], ["c2"], **conv),
        helper.make_node("Add", ["c2", "p1"], ["a"]),
        helper.make_node("Relu", ["a"], ["r2"]),
        helper.make_node("GlobalAveragePool", ["r2"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], transB=1),
    ]
    ends = [("x", (1, 3, 8, 8)), ("y", (1, 10))]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends)
    model = helper.make_model(
        helper.make_graph(nodes, "small", [x], [y], weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 8
    onnx.save(model, str(tmp_path / "model.onnx"))
    np.save(tmp_path / "image.npy", random.normal(0, 1, (1, 3, 8, 8)).astype(np.float32))
    return tmp_path


def execute(commands: str, folder: Path, *before: Path) -> str:
    """What a block prints, both streams; its commands are those of some folders, then of this environment."""
    path = os.pathsep.join(map(str, (*before, Path(sys.executable).parent, os.environ["PATH"])))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}"
    return done.stdout


def check(page: Path, folder: Path, *, minutes: bool) -> None:
    before = set(os.listdir(folder))
    programs = folder.with_name(f"{folder.name}-programs")
    programs.mkdir()
    fork_server().command(programs)  # the same `baco`, begun sooner
    for step in steps(page.read_text(encoding="utf-8")):
        if step.note.startswith(("command", "changed")) or (step.note == "minutes" and not minutes):
            continue
        assert step.note in ("", "minutes")
        output = execute(step.commands, folder, programs)
        assert missing(step.shown, output) == [], output
    check_c(page, folder)
    for name in MADE.get(page.name, ()):
        assert (folder / name).stat().st_size > 0, name
    # a redirection that nobody meant, as of `->`, leaves a file of an odd name
    assert not [name for name in set(os.listdir(folder)) - before if not re.fullmatch(r"[\w.-]+", name)]


def check_c(page: Path, folder: Path) -> None:
    """Programs in C compile with the headers that the page's commands made; declarations stand in one of these."""
    texts = [re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.S) for path in folder.glob("*.h")]
    headers = [" ".join(text.split()) for text in texts]
    for block in re.findall(r"^```c\n(.*?)^```$", page.read_text("utf-8"), re.S | re.M):
        if "main(" not in block:
            lines = [" ".join(line.split()) for line in block.splitlines()]
            assert any(all(line in header for line in lines) for header in headers), block
            continue
        (folder / "block.c").write_text(block)
        compiler = [sys.executable, "-m", "ziglang", "cc", "-std=gnu11", "-Wall", "-Werror", "-I."]
        done = subprocess.run(
            [*compiler, "-c", "block.c", "-o", "block.o"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def _pages(*, minutes: bool) -> list[Path]:
    """Those with blocks that take minutes, or with blocks that do not."""
    return [
        page
        for page in PAGES
        if any(
            (step.note == "minutes") == minutes and not step.note.startswith(("command", "changed"))
            for step in steps(page.read_text(encoding="utf-8"))
        )
    ]


#: Pages whose blocks search or measure for seconds each.
LONG = {"pipelines", "systems", "fusion", "samplers"}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] * (page.stem in LONG), id=page.stem)
        for page in _pages(minutes=False)
    ],
)
def test_blocks(page: Path, folder: Path) -> None:
    check(page, folder, minutes=False)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", _pages(minutes=True), ids=lambda page: page.stem)
def test_blocks_that_take_minutes(page: Path, folder: Path) -> None:
    check(page, folder, minutes=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_first_command_on_a_clean_clone(tmp_path: Path) -> None:
    """Installs from the package index; the second command is what continuous integration runs."""
    (first,) = (step for step in steps(PAGES[0].read_text(encoding="utf-8")) if step.note == "command 1")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    output = execute(first.commands, clone)
    assert missing(first.shown, output) == [], output
    # searches have the same bits everywhere: what README shows is what this version prints, to the last digit, but for seconds
    printed = {" ".join(line.split()) for line in output.splitlines()}
    shown = {
        " ".join(line.split()) for line in first.shown if line != "..." and not re.search(r"\d s$", line)
    }
    assert len(shown) > 5
    assert shown <= printed, output


def changed(text: str, diff: str) -> str:
    """A text with the lines of a `diff` block replaced or added, each behind the lines it shows before them."""
    lines, at = text.splitlines(), 0
    for sign, line in ((one[:1], one[1:]) for one in diff.splitlines()):
        if sign == "+":
            lines.insert(at, line)
            at += 1
        else:
            at = lines.index(line)
            if sign == "-":
                del lines[at]
            else:
                at += 1
    return "\n".join(lines) + "\n"


@pytest.mark.slow  # as accel/test_dataflows.py has every time
def test_blocks_of_a_changed_product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dataflows are added as the page says."""
    page = (ROOT / "docs" / "tile-trees.md").read_text("utf-8")
    (step,) = (one for one in steps(page) if one.note == "changed")
    (diff,) = re.findall(r"^```diff\n(.*?)^```$", page, re.S | re.M)
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "baco", copy / "baco", ignore=shutil.ignore_patterns("*.pyc.*"))
    file = copy / "baco" / "accel" / "dataflows.py"
    file.write_text(changed(file.read_text("utf-8"), diff), "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(copy))
    output = execute(step.commands, tmp_path)
    assert missing(step.shown, output) == [], output


def test_every_block_has_a_language_that_is_checked() -> None:
    """No shell command hides in a block that no test runs: `console` and blocks without a language are not used."""
    for page in PAGES:
        languages = re.findall(r"^```(\w*)\n.*?^```$", page.read_text(encoding="utf-8"), re.S | re.M)
        assert set(languages) <= {"sh", "text", "python", "yaml", "mlir", "bibtex", "diff", "c"}, page.name


def test_the_space_of_the_guide_is_the_one_that_is_searched_in_tests() -> None:
    (block,) = re.findall(
        r"^```yaml\n(.*?)^```$", (ROOT / "docs" / "exploring.md").read_text("utf-8"), re.S | re.M
    )
    assert block == (ROOT / "tests" / "explore" / "small_edge_device.yaml").read_text("utf-8")


@pytest.mark.slow  # README's own; the tutorial's run every time
def test_the_notebook_cell(folder: Path) -> None:
    (cell,) = re.findall(r"^```python\n(.*?)^```$", PAGES[0].read_text("utf-8"), re.S | re.M)
    (folder / "cell.py").write_text(f"{cell}\nprint(result.best.cost.area_mm2)\n", encoding="utf-8")
    cell_run = fork_server().start(folder / "cell.py", [], folder=folder)
    text, _ = cell_run.communicate()
    assert 0 < float(text.splitlines()[-1]) <= 30, text


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            assert target.startswith("https://") or (page.parent / target).exists(), (page.name, target)


def test_shown_lines_are_looked_for_in_order() -> None:
    output = "a  1,234 lines, id 00ff00ff00ff00ff\nend 7\n"
    assert missing(("a 9 lines, id 1111111111111111", "...", "end 3"), output) == []
    assert missing(("end 3", "a 9 lines, id 1111111111111111"), output) == ["a 9 lines, id 1111111111111111"]
    assert missing(("a 9 words",), output) == ["a 9 words"]
