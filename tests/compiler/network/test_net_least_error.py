"""Scales by the least squared error, and biases that take back what rounding adds on average, against numpy and onnx.reference."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from baco.accel.number_formats import FORMATS
from baco.compiler.network.calibrate import Ranges
from baco.compiler.network.least_error import Magnitudes, images_inside, weights_end
from baco.compiler.network.parameters import Parameters
from baco.compiler.network.quantise import quantise, quantise_inputs, real, runnable
from baco.compiler.network.reference import reference
from baco.compiler.network.trained_weights import mean_error
from baco.workloads.inputs.load import load_network
from tests.compiler.network.net_quant_networks import snr_db


def _error(numbers, end):
    step = end / 127
    return ((np.clip(np.rint(numbers / step), -128, 127) * step - numbers) ** 2).sum()


@pytest.mark.parametrize("degrees", [2, 3, 5, 30])
def test_an_end_costs_hardly_more_than_the_best_of_all(degrees):
    numbers = np.random.default_rng(degrees).standard_t(degrees, 50_000).astype(np.float32)
    largest = float(np.abs(numbers).max())
    magnitudes = Magnitudes()
    for part in np.array_split(numbers, 7):
        magnitudes.add(part)
    least = min(_error(numbers, largest * part) for part in np.linspace(0.25, 1, 151))
    assert _error(numbers, magnitudes.end(largest)) <= 1.12 * least


def test_no_more_is_cut_off_than_is_allowed():
    numbers = np.concatenate([np.ones(990), np.full(10, 20.0)]).astype(np.float32)
    magnitudes = Magnitudes()
    magnitudes.add(numbers)
    assert magnitudes.end(20.0, most_cut=0.001) == 20.0


def test_one_large_number_among_very_many_is_cut_off():
    numbers = np.append(np.random.default_rng(0).standard_normal(1_000_000), 12.0).astype(np.float32)
    magnitudes = Magnitudes()
    magnitudes.add(numbers)
    assert magnitudes.end(12.0, most_cut=0.001) < 8


def test_weights_that_a_scale_holds_exactly_stay_exact():
    random = np.random.default_rng(1)
    integers = np.clip(np.rint(random.standard_normal((64, 64)) * 9), -127, 127)
    integers[0, 0] = 127
    assert weights_end(integers * 0.03, 127 * 0.03, FORMATS["int8"]) == 127 * 0.03


@pytest.mark.parametrize("groups", [1, 3, 12])
def test_what_rounded_weights_add_on_average(groups):
    """Of a grouped product with every tap's input at its mean, channel by channel."""
    random = np.random.default_rng(groups)
    channels, outs = 12, 24
    difference = random.standard_normal((3, 3, channels // groups, outs))
    mean = random.standard_normal(channels)
    wanted = np.zeros(outs)
    for k in range(outs):
        first = k // (outs // groups) * (channels // groups)
        wanted[k] = sum((difference[:, :, c, k] * mean[first + c]).sum() for c in range(channels // groups))
    np.testing.assert_allclose(mean_error(difference, mean), wanted)


def _depthwise(path, spread):
    """Depthwise filters whose channels reach from 1 to 1/`spread`, as they do once normalisation is folded in, then a 1x1 one."""
    random = np.random.default_rng(3)
    channels = 32
    size = spread ** -random.uniform(0, 1, (channels, 1, 1, 1))
    weights = {
        "deep": random.standard_normal((channels, 1, 3, 3)) * size,
        "deep_bias": random.standard_normal(channels) * size[:, 0, 0, 0],
        "point": random.standard_normal((16, channels, 1, 1)) / size[:, 0, 0, 0].reshape(1, -1, 1, 1),
        "point_bias": random.standard_normal(16),
    }
    nodes = [
        helper.make_node(
            "Conv", ["x", "deep", "deep_bias"], ["a"], "deep_conv", group=channels, pads=[1, 1, 1, 1]
        ),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Conv", ["b", "point", "point_bias"], ["y"], "point_conv"),
    ]
    graph = helper.make_graph(
        nodes,
        "depthwise",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, channels, 12, 12))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 16, 12, 12))],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, path)
    return model, {"x": np.abs(random.standard_normal((1, channels, 12, 12))).astype(np.float32)}


def _result(path, inputs):
    quantised = quantise(load_network(str(path)), [inputs])
    values = reference(quantised, quantise_inputs(quantised, inputs))
    return real(quantised, values, "y")


def test_biases_take_back_what_rounding_adds(tmp_path, monkeypatch):
    model, inputs = _depthwise(tmp_path / "m.onnx", spread=20.0)
    (wanted,) = ReferenceEvaluator(model).run(None, inputs)
    with_means = snr_db(wanted, _result(tmp_path / "m.onnx", inputs))
    monkeypatch.setattr(Ranges, "mean", lambda self, name: None)
    assert with_means > snr_db(wanted, _result(tmp_path / "m.onnx", inputs)) + 1


def test_only_what_convolutions_hand_to_each_other_is_cut_off(tmp_path):
    _depthwise(tmp_path / "m.onnx", spread=2.0)
    network = load_network(str(tmp_path / "m.onnx"))
    flat = runnable(network, Parameters(network.source))
    assert images_inside(flat) == {op.name for op in flat.operators} - {flat.outputs[0].name}
