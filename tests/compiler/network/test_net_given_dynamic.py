"""Models whose scales are computed while they run: DynamicQuantizeLinear, MatMulInteger, ConvInteger."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import baco
from tests.compiler.network.given_models import GivenModel, evaluators, saved
from tests.compiler.network.test_net_given import drawn, integers


def scaled(m, whole, scale, factor):
    """Whole sums in real numbers, as onnxruntime's dynamic quantiser writes it."""
    return m("Mul", m("Cast", whole, to=TensorProto.FLOAT), m("Mul", scale, m.constant(np.float32(factor))))


def weights(m, *shape, kind=np.int8):
    low, high = (0, 255) if kind == np.uint8 else (-128, 127)
    return m.constant(m.random.integers(low, high, shape, endpoint=True).astype(kind))


def dynamic(m, x):
    """Names of whole numbers, scale and zero point of a tensor."""
    names = [f"{x}.{part}" for part in ("whole", "scale", "zero")]
    m.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], names, f"dynamic {x}"))
    return names


def products(m):
    x = m.input(3, 40)
    y, scale, zero = dynamic(m, x)
    first = scaled(m, m("MatMulInteger", y, weights(m, 40, 24), zero), scale, 0.01)
    y, scale, zero = dynamic(m, m("Relu", first))
    w = weights(m, 24, 5, kind=np.uint8)
    return first, scaled(m, m("MatMulInteger", y, w, zero, m.constant(np.uint8(120))), scale, 0.02)


def convolutions(m):
    y, scale, zero = dynamic(m, m.input(1, 6, 8, 7))
    plain = scaled(m, m("ConvInteger", y, weights(m, 8, 6, 3, 3), zero), scale, 0.01)
    w = weights(m, 8, 3, 3, 2, kind=np.uint8)
    shape = {"pads": [1, 1, 2, 1], "strides": [2, 1], "group": 2}
    padded = m("ConvInteger", y, w, zero, m.constant(np.uint8(130)), **shape)
    return plain, scaled(m, padded, scale, 0.01)


@pytest.mark.parametrize("make", [products, convolutions])
def test_scales_that_are_computed(tmp_path, make):
    m = GivenModel(seed=2)
    made = make(m)
    model, inputs = m.build(*made), drawn(m)
    path = saved(model, tmp_path)
    network, found = integers(path, inputs)
    assert {type(op).__name__ for op in network.operators} & {"Convolution", "MatMul"}
    for judge, outputs in evaluators(model, inputs).items():
        for name, wanted in zip(made, outputs, strict=True):
            assert np.abs(found[name] - wanted).max() <= 3e-6 * np.abs(wanted).max(), judge
    other = {name: 3 * x + 1 for name, x in inputs.items()}
    run = baco.run(path, "gemmini-default", inputs=other)
    assert run.right, run.wrong
    for outputs in evaluators(model, other).values():
        for name, wanted in zip(made, outputs, strict=True):
            assert np.abs(run.outputs[name] - wanted).max() <= 3e-6 * np.abs(wanted).max()


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_zero_points_that_are_constants(tmp_path, kind):
    m = GivenModel(seed=2)
    x = m.whole_input((3, 40), TensorProto.UINT8 if kind == np.uint8 else TensorProto.INT8)
    zero = m.constant(kind(7))
    sums = m("MatMulInteger", x, weights(m, 40, 24), zero)
    y = m("Cast", sums, to=TensorProto.FLOAT)
    model = m.build(y)
    low = 0 if kind == np.uint8 else -128
    given = {x: m.random.integers(low, low + 256, (3, 40)).astype(kind)}
    _, found = integers(saved(model, tmp_path), given)
    for outputs in evaluators(model, given).values():
        np.testing.assert_array_equal(found[y], outputs[0])
