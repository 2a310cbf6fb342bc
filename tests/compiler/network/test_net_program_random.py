"""Random small networks, from their graphs to programs: every operator equals the integer reference."""

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.compiler.network.calibrate import random_inputs
from baco.compiler.network.program import NetworkProgram, compile_network
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.quantiser import Quantiser
from baco.compiler.network.reference import reference
from baco.compiler.ops.operator import IntegerOperator
from baco.compiler.ops.products import SumOfRows
from baco.compiler.ops.rows import Reduction
from baco.sim.engines.program import run_program
from baco.workloads.network import Network
from tests.compiler.network import net_quant_networks as small
from tests.compiler.network.net_sketch import DIM4
from tests.compiler.network.operator_kinds import concrete_kinds
from tests.compiler.network.test_net_quant_random import RandomNetwork

NETWORKS = (
    "convolutions",
    "transposed",
    "products",
    "pointwise",
    "normalised",
    "pooled",
    "averaged",
    "moved",
    "selected",
    "clipped",
)


def run(network: Network, accelerator: Accelerator = DIM4, seed: int = 0) -> NetworkProgram:
    quantised = quantise(
        network, quantiser=Quantiser(scales="power-of-two" if seed % 4 == 3 else "float"), seed=seed
    )
    inputs = {n: a for n, a in random_inputs(network, seed + 1).items() if n in quantised.inputs}
    data = quantise_inputs(quantised, inputs)
    expected = reference(quantised, data)
    program = compile_network(quantised, accelerator, data=data, reference=expected, check_layers=True)
    outputs, result = run_program(program.program)
    assert result.exit_code == 0, result.console
    for value, buffer in program.buffer_names.items():
        if quantised.values[value].role == "output":
            np.testing.assert_array_equal(outputs[buffer], expected[value])
    return program


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_all_operators(name: str) -> None:
    run(getattr(small, name)())


def test_every_operator_is_whole() -> None:
    concrete = concrete_kinds(IntegerOperator)
    assert len(concrete) > 35
    for method in ("compute", "accesses", "host_call"):
        assert all(getattr(kind, method) is not getattr(IntegerOperator, method) for kind in concrete)


def test_means_of_images_run_on_the_array() -> None:
    """Of channels that are neighbours in memory and pixels an even distance apart; others the host adds up."""
    network = quantise(small.averaged())
    program = compile_network(network, DIM4)
    sums = {op.name for op in network.operators if isinstance(op, SumOfRows)}
    assert len(sums) == 4
    on_array = {step.operator for step in program.lowered.steps if step.accelerator and not step.host}
    assert sums <= on_array
    others = {op.name for op in network.operators if isinstance(op, Reduction)}
    assert len(others) == 4
    assert not others & on_array


@pytest.mark.parametrize("seed", range(2))
def test_random_networks(seed: int) -> None:
    run(RandomNetwork(100 + seed).grow(12), seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_many_random_networks(seed: int) -> None:
    dim = (4, 8, 16)[seed % 3]
    accelerator = Accelerator(
        name="some",
        dim=dim,
        scratchpad_kib=4 * dim,
        accumulator_kib=2 * dim,
        dataflow=("WS", "OS", "both")[seed // 3 % 3],
    )
    run(RandomNetwork(seed).grow(15), accelerator, seed)
