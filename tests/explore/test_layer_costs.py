"""Costs of single layers, against the method's section 3 worked out by hand."""

import pytest

from accel.presets import load_accelerator
from compiler.mapping_text import parse_mapping
from explore.cost.layers import layer_costs
from workloads.problem import Problem


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
