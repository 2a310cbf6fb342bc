"""Every command of the guide from ONNX to Verilog runs, in order, and says what the guide shows."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from baco.main import run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide-onnx-to-verilog.md"
#: A comment before a block of commands: what takes minutes is left to the slow test.
_LONG = "<!-- "


@dataclass(frozen=True)
class Step:
    """A block of commands with the output shown below it, if any."""

    commands: tuple[str, ...]
    shown: tuple[str, ...]
    long: bool


def steps() -> list[Step]:
    blocks = re.findall(
        r"(<!-- [^>]*-->\n)?^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```)?",
        PAGE.read_text(encoding="utf-8"),
        re.S | re.M,
    )
    return [
        Step(tuple(commands.splitlines()), tuple(shown.splitlines()), note.startswith(_LONG))
        for note, commands, shown in blocks
    ]


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
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
    monkeypatch.chdir(tmp_path)
    return tmp_path


def execute(command: str, capture: pytest.CaptureFixture[str]) -> str:
    """Run one command of the guide in this process (Yosys in another); its output, both streams."""
    program, *arguments = shlex.split(command)
    if program not in ("baco", "explore"):
        path = shutil.which(program, path=str(Path(sys.executable).parent)) or shutil.which(program)
        if path is None:
            pytest.skip(f"{program} is not installed")
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout
    capture.readouterr()
    code = run(program, arguments)
    streams = capture.readouterr()
    assert code == 0, f"{command}\n{streams.out}{streams.err}"
    return streams.out + streams.err


def check(folder: Path, capture: pytest.CaptureFixture[str], long: bool) -> None:
    for step in steps():
        if step.long and not long:
            continue
        output = "".join(execute(command, capture) for command in step.commands)
        assert missing(step.shown, output) == [], output
    for name in (
        "design/report.html",
        "design/best/accelerator.yaml",
        "design/best/mappings.yaml",
        "design/study.sqlite",
        "accelerator.v",
        "gemmini_params.h",
        "model.elf",
    ):
        assert (folder / name).stat().st_size > 0, name
    assert np.load(folder / "result.npy").shape == (1, 10)
    assert "module baco_accelerator" in (folder / "accelerator.v").read_text()


def test_commands_of_the_guide(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [step.long for step in steps()].count(False) >= 6
    check(folder, capsys, long=False)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_commands_of_the_guide(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(folder, capsys, long=True)


def test_shown_lines_are_looked_for_in_order() -> None:
    output = "a  1,234 lines, id 00ff00ff00ff00ff\nend 7\n"
    assert missing(("a 9 lines, id 1111111111111111", "...", "end 3"), output) == []
    assert missing(("end 3", "a 9 lines, id 1111111111111111"), output) == ["a 9 lines, id 1111111111111111"]
    assert missing(("a 9 words",), output) == ["a 9 words"]
