"""Cycles where main memory outruns the memory port, of one layer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from baco.bench.port import LAYERS, page, run


def test_a_layer_that_stores_takes_the_ports_cycles_with_the_fast_memory(tmp_path: Path) -> None:
    rows = run(["stores"], out=tmp_path)
    results = LAYERS["stores"].problem.output_words
    assert len({row["schedule"] for row in rows}) == len(rows) > 1
    for row in rows:
        slow, fast = row["slow"], row["fast"]
        assert fast["bytes"] > 16 > slow["bytes"]
        assert results / slow["bytes"] < slow["measured"]
        assert results / 16 < fast["measured"] < slow["measured"]
        assert fast["predicted"] == pytest.approx(fast["measured"], rel=0.25)
    assert (tmp_path / "port.md").read_text("utf-8") == page(rows)
    assert json.loads((tmp_path / "port.json").read_text("utf-8")) == rows


def test_the_page_that_is_kept_is_of_the_rows_that_are_kept() -> None:
    results = Path(__file__).resolve().parents[2] / "results"
    rows = json.loads((results / "port.json").read_text("utf-8"))
    assert page(rows) == (results / "port.md").read_text("utf-8")
    assert {row["layer"] for row in rows} == set(LAYERS)
