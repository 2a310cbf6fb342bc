"""Chains of two operators on the RTL: one unit against one by one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from baco.bench.chains import CONVOLUTION_CHAINS, PRODUCT_CHAINS, published_chain, run


def test_one_unit_is_as_fast_moves_what_must_move_and_as_much_as_predicted(tmp_path: Path) -> None:
    product, convolution = run(["G10", "C7"], out=tmp_path)
    batch, m, n, k, between = PRODUCT_CHAINS["G10"]
    ends = batch * (m * k + k * between + between * n + m * n)
    assert product["fused"]["bytes"] == [ends]  # the least there is: every operand and the result once
    assert product["fused"]["bytes"][0] < 0.4 * product["alone"]["bytes"][0]
    assert product["fused"]["cycles"][0] <= 1.01 * product["alone"]["cycles"][0]
    channels, height, width, one, two, *_ = CONVOLUTION_CHAINS["C7"]
    ends = height * width * (channels + two) + channels * one + one * two
    assert convolution["fused"]["bytes"] == [ends]
    assert convolution["fused"]["cycles"][0] <= 1.03 * convolution["alone"]["cycles"][0]
    for row in (product, convolution):
        assert row["predicted"]["bytes"] == pytest.approx(row["fused"]["bytes"][0], rel=0.02)
        assert row["predicted"]["cycles"] == pytest.approx(row["fused"]["cycles"][0], rel=0.05)
    assert json.loads((tmp_path / "chains.json").read_text()) == [product, convolution]
    assert "| G10 |" in (tmp_path / "chains.md").read_text()


@pytest.mark.slow
def test_a_chain_whose_weights_do_not_fit_has_them_come_again(tmp_path: Path) -> None:
    (row,) = run(["C4"], accelerator="gemmini-default", out=tmp_path)
    assert row["schedule"].endswith("streaming 1")
    assert row["predicted"]["bytes"] == pytest.approx(row["fused"]["bytes"][0], rel=0.02)
    # that is more than one by one, where the image comes again instead: the compiler leaves them apart
    assert row["fused"]["bytes"][0] > row["alone"]["bytes"][0]
    assert row["reason"] == "one by one they take fewer cycles"


def test_chains_are_those_of_the_table() -> None:
    """Extents of the first results: 12 batched products, and convolutions padded to keep their size."""
    network = published_chain("G12")
    assert [tuple(one.output.shape) for one in network.operators] == [(1, 1024, 512), (1, 1024, 64)]
    network = published_chain("C5")
    assert [tuple(one.output.shape) for one in network.operators] == [(1, 64, 57, 57), (1, 16, 57, 57)]
