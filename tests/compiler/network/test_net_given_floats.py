"""What a quantised model leaves in real numbers is computed as it says, by numpy and by the host core to the same bit."""

import numpy as np
import pytest
from scipy import special

import baco
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.reference import reference, reference_runs
from baco.compiler.ops.elementary import UNARY
from baco.workloads.inputs.load import load_network
from tests.compiler.network.given_models import GivenModel, evaluators, saved
from tests.compiler.network.test_net_given import drawn, integers

#: Largest part of a result's range by which float32 operations in another order differ.
ROUNDING = 3e-6
UNARIES = (
    *("Floor", "Ceil", "Round", "Neg", "Abs", "Exp", "Erf", "Tanh", "Sigmoid", "Relu", "LeakyRelu"),
    *("HardSigmoid", "HardSwish", "Gelu", "Softplus", "Mish", "Softsign", "Elu"),
)


def line(low, high, count):
    return np.linspace(low, high, count).astype(np.float32)


def real_operators(m):
    """(operator, result) of every kind that reads real numbers; those of large ranges are rounded."""
    random = np.random.default_rng(0)

    def weights(*shape):
        return m.constant((0.3 * random.standard_normal(shape)).astype(np.float32))

    x, y = m.rounded(m.input(2, 8, 5, 4), 0.03), m.rounded(m.input(2, 8, 5, 4), 0.02)
    first = m("Exp", m("Mul", x, m.constant(np.float32(0.3))))
    both = m("Add", first, y)
    channels = [m.constant(line(0.5, 1.5, 8)), m.constant(line(-0.5, 0.5, 8))]
    shifted = m("Sub", both, m.constant(np.float32(0.7)))
    positive = m("Abs", shifted)
    scales = m.constant(np.array([1, 1, 2, 2], np.float32))
    border = m.constant(np.array([0, 0, 1, 1, 0, 0, 2, 1])), m.constant(np.float32(0.3))
    made = {name: m(name, shifted) for name in UNARIES}
    made |= {
        name: m(name, m("Add", positive, m.constant(np.float32(0.1))))
        for name in ("Sqrt", "Log", "Reciprocal")
    }
    made |= {name: m(name, both, first) for name in ("Add", "Sub", "Mul", "Div", "Max", "Min")}
    made |= {f"Pow {p}": m("Pow", positive, m.constant(np.float32(p))) for p in (2, 3, 0.5, 1.5)}
    made |= {
        "Where": m("Where", m("Greater", both, first), both, first),
        "Softmax": m("Softmax", both, axis=1),
        "LogSoftmax": m("LogSoftmax", both, axis=-1),
        "LayerNormalization": m("LayerNormalization", both, *(m.constant(line(-1, 1, 4)) for _ in range(2))),
        "InstanceNormalization": m("InstanceNormalization", both, *channels),
        "BatchNormalization": m("BatchNormalization", both, *channels, channels[1], channels[0]),
        "ReduceMean": m("ReduceMean", both, m.constant(np.array([1, 3]))),
        "ReduceSum": m("ReduceSum", both, m.constant(np.array([2]))),
        "ReduceMin": m("ReduceMin", both, m.constant(np.array([0, 2]))),
        "MaxPool": m("MaxPool", both, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2]),
        "AveragePool": m("AveragePool", both, kernel_shape=[3, 3], pads=[1] * 4),
        "Resize": m("Resize", both, "", scales, mode="linear"),
        "Conv": m("Conv", both, weights(12, 2, 3, 3), m.constant(line(-1, 1, 12)), pads=[1] * 4, group=4),
        "ConvTranspose": m(
            "ConvTranspose", both, weights(8, 3, 2, 3), m.constant(line(-1, 1, 3)), strides=[3, 2]
        ),
        "ConvTranspose, dense": m("ConvTranspose", both, weights(8, 3, 3, 3), m.constant(line(-1, 1, 3))),
        "MatMul": m("MatMul", both, weights(4, 5)),
        "Concat": m("Concat", both, first, axis=1),
        "Pad": m("Pad", both, *border),
    }
    return made


def whole_operands(m):
    """Contractions of whole numbers whose results the model does not round, and biases that it does not either."""
    x = m.rounded(m.input(2, 8, 5, 4), 0.03)
    w, _ = m.weight((12, 8, 3, 3))
    rows, (columns, _) = m.rounded(m.input(2, 5, 20), 0.03), m.weight((20, 12), axis=1)
    transposed, _ = m.weight((8, 6, 3, 3), axis=1)
    return {
        "Conv": m("Relu", m("Conv", x, w, m.constant(line(-1, 1, 12)))),
        "MatMul": m("Add", m("MatMul", rows, columns), m.constant(line(-1, 1, 12))),
        "ConvTranspose": m("ConvTranspose", x, transposed, m.constant(line(-1, 1, 6)), strides=[3, 2]),
        "products of both": m(
            "MatMul", rows, m("Transpose", m.rounded(m.input(2, 7, 20), 0.02), perm=[0, 2, 1])
        ),
    }


def assert_near(m, model, path, made, inputs):
    network, found = integers(path, inputs)
    for judge, outputs in evaluators(model, inputs).items():
        for (what, name), wanted in zip(made.items(), outputs, strict=True):
            assert len(np.unique(wanted)) > 2, what
            assert np.abs(found[name] - wanted).max() <= ROUNDING * np.abs(wanted).max(), (what, judge)
    return network


@pytest.mark.parametrize("make", [real_operators, whole_operands])
def test_real_numbers_are_computed_as_the_model_says(tmp_path, make):
    m = GivenModel(seed=3, kind="uint8", per_channel=True)
    made = make(m)
    model, inputs = m.build(*made.values()), drawn(m)
    path = saved(model, tmp_path)
    network = assert_near(m, model, path, made, inputs)
    kinds = {type(op).__name__ for op in network.operators}
    assert (make is whole_operands) == bool(kinds & {"Convolution", "MatMul"})
    runs = [quantise_inputs(network, drawn(m, seed)) for seed in range(3)]
    together, alone = reference_runs(network, runs), [reference(network, one) for one in runs]
    for name in (view.value for view in network.outputs.values()):
        np.testing.assert_array_equal(together[name], np.stack([one[name] for one in alone]))
    run = baco.run(path, "gemmini-default", inputs=inputs)
    assert run.right, run.wrong


def test_what_is_rounded_behind_real_numbers_is_the_models_whole_number(tmp_path):
    m = GivenModel(seed=3, kind="uint8")
    made = real_operators(m)
    rounded = {what: m.rounded(y, 0.02) for what, y in made.items()}
    model, inputs = m.build(*rounded.values()), drawn(m)
    _, found = integers(saved(model, tmp_path), inputs)
    for judge, outputs in evaluators(model, inputs).items():
        for (what, name), wanted in zip(rounded.items(), outputs, strict=True):
            apart = np.rint(np.abs(found[name] - wanted) / float(m.scale_of(name)))
            assert apart.max() <= 1, (what, judge)
            assert np.mean(apart != 0) < 0.01, (what, judge)


def test_a_bias_beyond_the_sums_is_added_by_the_host(tmp_path):
    """An int32 bias that leaves no room for products in 32 bits."""
    m = GivenModel(seed=1, kind="int8")
    x = m.rounded(m.input(1, 8, 6, 6), 0.03)
    w, scale = m.weight((4, 8, 3, 3))
    unit = float(m.scale_of(x)) * float(scale)
    whole = np.array([2**31 - 5, -(2**31) + 9, 2**30, 3], np.int32)
    bias = m("DequantizeLinear", m.constant(whole), m.constant(np.float32(unit)))
    y = m.rounded(m("Conv", x, w, bias), unit * 2**24)
    model, inputs = m.build(y), drawn(m)
    network, found = integers(saved(model, tmp_path), inputs)
    assert [type(op).__name__ for op in network.operators][-1] == "Requantise"
    # onnxruntime's optimisations make it a sum of 32 bits, which wraps
    (wanted,) = evaluators(model, inputs)["onnx.reference"]
    assert np.abs(np.rint((found[y] - wanted) / float(m.scale_of(y)))).max() <= 1


@pytest.mark.parametrize(
    ("name", "oracle", "low", "high"),
    [
        ("exp", np.exp, -90, 88),
        ("erf", special.erf, -6, 6),
        ("tanh", np.tanh, -12, 12),
        ("sigmoid", special.expit, -90, 90),
        ("log", np.log, 1e-30, 1e30),
    ],
)
def test_elementary_functions_are_the_nearest_float32(name, oracle, low, high):
    x = np.linspace(low, high, 40_001) if low < 0 else np.geomspace(low, high, 40_001)
    x = x.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(UNARY[name](x, 0, 0).astype(np.float32), oracle(x).astype(np.float32))


def test_elementary_functions_at_their_ends():
    x = np.array([-np.inf, -1000.0, -0.0, 0.0, 1000.0, np.inf, np.nan])
    with np.errstate(all="ignore"):
        found = {
            name: UNARY[name](x, 0, 0).astype(np.float32) for name in ("exp", "log", "erf", "tanh", "sigmoid")
        }
    np.testing.assert_array_equal(found["exp"], [0, 0, 1, 1, np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(
        found["log"], [np.nan, np.nan, -np.inf, -np.inf, np.float32(np.log(1000)), np.inf, np.nan]
    )
    np.testing.assert_array_equal(found["erf"], [-1, -1, 0, 0, 1, 1, np.nan])
    np.testing.assert_array_equal(found["tanh"], [-1, -1, 0, 0, 1, 1, np.nan])
    np.testing.assert_array_equal(found["sigmoid"], [0, 0, 0.5, 0.5, 1, 1, np.nan])


def test_models_that_are_not_quantised_keep_no_real_numbers(tmp_path):
    m = GivenModel(seed=1)
    model = m.build(m("Softmax", m("MatMul", m.input(3, 8), m.constant(line(-1, 1, 40).reshape(8, 5)))))
    network = quantise(load_network(saved(model, tmp_path)))
    assert all(value.dtype != "float32" for value in network.values.values())
