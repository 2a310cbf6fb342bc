"""Costs of host operators that no program says."""

from __future__ import annotations

import pytest

from baco.accel.presets import load_accelerator
from baco.exploration.cost.host import function_of, host_costs
from baco.exploration.cost.program_rest import Programs
from baco.workloads.builder import GraphBuilder
from baco.workloads.inputs.load import load_network
from baco.workloads.kinds import ADDRESSING_KINDS, FUSIBLE, HOST_KINDS
from baco.workloads.network import Network, Operator, Tensor

ACCELERATOR = load_accelerator("gemmini-default")


def of(op: Operator, *inputs: Tensor) -> Network:
    return Network("one", inputs, (op,))


@pytest.mark.parametrize("kind", sorted({*HOST_KINDS, *FUSIBLE, *ADDRESSING_KINDS}))
def test_every_kind_costs_something(kind: str) -> None:
    x = Tensor("x", (4, 32))
    (cost,) = host_costs(of(Operator("op", kind, ("x",), Tensor("y", (4, 32))), x), ACCELERATOR)
    assert cost.cost.cycles > 128
    assert cost.cost.energy_pj(ACCELERATOR) > 256 * ACCELERATOR.energy.dram_pj
    assert (cost.function, cost.runs, cost.on_accelerator) == (kind, 1, False)


@pytest.mark.parametrize(
    ("spec", "compared"),
    [("bert_base:seq=128", ("layernorm", "softmax", "gelu", "tanh")), ("gpt2:seq=8", ("softmax", "gelu"))],
)
def test_operators_cost_as_much_as_in_the_program_that_there_is(spec: str, compared: tuple[str, ...]) -> None:
    """Programs know the parameters of each call; what is left out here are few. Masked rows and short ones cost what they do."""
    network = load_network(spec)
    kinds = {op.name: op.kind for op in network.operators}
    told: dict[str, float] = {}
    for cost in host_costs(network, ACCELERATOR):
        told[cost.function] = told.get(cost.function, 0.0) + cost.cost.cycles
    programmed: dict[str, float] = {}
    for cost in Programs((network,)).costs(network.name, ACCELERATOR):
        programmed[kinds[cost.operator]] = programmed.get(kinds[cost.operator], 0.0) + cost.cost.cycles
    for kind in compared:
        assert told[kind] == pytest.approx(programmed[kind], rel=0.2)


def test_an_operator_that_repeats_costs_so_many_times() -> None:
    x = Tensor("x", (1000,))

    def cost(repeat: int) -> tuple[float, float]:
        op = Operator("op", "gelu", ("x",), Tensor("y", (1000,)), repeat=repeat)
        (found,) = host_costs(of(op, x), ACCELERATOR)
        return found.cost.cycles, found.cost.fixed_pj

    assert cost(7) == pytest.approx([7 * amount for amount in cost(1)])


def test_wider_elements_have_no_table_and_move_more() -> None:
    x, op = Tensor("x", (1000,)), Operator("op", "tanh", ("x",), Tensor("y", (1000,)))
    (narrow,) = host_costs(of(op, x), ACCELERATOR)
    (wide,) = host_costs(of(op, x), ACCELERATOR.replace(input_bits=16))
    assert wide.cost.cycles > 2 * narrow.cost.cycles


def test_rows_cost_beside_their_elements() -> None:
    def softmax(shape: tuple[int, ...]) -> float:
        op = Operator("op", "softmax", ("x",), Tensor("y", shape))
        (cost,) = host_costs(of(op, Tensor("x", shape)), ACCELERATOR)
        return cost.cost.cycles

    assert softmax((64, 16)) > 1.5 * softmax((4, 256))


def test_rows_of_embeddings_are_copied_by_words_where_they_consist_of_them() -> None:
    def embedding(features: int) -> float:
        op = Operator("op", "embedding", ("x",), Tensor("y", (10, features)), weight_words=features * 1000)
        (cost,) = host_costs(of(op, Tensor("x", (10,))), ACCELERATOR)
        return cost.cost.cycles

    assert 2 * embedding(768) < embedding(767)


def test_a_table_is_not_read_as_a_whole() -> None:
    tokens = Tensor("tokens", (10,))

    def energy(vocabulary: int) -> float:
        op = Operator("words", "embedding", ("tokens",), Tensor("y", (10, 64)), weight_words=vocabulary)
        (cost,) = host_costs(of(op, tokens), ACCELERATOR)
        return cost.cost.fixed_pj

    assert energy(10**6) == energy(10**4)


def test_reductions_work_on_what_they_read() -> None:
    big, small = Tensor("x", (1, 64, 56, 56)), Tensor("x", (1, 64, 1, 1))
    pooled = Tensor("y", (1, 64, 1, 1))
    (many,) = host_costs(of(Operator("op", "avgpool", ("x",), pooled), big), ACCELERATOR)
    (few,) = host_costs(of(Operator("op", "avgpool", ("x",), pooled), small), ACCELERATOR)
    assert many.cost.cycles > 30 * few.cost.cycles


def test_an_unknown_kind_is_never_free() -> None:
    x = Tensor("x", (8, 8))
    (cost,) = host_costs(of(Operator("op", "sparkle", ("x",), Tensor("y", (8, 8))), x), ACCELERATOR)
    (softmax,) = host_costs(of(Operator("op", "softmax", ("x",), Tensor("y", (8, 8))), x), ACCELERATOR)
    assert cost.cost.cycles >= softmax.cost.cycles
    assert function_of("sparkle") == function_of("softmax")


def test_networks_charge_what_neither_runs_on_the_array_nor_is_fused() -> None:
    build = GraphBuilder("net")
    x = build.input("x", (1, 16, 8, 8))
    y = build.relu(build.conv2d(x, 16, 3, padding=1))
    build.softmax(build.linear(build.reshape(y, (1, 1024)), 10))
    network = build.build()
    assert [c.function for c in host_costs(network, ACCELERATOR)] == ["softmax"]
    for name in ("resnet50", "bert_base"):
        costs = host_costs(load_network(name), ACCELERATOR)
        assert [c.operator for c in costs] == [op.name for op in load_network(name).host_operators]
    bert, resnet = (
        sum(one.cost.cycles for one in host_costs(load_network(name), ACCELERATOR))
        for name in ("bert_base", "resnet50")
    )
    assert bert > 100 * resnet > 0
