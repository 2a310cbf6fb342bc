"""Wishes that cannot be granted: proven in time, given up in time, and answered with bounds that can."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from baco.bench.sets.spaces import published_space
from baco.common.errors import InfeasibleError
from baco.exploration.cost import infeasible
from baco.exploration.cost.choice import default_cost_model
from baco.exploration.cost.infeasible import Impossible, impossible, infeasible_error
from baco.exploration.cost.limits import limits_of
from baco.exploration.cost.model import make_cost_model
from baco.exploration.cost.program_rest import rest_in_space
from baco.exploration.objective import Objective
from baco.exploration.report.study_report import report_data
from baco.exploration.report.summary import summary
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.searcher import SearchSetup
from baco.exploration.space import DesignSpace, load_space
from baco.exploration.space.constraints import Constraints
from baco.exploration.space.shortfall import check_feasible
from baco.exploration.studies.engine import SearchOutcome, run_exploration
from baco.exploration.studies.preparation import units_may_pay
from baco.exploration.studies.study import FILE_NAME, StudyRecord
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload
from tests.explore.study_helpers import small_workload

EDP = Objective.parse("edp")
GEMMINI = dataclasses.replace(
    published_space(), dim=(4, 8, 16), scratchpad_kib=(8, 16, 32, 64), accumulator_kib=(2, 4, 8, 16)
)
REFERENCE = load_space("reference")
SMALL = small_workload(32)

#: Of the small workload (about 2.5e4 cycles and 20 µJ at best).
WISHES = [
    (GEMMINI, {"latency_cycles": 100.0}),
    (GEMMINI, {"energy_uj": 0.1}),
    (GEMMINI, {"energy_uj": 0.1, "latency_cycles": 10.0}),
    (GEMMINI, {"latency_cycles": 2e4, "power_mw": 5.0}),
    (GEMMINI, {"area_mm2": 0.3, "latency_cycles": 1e3, "power_mw": 5.0}),
    (GEMMINI, {"networks": {"tiny": {"latency_cycles": 10.0, "energy_uj": 1e-3}}}),
    (GEMMINI, {"networks": {"tiny": {"latency_cycles": 3e4}}, "power_mw": 1.0, "sram_kib": 20.0}),
    (REFERENCE, {"latency_cycles": 100.0}),
    (REFERENCE, {"energy_uj": 1.0, "power_mw": 1.0, "latency_cycles": 1e3}),
    (REFERENCE, {"area_mm2": 0.5, "networks": {"tiny": {"energy_uj": 0.5}}}),
]


def named(wish: dict[str, object]) -> dict[str, object]:
    """A wish about the small workload's network, whatever it is called."""
    networks = wish.get("networks")
    if not isinstance(networks, dict):
        return wish
    (own,) = networks.values()
    return {**wish, "networks": {SMALL.networks[0].name: own}}


def explore(out: Path, space: DesignSpace, workload: Workload = SMALL, **changes: object) -> SearchOutcome:
    return run_exploration(workload, space, EDP, out=out, **{"samples": 400, **changes})  # type: ignore[arg-type]


def granted(space: DesignSpace, hint: str) -> DesignSpace:
    """The space with the bounds of a hint."""
    bounds = space.constraints.model_dump()
    found = re.findall(r"([\w.]+) ([0-9.e+-]+) (?:mm²|KiB|mW|cycles|µJ)", hint.partition("together: ")[2])
    assert found, hint
    for path, value in found:
        *where, last = path.split(".")
        inner = bounds
        for name in where:
            inner = inner[name]
        assert float(value) > inner[last], "only bounds that are too tight are relaxed"
        inner[last] = float(value)
    return dataclasses.replace(space, constraints=Constraints.model_validate(bounds))


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=[pytest.mark.slow] * (n in (1, 2, 4, 6, 8))) for n in range(len(WISHES))]
)
def test_an_impossible_wish_is_answered_with_bounds_that_are_feasible(tmp_path: Path, number: int) -> None:
    base, wish = WISHES[number]
    space = dataclasses.replace(base, constraints=Constraints.model_validate(named(wish)))
    with pytest.raises(InfeasibleError) as caught:
        explore(tmp_path / "wish", space, samples=100_000)
    message, hint = caught.value.message, caught.value.hint or ""
    assert message.startswith("no design can satisfy the constraints")
    with StudyRecord.open(tmp_path / "wish" / FILE_NAME, read_only=True) as study:
        last, nearest = study.summaries()[-1], study.nearest()
    assert last.evaluations < 3 * infeasible._HOPELESS * len(SMALL.tasks), "an answer in seconds"
    # every bound that the nearest design breaks is named with what it reaches, and so is what would do
    values = {path: last.details[infeasible.PREFIX + path] for path in space.constraints.bounds}
    assert nearest
    for path, bound in space.constraints.bounds.items():
        assert (path in hint) or values[path] <= bound
    # put in, the bounds of the hint succeed
    assert first_design(granted(space, hint), SMALL, 200) <= 200


@pytest.mark.parametrize(
    ("base", "wish", "broken"),
    [
        (GEMMINI, {"area_mm2": 0.01, "latency_cycles": 100.0}, {"area_mm2", "latency_cycles"}),
        pytest.param(
            GEMMINI,
            {"sram_kib": 2.0, "energy_uj": 0.1, "power_mw": 1e4},
            {"sram_kib", "energy_uj"},
            marks=pytest.mark.slow,
        ),
        (
            GEMMINI,
            {"area_mm2": 0.01, "sram_kib": 2.0, "power_mw": 0.01},
            {"area_mm2", "sram_kib", "power_mw"},
        ),
        (GEMMINI, {"area_mm2": 0.01, "latency_cycles": 1e12}, {"area_mm2"}),
        (REFERENCE, {"area_mm2": 0.001, "networks": {"tiny": {"energy_uj": 1e-3}}}, {"area_mm2", "networks"}),
    ],
)
def test_where_no_accelerator_is_small_enough_the_other_bounds_are_named_too(
    tmp_path: Path, base: DesignSpace, wish: dict[str, object], broken: set[str]
) -> None:
    space = dataclasses.replace(base, constraints=Constraints.model_validate(named(wish)))
    with pytest.raises(InfeasibleError, match="no design is feasible") as caught:
        explore(tmp_path / "wish", space)
    hint = caught.value.hint or ""
    assert {
        path.partition(".")[0] for path in re.findall(r"([\w.]+) [0-9.e+-]+ (?:mm|KiB|mW|cyc|µJ)", hint)
    } == broken
    better = granted(space, hint)
    check_feasible(better)
    assert first_design(better, SMALL, 200) <= 200


def test_what_cannot_be_proven_ends_when_it_comes_no_nearer(tmp_path: Path) -> None:
    """Any design can be slow, so that beyond what idle silicon takes nothing is proven of power alone."""
    space = dataclasses.replace(GEMMINI, constraints=Constraints(power_mw=4.0))
    budget = 20_000
    with pytest.raises(InfeasibleError, match="no design satisfies the constraints") as caught:
        explore(tmp_path, space, samples=budget)
    path = tmp_path / FILE_NAME
    with StudyRecord.open(path, read_only=True) as study:
        summaries, nearest = study.summaries(), study.nearest()
        assert study.best() is None
        assert not study.candidates()
    assert summaries[-1].evaluations < budget * len(SMALL.tasks) / 4
    # asked again, it says the same without searching
    with pytest.raises(InfeasibleError) as again:
        explore(tmp_path, space, samples=budget, resume=True)
    assert str(again.value) == str(caught.value)
    # the report shows the nearest designs, and by how much
    data = report_data(path)
    text = summary(data)
    assert "No design satisfies the constraints" in text["text"]
    assert len(text["front"]) == len(nearest) > 1
    power = [front["violations"]["power_mw"] for front in text["front"]]
    assert text["best"]["violations"]["power_mw"]["value"] == min(one["value"] for one in power)
    for one, candidate in zip(power, sorted(nearest, key=lambda c: c.cost.latency_cycles), strict=True):
        assert one["bound"] == 4.0
        cost = candidate.cost
        assert one["value"] == pytest.approx(cost.energy_pj / cost.latency_cycles, rel=1e-9)  # at 1 GHz
    assert all(bound["ratio"] >= 1 for bound in text["bounds"])


def test_the_nearest_designs_go_when_there_is_a_feasible_one(tmp_path: Path) -> None:
    """A bound a little below the first designs: at first none is feasible, in the end the study holds no others."""
    free = explore(tmp_path / "free", GEMMINI, samples=100).best.cost.latency_cycles
    space = dataclasses.replace(GEMMINI, constraints=Constraints(latency_cycles=free * 1.02, sram_kib=100))
    found = explore(tmp_path / "bound", space, samples=100)
    with StudyRecord.open(tmp_path / "bound" / FILE_NAME, read_only=True) as study:
        assert not study.nearest()
        assert study.best() is not None
    assert found.best.cost.latency_cycles <= free * 1.02


def first_design(space: DesignSpace, workload: Workload, samples: int) -> int:
    """Samples after which a search has a design, and that none of them is called impossible before."""
    layers = layers_of_tasks(workload.tasks, workload)
    name = default_cost_model(space)
    rest = rest_in_space(workload, space) if name == "instruction" else None
    if rest is None or not units_may_pay(space, rest):
        space, rest = space.without_units(), rest and rest.without_units()
    limits = limits_of(workload.tasks, space, layers if name == "instruction" else None, rest)
    assert impossible(limits) is None
    model = make_cost_model(name, layers, space, rest)
    searcher = make_searcher("gradient", SearchSetup(workload.tasks, space, EDP, None, 0, model))
    while True:
        result = searcher.step()
        spent = result.evaluations // len(workload.tasks)
        if result.candidates or spent > samples:
            assert result.candidates
            return spent


def test_the_example_of_the_documentation_is_feasible() -> None:
    space = load_space(Path(__file__).parents[1] / "small_edge_device.yaml")
    workload = Workload.of(
        [load_network(one.network) for one in space.networks], [one.weight for one in space.networks]
    )
    assert first_design(space, workload, 200) <= 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "networks", "wish"),
    [
        ("gemmini", ["resnet50"], {"area_mm2": 1.5, "latency_cycles": 1e6}),
        ("gemmini", ["resnet50"], {"area_mm2": 1.5, "energy_uj": 3000}),
        ("gemmini", ["resnet18"], {"area_mm2": 1.0, "latency_cycles": 6e6, "power_mw": 300}),
        ("gemmini", ["mobilenet_v2"], {"latency_cycles": 1e5, "energy_uj": 500}),
        ("gemmini", ["bert_base"], {"sram_kib": 128, "latency_cycles": 2e7, "power_mw": 100}),
        (
            "gemmini",
            ["resnet18", "mobilenet_v2"],
            {"networks": {"resnet18": {"latency_cycles": 1e6}, "mobilenet_v2": {"energy_uj": 100}}},
        ),
        ("reference", ["resnet50"], {"latency_cycles": 1e5}),
        ("reference", ["deepbench_face"], {"area_mm2": 1.0, "energy_uj": 100, "power_mw": 10}),
        ("gemmini", ["llama2_7b"], {"latency_cycles": 1e7}),
        ("gemmini", ["gpt2"], {"power_mw": 0.1}),
        ("gemmini", ["resnet18"], {"power_mw": 5}),
        ("gemmini", ["retinanet"], {"area_mm2": 0.5, "latency_cycles": 5e7, "energy_uj": 1e5}),
    ],
)
def test_impossible_wishes_about_networks(
    tmp_path: Path, base: str, networks: list[str], wish: dict[str, object]
) -> None:
    workload = Workload.of([load_network(name) for name in networks], [1.0] * len(networks))
    space = dataclasses.replace(published_space(base), constraints=Constraints.model_validate(wish))
    with pytest.raises(InfeasibleError) as caught:
        explore(tmp_path / "wish", space, workload, samples=None)
    explore(tmp_path / "granted", granted(space, caught.value.hint or ""), workload)


def test_the_least_power_is_that_of_designs_that_are_fast_enough() -> None:
    """Slower ones take less power; of energy the least is the least of all."""
    constraints = Constraints.model_validate({"power_mw": 2.0, "energy_uj": 3.0})
    proof = Impossible({"power_mw": 4.0, "energy_uj": 6.0}, ())
    message = infeasible_error(constraints, {}, 1200, proof).message
    assert message == (
        "no design can satisfy the constraints: power_mw <= 2 mW, but no design of the space that is fast enough is below"
        " 4 mW; energy_uj <= 3 µJ, but no design of the space is below 6 µJ, in 1,200 evaluations"
    )
