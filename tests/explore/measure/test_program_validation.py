"""Validation of whole programs: compiled with the mappings of a study, run on the RTL from input to output, and kept."""

import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import baco
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.layers.layer import Layer
from baco.compiler.network.plan import Plan
from baco.compiler.network.reference import reference
from baco.exploration.measure.compare import model_error
from baco.exploration.measure.measured_design import Design
from baco.exploration.measure.program_job import ProgramJob, compile_plan
from baco.exploration.measure.session import ValidationOptions, measured_designs, validate_file
from baco.exploration.objective import Objective
from baco.exploration.report.measured_costs import START_AND_END
from baco.exploration.report.study_report import report_data, write_study_report
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.study import FILE_NAME, StudyRecord
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Network, Operator, Tensor, Workload
from baco.workloads.problem import Problem
from tests.explore.report.test_report_page import Engine
from tests.explore.report_sums import deviations
from tests.explore.validate_helpers import PUBLISHED, small_space

pytestmark = pytest.mark.usefixtures("short_reports")

NETWORK = "resnet18:image=32"
SCHEMA = Path(__file__).parents[3] / "baco" / "exploration" / "report" / "summary.schema.json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of one accelerator, whose best design has been validated as a whole program."""
    out = tmp_path_factory.mktemp("whole")
    mix = Workload.of([load_network(NETWORK)])
    run_exploration(
        mix, small_space(**PUBLISHED), Objective.parse("edp"),
        samples=80, out=out,
    )  # fmt: skip
    validate_file(out / FILE_NAME, ValidationOptions(best=1, spread=0))
    write_study_report(out / FILE_NAME, out)
    return out


def designs(folder: Path) -> list[Design]:
    with StudyRecord.open(folder / FILE_NAME, read_only=True) as study:
        return measured_designs(study)


def test_every_operator_is_right_and_the_whole_is_measured(folder: Path) -> None:
    (one,) = designs(folder)
    assert one.status == "measured"
    (program,) = one.programs
    measured = program.measured
    assert measured is not None
    assert measured.operators[-1].operator == "fc"
    assert sum(operator.cycles for operator in measured.operators) == pytest.approx(measured.cycles, rel=0.01)
    assert 0 < measured.host_cycles < measured.cycles
    assert measured.energy_pj == pytest.approx(sum(measured.energy_terms_pj.values()))
    assert one.measured is not None
    assert (one.measured.latency_cycles, one.measured.energy_pj) == (measured.cycles, measured.energy_pj)


def test_parts_of_the_report_add_up(folder: Path) -> None:
    """Predicted ones to what the search predicted, measured ones to what was measured, start and end of the program included."""
    assert max(deviations(folder, script=False).values()) < 1e-9
    costs = report_data(folder / FILE_NAME).best_costs
    own = {entry.name: entry.measured for entry in costs.measured_entries}
    start = own.pop(START_AND_END)
    assert start is not None
    assert 0 < start.cycles < 0.01 * sum(measured.cycles for measured in own.values() if measured is not None)
    assert all(
        layer.measured is not None for layer in costs.layers
    )  # none of the groups of so small an image pays


def test_the_whole_is_predicted(folder: Path) -> None:
    """Cycles and energy of the search's candidate, of its program, and as measured, are near each other."""
    (one,) = designs(folder)
    (program,) = one.programs
    assert program.ratio == pytest.approx(1, abs=0.1)
    error = model_error([one])
    assert error is not None
    assert (error.what, error.count, error.worst_ratio) == ("whole programs", 1, program.ratio)
    with StudyRecord.open(folder / FILE_NAME, read_only=True) as study:
        best = study.best()
    assert best is not None
    assert one.measured is not None
    assert best.cost.latency_cycles == pytest.approx(one.measured.latency_cycles, rel=0.1)
    assert best.cost.energy_pj == pytest.approx(one.measured.energy_pj, rel=0.15)


def test_the_program_is_made_again_from_its_plan_byte_for_byte(folder: Path) -> None:
    plan = Plan.read(folder / "best" / "plan.json")
    elf = (folder / "best" / "program.elf").read_bytes()
    assert Plan.from_json(json.loads(plan.text)) == plan
    assert compile_plan(plan).program.elf == elf
    again = baco.compile(folder / "best" / "plan.json").elf
    assert hashlib.sha256(again).hexdigest() == hashlib.sha256(elf).hexdigest()
    assert (folder / "best" / "gemmini_params.h").read_text().count("#define DIM 16\n") == 1


def test_reports_show_accelerator_host_and_whole(folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    (design,) = summary["validation"]["designs"]
    (program,) = design["programs"]
    for source in ("predicted", "measured"):
        for quantity in ("cycles", "energy_uj"):
            parts = program[source][quantity]
            assert parts["accelerator"] + parts["host"] == pytest.approx(parts["whole"])
    assert summary["best"]["cost"]["source"] == "measured"
    assert summary["program"]["source"] == "measured"
    assert design["layers"] == []
    engine = Engine((folder / "report.html").read_text())
    assert "one program, with the mappings of the search" in engine.text("validation-hint")
    assert "Operators of resnet18 on best 1" in engine.text("validation-parts")
    (row,) = engine.rows("programs")
    assert row.startswith("best 1 | resnet18 | ")
    assert f" | {program['measured']['cycles']['whole']:,} | " in row


def test_a_validation_does_not_measure_twice(folder: Path) -> None:
    class Watch:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def begin(self, designs: object, jobs: int, cycles: float) -> None:
            self.seen.append(f"{jobs} jobs")

        def measured(self, finished: int, result: object, job: object, predicted: float | None) -> None:
            self.seen.append(result.seconds)  # type: ignore[attr-defined]

        def note(self, text: str) -> None: ...

    (before,) = designs(folder)
    assert before.programs[0].measured is not None
    watch = Watch()
    validate_file(folder / FILE_NAME, ValidationOptions(best=1, spread=0), progress=watch)  # type: ignore[arg-type]
    assert watch.seen == ["1 jobs", before.programs[0].measured.seconds]


def test_a_plan_refuses_what_it_does_not_know(folder: Path, tmp_path: Path) -> None:
    plan = Plan.read(folder / "best" / "plan.json")
    with pytest.raises(InfeasibleError, match="the plan has no schedule for P3 C5 K7"):
        plan(Layer(Problem(P=3, C=5, K=7)))
    path = tmp_path / "plan.json"
    for text, why in (
        ("{", "this is no plan"),
        ("[]", "it has accelerator, data, groups, network, quantiser, schedules, seed"),
        (plan.text.replace('"seed": 0', '"seed": -1'), "whole number"),
        (plan.text.replace("loop_", "lop_"), "is no schedule"),
        (plan.text.replace('"dim": 16', '"dim": 1'), "dim"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=why):
            Plan.read(path)
    spec = str(folder / "best" / "plan.json")
    for options, why in (
        ({"accelerator": "gemmini-large"}, "the plan is for the accelerator"),
        ({"mappings": "compiler"}, "`mappings` and a plan exclude each other"),
    ):
        with pytest.raises(InputError, match=why):
            baco.compile(spec, **options)


def test_a_wrong_program_is_a_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an operator must have written is altered by one: the run says which and where."""
    plan = Plan.read(folder / "best" / "plan.json")
    network = compile_plan(plan).network
    name = next(one for one, value in network.values.items() if value.role == "output")

    def wrong(*given: Any) -> dict[str, Any]:
        values = reference(*given)
        return values | {name: values[name] + (values[name] < 127) - (values[name] == 127)}

    monkeypatch.setattr("baco.exploration.measure.program_job.reference", wrong)
    found = ProgramJob(plan).run()
    assert found.status == "failed"
    assert "fc" in found.reason


def test_networks_that_are_no_programs_are_measured_layer_by_layer(tmp_path: Path) -> None:
    """A graph without semantics that came from nowhere."""
    op = Operator("product", "layer", ("x",), Tensor("y", (1,)), Problem(P=8, C=8, K=8))
    notes: list[str] = []

    class Watch:
        def begin(self, designs: object, jobs: int, cycles: float) -> None: ...
        def measured(self, *_: object) -> None: ...
        def note(self, text: str) -> None:
            notes.append(text)

    run_exploration(
        Workload.of([Network("bare", (), (op,))]), small_space(), Objective.parse("edp"), samples=20, out=tmp_path
    )  # fmt: skip
    validate_file(tmp_path / FILE_NAME, ValidationOptions(best=1, spread=0), progress=Watch())  # type: ignore[arg-type]
    assert any("layers are measured one by one" in note for note in notes)
    (one,) = designs(tmp_path)
    assert one.status == "measured"
    assert not one.programs
    data = report_data(tmp_path / FILE_NAME)
    assert data.best.cost.source == "measured"
    assert not (tmp_path / "best" / "program.elf").exists()
