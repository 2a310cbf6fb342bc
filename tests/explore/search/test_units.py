"""Row functions searched beside the sizes of accelerators: against brute force, on layers so small that all is known."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import baco.exploration.cost.program_rest as rest_module
from baco.bench.sets.spaces import published_space
from baco.common.errors import InputError
from baco.compiler.network.steps import StepCost
from baco.exploration.candidate import BatchSummary, Candidate, Cost
from baco.exploration.cost.limits import limits_of
from baco.exploration.cost.model import CostModel, make_cost_model
from baco.exploration.objective import Objective, metric
from baco.exploration.operators import OperatorCost
from baco.exploration.progress import Budget
from baco.exploration.report.study_report import report_data
from baco.exploration.report.summary import candidate_block, network_totals
from baco.exploration.rest import RestOfPrograms, SizedOperators
from baco.exploration.samplers.searchers import SEARCHERS, make_searcher
from baco.exploration.search.archive import Archive
from baco.exploration.search.focus import focuses
from baco.exploration.search.searcher import SearchSetup
from baco.exploration.search.selector import Selector
from baco.exploration.space import DesignSpace
from baco.exploration.space.constraints import Constraints
from baco.exploration.space.points import units_of
from baco.exploration.studies.engine import SearchOutcome, run_exploration
from baco.exploration.studies.study import StudyRecord
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.network import Network, Operator, Tensor, Workload
from baco.workloads.problem import Problem
from tests.explore.search.test_instruction_search import every_row
from tests.explore.searcher_conformance import check_state, run
from tests.explore.study_helpers import content, early_phases
from tests.seeds import seeds, some

Floats = NDArray[np.float64]

#: Of the default space: its energy table has leakage and clock.
BASE = published_space().base
SPACE = DesignSpace(
    name="tiny",
    rules="gemmini",
    base=BASE,
    dim=(2, 4),
    scratchpad_kib=(1, 2),
    accumulator_kib=(1, 2),
    dataflows=("WS",),
    double_buffer=True,
    search_units=True,
)


def attention() -> Workload:
    """Two products with a softmax between them."""
    tensors = [
        Tensor("in", (6, 5)),
        Tensor("scores", (6, 4)),
        Tensor("shares", (6, 4)),
        Tensor("out", (6, 3)),
    ]
    operators = (
        Operator("scores", "matmul", ("in",), tensors[1], Problem(P=6, C=5, K=4)),
        Operator("softmax", "softmax", ("scores",), tensors[2]),
        Operator("values", "matmul", ("shares",), tensors[3], Problem(P=6, C=4, K=3)),
    )
    return Workload.of([Network("tiny", (tensors[0],), operators)])


WORKLOAD = attention()
LAYERS = layers_of_tasks(WORKLOAD.tasks, WORKLOAD)


def random_rest(rng: np.random.Generator, worse: float = 0.0) -> RestOfPrograms:
    """A softmax of random cost on either kind of accelerator; with chance `worse`, all amounts are no less with row
    functions."""
    plain, units = {}, {}
    never = rng.random() < worse
    for side in (2, 4, 16):
        cycles, *words = (10.0 ** rng.uniform(1, 3.5, 4)).round()
        factors = rng.choice([1.0, 1.0, 1.5] if never else [0.3, 0.6, 1.0, 1.5], 4)
        more = (np.array([cycles, *words]) * factors).tolist()
        plain[side] = (OperatorCost("softmax", "net_softmax", False, 1.0, StepCost(cycles, *words)),)
        units[side] = tuple(
            SizedOperators(*least, (OperatorCost("softmax", "net_softmax", True, 1.0, StepCost(*amounts)),))
            # memories of 2 KiB hold rows that those of 1 KiB do not
            for least, amounts in (((0, 0), [5 * one for one in more]), ((1, 2), more))
        )
    return RestOfPrograms({"tiny": 1.0}, {"tiny": plain}, {}, {"tiny": units})


def model_of(space: DesignSpace, rest: RestOfPrograms | None) -> CostModel:
    return make_cost_model("instruction", LAYERS, space, rest)


class Enumeration:
    """All tight mappings of both layers on all accelerators of the tiny space.

    Layers without anything that an accelerator's area takes come from the archive, which another test compares with the
    model mapping by mapping; everything else is added up here, from accelerators one by one.
    """

    def __init__(self) -> None:
        table = BASE.energy.model_copy(update={"leakage_mw_per_mm2": 0.0, "clock_pj_per_mm2": 0.0})
        bare = dataclasses.replace(SPACE, base=BASE.replace(energy=table.model_dump()), search_units=False)
        self.archive = Archive(WORKLOAD.tasks, bare, model_of(bare, None))
        for task, one in enumerate(WORKLOAD.tasks):
            for side in SPACE.dim:
                rows = every_row(one.problem, side)
                self.archive.add(np.full(len(rows), task), rows)
        self.points = [
            (d, a, s)
            for d, a, s in itertools.product(SPACE.dim, SPACE.accumulator_kib, SPACE.scratchpad_kib)
            if SPACE.legal(d, a, s)
        ]
        self.layers = [[self._best(task, point) for task in range(2)] for point in self.points]

    def _best(self, task: int, point: tuple[int, int, int]) -> Floats:
        """(energy, cycles) of the mappings of a layer that none beats in both."""
        energy, cycles = (one[0] for one in self.archive.costs(task, self.archive.point(point)))
        pairs = np.unique(np.stack([energy, cycles], 1)[np.isfinite(energy)], axis=0)
        least = np.minimum.accumulate(pairs[:, 1])
        return pairs[np.concatenate([[True], pairs[1:, 1] < least[:-1]])]

    def designs(self, rest: RestOfPrograms) -> list[tuple[tuple[int, int, int], bool, Cost]]:
        """Everything that may be best in anything: sizes, units, cost."""
        found = []
        for point, (one, other) in zip(self.points, self.layers, strict=True):
            for units in (False, True):
                accelerator = SPACE.accelerator(*point, units)
                beside = rest.operators["tiny"][point[0]][0].cost
                if units:
                    beside = rest.with_units["tiny"][point[0]][int(point[2] == 2)].cost
                for (e1, c1), (e2, c2) in itertools.product(one, other):
                    cycles = c1 + c2 + beside.cycles
                    words = BASE.energy.with_memories(
                        beside.fixed_pj,
                        beside.accumulator_words,
                        beside.scratchpad_words,
                        accumulator_kib=float(point[1]),
                        scratchpad_kib=float(point[2]),
                        dim=float(point[0]),
                    )
                    energy = e1 + e2 + words + accelerator.static_pj(cycles)
                    found.append((point, units, Cost(cycles, energy, accelerator.area_mm2)))
        return found


@pytest.fixture(scope="module")
def enumeration() -> Enumeration:
    return Enumeration()


def front_of(costs: list[Cost], names: tuple[str, ...]) -> set[tuple[float, ...]]:
    """Points that no other dominates, by comparing every two, to nine digits."""
    table = [tuple(float(f"{metric(cost, name):.9g}") for name in names) for cost in costs]
    unique = set(table)
    return {
        one
        for one in unique
        if not any(other != one and all(o <= x for o, x in zip(other, one, strict=True)) for other in unique)
    }


def candidates_of(
    rest: RestOfPrograms, objective: str, samples: int, name: str = "gradient"
) -> list[Candidate]:
    tasks = WORKLOAD.tasks
    setup = SearchSetup(
        tasks, SPACE, Objective.parse(objective), samples * len(tasks), 0, model_of(SPACE, rest)
    )
    return [one for result in run(make_searcher(name, setup)) for one in result.candidates]


@pytest.mark.parametrize(
    "objective",
    some(1, ["edp", "latency", "energy", "area", "edap"]),
)
def test_the_best_design_is_that_of_the_enumeration(enumeration: Enumeration, objective: str) -> None:
    """With row functions or without, whichever is better."""
    rest = random_rest(np.random.default_rng(1))
    goal = Objective.parse(objective)
    optimum = min(goal.scalar(cost) for *_, cost in enumeration.designs(rest))
    best = min(candidates_of(rest, objective, 400), key=lambda one: goal.scalar(one.cost))
    assert optimum * (1 - 1e-9) <= best.objective <= optimum * 1.002


@pytest.mark.parametrize("seed", seeds(2, of=6))
def test_the_front_is_that_of_the_enumeration(enumeration: Enumeration, seed: int) -> None:
    """Of an archive of all mappings: exactly those that weighings of energy against latency find, and nothing that is
    dominated by a design of the other kind."""
    rest = random_rest(np.random.default_rng(seed))
    goal = Objective.parse("edp")
    archive = Archive(WORKLOAD.tasks, SPACE, model_of(SPACE, rest))
    for task, one in enumerate(WORKLOAD.tasks):
        for side in SPACE.dim:
            rows = every_row(one.problem, side)
            archive.add(np.full(len(rows), task), rows)
    selector = Selector(archive, goal, focuses(goal))
    selector.scan([], [1] * len(selector.focuses))
    found = front_of([one.cost for one in selector.front([], 0, 1000)], goal.front_metrics)
    expected = front_of([cost for *_, cost in enumeration.designs(rest)], goal.front_metrics)
    assert found == expected


@pytest.mark.parametrize("power", [False, True])
def test_row_functions_are_left_out_only_where_they_never_pay(
    enumeration: Enumeration, *, power: bool
) -> None:
    """Without them nothing is lost: not on the front in all metrics, and not within any bounds."""
    rng = np.random.default_rng(7)
    dropped = kept = 0
    for _ in range(60):
        rest = random_rest(rng, worse=0.5)
        if rest.units_may_pay(power_bounded=power):
            kept += 1
            continue
        dropped += 1
        designs = enumeration.designs(rest)
        names = ("latency", "energy", "area", "edp", "edap")
        plain = [cost for _, units, cost in designs if not units]
        assert front_of(plain, names) == front_of([cost for *_, cost in designs], names)
        for _, units, cost in designs:
            watts = cost.energy_pj / cost.latency_cycles
            assert not units or any(
                one.latency_cycles <= cost.latency_cycles
                and one.energy_pj <= cost.energy_pj
                and one.area_mm2 <= cost.area_mm2
                and (not power or one.energy_pj / one.latency_cycles <= watts * (1 + 1e-12))
                for one in plain
            )
    assert kept > 5
    assert dropped > 5 or power


@pytest.mark.parametrize("seed", seeds(2, of=4))
def test_limits_hold_for_both_kinds(enumeration: Enumeration, seed: int) -> None:
    rest = random_rest(np.random.default_rng(seed))
    designs = enumeration.designs(rest)
    found = limits_of(WORKLOAD.tasks, SPACE, LAYERS, rest)
    assert found.edp <= min(cost.edp for *_, cost in designs)
    points = found.points()
    energy, cycles = found.at(points)
    seen = set()
    for index, sizes in enumerate(
        zip(points.dim, points.accumulator_kib, points.scratchpad_kib, points.units, strict=True)
    ):
        own = [cost for point, units, cost in designs if (*point, units) == tuple(map(int, sizes))]
        assert energy[0, index] <= min(cost.energy_pj for cost in own)
        assert cycles[0, index] <= min(cost.latency_cycles for cost in own)
        known = rest.with_units if sizes[3] else rest.operators
        assert cycles[0, index] > known["tiny"][sizes[0]][-1].cost.cycles
        seen.add(bool(sizes[3]))
    assert seen == {False, True}


def lopsided() -> RestOfPrograms:
    """Row functions pay on one side only."""
    rest = random_rest(np.random.default_rng(0))
    dear = {
        side: tuple(
            SizedOperators(
                *least,
                tuple(
                    dataclasses.replace(
                        one,
                        on_accelerator=True,
                        cost=StepCost(*(np.array(one.cost) * factor * (1 if side == 4 else 15)).tolist()),
                    )
                    for one in costs
                ),
            )
            for least, factor in (((0, 0), 0.5), ((0, 2), 0.2))
        )
        for side, costs in rest.operators["tiny"].items()
    }
    return dataclasses.replace(rest, with_units={"tiny": dear})


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=pytest.mark.slow) if one == "dosa-published" else one
        for one in sorted(SEARCHERS)
    ],
)
def test_every_searcher_finds_designs_of_both_kinds(name: str) -> None:
    """Each of which costs what its layers and the rest of the program on its accelerator cost."""
    rest = lopsided()
    samples = {"gradient": 60, "local": 60, "dosa-published": 150}.get(name, 300)
    found = candidates_of(rest, "edp", samples, name)
    best = min(found, key=lambda candidate: candidate.objective)
    assert units_of(best.accelerator) == "row_functions" or name not in ("gradient", "local")
    assert {units_of(candidate.accelerator) for candidate in found} == {"none", "row_functions"}
    model = model_of(SPACE, rest)
    for candidate in found:
        machine = candidate.accelerator
        (operator,) = rest.operators_of("tiny", machine)
        beside = operator.cost
        layers = model.layer_costs(candidate.mappings, machine)
        cycles = sum(layer.latency_cycles for layer in layers) + beside.cycles
        energy = sum(layer.energy_pj for layer in layers) + beside.energy_pj(machine)
        assert candidate.cost.latency_cycles == pytest.approx(cycles, rel=1e-9)
        assert candidate.cost.energy_pj == pytest.approx(energy, rel=1e-9)
        assert candidate.cost.area_mm2 == pytest.approx(machine.area_mm2, rel=1e-12)


@pytest.mark.parametrize("name", ["gradient", "genetic"])
def test_searchers_go_on_from_any_snapshot(name: str) -> None:
    tasks = WORKLOAD.tasks
    setup = SearchSetup(
        tasks, SPACE, Objective.parse("edp"), 100 * len(tasks), 0, model_of(SPACE, lopsided())
    )
    with early_phases():
        check_state(lambda one: make_searcher(name, one), setup)


@pytest.mark.parametrize("name", ["gradient", "random"])
def test_bounds_on_area_hold_for_both_kinds(name: str) -> None:
    """Between the areas of the least accelerator without row functions and with them: none with them is left."""
    least = min(SPACE.hardware().area_mm2)
    tight = dataclasses.replace(SPACE, constraints=Constraints(area_mm2=float(least)))
    tasks = WORKLOAD.tasks
    setup = SearchSetup(tasks, tight, Objective.parse("edp"), 100, 0, model_of(tight, lopsided()))
    found = [one for result in run(make_searcher(name, setup)) for one in result.candidates]
    assert found
    assert all(one.accelerator.area_mm2 <= least for one in found)


class Killed(BaseException):
    """The process is gone after a batch."""


class Killer:
    """A display that ends everything after a batch."""

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.notes: list[str] = []

    def update(self, summary: BatchSummary, budget: Budget) -> None:
        if summary.batch == self.at:
            raise Killed

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> RestOfPrograms:
    """The rest of programs of every search in this test."""
    rest = lopsided()
    monkeypatch.setattr(rest_module, "rest_in_space", lambda workload, space, doing, programs: rest)
    return rest


def explore(out: Path, space: DesignSpace = SPACE, **changes: Any) -> SearchOutcome:
    arguments: dict[str, Any] = {"samples": 50, "seed": 3, "command": "explore"}
    return run_exploration(WORKLOAD, space, Objective.parse("edp"), out=out, **{**arguments, **changes})


@pytest.mark.usefixtures("by_hand")
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_after_any_batch_and_resumed_is_the_same_study(tmp_path: Path, every: int) -> None:
    with early_phases():
        straight = explore(tmp_path / "straight")
        with StudyRecord.open(straight.path, read_only=True) as study:
            number = study.batches
        assert number > 4
        for batch in sorted({*range(0, number, every), number - 1}):
            out = tmp_path / f"killed{batch}"
            with pytest.raises(Killed):
                explore(out, progress=Killer(batch))
            resumed = explore(out, resume=True)
            assert content(resumed.path) == content(straight.path)
            assert (resumed.best, resumed.front) == (straight.best, straight.front)


def test_a_report_names_the_units_and_adds_up(tmp_path: Path, by_hand: RestOfPrograms) -> None:
    found = explore(tmp_path)
    assert units_of(found.best.accelerator) == "row_functions"
    data = report_data(found.path)
    latency, energy = network_totals(data, WORKLOAD.networks[0])
    assert latency == pytest.approx(data.best.cost.latency_cycles)
    assert energy == pytest.approx(data.best.cost.energy_pj)
    assert candidate_block(data, data.best_index)["accelerator"]["units"] == "row_functions"
    assert data.baseline is not None
    assert not data.baseline.accelerator.features.row_functions
    assert [one.on for one in data.best_costs.beside] == ["accelerator"]
    with StudyRecord.open(found.path, read_only=True) as study:
        assert study.rest == by_hand
        assert study.space().search_units


def test_without_any_use_for_them_the_search_is_one_without_the_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = random_rest(np.random.default_rng(0))
    useless = dataclasses.replace(
        rest,
        with_units={
            "tiny": {side: (SizedOperators(0, 0, costs),) for side, costs in rest.operators["tiny"].items()}
        },
    )
    known = {True: useless, False: rest.without_units()}
    monkeypatch.setattr(
        rest_module, "rest_in_space", lambda workload, space, doing, programs: known[space.search_units]
    )
    one = explore(tmp_path / "choice")
    other = explore(tmp_path / "none", SPACE.without_units())
    asked, without = content(one.path), content(other.path)
    # what was asked for is kept as it was; what came of it is the same
    assert asked.pop("setup") != without.pop("setup")
    assert asked == without
    with StudyRecord.open(one.path, read_only=True) as study:
        assert not study.space().search_units
    layers = explore(tmp_path / "layers", whole=False)
    assert not layers.best.accelerator.features.row_functions


def test_the_originals_timing_leaves_them_out_and_says_so(tmp_path: Path, by_hand: RestOfPrograms) -> None:
    base = SPACE.base.replace(timing="gemmini")
    found = explore(tmp_path, dataclasses.replace(SPACE, base=base))
    assert not found.best.accelerator.features.row_functions
    assert any("the original Gemmini has no row functions" in note for note in found.notes)


def test_other_choices_of_units_are_another_study(tmp_path: Path, by_hand: RestOfPrograms) -> None:
    explore(tmp_path, samples=20)
    with pytest.raises(InputError, match="space is"):
        explore(tmp_path, dataclasses.replace(SPACE, search_units=False), resume=True)
