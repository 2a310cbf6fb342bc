"""Networks one behind the other: what lies between two tables is one table, to the bit."""

import numpy as np
import pytest

from baco.compiler.network.compose import composed
from baco.compiler.network.quantise import quantise, quantise_given, quantise_inputs
from baco.compiler.network.reference import reference
from baco.compiler.ops.elements import Decoded, Encoded
from baco.compiler.ops.elementwise import Map
from baco.workloads.builder import GraphBuilder
from baco.workloads.pipelines.emitter import Placing
from baco.workloads.pipelines.pipeline import Numbers, TracedPipeline

MEAN, DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def _network(shape):
    b = GraphBuilder("network")
    b.conv2d(b.input("image", shape), 4, 3, padding=1)
    return b.build()


def _parts(function, shape):
    """(The function and the network behind it in integers, the function's inputs, its results by numpy)."""
    traced = TracedPipeline(function, {"image": Numbers(shape)})
    arrays = traced.random(0)
    (result,) = traced.evaluated(arrays)
    network = _network((1, shape[2], *shape[:2]))
    turned = result.transpose(2, 0, 1)[None].astype(np.float32)
    front = quantise_given(traced.network(Placing("packed", 4), [turned.shape]))
    return front, quantise(network, [{"image": turned}]), traced.graph_inputs(arrays), turned


@pytest.mark.parametrize("shape", [(20, 24, 3), (6, 8, 3)])
def test_numbers_normalised_by_channel_reach_a_network_as_bytes_through_one_table(shape):
    """Of few pixels, there are no tables: real numbers are computed and rounded."""
    front, network, inputs, result = _parts(lambda image: (image / 255 - MEAN) / DEVIATION, shape)
    whole = composed("whole", [front, network])
    values = reference(whole, quantise_inputs(whole, inputs))
    (view,) = network.inputs.values()
    scale = np.float32(network.values[view.value].scale)
    if whole.values[whole.tensors["0:result"].value].dtype == "int8":
        steps = whole.read(whole.tensors["0:result"], values) / scale
        assert np.array_equal(np.rint(steps), np.rint(result / scale).clip(-128, 127))
    kinds = {type(op) for op in whole.operators if op.name.startswith("0:")}
    tables = shape[0] * shape[1] >= 256
    assert (kinds == {Map}) == tables
    assert any(isinstance(op, (Decoded, Encoded)) for op in whole.operators) != tables
    # The same integers as of both one by one.
    alone = reference(front, quantise_inputs(front, inputs))
    (name,) = front.outputs
    between = front.read_output(name, alone)
    behind = reference(network, quantise_inputs(network, {"image": between.reshape(view.shape)}))
    (name,) = network.outputs
    assert np.array_equal(network.read_output(name, behind), whole.read_output(name, values))


def test_real_numbers_that_something_else_reads_stay_such():
    front, network, inputs, _ = _parts(lambda image: np.sqrt(image / 255) + image.mean() / 255, (20, 24, 3))
    whole = composed("whole", [front, network])
    assert any(isinstance(op, Encoded) for op in whole.operators)
    reference(whole, quantise_inputs(whole, inputs))
