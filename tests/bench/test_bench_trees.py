"""The benchmark of fused dataflows by analysis."""

import json
from pathlib import Path

import pytest

from baco.bench.trees import TREE_CHAINS, page
from baco.compiler.mapping.chains import parse_chain
from baco.exploration.samplers import tree_structures as compare
from baco.main import run


def test_every_chain_is_one() -> None:
    for text in TREE_CHAINS.values():
        assert len(parse_chain(text)) in (2, 3)


def test_the_page_has_medians_ranges_and_means() -> None:
    def flows(searched: list[float]) -> dict[str, object]:
        return {
            "layerwise": {"cycles": [100.0, 100.0, 100.0], "dram_words": [80.0, 80.0, 80.0]},
            "uni-pipe": {"cycles": [None, None, None], "dram_words": [None, None, None]},
            "searched": {"cycles": searched, "dram_words": [20.0, 20.0, 40.0]},
        }

    rows = [
        {"machine": "edge", "chain": "A", "dataflows": flows([25.0, 50.0, 40.0]), "tree": ""},
        {"machine": "edge", "chain": "B", "dataflows": flows([10.0, 10.0, 10.0]), "tree": ""},
    ]
    text = page(rows)
    assert "| A | 1.00 | – | 2.50 (2.00 to 4.00) | 25.0% |" in text
    assert "| B | 1.00 | – | 10.00 (10.00 to 10.00) | 25.0% |" in text
    assert "| geometric mean | 1.00 | – | 5.00 |  |" in text


def test_the_command_and_a_chain_on_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_TRIALS", "_SHARE"):
        monkeypatch.setattr(compare, name, 8)
    chain = "attention:heads=2,seq=32,dim=8"
    arguments = ["bench", "trees", "--chain", chain, "--rounds", "1", "--seeds", "1", "--out", str(tmp_path)]
    assert run("baco", arguments) == 0
    rows = json.loads((tmp_path / "trees.json").read_text(encoding="utf-8"))
    assert [row["machine"] for row in rows] == ["edge", "cloud"]
    for row in rows:
        cycles = {name: one["cycles"][0] for name, one in row["dataflows"].items()}
        assert cycles["searched"] <= min(one for one in cycles.values() if one is not None)
