"""Accuracy on data: against scikit-learn's score of the labels, onnx.reference's answers and numpy's observers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from scipy.stats import entropy
from sklearn.metrics import accuracy_score

import baco
from baco.common.errors import InputError
from baco.compiler.network.accuracy import integer_runs, measure_accuracy
from baco.compiler.network.float_graph import FloatGraph
from baco.compiler.network.observers import Histogram, divergence
from baco.compiler.network.parameters import Parameters
from baco.compiler.network.quantise import quantise, quantise_inputs, real, runnable
from baco.compiler.network.quantiser import OBSERVERS, Quantiser
from baco.compiler.network.reference import reference
from baco.workloads.inputs.load import load_network
from baco.workloads.inputs.samples import SampleFile, read_samples

RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((40, 1, 8, 8)).astype(np.float32)
X[5] *= 30  # a rare large one


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Two convolutions and a product: [1, 1, 8, 8] to five classes."""
    arrays = {
        "v": RANDOM.standard_normal((6, 1, 3, 3)) / 3,
        "w": RANDOM.standard_normal((8, 6, 3, 3)) / 7,
        "f": RANDOM.standard_normal((5, 8)) / 3,
    }
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], pads=[1, 1, 1, 1], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Conv", ["b", "w"], ["c"], strides=[2, 2], name="second"),
        helper.make_node("GlobalAveragePool", ["c"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["q"], name="flat"),
        helper.make_node("Gemm", ["q", "f"], ["y"], transB=1, name="fc"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(one.astype(np.float32), name) for name, one in arrays.items()],
    )
    path = tmp_path_factory.mktemp("accuracy") / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return str(path)


@pytest.fixture(scope="module")
def wanted(model):
    """What the model says itself."""
    judge = ReferenceEvaluator(model)
    return np.concatenate([judge.run(None, {"x": one[None]})[0] for one in X])


def test_accuracy_is_scikit_learns(model, wanted):
    labels = wanted.argmax(1)
    labels[::7] = (labels[::7] + 1) % 5  # which the model misses
    network = load_network(model)
    samples = read_samples({"x": X, "label": labels}, network, ["x"])
    quantiser = Quantiser(calibration=10)
    quantised = quantise(network, samples, quantiser=quantiser)
    found = measure_accuracy(network, quantised, samples, quantiser=quantiser)
    outputs = np.concatenate([one for (one,) in integer_runs(quantised, samples[10:])])
    said = outputs.argmax(1)
    assert (found.samples, found.unseen, found.answers) == (30, True, 30)
    assert found.integers == pytest.approx(accuracy_score(labels[10:], said))
    assert found.floats == pytest.approx(accuracy_score(labels[10:], wanted[10:].argmax(1)))
    assert found.agreeing == pytest.approx(np.mean(said == wanted[10:].argmax(1)))
    assert found.loss == pytest.approx(found.floats - found.integers)
    noise = ((wanted[10:] - outputs) ** 2).sum()
    assert found.near.snr_db == pytest.approx(10 * np.log10((wanted[10:] ** 2).sum() / noise), abs=1e-3)
    assert {one.name for one in found.operators} >= {"x", "relu", "second"}
    assert "30 labelled samples that ranges were not taken from" in found.sentences()[0]


def test_every_operator_is_compared_over_all_samples(model):
    network = load_network(model)
    samples = read_samples({"x": X}, network, ["x"])
    quantised = quantise(network, samples)
    found = measure_accuracy(network, quantised, samples)
    assert not found.unseen
    assert found.integers is None
    assert found.loss == pytest.approx(1 - found.agreeing)
    (x,) = (one for one in found.operators if one.name == "x")
    view = quantised.tensors["x"]
    scale = quantised.values[view.value].scale
    kept = np.clip(np.rint(X / scale), -128, 127) * scale
    assert x.snr_db == pytest.approx(10 * np.log10((X**2).sum() / ((X - kept) ** 2).sum()), abs=1e-3)


def test_runs_say_how_right_they_are(model, wanted, tmp_path):
    (tmp_path / "data").mkdir()
    for part in range(2):
        rows = slice(20 * part, 20 * part + 20)
        np.savez(tmp_path / "data" / f"part{part}.npz", x=X[rows], label=wanted[rows].argmax(1))
    run = baco.run(model, data=tmp_path / "data")
    pairs = ((X[i : i + 8], wanted[i : i + 8].argmax(1)) for i in range(0, 40, 8))
    other = baco.run(model, data=pairs)
    assert run.right
    assert run.accuracy == other.accuracy
    assert run.accuracy.floats == 1
    assert run.accuracy.samples == 40


@pytest.mark.parametrize("observer", OBSERVERS)
def test_observers_end_where_numpy_says(model, observer):
    network = load_network(model)
    samples = read_samples({"x": X}, network, ["x"])
    quantised = quantise(network, samples, quantiser=Quantiser(observer))
    scale = quantised.values[quantised.tensors["relu"].value].scale
    parameters = Parameters(network.source)
    graph, seen = FloatGraph(runnable(network, parameters), parameters), []
    for one in samples:
        graph.run(one, lambda name, value: seen.append(value) if name == "relu" else None)
    size = np.concatenate(seen).reshape(-1)
    largest = size.max()
    if observer == "min-max":
        assert scale * 127 == pytest.approx(largest, rel=1e-3)
    elif observer == "percentile":
        assert scale * 127 == pytest.approx(
            np.quantile(size[size > 0], 0.9999, method="inverted_cdf"), rel=1e-3
        )
    else:
        assert 0 < scale * 127 <= largest * 1.001


def test_histograms_grow_with_their_numbers():
    first, second = RANDOM.exponential(1, 1000), RANDOM.exponential(20, 1000)
    histogram = Histogram()
    histogram.add(first)
    histogram.add(second)
    edges = np.linspace(0, histogram.limit, len(histogram.counts) + 1)
    wanted, _ = np.histogram(np.concatenate([first, second]), edges)
    assert histogram.counts.sum() == 2000
    assert np.abs(np.cumsum(histogram.counts) - np.cumsum(wanted)).max() <= 2
    assert histogram.percentile(1e9) >= np.quantile(np.concatenate([first, second]), 0.999)


def test_divergence_is_scipys():
    counts = RANDOM.integers(1, 100, 508)
    wanted = counts[:254].astype(float)
    given = np.repeat(wanted.reshape(127, 2).mean(1), 2)
    wanted[-1] += counts[254:].sum()
    assert divergence(counts, 254) == pytest.approx(entropy(wanted, given))


def test_entropy_cuts_a_lonely_large_number_off():
    histogram = Histogram()
    histogram.add(np.abs(RANDOM.standard_normal(200_000)))
    histogram.add(np.array([100.0]))
    assert histogram.entropy(100.0) < 50
    histogram = Histogram()
    histogram.add(RANDOM.uniform(0, 1, 200_000))
    assert histogram.entropy(1.0) > 0.9


def test_labels_are_kept_in_files(model, tmp_path):
    network = load_network(model)
    samples = read_samples({"x": X[:3], "label": [2, 0, 1]}, network, ["x"])
    again = SampleFile.written(tmp_path / "kept.npz", samples).read(network, ["x"])
    np.testing.assert_array_equal(again.labels, [2, 0, 1])
    np.testing.assert_array_equal([one["x"] for one in again], X[:3, None])


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([0, 1], "'label' has shape \\(2,\\), with 40 samples"),
        (np.full(40, 0.5), "'label' holds classes"),
        (np.full(40, -1), "'label' holds classes"),
        (np.full(40, 5), "'label' reaches 5, and the network's first output tells 5 classes"),
        (np.zeros((40, 2), int), "'label' has 2 for every sample"),
    ],
)
def test_labels_that_do_not_fit(model, labels, said):
    with pytest.raises(InputError, match=said):
        baco.run(model, data={"x": X, "label": labels})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (iter([]), "no samples"),
        ([({"x": X[:2]}, [1, 0]), {"x": X[2:4]}], "all samples have labels"),
        ({"x": X, "labels": np.zeros(40, int)}, "no input 'labels'"),
    ],
)
def test_data_that_is_none(model, data, said):
    with pytest.raises(InputError, match=said):
        baco.run(model, data=iter(data) if isinstance(data, list) else data)


def test_an_observer_that_there_is_not(model):
    with pytest.raises(InputError, match="no observer 'maximum'"):
        baco.run(model, observer="maximum")


def test_real_numbers_are_those_of_a_single_run(model):
    network = load_network(model)
    samples = read_samples({"x": X[:1]}, network, ["x"])
    quantised = quantise(network, samples)
    values = reference(quantised, quantise_inputs(quantised, samples[0]))
    ((found,),) = integer_runs(quantised, samples)
    np.testing.assert_array_equal(found, real(quantised, values, "y"))
