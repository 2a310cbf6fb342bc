"""Sums, products and averages that onnxruntime writes for whole numbers, exactly as its kernels round them."""

import platform

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import baco
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.reference import reference
from baco.compiler.ops.elementwise import BinaryTable
from baco.workloads.inputs.load import load_network
from tests.seeds import seeds

ort = pytest.importorskip("onnxruntime")
#: Its kernels for other processors round sums elsewhere.
STEPS = 0 if platform.machine().lower() in ("x86_64", "amd64") else 1
TYPES = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}
ALL = np.meshgrid(*[np.arange(256, dtype=np.uint8)] * 2, indexing="ij")


def a_model(operator, kind, scales, zeros, path):
    """QLinearAdd or QLinearMul of two inputs [256, 256] with three scales and zero points."""
    stored = []
    for name, scale, zero in zip("abc", scales, zeros, strict=True):
        stored.append(onnx.numpy_helper.from_array(np.float32(scale), f"s{name}"))
        stored.append(onnx.numpy_helper.from_array(kind(zero), f"z{name}"))
    inputs = ["a", "sa", "za", "b", "sb", "zb", "sc", "zc"]
    node = helper.make_node(operator, inputs, ["c"], "node", domain="com.microsoft")
    a, b, c = (helper.make_tensor_value_info(one, TYPES[kind], (256, 256)) for one in "abc")
    graph = helper.make_graph([node], "g", [a, b], [c], stored)
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=opsets), path)
    return str(path)


def drawn(random):
    """Scales and zero points; a third of them such that many results lie in the middle of two."""
    kind = (np.uint8, np.int8)[int(random.integers(2))]
    low = 0 if kind is np.uint8 else -128
    zeros = [int(random.integers(low, low + 256)) for _ in range(3)]
    scales = random.uniform(0.002, 0.05, 3)
    if random.random() < 0.35:
        scales = random.choice([0.25, 0.5, 1.0, 1.5, 2.0], 3) * scales[0]
    if random.random() < 0.2:
        scales[1] = scales[0]
    return kind, scales, zeros


@pytest.mark.parametrize("seed", seeds(12, of=200))
@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
def test_all_pairs_of_bytes(operator, seed, tmp_path):
    kind, scales, zeros = drawn(np.random.default_rng(seed))
    if operator == "QLinearMul":
        scales[2] = scales[0] * scales[1] * np.random.default_rng(seed).choice([16, 40, 64.0, 100.3])
    path = a_model(operator, kind, scales, zeros, tmp_path / "model.onnx")
    given = {name: one.view(kind) for name, one in zip("ab", ALL, strict=True)}
    (wanted,) = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)
    network = quantise(load_network(path), [given])
    found = network.read_output("c", reference(network, quantise_inputs(network, given)))
    apart = np.abs(found.astype(np.int64).reshape(256, 256) - wanted.astype(np.int64))
    assert apart.max() <= STEPS, (kind, scales, zeros, np.argwhere(apart)[:3])
    # products need no table of 64 KiB, and sums hardly ever
    assert operator == "QLinearAdd" or not any(isinstance(op, BinaryTable) for op in network.operators)


def test_a_product_with_its_zero_point_inside_runs(tmp_path):
    """Halves are rounded to what is even with an odd zero point added."""
    path = a_model("QLinearMul", np.uint8, (0.5, 0.5, 0.5), (128, 127, 3), tmp_path / "model.onnx")
    given = {name: one.view(np.uint8) for name, one in zip("ab", ALL, strict=True)}
    run = baco.run(path, inputs=given, engine="functional")
    (wanted,) = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)
    assert run.right
    assert np.array_equal(run.outputs["c"].reshape(256, 256), wanted)


@pytest.mark.parametrize("seed", seeds(6, of=100))
def test_averages_of_windows(seed, tmp_path):
    random = np.random.default_rng(seed)
    kind, (scale, *_), (zero, _, out) = drawn(random)
    size = [int(n) for n in random.integers(5, 12, 2)]
    window = [int(n) for n in random.integers(1, 5, 2)]
    before = [int(random.integers(0, n)) for n in window]
    stride = [int(n) for n in random.integers(1, 3, 2)]
    attributes = {"kernel_shape": window, "strides": stride, "pads": [*before, *before]}
    attributes["count_include_pad"] = int(random.integers(2))
    other = scale * (1.0 if seed % 2 else random.uniform(0.5, 2))
    stored = [
        onnx.numpy_helper.from_array(one, name)
        for name, one in zip(
            ("sx", "zx", "sy", "zy"),
            (np.float32(scale), kind(zero), np.float32(other), kind(out)),
            strict=True,
        )
    ]
    node = helper.make_node(
        "QLinearAveragePool",
        ["x", "sx", "zx", "sy", "zy"],
        ["y"],
        "node",
        domain="com.microsoft",
        **attributes,
    )
    x = helper.make_tensor_value_info("x", TYPES[kind], (1, 8, *size))
    y = helper.make_tensor_value_info("y", TYPES[kind], None)
    graph = helper.make_graph([node], "g", [x], [y], stored)
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=opsets), path)
    given = {"x": random.integers(0, 256, (1, 8, *size), dtype=np.uint8).view(kind)}
    (wanted,) = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)
    run = baco.run(str(path), inputs=given)
    assert run.right
    apart = np.abs(run.outputs["y"].astype(np.int64).reshape(wanted.shape) - wanted.astype(np.int64))
    assert apart.max() <= STEPS
