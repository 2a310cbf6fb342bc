"""Networks whose products read other formats: to the bit what plain loops over ml_dtypes' numbers in float32 give."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from net_quant_networks import transposed
from onnx import TensorProto, helper, numpy_helper, save

from baco.accel.number_formats import FORMATS
from baco.common.errors import InputError
from baco.compiler.network.accuracy import format_accuracy
from baco.compiler.network.calibrate import random_inputs
from baco.compiler.network.float_graph import FloatGraph
from baco.compiler.network.format_graph import FormatGraph, float_format
from baco.compiler.network.parameters import Parameters
from baco.compiler.network.quantise import runnable
from baco.workloads.inputs.load import load_network
from baco.workloads.inputs.samples import read_samples

RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((2, 6, 7, 8)).astype(np.float32)
W = RANDOM.standard_normal((4, 3, 3, 2)).astype(np.float32)
BIAS = RANDOM.standard_normal(4).astype(np.float32)
ROWS = RANDOM.standard_normal((2, 3, 40)).astype(np.float32)
RIGHT = RANDOM.standard_normal((40, 5)).astype(np.float32)


def _model(tmp_path, nodes, x, shape, arrays):
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(one, name) for name, one in arrays.items()],
    )
    path = tmp_path / "small.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return load_network(str(path))


def _run(network, x, name, largest=None):
    parameters = Parameters(network.source)
    network = runnable(network, parameters)
    largest = {"x": float(np.abs(x).max())} if largest is None else largest
    (result,) = FormatGraph(network, parameters, float_format(name), largest).run({"x": x})
    return result


def _fp8(numbers):
    """E4M3 by ml_dtypes, in the unit by which the largest magnitude is within 448."""
    unit = np.float32(1)
    while np.abs(numbers).max() > 448 * unit:
        unit *= 2
    while np.abs(numbers).max() <= 448 * unit / 2:
        unit /= 2
    return (numbers / unit).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * unit


def _bf16(numbers):
    return numbers.astype(ml_dtypes.bfloat16).astype(np.float32)


def _convolved(x, w):
    """Stride 2 and 1, dilation 1 and 2, padding 1 below and right, two groups; sums in float32, one product after the other."""
    x = np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1)))
    result = np.zeros((2, 4, 3, 7), np.float32)
    for n, k, q, p in np.ndindex(result.shape):
        total = np.float32(0)
        for s, r, c in np.ndindex(3, 2, 3):
            product = x[n, 3 * (k // 2) + c, 2 * q + s, p + 2 * r] * w[k, c, s, r]
            total = np.float32(total + np.float32(product))
        result[n, k, q, p] = total + BIAS[k]
    return result


@pytest.mark.parametrize(("name", "rounded"), [("fp8-e4m3", _fp8), ("bf16", _bf16)])
def test_a_convolution_is_that_of_a_plain_loop(tmp_path, name, rounded):
    attributes = {"strides": [2, 1], "dilations": [1, 2], "pads": [0, 0, 1, 1], "group": 2}
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)
    network = _model(tmp_path, [node], X, [2, 4, 3, 7], {"w": W, "b": BIAS})
    assert np.array_equal(_run(network, X, name), _convolved(rounded(X), rounded(W)))


@pytest.mark.parametrize("name", ["fp8-e4m3", "bf16", "mxfp4", "mxint8"])
def test_a_product_is_that_of_a_plain_loop(tmp_path, name):
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    network = _model(tmp_path, [node], ROWS, [2, 3, 5], {"w": RIGHT})
    if name.startswith("mx"):  # blocks of 32 and 8 along what is summed over
        left = FORMATS[name].rounded(ROWS).astype(np.float32)
        right = FORMATS[name].rounded(RIGHT.T).T.astype(np.float32)
    else:
        rounded = _fp8 if name.startswith("fp8") else _bf16
        left, right = rounded(ROWS), rounded(RIGHT)
    wanted = np.zeros((2, 3, 5), np.float32)
    for k in range(40):
        wanted = wanted + left[..., k, None] * right[k]
    assert wanted.dtype == np.float32
    assert np.array_equal(_run(network, ROWS, name), wanted)


def test_a_product_is_scaled_before_its_bias_is_added(tmp_path):
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], alpha=0.25)
    rows, bias = ROWS[0], RANDOM.standard_normal(5).astype(np.float32)
    network = _model(tmp_path, [node], rows, [3, 5], {"w": RIGHT, "b": bias})
    left, right, total = _bf16(rows), _bf16(RIGHT), np.zeros((3, 5), np.float32)
    for k in range(40):
        total = total + left[:, k, None] * right[k]
    assert np.array_equal(_run(network, rows, "bf16"), total * np.float32(0.25) + bias)


def test_blocks_of_an_image_lie_along_its_channels(tmp_path):
    x = np.ones((1, 64, 1, 2), np.float32)
    x[0, :, 0, 1] = 2.0**-20  # a pixel of its own
    x[0, 40, 0, 0] = 2.0**20  # beside which 1 is 0 in its block, channels 32 to 63 of the first pixel
    w = np.ones((1, 64, 1, 1), np.float32)
    network = _model(tmp_path, [helper.make_node("Conv", ["x", "w"], ["y"])], x, [1, 1, 1, 2], {"w": w})
    assert _run(network, x, "mxfp4").reshape(-1).tolist() == [32 + 2.0**20, 64 * 2.0**-20]


def test_float32_is_the_network_itself_but_for_the_order_of_sums(tmp_path):
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], group=2),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("ReduceMean", ["r"], ["y"], axes=[2, 3], keepdims=0),
    ]
    network = _model(tmp_path, nodes, X, [2, 4], {"w": W, "b": BIAS})
    parameters = Parameters(network.source)
    (wanted,) = FloatGraph(runnable(network, parameters), parameters).run({"x": X})
    assert np.allclose(_run(network, X, "fp32"), wanted, rtol=1e-6)
    assert not np.allclose(_run(network, X, "fp8-e5m2"), wanted, rtol=1e-3)


def test_accuracy_counts_the_answers_of_every_sample(tmp_path):
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    x, w = ROWS.reshape(6, 1, 40), RIGHT
    network = _model(tmp_path, [node], x[:1], [1, 1, 5], {"w": w})
    labels = (x @ w).argmax(-1)
    found = format_accuracy(network, "fp8-e4m3", read_samples({"x": x, "label": labels}, network, ["x"]))
    unit = max(np.abs(x).max(), 0)
    rounded = np.concatenate([_run(network, one[None], "fp8-e4m3", {"x": float(unit)}) for one in x])
    assert (found.samples, found.unseen) == (6, False)
    assert found.right == found.agreeing == np.mean(rounded.argmax(-1) == labels)
    noise = ((rounded - (x @ w)) ** 2).sum()
    assert found.near.snr_db == pytest.approx(10 * np.log10(((x @ w) ** 2).sum() / noise), abs=0.01)


def test_what_is_not_evaluated_is_refused_by_name():
    with pytest.raises(InputError, match="no format 'fp9'"):
        float_format("fp9")
    with pytest.raises(InputError, match="no format 'int8' of real numbers"):
        float_format("int8")
    network, parameters = transposed(), Parameters("x")
    network = runnable(network, parameters)
    graph = FormatGraph(network, parameters, float_format("mxfp4"), {})
    with pytest.raises(InputError, match="transposed convolutions are not evaluated in mxfp4"):
        graph.run(random_inputs(network))
