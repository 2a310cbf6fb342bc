"""ONNX imports: hand-built graphs against built-in definitions, closed formulas, and damaged files."""

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from baco.common.errors import InputError
from baco.workloads.inputs.load import load_network
from baco.workloads.problem import Problem
from tests.workloads import onnx_models
from tests.workloads.onnx_models import Model, save


def problems(network):
    return Counter({t.problem: t.count for t in network.tasks})


@pytest.fixture
def load(tmp_path):
    def run(model, options=""):
        return load_network(f"{save(model, tmp_path / 'model.onnx')}{options}")

    return run


@pytest.mark.parametrize("batch", [1, 4])
def test_resnet50_equals_the_built_in_network(load, batch):
    imported, own = load(onnx_models.resnet50(), f":batch={batch}"), load_network(f"resnet50:batch={batch}")
    assert problems(imported) == problems(own)
    assert imported.weight_words == own.weight_words
    assert [op.kind for op in imported.host_operators] == ["avgpool"]
    assert imported.name == "model"
    assert imported.options == {"batch": batch}


def test_bert_layer_equals_the_built_in_one(load):
    imported, own = load(onnx_models.bert_layer(), ":batch=2,dim.seq=128"), load_network("bert_base:batch=2")
    block = {p: c / 12 for p, c in problems(own).items() if p.P > 2}
    assert problems(imported) == block
    assert imported.weight_words == 7_087_872
    assert Counter(op.kind for op in imported.host_operators) == {"softmax": 1, "layernorm": 2, "gelu": 1}


def test_dimension_left_open_is_named(load):
    with pytest.raises(InputError, match="tokens") as caught:
        load(onnx_models.bert_layer("tokens"))
    assert ":x=1x128x768" in caught.value.hint


def test_batch_left_open_is_one(load):
    assert load(onnx_models.resnet50("batch_size")).macs == 4_089_184_256


@pytest.mark.parametrize(
    ("batch", "options", "says"),
    [
        (1, ":batch=2", "fixed"),
        ("N", ":batch=0", "from 1 to"),
        ("N", ":dim.M=3", "no option 'dim.M'"),
        ("N", ":bacth=3", "did you mean 'batch'"),
        ("N", ":", "not an option"),
        ("length", "", "length"),
    ],
)
def test_bad_options(load, batch, options, says):
    with pytest.raises(InputError, match=says):
        load(onnx_models.resnet50(batch), options)


def test_quantised_operators(load):
    network = load(onnx_models.quantized())
    assert problems(network) == Counter(
        {
            Problem(R=3, S=3, P=6, Q=6, C=3, K=8): 1,
            Problem(R=3, S=3, P=4, Q=4, groups=8): 1,
            Problem(P=4, Q=4, C=8, K=6): 1,
            Problem(P=6, C=16, K=5): 1,
            Problem(P=6, C=5, K=4): 1,
        }
    )
    # Only the quantisation of the network's input is left to the host.
    assert [(op.kind, op.output.shape) for op in network.host_operators] == [("requantize", (1, 3, 8, 8))]
    assert network.weight_words == 8 * 27 + 8 + 8 * 9 + 48 + 80 + 20
    assert network.unsupported == ()


def test_every_kind_of_convolution_and_product(load):
    network = load(onnx_models.variety())
    # By hand: 6 x 10 images, stride 2 along the width; the transposed convolution doubles both.
    assert problems(network) == Counter(
        {
            Problem(R=5, S=3, P=5, Q=6, C=2, K=4, N=2, stride_w=2, dilation_h=2, groups=2): 1,
            Problem(R=2, S=2, P=5, Q=6, C=4, K=3, N=2, groups=2): 4,
            Problem(R=3, P=120, C=6, K=4, N=2): 1,
            Problem(P=4, C=120, K=4, groups=2): 1,
            Problem(P=3, C=4, K=4, groups=2): 1,
            Problem(P=6, C=4, K=9): 1,
            Problem(P=6, C=9, K=8): 3,
            Problem(P=3, C=4, K=3, groups=4): 1,
            Problem(P=3, C=3, K=4, groups=4): 1,
        }
    )
    assert network.unsupported == ()
    assert next(op for op in network.operators if op.kind == "embedding").weight_words == 400


def test_unsupported_operators_are_listed_and_the_rest_explored(load):
    network = load(onnx_models.with_custom())
    assert [(u.operator, u.node) for u in network.unsupported] == [
        ("my.ops.Strange", "odd one"), ("NonZero", "where"), ("Cast", "Cast_5"), ("MatMul", "unknown size"),
    ]  # fmt: skip
    assert "shape of its input" in network.unsupported[0].reason
    assert "not known" in network.unsupported[3].reason
    assert problems(network) == Counter(
        {Problem(R=3, S=3, P=8, Q=8, C=3, K=8): 1, Problem(R=3, S=3, P=6, Q=6, C=8, K=4): 1}
    )


def test_shared_weights_count_once(load):
    m = Model()
    w = m.weight(8, 8)
    network = load(m.build({"x": [3, 8]}, m.node("MatMul", m.node("MatMul", "x", w), w)))
    assert network.weight_words == 64
    assert problems(network) == Counter({Problem(P=3, C=8, K=8): 2})


def test_local_functions_are_inlined(load):
    body = [helper.make_node("MatMul", ["a", "b"], ["c"]), helper.make_node("Relu", ["c"], ["d"])]
    function = helper.make_function("own", "Dense", ["a", "b"], ["d"], body, [helper.make_opsetid("", 21)])
    m = Model()
    model = m.build({"x": [3, 8]}, m.node("Dense", "x", m.weight(8, 5), domain="own"), domains=["own"])
    model.functions.append(function)
    network = load(model)
    assert problems(network) == Counter({Problem(P=3, C=8, K=5): 1})
    assert network.host_operators == ()


def test_computed_shapes_are_followed(load):
    """The way exporters write `expand(batch, -1, -1)` and `view`, which ONNX's own inference does not follow."""
    m = Model()
    wanted = m.constant([-1, 1, 8])
    ones = m.node(
        "ConstantOfShape", m.constant([3]), value=helper.make_tensor("v", TensorProto.INT64, [1], [1])
    )
    minus = m.node("Mul", ones, m.constant([-1]))
    shape = m.node("Where", m.node("Equal", wanted, minus), ones, wanted)
    x = m.node("Concat", m.node("Expand", m.weight(1, 1, 8), shape), "x", axis=1)
    length = m.node("Slice", m.node("Shape", x), m.constant([1]), m.constant([2]))
    rest = m.node("Concat", length, m.constant([4]), m.node("Div", m.constant([9]), m.constant([4])), axis=0)
    x = m.node("Reshape", x, rest)
    network = load(m.build({"x": [1, 6, 8]}, m.node("MatMul", x, m.weight(2, 5))))
    assert problems(network) == Counter({Problem(P=28, C=2, K=5): 1})
    assert network.weight_words == 8 + 10
    assert network.unsupported == ()


def test_numbers_beyond_reason_cost_neither_time_nor_memory(load):
    m = Model()
    huge = m.weight(2**62, kind=TensorProto.INT64)
    x = m.node("Gather", m.node("Shape", "x"), huge)
    x = m.node("Reshape", "x", m.node("Concat", x, huge, axis=0))
    with pytest.raises(InputError):
        load(m.build({"x": [1, 6, 8]}, m.node("MatMul", x, m.weight(2, 5))))
    m = Model()
    x = m.node("ConvTranspose", "x", m.weight(4, 4, 9, 9), strides=[2**40, 2**40])
    with pytest.raises(InputError, match="must be at most 2147483647"):
        load(m.build({"x": [1, 4, 8, 8]}, x))


def one_conv(**attributes):
    m = Model()
    x = m.node("Conv", "x", m.weight(8, 3, 3, 3), name="the conv", **attributes)
    return m.build({"x": [1, 3, 10, 10]}, x)


def renamed(change):
    model = one_conv()
    change(model)
    return model


def product(a, b):
    m = Model()
    return m.build({"a": a, "b": b}, m.node("MatMul", "a", "b", name="product"))


def gemm(*shapes, **attributes):
    m = Model()
    return m.build(
        {"x": shapes[0]}, m.node("Gemm", "x", *(m.weight(*s) for s in shapes[1:]), name="g", **attributes)
    )


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (one_conv(group=2), "2 groups"),
        (one_conv(group=0), "0 groups"),
        (one_conv(strides=[0, 1]), "strides"),
        (one_conv(strides=[1, 1, 1]), "strides"),
        (one_conv(dilations=[9, 9]), "does not fit"),
        (one_conv(pads=[1, 1]), "pads needs 4"),
        (one_conv(pads=[-1, 0, 0, 0]), "negative"),
        (one_conv(kernel_shape=[5, 5]), "kernel_shape"),
        (one_conv(auto_pad="SOME"), "auto_pad"),
        (one_conv(strides=1), "not of type INTS"),
        (renamed(lambda m: m.graph.node[0].ClearField("output")), "writes no output"),
        (renamed(lambda m: m.graph.node[0].ClearField("input")), "outputs do not depend on the inputs"),
        (renamed(lambda m: m.graph.node[0].input.__setitem__(0, "typo")), "'typo', which nothing produces"),
        (renamed(lambda m: m.graph.initializer[0].dims.__setitem__(0, -8)), "negative extent"),
        (renamed(lambda m: m.graph.initializer[0].dims.__setitem__(0, 2**62)), "exact range"),
        (
            renamed(lambda m: m.graph.initializer[0].dims.append(3)),
            r"weights of \(8, 3, 3, 3, 3\) on an input of",
        ),
        (renamed(lambda m: m.graph.initializer[0].dims.pop()), "1 dimensions"),
        (renamed(lambda m: m.ClearField("opset_import")), "operator set"),
        (renamed(lambda m: m.ClearField("graph")), "no graph"),
        (renamed(lambda m: m.graph.ClearField("node")), "no graph"),
        (product([2, 3, 4], [2, 5, 6]), "do not fit"),
        (product([2, 3, 4], [5, 4, 6]), "do not broadcast"),
        (gemm([3, 4], [5, 6]), "do not fit"),
        (gemm([2, 3, 4], [4, 6]), "needs matrices"),
    ],
)
def test_shapes_that_do_not_fit(load, model, says):
    with pytest.raises(InputError, match=says) as caught:
        load(model)
    assert caught.value.location is not None
    assert caught.value.location.file.endswith("model.onnx")


def test_a_graph_without_a_tensor_problem_is_an_error(load):
    m = Model()
    with pytest.raises(InputError, match="no operator that the accelerator runs") as caught:
        load(m.build({"x": [3]}, m.node("Strange", m.node("Relu", "x"), domain="d", name="n"), domains=["d"]))
    assert "d.Strange (n)" in caught.value.hint


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 100, b"hello", b"\xff" * 64, b"\x08\x07", b"network,R,S\n1,2,3\n"]
)
def test_files_that_are_no_onnx(tmp_path, data):
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        load_network(str(path))
    assert caught.value.location.file == str(path)


def test_folders_and_missing_files(tmp_path):
    (tmp_path / "folder.onnx").mkdir()
    for name in ("folder.onnx", "missing.onnx"):
        with pytest.raises(InputError):
            load_network(str(tmp_path / name))


def test_truncated_at_every_byte(tmp_path):
    whole = onnx_models.with_custom().SerializeToString()
    path = tmp_path / "model.onnx"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError) as caught:
            load_network(str(path))
        assert caught.value.location.file == str(path)


def test_mutated_files_give_a_network_or_one_error(tmp_path):
    random = np.random.default_rng(7)
    path = tmp_path / "model.onnx"
    outcomes = Counter()
    for build in (onnx_models.variety, onnx_models.quantized, onnx_models.with_custom):
        whole = build().SerializeToString()
        for _ in range(120):
            data = bytearray(whole)
            for at in random.integers(len(data), size=int(random.integers(1, 5))):
                data[at] = random.integers(256)
            path.write_bytes(bytes(data))
            try:
                load_network(str(path))
                outcomes["network"] += 1
            except InputError as error:
                outcomes["error" if error.location else "error without a place"] += 1
    assert outcomes["error"] > 30
    assert not outcomes["error without a place"]


def test_weights_inside_the_file_need_not_be_read(load):
    m = Model()
    big = onnx.numpy_helper.from_array(np.zeros((8, 5), np.float32), "inline")
    m.weights.append(big)
    network = load(m.build({"x": [3, 8]}, m.node("MatMul", "x", "inline")))
    assert (network.macs, network.weight_words) == (120, 40)


def test_names_taken_twice_stay_apart(load):
    nodes = [
        helper.make_node("Relu", ["x"], ["y"], name="x"),
        helper.make_node("MatMul", ["y", "w"], ["z"], name="x"),
    ]
    w = helper.make_tensor("w", TensorProto.FLOAT, [2, 3], [0.0] * 6)
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 2])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)], [w],
    )  # fmt: skip
    network = load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    assert [(op.name, op.inputs) for op in network.operators] == [("x~2", ("x",)), ("x~3", ("x~2",))]
