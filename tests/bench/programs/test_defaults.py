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
    counts = {kind: sum(operator.kind == kind for operator in result.operators) for kind in ("GEMV", "GEMM")}
    assert min(counts.values()) > 0
    known = {str(shape.problem): shape for shape in read_shapes()}
    for operator in result.operators:
        problem = known[operator.problem]
        assert problem.table
        assert operator.choice.measured >= operator.bound
        assert operator.gain == operator.default.measured / operator.choice.measured
        assert operator.gain > 0.99
        assert operator.default.measured <= operator.library.measured
    page = (tmp_path / "defaults.md").read_text()
    timed = {operator.problem for operator in result.operators if operator.engine == "timed"}
    assert timed == {operator.problem for operator in result.operators if operator.choice.predicted > 400}
    assert (
        f"| {sum(operator.problem in timed for operator in result.operators if operator.kind == 'GEMV')} | 174 |"
        in page
    )
    assert len(json.loads((tmp_path / "defaults.json").read_text())["operators"]) == sum(counts.values())

    def none(*_: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(tilings, "measure_layer", none)
    again = defaults.run(kinds=("GEMV", "GEMM"), limit=400, timed=600, every=40, out=tmp_path, store=store)
    assert again.operators == result.operators
