"""Outputs have the names that the user's model gives them, and wrong names are found before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import baco
from baco.main import run

pytestmark = pytest.mark.usefixtures("short_reports")

WEIGHTS = np.random.default_rng(0).normal(0, 0.2, (8, 4)).astype(np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A product whose operator is called otherwise than its results: `y`, and the same reshaped, `flat`."""
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["product"], name="node_linear"),
            helper.make_node("Identity", ["product"], ["y"], name="node_same"),
            helper.make_node("Reshape", ["product", "shape"], ["flat"], name="node_flat"),
        ],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4]),
            helper.make_tensor_value_info("flat", TensorProto.FLOAT, [8]),
        ],
        [numpy_helper.from_array(WEIGHTS, "w"), numpy_helper.from_array(np.array([8]), "shape")],
    )
    path = tmp_path / "linear.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_onnx_outputs_are_called_as_the_model_calls_them(model: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(0, 1, (2, 8)).astype(np.float32)
    found = baco.run(str(model), inputs={"x": x})
    assert found.right
    assert list(found.outputs) == ["y", "flat"]
    assert found.outputs["y"] == pytest.approx(x @ WEIGHTS, abs=0.1)
    assert np.array_equal(found.outputs["flat"], found.outputs["y"].reshape(8))
    saved = tmp_path / "y.npy"
    assert run("baco", ["run", "--network", str(model), "--quiet", "--save", f"y={saved}"]) == 0
    assert np.load(saved).shape == (2, 4)


def test_wrong_names_are_found_before_anything_is_made(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(*_: Any, **__: Any) -> None:
        raise AssertionError("work began before names were checked")

    monkeypatch.setattr("baco.compiler.network.quantise.calibrate", work)
    monkeypatch.setattr("baco.compiler.network.quantise._integers", work)
    network = ["run", "--network", str(model)]
    assert run("baco", [*network, "--save", "node_linear=y.npy"]) == 2
    assert "--save: there is no output 'node_linear'\n  hint: allowed: flat, y" in capsys.readouterr().err
    assert run("baco", [*network, "--arg", "X=x.npy"]) == 2
    assert "the network has no input 'X'\n  hint: did you mean 'x'?" in capsys.readouterr().err


class Two(torch.nn.Module):
    """Returns a dict, one of whose values is a list."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(8, 4), torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"logits": self.a(x).relu(), "hidden": [self.b(x), self.a(x).reshape(-1)]}


def test_torch_outputs_are_called_by_the_keys_that_the_model_returns() -> None:
    torch.manual_seed(0)
    two, x = Two(), 0.3 * torch.randn(2, 8)  # within the ranges that the random sample has
    found = baco.run((two, x), inputs={"x": x.numpy()})
    assert set(found.outputs) == {"logits", "hidden.0", "hidden.1"}
    wanted = two(x)
    assert found.outputs["logits"] == pytest.approx(wanted["logits"].detach().numpy(), abs=0.1)
    assert found.outputs["hidden.0"] == pytest.approx(wanted["hidden"][0].detach().numpy(), abs=0.1)
    assert found.outputs["hidden.1"].shape == (8,)


def test_torch_outputs_without_keys_keep_the_names_of_the_export() -> None:
    two = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Flatten(0))
    network = baco.network(two, torch.randn(2, 8))
    exported = torch.export.export(two.eval(), (torch.randn(2, 8),))
    assert [name for name, _ in network.named_outputs] == list(exported.graph_signature.user_outputs)


def test_an_open_batch_is_said_to_be_taken_as_one(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    described = onnx.load(model)
    for value in (*described.graph.input, *described.graph.output[:1]):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    del described.graph.output[1], described.graph.node[2]
    path = tmp_path / "open.onnx"
    onnx.save(described, path)
    said = f"the batch of this model is open, and taken as 1: {path}:batch=N"
    assert any(said in line for line in baco.compile(str(path)).report)
    assert said in baco.network(str(path))._repr_html_()
    assert run("baco", ["run", "--network", str(path)]) == 0
    assert "is open, and taken as 1" in capsys.readouterr().out
    words = ["--samples", "10", "--search", "random", "--out", str(tmp_path / "s")]
    assert run("explore", ["--network", str(path), *words]) == 0
    assert "is open, and taken as 1" in capsys.readouterr().err
    # what was chosen, or is fixed, needs no note
    assert baco.network(f"{path}:batch=1").notes == baco.network(str(model)).notes == ()
    assert baco.network(f"{path}:batch=3").inputs[0].shape == (3, 8)
