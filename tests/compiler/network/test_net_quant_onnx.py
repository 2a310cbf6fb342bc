"""ONNX models: the imported graph computes what ONNX's reference evaluator does, and its integers are near that."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from baco.accel.presets import load_accelerator
from baco.common.errors import InputError
from baco.compiler.network.groups import groups_of
from baco.compiler.network.quantise import quantise, quantise_inputs, real
from baco.compiler.network.reference import reference
from baco.exploration.cost.program_rest import rest_costs, sketches
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload
from tests.compiler.network.net_quant_networks import agrees, floats, run_both

MACHINE = load_accelerator("gemmini-default")


class Model:
    """Collects nodes and initializers with random elements."""

    def __init__(self, seed=0):
        self.nodes, self.weights, self.count = [], [], 0
        self.random = np.random.default_rng(seed)

    def weight(self, *shape, spread=None):
        spread = spread or 1 / np.sqrt(max(1, int(np.prod(shape[1:]))))
        return self.constant((self.random.standard_normal(shape) * spread).astype(np.float32))

    def positive(self, *shape):
        return self.constant(self.random.uniform(0.5, 1.5, shape).astype(np.float32))

    def constant(self, value):
        self.weights.append(numpy_helper.from_array(np.asarray(value), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def numbers(self, *values):
        return self.constant(np.array(values, np.float32))

    def integers(self, *values):
        return self.constant(np.array(values, np.int64))

    def __call__(self, op, *inputs, outputs=1, **attributes):
        names = [f"v{self.count + i}" for i in range(outputs)]
        self.count += outputs
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def build(self, inputs, outputs, opset):
        kinds = {"f": TensorProto.FLOAT, "i": TensorProto.INT64}
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info(n, kinds[x.dtype.kind], x.shape) for n, x in inputs.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@pytest.fixture
def check(tmp_path):
    """Compare with the reference evaluator; the results of `floats` may be compared in integers too."""

    def run(model, inputs, outputs, opset=18, least_db=25.0):
        proto = model.build(inputs, outputs, opset)
        path = tmp_path / "model.onnx"
        onnx.save(proto, path)
        wanted = ReferenceEvaluator(proto).run(None, inputs)
        network = load_network(str(path))
        return network, agrees(network, inputs, wanted, least_db)

    return run


def test_convolutional_network(check):
    m = Model()
    x = m("Conv", "x", m.weight(8, 3, 3, 3), m.weight(8, spread=0.1), auto_pad="SAME_UPPER", strides=[2, 2])
    x = m(
        "BatchNormalization",
        x,
        m.positive(8),
        m.weight(8),
        m.weight(8, spread=0.2),
        m.positive(8),
        epsilon=1e-3,
    )
    x = m("Clip", x, m.constant(np.float32(0)), m.constant(np.float32(6)))
    y = m("Conv", x, m.weight(8, 1, 3, 3), group=8, pads=[1, 1, 1, 1])
    x = m("Add", x, m("LeakyRelu", y, alpha=0.2))
    a, b = m("Split", x, outputs=2, axis=1, num_outputs=2)
    quotient = m("Div", a, m("Add", m("Abs", b), m.constant(np.float32(1))))
    x = m("Concat", m("Mul", a, b), m("Sub", a, b), quotient, axis=1)
    x = m(
        "ConvTranspose", x, m.weight(12, 4, 4, 4), m.weight(4, spread=0.1), strides=[2, 2], pads=[1, 1, 1, 1]
    )
    x = m("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    x = m("Resize", x, "", m.numbers(1, 1, 2, 2), mode="linear")
    x = m("Pad", x, m.integers(0, 0, 1, 1, 0, 0, 1, 1), m.constant(np.float32(0.3)))
    x = m("MaxPool", x, kernel_shape=[3, 3], strides=[3, 3], ceil_mode=1)
    x = m("Slice", m("Transpose", x, perm=[0, 2, 3, 1]), m.integers(1), m.integers(5), m.integers(1))
    x = m("Reshape", x, m.integers(2, -1))
    matrix = m("Transpose", m.weight(4 * 6 * 4, 16, spread=0.1), perm=[1, 0])
    x = m("Gemm", x, matrix, m.weight(16), transB=1, alpha=0.5, beta=2.0)
    outputs = [
        m("Softmax", x),
        m("ReduceMean", x, m.integers(1), keepdims=0),
        m("ArgMax", x, axis=1, keepdims=0),
    ]
    inputs = {"x": np.random.default_rng(1).standard_normal((2, 3, 16, 16)).astype(np.float32)}
    check(m, inputs, outputs)


def test_encoder_with_a_mask_and_gelu_in_pieces(check):
    m = Model()
    x = m(
        "LayerNormalization",
        m("Gather", m.weight(50, 32, spread=0.7), "t"),
        m.positive(32),
        m.weight(32, spread=0.1),
    )

    def heads(perm):
        y = m("Add", m("MatMul", x, m.weight(32, 32)), m.weight(32, spread=0.1))
        return m("Transpose", m("Reshape", y, m.integers(0, 0, 4, 8)), perm=perm)

    q, k, v = heads([0, 2, 1, 3]), heads([0, 2, 3, 1]), heads([0, 2, 1, 3])
    mask = np.where(np.tri(9) > 0, 0, np.finfo(np.float32).min).astype(np.float32)[None, None]
    scores = m("Add", m("Div", m("MatMul", q, k), m.constant(np.float32(8**0.5))), m.constant(mask))
    y = m("Transpose", m("MatMul", m("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    x = m("Add", x, m("Reshape", y, m.integers(0, 0, 32)))
    g = m("MatMul", x, m.weight(32, 64))
    erf = m("Erf", m("Div", g, m.constant(np.float32(2**0.5))))
    g = m("Mul", m("Mul", g, m("Add", erf, m.constant(np.float32(1)))), m.constant(np.float32(0.5)))
    x = m("Add", m("MatMul", g, m.weight(64, 32)), x)
    einsum = m("Einsum", x, m.weight(32, 5), equation="bsc,cd->bds")
    first = m("Gather", x, m.constant(np.array(0)), axis=1)
    pooled = m("Tanh", m("Gemm", first, m.weight(32, 7), m.weight(7)))
    inputs = {"t": np.random.default_rng(1).integers(0, 50, (2, 9))}
    _, quantised = check(m, inputs, [pooled, einsum])
    (softmax,) = (op for op in quantised.operators if type(op).__name__ == "Softmax")
    assert softmax.mask is not None


def test_functions_and_views(check):
    m = Model()
    outputs = []
    image = m("Conv", "x", m.weight(4, 2, 1, 1))
    for op, attributes in (
        ("Elu", {"alpha": 0.7}),
        ("Selu", {}),
        ("Celu", {"alpha": 0.5}),
        ("HardSigmoid", {"alpha": 0.3}),
        ("HardSwish", {}),
        ("Softplus", {}),
        ("Softsign", {}),
        ("ThresholdedRelu", {"alpha": 0.4}),
        ("Shrink", {"lambd": 0.2, "bias": 0.1}),
        ("Mish", {}),
        ("Sin", {}),
    ):
        outputs.append(m(op, image, **attributes))
    for op in ("Max", "Min", "Less", "Pow"):
        other = m("Abs", m("Neg", image)) if op != "Pow" else m.numbers(2)
        outputs.append(m(op, image, other))
    outputs.append(m("PRelu", image, m.weight(4, 1, 1)))
    outputs.append(m("GroupNormalization", image, m.positive(4), m.weight(4), num_groups=2))
    outputs.append(m("InstanceNormalization", image, m.positive(4), m.weight(4)))
    outputs.append(m("GlobalMaxPool", image))
    outputs.append(m("DepthToSpace", image, blocksize=2, mode="CRD"))
    outputs.append(m("SpaceToDepth", image, blocksize=2))
    outputs.append(m("Tile", m("Flatten", image, axis=2), m.integers(1, 3)))
    outputs.append(
        m(
            "Expand",
            m("Slice", image, m.integers(-1), m.integers(-9), m.integers(3), m.integers(-2)),
            m.integers(3, 1, 4, 6, 3),
        )
    )
    outputs.append(m("Gather", image, m.integers(3, 1), axis=1))
    outputs.append(m("Squeeze", m("Unsqueeze", image, m.integers(0)), m.integers(0)))
    outputs.append(m("Resize", image, "", "", m.integers(1, 4, 9, 4), mode="nearest"))
    outputs.append(m("Softmax", image, axis=1))
    inputs = {"x": np.random.default_rng(1).standard_normal((1, 2, 6, 6)).astype(np.float32)}
    check(m, inputs, outputs, opset=21, least_db=20)


def test_attention_of_the_standard(check):
    m = Model()
    q, k, v = (m("MatMul", "x", m.weight(16, n)) for n in (16, 8, 8))
    y = m("Attention", q, k, v, q_num_heads=4, kv_num_heads=2, is_causal=1)
    inputs = {"x": np.random.default_rng(1).standard_normal((2, 5, 16)).astype(np.float32)}
    check(m, inputs, [m("MatMul", y, m.weight(16, 3))], opset=23)


def test_quantised_models_are_quantised_again(check):
    m = Model()
    scale, zero = m.constant(np.float32(0.02)), m.constant(np.int8(0))
    x = m("DequantizeLinear", m("QuantizeLinear", "x", scale, zero), scale, zero)
    weight = m.constant(np.random.default_rng(0).integers(-127, 128, (16, 8)).astype(np.int8))
    y = m("MatMul", x, m("DequantizeLinear", weight, m.constant(np.float32(0.01))))
    grid = np.random.default_rng(1).integers(-100, 100, (4, 16)).astype(np.float32) * np.float32(0.02)
    check(m, {"x": grid}, [m("Relu", y)], opset=21)


def test_constants_of_older_operator_sets(tmp_path):
    m = Model()
    stored = np.random.default_rng(0).integers(-127, 128, (16, 8)).astype(np.int8)
    weight = m("DequantizeLinear", m.constant(stored), m.constant(np.float32(0.01)))
    y = m("MatMul", "x", m("Transpose", m("Transpose", weight)))
    x = np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32)
    onnx.save(m.build({"x": x}, [y], 13), tmp_path / "model.onnx")
    network = load_network(str(tmp_path / "model.onnx"))
    (got,) = floats(network, {"x": x})
    np.testing.assert_allclose(got, x @ (stored * np.float32(0.01)), rtol=1e-5, atol=1e-6)


def test_external_weights_are_read_or_drawn(tmp_path):
    m = Model()
    y = m("MatMul", "x", m.weight(16, 100))
    inputs = {"x": np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32)}
    path = tmp_path / "model.onnx"
    wanted = inputs["x"] @ numpy_helper.to_array(m.weights[0])
    onnx.save(
        m.build(inputs, [y], 18), path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    (got,) = floats(load_network(str(path)), inputs)
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    (tmp_path / "weights.bin").unlink()
    quantised, _, ratios = run_both(load_network(str(path)))
    assert quantised.random == ("w0",)
    assert ratios[0] > 25


def test_a_file_that_vanished_is_an_error(tmp_path):
    m = Model()
    y = m("MatMul", "x", m.weight(64, 64))
    path = tmp_path / "model.onnx"
    onnx.save(m.build({"x": np.zeros((4, 64), np.float32)}, [y], 18), path)
    network = load_network(str(path))
    path.unlink()
    with pytest.raises(InputError, match="no longer be read"):
        quantise(network)


def test_positions_of_the_largest_and_what_lies_there(check):
    m = Model()
    x = m("Conv", "x", m.weight(6, 3, 1, 1))
    scores = m("Reshape", x, m.integers(2, 6, 25))
    values, indices = m("TopK", scores, m.integers(4), outputs=2, axis=2)
    least, _ = m("TopK", m("Softmax", scores), m.integers(3), outputs=2, axis=1, largest=0)
    rows = m("Transpose", scores, perm=[0, 2, 1])
    best = m("Gather", indices, m.integers(0), axis=2)
    taken = m("GatherElements", rows, m("Expand", best, m.integers(2, 6, 6)), axis=1)
    slices = m("Gather", rows, m("Gather", best, m.constant(np.array(1)), axis=0), axis=1)
    inputs = {"x": np.random.default_rng(1).standard_normal((2, 3, 5, 5)).astype(np.float32)}
    _, quantised = check(m, inputs, [values, least, taken, slices], least_db=20)
    kinds = [type(op).__name__ for op in quantised.operators]
    assert kinds.count("TopK") == 2
    assert kinds.count("Take") == 4


def test_a_class_as_a_vector_and_as_a_number(check):
    m = Model()
    scores = m("MatMul", "x", m.weight(8, 5))
    best = m("ArgMax", scores, axis=1, keepdims=0)
    hot = m("OneHot", best, m.constant(np.array(5)), m.numbers(-0.5, 2), axis=0)
    number = m("Mul", m("Cast", best, to=TensorProto.FLOAT), m.numbers(0.25))
    table = m("Gather", m.weight(3, 5, 2), best, axis=1)
    inputs = {"x": np.random.default_rng(2).standard_normal((6, 8)).astype(np.float32)}
    _, quantised = check(m, inputs, [hot, number, table])
    assert {"OneHot", "Conversion", "Take"} <= {type(op).__name__ for op in quantised.operators}


@pytest.mark.parametrize("order", [0, 1])
def test_maxima_go_back_to_where_they_were(check, order):
    m = Model()
    x = m("Relu", m("Conv", "x", m.weight(4, 3, 3, 3), pads=[1, 1, 1, 1]))
    y, where = m("MaxPool", x, outputs=2, kernel_shape=[2, 2], strides=[2, 2], storage_order=order)
    outputs = [m("MaxUnpool", y, where, kernel_shape=[2, 2], strides=[2, 2])] if not order else [y, where]
    inputs = {"x": np.random.default_rng(3).standard_normal((2, 3, 8, 6)).astype(np.float32)}
    check(m, inputs, outputs)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_norms_are_rounded_once(check, p):
    m = Model()
    x = m("Conv", "x", m.weight(6, 3, 1, 1))
    outputs = [
        m("LpPool", x, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], p=p),
        m("LpPool", x, kernel_shape=[8, 6], p=p),
        m(f"ReduceL{min(p, 2)}", x, m.integers(1), keepdims=0),
    ]
    inputs = {"x": np.random.default_rng(4).standard_normal((2, 3, 8, 6)).astype(np.float32)}
    check(m, inputs, outputs, least_db=33)


def test_the_norm_of_all_pixels_is_that_of_the_largest_window(tmp_path):
    x = np.random.default_rng(7).standard_normal((2, 3, 8, 6)).astype(np.float32)
    found = []
    for operator, attributes in (("LpPool", {"kernel_shape": [8, 6]}), ("GlobalLpPool", {})):
        m = Model()
        y = m(operator, m("Conv", "x", m.weight(6, 3, 1, 1)), p=3, **attributes)
        path = tmp_path / "model.onnx"
        onnx.save(m.build({"x": x}, [y], 18), path)
        quantised = quantise(load_network(str(path)), [{"x": x}])
        values = reference(quantised, quantise_inputs(quantised, {"x": x}))
        found.append(real(quantised, values, y))
    np.testing.assert_array_equal(*found)


def test_the_logarithm_of_a_softmax_of_a_thousand_classes(check):
    m = Model()
    y = m("LogSoftmax", m("MatMul", "x", m.weight(8, 1000, spread=1.0)), axis=-1)
    check(m, {"x": np.random.default_rng(5).standard_normal((3, 8)).astype(np.float32)}, [y], least_db=35)


def test_whole_numbers_at_the_end_of_a_range_stay_whole(check):
    m = Model()
    x = m("MatMul", "x", m.constant(np.eye(3, dtype=np.float32)))
    outputs = [
        m("Floor", x),
        m("Ceil", x),
        m("Cast", m("Cast", x, to=TensorProto.INT32), to=TensorProto.FLOAT),
    ]
    check(m, {"x": np.array([[-1.5, 1.2, 2.0]], np.float32)}, outputs, least_db=120)


def test_sequences_of_known_length_are_no_operators(tmp_path):
    m = Model()
    x = m("MatMul", "x", m.weight(8, 6))
    parts = m("SplitToSequence", x, m.integers(2, 1, 3), axis=1)
    parts = m("SequenceInsert", parts, m("Relu", x), m.constant(np.array(-1)))
    parts = m("SequenceErase", parts, m.constant(np.array(0)))
    y = m("ConcatFromSequence", parts, axis=1)
    last = m("SequenceAt", parts, m.constant(np.array(-1)))
    x = np.random.default_rng(6).standard_normal((2, 8)).astype(np.float32)
    proto = m.build({"x": x}, [y, last], 18)
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    found = floats(load_network(str(path)), {"x": x})
    product = x @ numpy_helper.to_array(m.weights[0])
    wanted = np.concatenate([product[:, 2:3], np.maximum(product, 0), product[:, 3:]], axis=1)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[1], product[:, 3:], rtol=1e-5, atol=1e-5)


def test_declared_outputs_are_the_outputs(tmp_path):
    m = Model()
    hidden = m("Relu", m("MatMul", "x", m.weight(8, 8)))
    m("Tanh", hidden)
    y = m("MatMul", hidden, m.weight(8, 3))
    path = tmp_path / "model.onnx"
    onnx.save(m.build({"x": np.zeros((4, 8), np.float32)}, [y, hidden], 18), path)
    quantised = quantise(load_network(str(path)))
    assert [view.shape for view in quantised.outputs.values()] == [(4, 3), (4, 8)]
    assert [type(op).__name__ for op in quantised.operators] == ["MatMul", "MatMul"]


@pytest.mark.parametrize(
    ("op", "attributes", "says"),
    [
        ("CumSum", {"strange": 1}, "CumSum: strange=1 is not supported"),
        ("LRN", {"size": 0}, "LRN: size=0"),
        ("TopK", {}, "TopK .*: 1000 of 100 elements"),
    ],
)
def test_what_cannot_be_run_is_named(tmp_path, op, attributes, says):
    m = Model()
    x = m("Conv", "x", m.weight(4, 3, 1, 1))
    more = {"CumSum": [m.constant(np.array(1))], "TopK": [m.integers(1000)]}.get(op, [])
    y = m(op, x, *more, **attributes)
    path = tmp_path / "model.onnx"
    onnx.save(m.build({"x": np.zeros((1, 3, 4, 100), np.float32)}, [y], 18), path)
    with pytest.raises(InputError, match=says):
        quantise(load_network(str(path)))


def quantised_cnn(*, stored: bool) -> Model:
    """A small CNN, in numbers or as quantisation tools write it: pairs of QuantizeLinear and DequantizeLinear, int8 weights."""
    m = Model()

    def activation(x: str) -> str:
        pair = m.constant(np.float32(0.03)), m.constant(np.int8(0))
        return m("DequantizeLinear", m("QuantizeLinear", x, *pair), *pair) if stored else x

    def weight(*shape: int) -> str:
        name = m.weight(*shape)
        if not stored:
            return name
        numbers = numpy_helper.to_array(m.weights.pop())
        scale = np.float32(np.abs(numbers).max() / 127)
        integers = m.constant(np.rint(numbers / scale).astype(np.int8))
        return m("DequantizeLinear", integers, m.constant(scale), m.constant(np.int8(0)))

    x = activation("x")
    for channels, outputs in ((3, 8), (8, 16)):
        x = activation(m("Relu", m("Conv", x, weight(outputs, channels, 3, 3), pads=[1] * 4)))
    pooled = activation(m("GlobalAveragePool", x))
    activation(m("MatMul", m("Flatten", pooled), weight(16, 10)))
    return m


def test_a_model_that_is_quantised_already_costs_what_its_float_form_does(tmp_path):
    """The same integer operators on the same memory: above all, the input is no more copied than one of numbers."""
    found = []
    for stored in (False, True):
        m = quantised_cnn(stored=stored)
        model = m.build({"x": np.zeros((1, 3, 16, 16), np.float32)}, [m.nodes[-1].output[0]], 21)
        onnx.save(model, tmp_path / f"{stored}.onnx")
        network = load_network(str(tmp_path / f"{stored}.onnx"))
        workload = Workload.of([network])
        ((_, integers),) = sketches(network)
        (view,) = integers.inputs.values()
        found.append(
            (
                [type(op).__name__ for op in integers.operators],
                (view.shape, view.strides, integers.values[view.value].shape),
                [(one.function, one.cost) for one in rest_costs(integers, MACHINE)],
                layers_of_tasks(workload.tasks, workload),
                [len(row) for row in groups_of(integers)],
            )
        )
    assert found[0] == found[1]
    assert found[0][0] == ["Convolution", "Convolution", "SumOfRows", "MatMul"]


def test_what_is_done_to_an_image_before_its_convolution_needs_no_copy(tmp_path):
    m = Model()
    scaled = m("Mul", m("Sub", "x", m.positive(1, 3, 1, 1)), m.positive(1, 3, 1, 1))
    y = m("Conv", m("Tanh", scaled), m.weight(8, 3, 3, 3))
    onnx.save(m.build({"x": np.zeros((1, 3, 16, 16), np.float32)}, [y], 21), tmp_path / "model.onnx")
    ((_, integers),) = sketches(load_network(str(tmp_path / "model.onnx")))
    assert not [op.name for op in integers.operators if op.name.endswith(".copy")]
