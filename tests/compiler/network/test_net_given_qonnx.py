"""QONNX's quantisers: whole numbers of at most 8 bits as the model says, beside their definition in numpy."""

import importlib.util

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import baco
from baco.common.errors import InputError
from baco.compiler.network.quantise import quantise
from baco.workloads.inputs.load import load_network
from tests.compiler.network.given_models import GivenModel, evaluators, saved
from tests.compiler.network.test_net_given import drawn, integers

DOMAIN = "qonnx.custom_op.general"


class Model:
    """Collects nodes; arrays are constants."""

    def __init__(self):
        self.nodes, self.stored = [], []

    def __call__(self, op, *inputs, domain=DOMAIN, **attributes):
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        self.nodes.append(
            helper.make_node(
                op, names, [f"y{len(self.nodes)}"], f"node{len(self.nodes)}", domain=domain, **attributes
            )
        )
        return f"y{len(self.nodes) - 1}"

    def constant(self, value):
        self.stored.append(numpy_helper.from_array(np.asarray(value, np.float32), f"c{len(self.stored)}"))
        return self.stored[-1].name

    def saved(self, folder, shape, *outputs, opsets=((DOMAIN, 1), ("", 13))):
        infos = [helper.make_tensor_value_info(one, TensorProto.FLOAT, None) for one in outputs]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "g", [x], infos, self.stored)
        model = helper.make_model(graph, ir_version=8)
        del model.opset_import[:]
        model.opset_import.extend(helper.make_opsetid(*one) for one in opsets)
        onnx.save(model, folder / "model.onnx")
        return str(folder / "model.onnx")


def quant(x, scale, zero, bits, signed=1, narrow=0, round_=np.rint):
    low = -(2 ** (bits - 1)) + narrow if signed else 0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1 - narrow
    scale = np.float32(scale)
    return (np.clip(round_(np.float32(x) / scale + np.float32(zero)), low, high) - zero).astype(
        np.float32
    ) * scale


@pytest.mark.parametrize(
    ("bits", "signed", "narrow", "zero"),
    [(8, 1, 0, 0), (8, 0, 0, 9), (4, 1, 1, 0), (3, 0, 1, 2), (6, 1, 0, -3)],
)
@pytest.mark.parametrize("opsets", [((DOMAIN, 1), ("", 13)), ((DOMAIN, 1),)])
def test_a_layer_of_whole_numbers(tmp_path, bits, signed, narrow, zero, opsets):
    random = np.random.default_rng(1)
    x, w = random.standard_normal((5, 12)), random.standard_normal((12, 7)).astype(np.float32)
    scales = random.uniform(0.05, 0.1, (1, 7)).astype(np.float32)
    m = Model()
    a = m("Quant", "x", 0.0721, zero, bits, signed=signed, narrow=narrow, rounding_mode="ROUND")
    b = m("Quant", w, scales, 0.0, 4.0, signed=1, narrow=1, rounding_mode="ROUND")
    y = m("Quant", m("MatMul", a, b, domain=""), 0.211, 0.0, 8.0, signed=1, narrow=0, rounding_mode="ROUND")
    inputs = {"x": x.astype(np.float32)}
    network, found = integers(m.saved(tmp_path, x.shape, y, opsets=opsets), inputs)
    products = quant(x, 0.0721, zero, bits, signed, narrow).astype(np.float64) @ quant(w, scales, 0, 4, 1, 1)
    apart = np.rint((found[y] - quant(products, 0.211, 0, 8)) / np.float32(0.211))
    assert np.count_nonzero(apart) == 0
    assert [type(op).__name__ for op in network.operators] == ["MatMul", "Requantise"]


def test_signs(tmp_path):
    random = np.random.default_rng(1)
    x, w = (
        random.standard_normal((5, 12)).astype(np.float32),
        random.standard_normal((12, 7)).astype(np.float32),
    )
    m = Model()
    y = m("MatMul", m("BipolarQuant", "x", 0.5), m("BipolarQuant", w, 0.25), domain="")
    network, found = integers(m.saved(tmp_path, x.shape, y), {"x": x})
    wanted = np.where(x < 0, -0.5, 0.5) @ np.where(w < 0, -0.25, 0.25)
    np.testing.assert_array_equal(found[y], wanted.astype(np.float32))
    assert "MatMul" in {type(op).__name__ for op in network.operators}


def test_upper_bits(tmp_path):
    x = np.random.default_rng(1).standard_normal((5, 12)).astype(np.float32)
    m = Model()
    a = m("Quant", "x", 0.03, 0.0, 8.0, signed=1, narrow=0, rounding_mode="ROUND")
    y = m("Trunc", a, 0.03, 0.0, 8.0, 5.0, rounding_mode="FLOOR")
    _, found = integers(m.saved(tmp_path, x.shape, y), {"x": x})
    whole = np.rint(quant(x, 0.03, 0, 8) / np.float32(0.03))
    np.testing.assert_array_equal(found[y], (np.floor(whole / 8) * np.float32(0.03)).astype(np.float32))


@pytest.mark.parametrize(
    ("bits", "mode", "says"), [(0.0, "ROUND", "a bit width of 0"), (4.0, "DICE", "rounding_mode=DICE")]
)
def test_what_is_wrong_is_said_with_the_nodes_name(tmp_path, bits, mode, says):
    m = Model()
    y = m("Quant", "x", 0.1, 0.0, bits, signed=1, narrow=0, rounding_mode=mode)
    network = load_network(m.saved(tmp_path, (2, 3), m("MatMul", y, np.ones((3, 2)), domain="")))
    with pytest.raises(InputError, match=f"node0.*{says}"):
        quantise(network)


def fewer_bits(m, x, scale, zero, low, high):
    """As brevitas writes its QCDQ form: whole numbers between limits of fewer bits than their type has."""
    pair = m.pair(scale, zero)
    kind = {"int8": np.int8, "uint8": np.uint8}[m.kind]
    limits = [m.constant(kind(limit)) for limit in (low, high)]
    return m("DequantizeLinear", m("Clip", m("QuantizeLinear", x, *pair), *limits), *pair)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("engine", [None, "functional", "rtl"])
def test_whole_numbers_between_narrower_limits(tmp_path, kind, engine):
    m = GivenModel(seed=2, kind=kind)
    a = fewer_bits(m, m.input(1, 3, 6, 6), 0.31, 3, 0, 15)
    b = m("Relu", m("Conv", a, m.weight((8, 3, 3, 3), spread=3)[0], pads=[1] * 4))
    y = fewer_bits(m, b, 0.083, 5, 4, 18)
    z = fewer_bits(m, m("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]), 0.083, 5, 6, 11)
    model, inputs = m.build(y, z), drawn(m)
    if engine is None:
        network, found = integers(saved(model, tmp_path), inputs)
        assert {"Convolution", "Requantise"} < {type(op).__name__ for op in network.operators}
    else:
        run = baco.run(saved(model, tmp_path), "gemmini-default", inputs=inputs, engine=engine)
        assert run.right, run.wrong
        found = run.outputs
    for outputs in evaluators(model, inputs).values():
        for name, wanted in zip((y, z), outputs, strict=True):
            assert len(np.unique(wanted)) > 5
            np.testing.assert_array_equal(found[name], wanted)


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("brevitas", "onnxoptimizer", "onnxscript")),
    reason="needs the packages brevitas, onnxoptimizer and onnxscript",
)
@pytest.mark.parametrize("form", ["export_onnx_qcdq", "export_qonnx"])
@pytest.mark.parametrize("bits", [8, 4])
def test_what_brevitas_exports(tmp_path, bits, form):
    import brevitas.export
    import brevitas.nn as layers
    import torch
    from brevitas.quant import Int32Bias

    torch.manual_seed(0)
    own = {"weight_bit_width": bits, "weight_scaling_per_output_channel": True, "bias_quant": Int32Bias}
    model = torch.nn.Sequential(
        layers.QuantIdentity(bit_width=8, return_quant_tensor=True),
        layers.QuantConv2d(3, 8, 3, padding=1, **own),
        layers.QuantReLU(bit_width=bits, return_quant_tensor=True),
        layers.QuantConv2d(8, 8, 3, groups=8, **own),
        layers.QuantReLU(bit_width=8, return_quant_tensor=True),
        torch.nn.Flatten(),
        layers.QuantLinear(8 * 16, 10, bias=True, **own),
    )
    model(torch.randn(4, 3, 6, 6))  # ranges of activations are learned
    x, path = torch.randn(1, 3, 6, 6), str(tmp_path / "model.onnx")
    getattr(brevitas.export, form)(model.eval(), args=(x,), export_path=path, dynamo=False)
    name = onnx.load(path).graph.input[0].name
    network, found = integers(path, {name: x.numpy()})
    assert [type(op).__name__ for op in network.operators].count("Convolution") == 2
    with torch.no_grad():
        (found,), wanted = found.values(), np.asarray(model(x))
    assert np.abs(found - wanted).max() <= 1e-6 * np.abs(wanted).max()
