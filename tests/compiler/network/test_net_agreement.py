"""How near integers are to the user's model: measured against numpy, and never hidden."""

from __future__ import annotations

import json
import sys

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import baco
from baco.common.errors import InputError
from baco.compiler.network.agreement import compare_tensors
from baco.workloads.onnx.operators import OPERATORS
from baco.workloads.semantics import Semantics

RANDOM = np.random.default_rng(7)
WEIGHT = RANDOM.standard_normal((8, 8)).astype(np.float32)


def _model(path, nodes, outputs, inputs, constants=(), opset=18):
    kinds = {"f": TensorProto.FLOAT, "i": TensorProto.INT64}
    stored = {"w": WEIGHT, **dict(constants)}
    graph = helper.make_graph(
        [helper.make_node(op, ins, outs, **attributes) for op, ins, outs, attributes in nodes],
        "g",
        [helper.make_tensor_value_info(n, kinds[x.dtype.kind], x.shape) for n, x in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return str(path)


def _product(path):
    return _model(path, [("MatMul", ["x", "w"], ["y"], {})], ["y"], {"x": np.ones((4, 8), np.float32)})


def test_measures_are_those_of_their_definitions():
    wanted = np.array([3.0, -4.0, 0.0, np.inf])
    found = np.array([3.0, -3.0, 1.0, 7.0])  # the infinite one does not count
    near = compare_tensors("t", wanted, found, largest=3.5)
    assert near.snr_db == pytest.approx(10 * np.log10(25 / 2))
    assert near.cosine == pytest.approx((9 + 12) / np.sqrt(25 * 19))
    assert near.error == pytest.approx(1 / 4)
    assert near.saturated == pytest.approx(1 / 3)
    assert near.equal is None
    assert compare_tensors("t", wanted, wanted).snr_db == 300
    assert compare_tensors("t", 0 * found, found).snr_db == -300
    assert compare_tensors("t", np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5])).equal == 0.75


@pytest.mark.parametrize("size", [1e-4, 1.0, 255.0, 1e5])
def test_ranges_are_those_of_the_given_inputs(tmp_path, size):
    x = RANDOM.uniform(-size, size, (4, 8)).astype(np.float32)
    run = baco.run(_product(tmp_path / "m.onnx"), inputs={"x": x})
    assert run.right
    assert not run.agreement.saturated
    np.testing.assert_allclose(run.outputs["y"], x @ WEIGHT, atol=0.03 * np.abs(x @ WEIGHT).max())
    assert run.agreement.judge.startswith(("onnxruntime", "onnx.reference"))
    assert run.agreement.outputs[0].snr_db > 30


def test_saturation_is_measured_and_said_loudly(tmp_path):
    x = RANDOM.uniform(-1, 1, (4, 8)).astype(np.float32)
    run = baco.run(_product(tmp_path / "m.onnx"), inputs={"x": 100 * x}, data={"x": x})
    beyond = float(np.mean(np.abs(100 * x) > np.abs(x).max() * 128 / 127))
    assert run.agreement.saturated["x"] == pytest.approx(beyond, abs=0.04)
    assert "SATURATED" in repr(run)
    assert "x (" in run.agreement.warning()
    assert not run.right
    assert "further from the model's" in run.wrong[0]


def test_ranges_of_several_samples_in_a_file(tmp_path):
    samples = RANDOM.uniform(-1, 1, (5, 4, 8)).astype(np.float32)
    samples[3, 0, 0] = 50.0
    np.savez(tmp_path / "data.npz", samples)
    model = _product(tmp_path / "m.onnx")
    run = baco.run(model, data=tmp_path / "data.npz")
    assert run.right
    np.testing.assert_allclose(run.outputs["y"], samples[0] @ WEIGHT, atol=1.5)  # the first is what is run
    assert not baco.run(model, inputs={"x": samples[3]}, data=str(tmp_path / "data.npz")).agreement.saturated


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"z": np.zeros((4, 8))}, "no input 'z'"),
        ({"x": np.zeros((4, 9))}, "neither"),
        ({}, "the input 'x' is missing"),
        ({"x": np.zeros((0, 4, 8))}, "at least one"),
    ],
)
def test_samples_that_do_not_fit_are_refused(tmp_path, arrays, words):
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(InputError, match=words):
        baco.compile(_product(tmp_path / "m.onnx"), data=tmp_path / "data.npz")


def test_what_is_no_archive_of_arrays_is_refused(tmp_path):
    (tmp_path / "data.npz").write_bytes(b"PK\x03\x04 nothing of the kind")
    with pytest.raises(InputError, match="no archive of arrays"):
        baco.compile(_product(tmp_path / "m.onnx"), data=tmp_path / "data.npz")


def test_a_mistake_of_the_import_is_no_right_result(tmp_path, monkeypatch):
    """The integers are those of the wrong network, bit for bit: only the other evaluator knows."""
    x = RANDOM.uniform(-1, 1, (4, 8)).astype(np.float32)
    nodes = [("MatMul", ["x", "w"], ["t"], {}), ("Elu", ["t"], ["y"], {"alpha": 3.0})]
    path = _model(tmp_path / "m.onnx", nodes, ["y"], {"x": x})
    assert baco.run(path, inputs={"x": x}).right
    wrong = {"name": "elu", "numbers": {"alpha": 1.0}}

    def careless(imp):
        imp.number("alpha", 1.0)
        return Semantics("unary", (imp.tensor(0),), wrong)

    monkeypatch.setitem(OPERATORS, "Elu", OPERATORS["Elu"]._replace(rule=careless))
    run = baco.run(path, inputs={"x": x})
    assert not run.right
    assert "output 'y' is not the model's even in floating point" in run.wrong[0]


def test_a_torch_model_is_its_own_judge():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()
    x = torch.from_numpy(40 * RANDOM.standard_normal((3, 8)).astype(np.float32))
    run = baco.run((model, x), inputs={"input": x.numpy()})
    assert run.right
    assert run.agreement.judge.startswith("torch")
    wanted = model(x).detach().numpy()
    np.testing.assert_allclose(next(iter(run.outputs.values())), wanted, atol=0.06 * np.abs(wanted).max())
    assert {one.name for one in run.agreement.operators} >= {"input", "2"}
    assert all(one.snr_db > 20 for one in run.agreement.operators)


def test_what_was_measured_is_plain_json(tmp_path):
    run = baco.run(_product(tmp_path / "m.onnx"), inputs={"x": np.zeros((4, 8), np.float32)})
    plain = json.loads(json.dumps(run.agreement.to_dict(), allow_nan=False))
    assert plain["outputs"][0]["name"] == "y"
    assert plain["outputs"][0]["snr_db"] == 300  # zeros, equal


def test_a_bias_of_zeros_does_not_drown_small_numbers(tmp_path):
    x = 1e-3 * RANDOM.uniform(-1, 1, (1, 8, 8)).astype(np.float32)
    nodes = [
        ("MatMul", ["x", "x"], ["s"], {}),
        ("Add", ["zeros", "s"], ["t"], {}),
        ("MatMul", ["t", "w"], ["y"], {}),
    ]
    path = _model(tmp_path / "m.onnx", nodes, ["y"], {"x": x}, [("zeros", np.zeros(8, np.float32))])
    run = baco.run(path, inputs={"x": x})
    wanted = (x @ x) @ WEIGHT
    np.testing.assert_allclose(run.outputs["y"], wanted, atol=0.05 * np.abs(wanted).max())


@pytest.mark.parametrize("least", [-1e4, -65504.0, np.finfo(np.float32).min])
def test_masks_that_are_reckoned_from_an_input(tmp_path, least):
    x = RANDOM.uniform(-1, 1, (1, 5, 8)).astype(np.float32)
    keep = np.array([[1, 1, 1, 0, 0]], np.int64)
    nodes = [
        ("Transpose", ["x"], ["xt"], {"perm": [0, 2, 1]}),
        ("MatMul", ["x", "xt"], ["s"], {}),
        ("Cast", ["keep"], ["k"], {"to": TensorProto.FLOAT}),
        ("Sub", ["one", "k"], ["n"], {}),
        ("Mul", ["n", "least"], ["mask"], {}),
        ("Add", ["s", "mask"], ["z"], {}),
        ("Softmax", ["z"], ["p"], {"axis": -1}),
        ("MatMul", ["p", "x"], ["y"], {}),
    ]
    constants = [("one", np.float32(1)), ("least", np.float32(least))]
    path = _model(tmp_path / "m.onnx", nodes, ["y"], {"x": x, "keep": keep}, constants)
    run = baco.run(path, inputs={"x": x, "keep": keep})
    scores = np.where(keep[:, None] > 0, x @ x.transpose(0, 2, 1), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ x
    assert run.right
    np.testing.assert_allclose(run.outputs["y"], wanted, atol=0.06 * np.abs(wanted).max())


def test_a_mask_together_with_other_numbers_is_refused(tmp_path):
    x = RANDOM.uniform(-1, 1, (1, 5, 8)).astype(np.float32)
    mask = np.array([[[0, 0.5, 1.5, -1e4, -1e4]]], np.float32)
    nodes = [
        ("Transpose", ["x"], ["xt"], {"perm": [0, 2, 1]}),
        ("MatMul", ["x", "xt"], ["s"], {}),
        ("Add", ["s", "mask"], ["z"], {}),
        ("Softmax", ["z"], ["y"], {"axis": -1}),
    ]
    path = _model(tmp_path / "m.onnx", nodes, ["y"], {"x": x, "mask": mask})
    with pytest.raises(InputError, match="a mask of minus infinity that holds other numbers"):
        baco.compile(path, inputs={"x": x, "mask": mask})


@pytest.mark.parametrize(("zero", "low"), [(0, 0.0), (64, None), (255, None)])
def test_the_ends_of_a_models_own_quantiser_cut_off(tmp_path, zero, low):
    """A quantiser leaves out the ReLU in front of uint8 with the zero point 0, and any other limit."""
    x = RANDOM.uniform(-1, 1, (4, 8)).astype(np.float32)
    nodes = [
        ("MatMul", ["x", "w"], ["t"], {}),
        ("QuantizeLinear", ["t", "scale", "zero"], ["q"], {}),
        ("DequantizeLinear", ["q", "scale", "zero"], ["y"], {}),
    ]
    scale = np.float32(0.02)
    constants = [("scale", scale), ("zero", np.uint8(zero))]
    path = _model(tmp_path / "m.onnx", nodes, ["y"], {"x": x}, constants)
    run = baco.run(path, inputs={"x": x})
    wanted = (np.clip(np.rint(x @ WEIGHT / scale) + zero, 0, 255) - zero) * scale
    assert run.right
    np.testing.assert_allclose(run.outputs["y"], wanted, atol=0.05 * np.abs(wanted).max() + scale)
    assert low is None or run.outputs["y"].min() >= low


@pytest.mark.parametrize(("operator", "opset"), [("LRN", 18), ("Softmax", 11)])
def test_an_evaluator_that_is_wrong_itself_is_not_asked(tmp_path, monkeypatch, operator, opset):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    x = RANDOM.uniform(-1, 1, (1, 8, 8)).astype(np.float32)
    attributes = {"size": 5, "alpha": 0.5} if operator == "LRN" else {"axis": 1}
    nodes = [("MatMul", ["x", "w"], ["t"], {}), (operator, ["t"], ["y"], attributes)]
    run = baco.run(_model(tmp_path / "m.onnx", nodes, ["y"], {"x": x}, opset=opset), inputs={"x": x})
    assert run.right
    assert run.agreement.judge == ""
    assert f"onnx.reference: its {operator} is not ONNX's" in run.agreement.reason


def test_onnx_has_an_evaluator_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    x = RANDOM.uniform(-1, 1, (4, 8)).astype(np.float32)
    run = baco.run(_product(tmp_path / "m.onnx"), inputs={"x": x})
    assert run.right
    assert run.agreement.judge == f"onnx.reference {onnx.__version__}"


def test_a_batch_norm_that_trains_is_judged_as_it_is_written(tmp_path):
    """onnxruntime's rewriting folds its stored mean and variance into the convolution, as if it did not train."""
    pytest.importorskip("onnxruntime", reason="the judge that rewrites models is not installed")
    random = np.random.default_rng(4)
    x = random.uniform(-1, 1, (2, 3, 6, 6)).astype(np.float32)
    weights = random.standard_normal((4, 3, 1, 1)).astype(np.float32)
    zeros, ones = np.zeros(4, np.float32), np.ones(4, np.float32)
    constants = [("k", weights), ("scale", ones), ("bias", zeros), ("mean", ones), ("variance", 4 * ones)]
    normalised = ["t", "scale", "bias", "mean", "variance"]
    nodes = [
        ("Conv", ["x", "k"], ["t"], {}),
        ("BatchNormalization", normalised, ["y", "m", "v"], {"training_mode": 1}),
    ]
    run = baco.run(_model(tmp_path / "m.onnx", nodes, ["y"], {"x": x}, constants), inputs={"x": x})
    sums = np.einsum("kc,nchw->nkhw", weights[:, :, 0, 0], x)
    wanted = (sums - sums.mean((0, 2, 3), keepdims=True)) / sums.std((0, 2, 3), keepdims=True)
    assert run.right
    assert run.agreement.judge.startswith("onnxruntime")
    np.testing.assert_allclose(run.outputs["y"], wanted, atol=0.05 * np.abs(wanted).max())
