"""`baco compile --network` and `baco run --network`."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from baco.main import run

SMALL = """\
name: four
dim: 4
scratchpad_kib: 16
accumulator_kib: 8
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds a small residual network `small.onnx` and the configuration `four.yaml`."""
    folder = tmp_path_factory.mktemp("networks")
    (folder / "four.yaml").write_text(SMALL)
    random = np.random.default_rng(0)
    shapes = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 8, 3, 3), "b2": (8,), "w3": (10, 8), "b3": (10,)}
    weights = [
        numpy_helper.from_array(random.normal(0, 0.2, shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2", "b2"], ["c2"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        helper.make_node("Add", ["c2", "p1"], ["a"]),
        helper.make_node("Relu", ["a"], ["r2"]),
        helper.make_node("GlobalAveragePool", ["r2"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], transB=1),
        helper.make_node("Softmax", ["y"], ["s"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("s", TensorProto.FLOAT, (1, 10))],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(folder / "small.onnx"))
    return folder


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def baco(capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs a command; its exit code, standard output and standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = run("baco", [str(one) for one in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_a_network_runs_and_is_right(folder: Path, baco: Call) -> None:
    random = np.random.default_rng(1)
    np.save(folder / "x.npy", random.normal(0, 1, (1, 3, 8, 8)).astype(np.float32))
    code, out, err = baco(
        "run", "--network", folder / "small.onnx", "-a", folder / "four.yaml", "--json",
        "--arg", f"x={folder / 'x.npy'}", "--save", f"s={folder / 's.npy'}",
    )  # fmt: skip
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["wrong"] == []
    assert len(result["compared"]) == 1
    assert result["exit_code"] == 0
    probabilities = np.load(folder / "s.npy")
    assert probabilities.shape == (1, 10)
    assert abs(probabilities.sum() - 1) < 0.1


def test_a_network_in_rtl(folder: Path, baco: Call, tmp_path: Path) -> None:
    code, out, err = baco(
        "run", "--network", folder / "small.onnx", "-a", folder / "four.yaml", "--engine", "rtl",
        "--report", tmp_path / "report",
    )  # fmt: skip
    assert code == 0, err
    plain = json.loads((tmp_path / "report" / "network.json").read_text())
    operators = plain["operators"]
    assert plain["boundaries"] == len(operators) > 3
    assert plain["wrong_boundaries"] == []
    assert plain["prologue_cycles"] + plain["epilogue_cycles"] + sum(
        operator["cycles"] for operator in operators
    ) == plain["cycles"]  # fmt: skip
    assert plain["predicted_cycles"] == pytest.approx(sum(step["predicted"] for step in plain["steps"]))
    assert f"right: what {len(operators)} operators wrote" in out
    table = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    page = (tmp_path / "report" / "network.html").read_text()
    for operator in operators:
        assert f"{operator['cycles']:,}" in table[operator["operator"]]
        assert operator["operator"] in page
    assert "default-src 'none'" in page  # the page asks nobody for anything
    assert (tmp_path / "report" / "network.png").read_bytes().startswith(b"\x89PNG")


def test_a_report_needs_a_network_and_cycles(folder: Path, baco: Call, tmp_path: Path) -> None:
    report = ("--report", tmp_path / "none")
    code, out, err = baco("run", "--network", folder / "small.onnx", *report)
    assert (code, out) == (2, "")
    assert "add --engine rtl" in err
    code, out, err = baco("run", "--gemm", "4x4x4", *report)
    assert (code, out) == (2, "")
    assert "--report goes with --network" in err
    assert not (tmp_path / "none").exists()


def test_a_program_checks_every_layer_itself(folder: Path, baco: Call) -> None:
    target, image = folder / "small.elf", folder / "small.bin"
    code, _, err = baco(
        "compile", "--network", folder / "small.onnx", "-a", folder / "four.yaml", "--check-layers",
        "-o", target, "--image", image,
    )  # fmt: skip
    assert code == 0, err
    content, weights = target.read_bytes(), image.read_bytes()
    assert weights in content
    simulate = ("simulate", target, "-a", folder / "four.yaml", "--engine", "functional")
    assert baco(*simulate)[0] == 0
    # another first weight
    target.write_bytes(content.replace(weights, bytes([weights[0] ^ 0x55]) + weights[1:]))
    code, out, _ = baco(*simulate)
    assert code == 1
    assert "wrong: c1 element" in out


@pytest.mark.parametrize(
    ("emit", "contains"), [("instgem", "instgem.fence"), ("llvm-ir", "define void @network")]
)
def test_the_code_as_text(folder: Path, baco: Call, emit: str, contains: str) -> None:
    code, out, _ = baco(
        "compile", "--network", folder / "small.onnx", "-a", folder / "four.yaml", "--emit", emit
    )
    assert code == 0
    assert contains in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--network", "resnet19"], "resnet19"),
        (["--network", "resnet18", "--gemm", "4x4x4"], "exclude each other"),
        (["--network", "resnet18", "--grid", "2"], "exclude each other"),
        (["--network", "bert_base", "--layers", "0"], "at least once"),
        (["--network", "SMALL", "--scales", "octal"], "octal"),
        (["--network", "SMALL", "--arg", "y=a.npy"], "no input 'y'"),
        (["--network", "SMALL", "--arg", "x"], "NAME=FILE.npy"),
        (["--network", "SMALL", "--save", "z=a.npy"], "no output 'z'"),
        (["--network", "nothing.onnx"], "nothing.onnx"),
    ],
)
def test_mistakes_are_one_message(folder: Path, baco: Call, arguments: list[str], message: str) -> None:
    code, out, err = baco("run", *(folder / "small.onnx" if one == "SMALL" else one for one in arguments))
    assert (code, out) == (2, "")
    assert message in err


def test_a_network_has_no_block_form(folder: Path, baco: Call) -> None:
    code, _, err = baco("compile", "--network", folder / "small.onnx", "--emit", "baco")
    assert code == 2
    assert "no 'baco' form" in err
