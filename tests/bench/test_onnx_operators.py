"""The documentation's table of ONNX operators is what the rules say."""

from __future__ import annotations

from pathlib import Path

from baco.bench.onnx_operators import operator_names, operators_page
from baco.workloads.onnx.expansions import EXPANSIONS

PAGE = Path(__file__).parents[2] / "docs" / "onnx-operators.md"


def test_the_table_is_up_to_date():
    assert PAGE.read_text() == operators_page()


def test_every_rule_stands_in_the_table():
    text = operators_page()
    assert set(EXPANSIONS) <= set(operator_names())
    assert all(f"| `{name}` |" in text for name in EXPANSIONS)
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    assert "computed pads" in rows["Pad"]
    assert "computed grid" in rows["GridSample"]
    assert "explored only" in rows["BitShift"]
    assert "a rule of its own" in rows["TopK"]
    assert "function that defines it" in rows["Attention"]
