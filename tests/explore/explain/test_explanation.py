"""Why a design, and what else: of real studies, each figure against an evaluation of its own."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from baco import load_study
from baco.accel.config import Accelerator
from baco.accel.technology import PUBLISHED
from baco.api.result import Result
from baco.common.errors import InfeasibleError, InputError
from baco.exploration.breakdown import MeasuredPart
from baco.exploration.cost.layer_costs import layer_costs
from baco.exploration.cost.predicted import instruction_costs
from baco.exploration.cost.program_rest import Programs, rest_of_programs
from baco.exploration.explain import beside
from baco.exploration.explain.remap import Remapped
from baco.exploration.explain.steps import Neighbour, Neighbours
from baco.exploration.objective import Objective, metric
from baco.exploration.report.page import page_html
from baco.exploration.report.study_report import report_data
from baco.exploration.report.summary import SCHEMA_PATH, summary_json
from baco.exploration.report.why import Explanation, explanation
from baco.exploration.report.why_text import step_words
from baco.exploration.rest import RestOfPrograms
from baco.exploration.space import DesignSpace, in_technology, load_space
from baco.exploration.studies.engine import run_exploration
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload
from tests.explore import study_helpers
from tests.explore.report.test_report_page import Engine

BERT = "bert_base:seq=32"
SMALL = dataclasses.replace(
    load_space("gemmini"), dim=(8, 16), scratchpad_kib=(64, 128, 256), accumulator_kib=(16, 32, 64)
)
# supplies of several clocks are known of published machines alone
SETTINGS = dataclasses.replace(
    in_technology(SMALL, PUBLISHED),
    search_units=False,
    settings=(("dma_bits", (64, 128)), ("clock_mhz", (500, 1000))),
    clocks=True,
)


def search(folder: Path, space: DesignSpace, objective: str = "edp", **options: Any) -> Result:
    mix = options.pop("mix", None) or Workload.of([load_network(BERT)])
    run_exploration(mix, space, Objective.parse(objective), samples=40, out=folder, **options)
    return load_study(folder)


#: Studies by name: what they explore.
STUDIES: dict[str, Callable[[Path], Result]] = {
    "whole": lambda folder: search(folder, SMALL),
    "unfused": lambda folder: search(folder, SMALL, "latency,energy", fusion=False),
    "settings": lambda folder: search(folder, SETTINGS),
    "reference": lambda folder: search(
        folder, study_helpers.REFERENCE, mix=study_helpers.small_workload(), cost_model="reference"
    ),
    "mix": lambda folder: search(
        folder,
        SMALL.constrain(power_mw=900.0),
        "edap",
        mix=Workload.of([load_network("deepbench_ocr"), load_network("deepbench_face")], [1.0, 3.0]),
        whole=False,
        searcher="random",
    ),
}


@pytest.fixture(
    scope="module",
    params=[pytest.param(one, marks=[pytest.mark.slow] * (one == "unfused")) for one in STUDIES],
)
def study(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A study of each kind, which tests only read."""
    return STUDIES[request.param](tmp_path_factory.mktemp(request.param))


def near(study: Result) -> Neighbours:
    found = study.explain().neighbours
    assert found is not None
    return found


def priced(study: Result) -> list[Neighbour]:
    return [one for one in near(study).steps if one.found is not None]


def evaluated(study: Result, one: Remapped) -> tuple[float, float]:
    """Cycles and energy (pJ) of an accelerator with some mappings, from the layers' own costs and what programs do beside them."""
    data = study.data
    layers = layers_of_tasks(data.tasks, data.workload)
    if study.cost_model == "reference":
        costs = layer_costs([layer.problem for layer in layers], one.mappings, one.accelerator)
    else:
        costs = instruction_costs(layers, one.mappings, one.accelerator)
    runs = [task.count for task in data.tasks]
    cycles = pj = 0.0
    if one.rest is not None:
        runs = one.rest.counts(data.tasks, one.accelerator)
        cycles, pj = rest_of(study, one).whole(one.accelerator)
    cycles += math.fsum(n * cost.latency_cycles for n, cost in zip(runs, costs, strict=True))
    return cycles, pj + math.fsum(n * cost.energy_pj for n, cost in zip(runs, costs, strict=True))


@functools.cache
def read_anew(specs: tuple[str, ...], weights: tuple[float, ...]) -> tuple[Workload, Programs]:
    """Networks, and what becomes of them as programs, which is read once for all accelerators."""
    workload = Workload.of([load_network(spec) for spec in specs], list(weights))
    return workload, Programs(workload.networks, keep=False)


def rest_of(study: Result, one: Remapped) -> RestOfPrograms:
    """What programs do beside their layers, lowered for the accelerator itself; groups as they were decided on."""
    assert one.rest is not None
    mix = study.data.workload
    workload, programs = read_anew(tuple(network.spec for network in mix.networks), tuple(mix.weights))
    found = rest_of_programs(workload, [one.accelerator], programs=programs)
    return dataclasses.replace(found, fused=one.rest.fused)


def test_neighbours_cost_what_their_mappings_cost_by_themselves(study: Result) -> None:
    found = near(study)
    for one in [found.reference, *(step.found for step in priced(study))]:
        assert one is not None
        cycles, pj = evaluated(study, one)
        assert one.cost.latency_cycles == pytest.approx(cycles, rel=1e-9)
        assert one.cost.energy_pj == pytest.approx(pj, rel=1e-9)
        assert one.cost.area_mm2 == pytest.approx(one.accelerator.area_mm2, rel=1e-12)
        assert one.cost.source == "predicted"


def test_neighbours_are_the_accelerators_that_their_steps_name(study: Result) -> None:
    for one in priced(study):
        assert one.found is not None
        assert one.step.accelerator is not None
        assert one.found.accelerator.config_hash == one.step.accelerator.config_hash
        assert one.found.accelerator.config_hash != study.best.accelerator.config_hash
    assert near(study).reference.accelerator.config_hash == study.best.accelerator.config_hash
    assert {one.step.parameter for one in priced(study)} >= {"dim", "scratchpad_kib", "memory_gb_s"}


def seconds(name: str, cycles: float, pj: float, machine: Accelerator) -> float:
    """A metric with delays in nanoseconds."""
    delay = cycles * 1e3 / machine.clock_mhz
    area = machine.area_mm2
    values = {"latency": delay, "energy": pj, "area": area, "edp": delay * pj, "edap": delay * pj * area}
    return values[name]


def test_ratios_are_those_of_costs_with_latency_as_time(study: Result) -> None:
    found = near(study)
    base = found.reference
    for one in priced(study):
        assert one.found is not None
        assert {"latency", "energy", "area", *study.objective.metrics} == set(one.ratios)
        for name, ratio in one.ratios.items():
            above, below = (
                seconds(name, x.cost.latency_cycles, x.cost.energy_pj, x.accelerator)
                for x in (one.found, base)
            )
            assert ratio == pytest.approx(above / below, rel=1e-9), (one.step.parameter, name)
    # what the design itself gains by being mapped in the same way
    for name, ratio in found.ratios.items():
        assert ratio == pytest.approx(metric(base.cost, name) / metric(study.best.cost, name), rel=1e-9)
    assert found.ratios[study.objective.metrics[0]] <= 1.01


def test_what_has_no_say_in_the_model_changes_nothing_but_the_area(study: Result) -> None:
    if study.cost_model == "reference":
        assert {neighbour.step.parameter for neighbour in priced(study)} == {
            *("dim", "scratchpad_kib", "accumulator_kib", "memory_gb_s", "clock_mhz")
        }
        return
    queues = [
        neighbour
        for neighbour in priced(study)
        if neighbour.step.parameter in ("execute_queue", "store_queue")
    ]
    assert len(queues) == 4
    for neighbour in queues:
        assert neighbour.found is not None
        assert neighbour.found.cost.latency_cycles == pytest.approx(
            near(study).reference.cost.latency_cycles, rel=1e-12
        )
        assert neighbour.ratios["area"] != 1


def test_a_longer_queue_of_loads_is_never_slower_and_a_shorter_one_never_faster(study: Result) -> None:
    steps = {(one.step.parameter, one.step.way): one for one in priced(study)}
    if study.cost_model == "reference":
        return
    assert steps["load_queue", "up"].ratios["latency"] <= 1 + 1e-9
    assert steps["load_queue", "down"].ratios["latency"] >= 1 - 1e-9


def test_a_wider_channel_is_never_slower_and_a_narrower_one_never_faster(study: Result) -> None:
    steps = {(one.step.parameter, one.step.way): one for one in priced(study)}
    assert steps["memory_gb_s", "up"].ratios["latency"] <= 1 + 1e-9
    assert steps["memory_gb_s", "down"].ratios["latency"] >= 1 - 1e-9


def test_broken_constraints_are_named(study: Result) -> None:
    space = load_space_of(study)
    bounds = space.constraints
    for one in priced(study):
        assert one.found is not None
        cost, machine = one.found.cost, one.found.accelerator
        power = cost.energy_pj / cost.latency_cycles * machine.clock_mhz * 1e-3
        reached = {"area_mm2": (machine.area_mm2, bounds.area_mm2), "power_mw": (power, bounds.power_mw)}
        expected = {name for name, (v, bound) in reached.items() if bound is not None and v > bound}
        assert set(one.found.broken) == expected


def load_space_of(study: Result) -> DesignSpace:
    from baco.common.yaml import parse_yaml
    from baco.exploration.space import read_space

    return read_space(parse_yaml(study.data.search.space_text, "the study's space"))


def test_alternatives_are_on_the_front_and_not_the_best(study: Result) -> None:
    names = study.front_metrics
    designs = study.data.candidates
    table = np.array([[metric(one.cost, name) for name in names] for one in designs])
    explained = study.explain()
    for one in explained.alternatives:
        mine = table[one.design]
        assert one.design != study.data.best_index
        assert not ((table <= mine).all(1) & (table < mine).any(1)).any()
        for name, ratio in one.ratios.items():
            assert ratio == pytest.approx(
                metric(designs[one.design].cost, name) / metric(study.best.cost, name), rel=1e-12
            )
        assert one.ratios[one.gains] == min(one.ratios[one.gains], 0.9) or one.knee
    if len(study.objective.metrics) > 1 and study.knee is not study.best:
        assert designs[explained.alternatives[0].design] is study.knee


def test_the_design_of_equal_area_is_the_best_of_those_that_are_no_larger(study: Result) -> None:
    found, base = study.explain().baseline, study.data.baseline
    assert found is not None
    assert base is not None
    small = [one for one in study.data.candidates if one.cost.area_mm2 <= base.cost.area_mm2]
    if not small:
        assert found.equal_area is None
        return
    least = min(study.objective.scalar(one.cost) for one in small)
    assert found.equal_area is not None
    design = study.data.candidates[found.equal_area]
    assert study.objective.scalar(design.cost) == least
    name = study.objective.metrics[0]
    assert found.equal_area_ratios[name] == pytest.approx(
        least / study.objective.scalar(base.cost), rel=1e-12
    )
    assert found.ratios["area"] == pytest.approx(
        study.best.cost.area_mm2 / base.accelerator.area_mm2, rel=1e-12
    )


def test_limits_add_up_to_the_whole_program(study: Result) -> None:
    found = study.explain()
    assert math.fsum(limit.share for limit in found.limits) == pytest.approx(1)
    assert math.fsum(limit.cycles for limit in found.limits) == pytest.approx(
        study.best.cost.latency_cycles, rel=1e-9
    )
    assert [limit.share for limit in found.limits] == sorted(
        (limit.share for limit in found.limits), reverse=True
    )
    macs = sum(task.count * task.problem.macs for task in study.data.tasks)
    side = study.best.accelerator.dim
    assert found.multipliers == side * side
    assert found.array_in_use == pytest.approx(macs / side**2 / study.best.cost.latency_cycles, rel=1e-6)


def test_sentences_say_what_the_summary_has(study: Result) -> None:
    block = json.loads(summary_json(study.data))["explanation"]
    jsonschema.validate(json.loads(summary_json(study.data)), json.loads(SCHEMA_PATH.read_text("utf-8")))
    limited, stepped, instead = block["text"]
    largest = block["limits"][0]
    assert limited.startswith(f"limited by: {largest['words']} {percent(largest['share'])}")
    assert f"{percent(block['array_in_use'])} of its {block['multipliers']:,} multipliers" in limited
    for alternative in block["alternatives"]:
        assert alternative["text"] in instead
        assert f"(#{alternative['id']})" in alternative["text"]
        assert words(alternative["ratios"][alternative["gains"]]) in alternative["text"]
        assert words(alternative["ratios"][alternative["pays"]]) in alternative["text"]
    assert block["baseline"]["text"] in instead
    # every share in the line about steps is a ratio of one of them
    ratios = [ratio for neighbour in block["neighbours"]["steps"] for ratio in neighbour["ratios"].values()]
    said = re.findall(r"[\d.]+% (?:less|more)|[\d.,]+ × the", stepped)
    assert set(said) <= {words(ratio) for ratio in ratios}
    for neighbour, step in zip(block["neighbours"]["steps"], near(study).steps, strict=True):
        assert neighbour["ratios"] == dict(step.ratios)
        assert (neighbour["before"], neighbour["after"], neighbour["in_space"]) == (
            step.step.before,
            step.step.after,
            step.step.inside,
        )


def percent(value: float) -> str:
    if 0 < value < 0.0005:
        return "under 0.1%"
    return f"{value:.1%}" if value < 0.0995 else f"{value:.0%}"


def words(ratio: float) -> str:
    """A ratio as sentences have it, up to the name of the metric."""
    if ratio >= 2:
        digits = f"{float(f'{ratio:.1e}'):.0f}" if ratio >= 9.95 else f"{ratio:.1f}"
        return f"{digits} × the"
    if abs(ratio - 1) < 0.0005:
        return "the same"
    return f"{percent(abs(ratio - 1))} {'more' if ratio > 1 else 'less'}"


#: Two kinds every time, in the order of all.
OFTEN = [
    kind if kind in ("whole", "reference") else pytest.param(kind, marks=pytest.mark.slow) for kind in STUDIES
]


@pytest.mark.parametrize("study", OFTEN, indirect=True)
def test_it_is_the_same_again_from_the_disk(study: Result) -> None:
    again = load_study(study.folder)
    assert summary_json(again.data) == summary_json(study.data)


def test_it_is_the_same_in_every_form(study: Result) -> None:
    found = study.explain()
    assert repr(found).splitlines()[1:] == list(found.lines)
    table = found.steps()
    assert table["parameter"].tolist() == [neighbour.step.parameter for neighbour in near(study).steps]
    name = study.objective.metrics[0]
    shown = [None if math.isnan(value) else value for value in table[name].tolist()]
    assert shown == [neighbour.ratios.get(name) for neighbour in near(study).steps]
    engine = Engine(page_html(study.data))
    assert engine.get("elements['why'].hidden") is False
    shown = engine.rows("alternatives")
    for alternative, row in zip(found.alternatives, shown[1:], strict=False):
        assert row.startswith(f"#{alternative.design}:")
    assert "no larger than gemmini-default" in engine.text("alternatives")
    rows = engine.rows("steps")
    assert [row.split(" | ")[0] for row in rows] == [
        step_words(neighbour.step) for neighbour in near(study).steps
    ]
    for row, neighbour in zip(rows, near(study).steps, strict=True):
        shown = row.split(" | ")[1]
        if neighbour.ratios:
            assert float(shown.rstrip("%")) == pytest.approx((neighbour.ratios[name] - 1) * 100, abs=0.051)
        else:
            assert shown == "–"
    assert found.steps_html in found._repr_html_()


@pytest.mark.parametrize("study", ["whole"], indirect=True)
def test_a_network_that_is_gone_leaves_the_steps_in_the_space(
    study: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {(neighbour.step.parameter, neighbour.step.way) for neighbour in priced(study)}

    def gone(network: object) -> None:
        raise InputError("the file is not there any more")

    monkeypatch.setattr(beside, "load_again", gone)
    again = load_study(study.folder)
    steps = near(again).steps
    left = {
        (neighbour.step.parameter, neighbour.step.way) for neighbour in steps if neighbour.found is not None
    }
    assert left
    assert left < there
    for neighbour in steps:
        key = (neighbour.step.parameter, neighbour.step.way)
        if key in there - left:
            assert not neighbour.step.inside
            assert neighbour.reason == "the file is not there any more"
    assert "memory_gb_s" not in {name for name, _ in left}


def test_without_a_feasible_design_there_is_nothing_to_explain(tmp_path: Path) -> None:
    mix = study_helpers.small_workload()
    space = study_helpers.small_space(latency_cycles=10.0)
    with pytest.raises(InfeasibleError):
        run_exploration(mix, space, Objective.parse("edp"), samples=30, out=tmp_path, cost_model="reference")
    study = load_study(tmp_path)
    with pytest.raises(InfeasibleError, match="none to explain"):
        study.explain()
    assert json.loads(summary_json(study.data))["explanation"] is None
    assert Engine(page_html(study.data)).get("elements['why'].hidden") is True


def test_a_measured_best_is_compared_with_like_costs(tmp_path: Path) -> None:
    """Alternatives that were not measured stand against what was predicted of the best."""
    STUDIES["reference"](tmp_path)
    data = dataclasses.replace(report_data(tmp_path / "study.sqlite"), find_neighbours=None)
    place = data.best_index
    predicted, costs = data.best.cost, data.costs[place]
    assert costs is not None
    slow = dataclasses.replace(predicted, latency_cycles=3 * predicted.latency_cycles, source="measured")
    best = dataclasses.replace(data.best, cost=slow)
    candidates = [best if n == place else candidate for n, candidate in enumerate(data.candidates)]
    parts = {
        entry.key: MeasuredPart(entry.runs, 3 * entry.total_cycles, entry.total_pj) for entry in costs.entries
    }
    totals = {network.name: (3 * network.cycles, network.energy_pj) for network in costs.networks}
    measured = [
        costs.with_measured(slow, parts, totals) if n == place else cost for n, cost in enumerate(data.costs)
    ]
    before = explanation(data)
    after = explanation(dataclasses.replace(data, candidates=candidates, best=best, costs=measured))
    assert isinstance(before, Explanation)
    assert isinstance(after, Explanation)
    assert [alternative.design for alternative in before.alternatives] == [
        alternative.design for alternative in after.alternatives
    ]
    for alternative, other in zip(before.alternatives, after.alternatives, strict=True):
        assert other.ratios == pytest.approx(dict(alternative.ratios), rel=1e-9)
    assert {alternative.source for alternative in after.alternatives} == {"predicted"}
