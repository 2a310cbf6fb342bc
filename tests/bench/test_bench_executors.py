"""Executors judged: kills lose nothing, the page says what was measured."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

import baco.bench.executors as bench
from baco.bench.executors import STAGES, many_workers, same_searches, short_tasks
from baco.bench.kills import KillResult, kill_runs
from baco.common.errors import InputError
from baco.exploration.executors.executor_choice import ExecutorChoice

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


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("executor", ["local", pytest.param("ray", marks=needs_ray)])
def test_many_kills_lose_nothing(tmp_path: Path, executor: str) -> None:
    check(kill_runs(tmp_path, executor, 50, seed=2), 50)


@pytest.mark.slow
def test_what_is_measured_is_on_the_page_and_stages_keep_what_others_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "_RECORDED", 200)
    monkeypatch.setattr(bench, "_RECORDED_NETWORK", "deepbench_face")
    monkeypatch.setattr(bench, "_LONG_TASKS_A_WORKER", 1)
    monkeypatch.setattr(bench, "_SAMPLES", 10)
    monkeypatch.setattr(bench, "_SEARCHES", 2)
    lines: list[str] = []
    first = bench.run(tmp_path, ["local"], ["short"], tasks=50, say=lines.append)
    assert set(first) == {"short"}
    others = [stage for stage in STAGES if stage != "short"]
    found = bench.run(tmp_path, ["local"], others, kills=0, many=2, say=lines.append)
    assert found == json.loads((tmp_path / "executors.json").read_text("utf-8"))
    assert found["short"] == first["short"]
    short = found["short"]["local"]
    assert 0 < short["nominal_share"] <= short["share"] <= 1
    assert found["searches"]["local"]["same"] == {"1": True, "2": True}
    assert 0 < found["many"]["local"]["of_ideal"] <= 1
    assert found["recorded"]["study"]["a_second"] > 0
    page = (tmp_path / "executors.md").read_text(encoding="utf-8")
    assert f"| local | 50 | 2 | {short['seconds']:.1f} | {short['share']:.1%} |" in page
    assert "| local | 2 | yes | yes |" in page
    assert len(lines) == len(STAGES)
    with pytest.raises(InputError, match="no stage 'shrot'"):
        bench.run(tmp_path, ["local"], ["shrot"])


def test_kills_go_on_where_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def kill(folder: Path, executor: str, kills: int, *, seed: int, note: object) -> KillResult:
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.append((kills, seed))
        return KillResult(executor, kills // 2, kills - kills // 2, 3 * kills, 0, 0, seed // 10, True, 1.0)

    monkeypatch.setattr(bench, "kill_runs", kill)
    with pytest.raises(KeyboardInterrupt):
        bench.run(tmp_path, ["local"], ["kills"], kills=25)
    assert asked == [(10, 0), (10, 10)]
    asked.clear()
    found = bench.run(tmp_path, ["local"], ["kills"], kills=25)["kills"]["local"]
    assert asked == [(5, 20)]
    assert (found["drivers"], found["workers"], found["measurements"]) == (12, 13, 75)
    assert (found["ended_twice"], found["same"], found["seconds"]) == (3, True, 3.0)
    assert bench.run(tmp_path, ["local"], ["kills"], kills=25)["kills"]["local"]["seconds"] == 3.0
    assert asked == [(5, 20)]


def test_other_results_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "executors.json").write_text('{"rows": []}', "utf-8")
    with pytest.raises(InputError, match="no results of executors"):
        bench.run(tmp_path, ["local"], ["short"], tasks=1)
    assert (tmp_path / "executors.json").read_text("utf-8") == '{"rows": []}'


@pytest.mark.slow
@needs_ray
@pytest.mark.timeout(1800)
def test_ray_finds_what_one_process_finds_and_runs_on_simulated_machines() -> None:
    assert same_searches("ray")["same"] == {"1": True, "2": True}
    assert short_tasks(ExecutorChoice("ray", 2), 200)["share"] > 0
    assert many_workers("ray", 8)["workers"] == 8
