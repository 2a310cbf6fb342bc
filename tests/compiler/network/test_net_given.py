"""Models that are quantised already run as they are: every operator in the model's own whole numbers.

Judges are ONNX's evaluator and, where it is installed, onnxruntime. Operators of onnxruntime that the former lacks are compared with
what they are between QuantizeLinear and DequantizeLinear, which it has.
"""

import numpy as np
import pytest
from onnx import TensorProto

import baco
from baco.common.errors import InputError
from baco.compiler.network.given_operators import GivenWeights
from baco.compiler.network.quantise import quantise, quantise_inputs, real
from baco.compiler.network.reference import reference
from baco.main import run as command
from baco.workloads.inputs.load import load_network
from tests.compiler.network.given_models import GivenModel, evaluators, saved
from tests.compiler.network.given_operators import PAIRS, WHOLE
from tests.seeds import some

#: Kinds of whole numbers, with and without zero points, scales for all weights or for every channel.
FORMS = (
    {"kind": "int8", "zeros": False},
    {"kind": "int8"},
    {"kind": "uint8", "weights": "uint8"},
    {"kind": "uint8", "per_channel": True},
    {"kind": "int8", "zeros": False, "per_channel": True},
)
#: Share of results that may be one step apart: float32 operations come in another order, and there are ties.
MOST_APART = 0.004
#: The same where onnxruntime has an arithmetic of its own.
APART_BY_ONNXRUNTIME = {"Softmax": 0.1, "QLinearSoftmax": 0.1, "attention": 0.1}


def drawn(m, seed=5):
    """Real inputs that use most of the range of their encoding."""
    shapes = {name: [d.dim_value for d in one.type.tensor_type.shape.dim] for name, one in m.inputs.items()}
    random = np.random.default_rng(seed)
    return {name: (2 * random.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}


def scales(m):
    """Scale of every tensor that a DequantizeLinear of an activation gives."""
    return {
        one.output[0]: float(m.scale_of(one.output[0]))
        for one in m.nodes
        if one.op_type == "DequantizeLinear" and m.scale_of(one.output[0]).size == 1
    }


def integers(path, inputs):
    """The network in integers, and its outputs in real numbers."""
    network = quantise(load_network(path), [inputs])
    values = reference(network, quantise_inputs(network, inputs))
    return network, {name: np.asarray(real(network, values, name)) for name in network.outputs}


def assert_equal(found, wanted, scale, what, judge=""):
    apart = np.rint((found - wanted.astype(np.float64)) / scale)
    most = APART_BY_ONNXRUNTIME.get(what, MOST_APART) if judge == "onnxruntime" else MOST_APART
    assert np.abs(apart).max() <= 1, (what, judge)
    assert np.mean(apart != 0) <= most, (what, judge)


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3, 1), (3, 3, 4)], ids=str)
def test_weights_are_summed_up_channel_by_channel(shape):
    """Also where one number in memory stands for all weights."""
    numbers = np.random.default_rng(2).integers(-128, 128, shape).astype(np.int8)
    for parts in ((numbers,), (np.broadcast_to(np.int8(-7), shape),), (numbers, numbers[::-1])):
        weights = GivenWeights(parts, np.ones(1, np.float32))
        whole = [part.astype(np.int64).reshape(-1, shape[-1]) for part in parts]
        assert np.array_equal(weights.sums(), sum(part.sum(0) for part in whole))
        assert np.array_equal(weights.magnitudes(), np.max([np.abs(part).sum(0) for part in whole], 0))


@pytest.mark.parametrize("form", some(3, (*FORMS[::2], *FORMS[1::2])), ids=str)
def test_operators_between_pairs_give_the_models_whole_numbers(tmp_path, form):
    m = GivenModel(seed=3, **form)
    names = {make(m): what for what, make in PAIRS.items()}
    model, inputs = m.build(*names), drawn(m)
    _, found = integers(saved(model, tmp_path), inputs)
    for judge, outputs in evaluators(model, inputs).items():
        for (name, what), wanted in zip(names.items(), outputs, strict=True):
            assert len(np.unique(wanted)) > 2, what
            assert_equal(found[name], wanted, scales(m)[name], what, judge)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_operators_on_whole_numbers_give_the_models(tmp_path, form):
    m = GivenModel(seed=4, **form)
    pairs = {what: make(m) for what, make in WHOLE.items()}
    inputs = drawn(m)
    twins = [twin for _, twin in pairs.values()]
    wanted = evaluators(m.part(*twins), inputs)["onnx.reference"]
    model = m.part(*(y for y, _ in pairs.values()))
    _, found = integers(saved(model, tmp_path), inputs)
    for (what, (name, twin)), other in zip(pairs.items(), wanted, strict=True):
        assert_equal(found[name], other, scales(m)[twin], what)
    for judge, outputs in evaluators(model, inputs).items():
        for (what, (name, _)), other in zip(pairs.items(), outputs, strict=True):
            assert_equal(found[name], other, scales(m)[name], what, judge)


@pytest.mark.parametrize("form", some(2, FORMS[1:4]), ids=str)
def test_the_program_gives_what_the_integers_are(tmp_path, form):
    """On the functional engine, operator by operator, and judged by an evaluator that is not ours."""
    m = GivenModel(seed=3, **form)
    made = [make(m) for make in PAIRS.values()]
    inputs = drawn(m)
    run = baco.run(saved(m.build(*made), tmp_path), "gemmini-default", inputs=inputs)
    assert run.right, run.wrong


@pytest.mark.parametrize("opset", [10, 13, 19, 23])
def test_operator_sets(tmp_path, opset):
    m = GivenModel(seed=1, kind="uint8")
    y = PAIRS["padded"](m)
    model, inputs = m.build(y, opset=opset), drawn(m)
    _, found = integers(saved(model, tmp_path), inputs)
    for outputs in evaluators(m.build(y, opset=21), inputs).values():
        assert_equal(found[y], outputs[0], scales(m)[y], opset)


@pytest.mark.parametrize("zero", [0, 5, 120, 200])
def test_weights_that_less_their_zero_point_need_nine_bits(tmp_path, zero):
    m = GivenModel(seed=1, kind="uint8")
    whole = m.constant(m.random.integers(0, 255, (12, 8, 3, 3)).astype(np.uint8))
    w = m("DequantizeLinear", whole, m.constant(np.float32(0.01)), m.constant(np.uint8(zero)))
    y = m.rounded(m("Conv", m.rounded(m.input(1, 8, 6, 6), 0.03), w, pads=[1] * 4), 1.0)
    model, inputs = m.build(y), drawn(m)
    network, found = integers(saved(model, tmp_path), inputs)
    assert sum(type(op).__name__ == "Convolution" for op in network.operators) == 2
    for outputs in evaluators(model, inputs).values():
        assert_equal(found[y], outputs[0], scales(m)[y], zero)


def test_whole_numbers_go_in_and_come_out(tmp_path):
    """Of a model whose input and output are such, as the model has them."""
    m = GivenModel(seed=1, kind="uint8")
    pair, w, out = m.pair(0.03), m.weight((4, 3, 3, 3))[0], m.pair(0.1)
    x = m.whole_input((1, 3, 6, 6), TensorProto.UINT8)
    y = m("QuantizeLinear", m("Conv", m("DequantizeLinear", x, *pair), w), *out)
    model = m.build(y, kinds={y: TensorProto.UINT8})
    given = {x: np.random.default_rng(0).integers(0, 256, (1, 3, 6, 6)).astype(np.uint8)}
    network, found = integers(saved(model, tmp_path), given)
    assert [type(op).__name__ for op in network.operators] == ["Convolution", "Requantise"]
    for outputs in evaluators(model, given).values():
        assert np.abs(found[y] - outputs[0].astype(int)).max() <= 1
        assert np.mean(found[y] != outputs[0]) <= MOST_APART


def test_the_command_takes_and_gives_the_models_own_tensors(tmp_path, capsys):
    """By name, in the types that the model declares."""
    m = GivenModel(seed=1, kind="uint8")
    pair, w, out = m.pair(0.03), m.weight((4, 3, 3, 3))[0], m.pair(0.1)
    x = m.whole_input((1, 3, 6, 6), TensorProto.UINT8)
    y = m("QuantizeLinear", m("Conv", m("DequantizeLinear", x, *pair), w), *out)
    z = m("DequantizeLinear", y, *out)
    model = m.build(y, z, kinds={y: TensorProto.UINT8})
    path, given = (
        saved(model, tmp_path),
        np.random.default_rng(0).integers(0, 256, (1, 3, 6, 6)).astype(np.uint8),
    )
    np.savez(tmp_path / "in.npz", **{x: given})
    ends = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz")]
    assert command("baco", ["run", "--network", path, *ends]) == 0
    assert "all is equal" in capsys.readouterr().out
    with np.load(tmp_path / "out.npz") as found:
        assert {name: found[name].dtype for name in found} == {y: np.uint8, z: np.float32}
        for outputs in evaluators(model, {x: given}).values():
            np.testing.assert_array_equal(found[y], outputs[0])
            np.testing.assert_array_equal(found[z], outputs[1])
    np.savez(tmp_path / "in.npz", **{x: given + 0.5})
    assert command("baco", ["run", "--network", path, *ends]) == 2
    assert f"the input '{x}' is uint8 in the model" in capsys.readouterr().err


def broken(**changes):
    """A model with one node that is wrong."""
    m = GivenModel(seed=1)
    given = {"scale": np.float32(0.03), "zero": np.int8(3), "axis": 1} | changes
    x = m.input(1, 3, 6, 6)
    numbers = [m.constant(given[one]) for one in ("scale", "zero") if given[one] is not None]
    q = m(
        "QuantizeLinear",
        x,
        *(m.pair(0.03) if given.get("late") else numbers),
        name="first",
        axis=given["axis"],
    )
    y = m("DequantizeLinear", q, *numbers, name="second", axis=given["axis"])
    return m.build(m("Conv", y, m.weight((4, 3, 3, 3))[0]))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"scale": None, "zero": None}, "'first'.*lacks its scale"),
        ({"scale": np.float32(0)}, "'first'.*its scale is 0"),
        ({"scale": np.float32(np.nan)}, "'first'.*its scale is nan"),
        ({"scale": np.float32(-1)}, "'first'.*its scale is -1"),
        (
            {"scale": np.full(3, 0.1, np.float32), "zero": np.zeros(3, np.int8), "axis": 7},
            "'first'.*axis 7 is none",
        ),
        (
            {"scale": np.full(4, 0.1, np.float32), "zero": np.zeros(4, np.int8)},
            "'first'.*4 scales, but its axis 1 is 3 long",
        ),
        (
            {"scale": np.full(3, 0.1, np.float32), "zero": np.zeros(2, np.int8)},
            "'first'.*3 scales, but 2 zero points",
        ),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_pair_is_said_with_the_nodes_name(tmp_path, changes, says):
    with pytest.raises(InputError, match=says.replace("'first'", "first")):
        load_network(saved(broken(**changes), tmp_path))


def test_weights_that_are_stored_wrongly_are_said_with_the_nodes_name(tmp_path):
    for number, (scale, zero, axis, says) in enumerate(
        (
            (np.full(5, 0.1, np.float32), np.zeros(5, np.int8), 0, "5 scales, but its axis 0 is 4 long"),
            (np.zeros(4, np.float32), np.zeros(4, np.int8), 0, "its scale is 0"),
            (np.full(4, 0.1, np.float32), np.zeros(4, np.int8), 4, "axis 4 is none"),
            (np.float32(0.1), np.int32(300), 0, "its zero point is of int32, and its numbers are of int8"),
            (np.float32(0.1), np.uint8(3), 0, "its zero point is of uint8, and its numbers are of int8"),
        )
    ):
        m = GivenModel(seed=1)
        whole = m.constant(np.ones((4, 3, 3, 3), np.int8))
        w = m("DequantizeLinear", whole, m.constant(scale), m.constant(zero), axis=axis, name="weights")
        model = m.build(m("Conv", m.rounded(m.input(1, 3, 6, 6), 0.1), w))
        with pytest.raises(InputError, match=f"weights.*{says}"):
            load_network(saved(model, tmp_path, f"wrong{number}"))


def test_other_broken_models(tmp_path):
    model = broken()
    data = model.SerializeToString()
    (tmp_path / "cut.onnx").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match=r"truncated|damaged"):
        load_network(str(tmp_path / "cut.onnx"))
    model.opset_import[0].version = 999
    with pytest.raises(InputError, match="operator set 999, newer than"):
        load_network(saved(model, tmp_path, "new"))
    m = GivenModel(seed=1)
    y = m("QLinearWhatever", *m.pair(0.1), m.input(1, 3), domain="com.microsoft", name="strange")
    model = m.build(m("MatMul", y, m.constant(np.ones((3, 2), np.float32))))
    with pytest.raises(InputError, match=r"QLinearWhatever \(strange\)"):
        quantise(load_network(saved(model, tmp_path, "unsupported")))
