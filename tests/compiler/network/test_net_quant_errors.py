"""Every kind of operator is run or refused by name."""

import numpy as np
import pytest

from baco.common.errors import InputError
from baco.compiler.network.quantise import RULES, quantise, quantise_inputs, real
from baco.compiler.network.reference import reference
from baco.workloads.builder import GraphBuilder
from baco.workloads.kinds import KINDS
from baco.workloads.network import Unsupported
from baco.workloads.problem import Problem
from baco.workloads.semantics import FUNCTIONS, Parameter, Semantics, constant


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_operators_without_a_meaning_are_refused_by_name_and_kind(kind):
    b = GraphBuilder("net", source="net.onnx")
    x = b.input("x", (2, 3, 4))
    b.linear(b.op(kind, (x,), name="mystery"), 4)
    with pytest.raises(InputError, match=f"mystery \\({kind}\\): what it computes is not recorded") as caught:
        quantise(b.build())
    assert caught.value.location.file == "net.onnx"
    assert "explored" in caught.value.hint


def test_every_function_has_a_rule():
    assert set(RULES) | {"masked"} == set(FUNCTIONS)


def test_operators_that_nobody_needs_are_left_out():
    b = GraphBuilder("net")
    x = b.input("x", (2, 3))
    b.op("topk", (x,), name="unused")
    y = b.linear(x, 4)
    network = quantise(b.build(outputs=[y]))
    assert [op.name for op in network.operators] == ["linear0"]


def test_views_that_are_not_recorded_are_refused():
    b = GraphBuilder("net")
    b.linear(b.view(b.input("x", (2, 6)), (2, 3)), 4, name="line")
    with pytest.raises(InputError, match="line: reads a view that is not recorded of x"):
        quantise(b.build())


def test_unsupported_nodes_are_named():
    b = GraphBuilder("net")
    b.linear(b.input("x", (2, 6)), 4)
    with pytest.raises(InputError, match=r"1 of its operators.*Foo \(foo_1\): odd"):
        quantise(b.build([Unsupported("Foo", "foo_1", "odd")]))


def test_layer_tables_are_refused():
    b = GraphBuilder("table")
    b.layer(Problem(P=4, C=4, K=4))
    with pytest.raises(InputError, match="layer0 \\(layer"):
        quantise(b.build())


def net(function, result=(1, 4, 6, 6), operands=(), **attributes):
    b = GraphBuilder("net")
    x = b.input("x", (1, 4, 6, 6))
    if function == "softmax":
        x = b.reshape(x, result)
    b.op("elementwise", (x,), result, name="odd", semantics=Semantics(function, (x, *operands), attributes))
    return b.build()


@pytest.mark.parametrize(
    ("network", "says"),
    [
        (net("masked", operands=(constant("m", np.ones(1, bool)), constant("v", -1e9))), "constant mask"),
        (
            net(
                "avgpool",
                (1, 4, 4, 4),
                kernel=(2, 2),
                stride=(1, 1),
                padding=((0, 0), (0, 0)),
                dilation=(2, 2),
                shape=(4, 4),
                count_padding=True,
                divisor=None,
            ),
            "dilation",
        ),
    ],
)
def test_what_cannot_be_run_says_so(network, says):
    with pytest.raises(InputError, match=says) as caught:
        quantise(network)
    assert caught.value.location is not None


def test_a_mask_that_is_computed_is_refused():
    b = GraphBuilder("net")
    x, mask = b.input("x", (2, 4)), b.input("mask", (2, 4))
    b.softmax(x, "weights", mask)
    with pytest.raises(InputError, match="mask that is computed"):
        quantise(b.build())


def test_masks_that_are_added_from_an_input_are_refused():
    b = GraphBuilder("net")
    x, mask = b.input("x", (2, 4)), b.input("mask", (2, 4))
    huge = Semantics("binary", (mask, constant("huge", float(np.finfo(np.float32).min))), {"name": "mul"})
    b.softmax(b.add(x, b.op("elementwise", (mask,), semantics=huge, name="computed")))
    with pytest.raises(InputError, match="beside which int8 holds nothing else") as caught:
        quantise(b.build(), [{"x": np.ones((2, 4)), "mask": -np.ones((2, 4))}])  # beyond all, not below
    assert caught.value.location.node == "computed"


def test_parameters_that_are_not_finite_are_refused():
    b = GraphBuilder("net")
    weight = constant("w", np.array([[1.0, np.inf], [0.0, 1.0]]))
    b.matmul(b.input("x", (3, 2)), weight, "line")
    with pytest.raises(InputError, match="finite"):
        quantise(b.build())


def test_parameters_of_another_shape_are_refused():
    b = GraphBuilder("net")
    weight = Parameter("w", (2, 2), lambda: np.zeros(5))
    b.matmul(b.input("x", (3, 2)), weight, "line")
    with pytest.raises(InputError, match=r"shape \(2, 2\)") as caught:
        quantise(b.build())
    assert caught.value.location.node == "w"


def test_indices_are_numbers_where_these_are_wanted():
    b = GraphBuilder("net")
    x = b.input("tokens", (2, 3))
    b.embedding(x, 5, 4)
    b.op(
        "elementwise",
        (x,),
        (2, 3),
        name="odd",
        semantics=Semantics("unary", (x,), {"name": "sin", "numbers": {}}),
    )
    tokens = np.array([[0, 1, 2], [3, 4, 2]])
    quantised = quantise(b.build(), [{"tokens": tokens}])
    values = reference(quantised, quantise_inputs(quantised, {"tokens": tokens}))
    np.testing.assert_allclose(real(quantised, values, "odd"), np.sin(tokens), atol=0.5 / 127)
