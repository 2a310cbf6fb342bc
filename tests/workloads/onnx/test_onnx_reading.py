"""Nothing that an ONNX node says is passed over: it is computed as ONNX's own tests have it, or refused by name."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.defs
import pytest
from onnx import TensorProto, helper

import baco
from baco.common.errors import BacoError
from baco.compiler.network.calibrate import needed
from baco.compiler.network.float_graph import FloatGraph
from baco.compiler.network.parameters import Parameters
from baco.compiler.network.quantise import runnable
from baco.workloads.onnx import control
from baco.workloads.onnx.expansion import Expansion
from baco.workloads.onnx.expansions import EXPANSIONS, FUNCTIONS
from baco.workloads.onnx.graph import DOMAINS, walk
from baco.workloads.onnx.load import load_model
from baco.workloads.onnx.node import OnnxNode
from baco.workloads.onnx.operators import OPERATORS
from baco.workloads.onnx.reading import HARMLESS
from baco.workloads.views import Unknown


@pytest.fixture(scope="module")
def cases():
    """ONNX's own tests of operators."""
    from onnx.backend.test.case.node import collect_testcases

    return collect_testcases(None)


def _network(case, path):
    path.write_bytes(case.model.SerializeToString())
    return runnable(walk(load_model(str(path), None, OPERATORS.__contains__)), Parameters(str(path)))


def _number(value):
    array = np.asarray(value)
    return array if array.dtype.kind in "iub" else array.astype(np.float32)


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_what_is_imported_computes_what_onnx_defines(cases, tmp_path, step):
    """Of all of ONNX's tests, or of one of nine, in floating point: those that come in at all must be right."""
    path, right, wrong = tmp_path / "model.onnx", 0, []
    for case in cases[::step]:
        names = [value.name for value in case.model.graph.input]
        try:
            network = _network(case, path)
            for inputs, outputs in case.data_sets:
                given = {
                    name: _number(value)
                    for name, value in zip(names, inputs, strict=True)
                    if isinstance(value, np.ndarray | np.generic) and np.asarray(value).dtype.kind in "fiub"
                }
                wanted = [
                    _number(x) for x in outputs if not isinstance(x, TensorProto | list | tuple | type(None))
                ]
                if len(wanted) < len(outputs) or any(x.name not in given for x in network.inputs):
                    continue
                found = FloatGraph(network, Parameters(str(path))).run(given)
                assert [x.shape for x in found] == [x.shape for x in wanted]
                for ours, theirs in zip(found, wanted, strict=True):
                    # As half precision and bfloat16 are rounded.
                    np.testing.assert_allclose(ours.astype(float), theirs.astype(float), rtol=5e-3, atol=5e-3)
                right += 1
        except BacoError:
            continue
        except AssertionError as error:
            wrong.append(f"{case.name}: {str(error).strip().splitlines()[0]}")
    assert not wrong
    assert right > 490 / step * 0.9 ** (step > 1)


def _planted(schema, attribute):
    """A value that the attribute does not have by default."""
    kinds = onnx.defs.OpSchema.AttrType
    return {
        kinds.INT: 7717,
        kinds.FLOAT: 0.3717,
        kinds.STRING: "planted",
        kinds.INTS: [7717, 7717],
        kinds.FLOATS: [0.3717],
    }.get(schema.attributes[attribute].type)


def _first_cases(cases):
    """For each operator that has a rule, a test of it, with its schema."""
    found = {}
    for case in cases:
        nodes = case.model.graph.node
        operator = nodes[0].op_type
        known = operator in OPERATORS or operator in EXPANSIONS or operator in FUNCTIONS
        if len(nodes) != 1 or not known or nodes[0].domain not in DOMAINS or operator in found:
            continue
        version = next((e.version for e in case.model.opset_import if e.domain == ""), 0)
        if version and onnx.defs.has(operator):
            found[operator] = case, onnx.defs.get_schema(operator, version)
    return found


def _blind(patch, name=None, index=None):
    """Rules do not see an attribute, or an input, and so cannot count it as read: as if they never asked."""
    asked, written, reads, taken = OnnxNode._attribute, Expansion.attribute, OnnxNode.reads, Expansion.input
    handed_on, defined = Expansion.raw_attributes, control.defined_body

    def raw_attributes(self, *left_out):
        before = name in self.read_attributes
        kept = [attribute for attribute in handed_on(self, *left_out) if attribute.name != name]
        if not before:
            self.read_attributes.discard(name)
        return kept

    def defined_body(node, version, schema, types):
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        del copy.attribute[:]
        copy.attribute.extend(attribute for attribute in node.attribute if attribute.name != name)
        body = defined(copy, version, schema, types)
        for inner in () if body is None else body.node:
            for attribute in [a for a in inner.attribute if a.ref_attr_name == name]:
                inner.attribute.remove(attribute)
        return body

    def input_of_expansion(self, i):
        before = i in self.read_inputs
        value = taken(self, i)
        if i == index and not before:
            self.read_inputs.discard(i)
        return value

    patch.setattr(
        OnnxNode, "_attribute", lambda self, key, kind: None if key == name else asked(self, key, kind)
    )
    patch.setattr(
        Expansion,
        "attribute",
        lambda self, key, default: default if key == name else written(self, key, default),
    )
    patch.setattr(Expansion, "raw_attributes", raw_attributes)
    patch.setattr(control, "defined_body", defined_body)
    patch.setattr(OnnxNode, "reads", lambda self, i: None if i == index else reads(self, i))
    patch.setattr(Expansion, "input", input_of_expansion)


def _refusal(path, operator, name, value):
    """What running the model is refused with, once the attribute is planted: behind the inference of shapes, which it would
    upset, unless the operator is written out in others by then. None where nothing refuses it."""

    def plant(graph):
        node = next((n for n in graph.node if n.op_type == operator), None)
        if node is not None:
            for own in [a for a in node.attribute if a.name == name]:
                node.attribute.remove(own)
            node.attribute.append(helper.make_attribute(name, value))
        return node is not None

    try:
        model = load_model(str(path), None, OPERATORS.__contains__)
        if not plant(model.graph):
            proto = onnx.load(path)
            plant(proto.graph)
            onnx.save(proto, path)
            model = load_model(str(path), None, OPERATORS.__contains__)
        needed(walk(model))
    except BacoError as error:
        return str(error)
    return None


def test_an_attribute_that_a_rule_does_not_read_is_refused_by_name(cases, tmp_path, monkeypatch):
    """Each attribute of each operator's schema is planted while the rule is blind to it."""
    path, refused, passed = tmp_path / "model.onnx", {}, []
    for operator, (case, schema) in _first_cases(cases).items():
        for name in schema.attributes:
            value = _planted(schema, name)
            if value is None or name in HARMLESS.get(operator, {}):
                continue
            path.write_bytes(case.model.SerializeToString())
            with monkeypatch.context() as patch:
                _blind(patch, name=name)
                text = _refusal(path, operator, name, value)
            if text is None:
                passed.append(f"{operator}.{name}")
            else:
                refused[f"{operator}.{name}"] = text
    named = [key for key, text in refused.items() if f"{key.split('.')[1]}=" in text]
    assert not passed
    assert len(refused) > 100
    assert len(named) > 60, sorted(set(refused) - set(named))  # rules cannot do without some of the others


def test_an_input_that_a_rule_does_not_read_is_refused_by_name(cases, tmp_path, monkeypatch):
    path, refused, passed = tmp_path / "model.onnx", 0, []
    for operator, (case, schema) in _first_cases(cases).items():
        for index, given in enumerate(case.model.graph.node[0].input):
            name = schema.inputs[min(index, len(schema.inputs) - 1)].name
            if not given or name in HARMLESS.get(operator, {}):
                continue
            with monkeypatch.context() as patch:
                _blind(patch, index=index)
                try:
                    _network(case, path)
                except BacoError:
                    refused += 1
                else:
                    passed.append(f"{operator}: {name}")
    assert not passed
    assert refused > 100


def _model(path, nodes, outputs, opset=18, **inputs):
    kinds = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "u": TensorProto.UINT8}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, kinds[x.dtype.kind], x.shape) for n, x in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [
            onnx.numpy_helper.from_array(np.full((4, 4), 0.3, np.float32), "w"),
            onnx.numpy_helper.from_array(np.float32(0.1), "scale"),
            onnx.numpy_helper.from_array(np.uint8(128), "zero"),
        ],
    )
    opsets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return str(path)


FLOATS = np.ones((2, 4), np.float32)


@pytest.mark.parametrize(
    ("nodes", "outputs", "words"),
    [
        ([("Cast", ["y"], ["z"], {"to": TensorProto.FLOAT8E4M3FN})], ["z"], "to=FLOAT8E4M3FN"),
        ([("Selu", ["y"], ["z"], {"delta": 2.0})], ["z"], "Selu: delta=2.0 is not supported"),
        (
            [
                ("QuantizeLinear", ["y", "scale", "zero"], ["q"], {}),
                ("DequantizeLinear", ["q", "w", "zero"], ["z"], {}),
            ],
            ["z"],
            "its scales must be one number or a vector",
        ),
    ],
)
def test_what_is_not_followed_is_refused_by_name(tmp_path, nodes, outputs, words):
    made = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    made += [helper.make_node(op, ins, outs, **attributes) for op, ins, outs, attributes in nodes]
    path = _model(tmp_path / "m.onnx", made, outputs, x=FLOATS)
    with pytest.raises(BacoError, match=words):
        needed(walk(load_model(path, None, OPERATORS.__contains__)))


def test_an_output_that_does_not_depend_on_the_inputs_is_what_it_is(tmp_path):
    """Whole numbers stay what they are, beyond 8 bits too."""
    made = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Shape", ["y"], ["z"])]
    made += [helper.make_node("Constant", [], ["n"], value_ints=[-1000, 7, 70000])]
    run = baco.run(_model(tmp_path / "m.onnx", made, ["y", "z", "n", "w"], x=FLOATS), inputs={"x": FLOATS})
    assert run.right, run.wrong
    assert run.outputs["z"].tolist() == [2, 4]
    assert run.outputs["n"].tolist() == [-1000, 7, 70000]
    np.testing.assert_allclose(run.outputs["w"], np.full((4, 4), 0.3), rtol=0.01)


def test_an_output_that_nothing_gives_is_refused_by_name(tmp_path):
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["y"]),
            helper.make_node(
                "SkipLayerNormalization", ["y", "x", "g"], ["z", "mean"], domain="com.microsoft", name="norm"
            ),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 4))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("z", "mean")],
        [
            onnx.numpy_helper.from_array(np.full((4, 4), 0.3, np.float32), "w"),
            onnx.numpy_helper.from_array(np.ones(4, np.float32), "g"),
        ],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    path = str(tmp_path / "m.onnx")
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    with pytest.raises(BacoError, match=r"SkipLayerNormalization: its output 1 \('mean'\) is not supported"):
        needed(walk(load_model(path, None, OPERATORS.__contains__)))


def test_a_reason_does_not_keep_a_network_from_being_explored(tmp_path):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Selu", ["y"], ["z"], delta=2.0),
        helper.make_node("MatMul", ["z", "w"], ["out"]),
    ]
    network = walk(
        load_model(_model(tmp_path / "m.onnx", nodes, ["out"], x=FLOATS), None, OPERATORS.__contains__)
    )
    assert [task.count for task in network.tasks] == [2]
    assert not any(isinstance(step, Unknown) for tensor in network.inputs for step in tensor.steps)
