"""Executors judged: kills lose nothing, the page says what was measured."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import bench.executors as bench
from bench.executors import bench_executors, many_workers, same_searches, short_tasks
from bench.kills import KillResult, kill_runs
from explore.executors.engine import ExecutorChoice

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed (pip install 'baco[ray]')"
)


def check(found: KillResult, kills: int) -> None:
    assert found.drivers + found.workers == kills
    assert min(found.drivers, found.workers) > 0.2 * kills
    assert (found.lost, found.repeated) == (0, 0)
    # a kill may come between the end of a measurement and its record
    assert found.ended_twice <= 0.1 * kills
    assert found.same


def test_a_few_kills_lose_nothing(tmp_path: Path) -> None:
    check(kill_runs(tmp_path, "local", 4, seed=1), 4)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("executor", ["local", pytest.param("ray", marks=needs_ray)])
def test_many_kills_lose_nothing(tmp_path: Path, executor: str) -> None:
    check(kill_runs(tmp_path, executor, 50, seed=2), 50)


def test_what_is_measured_is_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_RECORDED", 200)
    monkeypatch.setattr(bench, "_LONG_TASKS_A_WORKER", 1)
    monkeypatch.setattr(bench, "_SAMPLES", 10)
    lines: list[str] = []
    found = bench_executors(tmp_path, ["local"], tasks=50, kills=0, many=2, note=lines.append)
    (row,) = found["executors"]
    assert row["same_searches"] is True
    assert 0 < row["short"]["nominal_share"] <= row["short"]["share"] <= 1
    assert 0 < row["many"]["of_ideal"] <= 1
    assert found["recorded"]["a_second"] > 0
    page = (tmp_path / "executors.md").read_text(encoding="utf-8")
    assert f"| local | 50 | {row['short']['share']:.1%} |" in page
    assert len(lines) == 4


@pytest.mark.slow
@needs_ray
@pytest.mark.timeout(1800)
def test_ray_finds_what_one_process_finds_and_runs_on_simulated_machines() -> None:
    assert same_searches(ExecutorChoice("ray", 2))
    assert short_tasks(ExecutorChoice("ray", 2), 200)["share"] > 0
    assert many_workers("ray", 8)["workers"] == 8
