"""ONNX operators written out in simpler ones, against ONNX's own evaluator: the model as it is, in integers, within int8's reach."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from baco.common.errors import InputError
from baco.compiler.network.quantise import quantise, quantise_inputs, real
from baco.compiler.network.reference import reference
from baco.workloads.inputs.load import load_network

RANDOM = np.random.default_rng(7)


def f(*shape):
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


class Small:
    """A model in the making; `x` passes a product first, so that the array has a part in it."""

    def __init__(self, x, opset=20):
        self.values = {"x": x}
        self.opset, self.nodes, self.constants = opset, [], []
        weight = np.eye(x.shape[-1], dtype=np.float32)
        self.x = self("MatMul", self.input("x", x), weight)

    def input(self, name, value):
        self.values[name] = value
        return name

    def __call__(self, op, *inputs, outputs=1, domain="", **attributes):
        names = []
        for one in inputs:
            if not isinstance(one, str):
                self.constants.append(numpy_helper.from_array(np.asarray(one), f"k{len(self.constants)}"))
                one = self.constants[-1].name
            names.append(one)
        results = [f"t{len(self.nodes)}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, names, results, domain=domain, **attributes))
        return results[0] if outputs == 1 else results

    def model(self, *outputs, bools=()):
        kinds = {name: TensorProto.BOOL if name in bools else TensorProto.FLOAT for name in outputs}
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for name, v in self.values.items()
        ]
        graph = helper.make_graph(
            self.nodes,
            "g",
            inputs,
            [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()],
            self.constants,
        )
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [helper.make_opsetid(d, 1) for d in {n.domain for n in self.nodes} - {""}]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _run(tmp_path, model, values):
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    network = load_network(str(path))
    quantised = quantise(network, [values])
    elements = reference(quantised, quantise_inputs(quantised, values))
    return [np.asarray(real(quantised, elements, name)) for name in quantised.outputs]


def _agrees(tmp_path, small, *outputs, wanted=None, tolerance=0.05):
    model = small.model(*outputs)
    wanted = ReferenceEvaluator(model).run(None, small.values) if wanted is None else wanted
    found = _run(tmp_path, model, small.values)
    assert len(found) == len(wanted)
    for y, w in zip(found, wanted, strict=True):
        assert y.shape == np.asarray(w).shape
        assert np.abs(y - w).max() <= tolerance * np.abs(w).max()


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", [[0, 0, 1, 2, 0, 0, 3, 0], [0, 0, -1, 2, 0, 0, 1, -2]])
def test_padding_with_elements(tmp_path, mode, pads):
    m = Small(f(1, 2, 5, 6))
    if min(pads) < 0 and mode == "wrap":
        pads = [max(0, n) for n in pads]
    y = m("Pad", m.x, np.array(pads), mode=mode)
    before, after = pads[:4], pads[4:]
    x = m.values["x"]
    inner = x[
        tuple(slice(max(0, -b), n - max(0, -a)) for b, a, n in zip(before, after, x.shape, strict=True))
    ]
    widths = [(max(0, b), max(0, a)) for b, a in zip(before, after, strict=True)]
    _agrees(tmp_path, m, y, wanted=[np.pad(inner, widths, mode=mode)])


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ij,jk->...ik", [(2, 3, 4), (4, 5)]),
        ("...i,...i->...", [(2, 3, 4), (3, 4)]),
        ("bij->bj", [(2, 3, 4)]),
        ("bii->bi", [(2, 3, 3)]),
        ("ij->ji", [(3, 4)]),
        ("ab,bc,cd->ad", [(3, 4), (4, 5), (5, 2)]),
        ("bhi,bhj,hij->bh", [(2, 3, 4), (2, 3, 5), (3, 4, 5)]),
    ],
)
def test_einstein_sums(tmp_path, equation, shapes):
    m = Small(f(*shapes[0]))
    others = [f(*shape) for shape in shapes[1:]]
    y = m("Einsum", m.x, *others, equation=equation)
    _agrees(tmp_path, m, y, wanted=[np.einsum(equation, m.values["x"], *others)])


@pytest.mark.parametrize("shape", [(), (1,), (5,), (4, 1), (1, 5), (4, 5)])
@pytest.mark.parametrize("computed", [False, True])
def test_gemm_with_every_third_operand(tmp_path, shape, computed):
    m = Small(f(4, 8))
    third = f(*shape)
    c = m.input("c", third) if computed else third
    weight = f(5, 8)
    y = m("Gemm", m.x, weight, c, alpha=0.5, beta=2.0, transB=1)
    _agrees(tmp_path, m, y, wanted=[0.5 * m.values["x"] @ weight.T + 2 * third])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_old_softmaxes_are_of_flattened_rows(tmp_path, op, axis):
    m = Small(f(2, 3, 4), opset=11)
    y = m(op, m.x, axis=axis)
    x = m.values["x"]
    rows = x.reshape(int(np.prod(x.shape[: axis % 3])), -1)
    e = np.exp(rows)
    wanted = {
        "Softmax": e / e.sum(1, keepdims=True),
        "LogSoftmax": rows - np.log(e.sum(1, keepdims=True)),
        "Hardmax": rows == rows.max(1, keepdims=True),
    }[op].astype(np.float64)
    _agrees(tmp_path, m, y, wanted=[wanted.reshape(x.shape)])


@pytest.mark.parametrize("index", [[3, 0, 7], [0, 0, 1], [[1, -1], [2, 5]], [0, 2, 4], [7, 6, 5, 5, 4]])
def test_gather_of_lists(tmp_path, index):
    m = Small(f(2, 8, 3))
    y = m("Gather", m.x, np.array(index), axis=1)
    _agrees(tmp_path, m, y, wanted=[np.take(m.values["x"], index, 1)])


def test_a_long_disordered_selection_is_a_product(tmp_path):
    m = Small(f(3, 200))
    order = RANDOM.permutation(200)
    y = m("Gather", m.x, order, axis=1)
    model = m.model(y)
    onnx.save(model, tmp_path / "m.onnx")
    assert len([op for op in load_network(str(tmp_path / "m.onnx")).operators if op.problem]) == 2
    _agrees(tmp_path, m, y, wanted=[m.values["x"][:, order]])


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_scattered_updates(tmp_path, reduction):
    m = Small(f(4, 5), opset=18)
    index = np.array([[0, 2], [3, 1], [0, 2]])
    y = m("ScatterElements", m.x, index, f(3, 2), axis=1, reduction=reduction)
    _agrees(tmp_path, m, y)


@pytest.mark.parametrize("weights", ["trained", "computed"])
@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((1, 4, 9), (6, 2, 3), {"group": 2, "strides": [2], "pads": [1, 0], "dilations": [2]}),
        ((2, 4, 7, 6), (4, 2, 3, 2), {"group": 2, "strides": [2, 1], "auto_pad": "SAME_LOWER"}),
        ((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), {"strides": [1, 2, 1], "pads": [1, 0, 1, 0, 1, 1]}),
        ((1, 4, 4, 5, 6), (4, 1, 2, 2, 2), {"group": 4, "dilations": [2, 1, 2]}),
    ],
)
def test_convolutions(tmp_path, weights, x, w, attributes):
    m = Small(f(*x))
    weight = f(*w)
    y = m("Conv", m.x, m.input("w", weight) if weights == "computed" else weight, f(w[0]), **attributes)
    _agrees(tmp_path, m, y)


@pytest.mark.parametrize("weights", ["trained", "computed"])
@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((1, 4, 5), (4, 3, 3), {"strides": [2], "pads": [1, 0], "output_padding": [1]}),
        ((1, 4, 3, 4), (4, 2, 3, 2), {"group": 2, "strides": [2, 3], "dilations": [2, 1]}),
        ((1, 2, 3, 3), (2, 2, 3, 3), {"strides": [3, 2], "output_shape": [10, 8]}),
        ((1, 2, 3, 3), (2, 2, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ((1, 2, 3, 2, 3), (2, 2, 2, 3, 2), {"strides": [2, 1, 2], "pads": [0, 1, 0, 1, 1, 0]}),
    ],
)
def test_transposed_convolutions(tmp_path, weights, x, w, attributes):
    m = Small(f(*x))
    weight = f(*w)
    y = m("ConvTranspose", m.x, m.input("w", weight) if weights == "computed" else weight, **attributes)
    wanted = None
    if "group" in attributes:  # the evaluator fails on groups of several outputs
        torch = pytest.importorskip("torch")
        convolve = torch.nn.functional.conv_transpose2d
        options = {
            "stride": attributes["strides"],
            "dilation": attributes["dilations"],
            "groups": attributes["group"],
        }
        wanted = [convolve(torch.tensor(m.values["x"]), torch.tensor(weight), **options).numpy()]
    _agrees(tmp_path, m, y, wanted=wanted)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("include", [0, 1])
def test_pooling_of_volumes(tmp_path, op, include):
    m = Small(f(1, 3, 5, 6, 7))
    options = {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2], "pads": [1, 1, 0, 0, 1, 1]}
    if op == "AveragePool":
        options["count_include_pad"] = include
    _agrees(tmp_path, m, m(op, m.x, **options))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_operators(tmp_path, op, gates, direction):
    count = 2 if direction == "bidirectional" else 1
    m = Small(f(5, 2, 6))
    hidden = 4
    attributes = {"hidden_size": hidden, "direction": direction}
    if op == "GRU":
        attributes["linear_before_reset"] = 1
    weights = f(count, gates * hidden, 6), f(count, gates * hidden, hidden), f(count, 2 * gates * hidden)
    y, last = m(op, m.x, *weights, outputs=2, **attributes)
    model = m.model(y, last)
    if direction != "forward":
        torch = pytest.importorskip("torch")  # the evaluator runs forward alone
        wanted = _torch_recurrent(torch, op, m.values["x"], weights, direction)
    else:
        wanted = ReferenceEvaluator(model).run(None, m.values)
    for found, w in zip(_run(tmp_path, model, m.values), wanted, strict=True):
        assert found.shape == w.shape
        assert np.abs(found - w).max() <= 0.06 * np.abs(w).max()


def _torch_recurrent(torch, op, x, weights, direction):
    """By torch: gates in its order, reversed time by hand."""
    order = {"LSTM": [0, 2, 3, 1], "GRU": [1, 0, 2], "RNN": [0]}[op]
    w, r, b = weights
    hidden = r.shape[2]

    def arranged(part):
        return np.concatenate([part[i * hidden : (i + 1) * hidden] for i in order])

    rows, ends = [], []
    for number in range(len(w)):
        backward = direction == "reverse" or number == 1
        layer = getattr(torch.nn, op)(w.shape[2], hidden)
        both = np.split(b[number], 2)
        parts = {
            "weight_ih_l0": arranged(w[number]),
            "weight_hh_l0": arranged(r[number]),
            "bias_ih_l0": arranged(both[0]),
            "bias_hh_l0": arranged(both[1]),
        }
        layer.load_state_dict({k: torch.tensor(v) for k, v in parts.items()})
        with torch.no_grad():
            out, state = layer(torch.tensor(x[::-1].copy() if backward else x))
        out = out.numpy()
        rows.append(out[::-1] if backward else out)
        ends.append((state[0] if op == "LSTM" else state).numpy()[0])
    return [np.stack(rows, 1), np.stack(ends)]


def _branch(name, nodes, output):
    return helper.make_graph(
        nodes, name, [], [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    )


@pytest.mark.parametrize("condition", [True, False])
def test_the_branch_of_a_known_condition(tmp_path, condition):
    m = Small(f(2, 4))
    then = _branch("then", [helper.make_node("Relu", [m.x], ["a"])], "a")
    other = _branch("else", [helper.make_node("Neg", [m.x], ["a"])], "a")
    y = m("If", np.array(condition), then_branch=then, else_branch=other)
    x = m.values["x"]
    _agrees(tmp_path, m, y, wanted=[np.maximum(x, 0) if condition else -x])


def test_a_loop_runs_until_its_condition_ends(tmp_path):
    m = Small(f(2, 4))
    body = helper.make_graph(
        [
            helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.array(2, np.int64))),
            helper.make_node("Less", ["i", "two"], ["again"]),
            helper.make_node("Add", ["state", m.x], ["next"]),
            helper.make_node("Identity", ["next"], ["row"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, ()),
            helper.make_tensor_value_info("go", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("row", TensorProto.FLOAT, None),
        ],
    )
    last, rows = m("Loop", np.array(10), np.array(True), m.x, outputs=2, body=body)
    x = m.values["x"]
    _agrees(tmp_path, m, last, rows, wanted=[4 * x, np.stack([2 * x, 3 * x, 4 * x])])


def test_masks_that_are_inputs(tmp_path):
    m = Small(f(1, 2, 4, 8), opset=23)
    keys, values = m.input("k", f(1, 2, 6, 8)), m.input("v", f(1, 2, 6, 8))
    seen = RANDOM.uniform(size=(4, 6)) > 0.4
    seen[0] = False  # a row that sees nothing
    y = m("Attention", m.x, keys, values, m.input("mask", seen))
    model = m.model(y)
    found = _run(tmp_path, model, m.values)[0]
    x, k, v = (m.values[name] for name in ("x", "k", "v"))
    scores = np.where(seen, x @ k.swapaxes(2, 3) / np.sqrt(8), -np.inf)
    e = np.where(seen, np.exp(scores), 0)
    weights = e / np.where(e.sum(-1, keepdims=True) == 0, 1, e.sum(-1, keepdims=True))
    assert np.abs(found - weights @ v).max() < 0.05


def test_fused_operators_of_onnxruntime(tmp_path):
    m = Small(f(1, 3, 5, 5))
    weight, bias, other = f(4, 3, 1, 1), f(4), f(1, 4, 5, 5)
    y = m(
        "FusedConv",
        m.x,
        weight,
        bias,
        other,
        domain="com.microsoft",
        activation="LeakyRelu",
        activation_params=[0.25],
    )
    z = np.einsum("oc,bchw->bohw", weight[:, :, 0, 0], m.values["x"]) + bias[:, None, None] + other
    _agrees(tmp_path, m, y, wanted=[np.where(z < 0, 0.25 * z, z)])
    m = Small(f(2, 3, 4))
    right = f(2, 5, 3)
    y = m("FusedMatMul", m.x, right, domain="com.microsoft", transA=1, transB=1, alpha=0.5)
    wanted = 0.5 * m.values["x"].swapaxes(1, 2) @ right.swapaxes(1, 2)
    _agrees(tmp_path, m, y, wanted=[wanted])


def test_nodes_in_any_order(tmp_path):
    m = Small(f(2, 4))
    y = m("Neg", m("Relu", m.x))
    model = m.model(y)
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    found = _run(tmp_path, model, m.values)[0]
    np.testing.assert_allclose(found, -np.maximum(m.values["x"], 0), atol=0.02)
    model.graph.node[-1].input[0] = y
    with pytest.raises(InputError, match="cyclic"):
        _run(tmp_path, model, m.values)


def test_a_choice_by_a_comparison(tmp_path):
    m = Small(np.array([[-0.9, -0.4, 0.3, 0.8]], np.float32))
    y = m("Where", m("Greater", m.x, np.float32(0)), m.x, f(1, 4))
    _agrees(tmp_path, m, y)
    m = Small(np.array([[-0.9, -0.4, 0.3, 0.8]], np.float32))
    _agrees(tmp_path, m, m("Where", m("Less", m.x, np.float32(0)), np.float32(0.5), m.x))


def test_heads_of_attention_on_four_dimensions_are_a_dimension(tmp_path):
    m = Small(f(1, 2, 4, 4))
    m.opset = 23
    y = m("Attention", m.x, m.x, m.x, q_num_heads=2, kv_num_heads=2)
    _agrees(tmp_path, m, y)


@pytest.mark.parametrize(
    ("op", "attributes", "says"),
    [
        ("NonMaxSuppression", {}, "how many results it has depends on the data"),
        ("BitCast", {"to": 6}, "bits of real numbers"),
        ("LSTM", {"hidden_size": 4, "activations": ["Strange"] * 3}, "its activation 'Strange'"),
        ("LpNormalization", {"p": 3}, "p=3"),
        ("MaxUnpool", {"kernel_shape": [2]}, "positions of (1,) for elements of (5, 2, 6)"),
    ],
)
def test_a_refusal_names_operator_and_form(tmp_path, op, attributes, says):
    m = Small(f(5, 2, 6))
    m.opset = 26 if op == "BitCast" else m.opset
    weights = [f(5, 2, 6)] if op == "NonMaxSuppression" else []
    weights = (
        weights or [f(1, 16, 6), f(1, 16, 4)]
        if op == "LSTM"
        else [np.array([0])]
        if op == "MaxUnpool"
        else []
    )
    y = m(op, m.x, *weights, **attributes)
    with pytest.raises(InputError) as caught:
        _run(tmp_path, m.model(y), m.values)
    assert op in str(caught.value)
    assert says in str(caught.value)


def test_the_first_cause_is_said_and_the_rest_counted(tmp_path):
    m = Small(f(2, 4))
    strange = m("Strange", m.x, domain="some.where")
    y = m("Slice", strange, m.input("start", np.array([0])), np.array([1]))
    z = m("Relu", m("Concat", y, m.x, axis=0))
    with pytest.raises(InputError, match=r"some\.where\.Strange .*\(and .*that read their results\)"):
        _run(tmp_path, m.model(z), m.values)


def test_whole_numbers_compare_exactly(tmp_path):
    m = Small(f(3, 8))
    count = m.input("count", np.array([[3.0], [7.0], [0.0]], np.float32))
    before = m("Less", np.arange(8, dtype=np.float32), count)
    y = m("Where", before, m.x, np.float32(0))
    x, counts = m.values["x"], m.values["count"]
    _agrees(tmp_path, m, y, wanted=[np.where(np.arange(8) < counts, x, 0)], tolerance=0.02)
