"""Networks on arrays of int16: every operator equals the reference, whose integers numpy adds up; no sum can leave 32 bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.network.calibrate import random_inputs
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.groups import groups_of
from baco.compiler.network.program import compile_network
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.quantiser import DEFAULT, Quantiser
from baco.compiler.network.reference import reference
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.views import View
from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network
from tests.compiler.network import net_quant_networks as small
from tests.compiler.network.test_net_float_arrays import NAMES, run
from tests.compiler.network.test_net_quant_random import RandomNetwork
from tests.machines import BFLOATS, SMALL, WIDE_INTS
from tests.seeds import seeds

ROOMY = WIDE_INTS.replace(name="roomy", scratchpad_kib=32, accumulator_kib=8)


@pytest.mark.parametrize("name", NAMES)
def test_networks_of_all_operators(name: str) -> None:
    run(getattr(small, name)(), ROOMY)


@pytest.mark.parametrize("seed", seeds(2, of=60))
def test_random_networks(seed: int) -> None:
    network = RandomNetwork(seed).grow(15)
    run(network, ROOMY, seed)
    assert beyond(quantise(network, quantiser=DEFAULT.on(ROOMY), seed=seed)) == []


def test_convolutions_in_rtl() -> None:
    program = run(small.convolutions(), WIDE_INTS, engine="rtl")
    on_array = {step.operator for step in program.lowered.steps if step.accelerator}
    assert {op.name for op in program.network.operators if isinstance(op, Convolution)} <= on_array


def ends(network: QuantisedNetwork, view: View) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest that each element of an operand may be, whatever the inputs are."""
    elements, encoding = network.constants.get(view.value), network.values[view.value].encoding
    assert encoding is not None
    if elements is not None:
        return (view.read(elements).astype(np.float64),) * 2
    low = (
        -(2**15) if encoding.low == 1 - 2**15 else encoding.low
    )  # where the array stores, it saturates there
    return np.full(view.shape, float(low)), np.full(view.shape, float(encoding.high))


def beyond(network: QuantisedNetwork) -> list[str]:
    """Names of the products of which a sum could leave 32 bits."""
    found = []
    for op in network.operators:
        if isinstance(op, Convolution):
            right = tuple(one.reshape(-1, one.shape[-1]) for one in ends(network, op.weight))
            left = tuple(np.full((1, len(right[0])), one.flat[0]) for one in ends(network, op.input))
        elif isinstance(op, MatMul):
            left, right = ends(network, op.left), ends(network, op.right)
        else:
            continue
        corners = [x[..., :, :, None] * w[..., None, :, :] for x in left for w in right]
        bias = 0.0 if op.bias is None else op.bias.read(network.constants[op.bias.value])
        sums = [np.max(corners, 0).sum(-2) + bias, np.min(corners, 0).sum(-2) + bias]
        if np.abs(sums).max() >= 2.0**31:
            found.append(op.name)
    return found


def test_worst_inputs_do_not_wrap() -> None:
    """Inputs far beyond those that ranges were taken from, of the signs of the weights, on weights that fill the range."""
    b = GraphBuilder("filled")
    b.linear(b.input("x", (1, 96)), 8)
    network = b.build()
    quantised = quantise(network, quantiser=DEFAULT.on(ROOMY))
    assert beyond(quantised) == []
    (product,) = (op for op in quantised.operators if isinstance(op, MatMul))
    weights = product.right.read(quantised.constants[product.right.value]).astype(np.int64)
    encoding = quantised.values[product.left.value].encoding
    assert encoding is not None
    assert 0.99 * 2**31 < np.abs(weights).sum(0).max() * encoding.high < 2**31
    worst = 1e6 * np.sign(weights[:, np.abs(weights).sum(0).argmax()]).astype(np.float32)
    data = quantise_inputs(quantised, {"x": worst.reshape(1, 96)})
    reference(quantised, data)  # raises where a sum leaves 32 bits


def test_what_numbers_get() -> None:
    """The sum of bits is that of a sum: activations of the array have 16, others about as many as weights; of two activations both alike."""
    quantised = quantise(small.products(), quantiser=DEFAULT.on(ROOMY))
    for op in quantised.operators:
        if isinstance(op, MatMul) and not {op.left.value, op.right.value} & quantised.constants.keys():
            limits = [quantised.values[one.value].encoding.high for one in (op.left, op.right)]  # type: ignore[union-attr]
            assert max(limits) ** 2 * op.left.shape[-1] <= 2**30
    assert beyond(quantised) == []


@pytest.mark.parametrize("machine", [ROOMY, BFLOATS], ids=lambda one: one.name)
def test_operators_run_one_by_one(machine: Accelerator) -> None:
    """Units of several operators work on bytes: where they are asked for there are none."""
    network = small.convolutions()
    assert groups_of(quantise(network))
    assert not groups_of(quantise(network, quantiser=DEFAULT.on(machine)))


def test_what_is_refused() -> None:
    with pytest.raises(
        InfeasibleError, match="weight_format cannot be chosen for roomy, whose elements are int16"
    ):
        Quantiser(weight_format="int4").on(ROOMY)
    network: Network = small.convolutions()
    wide = quantise(network, quantiser=DEFAULT.on(ROOMY))
    with pytest.raises(InfeasibleError, match="the network is in int16, and small computes integers"):
        compile_network(wide, SMALL)
    assert Quantiser(**DEFAULT.on(ROOMY).to_json()) == DEFAULT.on(ROOMY) == replace(DEFAULT.on(ROOMY))
    inputs = random_inputs(network, 0)
    other = wide.on(ROOMY.replace(dim=8, tile_rows=1, scratchpad_kib=64, accumulator_kib=16))
    data = quantise_inputs(wide, inputs)
    for name, elements in reference(wide, data).items():
        np.testing.assert_array_equal(elements, reference(other, data)[name])
