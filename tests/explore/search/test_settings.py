"""Settings searched beside sizes: against brute force, and against the laws as they are published."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from baco.bench.sets.spaces import published_space
from baco.common.errors import InputError
from baco.common.portable import Floats
from baco.common.yaml import parse_yaml
from baco.exploration.candidate import Candidate, Cost
from baco.exploration.cost.model import make_cost_model
from baco.exploration.cost.predicted import instruction_costs
from baco.exploration.cost.program_rest import rest_by_settings, rest_of_programs
from baco.exploration.objective import Objective, metric
from baco.exploration.rest import RestBySettings
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.archive import Archive
from baco.exploration.search.searcher import SearchSetup
from baco.exploration.space import DesignSpace, load_space, read_space
from baco.exploration.space.constraints import Constraints
from baco.exploration.space.reference_machine import reference_machine
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.study import StudyRecord
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload
from tests.explore.search.test_instruction_search import every_row
from tests.explore.search.test_units import LAYERS, SPACE, WORKLOAD
from tests.explore.searcher_conformance import check_state, run
from tests.explore.study_helpers import content, early_phases
from tests.seeds import some

LARGE = load_space("gemmini-large")
#: A few sizes, and settings of which each matters.
TINY = dataclasses.replace(
    SPACE,
    base=LARGE.base,
    dim=(4,),
    search_units=False,
    settings=(("dma_bits", (32, 64)), ("memory_gb_s", (2, 8)), ("clock_mhz", (400, 1000))),
    clocks=True,
    constraints=Constraints(area_mm2=0.9),
)
SEARCHING = ("gradient", "local", "random", "genetic", "bayesian", "two-loop")


def setup_of(space: DesignSpace, samples: int, objective: str = "edp") -> SearchSetup:
    model = make_cost_model("instruction", LAYERS, space, None)
    tasks = WORKLOAD.tasks
    return SearchSetup(tasks, space, Objective.parse(objective), samples * len(tasks), 0, model)


def candidates_of(name: str, setup: SearchSetup) -> list[Candidate]:
    return [one for result in run(make_searcher(name, setup)) for one in result.candidates]


@pytest.fixture(scope="module")
def enumeration() -> list[tuple[DesignSpace, tuple[int, int, int], list[Floats]]]:
    """Of all settings and sizes: (energy, cycles) of the tight mappings of each layer that none beats in both."""
    found = []
    for choice in itertools.product(*(range(len(values)) for _, values in TINY.settings)):
        there = TINY.at(choice)
        archive = Archive(WORKLOAD.tasks, there, make_cost_model("instruction", LAYERS, there, None))
        for task, one in enumerate(WORKLOAD.tasks):
            rows = every_row(one.problem, TINY.dim[0])
            archive.add(np.full(len(rows), task), rows)
        points = there.hardware()
        for point in zip(points.dim, points.accumulator_kib, points.scratchpad_kib, strict=True):
            sizes = int(point[0]), int(point[1]), int(point[2])
            tables = []
            for task in range(2):
                energy, cycles = (one[0] for one in archive.costs(task, archive.point(sizes)))
                pairs = np.unique(np.stack([energy, cycles], 1)[np.isfinite(energy)], axis=0)
                least = np.minimum.accumulate(pairs[:, 1])
                tables.append(pairs[np.concatenate([[True], pairs[1:, 1] < least[:-1]])])
            found.append((there, sizes, tables))
    return found


@pytest.mark.parametrize("objective", some(1, ["edp", "latency", "energy"]))
def test_the_best_design_is_that_of_all_settings(
    enumeration: list[tuple[DesignSpace, tuple[int, int, int], list[Floats]]], objective: str
) -> None:
    """Area is bounded, and the interface of a faster memory takes some."""
    goal = Objective.parse(objective)
    least = math.inf
    for there, sizes, (one, other) in enumeration:
        energy, cycles = (one[:, None, n] + other[None, :, n] for n in (0, 1))
        area = there.accelerator(*sizes).area_mm2
        costs = Cost(cycles, energy, area, clock_mhz=there.base.clock_mhz)  # type: ignore[arg-type]
        least = min(least, float(np.min(metric(costs, objective))))
    best = min(candidates_of("local", setup_of(TINY, 400, objective)), key=lambda one: goal.scalar(one.cost))
    assert least * (1 - 1e-9) <= best.objective <= least * 1.005


@pytest.mark.parametrize("name", SEARCHING)
def test_every_searcher_prices_designs_as_their_accelerators_say(name: str) -> None:
    """Latency and energy by the model of the accelerator that the design names; delays in nanoseconds of its clock."""
    found = candidates_of(name, setup_of(TINY, 80))
    assert found
    if name in ("random", "genetic"):
        assert len({candidate.accelerator.clock_mhz for candidate in found}) == 2
        assert len({candidate.accelerator.dma_bits for candidate in found}) == 2
    for candidate in found:
        machine = candidate.accelerator
        costs = instruction_costs(LAYERS, candidate.mappings, machine)
        cycles = sum(
            task.count * cost.latency_cycles for task, cost in zip(candidate.tasks, costs, strict=True)
        )
        energy = sum(task.count * cost.energy_pj for task, cost in zip(candidate.tasks, costs, strict=True))
        assert candidate.cost.latency_cycles == pytest.approx(cycles, rel=1e-9)
        assert candidate.cost.energy_pj == pytest.approx(energy, rel=1e-9)
        assert candidate.cost.area_mm2 == pytest.approx(machine.area_mm2, rel=1e-12)
        edp = energy * 1e-6 * cycles * 1000 / machine.clock_mhz
        assert candidate.objective == pytest.approx(edp, rel=1e-9)


@pytest.mark.parametrize("name", ["local", pytest.param("genetic", marks=pytest.mark.slow)])
def test_searches_go_on_from_any_snapshot(name: str) -> None:
    with early_phases():
        check_state(lambda one: make_searcher(name, one), setup_of(TINY, 120))


def test_laws_of_clock_and_memory_are_those_that_are_stated() -> None:
    """Supplies of 1.025 V at 300 MHz and 1.375 V at 1,008 MHz; energy as their square; main memory with its own."""
    names = [name for name, _ in LARGE.settings]
    for clock, gb_s in ((300, 4), (700, 32), (1000, 8)):
        choice = list(LARGE.chosen)
        choice[names.index("clock_mhz")] = dict(LARGE.settings)["clock_mhz"].index(clock)
        choice[names.index("memory_gb_s")] = dict(LARGE.settings)["memory_gb_s"].index(gb_s)
        one = LARGE.at(tuple(choice)).accelerator(16, 64, 256)
        supply, full = (1.025 + (mhz - 300) * 0.35 / 708 for mhz in (clock, 1000))
        table, base = one.energy, LARGE.base.energy
        for name in ("mac_pj", "scratchpad_pj_per_kib", "clock_pj_per_mm2", "instruction_pj"):
            assert getattr(table, name) == pytest.approx(getattr(base, name) * (supply / full) ** 2)
        assert table.leakage_mw_per_mm2 == pytest.approx(18.0 * supply / full)
        assert (table.dram_pj, table.memory_mw_per_gb_s) == (100.0, 2.5)
        assert one.dram_bytes_per_cycle == pytest.approx(gb_s * 1000 / clock)
        plain = published_space().accelerator(16, 64, 256)
        own = plain.area_mm2
        assert one.area_mm2 == pytest.approx(own + 0.065 * gb_s, rel=0.02)  # two banks instead of four
        # leakage and interface are powers: in a microsecond they take what they take, however many cycles that is
        silicon = one.area_mm2 - 0.065 * gb_s
        expected = silicon * (18.0 * supply / full + 40.0 * (supply / full) ** 2 * clock * 1e-3) + 2.5 * gb_s
        assert one.static_pj(float(clock)) == pytest.approx(expected * 1e3)


def test_files_say_what_is_searched(tmp_path: Path) -> None:
    assert read_space(parse_yaml(LARGE.to_yaml(), "large.yaml")) == LARGE
    assert LARGE.at(LARGE.chosen).settings == ()
    for choice in ((0,) * len(LARGE.settings), tuple(len(values) - 1 for _, values in LARGE.settings)):
        machine = LARGE.at(choice).accelerator(16, 64, 256)
        assert LARGE.choice_of(machine) == choice
        assert not machine.gemmini_problems()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("{dma_bits: [48]}", "settings.dma_bits cannot be 48"),
        ("{accumulator_banks: [8]}", "settings.accumulator_banks cannot be 8"),
        ("{accumulator_banks: [1, 2]}", "cannot be 1: predicted cycles"),
        ("{clocks: [500]}", "clocks"),
        ("{dma_requests: []}", "dma_requests"),
    ],
)
def test_settings_that_no_accelerator_has_are_refused(settings: str, message: str) -> None:
    text = f"dim: [16]\nscratchpad_kib: [256]\naccumulator_kib: [64]\nsettings: {settings}\n"
    with pytest.raises(InputError, match=message):
        read_space(parse_yaml(text, "space.yaml"))


def test_published_spaces_have_no_settings() -> None:
    text = "rules: reference\ndim: [16]\nscratchpad_kib: [256]\naccumulator_kib: [64]\nsettings: {dma_bits: [64]}\n"
    with pytest.raises(InputError, match="rules: reference"):
        read_space(parse_yaml(text, "space.yaml"))
    assert published_space().space_hash == "27f8e878edd4c00d"  # as before there were any


def test_programs_beside_layers_cost_what_they_do_on_the_accelerator() -> None:
    """Found by settings, from code that is lowered once, and found anew for one accelerator."""
    workload = Workload.of([load_network("resnet18")])
    rest = rest_by_settings(workload, LARGE)
    rng = np.random.default_rng(3)
    for _ in range(2):
        choice = tuple(int(rng.integers(len(values))) for _, values in LARGE.settings)
        there = LARGE.at(choice)
        points = there.hardware()
        at = int(rng.integers(len(points)))
        sizes = int(points.dim[at]), int(points.accumulator_kib[at]), int(points.scratchpad_kib[at])
        machine = there.accelerator(*sizes, bool(points.units[at]))
        alone = rest_of_programs(workload, [machine])
        assert rest.whole(machine) == alone.whole(machine)
        assert rest.operators_of("resnet18", machine) == alone.operators_of("resnet18", machine)


def test_the_machine_that_reports_compare_with_is_known_whatever_designs_a_study_holds() -> None:
    workload = Workload.of([load_network("resnet18")])
    kept = RestBySettings.kept(rest_by_settings(workload, LARGE), LARGE, {})
    machine = reference_machine(LARGE)
    alone = rest_of_programs(workload, [machine])
    assert kept.operators_of("resnet18", machine) == alone.operators_of("resnet18", machine)
    others = LARGE.at(tuple(len(values) - 1 for _, values in LARGE.settings))
    with pytest.raises(InputError, match="no rest of programs"):
        kept.operators_of("resnet18", reference_machine(others))


def test_a_study_keeps_what_its_designs_need(tmp_path: Path) -> None:
    """Interrupted or not, and read without the search: costs with their clocks, and programs beside layers."""
    space = dataclasses.replace(TINY, name="tiny")
    arguments = (WORKLOAD, space, Objective.parse("edp"), "local")
    run_exploration(*arguments, samples=200, out=tmp_path / "one")
    run_exploration(*arguments, samples=80, out=tmp_path / "other")
    run_exploration(*arguments, samples=200, out=tmp_path / "other", resume=True)
    with StudyRecord.open(tmp_path / "one" / "study.sqlite", read_only=True) as study:
        assert isinstance(study.rest, RestBySettings)
        assert study.rest.find is None
        layers = layers_of_tasks(study.tasks, study.workload())
        best = study.best()
        assert best is not None
        for one in study.candidates():
            beside = study.rest.whole(one.accelerator)
            costs = instruction_costs(layers, one.mappings, one.accelerator)
            assert one.cost.clock_mhz == one.accelerator.clock_mhz
            assert one.cost.latency_cycles == pytest.approx(sum(c.latency_cycles for c in costs) + beside[0])
            assert one.cost.energy_pj == pytest.approx(sum(c.energy_pj for c in costs) + beside[1])
            assert one.objective >= best.objective
    found, resumed = (content(tmp_path / name / "study.sqlite") for name in ("one", "other"))
    del found["batches"], resumed["batches"]  # the budget that is left decides where a batch ends
    assert found["tasks"] == resumed["tasks"]
