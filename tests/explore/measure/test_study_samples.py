"""Samples of a study: kept beside it, used by its programs, and what its report says of the agreement on them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import baco
from baco.common.errors import InputError
from baco.compiler.network.agreement import Agreement
from baco.compiler.network.plan import Plan
from baco.exploration.measure.measurement import Measurement
from baco.exploration.measure.program_job import ProgramJob
from baco.exploration.measure.session import measured_designs
from baco.exploration.report.page import page_html
from baco.exploration.report.study_report import report_data
from baco.exploration.studies.study import FILE_NAME, StudyRecord
from baco.workloads.network import Network
from tests.explore.report.test_report_page import Engine
from tests.explore.validate_helpers import PUBLISHED, small_space

pytestmark = pytest.mark.usefixtures("short_reports")

SCHEMA = Path(__file__).parents[3] / "baco" / "exploration" / "report" / "summary.schema.json"
#: Far from standard normal numbers, which are what ranges are taken from without samples.
SAMPLES = np.random.default_rng(5).uniform(0, 255, (3, 1, 3, 8, 8)).astype(np.float32)


def write_model(path: Path) -> str:
    random = np.random.default_rng(3)
    arrays = {
        "w": random.standard_normal((8, 3, 3, 3)) / 5,
        "b": random.standard_normal(8) / 10,
        "f": random.standard_normal((10, 8)) / 3,
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], name="conv"),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["v"], name="flat"),
        helper.make_node("Gemm", ["v", "f"], ["y"], transB=1, name="fc"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [onnx.numpy_helper.from_array(one.astype(np.float32), name) for name, one in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with samples, whose best design has been validated."""
    out = tmp_path_factory.mktemp("samples")
    model = write_model(out / "small.onnx")
    np.savez(out / "given.npz", x=SAMPLES)
    space = small_space(**PUBLISHED)
    data = str(out / "given.npz")
    found = baco.explore(model, space=space, samples=40, out=out / "study", data=data, progress=False)
    (out / "given.npz").unlink()  # the study has its own
    baco.validate(found, best=1, spread=0, progress=False)
    found.save_report()
    return out / "study"


def measured(folder: Path) -> Measurement:
    with StudyRecord.open(folder / FILE_NAME, read_only=True) as study:
        (design,) = measured_designs(study)
    (program,) = design.programs
    assert program.measured is not None
    return program.measured


def test_the_program_computes_on_the_first_sample_with_ranges_of_all(folder: Path) -> None:
    found = measured(folder).agreement
    assert isinstance(found, Agreement)
    assert not found.random
    assert found.saturated == {}
    assert found.judge.startswith(("onnxruntime", "onnx.reference"))
    assert found.outputs[0].snr_db > 30
    run = baco.run(str(folder.parent / "small.onnx"), data=str(folder / "data.npz"))
    assert run.agreement is not None
    assert run.agreement.outputs == found.outputs
    # the model itself, on the first sample
    from onnx.reference import ReferenceEvaluator

    (wanted,) = ReferenceEvaluator(str(folder.parent / "small.onnx")).run(None, {"x": SAMPLES[0]})
    assert np.abs(run.outputs["y"] - wanted).max() < 0.03 * np.abs(wanted).max()


def test_random_ranges_would_saturate(folder: Path) -> None:
    """What the samples are for."""
    run = baco.run(str(folder.parent / "small.onnx"), inputs={"x": SAMPLES[0]}, data={"x": SAMPLES[0] / 50})
    assert run.agreement is not None
    assert run.agreement.saturated["x"] > 0.9
    assert not run.right


def test_the_best_plan_finds_its_samples_wherever_the_study_lies(folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    (moved / "best").mkdir(parents=True)
    for name in ("best/plan.json", "data.npz"):
        (moved / name).write_bytes((folder / name).read_bytes())
    plans = [Plan.read(one / "best" / "plan.json") for one in (folder, moved)]
    assert plans[0].data is not None
    assert plans[0].data.path != plans[1].data.path  # type: ignore[union-attr]
    keys = {ProgramJob(one).key for one in plans}
    assert len(keys) == 1
    assert ProgramJob(replace(plans[0], data=None)).key not in keys
    other = replace(plans[0].data, digest="0" * 64)
    assert ProgramJob(replace(plans[0], data=other)).key not in keys
    with pytest.raises(InputError, match="not the samples any more"):
        ProgramJob(replace(plans[0], data=other)).run()


def test_reports_say_how_near_the_program_is_to_the_model(folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    found = summary["validation"]["designs"][0]["programs"][0]["agreement"]
    near = measured(folder).agreement
    assert near is not None
    assert found["outputs"][0]["snr_db"] == near.outputs[0].snr_db
    assert [one["name"] for one in found["operators"]] == [one.name for one in near.operators]
    assert near.judge in summary["text"]
    first, *_ = Engine((folder / "report.html").read_text()).rows("agreement")
    assert first.startswith(f"small | {near.outputs[0].name} (output) | {near.judge} | ")
    assert f" | {near.outputs[0].cosine:.4f} | " in first


def test_what_saturates_is_a_warning_of_the_report(folder: Path) -> None:
    """Half of an operator's elements beyond its range, as a run on other inputs would find them."""
    with StudyRecord.open(folder / FILE_NAME, read_only=True) as study:
        (design,) = measured_designs(study)
    (program,) = design.programs
    assert program.measured is not None
    near = program.measured.agreement
    assert near is not None
    worse = replace(near, operators=(replace(near.operators[0], saturated=0.5), *near.operators[1:]))
    altered = replace(program, measured=replace(program.measured, agreement=worse))
    data = report_data(folder / FILE_NAME)
    page = page_html(replace(data, validated={data.best_index: replace(design, programs=(altered,))}))
    text = Engine(page).text("agreement-warnings")
    assert "SATURATED" in text
    assert f"{near.operators[0].name} (50 % of its elements)" in text


def test_a_study_goes_on_with_its_samples_and_takes_others(folder: Path, tmp_path: Path) -> None:
    kept = (folder / "data.npz").read_bytes()
    model, space = (
        str(folder.parent / "small.onnx"),
        small_space(**PUBLISHED),
    )
    again = baco.explore(model, space=space, samples=60, out=folder, resume=True, progress=False)
    assert (folder / "data.npz").read_bytes() == kept
    with pytest.raises(InputError, match="has shape"):
        baco.validate(again, best=1, spread=0, data={"x": np.ones((3, 8, 7))}, progress=False)
    assert (folder / "data.npz").read_bytes() == kept


def test_a_disagreement_is_a_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that computes something else than what was imported: the integers are equal, and nothing is right."""
    from baco.exploration.measure import program_job as program

    load: Callable[[str], Network] = program.load_network

    def other(spec: str) -> Network:
        network = load(spec)
        judge = network.judge
        assert judge is not None

        def opposite(inputs: Any) -> tuple[str, list[np.ndarray]]:
            name, outputs = judge(inputs)
            return name, [-one for one in outputs]

        return replace(network, judge=opposite)

    monkeypatch.setattr(program, "load_network", other)
    found = ProgramJob(Plan.read(folder / "best" / "plan.json")).run()
    assert found.status == "failed"
    assert "is not the model's even in floating point" in found.reason


def test_a_refused_search_keeps_no_samples(tmp_path: Path) -> None:
    model = write_model(tmp_path / "small.onnx")
    with pytest.raises(baco.InfeasibleError):
        baco.explore(
            model,
            data={"x": SAMPLES},
            constraints={"area_mm2": 1e-6},
            samples=40,
            out=tmp_path / "s",
            progress=False,
        )
    assert not list((tmp_path / "s").glob("*"))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"y": SAMPLES}, "no input 'y'"),
        ({}, "'x' is missing"),
        ([{"x": SAMPLES}] * 2, "samples are given 2 times, for 1 network"),
        ("nowhere.npz", "nowhere.npz"),
    ],
)
def test_samples_that_do_not_fit(tmp_path: Path, data: Any, why: str) -> None:
    model = write_model(tmp_path / "small.onnx")
    with pytest.raises(InputError, match=why):
        baco.explore(model, data=data, samples=40, out=tmp_path / "s", progress=False)
    assert not (tmp_path / "s").exists()
