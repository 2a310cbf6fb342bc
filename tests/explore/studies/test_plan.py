"""Schedules of a network's layers on a design: searched mappings where they are best in the program."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from baco.common.errors import InfeasibleError
from baco.compiler.latency import schedule_cycles
from baco.compiler.layers.layer import Layer, Pooling
from baco.compiler.network.lowering import lower_network
from baco.compiler.network.quantise import sketch
from baco.compiler.styles.registry import realise
from baco.exploration.candidate import Candidate
from baco.exploration.cost.program import program_cost
from baco.exploration.objective import Objective
from baco.exploration.space import load_space
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.plan import SearchedSchedules
from baco.exploration.task_layers import LoweredTask, alike, layers_of_tasks
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload

EDP = Objective.parse("edp")
NETWORK = load_network("deepbench_face")
WORKLOAD = Workload.of([NETWORK], [1.0])


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> Candidate:
    space = dataclasses.replace(
        load_space("gemmini"), dim=(16,), scratchpad_kib=(64, 128, 256), accumulator_kib=(32, 64)
    )
    out = tmp_path_factory.mktemp("plan")
    return run_exploration(WORKLOAD, space, EDP, samples=300, out=out).best


def layers(design: Candidate) -> list[Layer]:
    return list(layers_of_tasks(design.tasks, WORKLOAD))


def test_alone_most_layers_are_as_the_search_mapped_them(design: Candidate) -> None:
    schedules = SearchedSchedules(design, EDP)
    for layer in layers(design):
        schedules(layer)
    assert schedules.searched + len(schedules.chosen) == len(design.tasks)
    assert schedules.searched > len(design.tasks) / 2
    assert f"{schedules.searched} different layers" in schedules.summary()


def test_the_first_order_objective_never_prefers_what_is_worse_in_both(design: Candidate) -> None:
    """By latency alone: no layer takes longer than as it was searched."""
    schedules = SearchedSchedules(design, Objective.parse("latency"))
    machine = design.accelerator
    for layer, mapping in zip(layers(design), design.mappings, strict=True):
        found, _ = schedules(layer)
        searched = realise(layer, mapping, machine)
        assert schedule_cycles(layer, found, machine) <= schedule_cycles(layer, searched, machine)


def test_a_pooling_behind_it_makes_a_mapping_a_bad_one(design: Candidate) -> None:
    """Explicit code computes windows that overlap again and again."""
    layer = max(layers(design), key=lambda one: one.problem.P * one.problem.Q)
    p = layer.problem
    pooled = dataclasses.replace(layer, pooling=Pooling(3, 1, 0, p.Q - 2, p.P - 2))
    found, _ = SearchedSchedules(design, Objective.parse("latency"))(pooled)
    mapping = design.mappings[[task.problem for task in design.tasks].index(p)]
    try:
        cycles = schedule_cycles(pooled, realise(pooled, mapping, design.accelerator), design.accelerator)
    except InfeasibleError:
        return
    assert schedule_cycles(pooled, found, design.accelerator) <= cycles


def test_every_layer_of_a_program_is_as_searched_or_named(tmp_path: Path) -> None:
    """A pooling, a sum of rows and layers that differ in a ReLU alone included; so programs take what was predicted of them."""
    network = load_network("resnet18:image=64")
    space = dataclasses.replace(
        load_space("gemmini"), dim=(16,), scratchpad_kib=(128, 256), accumulator_kib=(64, 128)
    )
    best = run_exploration(Workload.of([network]), space, EDP, samples=200, out=tmp_path, fusion=False).best
    mappings = {}
    for task, mapping in zip(best.tasks, best.mappings, strict=True):
        assert isinstance(task, LoweredTask)
        mappings[alike(task.layer)] = mapping
    schedules = SearchedSchedules(best, EDP)
    lowered = lower_network(sketch(network), best.accelerator, schedules)
    kept = 0
    for code in lowered.layers.values():
        if code.layer not in schedules.chosen:
            assert code.schedule == realise(code.layer, mappings[alike(code.layer)], best.accelerator)
            kept += 1
    assert kept == schedules.searched > len(schedules.chosen)
    assert {"costs"} >= {why.split()[0] for why in schedules.chosen.values()}, "only where it is better"
    program = program_cost(lowered, best.accelerator)
    assert program.cycles * program.energy_pj * 1e-6 <= best.cost.edp * 1.001
    if not schedules.chosen:
        assert program.cycles == pytest.approx(best.cost.latency_cycles, rel=1e-3)


def test_layers_that_the_search_did_not_see_are_the_compilers(design: Candidate, tmp_path: Path) -> None:
    schedules = SearchedSchedules(design, EDP)
    problem = dataclasses.replace(layers(design)[0].problem, K=48, C=20)
    schedules(Layer(problem, scale=1.0))
    assert (schedules.searched, list(schedules.chosen.values())) == (0, ["which was not searched"])
    assert "K48 stride 2x2, which was not searched" in schedules.summary()
