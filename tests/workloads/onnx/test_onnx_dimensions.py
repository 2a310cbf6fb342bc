"""Open dimensions of ONNX models: all in one message, with a line that works when it is typed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import baco
from baco.common.errors import InputError
from baco.workloads.inputs.load import load_network


@pytest.fixture
def save(tmp_path):
    def write(inputs, metadata=None):
        """A 1x1 convolution or product of every input."""
        nodes, weights, outputs = [], [], []
        for name, dims in inputs.items():
            four = len(dims) == 4
            shape = (4, dims[1], 1, 1) if four else (dims[-1], 4)
            weights.append(numpy_helper.from_array(np.ones(shape, np.float32), f"w.{name}"))
            nodes.append(helper.make_node("Conv" if four else "MatMul", [name, f"w.{name}"], [f"y.{name}"]))
            outputs.append(helper.make_tensor_value_info(f"y.{name}", TensorProto.FLOAT, None))
        values = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs.items()
        ]
        graph = helper.make_graph(nodes, "g", values, outputs, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        for key, value in (metadata or {}).items():
            entry = model.metadata_props.add()
            entry.key, entry.value = key, value
        path = tmp_path / "model.onnx"
        onnx.save(model, path)
        return str(path)

    return write


def _shapes(spec):
    return {x.name: x.shape for x in load_network(spec).inputs}


def test_all_open_dimensions_in_one_message_and_its_line_works(save):
    path = save({"image": ["N", 3, "height", "width"], "tokens": ["batch", "length", 8], "fixed": [1, 2, 8]})
    with pytest.raises(InputError) as caught:
        load_network(path)
    text = caught.value.message
    assert "3 dimensions" in text
    assert "image (1 x 3 x height x width)" in text
    assert "tokens (1 x length x 8)" in text
    assert "fixed" not in text
    line = caught.value.hint.rpartition(" ")[2]
    assert _shapes(line) == {"image": (1, 3, 224, 224), "tokens": (1, 128, 8), "fixed": (1, 2, 8)}


def test_sizes_that_the_model_names_are_proposed(save):
    path = save({"images": [1, 3, "height", "width"]}, {"imgsz": "[480, 640]"})
    with pytest.raises(InputError) as caught:
        load_network(path)
    assert caught.value.hint.endswith(f"{path}:images=1x3x480x640")


def test_what_was_given_stays_in_the_line(save):
    path = save({"x": ["N", 3, "h", "w"]})
    with pytest.raises(InputError) as caught:
        load_network(f"{path}:batch=2,dim.h=48")
    assert caught.value.hint.endswith(f"{path}:batch=2,x=2x3x48x224")


@pytest.mark.parametrize(
    "options",
    [
        "x=2x3x6x9",
        "batch=2,dim.?=6,dim.x.3=9",
        "batch=2,dim.x.2=6,dim.x.3=9",
        "dim.x.0=2,dim.x.2=6,dim.x.3=9",
    ],
)
def test_dimensions_of_one_name_are_told_apart(save, options):
    assert _shapes(f"{save({'x': ['N', 3, '?', '?']})}:{options}") == {"x": (2, 3, 6, 9)}


def test_a_batch_is_one_wherever_it_stands(save):
    assert _shapes(save({"x": ["batch", 8], "state": [2, "batch", 8]})) == {"x": (1, 8), "state": (2, 1, 8)}
    path = save({"x": ["batch", 8], "state": [2, "batch", 8]})
    assert _shapes(f"{path}:batch=3") == {"x": (3, 8), "state": (2, 3, 8)}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("x=1x4x6x9", "in the model it is ?x3x?x?"),
        ("x=6", "cannot have the shape 6"),
        ("x=a", "cannot be 'a'"),
        ("x=1x3x0x9", "from 1 to"),
        ("y=1x3x6x9", "no option 'y'"),
        ("dim.x.1=3", "no option 'dim.x.1'"),
    ],
)
def test_shapes_that_do_not_fit(save, options, says):
    with pytest.raises(InputError) as caught:
        load_network(f"{save({'x': ['N', 3, 'h', 'w']})}:{options}")
    assert says in caught.value.message


def test_shapes_from_python(save):
    path = save({"x": ["N", 3, "h", "w"]})
    assert baco.network(path, shapes={"x": (1, 3, 6, 9)}).inputs[0].shape == (1, 3, 6, 9)
    assert baco.network(f"{path}:batch=2,dim.w=9", shapes={"x": (2, 3, 6, 9)}).inputs[0].shape == (2, 3, 6, 9)
    with pytest.raises(InputError, match="ONNX"):
        baco.network("resnet18", shapes={"x": (1, 3, 6, 9)})
