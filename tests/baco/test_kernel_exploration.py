"""`explore --kernel`: from a kernel to hardware, block sizes, Verilog, a program and a verdict, and what goes wrong before."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.api import kernels
from baco.api.kernel_arguments import kernel_search
from baco.api.kernels import KernelSearch, kernel_verdict
from baco.api.result import Result
from baco.cli.kernel_exploration import kernel_arguments
from baco.common.errors import InfeasibleError
from baco.compiler.language.cost import predicted_cycles
from baco.exploration.space import load_space
from baco.exploration.studies.study import StudyRecord
from baco.main import run

pytestmark = pytest.mark.usefixtures("short_reports")

KERNEL = '''
"""A layer: x w + bias, ReLU, requantised."""
import baco


def grid(meta):
    return baco.cdiv(meta["M"], meta["BM"]), baco.cdiv(meta["N"], meta["BN"])


@baco.jit
def layer(
    x: "int8[M, K]", w: "int8[K, N]", bias: "int32[N]", y: "int8[M, N]",
    M, N, K, BM: baco.const, BN: baco.const, BK: baco.const,
):
    rows = baco.program_id(0) * BM + baco.arange(0, BM)
    columns = baco.program_id(1) * BN + baco.arange(0, BN)
    total = baco.zeros((BM, BN), "int32") + baco.load(bias + columns)[None, :]
    for k in range(0, K, BK):
        depth = k + baco.arange(0, BK)
        xs = baco.load(x + rows[:, None] * K + depth[None, :])
        ws = baco.load(w + depth[:, None] * N + columns[None, :])
        total += baco.dot(xs, ws)
    baco.store(y + rows[:, None] * N + columns[None, :], baco.requantize(baco.maximum(total, 0), 0.004))
'''
CONFIGS = """@baco.autotune(configs=[baco.Config({"BM": 16, "BN": 32, "BK": 16}), baco.Config({"BM": 96, "BN": 16, "BK": 64})])
@baco.jit
"""
#: The best is the circuit of `tests.machines.SMALL`.
SPACE = """
name: small
base: gemmini-default
dim: [4]
scratchpad_kib: [16]
accumulator_kib: [8, 128]
"""
SHAPE = "M=48,N=40,K=32"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "layer.py"
    path.write_text(KERNEL)
    (tmp_path / "space.yaml").write_text(SPACE)
    return path


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run("baco", [str(one) for one in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def asked(spec: str, shape: str, grid: str | None) -> KernelSearch:
    """What options describe."""
    found = kernel_arguments(spec, shape, grid)
    return kernel_search(found["kernel"], found["shape"], found["grid"])


def test_a_kernel_becomes_hardware_a_program_and_a_verdict(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_SIZES", (16, 64))  # few enough to try all
    assert len(KERNEL.strip().splitlines()) < 40
    out = file.parent / "study"
    code, text, err = call(
        capsys, "explore", "--kernel", f"{file}:layer", "--shape", SHAPE, "--space", file.parent / "space.yaml",
        "--samples", 40, "--validate", 1, "--out", out,
    )  # fmt: skip
    assert code == 0, err
    assert "cycles predicted" in text
    machine = Accelerator.from_yaml(out / "best" / "accelerator.yaml")
    assert "module" in (out / "best" / "accelerator.v").read_text()
    record = json.loads((out / "best" / "kernel.json").read_text())
    assert record["accelerator"] == machine.config_hash
    # 1 is 1: the kernel on its best design is all that was measured, and there is one number
    with StudyRecord.open(out / "study.sqlite", read_only=True) as study:
        assert (study.validations(), study.measurements()) == ([], {})
    assert re.findall(r"([\d,]+) measured", text) == [f"{record['measured_cycles']:,}"]
    assert "cycles (measured)" not in text
    blocks = record["blocks"]
    assert set(blocks) == {"BM", "BN", "BK"}
    assert record["grid"] == [-(-48 // blocks["BM"]), -(-40 // blocks["BN"])]
    assert (out / "best" / "kernel.elf").read_bytes()[:4] == b"\x7fELF"

    # no design of the space with other blocks is better: by brute force over all of them
    search = asked(f"{file}:layer", SHAPE, None)
    space = load_space(str(file.parent / "space.yaml"))
    points = space.hardware()
    found = []
    for d, s, a in zip(points.dim, points.scratchpad_kib, points.accumulator_kib, strict=True):
        one = space.accelerator(int(d), int(a), int(s))
        found += [predicted_cycles(search.launch(choice, one), one) for choice in search.choices]
    assert min(one.cost.latency_cycles for one in Result(out).front) <= 1.001 * min(found)

    # its own Verilog, bit by bit against numpy
    verdict = kernel_verdict(search, search.work(machine), machine, out, simulate=True)
    assert verdict.wrong == ()
    assert verdict.cycles == record["measured_cycles"]
    assert json.loads((out / "best" / "kernel.json").read_text())["right"] is True
    x, w, bias = (search.values[name] for name in ("x", "w", "bias"))
    search.kernel.interpret[search.grid](**search.values, **verdict.blocks)
    exact = np.maximum(x.astype(np.int32) @ w.astype(np.int32) + bias, 0).astype(np.float32) * np.float32(
        0.004
    )
    assert (search.values["y"] == np.clip(np.rint(exact), -128, 127)).all()


def test_configurations_are_the_choices(file: Path) -> None:
    file.write_text(KERNEL.replace("@baco.jit\n", CONFIGS))
    search = asked(f"{file}:layer", SHAPE, "cdiv(M, BM), cdiv(N, BN)")
    assert search.choices == ({"BM": 16, "BN": 32, "BK": 16}, {"BM": 96, "BN": 16, "BK": 64})
    found = search.work(Accelerator(dim=4, scratchpad_kib=64, accumulator_kib=32))
    assert [product.blocks for _, product in found] == [(16, 32, 16), (96, 16, 64)]
    (network,) = search.workload(found[0][1]).networks
    assert [(op.kind, op.fused) for op in network.operators] == [("matmul", False), ("relu", True)]
    assert network.macs == 48 * 40 * 32


@pytest.mark.parametrize(
    ("change", "options", "message", "marked"),
    [
        (("", ""), ("--shape", "M=48,N=40"), "the size of `x` is not known, since `K` has no value", '"int8[M, K]"'),
        (('"int8[M, N]"', '"float[M]"'), ("--shape", SHAPE), "'float[M]' is no type of an array", '"float[M]"'),
        (('y: "int8[M, N]"', "y"), ("--shape", SHAPE), "`y` of kernel `layer` has no value", "y,"),
        (("rows[:, None] * K", "rows[:, None] / K"), ("--shape", SHAPE), "`/` gives a fraction", "rows[:, None] / K"),
        (('w: "int8', 'w: "int32'), ("--shape", SHAPE), "int32", "baco.dot(xs, ws)"),
        (("baco.maximum(total, 0)", "total + total"), ("--shape", SHAPE), "is not one tiled product", "total += baco.dot"),
        (("@baco.jit\n", CONFIGS.replace("16, ", "2 * n, ", 1)), ("--shape", SHAPE), "are not written out", "baco.Config"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_message_with_a_caret(
    file: Path,
    capsys: pytest.CaptureFixture[str],
    change: tuple[str, str],
    options: tuple[str, ...],
    message: str,
    marked: str,
) -> None:
    text = KERNEL.replace(*change)
    file.write_text(text)
    code, out, err = call(
        capsys, "explore", "--kernel", f"{file}:layer", *options, "--out", file.parent / "none"
    )
    assert code == 2
    assert out == ""
    assert err.count("error:") == 1
    assert message in err
    assert "Traceback" not in err
    lines = err.splitlines()
    caret = next(
        index for index, line in enumerate(lines) if set(line.strip()) <= {"^", "~"} and line.strip()
    )
    column = lines[caret].index("^")
    assert lines[caret - 1][column:].startswith(marked), err
    assert not (file.parent / "none").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kernel", "FILE:lyer", "--shape", SHAPE), "there is no kernel 'lyer'"),
        (("--kernel", "FILE:layer", "--shape", SHAPE + ",BX=2"), "has no parameter `BX`"),
        (("--kernel", "FILE:layer", "--shape", "M=abc"), "'M=abc' is no argument"),
        (("--kernel", "FILE", "--shape", SHAPE), "names no kernel"),
        (("--kernel", "FILE:layer", "--shape", SHAPE, "-n", "resnet50"), "not both"),
        (("--shape", SHAPE, "-n", "resnet50"), "only a kernel has arguments"),
        (("--kernel", "FILE:layer", "--shape", SHAPE, "--grid", "M M"), "cannot be read"),
        (("--kernel", "FILE:layer", "--shape", "M=0,N=40,K=32"), "`x` has no elements"),
    ],
)
def test_what_is_no_kernel_or_no_shape(
    file: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str
) -> None:
    given = [one.replace("FILE", str(file)) for one in options]
    code, _, err = call(capsys, "explore", *given, "--out", file.parent / "none")
    assert code == 2
    assert message in err
    assert err.count("error:") == 1


ATTENTION = (resources.files("baco.examples") / "attention.txt").read_text("utf-8")
UNITS = """
name: units
base: gemmini-default
dim: [4]
scratchpad_kib: [8, 64]
accumulator_kib: [4, 32]
units: [none, row_functions]
"""
HEADS = "B=2,S=32,D=16"


@pytest.fixture
def attention(tmp_path: Path) -> Path:
    path = tmp_path / "attention.py"
    path.write_text(ATTENTION)
    (tmp_path / "space.yaml").write_text(UNITS)
    return path


@pytest.mark.slow
def test_attention_becomes_hardware_a_program_and_a_verdict(
    attention: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = attention.parent / "study"
    command = (
        "explore", "--kernel", f"{attention}:flash", "--shape", HEADS, "--space", attention.parent / "space.yaml",
        "--objective", "latency", "--out", out,
    )  # fmt: skip
    code, text, err = call(capsys, *command, "--validate", 1)
    assert code == 0, err
    assert "measured on its Verilog, results right" in text
    machine = Accelerator.from_yaml(out / "best" / "accelerator.yaml")
    assert machine.features.row_functions
    record = json.loads((out / "best" / "kernel.json").read_text())
    assert (record["accelerator"], record["right"]) == (machine.config_hash, True)
    verdict = Result(out).kernel
    assert verdict is not None
    assert (verdict.cycles, verdict.wrong) == (record["measured_cycles"], ())
    assert (out / "best" / "kernel.elf").read_bytes()[:4] == b"\x7fELF"
    assert "module baco_" in (out / "best" / "accelerator.v").read_text()

    # no design of the space with whatever blocks is better, as the language predicts them: by brute force over all
    search = asked(f"{attention}:flash", HEADS, None)
    space = load_space(str(attention.parent / "space.yaml"))
    points = space.hardware().take(space.hardware().units)
    found = []
    for d, s, a in zip(points.dim, points.scratchpad_kib, points.accumulator_kib, strict=True):
        one = space.accelerator(int(d), int(a), int(s), True)
        for choice in search.choices:
            try:
                found.append(predicted_cycles(search.launch(choice, one), one))
            except InfeasibleError:  # a choice of blocks that are too large for the smallest memories
                continue
    assert record["predicted_cycles"] <= 1.01 * min(found)
    best = Result(out).best.cost.latency_cycles
    assert record["predicted_cycles"] <= best < record["predicted_cycles"] + 400  # the table's load

    code, text, err = call(capsys, *command, "--resume")
    assert code == 0, err
    assert f"{record['predicted_cycles']:,.0f} cycles predicted" in text


#: The same where tokens see those before them and themselves.
CAUSAL = ATTENTION.replace(
    "bl.softmax(scores, 0.05)", "bl.softmax(scores, 0.05, mask=keys[None, :] <= rows[:, None])"
)


def test_causal_attention_becomes_hardware_that_computes_what_tokens_see(
    attention: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attention.write_text(CAUSAL)
    out = attention.parent / "study"
    code, text, err = call(
        capsys, "explore", "--kernel", f"{attention}:flash", "--shape", HEADS + ",BM=16", "--space",
        attention.parent / "space.yaml", "--objective", "latency", "--validate", 1, "--out", out,
    )  # fmt: skip
    assert code == 0, err
    assert "measured on its Verilog, results right" in text
    verdict = Result(out).kernel
    assert verdict is not None
    assert verdict.cycles is not None
    machine = Result(out).best.accelerator
    search = asked(f"{attention}:flash", HEADS + ",BM=16", None)
    attention.with_name("full.py").write_text(ATTENTION)
    full = asked(f"{attention.with_name('full.py')}:flash", HEADS + ",BM=16", None)
    causal, whole = (predicted_cycles(one.launch(verdict.blocks, machine), machine) for one in (search, full))
    assert verdict.predicted_cycles == causal < whole
    assert causal < verdict.cycles < 2 * causal  # of such a small one much is beginning and end
    (network,) = search.workload(search.work(machine)[0][1]).networks
    assert [one.kind for one in network.operators] == ["matmul", "softmax", "matmul"]


def assert_one_message(
    attention: Path, capsys: pytest.CaptureFixture[str], message: str, marked: str
) -> None:
    """Exploring the kernel of the file says one message, with a caret at what is `marked`."""
    code, out, err = call(
        capsys, "explore", "--kernel", f"{attention}:flash", "--shape", HEADS, "--out", attention.parent / "none"
    )  # fmt: skip
    assert (code, out) == (2, "")
    assert err.count("error:") == 1
    assert message in err
    lines = err.splitlines()
    caret = next(n for n, line in enumerate(lines) if line.strip() and set(line.strip()) <= {"^", "~"})
    assert lines[caret - 1][lines[caret].index("^") :].startswith(marked), err


@pytest.mark.parametrize(
    ("mask", "message", "marked"),
    [
        ("rows[:, None] > keys[None, :]", "row 0 of this mask has no element", "rows[:, None] > keys"),
        ("keys[None, :] < rows[:, None]", "row 0 of this mask has no element", "keys[None, :] < rows"),
        ("keys[None, :] >= rows[:, None]", "those up to its own (mask=keys <= rows)", "keys[None, :] >= rows"),
        ("keys[None, :] <= rows[:, None] * 2", "those up to its own (mask=keys <= rows)", "keys[None, :] <= rows"),
        ("scores > 3", "those up to its own (mask=keys <= rows)", "scores > 3"),
        ("keys <= 5", "those up to its own (mask=keys <= rows)", "bl.softmax(scores"),
        ("keys <= rows", "`<=`: the shapes [32] and [16] do not fit", "keys <= rows)"),
        ("keys[:, None] <= rows[None, :]", "a mask [32, 16] for a block int8[16, 32]", "bl.softmax(scores"),
        ("keys[None, :]", "`mask` is a condition", "bl.softmax(scores"),
    ],
)  # fmt: skip
def test_a_wrong_mask_is_one_message_with_a_caret(
    attention: Path, capsys: pytest.CaptureFixture[str], mask: str, message: str, marked: str
) -> None:
    attention.write_text(
        ATTENTION.replace("bl.softmax(scores, 0.05)", f"bl.softmax(scores, 0.05, mask={mask})")
    )
    assert_one_message(attention, capsys, message, marked)


def test_attention_is_a_network_of_two_products_and_a_softmax(attention: Path) -> None:
    search = asked(f"{attention}:flash", HEADS, None)
    found = search.work(Accelerator(dim=4, scratchpad_kib=64, accumulator_kib=32))
    assert [(choice["BM"], one.blocks) for choice, one in found] == [
        (16, (16, 16, 32)), (32, (32, 16, 32)), (64, (64, 16, 32)), (128, (128, 16, 32))
    ]  # fmt: skip
    (network,) = search.workload(found[0][1]).networks
    assert [one.kind for one in network.operators] == ["matmul", "softmax", "matmul"]
    assert network.macs == 2 * 2 * 32 * 32 * 16


@pytest.mark.parametrize(
    ("change", "message", "marked"),
    [
        (("bl.requantize(bl.dot(queries, right.T), 0.002)", "bl.dot(queries, right.T)"),
         "baco.softmax of a block int32[16, 32]", "bl.softmax(scores"),
        (("weights = bl.softmax(scores, 0.05)", "weights = bl.softmax(scores, -0.05)"),
         "scales of a softmax are positive", "bl.softmax(scores"),
        (("weights = bl.softmax(scores, 0.05)", "weights = bl.softmax(scores, 0.05, mask=depth > 3)"),
         "a mask [16] for a block int8[16, 32]: the shapes do not fit", "bl.softmax(scores"),
        (("weights = bl.softmax(scores, 0.05)", "weights = bl.max(scores, axis=2)"),
         "axis 2 does not exist in a block with 2 dimensions", "bl.max(scores, axis=2)"),
        (("right.T", "right"), "the first has 16 columns, the second 32 rows", "bl.dot(queries, right)"),
        (("rows = bl.program_id(0) * BM", "rows = 1 + bl.program_id(0) * BM"), "may reach", "bl.load(q"),
        (("keys[:, None] * D + depth[None, :])\n    scores", "keys[:, None] * D * 2 + depth[None, :])\n    scores"),
         "this load may reach element", "bl.load(k"),
        (("    weights = bl.softmax(scores, 0.05)", "    weights = scores"),
         "it has one product and one store, not 2 and 1", "bl.dot(weights, values)"),
    ],
)  # fmt: skip
def test_a_mistake_in_attention_is_one_message_with_a_caret(
    attention: Path,
    capsys: pytest.CaptureFixture[str],
    change: tuple[str, str],
    message: str,
    marked: str,
) -> None:
    assert change[0] in ATTENTION
    attention.write_text(ATTENTION.replace(*change))
    assert_one_message(attention, capsys, message, marked)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--search", "local"), "--search: block sizes and hardware of a kernel have a search of their own"),
        (("--measure", "1M"), "--measure: a kernel is one program"),
        (("--validate", "2"), "--validate: a kernel is run on its best design alone"),
        (("--timing", "gemmini"), "have no units for functions of rows, which attention needs"),
        (("--space", "reference"), "have no units for functions of rows, which attention needs"),
    ],
)
def test_what_attention_cannot_be_explored_with(
    attention: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str
) -> None:
    code, _, err = call(
        capsys, "explore", "--kernel", f"{attention}:flash", "--shape", HEADS, *options,
        "--out", attention.parent / "none",
    )  # fmt: skip
    assert code == 2
    assert message in err
