"""All parts of a report add up to its headline, in everything that it writes, whatever was explored and measured."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import baco
import baco.exploration.measure.session as running
from baco.compiler.network.plan import Plan
from baco.compiler.network.prediction import predict_steps
from baco.compiler.network.program import NetworkProgram
from baco.exploration.breakdown import CostEntry, MeasuredPart
from baco.exploration.candidate import Cost
from baco.exploration.measure import written
from baco.exploration.measure.compare import prediction_change
from baco.exploration.measure.job import Measurable, MeasurementJob
from baco.exploration.measure.measurement import Measurement, OperatorMeasurement
from baco.exploration.measure.program_job import ProgramJob, compile_plan
from baco.exploration.measure.session import ValidationOptions, validate_file
from baco.exploration.objective import Objective
from baco.exploration.report.bottlenecks import bottlenecks
from baco.exploration.report.measured_costs import START_AND_END
from baco.exploration.report.study_report import report_data
from baco.exploration.report.summary import network_totals, summary_text
from baco.exploration.space import load_space
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.study import FILE_NAME
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload
from tests.explore import report_helpers as helpers
from tests.explore.report_sums import deviations
from tests.explore.validate_helpers import fake_measuring, made_up, small_space
from tests.seeds import some

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("short_reports", "short_networks")]

_COMPILED: dict[str, NetworkProgram] = {}
#: Sums of some hundred numbers, in whatever order.
ROUNDING = 1e-12
#: With groups, and with operators on the host.
IMAGE, TEXT = "mobilenet_v2:image=64", "bert_base:seq=16"
#: Ten networks that the slow test explores, as small as they may be.
NETWORKS = (
    *("resnet18:image=64", "resnet50:image=64", "mobilenet_v2:image=64", "bert_base:seq=32", "gpt2:seq=16"),
    *("vit_b16:image=64", "tinyllama_1b:seq=8", "unet:image=188", "retinanet:image=64", "deepbench_face"),
)


def search(
    folder: Path,
    networks: Sequence[str],
    objective: str = "edp",
    *,
    samples: int = 20,
    weights: Sequence[float] | None = None,
    **options: Any,
) -> None:
    space = replace(load_space("gemmini"), dim=(16,), scratchpad_kib=(64, 256), accumulator_kib=(32, 64))
    run_exploration(
        Workload.of([load_network(name) for name in networks], weights),
        space,
        Objective.parse(objective),
        samples=samples,
        out=folder,
        **options,
    )


def check(folder: Path, *, script: bool = False) -> None:
    """`script`: what the page draws and saves, too."""
    found = deviations(folder, script=script)
    assert found
    assert {name: value for name, value in found.items() if value > ROUNDING} == {}


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a study of a network, searched once."""
    found: dict[str, Path] = {}

    def folder(network: str) -> Path:
        if network not in found:
            found[network] = tmp_path_factory.mktemp("study")
            search(found[network], [network])
        return found[network]

    return folder


def copied(studies: Callable[[str], Path], network: str, folder: Path) -> None:
    for file in studies(network).glob(FILE_NAME + "*"):
        shutil.copy(file, folder)


@pytest.mark.parametrize("network", [IMAGE, TEXT])
def test_predicted_parts_add_up(tmp_path: Path, studies: Callable[[str], Path], network: str) -> None:
    copied(studies, network, tmp_path)
    check(tmp_path, script=True)
    data = report_data(tmp_path / FILE_NAME)
    kinds = {(one.kind, one.on) for costs in data.costs if costs for one in costs.entries}
    assert (("group", "accelerator") if network == IMAGE else ("operator", "host")) in kinds
    # whoever runs by itself in no program has no time of its own, and says where it runs
    for costs in filter(None, data.costs):
        for one in costs.layers:
            assert one.runs > 0 or one.groups


@pytest.mark.parametrize(
    ("network", "options"),
    [
        pytest.param(IMAGE, {"objective": "energy"}, marks=pytest.mark.slow),
        (TEXT, {"objective": "energy"}),
        pytest.param(IMAGE, {"objective": "latency"}, marks=pytest.mark.slow),
        (TEXT, {"cost_model": "reference"}),
        (TEXT, {"whole": False}),
        (TEXT, {"fusion": False}),
    ],
)
def test_other_objectives_and_costs_add_up(tmp_path: Path, network: str, options: dict[str, Any]) -> None:
    """Of other metrics; of layers alone, by either model, and of programs without groups."""
    search(tmp_path, [network], **options)
    check(tmp_path)


def compiled_once(plan: Plan) -> NetworkProgram:
    """The program of a plan, which both these measurements and the files of the best design ask for."""
    key = repr(plan.identity)
    if key not in _COMPILED:
        _COMPILED[key] = compile_plan(plan)
    return _COMPILED[key]


def measured_program(job: ProgramJob) -> Measurement:
    """Made up: every operator takes a third more than predicted, and 321 cycles are before and behind all."""
    built = compiled_once(job.plan)
    cycles: dict[str, float] = {}
    host = {step.operator: not step.accelerator for step in built.lowered.steps}
    for step, cost in zip(built.lowered.steps, predict_steps(built.lowered, job.accelerator), strict=True):
        cycles[step.operator] = cycles.get(step.operator, 0.0) + cost.cycles
    operators = tuple(
        OperatorMeasurement(name, "code", "host" if host[name] else "accelerator", int(4 * taken / 3), taken)
        for name, taken in cycles.items()
    )
    terms = dict.fromkeys(("mac", "registers", "accumulator", "scratchpad", "dram", "host"), 1e6)
    total = sum(one.cycles for one in operators) + 321
    return Measurement(
        "measured", cycles=total, program_cycles=total, energy_pj=6e6, energy_terms_pj=terms,
        operators=operators, config_hash=job.accelerator.config_hash,
    )  # fmt: skip


def measured(job: Measurable) -> Measurement:
    if isinstance(job, ProgramJob):
        return measured_program(job)
    assert isinstance(job, MeasurementJob)
    return made_up(job)


@pytest.mark.parametrize("network", some(0, [IMAGE, ""]))
def test_measured_programs_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, studies: Callable[[str], Path], network: str
) -> None:
    """Of one network, and of a mix of two with weights."""
    monkeypatch.setattr(running, "gather", fake_measuring(measured))
    monkeypatch.setattr(written, "compile_plan", compiled_once)
    if network:
        copied(studies, network, tmp_path)
    else:
        search(tmp_path, ["resnet18:image=32", IMAGE], weights=[3.0, 0.5])
        check(tmp_path)
    validate_file(tmp_path / FILE_NAME, ValidationOptions(2 if network else 1, 0))
    check(tmp_path, script=True)
    data = report_data(tmp_path / FILE_NAME)
    costs = data.best_costs
    assert costs.measured is not None
    (validated,) = [design for index, design in data.validated.items() if index == data.best_index]
    for program in validated.programs:
        assert program.measured is not None
        own = [entry for entry in costs.measured_entries if entry.network == program.network]
        total = sum(entry.measured.cycles for entry in own if entry.measured)
        assert total == pytest.approx(program.weight * program.measured.cycles, rel=ROUNDING)
        (start,) = [entry for entry in own if entry.name == START_AND_END]
        assert start.measured == MeasuredPart(program.weight, program.weight * 321)
        host = sum(entry.measured.cycles for entry in own if entry.on == "host" and entry.measured)
        assert host == pytest.approx(program.weight * program.measured.host_cycles)
    # groups that the program runs are those of its plan
    for program in validated.programs:
        plan = program.plan
        assert plan is not None
        names = {entry.name for entry in costs.measured_entries if entry.kind == "group"}
        assert {" > ".join(n.partition("[")[0] for n in group.split(" > ")) for group in plan.groups} <= names
    # of a design there is one prediction of the search and one of its programs, and words for what lies between
    before, after = validated.searched, validated.predicted
    assert before is not None
    assert after is not None
    assert before == data.prediction(data.best_index)
    text = prediction_change(validated)
    if before != after:
        assert f"predicted {before.latency_cycles:,.0f} cycles" in text
        assert f"to take {after.latency_cycles:,.0f}." in text
        layers, *ways = map(
            int, re.findall(r"(\d+) (?:different|run as the search|as the compiler|in groups)", text)
        )
        assert layers == len(data.tasks) == sum(ways)
        assert sum(len(program.plan.groups) for program in validated.programs if program.plan) == int(
            re.findall(r"(\d+) groups run as one unit", text)[0]
        )
    else:
        assert text == ""


def test_layers_measured_one_by_one_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, studies: Callable[[str], Path]
) -> None:
    """What programs do besides is part of the headline as predicted."""
    monkeypatch.setattr(running, "gather", fake_measuring(measured))
    copied(studies, IMAGE, tmp_path)
    validate_file(tmp_path / FILE_NAME, ValidationOptions(1, 0, cycle_limit=1e15))
    check(tmp_path)
    data = report_data(tmp_path / FILE_NAME)
    assert data.source == data.best.cost.source == "measured"
    latency, energy = network_totals(data, data.workload.networks[0])
    assert latency == pytest.approx(data.best.cost.latency_cycles)
    assert energy == pytest.approx(data.best.cost.energy_pj)


def test_designs_that_break_constraints_add_up(tmp_path: Path) -> None:
    space = small_space(dim=(16,))
    strict = replace(space, constraints=space.constraints.model_copy(update={"latency_cycles": 10.0}))
    with pytest.raises(baco.InfeasibleError):
        run_exploration(
            Workload.of([load_network(TEXT)]), strict, Objective.parse("edp"), samples=20, out=tmp_path
        )
    check(tmp_path)


def test_a_part_that_is_missing_is_a_mistake() -> None:
    """Of a headline that is more, or less, than its parts, no report is made."""
    data = helpers.report_data()
    costs = data.best_costs
    wrong = list(data.costs)
    wrong[data.best_index] = replace(costs, layers=(replace(costs.layers[0], runs=0.0), *costs.layers[1:]))
    with pytest.raises(ValueError, match="predicted cycles: parts add up to"):
        replace(data, costs=wrong)
    wrong[data.best_index] = replace(costs, whole=True)  # the softmax was not part of it
    with pytest.raises(ValueError, match="predicted cycles: parts add up to"):
        replace(data, costs=wrong)
    headline = Cost(100.0, 50.0, 1.0, "measured")
    part = {costs.layers[0].key: MeasuredPart(1.0, 99.0)}
    with pytest.raises(ValueError, match="measured cycles: parts add up to 99"):
        costs.with_measured(headline, part, {"tiny": (100.0, 50.0)}).check(None)


def test_the_host_comes_first_where_it_dominates() -> None:
    """As a resource like others: what twice of it gives is of the whole program, and words and tables name it."""
    data = helpers.report_data()
    costs = replace(data.best_costs, whole=True)
    busy = 4 * data.best.cost.latency_cycles
    host = CostEntry(
        "tiny", "resize", "operator", "resize", "host", 2.0, busy / 2, {"host": 7.0}, ("resize",)
    )
    costs = replace(costs, beside=(host,))
    whole = Cost(costs.cycles, costs.energy_pj, data.best.cost.area_mm2)
    best = replace(data.best, cost=whole)
    data = replace(
        data,
        candidates=[best],
        best=best,
        costs=[costs],
        details={0: data.details[data.best_index]},
        search=replace(data.search, whole=True),
    )
    first, *others = bottlenecks(costs, data.details[0])
    assert (first.name, first.entries, first.cycles) == ("host", 1, busy)
    assert first.doubled_cycles == pytest.approx(whole.latency_cycles - busy / 2)
    for one in others:
        assert one.doubled_cycles is not None
        assert one.doubled_cycles >= busy
    text = summary_text(data)
    assert "Its time goes to: the host core 80%" in text
    assert "the whole program would be faster with a host core of twice the speed 1.67 times" in text


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_ten_networks_and_three_objectives_add_up(tmp_path: Path) -> None:
    """Prints the largest deviation of every view."""
    largest: dict[str, tuple[float, str]] = {}
    for name in NETWORKS:
        for objective in ("edp", "latency", "energy"):
            folder = tmp_path / f"{name.replace(':', '-')}-{objective}"
            baco.explore(name, objective=objective, samples=60, out=folder, progress=False)
            for view, value in deviations(folder).items():
                largest[view] = max(largest.get(view, (0.0, "")), (value, f"{name}, {objective}"))
    for view, (value, where) in sorted(largest.items()):
        print(f"{view}: {value:.1e} ({where})")
    assert max(value for value, _ in largest.values()) < ROUNDING
