"""Whole networks: integers near the float results, the same on every run, few copies."""

import numpy as np
import pytest
import torch

from baco.common.errors import InputError
from baco.compiler.network.calibrate import random_inputs
from baco.compiler.network.parameters import Parameters
from baco.compiler.network.quantise import quantise, quantise_inputs, runnable
from baco.compiler.network.quantiser import Quantiser
from baco.compiler.ops.arithmetic import fixed_point
from baco.compiler.ops.elementwise import Map
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.rows import Normalisation, Softmax
from baco.workloads.inputs.load import load_network
from tests.compiler.network.net_quant_networks import run_both


def count(network, kind):
    return sum(isinstance(op, kind) for op in network.operators)


def test_resnet18():
    network, values, ratios = run_both(load_network("resnet18"))
    assert ratios[0] > 25
    assert [type(op).__name__ for op in network.operators].count("Convolution") == 20
    assert [type(op).__name__ for op in network.operators].count("Addition") == 8
    # Everything else of the 68 operators is folded into these, and nothing is copied.
    assert len(network.operators) == 20 + 8 + 2
    stem = network.operators[0]
    assert isinstance(stem, Convolution)
    assert stem.sources == ("conv1", "conv1.bn", "conv1.relu", "maxpool")
    assert (stem.pool.kernel, stem.pool.stride, stem.pool.padding) == ((3, 3), (2, 2), (1, 1))
    assert stem.relu
    assert stem.output.shape == (1, 56, 56, 64)
    assert values[stem.output.value].min() >= 0
    assert sum(v.role == "output" for v in network.values.values()) == 1


def test_bert_of_two_layers():
    network, _, ratios = run_both(load_network("bert_base:seq=32"), layers=2)
    assert ratios[0] > 18
    assert count(network, MatMul) == 2 * 8 + 1
    assert (count(network, Softmax), count(network, Normalisation)) == (2, 5)
    assert count(network, Map) == 3  # GELU twice and tanh; no copies: heads are read and written by strides
    scores = next(op for op in network.operators if op.name == "encoder.scores[0]")
    assert scores.left.shape == (1, 12, 32, 64)
    assert scores.right.strides[-2:] == (1, 768)
    context = next(op for op in network.operators if op.name == "encoder.context[0]")
    assert context.output.strides[-2:] == (768, 1)
    assert network.values["tokens"].dtype == "int32"


@pytest.mark.parametrize(
    ("spec", "layers", "least_db"),
    [
        ("mobilenet_v2:image=64", None, 10),
        ("vit_b16:image=64", 2, 18),
        pytest.param("retinanet:image=64", None, 10, marks=pytest.mark.slow),
    ],
)
def test_built_in_networks(spec, layers, least_db):
    _, _, ratios = run_both(load_network(spec), layers=layers)
    assert min(ratios) > least_db


def test_powers_of_two_cost_little():
    network, _, ratios = run_both(
        load_network("resnet18:image=32"), quantiser=Quantiser(scales="power-of-two")
    )
    assert ratios[0] > 18
    assert all(np.log2(v.scale) % 1 == 0 for v in network.values.values() if v.dtype == "int8")


def test_depthwise_layers_are_depthwise():
    network = quantise(load_network("mobilenet_v2:image=32"))
    depthwise = [op for op in network.operators if isinstance(op, Convolution) and op.groups > 1]
    assert len(depthwise) == 17
    assert all(
        op.groups == op.input.shape[3] == op.weight.shape[3] and op.weight.shape[2] == 1 for op in depthwise
    )


def test_given_samples_set_the_ranges():
    network = runnable(load_network("resnet18:image=32"), Parameters("x"))
    sample = random_inputs(network, 1)
    wide = quantise(network, [sample, {"image": sample["image"] * 3}])
    narrow = quantise(network, [sample])
    assert wide.values["image"].scale == pytest.approx(3 * narrow.values["image"].scale, rel=2**-11)
    assert narrow.values["image"].scale == pytest.approx(np.abs(sample["image"]).max() / 127, rel=2**-12)


@pytest.mark.parametrize(
    ("samples", "says"),
    [
        ([{}], "'image' is missing"),
        ([{"image": np.zeros((1, 3, 8, 8))}], r"shape \(1, 3, 8, 8\), not \(1, 3, 32, 32\)"),
        ([{"image": np.full((1, 3, 32, 32), np.nan)}], "finite"),
        ([{"image": np.full((1, 3, 32, 32), "x")}], "finite"),
    ],
)
def test_samples_that_do_not_fit(samples, says):
    with pytest.raises(InputError, match=says):
        quantise(load_network("resnet18:image=32"), samples)


def test_inputs_that_do_not_fit():
    network = quantise(load_network("resnet18:image=32"))
    with pytest.raises(InputError, match="missing"):
        quantise_inputs(network, {})
    with pytest.raises(InputError, match="shape"):
        quantise_inputs(network, {"image": np.zeros((3, 32, 32))})
    with pytest.raises(InputError, match="power-of-two"):
        quantise(load_network("resnet18:image=32"), quantiser=Quantiser(scales="powers"))


@pytest.mark.parametrize("factor", [1.0, 0.5, 1e-3, 0.999999999999, 3.7, 100.0, 2.0**29, 1e-15, -0.3])
def test_fixed_point_factors_are_near(factor):
    found = fixed_point(factor)
    assert found.value == pytest.approx(factor, rel=2**-29 if abs(factor) > 1e-9 else 1e-3)
    for x in (-1000, -1, 0, 1, 7, 1000):
        exact = (x * found.multiplier * 2 + 2**found.shift) // 2 ** (found.shift + 1)
        assert int(found.apply(np.array(x))) == exact


def test_fixed_point_factors_have_limits():
    assert fixed_point(0.0).value == 0
    assert fixed_point(1e-30).value == pytest.approx(0, abs=1e-18)
    with pytest.raises(ValueError, match="too large"):
        fixed_point(2.0**31)


def test_programs_do_not_depend_on_how_many_threads_add_up():
    """Float sums differ between one thread and several, of products of one row too."""
    results = []
    for threads in (1, 2):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            results.append(quantise(load_network("resnet50:image=96")))
        finally:
            torch.set_num_threads(before)
    assert results[0].values == results[1].values
    assert results[0].operators == results[1].operators
    for name, numbers in results[0].constants.items():
        np.testing.assert_array_equal(numbers, results[1].constants[name])
