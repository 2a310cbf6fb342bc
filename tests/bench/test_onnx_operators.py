"""The documentation's table of ONNX operators is what the rules say."""

from __future__ import annotations

from pathlib import Path

import onnx.defs

from baco.bench.onnx_operators import operator_names, operators_page
from baco.workloads.onnx.expansions import EXPANSIONS

#: Attributes that no rule reads, which are refused by name unless they have their defaults.
LEFT = {
    "LSTM": {"input_forget"},
    "Optional": {"type"},
    "ReduceProd": {"noop_with_empty_axes"},
}
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
    cells = {name: [cell.strip() for cell in row.split(" | ")] for name, row in rows.items()}
    assert (
        cells["Selu"][2] == "`alpha`, `gamma` (`consumed_inputs`)" or cells["Selu"][2] == "`alpha`, `gamma`"
    )
    assert cells["BatchNormalization"][2] == "`epsilon`, `momentum`, `training_mode` (`is_test`)"
    assert cells["MaxPool"][2].startswith(
        "`auto_pad`, `ceil_mode`, `dilations`, `kernel_shape`, `pads`, `storage_order`"
    )
    assert cells["TopK"][3] == "all"
    assert cells["DFT"][2] == "`axis`, `inverse`, `onesided`"


def test_every_attribute_of_an_operator_that_runs_is_read_or_named():
    """What the page says is read is what rules ask for: the attributes of the newest definition that it leaves out are few."""
    rows = {line.split("`")[1]: line for line in operators_page().splitlines() if line.startswith("| `")}
    left = {}
    for name, row in rows.items():
        if onnx.defs.has(name) and "explored only" not in row:
            missing = {
                one for one in onnx.defs.get_schema(name).attributes if f"`{one}`" not in row.split(" | ")[2]
            }
            if missing:
                left[name] = missing
    assert left == LEFT
