"""TensorFlow Lite models of whole numbers run as they are; the judge is LiteRT."""

import importlib.util

import numpy as np
import pytest

import baco
from baco.common.errors import InputError
from baco.compiler.network.quantise import quantise
from baco.workloads.inputs.load import load_network
from tests.compiler.network.test_net_given import integers
from tests.compiler.network.tflite_models import RELU6, VALID, TfliteModel

needs_litert = pytest.mark.skipif(
    importlib.util.find_spec("ai_edge_litert") is None, reason="needs the package ai-edge-litert"
)
#: Share of elements that may be a step apart, at ties: averages of four elements, which LiteRT rounds away from 0, have many.
MOST_APART = {"average pool": 0.25}


def operators(m, per_channel=True):
    """Each an output: number of a tensor -> what it is."""
    x = m.input(1, 9, 9, 3)
    made = {m.convolution(x, (1, 9, 9, 8), per_channel=per_channel): "conv"}
    (a,) = made
    made[b := m.convolution(a, (1, 5, 5, 8), 2.1, 5, deep=True, stride=2, act=0)] = "depthwise"
    made[c := m.convolution(b, (1, 5, 5, 8), 3.0, kernel=1, padding=VALID, act=0)] = "pointwise"
    made[d := m("ADD", (b, c), (1, 5, 5, 8), 3.3, 2, options="AddOptions")] = "add"
    pool = {
        "options": "Pool2DOptions",
        "filterHeight": 2,
        "filterWidth": 2,
        "strideH": 2,
        "strideW": 2,
        "padding": VALID,
    }
    made[e := m("MAX_POOL_2D", (d,), (1, 2, 2, 8), 3.3, 2, **pool)] = "max pool"
    made[m("AVERAGE_POOL_2D", (d,), (1, 2, 2, 8), 3.3, 2, **pool)] = "average pool"
    made[f := m("MEAN", (e, m.numbers(1, 2)), (1, 8), 2.0, 1, options="ReducerOptions", keepDims=False)] = (
        "mean"
    )
    made[g := m("LOGISTIC", (d,), (1, 5, 5, 8), 1 / 256, -128)] = "logistic"
    made[m("MUL", (g, d), (1, 5, 5, 8), 3.1, 0, options="MulOptions", fusedActivationFunction=0)] = "mul"
    made[
        h := m(
            "PAD", (d, m.tensor((4, 2), "int32", data=[[0, 0], [1, 0], [0, 2], [0, 0]])), (1, 6, 7, 8), 3.3, 2
        )
    ] = "pad"
    made[m("CONCATENATION", (h, h), (1, 6, 7, 16), 3.3, 2, options="ConcatenationOptions", axis=3)] = (
        "concatenation"
    )
    made[m("TRANSPOSE", (e, m.numbers(0, 3, 1, 2)), (1, 8, 2, 2), 3.3, 2)] = "transpose"
    line = m("RESHAPE", (e, m.numbers(1, 32)), (1, 32), 3.3, 2, options="ReshapeOptions", newShape=[1, 32])
    weights = m.weights((10, 32), 0, line, per_channel=per_channel)
    made[i := m("FULLY_CONNECTED", (line, *weights), (1, 10), 6.1, 4, options="FullyConnectedOptions")] = (
        "product"
    )
    made[m("SOFTMAX", (i,), (1, 10), 1 / 256, -128, options="SoftmaxOptions", beta=0.02)] = "softmax"
    made[m("DEQUANTIZE", (f,), (1, 8), None, kind="float32")] = "real"
    made[m("QUANTIZE", (f,), (1, 8), 3.0, -3)] = "quantize"
    return made


@needs_litert
@pytest.mark.parametrize("per_channel", [True, False])
def test_operators_give_litert_s_whole_numbers(tmp_path, per_channel):
    m = TfliteModel()
    made = operators(m, per_channel)
    path = m.saved(tmp_path, *made)
    network = load_network(path)
    assert network.input_types == {"t0": "int8"}
    x = {"t0": np.random.default_rng(1).integers(-128, 127, (1, 9, 9, 3)).astype(np.int8)}
    assert network.judge is not None
    name, outputs = network.judge(x)
    assert name.startswith("LiteRT")
    integer, found = integers(path, x)
    assert [type(op).__name__ for op in integer.operators].count("Convolution") == 3
    for what, (label, _), wanted in zip(made.values(), network.named_outputs, outputs, strict=True):
        apart = np.abs(found[label].astype(np.float64) - wanted)
        assert len(np.unique(wanted)) > 2, what
        if what == "real":
            np.testing.assert_allclose(found[label], wanted, rtol=1e-6)
        else:
            assert apart.max() <= 1, what
            assert np.mean(apart > 0) <= MOST_APART.get(what, 0.02) or np.count_nonzero(apart) <= 1, what


@needs_litert
@pytest.mark.parametrize("engine", ["functional", "rtl"])
def test_the_program_gives_what_litert_gives(tmp_path, engine):
    m = TfliteModel()
    a = m.convolution(m.input(1, 8, 8, 3), (1, 4, 4, 8), stride=2, act=RELU6, scale=0.02, zero=-128)
    line = m(
        "RESHAPE", (a, m.numbers(2, 64)), (2, 64), 0.02, -128, options="ReshapeOptions", newShape=[2, 64]
    )
    weights = m.weights((6, 64), 0, line)
    y = m("FULLY_CONNECTED", (line, *weights), (2, 6), 0.05, 4, options="FullyConnectedOptions")
    path = m.saved(tmp_path, y)
    x = {"t0": np.random.default_rng(1).integers(-128, 127, (1, 8, 8, 3)).astype(np.int8)}
    run = baco.run(path, "gemmini-default", inputs=x, engine=engine)
    assert run.right, run.wrong
    judge = load_network(path).judge
    assert judge is not None
    (found,) = run.outputs.values()
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, judge(x)[1][0])


def broken(m, change):
    x = m.input(1, 4, 4, 3)
    y = m.convolution(x, (1, 4, 4, 5))
    change(m, m.graph.tensors)
    return m, y


def _set(index, **values):
    def change(m, tensors):
        for name, value in values.items():
            setattr(tensors[index].quantization, name, value)

    return change


def _without(index):
    def change(m, tensors):
        tensors[index].quantization = None

    return change


def _short(m, tensors):
    m.model.buffers[1].data = m.model.buffers[1].data[:-7]


@needs_litert
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_without(0), "conv_2d_0.*its input 't0' is int8 without a scale"),
        (_without(3), "conv_2d_0.*its result 't3' is int8 without a scale"),
        (_set(0, scale=[0.0]), "conv_2d_0.*its scale is 0"),
        (_set(3, scale=[float("nan")]), "conv_2d_0.*its scale is nan"),
        (_set(0, zeroPoint=[300]), "conv_2d_0.*its zero point 300 is out of the range of int8"),
        (_set(1, scale=[0.1] * 4, zeroPoint=[0] * 4), "conv_2d_0.*4 scales, but its axis 0 is 5 long"),
        (_set(1, quantizedDimension=3), "conv_2d_0.*5 scales, but its axis 3 is 3 long"),
        (_set(1, quantizedDimension=7), "conv_2d_0.*its axis 7 is none of a tensor of 4"),
        (_short, "conv_2d_0.*its constant 't1' holds 128 elements"),
    ],
    ids=range(9),
)
def test_what_is_wrong_with_a_tensor_is_said_with_the_nodes_name(tmp_path, change, says):
    m, y = broken(TfliteModel(), change)
    with pytest.raises(InputError, match=says):
        quantise(load_network(m.saved(tmp_path, y)))


@needs_litert
def test_files_that_are_none(tmp_path):
    m, y = broken(TfliteModel(), lambda m, tensors: None)
    path = tmp_path / "model.tflite"
    data = (m.saved(tmp_path, y), path.read_bytes())[1]
    for length in (len(data) * 2 // 3, len(data) // 2, 60, 9):
        path.write_bytes(data[:length])
        with pytest.raises(InputError, match=r"damaged, or cut|holds no graph"):
            load_network(str(path))
    path.write_bytes(b"what is this?")
    with pytest.raises(InputError, match="not a TensorFlow Lite model"):
        load_network(str(path))
    m, y = broken(TfliteModel(), lambda m, tensors: setattr(m.model, "version", 9))
    with pytest.raises(InputError, match="version 9 of TensorFlow Lite's schema"):
        load_network(m.saved(tmp_path, y))


@needs_litert
def test_an_operator_that_is_not_known_is_named(tmp_path):
    m = TfliteModel()
    y = m.convolution(m.input(1, 4, 4, 3), (1, 4, 4, 5))
    z = m("CUMSUM", (y, m.numbers(1)), (1, 4, 4, 5), options="CumsumOptions")
    path = m.saved(tmp_path, z)
    assert [str(one) for one in load_network(path).unsupported] == ["tflite.CUMSUM (cumsum_1)"]
    with pytest.raises(InputError, match=r"tflite.CUMSUM \(cumsum_1\)"):
        quantise(load_network(path))


def test_what_reads_such_files_is_named_where_it_is_missing(tmp_path, monkeypatch):
    (tmp_path / "model.tflite").write_bytes(b"\x1c\0\0\0TFL3" + bytes(40))
    monkeypatch.setitem(__import__("sys").modules, "ai_edge_litert.schema_py_generated", None)
    with pytest.raises(InputError, match=r"'ai-edge-litert', which is not installed(.|\n)*baco\[tflite\]"):
        load_network(str(tmp_path / "model.tflite"))
