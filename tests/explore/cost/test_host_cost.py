"""Costs of host operators."""

from __future__ import annotations

import pytest

from baco.accel.presets import load_accelerator
from baco.exploration.cost.host import GENERIC, host_costs, recipe_of
from baco.workloads.builder import GraphBuilder
from baco.workloads.inputs.load import load_network
from baco.workloads.kinds import ADDRESSING_KINDS, FUSIBLE, HOST_KINDS
from baco.workloads.network import Network, Operator, Tensor

ACCELERATOR = load_accelerator("gemmini-default")


def of(op: Operator, *inputs: Tensor) -> Network:
    return Network("one", inputs, (op,))


@pytest.mark.parametrize("kind", sorted({*HOST_KINDS, *FUSIBLE, *ADDRESSING_KINDS}))
def test_every_kind_has_a_recipe_and_costs_something(kind: str) -> None:
    assert recipe_of(kind) is not GENERIC
    x = Tensor("x", (4, 32))
    (cost,) = host_costs(of(Operator("op", kind, ("x",), Tensor("y", (4, 32))), x), ACCELERATOR)
    assert cost.cost.cycles > 128
    assert cost.cost.energy_pj(ACCELERATOR) > 256 * ACCELERATOR.energy.dram_pj


def test_a_pointwise_function_by_hand() -> None:
    x = Tensor("x", (1000,))
    (cost,) = host_costs(of(Operator("op", "gelu", ("x",), Tensor("y", (1000,)), repeat=7), x), ACCELERATOR)
    # load, look-up of three cycles, store, half a cycle of loop; 2,000 bytes at 8 a cycle
    assert cost.cost.cycles == 7 * (1000 * (1 + 3 + 1 + 0.5) + 2000 / 8)
    # five and a half... load, store, two for the look-up, half for the loop: 25 pJ each
    assert cost.cost.energy_pj(ACCELERATOR) == pytest.approx(7 * (1000 * 4.5 * 25 + 2000 * 100))
    assert (cost.function, cost.runs, cost.on_accelerator) == ("gelu", 7, False)


def test_wider_elements_have_no_table_and_move_more() -> None:
    x, op = Tensor("x", (1000,)), Operator("op", "tanh", ("x",), Tensor("y", (1000,)))
    (narrow,) = host_costs(of(op, x), ACCELERATOR)
    (wide,) = host_costs(of(op, x), ACCELERATOR.replace(input_bits=16))
    assert wide.cost.cycles > 2 * narrow.cost.cycles


def test_rows_pay_for_their_divisions() -> None:
    def softmax(shape: tuple[int, ...]) -> float:
        op = Operator("op", "softmax", ("x",), Tensor("y", shape))
        (cost,) = host_costs(of(op, Tensor("x", shape)), ACCELERATOR)
        return cost.cost.cycles

    assert softmax((64, 4)) - softmax((16, 16)) == pytest.approx((64 - 16) * 40)


def test_a_table_is_not_read_as_a_whole() -> None:
    tokens = Tensor("tokens", (10,))
    op = Operator("words", "embedding", ("tokens",), Tensor("y", (10, 64)), weight_words=10**6)
    (cost,) = host_costs(of(op, tokens), ACCELERATOR)
    # an index and a word of its row are loaded and a word is stored: 25 pJ each, half an instruction of loop
    assert cost.cost.energy_pj(ACCELERATOR) == pytest.approx(640 * 2.5 * 25 + (10 + 640 + 640) * 100)


def test_reductions_work_on_what_they_read() -> None:
    big, small = Tensor("x", (1, 64, 7, 7)), Tensor("x", (1, 64, 1, 1))
    pooled = Tensor("y", (1, 64, 1, 1))
    (many,) = host_costs(of(Operator("op", "avgpool", ("x",), pooled), big), ACCELERATOR)
    (few,) = host_costs(of(Operator("op", "avgpool", ("x",), pooled), small), ACCELERATOR)
    assert many.cost.cycles > 30 * few.cost.cycles


def test_an_unknown_kind_is_generic_never_free() -> None:
    x = Tensor("x", (8, 8))
    (cost,) = host_costs(of(Operator("op", "sparkle", ("x",), Tensor("y", (8, 8))), x), ACCELERATOR)
    (softmax,) = host_costs(of(Operator("op", "softmax", ("x",), Tensor("y", (8, 8))), x), ACCELERATOR)
    assert cost.cost.cycles >= softmax.cost.cycles
    assert recipe_of("sparkle") is GENERIC


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
        assert all(recipe_of(c.function) is not GENERIC for c in costs)
    bert, resnet = (
        sum(one.cost.cycles for one in host_costs(load_network(name), ACCELERATOR))
        for name in ("bert_base", "resnet50")
    )
    assert bert > 100 * resnet > 0
