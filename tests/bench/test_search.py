"""The benchmarks: what they report, that runs are kept, and that comparisons are computed as stated."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest

from baco.bench import model, search
from baco.bench.harness.experiment import geometric_mean, plain
from baco.bench.model import random_batch
from baco.bench.runs import RunKey, RunTask, SearchRun
from baco.bench.search import compare, log_points
from baco.common.errors import InputError
from baco.compiler.mapping.batch import AXES
from baco.exploration.executors.executor_choice import HERE, ExecutorChoice
from baco.workloads.inputs.load import load_network

LAYERS = """network,R,S,P,Q,C,K,N,stride_h,stride_w,dilation_h,dilation_w,count
tiny,3,3,8,8,16,32,1,1,1,1,1,2
tiny,1,1,64,1,64,32,1,1,1,1,1,1
"""


@pytest.fixture
def layers(tmp_path: Path) -> str:
    path = tmp_path / "layers.csv"
    path.write_text(LAYERS, encoding="utf-8")
    return f"{path}:tiny"


def run(searcher: str, seed: int, spent: int, *curve: tuple[int, float, float]) -> SearchRun:
    return SearchRun(RunKey("net", "gemmini", searcher, seed, 100), 2, spent, 2.0, curve)


def test_throughput_has_the_documented_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baco.bench.model._SIZES", {"cpu": (64, 256)})
    result = model.run(seconds=0.05, device="cpu", seed=1)
    for name in ("forward", "gradient"):
        assert 0 < result[f"{name}_median_per_s"] <= result[f"{name}_per_s"] < 1e12
    assert result["dtype"] == "float64"
    json.dumps(result, allow_nan=False)
    with pytest.raises(InputError, match="unknown device"):
        model.run(device="tpu")


def test_throughput_is_measured_on_valid_mappings_of_mixed_orders() -> None:
    problem, mapping = random_batch(500, 0)
    known = {
        tuple(p.bounds["RSPQCKN".index(axis)] for axis in AXES)
        for name in ("resnet50", "bert_base")
        for p in (task.problem for task in load_network(name).tasks)
    }
    product = mapping.temporal.prod(0)
    product[AXES.index("C")] *= mapping.rows
    product[AXES.index("K")] *= mapping.columns
    assert {tuple(map(int, bounds)) for bounds in product.T.tolist()} <= known
    assert (mapping.rank.sort(1).values == mapping.rank.new_tensor(range(7)).view(1, 7, 1)).all()
    assert len({tuple(order) for order in mapping.rank[2].T.tolist()}) > 200
    assert problem.stride_w.shape == (500,)


def test_comparisons() -> None:
    runs = [
        run("gradient", 0, 200, (10, 0.1, 8.0), (50, 0.5, 2.0)),
        run("gradient", 1, 200, (10, 0.1, 8.0), (100, 0.5, 2.0)),
        run("dosa", 0, 200, (20, 0.1, 16.0), (150, 0.5, 8.0)),
        run("dosa", 1, 160, (20, 0.1, 2.0)),
        run("random", 0, 200, (20, 0.1, 16.0)),
        run("random", 1, 200),
    ]
    result = compare(runs, "out")
    by = {c.searcher: c for c in result.comparisons}
    assert by["dosa"].edp == pytest.approx(4.0)
    assert by["dosa"].ratio == pytest.approx(2.0)
    # 8 is reached after 10 of 200 evaluations, 2 after 100 of 160.
    assert by["dosa"].main_evaluations == pytest.approx(math.sqrt(10 / 200 * 100 / 160))
    assert by["random"].edp is None
    assert by["random"].ratio is None
    assert by["random"].main_evaluations is None
    assert result.mean_ratio["gemmini"]["dosa"] == pytest.approx(2.0)
    assert result.mean_ratio["gemmini"]["random"] is None
    assert "| ratio to gradient | 1.00 | 2.00 | - |" in search.page(result)
    json.dumps(plain(result), allow_nan=False)


def test_small_helpers() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([2.0, None]) is None
    assert geometric_mean([]) is None
    points = log_points(1, 5000)
    assert (points[0], points[-1]) == (1, 5000)
    assert points == sorted(points)
    assert log_points(3, 3) == [3]
    one = run("dosa", 0, 200, (20, 0.1, 16.0), (150, 0.5, 8.0))
    assert [one.best_at(n) for n in (19, 20, 149, 150, 999)] == [None, 16, 16, 8, 8]
    assert [one.best_after(s) for s in (0.05, 0.2, 1)] == [None, 16, 8]
    assert [one.evaluations_to(e) for e in (20, 16, 8, 7)] == [20, 20, 150, None]


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_finished_runs_are_kept(
    layers: str, tmp_path: Path, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, lines = tmp_path / "bench", []
    options = {
        "networks": [layers],
        "spaces": ["gemmini"],
        "samples": 20,
        "out": out,
        "engine": ExecutorChoice(workers=jobs) if jobs > 1 else HERE,
    }
    searchers = ["gradient", "random", "two-loop"]
    first = search.run(searchers=searchers, seeds=2, say=lines.append, **options)  # type: ignore[arg-type]
    assert len(lines) == 6
    assert len(list((out / "runs").glob("*.json"))) == 6
    for comparison in first.comparisons:
        assert comparison.edp is not None
        assert comparison.edp > 0
    curves = list(csv.DictReader((out / "curves.csv").open(encoding="utf-8")))
    for searcher in searchers:
        for seed in "01":
            own = [
                float(row["edp_uj_cycles"])
                for row in curves
                if (row["searcher"], row["seed"], row["axis"]) == (searcher, seed, "samples")
            ]
            assert own == sorted(own, reverse=True)
    assert json.loads((out / "search.json").read_text(encoding="utf-8")) == plain(first)
    assert (out / "search.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (out / "search.svg").read_bytes()

    # Kept runs are not repeated; what is missing is run.
    ran: list[str] = []
    make = RunTask.run.__globals__["make_searcher"]
    monkeypatch.setitem(RunTask.run.__globals__, "make_searcher", lambda *a: ran.append(a[0]) or make(*a))
    next((out / "runs").glob("*two-loop_1_*")).unlink()
    second = search.run(searchers=searchers, seeds=2, **{**options, "engine": HERE})  # type: ignore[arg-type]
    assert ran == ["two-loop"]
    assert [c.edp for c in second.comparisons] == [c.edp for c in first.comparisons]
    # Another budget is another run.
    search.run(searchers=["random"], seeds=1, **{**options, "engine": HERE, "samples": 21})  # type: ignore[arg-type]
    assert ran == ["two-loop", "random"]


def test_bad_names_are_refused_before_anything_runs(layers: str, tmp_path: Path) -> None:
    out = tmp_path / "bench"
    for wrong in ({"searchers": ["dosas"]}, {"networks": ["resnet51"]}, {"spaces": ["gemini"]}):
        options = {"networks": [layers], "spaces": ["gemmini"], "searchers": ["random"], **wrong}
        with pytest.raises(InputError, match="unknown"):
            search.run(samples=5, seeds=1, out=out, **options)  # type: ignore[arg-type]
    assert not out.exists()


def test_a_damaged_run_is_named(layers: str, tmp_path: Path) -> None:
    options = {
        "networks": [layers],
        "spaces": ["gemmini"],
        "searchers": ["random"],
        "seeds": 1,
        "samples": 5,
    }
    search.run(out=tmp_path / "bench", **options)  # type: ignore[arg-type]
    (path,) = (tmp_path / "bench" / "runs").glob("*.json")
    path.write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="not a finished run") as caught:
        search.run(out=tmp_path / "bench", **options)  # type: ignore[arg-type]
    assert caught.value.location is not None
    assert caught.value.location.file == str(path)
