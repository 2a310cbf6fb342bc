"""Chains of operators as programs of tile trees: predicted, compiled, and measured on the RTL, where every result is compared with
integers."""

from __future__ import annotations

import pytest

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.mapping.text import format_tree, parse_tree
from baco.exploration.measure.chain_trees import ONE_BY_ONE, ChainTrees, chain_rows, preferred
from tests.machines import SMALL, UNITS

ATTENTION = "attention:heads=2,seq=24,dim=16"
CONVOLUTIONS = "convolutions:channels=8,height=12,width=12,first=8,second=12"


@pytest.mark.parametrize(("chain", "accelerator"), [(ATTENTION, UNITS), (CONVOLUTIONS, SMALL)], ids=str)
def test_every_tree_is_compiled_and_right(chain: str, accelerator: Accelerator) -> None:
    trees = ChainTrees(chain, accelerator)
    alone, *units = trees.programs()
    assert (alone.name, alone.tree) == (ONE_BY_ONE, None)
    assert units
    for one in (alone, *units):
        measured = trees.measure(one)  # raises where a result is none of integers
        # of operators one by one, unused parts of bursts are predicted, too
        assert (
            measured.dram_bytes == one.dram_bytes if one.tree else measured.dram_bytes <= one.dram_bytes + 512
        )
        assert measured.cycles > 0
    assert min(one.dram_bytes for one in units) < alone.dram_bytes


def test_a_tree_of_the_user_is_compiled() -> None:
    trees = ChainTrees(ATTENTION, UNITS)
    tree = next(one.tree for one in trees.programs() if one.tree is not None)
    assert "P8 @first" in format_tree(tree)
    higher = format_tree(tree).replace("P8 @", "P12 @").replace(" P3 ", " P2 ")
    rows = chain_rows(trees, parse_tree(higher), measure=True)
    assert [row["program"] for row in rows] == [ONE_BY_ONE, trees.program_of(tree).name]
    assert (rows[1]["tree"], rows[1]["best"]) == (higher, True)
    assert rows[1]["schedules"][0].startswith("chain 12x24 ")
    assert rows[1]["error"] == rows[1]["cycles"] / rows[1]["measured_cycles"] - 1
    assert rows[0]["measured_cycles"] is None


def test_what_cannot_be_one_unit_says_why() -> None:
    trees = ChainTrees(ATTENTION, SMALL)
    assert [one.name for one in trees.programs()] == [ONE_BY_ONE]
    assert trees.reason == "small has no units for functions of rows"
    tree = next(one.tree for one in ChainTrees(ATTENTION, UNITS).programs() if one.tree is not None)
    with pytest.raises(InfeasibleError, match="no unit on small: small has no units for functions of rows"):
        trees.program_of(tree)


def test_of_programs_that_take_as_long_the_one_that_moves_less_is_best() -> None:
    assert preferred([(100.0, 50.0), (100.5, 20.0), (102.0, 5.0)]) == 1
    assert preferred([(100.0, 50.0), (103.0, 20.0)]) == 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["gemmini-default", "gemmini-transformer", "gemmini-lean"])
@pytest.mark.parametrize(
    "chain",
    [
        "attention:heads=12,seq=128,dim=64",
        "attention:heads=12,seq=256,dim=64",
        "convolutions:channels=32,height=28,width=28,first=64,second=32,window1=1,window2=3",
        "convolutions:channels=64,height=56,width=56,first=64,second=64,window1=1,window2=1",
        "convolutions:channels=32,height=147,width=147,first=64,second=80,stride1=2,window2=1",
    ],
)
def test_the_best_takes_as_long_as_predicted(chain: str, name: str) -> None:
    rows = chain_rows(ChainTrees(chain, load_accelerator(name)), measure=True)
    (best,) = (row for row in rows if row["best"])
    assert best["error"] == pytest.approx(0, abs=0.05)
    assert best["measured_dram_bytes"] == pytest.approx(best["dram_bytes"], rel=0.02)
