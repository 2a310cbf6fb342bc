"""Whole programs of designs against the default machine: what is measured, kept, and shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import baco
from baco.main import run
from baco.program_gains import ProgramCost, _cost, program_gains_table
from common.errors import BacoError


def test_a_program_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.GELU(), torch.nn.Linear(30, 20))
    program = baco.compile(baco.network(model, torch.zeros(10, 40)))
    lines: list[str] = []
    first = _cost(program, "default", tmp_path, lines.append)
    found = program.run("rtl")
    assert (first.cycles, first.energy_uj) == (found.cycles, found.energy_uj)
    assert first.edp == first.cycles * first.energy_uj
    assert 0 < first.host_cycles < first.cycles, "the activation is the host's"
    assert lines[0].startswith("Sequential, default: ")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it was measured before")

    monkeypatch.setattr(baco.Compiled, "run", refuse)
    assert _cost(program, "default", tmp_path, lines.append) == first


def test_a_wrong_result_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = baco.compile(baco.network(torch.nn.Linear(8, 8), torch.zeros(4, 8)))
    good = program.run("rtl")
    monkeypatch.setattr(baco.Compiled, "run", lambda *_: baco.Run(**{**vars(good), "wrong": ("y[0] is 3",)}))
    with pytest.raises(BacoError, match=r"wrong: y\[0\] is 3"):
        _cost(program, "default", tmp_path, lambda _: None)
    assert not list(tmp_path.iterdir())


def test_the_table_has_medians_and_ranges() -> None:
    default = ProgramCost(4_000_000, 500_000, 4e6, 1000.0)
    best = [ProgramCost(cycles, 500_000, 1.1 * cycles, 500.0) for cycles in (1_000_000, 2_000_000, 4_000_000)]
    row = {
        "network": "small",
        "samples": 2000,
        "default": vars(default),
        "mappings": vars(default),
        "best": [vars(one) for one in best],
        "gain_mappings": 1.0,
        "gain_best": [default.edp / one.edp for one in best],
    }
    text = program_gains_table([row])
    assert (
        "| small | 4.00 M | 0.50 M | 4.00 M | 2.00 M | 1.00 | 0.50 | 1.00× | 4.00× | 2.00 to 8.00 | 1.100 to 1.100 |"
        in text
    )
    assert "3 seeds, 2,000 samples each" in text


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_benchmark_of_a_network(tmp_path: Path) -> None:
    arguments = [
        "bench",
        "programs",
        "-n",
        "deepbench_face",
        "--seeds",
        "1",
        "--samples",
        "200",
        "--out",
        str(tmp_path),
    ]
    assert run("baco", arguments) == 0
    (row,) = json.loads((tmp_path / "whole-programs.json").read_text(encoding="utf-8"))
    assert row["gain_best"][0] > 3
    assert row["gain_mappings"] > 1.2
    kept = (tmp_path / "runs.json").read_bytes()
    assert run("baco", arguments) == 0
    assert (tmp_path / "runs.json").read_bytes() == kept
