"""Accuracy as an objective: which layers have weights of 4 bits, what that loses, what designs then cost."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import baco
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.network.accuracy import AccuracyJudge
from baco.compiler.network.quantise import quantise
from baco.compiler.network.quantiser import Quantiser
from baco.exploration.objective import without_accuracy
from baco.exploration.task_layers import LoweredTask
from baco.exploration.weight_formats import nested_choices
from baco.workloads.inputs.samples import read_samples
from tests.seeds import some

RANDOM = np.random.default_rng(3)
SHAPES = {"a": (24, 3, 3, 3), "b": (16, 24, 1, 1), "c": (16, 5)}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two convolutions and a product, with random weights."""
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["p"], pads=[1, 1, 1, 1], name="a"),
        helper.make_node("Relu", ["p"], ["q"]),
        helper.make_node("Conv", ["q", "b"], ["r"], name="b"),
        helper.make_node("GlobalAveragePool", ["r"], ["s"]),
        helper.make_node("Flatten", ["s"], ["t"]),
        helper.make_node("MatMul", ["t", "c"], ["y"], name="c"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [
            numpy_helper.from_array(RANDOM.standard_normal(shape).astype(np.float32), name)
            for name, shape in SHAPES.items()
        ],
    )
    path = tmp_path_factory.mktemp("formats") / "small.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return str(path)


DATA = {"x": RANDOM.standard_normal((40, 3, 8, 8)).astype(np.float32)}
SPACE = {"dim": [8, 16], "scratchpad_kib": [16, 32], "accumulator_kib": [8]}


def test_every_choice_is_searched_and_the_best_within_the_bound_is_the_study(
    model: str, tmp_path: Path
) -> None:
    result = baco.explore(
        model, SPACE, "edp,accuracy", data=DATA, accuracy_loss=1.0, samples=120, out=tmp_path, progress=False
    )
    rows = json.loads((tmp_path / "formats.json").read_text())
    assert [len(row["int4_layers"]) for row in rows] == [0, 1, 2, 3]
    assert all(set(less["int4_layers"]) < set(more["int4_layers"]) for less, more in itertools.pairwise(rows))
    bytes_ = {name: float(np.prod(shape)) for name, shape in SHAPES.items()}
    for row in rows:
        halves = sum(bytes_[name] for name in row["int4_layers"]) / 2
        assert row["weight_bytes"] == sum(bytes_.values()) - halves
        # what is said of a choice is the share of answers that its integers and the float model have in common
        chosen = baco.quantise(model, DATA, int4_layers=row["int4_layers"])
        assert row["loss"] == chosen.accuracy.loss
        assert row["snr_db"] == chosen.accuracy.near.snr_db
        tasks = baco.load_study(tmp_path / row["study"]).best.tasks
        bits = [task.layer.weight_bits for task in tasks if isinstance(task, LoweredTask)]
        # every layer is a task of its own here, and so is the mean over pixels
        assert bits.count(4) == len(row["int4_layers"])
        assert len(bits) == 4
    (chosen_row,) = [row for row in rows if row["chosen"]]
    assert chosen_row["edp"] == min(row["edp"] for row in rows)
    assert result.best.cost.edp == pytest.approx(chosen_row["edp"])
    assert chosen_row["on_front"]
    assert result.best.accelerator.features.packed_weights == bool(chosen_row["int4_layers"])
    said = json.loads((tmp_path / "accuracy.json").read_text())
    assert said["quantiser"]["int4_layers"] == chosen_row["int4_layers"]
    assert said["networks"]["small"]["loss"] == chosen_row["loss"]
    assert (tmp_path / "formats.svg").read_bytes().startswith(b"<?xml")


def test_choices_that_lose_too_much_are_not_searched(model: str, tmp_path: Path) -> None:
    float_answers = baco.quantise(model, DATA).accuracy
    if float_answers.loss == 0:
        pytest.skip("int8 loses nothing of these answers")
    with pytest.raises(InfeasibleError, match="weights lose"):
        baco.explore(
            model, SPACE, "edp,accuracy", data=DATA, accuracy_loss=0, samples=30, out=tmp_path, progress=False
        )
    assert not (tmp_path / "study.sqlite").exists()


def test_layers_follow_by_noise_for_each_byte_saved() -> None:
    sizes = {"a": 100, "b": 10, "c": 1000}
    noise = {"a": 1.0, "b": 0.05, "c": 100.0}
    assert nested_choices(sizes, noise) == [(), ("b",), ("b", "a"), ("b", "a", "c")]
    many = {f"l{n}": 10 for n in range(30)}
    found = nested_choices(many, {name: float(n) for n, name in enumerate(many)}, most=4)
    assert [len(one) for one in found] == [0, 10, 20, 30]


def test_formats_that_differ_are_those_of_the_named_layers(model: str) -> None:
    network = baco.network(model)
    whole = quantise(network, [{"x": DATA["x"][:1]}], quantiser=Quantiser())
    some = quantise(network, [{"x": DATA["x"][:1]}], quantiser=Quantiser(int4_layers=("b",)))
    differ = [
        name
        for name in SHAPES
        if (whole.constants[f"{name}.weight"] != some.constants[f"{name}.weight"]).any()
    ]
    assert differ == ["b"]


@pytest.mark.parametrize("objective", ["accuracy", "edp,latency,accuracy", ["accuracy", "accuracy"]])
def test_accuracy_goes_with_one_metric(objective: str | list[str]) -> None:
    with pytest.raises(InputError, match="traded for one metric"):
        without_accuracy(objective)
    assert without_accuracy("edp,latency") == ("edp,latency", False)
    assert without_accuracy(" energy , accuracy") == ("energy", True)


def test_what_accuracy_needs(model: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="accuracy is measured on data, and there is none") as refusal:
        baco.explore(model, SPACE, "edp,accuracy", out=tmp_path / "a", progress=False)
    assert "label" in str(refusal.value.hint)
    other = shutil.copyfile(model, tmp_path / "other.onnx")
    with pytest.raises(InputError, match="not for 2"):
        baco.explore(
            [model, str(other)],
            SPACE,
            "edp,accuracy",
            data=[DATA, DATA],
            out=tmp_path / "b",
            progress=False,
        )
    with pytest.raises(InputError, match="one width of all words"):
        baco.explore(
            model,
            SPACE,
            "edp,accuracy",
            data=DATA,
            cost_model="reference",
            out=tmp_path / "c",
            progress=False,
        )


FORMATS = {"dataflows": ["WS"], "units": ["none"], "technology": "published-45nm"}


@pytest.mark.parametrize(("form", "size"), some(1, [("fp8-e5m2", 1), ("int16", 2)]))
def test_formats_of_elements_are_choices_too(model: str, tmp_path: Path, form: str, size: int) -> None:
    space = SPACE | FORMATS | {"input_formats": [form, "integer"]}
    baco.explore(model, space, "edp,accuracy", data=DATA, samples=60, out=tmp_path, progress=False)
    rows = json.loads((tmp_path / "formats.json").read_text())
    assert [row["weights"] for row in rows][-1] == form
    assert len(rows) == 5
    row = rows[-1]
    assert row["weight_bytes"] == size * sum(np.prod(shape) for shape in SHAPES.values())
    folder = tmp_path / row["study"]
    best = baco.load_study(folder).best
    assert best.accelerator.input_format == form
    assert all(task.layer.elements == form for task in best.tasks if isinstance(task, LoweredTask))
    # what is said of it is what a network in the best design's numbers loses
    samples = read_samples(DATA, baco.network(model), ("x",))
    own = Quantiser().on(best.accelerator)
    numbers = quantise(baco.network(model), samples.inputs, quantiser=own)
    judged = AccuracyJudge(baco.network(model), samples, quantiser=own).measure(numbers, operators=False)
    assert row["snr_db"] == judged.near.snr_db
    said = json.loads((folder / "accuracy.json").read_text())
    # sums of integers are those of any side
    assert said["quantiser"]["floats"] == {"form": form, "rows": best.accelerator.dim if size == 1 else 0}
    assert said["networks"]["small"]["agreeing"] == judged.agreeing


def test_formats_at_different_clocks_are_compared_in_time(model: str, tmp_path: Path) -> None:
    """In a technology floating point closes at less: its cycles are longer, so that the front has cycles of one clock."""
    space = SPACE | FORMATS | {"technology": "ihp-sg13g2", "input_formats": ["fp8-e5m2", "integer"]}
    baco.explore(model, space, "edp,accuracy", data=DATA, samples=60, out=tmp_path, progress=False)
    rows = json.loads((tmp_path / "formats.json").read_text())
    best = [baco.load_study(tmp_path / row["study"]).best for row in rows]
    clocks = [one.accelerator.clock_mhz for one in best]
    assert clocks[-1] < 0.5 * clocks[0] == 0.5 * max(clocks)
    for row, one, clock in zip(rows, best, clocks, strict=True):
        assert row["edp"] == pytest.approx(one.objective * clocks[0] / clock)
    assert "MHz (its cycles as those of" in rows[-1]["accelerator"]


def test_formats_of_elements_need_accuracy_and_their_arrays(model: str, tmp_path: Path) -> None:
    space = SPACE | FORMATS | {"input_formats": ["integer", "fp8-e4m3"]}
    with pytest.raises(InputError, match="integer or fp8-e4m3 is a choice of accuracy"):
        baco.explore(model, space, "edp", data=DATA, out=tmp_path, progress=False)
    assert baco.Space(**space).replace(name="again").design.formats == ("integer", "fp8-e4m3")
    one = baco.Space(**(space | {"input_formats": ["fp8-e4m3"]}))
    assert one.base.input_format == "fp8-e4m3"
    assert one.design == one.replace().design
    with pytest.raises(InputError, match="arrays of fp8-e4m3 are WS only"):
        baco.Space(**(space | {"input_formats": ["fp8-e4m3"], "dataflows": ["WS", "OS"]}))
    with pytest.raises(InputError, match="weight-stationary"):
        baco.Space(**(space | {"dataflows": ["OS"]}))
    with pytest.raises(InputError, match="cannot be fixed"):
        baco.Space(**(space | {"fixed": {"input_format": "integer"}}))
