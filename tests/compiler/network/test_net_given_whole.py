"""Models of embedded deployers, whole numbers throughout, and operators of a user's own; the judge is ONNX's evaluator."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

import baco
from baco.common.errors import InputError
from baco.compiler.network.quantise import quantise
from baco.workloads.inputs.load import load_network
from tests.compiler.network.test_net_given import integers


class RequantShift(OpRun):
    """By its definition, in Python's own integers."""

    op_domain = ""

    def _run(self, x, multipliers, offsets, div=None, n_levels_out=None, signed=None):
        divisor, levels = int(div), int(n_levels_out[0])
        low = -levels // 2 if signed[0] else 0
        parts = np.broadcast_arrays(x, multipliers, offsets)
        found = [
            min(max((int(a) * int(b) + int(c) + divisor // 2) // divisor, low), low + levels - 1)
            for a, b, c in zip(*(part.reshape(-1).tolist() for part in parts), strict=True)
        ]
        return (np.array(found, np.float32).reshape(parts[0].shape),)


class Whole:
    """Collects nodes; every number is a whole one."""

    def __init__(self):
        self.random, self.nodes, self.stored = np.random.default_rng(3), [], []

    def __call__(self, op, *inputs, **attributes):
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        self.nodes.append(
            helper.make_node(op, names, [f"y{len(self.nodes)}"], f"node{len(self.nodes)}", **attributes)
        )
        return self.nodes[-1].output[0]

    def constant(self, value):
        self.stored.append(numpy_helper.from_array(np.asarray(value, np.float32), f"c{len(self.stored)}"))
        return self.stored[-1].name

    def draw(self, *shape, most=30):
        return self.random.integers(-most, most, shape, endpoint=True)

    def shift(self, x, by, offset, div=2.0**16, levels=256.0, signed=0.0):
        numbers = {
            "div": np.float32(div),
            "n_levels_out": np.float32([levels]),
            "signed": np.float32([signed]),
        }
        return self(
            "RequantShift", x, by, offset, **{k: numpy_helper.from_array(v) for k, v in numbers.items()}
        )

    def saved(self, folder, shape, *outputs):
        infos = [helper.make_tensor_value_info(one, TensorProto.FLOAT, None) for one in outputs]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "g", [x], infos, self.stored)
        self.model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
        onnx.save(self.model, folder / "model.onnx")
        return str(folder / "model.onnx")

    def judged(self, inputs):
        return ReferenceEvaluator(self.model, new_ops=[RequantShift]).run(None, inputs)


def images(m):
    """Convolutions with multipliers for channels, a residual, pooling and a product."""
    lines = m.random.integers(300, 900, (6, 1, 1)), m.draw(6, 1, 1, most=100000)
    a = m.shift(m("Conv", "x", m.draw(6, 3, 3, 3), pads=[1] * 4), *lines)
    b = m.shift(m("Conv", a, m.draw(6, 1, 3, 3), pads=[1] * 4, group=6), 514, 0, signed=1.0)
    c = m.shift(m("Add", m.shift(a, 32768, 0, signed=1.0), b), 131072, 77, levels=16.0)
    d = m("Reshape", m("MaxPool", c, kernel_shape=[2, 2], strides=[2, 2]), m.constant([1, 54]))
    m.stored[-1].CopyFrom(numpy_helper.from_array(np.array([1, 54]), m.stored[-1].name))
    e = m.shift(
        m("Gemm", d, m.draw(5, 54), m.draw(5, most=900), transB=1), 2**30, -(2**30), div=2.0**33, signed=1.0
    )
    return a, b, c, e


@pytest.mark.parametrize("engine", [None, "functional", "rtl"])
def test_whole_numbers_are_shifted_as_the_deployer_defines_it(tmp_path, engine):
    m = Whole()
    made, x = images(m), {"x": np.random.default_rng(1).integers(0, 256, (1, 3, 6, 6))}
    path = m.saved(tmp_path, x["x"].shape, *made)
    if engine is None:
        network, found = integers(path, x)
        kinds = [type(op).__name__ for op in network.operators]
        assert kinds.count("Convolution") == 2
        assert kinds.count("Shifted") == 5
    else:
        run = baco.run(path, "gemmini-default", inputs=x, engine=engine)
        assert run.right, run.wrong
        found = run.outputs
    for name, wanted in zip(made, m.judged({"x": x["x"].astype(np.float32)}), strict=True):
        assert len(np.unique(wanted)) > 3
        np.testing.assert_array_equal(found[name], wanted)


def test_inputs_are_bytes(tmp_path):
    m = Whole()
    path = m.saved(tmp_path, (1, 4), m.shift(m("MatMul", "x", m.draw(4, 3)), 99, 0))
    assert load_network(path).input_types == {"x": "uint8"}
    with pytest.raises(InputError, match="'x' is uint8 in the model"):
        baco.run(path, "gemmini-default", inputs={"x": np.array([[1, 2, 3, 256]])}, engine="functional")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"div": 1000.0}, "node1.*its divisor 1000 is no power of two"),
        ({"div": 0.0}, "node1.*its divisor 0 is no power"),
        ({"div": float("nan")}, "node1.*its divisor nan is no power"),
        ({"levels": 1.0}, "node1.*1 levels are not supported"),
        ({"levels": 1000.0}, "node1.*1000 levels are not supported"),
        ({"by": 0.5}, "node1.*its multipliers are not whole"),
        ({"offset": 2.0**40}, "node1.*its offsets are beyond 32 bits"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_shift_is_said_with_the_nodes_name(tmp_path, changes, says):
    m = Whole()
    y = m.shift(m("MatMul", "x", m.draw(4, 3)), **{"by": 99, "offset": 0} | changes)
    with pytest.raises(InputError, match=says):
        quantise(load_network(m.saved(tmp_path, (1, 4), y)))


TABLE = """
def halved(e):
    y = e.add("Mul", e.input(0), e.constant(1 / e.attribute("by", 2)))
    e.finish("Relu", y)

def broken(e):
    e.value(7, "table")

OPERATORS = {"com.example.Halved": halved, "Halved": halved, "com.example.Broken": broken, "com.example.Fails": lambda e: 1 / 0}
"""


def of_own(folder, operator, domain, table=TABLE):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weight = numpy_helper.from_array(np.random.default_rng(2).standard_normal((4, 3)).astype(np.float32), "w")
    product = helper.make_node("MatMul", ["x", "w"], ["p"], "product")
    own = helper.make_node(operator, ["p"], ["y"], "own", domain=domain, by=4)
    graph = helper.make_graph([product, own], "g", [x], [y], [weight])
    opsets = [helper.make_opsetid("", 13), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=opsets), folder / "model.onnx")
    (folder / "table.py").write_text(table)
    return f"{folder}/model.onnx:operators={folder}/table.py", numpy_helper.to_array(weight)


@pytest.mark.parametrize("domain", ["", "com.example"])
def test_operators_of_a_users_table(tmp_path, domain):
    spec, weight = of_own(tmp_path, "Halved", domain)
    x = np.random.default_rng(1).standard_normal((1, 4)).astype(np.float32)
    _, found = integers(spec, {"x": x})
    wanted = np.maximum(x @ weight / 4, 0)
    assert np.abs(found["y"] - wanted).max() <= 0.02 * np.abs(wanted).max()
    with pytest.raises(InputError, match=r"Halved \(own\)"):
        quantise(load_network(spec.partition(":")[0]))


@pytest.mark.parametrize(
    ("operator", "table", "says"),
    [
        ("Broken", TABLE, "Broken.*its input 7 is missing"),
        ("Fails", TABLE, "the rule of 'com.example.Fails' fails at node 'own': ZeroDivisionError"),
        ("Halved", "OPERATORS = [1]", "holds no table of operators"),
        ("Halved", "OPERATORS = {", "table.py.*never closed"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_table_is_said(tmp_path, operator, table, says):
    spec, _ = of_own(tmp_path, operator, "com.example", table)
    with pytest.raises(InputError, match=says):
        quantise(load_network(spec))
