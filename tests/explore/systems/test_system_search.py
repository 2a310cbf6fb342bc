"""Search over systems: what it may choose, against all systems of a small space priced whole, and after an interruption."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

import baco
from baco.accel.presets import load_system
from baco.accel.system import System
from baco.common.errors import InfeasibleError
from baco.compiler.network.quantise import sketch
from baco.exploration.executors.executor_choice import HERE
from baco.exploration.front import nondominated
from baco.exploration.space import DesignSpace, load_space
from baco.exploration.systems.mix import Demand, mix
from baco.exploration.systems.planner import rule_plans
from baco.exploration.systems.system_plan import Objective, goal_of
from baco.exploration.systems.system_search import PriceUnit, SearchRecords, SystemSearch
from baco.exploration.systems.system_space import SystemPoint, SystemSpace, UnitPoint
from baco.exploration.systems.task_graph import TaskGraph
from baco.exploration.systems.timetable import replay
from baco.exploration.systems.unit_profile import profile
from tests.compiler.network import net_quant_networks as small

NETWORKS = [sketch(small.convolutions()), sketch(small.normalised())]
DEMANDS = [Demand(runs=2), Demand()]


def tiny_space(limit_mm2: float) -> DesignSpace:
    """Sides of 4 and 8."""
    space = load_space("gemmini").constrain("test", area_mm2=limit_mm2)
    return dataclasses.replace(
        space, dim=(4, 8), scratchpad_kib=(16,), accumulator_kib=(8,), search_units=False
    )


def all_points(systems: SystemSpace) -> list[SystemPoint]:
    """Every system of two units at most and a host at most, by products and the sum of areas alone."""
    space = systems.space
    kinds = [
        UnitPoint(0, dim, 8, scratchpad, 0)
        for dim, scratchpad in itertools.product(space.dim, space.scratchpad_kib)
        if space.legal(dim, 8, scratchpad)
    ]
    found = []
    for count, hosts in itertools.product((1, 2), (0, 1)):
        for own in itertools.combinations_with_replacement(
            sorted(kinds, key=lambda one: (-one.dim, one)), count
        ):
            system = systems.system(SystemPoint((), own, hosts))
            if system.area_mm2 + system.cores_mm2 <= systems.limit_mm2:
                found.append(SystemPoint((), own, hosts))
    return found


def worth(graph: TaskGraph, objective: Objective) -> float:
    """Planned by the same rules."""
    goal = goal_of(objective, graph)
    planned = [replay(graph, one) for one in rule_plans(graph, goal).values()]
    best = min(planned, key=lambda one: one.value(graph, goal))
    return {"makespan": best.makespan, "edp": best.makespan * best.energy(graph)}[objective]


def test_the_best_of_a_small_space_is_found_and_worth_what_it_takes_alone() -> None:
    systems = SystemSpace(tiny_space(60.0), most_units=2, most_hosts=1)
    # every system's networks lowered and priced for it alone
    graphs = {
        point: mix([profile(network, own) for network in NETWORKS], DEMANDS, own).graph
        for point in all_points(systems)
        for own in [systems.system(point)]
    }
    objectives: tuple[Objective, ...] = ("makespan", "edp")
    for objective in objectives:
        values = {point: worth(graph, objective) for point, graph in graphs.items()}
        with HERE.executor() as executor:
            search = SystemSearch(NETWORKS, DEMANDS, systems, objective=objective, executor=executor)
            found = search.run(1000, seconds=0.1)
        looked_at = {sample.point: sample.value for sample in found.samples}
        assert set(looked_at) == set(graphs)  # 1,000 are asked for, and no more are there
        for point, value in looked_at.items():
            assert value is not None
            assert value.score(objective)[1] == pytest.approx(values[point], rel=1e-12)
        assert found.best[0][0] in sorted(graphs, key=lambda point: values[point])[:3]
        assert found.best[0][1].worth <= min(values.values()) * (1 + 1e-9)
        rows = [
            (value.area, value.makespan, value.energy) for value in looked_at.values() if value is not None
        ]
        assert {sample.point for sample in found.front} == {
            list(looked_at)[at] for at in nondominated(np.array(rows))
        }


def test_every_change_fits_and_moves_reach_all_numbers_of_units() -> None:
    space = dataclasses.replace(load_space("gemmini"), dataflows=("WS", "OS")).constrain(
        "test", area_mm2=70.0
    )
    systems, rng = SystemSpace(space, most_units=4, most_hosts=1), np.random.default_rng(1)
    point, seen = systems.draw(rng), set()
    for _ in range(400):
        point = systems.changed(point, systems.draw(rng), rng)
        system = systems.system(point)
        assert system.area_mm2 + system.cores_mm2 == pytest.approx(systems.area_mm2(point))
        assert systems.area_mm2(point) <= 70.0
        seen.add((len(point.accelerators), point.hosts))
        for one in system.accelerators:
            assert space.rules == "gemmini"
            assert space.legal(one.dim, one.accumulator_kib, one.scratchpad_kib)
    assert {count for count, _ in seen} == {1, 2, 3, 4}
    assert {hosts for _, hosts in seen} == {0, 1}
    assert {systems.space.dataflows[0], "OS", "both"} >= {one.dataflow for one in system.accelerators}


def test_a_system_as_large_as_the_limit_fits() -> None:
    """The area of one 32 x 32 with its core is that of one 32 x 32 with its core, whoever adds it up."""
    space, point = load_space("gemmini"), SystemPoint((), (UnitPoint(0, 32, 64, 256, 0),), 0)
    own = System.single(space.accelerator(32, 64, 256))
    limit = own.area_mm2 + own.cores_mm2
    assert SystemSpace(space.constrain("test", area_mm2=limit)).fits(point)
    assert not SystemSpace(space.constrain("test", area_mm2=0.999 * limit)).fits(point)


def test_nothing_fits() -> None:
    with pytest.raises(
        InfeasibleError, match="no accelerator of the space 'gemmini' with its core fits 8 mm²"
    ):
        SystemSpace(load_space("gemmini").constrain("test", area_mm2=8.0))


def test_an_accelerator_is_priced_once_and_a_search_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systems = SystemSpace(tiny_space(60.0), most_units=2, most_hosts=1)
    priced: list[str] = []
    run = PriceUnit.run
    monkeypatch.setattr(PriceUnit, "run", lambda task: (priced.append(task.key), run(task))[1])

    def search(count: int, file: str, *, stop_after: int = 10**9) -> list[SystemPoint]:
        with SearchRecords(tmp_path / file) as records, HERE.executor() as executor:
            made = SystemSearch(NETWORKS, DEMANDS, systems, seed=3, executor=executor, records=records)
            found = made.run(count, seconds=0.1, stopped=lambda: len(made.samples) >= stop_after)
        assert found.ended == ("interrupted" if stop_after < count else "done")
        return [one.point for one in found.samples]

    whole = search(9, "whole.db")
    assert len(priced) == len(set(priced)) <= 2 * (2 + 1)  # two networks on two arrays and a core
    first = search(9, "parts.db", stop_after=8)
    assert first == whole[: len(first)]
    assert len(set(priced)) < len(priced) <= 2 * len(set(priced))  # by another file
    before = len(priced)
    assert search(9, "parts.db") == whole
    assert search(9, "parts.db") == whole
    assert len(priced) == before  # eight systems had all units


@pytest.mark.timeout(600)
def test_from_python_the_best_system_is_planned_by_its_file(tmp_path: Path) -> None:
    made = baco.search_systems(
        ["deepbench_ocr"],
        tiny_space(60.0),
        samples=6,
        seconds=0.1,
        most_units=2,
        out=tmp_path,
        progress=False,
    )
    made.write(tmp_path)
    system = load_system(tmp_path / "best" / "system.yaml")
    assert system.config_hash == made.system.config_hash
    assert made.area_mm2 <= 60.0
    assert made.front["best"].sum() <= 1
    assert (made.front["area_mm2"].diff().dropna() >= 0).all()
    again = baco.plan(["deepbench_ocr"], [str(tmp_path / "best" / "system.yaml")], seconds=0.1)
    assert math.isclose(again.makespan_ms, made.best.makespan_ms)
    ran = made.replay("functional")
    assert ran.best.measured is not None
    assert not ran.best.measured.wrong
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert "Systems that no other one beats" in page
