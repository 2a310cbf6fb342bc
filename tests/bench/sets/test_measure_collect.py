"""Collecting a set: a file that grows, what is finished is kept, failures are rows; the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import baco.bench.sets.collect as collecting
from baco.bench.sets.dataset import read_dataset
from baco.bench.sets.sets import Sample
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.text import parse_mapping_text
from baco.compiler.schedules.schedule import ExplicitSchedule
from baco.exploration.executors.executor_choice import ExecutorChoice
from baco.main import run
from baco.workloads.problem import Problem
from tests.machines import SMALL


def rows(name: str, count: int | None = None) -> Iterator[Sample]:
    """A set of three products; the second does not fit."""
    for index, pixels in enumerate((2, 9999, 3)[:count]):
        mapping = parse_mapping_text(
            f"L3[WIO] N1 - L2[WI] N1 K4X - L1[O] N1 C4X - L0[W] P{pixels} buffers 1,1,1"
        )
        layer = Layer(Problem(P=pixels, C=4, K=4))
        yield Sample(index, SMALL, layer, mapping, ExplicitSchedule(mapping), f"pixels {pixels}")


@pytest.fixture(autouse=True)
def small_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "samples", rows)
    monkeypatch.setattr(collecting, "accelerators_of", lambda name: {"small": SMALL})
    monkeypatch.setattr(collecting, "_WRITE_EVERY", 1)


def test_a_set_is_collected_and_taken_up_again(tmp_path: Path) -> None:
    lines: list[str] = []
    store = tmp_path / "store"
    first = collecting.collect("micro", rows=2, out=tmp_path / "out", store=store, say=lines.append)
    assert [one.status for one in first] == ["measured", "infeasible"]
    assert lines[0].startswith("1 of 2: small P2 C4 K4 scale 1.0 [explicit] measured, ")
    assert any("infeasible, the mapping's tiles" in line for line in lines)
    path = tmp_path / "out" / "micro.csv.gz"
    found = read_dataset(path)
    assert (found.rows, found.unmeasured) == ((first[0],), (first[1],))
    assert found.configurations == {"small": SMALL}
    # the rest; what is there is the same object of the store, its time of measuring included
    before = read_dataset(path).rows[0]
    everything = collecting.collect(
        "micro", out=tmp_path / "out", store=store, engine=ExecutorChoice(workers=2)
    )
    assert len(everything) == 3
    assert everything[:2] == first
    assert read_dataset(path).rows[0] == before
    assert read_dataset(path).cycles[1] >= read_dataset(path).cycles[0] > 0


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", "measurements", "--set", "train", "--rows", "1", "--json"]
    assert run("baco", [*arguments, "--out", str(tmp_path), "--store", str(tmp_path / "store")]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"rows": 1, "measured": 1}
    assert "1 of 1: small P2 C4 K4" in captured.err
    assert len(read_dataset(tmp_path / "train.csv.gz")) == 1


def test_the_command_with_a_set_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("baco", ["bench", "measurements", "--set", "tset"]) == 2
    assert "did you mean 'test'" in capsys.readouterr().err
