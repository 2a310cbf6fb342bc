"""Runs side by side: what each gives alone, operator by operator, and exact products of int8 against numpy's integers."""

from __future__ import annotations

import numpy as np
import pytest

from baco.compiler.network.accuracy import integer_runs
from baco.compiler.network.calibrate import random_inputs
from baco.compiler.network.quantise import quantise, quantise_inputs, real
from baco.compiler.network.reference import reference, reference_runs
from baco.compiler.ops import int8_products as products
from baco.workloads.expand import expand
from baco.workloads.inputs.samples import SampleSet
from tests.compiler.network.net_quant_networks import SMALL

RANDOM = np.random.default_rng(3)


@pytest.mark.parametrize("name", SMALL)
def test_runs_side_by_side_are_each_what_it_is_alone(name):
    network = SMALL[name]()
    quantised = quantise(network, seed=1)
    given = [random_inputs(expand(network), seed) for seed in range(3)]
    inputs = [quantise_inputs(quantised, {k: sample[k] for k in quantised.inputs}) for sample in given]
    together = reference_runs(quantised, inputs)
    for run, integers in enumerate(inputs):
        alone = reference(quantised, integers)
        for value in quantised.values.values():
            found = together[value.name] if value.role == "constant" else together[value.name][run]
            np.testing.assert_array_equal(found, alone[value.name], err_msg=value.name)
    samples = SampleSet(tuple({k: sample[k] for k in quantised.inputs} for sample in given))
    for integers, outputs in zip(inputs, integer_runs(quantised, samples), strict=True):
        values = reference(quantised, integers)
        for output, found in zip(quantised.outputs, outputs, strict=True):
            np.testing.assert_array_equal(found, real(quantised, values, output))


@pytest.mark.parametrize("integers", [True, False])
@pytest.mark.parametrize("depth", [1, 7, 1024, 1025, 5000, 9000])
def test_products_of_the_largest_numbers_are_exact(monkeypatch, integers, depth):
    if not integers:
        monkeypatch.setattr(products, "_integer_product", lambda: None)
    ends = np.array([-128, -127, 127], np.int8)
    left, right = RANDOM.choice(ends, (3, 2, depth)), RANDOM.choice(ends, (depth, 5))
    left[0], right[:, 0] = -128, -128
    wanted = left.astype(np.int64) @ right.astype(np.int64)
    np.testing.assert_array_equal(products.int8_products(left, right), wanted)
    several = RANDOM.choice(ends, (3, depth, 4))
    np.testing.assert_array_equal(
        products.int8_products(left, several), left.astype(np.int64) @ several.astype(np.int64)
    )
