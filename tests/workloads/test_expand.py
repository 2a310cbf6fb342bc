"""Unrolled blocks: as many operators as run, each with parameters of its own, fed by the one before."""

import pytest

from baco.common.errors import InputError
from baco.workloads.builder import GraphBuilder
from baco.workloads.expand import expand
from baco.workloads.inputs.load import load_network, network_names
from baco.workloads.network import Tensor
from baco.workloads.problem import Problem
from baco.workloads.semantics import Parameter
from baco.workloads.views import fits


def check_graph(network):
    """Every operator reads what an earlier one wrote, under the shape its steps lead to."""
    shapes = {t.name: t.shape for t in network.inputs}
    for op in network.operators:
        assert set(op.inputs) <= set(shapes)
        assert op.name not in shapes
        assert op.repeat == 1
        for operand in op.semantics.operands:
            if isinstance(operand, Tensor):
                assert fits(shapes[operand.name], operand.shape, operand.steps), (op.name, operand)
        shapes[op.name] = op.output.shape


@pytest.mark.parametrize("name", [n for n in network_names() if not n.startswith("deepbench")])
def test_built_in_networks_unroll_to_the_same_work(name):
    network = load_network(name)
    flat = expand(network)
    check_graph(flat)
    assert (flat.macs, flat.weight_words) == (network.macs, network.weight_words)
    assert len(flat.operators) == sum(op.repeat for op in network.operators)
    assert {t.problem: t.count for t in flat.tasks} == {t.problem: t.count for t in network.tasks}


def test_copies_feed_each_other_and_own_their_parameters():
    flat = expand(load_network("bert_base"), 3)
    queries = [op for op in flat.operators if op.name.startswith("encoder.query")]
    assert [op.name for op in queries] == ["encoder.query[0]", "encoder.query[1]", "encoder.query[2]"]
    assert [op.inputs for op in queries] == [
        ("embeddings.norm",),
        ("encoder.norm2[0]",),
        ("encoder.norm2[1]",),
    ]
    assert len({op.semantics.operands[1].name for op in queries}) == 3
    pooler = next(op for op in flat.operators if op.name == "pooler")
    assert pooler.inputs == ("encoder.norm2[2]",)
    assert pooler.semantics.operands[0].name == "encoder.norm2[2]"


def test_nested_blocks_and_views_between_runs():
    b = GraphBuilder("nested")

    def inner(x):
        return b.transpose(b.relu(b.linear(x, 4, name="line")), (1, 0))

    def outer(x):
        return b.add(b.repeat(3, inner, x), x, name="sum")

    x = b.transpose(b.input("x", (4, 4)), (1, 0))
    b.relu(b.repeat(2, outer, x), name="last")
    flat = expand(b.build())
    check_graph(flat)
    assert [op.name for op in flat.operators if op.kind == "add"] == ["sum[0]", "sum[1]"]
    lines = [op for op in flat.operators if op.kind == "linear"]
    assert [op.name for op in lines] == [f"line[{i}][{j}]" for i in range(2) for j in range(3)]
    # The first run reads the transposed input, the later ones the transposed result of the run before.
    assert [(op.inputs, len(op.semantics.operands[0].steps)) for op in lines[:2]] == [
        (("x",), 1),
        (("relu0[0][0]",), 1),
    ]
    assert lines[3].inputs == ("sum[0]",)
    assert lines[3].semantics.operands[0].steps == ()
    second = next(op for op in flat.operators if op.name == "sum[1]")
    assert [t.name for t in second.semantics.operands] == ["relu0[1][2]", "sum[0]"]


def test_tables_of_layers_cannot_be_unrolled():
    b = GraphBuilder("table")
    b.layer(Problem(P=4, C=4, K=4), repeat=2)
    with pytest.raises(InputError, match="2 times") as caught:
        expand(b.build())
    assert "table of layers" in caught.value.hint


def test_at_least_one_layer():
    with pytest.raises(InputError, match="at least once"):
        expand(load_network("bert_base"), 0)


def test_nothing_is_allocated_before_it_is_needed():
    flat = expand(load_network("llama2_7b"))
    parameters = [p for op in flat.operators for p in op.semantics.operands if isinstance(p, Parameter)]
    assert sum(p.stored_shape is None for p in parameters) > 200
    assert all(p.load is None or p.name.startswith("causal") for p in parameters)
