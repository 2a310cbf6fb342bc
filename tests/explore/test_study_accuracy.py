"""Accuracy of a study: measured on its data before the search, bounded, and stated wherever its results are."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import baco
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.network.plan import Plan
from baco.exploration.accuracy import StudyAccuracy, settle_accuracy
from baco.exploration.report.summary import SCHEMA_PATH
from baco.main import run
from baco.workloads.inputs.load import load_network
from baco.workloads.inputs.samples import read_samples
from baco.workloads.network import Workload
from tests.explore.measure.test_study_samples import write_model
from tests.explore.validate_helpers import PUBLISHED, small_space

pytestmark = pytest.mark.usefixtures("short_reports")

RANDOM = np.random.default_rng(9)
X = RANDOM.uniform(0, 4, (24, 3, 8, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_model(tmp_path_factory.mktemp("accuracy") / "small.onnx")


@pytest.fixture(scope="module")
def labels(model: str) -> np.ndarray:
    """What the model says, and of the first three samples another class."""
    from onnx.reference import ReferenceEvaluator

    judge = ReferenceEvaluator(model)
    said = np.concatenate([judge.run(None, {"x": one[None]})[0] for one in X]).argmax(1)
    said[:3] = (said[:3] + 1) % 10
    return said


@pytest.fixture(scope="module")
def study(model: str, labels: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study") / "study"
    space = small_space(**PUBLISHED)
    found = baco.explore(
        model,
        space=space,
        samples=40,
        data={"x": X, "label": labels},
        accuracy_loss="25%",
        out=out,
        progress=False,
    )
    baco.validate(found, best=1, spread=0, progress=False)
    found.save_report()
    return out


def test_it_is_stated_wherever_results_are(study: Path, model: str, labels: np.ndarray) -> None:
    summary = json.loads((study / "summary.json").read_text())
    jsonschema.validate(summary, json.loads(SCHEMA_PATH.read_text()))
    stated = summary["accuracy"]
    assert stated["bound"] == 0.25
    assert set(stated["tried"]) == {"mse", "min-max", "percentile", "entropy"}
    (one,) = stated["networks"].values()
    assert one["floats"] == pytest.approx(21 / 24)
    again = baco.quantise(model, {"x": X, "label": labels}, observer=stated["quantiser"]["observer"]).accuracy
    assert (one["integers"], one["loss"]) == (again.integers, again.loss)
    assert stated["tried"][stated["quantiser"]["observer"]] == min(stated["tried"].values())
    assert "right on" in summary["text"]
    assert "within the bound of 25.00%" in summary["text"]
    assert "Every design computes the same int8 numbers" in (study / "report.html").read_text()
    assert json.loads((study / "best" / "accuracy.json").read_text()) == stated


def test_the_best_program_has_the_numbers_that_were_measured(study: Path) -> None:
    plan = Plan.read(study / "best" / "plan.json")
    stated = json.loads((study / "accuracy.json").read_text())
    assert plan.quantiser.observer == stated["quantiser"]["observer"]
    (one,) = stated["networks"].values()
    run = baco.run(study / "best" / "plan.json")
    assert run.right
    assert run.accuracy is not None
    assert run.accuracy.integers == one["integers"]
    elf = baco.compile(study / "best" / "plan.json").elf
    assert elf == (study / "best" / "program.elf").read_bytes()


def test_a_bound_that_nothing_keeps(model: str, tmp_path: Path) -> None:
    wrong = RANDOM.integers(0, 10, 24)
    # the float model is never better than by chance; what it says by integers differs somewhere
    noise = RANDOM.standard_normal((24, 3, 8, 8)).astype(np.float32) * np.float32(1e-3)
    noise[0] += 100
    with pytest.raises(InfeasibleError, match=r"loses .* more than the bound of 0.00%"):
        baco.explore(
            model, samples=40, data={"x": noise}, accuracy_loss=0, out=tmp_path / "out", progress=False
        )
    assert not (tmp_path / "out" / "study.db").exists()
    with pytest.raises(InputError, match="a loss of accuracy is measured on data"):
        baco.explore(model, samples=40, accuracy_loss=0.01)
    with pytest.raises(InputError, match="a loss of accuracy is a share"):
        baco.explore(model, samples=40, data={"x": X, "label": wrong}, accuracy_loss="lots")


def test_accuracy_is_no_metric_of_a_design(model: str) -> None:
    with pytest.raises(InputError, match="is no metric of a design"):
        baco.explore(model, objective="edp,accuracy-loss")


def test_a_quantised_model_is_explored_compiled_and_run(model: str, tmp_path: Path) -> None:
    made = baco.quantise(model, {"x": X}, observer="percentile", scales="power-of-two", bias_correction=False)
    run = baco.run(made)
    assert run.right
    assert run.accuracy == made.accuracy
    outputs = made.outputs()
    np.testing.assert_array_equal(run.outputs["y"], outputs[0]["y"])
    assert made.outputs({"x": X[3:5]})[1]["y"].tolist() == outputs[4]["y"].tolist()
    assert baco.compile(made).elf != baco.compile(model, data={"x": X}).elf
    report = made.report()
    assert list(report.columns) == ["operator", "snr_db", "cosine", "error", "saturated"]
    assert report["operator"].iloc[-1] == "y"
    space = small_space(**PUBLISHED)
    study = baco.explore(made, space=space, samples=40, out=tmp_path / "study", progress=False)
    study.save_report()
    stated = json.loads((tmp_path / "study" / "summary.json").read_text())["accuracy"]
    assert stated["quantiser"] == {
        "observer": "percentile",
        "scales": "power-of-two",
        "bias_correction": False,
        "calibration": 128,
        "weight_format": "int8",
        "weight_scales": "tensor",
        "equalisation": False,
        "int4_layers": [],
        "weight_rounding": "nearest",
    }
    (one,) = stated["networks"].values()
    assert one["agreeing"] == made.accuracy.agreeing
    with pytest.raises(InputError, match="says it all"):
        baco.run(made, observer="mse", scales="power-of-two")
    with pytest.raises(InputError, match="its own"):
        baco.explore(made, data={"x": X})


def test_the_command_line_says_it(
    model: str, labels: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "data.npz", x=X, label=labels)
    command = ["explore", "--network", model, "--samples", "40", "--out", str(tmp_path / "out")]
    given = ["--data", str(tmp_path / "data.npz"), "--observer", "entropy", "--accuracy-loss", "30%"]
    assert run("baco", [*command, *given]) == 0
    text = " ".join(capsys.readouterr().out.split())
    stated = json.loads((tmp_path / "out" / "summary.json").read_text())["accuracy"]
    (one,) = stated["networks"].values()
    assert stated["quantiser"]["observer"] == "entropy"
    assert stated["tried"] == {}
    assert f"{one['integers']:.2%} right, 87.50% in floating point, every design (bound 30.00%)" in text


def _unlike(path: Path) -> str:
    """Two convolutions and a product; the channels between the first two have ranges far apart."""
    random = np.random.default_rng(4)
    far = np.exp2(np.linspace(-5, 5, 12)).astype(np.float32)[:, None, None, None]
    arrays = {
        "v": random.standard_normal((12, 3, 3, 3)).astype(np.float32) * far,
        "w": random.standard_normal((8, 12, 3, 3)).astype(np.float32) / far.reshape(1, 12, 1, 1),
        "f": random.standard_normal((10, 8)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], pads=[1, 1, 1, 1], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["c"], name="second"),
        helper.make_node("GlobalAveragePool", ["c"], ["p"]),
        helper.make_node("Flatten", ["p"], ["q"]),
        helper.make_node("Gemm", ["q", "f"], ["y"], transB=1, name="fc"),
    ]
    graph = helper.make_graph(
        nodes,
        "unlike",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(one, name) for name, one in arrays.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return str(path)


def test_a_bound_is_kept_by_what_costs_least(tmp_path: Path) -> None:
    """Scales alone where these do, else compensated errors, else equalised channels, else scales of channels; all that was tried is stated."""
    workload = Workload.of([load_network(_unlike(tmp_path / "unlike.onnx"))])
    x = np.random.default_rng(3).standard_normal((60, 3, 8, 8)).astype(np.float32)
    samples = {workload.networks[0].name: read_samples({"x": x}, workload.networks[0], ["x"])}
    loose = settle_accuracy(workload, samples, None, 1.0)
    assert set(loose.tried) == {"mse", "min-max", "percentile", "entropy"}
    bound = 0.1
    assert min(loose.tried.values()) > bound
    kept = settle_accuracy(workload, samples, None, bound)
    assert kept.quantiser.equalisation
    assert not kept.quantiser.by_channel
    assert len(kept.tried) == 12
    assert kept.tried[kept.quantiser.label] == min(kept.tried.values()) <= bound
    assert {name: kept.tried[name] for name in loose.tried} == loose.tried
    assert StudyAccuracy.from_json(json.loads(json.dumps(kept.to_json()))) == kept


def test_a_search_knows_what_scales_of_channels_cost(model: str, tmp_path: Path) -> None:
    """They are part of the program that is minimised, and the program that runs is predicted as the search did."""
    space = small_space(**PUBLISHED)
    requantised = {}
    for scales in ("tensor", "channel"):
        made = baco.quantise(model, {"x": X}, weight_scales=scales)
        out = tmp_path / scales
        baco.explore(made, space=space, samples=40, out=out, progress=False).save_report()
        summary = json.loads((out / "summary.json").read_text())
        assert summary["accuracy"]["quantiser"]["weight_scales"] == scales
        parts = [one for one in summary["parts"] if "requantise" in one["function"]]
        requantised[scales] = sum(one["predicted"]["latency_cycles"] for one in parts)
    assert requantised["tensor"] == 0
    assert requantised["channel"] > 0
