"""Operators that run as one unit, in what a search minimises: which, and what that changes."""

import dataclasses
import itertools
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from baco.accel.presets import load_accelerator
from baco.bench.sets.spaces import published_space
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.network.groups import GroupOperators
from baco.compiler.network.program import network_code
from baco.compiler.network.quantise import sketch
from baco.compiler.network.steps import StepCost
from baco.exploration._json import Json
from baco.exploration.cost.limits import limits_of
from baco.exploration.cost.program import program_cost
from baco.exploration.cost.program_rest import searched_tasks
from baco.exploration.fused import FusedPrograms, Fusion
from baco.exploration.objective import Objective
from baco.exploration.operators import OperatorCost
from baco.exploration.report.study_report import report_data
from baco.exploration.report.summary import network_totals
from baco.exploration.rest import RestOfPrograms
from baco.exploration.search.group_gains import PossibleGroup, taken_groups
from baco.exploration.space import DesignSpace
from baco.exploration.space.constraints import Constraints
from baco.exploration.studies.engine import SearchOutcome, run_exploration
from baco.exploration.studies.plan import SearchedSchedules
from baco.exploration.studies.study import StudyRecord
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload
from tests.seeds import seeds

pytestmark = pytest.mark.usefixtures("short_networks")

NETWORK = "mobilenet_v2:image=64"
EDP = Objective.parse("edp")
MACHINE = load_accelerator("gemmini-default")


def small_space() -> DesignSpace:
    return dataclasses.replace(
        published_space(), dim=(8, 16), scratchpad_kib=(16, 64, 256), accumulator_kib=(8, 32, 64)
    )  # in which main memory is slow beside the array, so that additions join groups, too


def search(folder: Path, *, fusion: bool = True) -> SearchOutcome:
    mix = Workload.of([load_network(NETWORK)])
    return run_exploration(mix, small_space(), EDP, samples=150, out=folder, fusion=fusion)


@pytest.fixture(scope="module")
def study(short_networks: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SearchOutcome]:
    """Folder and outcome of one search with groups, which tests only read."""
    folder = tmp_path_factory.mktemp("fused")
    return folder, search(folder)


def rest_of(folder: Path) -> RestOfPrograms:
    with StudyRecord.open(folder / "study.sqlite", read_only=True) as study:
        assert study.rest is not None
        return study.rest


class _Judge:
    """Cycles alone count, and those of tasks one by one are given."""

    def __init__(self, alone: list[float]) -> None:
        self.alone = np.array([alone])

    def added(self, costs: np.ndarray, at: np.ndarray) -> np.ndarray:
        return np.repeat(costs[None, ..., 0], len(at), 0)

    def rows(self, at: np.ndarray) -> np.ndarray:
        return np.array([[MACHINE.scratchpad_rows, MACHINE.accumulator_rows]] * len(at))


@pytest.mark.parametrize("seed", seeds(15, of=40))
def test_the_groups_taken_gain_most_of_all_that_do_not_overlap(seed: int) -> None:
    random = np.random.default_rng(seed)
    length = int(random.integers(2, 8))
    alone = random.integers(1, 100, length).astype(float).tolist()

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

    ops = [Named(f"op{n}") for n in range(length)]
    row, sizes = [], (MACHINE.scratchpad_rows, MACHINE.accumulator_rows)
    for start, stop in itertools.combinations(range(length + 1), 2):
        if stop - start > 1 and random.random() < 0.6:
            count = int(random.integers(1, 4))
            needs = np.stack([random.integers(1, 2 * size, count) for size in sizes], 1).astype(float)
            costs = np.zeros((count, len(StepCost._fields)))
            costs[:, 0] = random.integers(1, 150, count)
            operators = GroupOperators(tuple(ops[start:stop]))  # type: ignore[arg-type]
            row.append(PossibleGroup(operators, tuple(range(start, stop)), (), needs, costs))
    if not row:
        return
    found = taken_groups([(1.0, [row])], (), range(length), _Judge(alone), [0])[0]  # type: ignore[arg-type]
    total = sum(group.cost.cycles for group in found.groups)
    total += sum(cost for cost, runs in zip(alone, found.runs, strict=True) if runs == 0)
    assert sorted(set(found.runs)) in ([0.0], [1.0], [0.0, 1.0])
    best = sum(alone)
    for chosen in itertools.product((False, True), repeat=len(row)):
        groups = [group for group, taken in zip(row, chosen, strict=True) if taken]
        inside = [task for group in groups for task in group.tasks]
        if len(inside) != len(set(inside)):
            continue
        options = [
            [cost for need, (cost, *_) in zip(group.needs, group.costs, strict=True) if (need <= sizes).all()]
            for group in groups
        ]
        if all(options):
            left = sum(cost for n, cost in enumerate(alone) if n not in inside)
            best = min(best, left + sum(min(costs) for costs in options))
    assert total == pytest.approx(best)


def test_a_search_with_groups_ends_lower_and_says_what_the_program_costs(
    study: tuple[Path, SearchOutcome], tmp_path: Path
) -> None:
    fused, alone = study[1], search(tmp_path / "alone", fusion=False)
    assert fused.best.cost.edp < 0.7 * alone.best.cost.edp
    assert not rest_of(tmp_path / "alone").fused.points
    # the program of the design as it is compiled, with the groups that its plan chooses
    design = fused.best
    schedules = SearchedSchedules(design, EDP)
    code = network_code(
        sketch(load_network(NETWORK)), design.accelerator, schedule=schedules, groups=schedules.group
    )
    planned = program_cost(code.lowered, design.accelerator)
    assert code.lowered.units
    # where the compiler knows better schedules than so short a search, the plan takes them: less of the product, and
    # little more of either
    cycles, energy = planned.cycles / design.cost.latency_cycles, planned.energy_pj / design.cost.energy_pj
    assert 0.85 < cycles * energy < 1.01
    assert max(cycles, energy) < 1.05


def test_limits_for_any_groups_are_below_every_design(study: tuple[Path, SearchOutcome]) -> None:
    """And near enough to be of use: within an order of magnitude of the best design's."""
    mix = Workload.of([load_network(NETWORK)])
    limits = limits_of(mix.tasks, small_space(), layers_of_tasks(mix.tasks, mix), fused=True)
    points = limits.points()
    energy, cycles = (limits.workload(limit) for limit in limits.at(points))
    assert (limits.rest, len(limits.networks)) == (None, 1)
    with StudyRecord.open(study[0] / "study.sqlite", read_only=True) as kept:
        designs = kept.candidates()
    for design in designs:
        here = points.dim == design.accelerator.dim
        assert cycles[here].min() < design.cost.latency_cycles
        assert energy[here].min() < design.cost.energy_pj
    assert cycles.min() > min(design.cost.latency_cycles for design in designs) / 10


@pytest.mark.parametrize(
    "bound", [{"latency_cycles": 1e3}, pytest.param({"energy_uj": 8.0}, marks=pytest.mark.slow)]
)
def test_groups_are_not_priced_where_they_cannot_matter(tmp_path: Path, bound: dict[str, float]) -> None:
    """Whether that is proven beforehand, or a first search finds nothing near; what is suggested is feasible with groups."""
    mix = Workload.of([load_network("mobilenet_v2:image=32")])
    space = dataclasses.replace(small_space(), constraints=Constraints(**bound))
    told: list[str] = []

    class Told:
        def doing(self, text: str, done: int = 0, of: int | None = None) -> None:
            told.append(text)

        def update(self, summary: object, budget: object) -> None: ...

        def note(self, text: str) -> None: ...

    with pytest.raises(InfeasibleError) as caught:
        run_exploration(mix, space, EDP, samples=5000, out=tmp_path / "wish", progress=Told())
    assert "pricing operators as one unit" not in told
    (name, _), *_ = bound.items()
    (value,) = re.findall(rf"{name} ([0-9.e+]+) ", caught.value.hint or "")
    wider = dataclasses.replace(space, constraints=Constraints(**{name: float(value)}))
    assert run_exploration(mix, wider, EDP, samples=100, out=tmp_path / "granted").best.cost


def test_every_operator_runs_once_alone_or_in_a_group(study: tuple[Path, SearchOutcome]) -> None:
    rest, network = rest_of(study[0]), load_network(NETWORK)
    tasks = searched_tasks(Workload.of([network]), small_space())
    names = {name: n for n, task in enumerate(tasks) for name in task.operators}
    points = small_space().without_units().hardware()  # here they do not pay
    assert 0 < len(rest.fused.points) <= len(points)
    grouped, added = 0, set[str]()
    for dim, accumulator, scratchpad, units in zip(
        points.dim, points.accumulator_kib, points.scratchpad_kib, points.units, strict=True
    ):
        machine = small_space().accelerator(dim, accumulator, scratchpad)
        inside = [0] * len(tasks)
        beside: Counter[str] = Counter()  # additions, in groups or by themselves
        for one in rest.operators_of(network.name, machine):
            if one.function != "group":
                beside[one.operator] += round(one.runs)
                continue
            for name in one.operator.split(" > "):
                if name in names:
                    inside[names[name]] += 1
                else:
                    beside[name] += 1
                    added.add(name)
        assert set(beside.values()) == {1}
        assert len([name for name in beside if name.endswith(".add")]) == 3
        counts = rest.counts(tasks, machine)
        assert [n + count for n, count in zip(inside, counts, strict=True)] == [t.count for t in tasks]
        grouped += sum(inside)
        # a table of accelerators says the same as one of them
        row = rest.of(*(np.array([float(one)]) for one in (dim, accumulator, scratchpad)), np.array([units]))
        cycles, _ = rest.total(network.name, machine)
        assert float(row[0][0, 0]) == pytest.approx(cycles)
    assert grouped > 0
    assert added
    elsewhere = MACHINE.replace(accumulator_kib=128)
    assert rest.counts(tasks, elsewhere) == [task.count for task in tasks]


def test_reports_add_up(study: tuple[Path, SearchOutcome]) -> None:
    folder, found = study
    data = report_data(folder / "study.sqlite")
    latency, energy = network_totals(data, data.workload.networks[0])
    assert latency == pytest.approx(found.best.cost.latency_cycles)
    assert energy == pytest.approx(found.best.cost.energy_pj)
    groups = [entry for entry in data.best_costs.entries if entry.kind == "group"]
    assert groups
    assert all(group.on == "accelerator" for group in groups)
    alone = sum(layer.runs for layer in data.best_costs.layers)
    members = sum(
        name in task.operators for group in groups for name in group.operators for task in data.tasks
    )
    assert alone + members == sum(task.count for task in data.tasks)


def test_a_resumed_search_keeps_its_groups(tmp_path: Path) -> None:
    mix, space = Workload.of([load_network(NETWORK)]), small_space()
    run_exploration(mix, space, EDP, samples=60, out=tmp_path)
    decided = rest_of(tmp_path)
    assert decided.fused.points
    assert run_exploration(mix, space, EDP, samples=80, out=tmp_path, resume=True).resumed
    assert rest_of(tmp_path) == decided


def _changed(data: Json, change: str) -> Json:
    found: Json = {**data, "fused": {**data["fused"]}}
    fused = found["fused"]
    if change == "choice":
        fused["points"] = [[[8, 8, 64, False], [9999]]]
    elif change == "units":
        fused["points"] = [[[8, 8, 64, 0], [0]]]
    elif change == "tasks":
        fused["tasks"] = dict.fromkeys(fused["tasks"], 3)
    elif change == "side":
        fused["points"] = [[[8.5, 8, 64, False], [0]]]
    else:
        fused["points"] = {"8": 0}
    return found


def test_records_are_read_back_and_damaged_ones_refused(study: tuple[Path, SearchOutcome]) -> None:
    rest = rest_of(study[0])
    data = rest.to_json()
    assert RestOfPrograms.from_json(data) == rest
    for change in ("choice", "units", "tasks", "side", "points"):
        with pytest.raises(InputError, match="the rest of its programs"):
            RestOfPrograms.from_json(_changed(data, change))


def test_what_a_group_replaces_leaves_the_rest() -> None:
    one = OperatorCost("softmax", "softmax", True, 3.0, StepCost(30.0, 60.0, 9.0, 3.0))
    other = OperatorCost("norm", "normalise", False, 1.0, StepCost(5.0))
    fused = FusedPrograms(
        {"net": 2},
        {"net": ()},
    )
    assert fused.at("net", (8, 8, 64, False)) is None
    sides = np.array([8.0, 16.0])
    assert fused.grouped("net", sides, sides, sides, False).tolist() == [[0, 0], [0, 0]]
    assert not fused.added("net", sides, sides, sides, False).any()
    group = OperatorCost("a > softmax > b", "group", True, 2.0, StepCost(8.0, 4.0, 2.0, 1.0))
    part = OperatorCost("softmax", "softmax", True, 2.0, StepCost(20.0, 40.0, 6.0, 2.0))
    fusion = Fusion((group,), (part,), (2.0, 2.0))
    left, kept, added = fusion.of((one, other))
    assert (left.operator, left.runs, left.cost) == ("softmax", 1.0, StepCost(10.0, 20.0, 3.0, 1.0))
    assert (kept, added) == (other, group)
    assert fusion.added == StepCost(8.0 - 20.0, 4.0 - 40.0, 2.0 - 6.0, 1.0 - 2.0)
    everything = dataclasses.replace(part, runs=3.0, cost=one.cost)
    assert Fusion((group,), (everything,), (2.0, 2.0)).of((one, other)) == (other, group)
