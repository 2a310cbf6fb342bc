"""The compiler's choice against default tilings on the RTL (`baco bench defaults`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from baco.bench import tilings
from baco.bench.paper.shapes import read_shapes
from baco.bench.programs import defaults


def test_operators_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store.sqlite"
    result = defaults.run(kinds=("GEMV", "GEMM"), limit=400, timed=600, every=40, out=tmp_path, store=store)
    assert result.total == {"GEMV": 174, "GEMM": 170}
    counts = {kind: sum(one.kind == kind for one in result.operators) for kind in ("GEMV", "GEMM")}
    assert min(counts.values()) > 0
    known = {str(one.problem): one for one in read_shapes()}
    for one in result.operators:
        problem = known[one.problem]
        assert problem.table
        assert one.choice.measured >= one.bound
        assert one.gain == one.default.measured / one.choice.measured
        assert one.gain > 0.99
        assert one.default.measured <= one.library.measured
    page = (tmp_path / "defaults.md").read_text()
    timed = {one.problem for one in result.operators if one.engine == "timed"}
    assert timed == {one.problem for one in result.operators if one.choice.predicted > 400}
    assert f"| {sum(one.problem in timed for one in result.operators if one.kind == 'GEMV')} | 174 |" in page
    assert len(json.loads((tmp_path / "defaults.json").read_text())["operators"]) == sum(counts.values())

    def none(*_: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(tilings, "measure_layer", none)
    again = defaults.run(kinds=("GEMV", "GEMM"), limit=400, timed=600, every=40, out=tmp_path, store=store)
    assert again.operators == result.operators
