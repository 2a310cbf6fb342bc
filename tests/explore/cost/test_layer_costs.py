"""Costs of single layers, against the method's section 3 worked out by hand."""

import pytest

from baco.accel.presets import load_accelerator
from baco.compiler.mapping.nest import Mapping
from baco.compiler.mapping.text import parse_mapping
from baco.exploration.cost.layer_costs import even_tiles, layer_costs
from baco.workloads.problem import Problem


def test_a_layer_worked_out_by_hand() -> None:
    # P=16, C=8, K=8 on an 8x8 part of the array: 1,024 MACs, 64 weights, 128 inputs, 128 outputs
    mapping = parse_mapping("L3[WIO] P4 - L2[WI] N1 K8X - L1[O] N1 C8X - L0[W] P4")
    accelerator = load_accelerator("gemmini-default").replace(scratchpad_kib=64)
    (cost,) = layer_costs([Problem(P=16, C=8, K=8)], [mapping], accelerator)
    # weights once, inputs and outputs once a tile of 4 pixels; u = 1024 / 8 updates, all outputs' first
    a0, a1, a2, a3 = 1024 + 64, 128 + (128 - 128) + 128, 1024 / 8 + 128 + 64 + 64, 64 + 128 + 128
    assert cost.accesses == (a0, a1, a2, a3)
    assert cost.macs == 1024
    assert cost.latency_terms == (1024 / 64, a1 / 16, a2 / 32, a3 / 8)
    assert cost.latency_cycles == 40
    assert cost.bottleneck == "dram"
    terms = (
        0.5608 * 1024,
        0.48746 * a0,
        (1.94 + 0.1005 * 64 / 16) * a1,
        (0.49 + 0.02513 * 64) * a2,
        100 * a3,
    )
    assert cost.energy_terms_pj == pytest.approx(terms, rel=1e-12)
    assert cost.energy_pj == pytest.approx(sum(terms), rel=1e-12)


def test_order_and_the_empty_case() -> None:
    mapping = parse_mapping("L3[WIO] P4 - L2[WI] N1 K8X - L1[O] N1 C8X - L0[W] P4")
    accelerator = load_accelerator("gemmini-default")
    assert layer_costs([], [], accelerator) == []
    one = Problem(P=16, C=8, K=8)
    twice = layer_costs([one, Problem(P=16, C=8, K=8, groups=3)], [mapping, mapping], accelerator)
    assert twice[1].macs == 3 * twice[0].macs
    assert twice[1].energy_pj == pytest.approx(3 * twice[0].energy_pj)


def test_even_tiles_keep_their_number_and_lose_their_padding():
    """56 rows in tiles of 23 are three tiles; evenly, of 19."""
    problem = Problem(P=56, C=250, K=20)
    ones = dict.fromkeys("RSPQCKN", 1)
    temporal = tuple(
        tuple({**ones, **level}[name] for name in "RSPQCKN")
        for level in ({"P": 23}, {"C": 15, "K": 2}, {}, {"P": 3, "C": 2})
    )
    orders = ("RSPQCKN",) * 4
    mapping = Mapping("WS", rows=16, columns=16, temporal=temporal, order=orders, buffering=(2, 2, 2))
    even = even_tiles(mapping, problem)
    assert [even.factor("P", level) for level in range(4)] == [19, 1, 1, 3]
    assert [even.factor("C", level) for level in range(4)] == [1, 8, 1, 2]  # 250 = 2 x (8 x 16 - 3)
    assert (even.rows, even.columns, even.factor("K", 1)) == (16, 10, 2)
    assert dict(zip("RSPQCKN", even.padded_bounds, strict=True)) == {**ones, "P": 57, "C": 256, "K": 20}
    even.check(problem)
