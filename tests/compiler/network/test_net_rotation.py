"""Rotary embeddings as products, against rotations of complex numbers and loops over single elements."""

import itertools

import numpy as np
import pytest

from baco.accel.presets import load_accelerator
from baco.compiler.choice.choose import choose
from baco.compiler.network.program import compile_network
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.reference import reference
from baco.compiler.network.rotation import rotation_product
from baco.compiler.ops.lookup import Rotation
from baco.compiler.ops.products import MatMul
from baco.compiler.ops.views import dense
from baco.exploration.cost.program_rest import Programs, rest_costs
from baco.exploration.cost.schedules import schedule_costs
from baco.sim.energy import counted_energy
from baco.sim.network.run import run_network
from baco.workloads.builder import GraphBuilder
from tests.compiler.network import net_quant_oracle
from tests.compiler.network.net_sketch import DIM4

DEFAULT = load_accelerator("gemmini-default")


def rope(shape, seed, start=3):
    """A rotary embedding of (batch, heads, positions, features), and its inputs in integers."""
    b = GraphBuilder("rope")
    b.rope(b.input("x", shape), start=start)
    network = quantise(b.build(), seed=seed)
    x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return network, quantise_inputs(network, {"x": x})


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("turning", [(), (0,), (1,), (0, 1), (0, 2), (0, 1, 2)])
def test_the_product_is_the_rotation(turning, interleaved):
    """Whatever the dimensions along which angles change."""
    rng = np.random.default_rng([len(turning), interleaved])
    shape, half = (2, 3, 4), 3
    few = (*(size if d in turning else 1 for d, size in enumerate(shape)), half)
    cosine, sine = rng.integers(-127, 128, (2, *few)).astype(np.int8)
    x = rng.integers(-128, 128, (*shape, 2 * half)).astype(np.int8)
    stored = dense("x", (2, 4, 3, 2 * half)).transposed((0, 2, 1, 3))  # as heads of a projection lie
    c, s = (dense(name, few).expanded((*shape, half)) for name in "cs")
    op = Rotation("r", (), dense("y", x.shape), stored, c, s, interleaved, 0.01)
    data = {
        "c": cosine,
        "s": sine,
        "x": np.ascontiguousarray(x.transpose(0, 2, 1, 3)),
        "y": np.zeros(x.shape, np.int8),
    }
    found = rotation_product(op, lambda view: view.read(data[view.value]))
    product = found.product
    memory = net_quant_oracle.Memory(data | {found.name: found.matrices})
    expected = net_quant_oracle.rotation(op, memory)
    result = net_quant_oracle.matmul(product, memory)
    places = {
        tuple(index): product.output.offset
        + sum(i * s for i, s in zip(index, product.output.strides, strict=True))
        for index in itertools.product(*map(range, product.output.shape))
    }
    by_place = {places[index]: value for index, value in result.items()}
    flat = {np.ravel_multi_index(index, op.output.shape): value for index, value in expected.items()}
    assert by_place == flat
    # the rows of one matrix are as many as there can be
    still = [size for d, size in enumerate(shape) if d not in turning]
    assert isinstance(product, MatMul)
    assert product.left.shape[-2] == max(still, default=1)


def test_results_are_within_one_and_a_half_steps_of_complex_numbers():
    network, inputs = rope((2, 3, 40, 16), seed=2)
    (op,) = network.operators
    x = op.input.read(inputs[op.input.value]).astype(float)
    z = (x[..., :8] + 1j * x[..., 8:]) * np.exp(
        1j * (3 + np.arange(40))[:, None] * 10000.0 ** (-np.arange(8) / 8)
    )
    ratio = network.scale(op.input) / network.scale(op.output)
    exact = np.clip(np.concatenate([z.real, z.imag], -1) * ratio, -128, 127)
    got = op.output.read(reference(network, inputs)[op.output.value])
    assert np.abs(got - exact).max() <= 0.5 + ratio


@pytest.mark.parametrize("shape", [(1, 4, 5, 8), (2, 3, 2, 16), (1, 1, 1, 4)])
def test_a_program_rotates_on_the_accelerator(shape):
    network, inputs = rope(shape, seed=1)
    values = reference(network, inputs)
    built = compile_network(network, DIM4, data=inputs)
    assert all(step.accelerator for step in built.lowered.steps)
    run = run_network(built)
    (view,) = network.outputs.values()
    assert run.values[view.value].ravel().tolist() == values[view.value].ravel().tolist()


def test_a_search_tiles_rotations():
    """They are layers of the program; energy as the functional model counts it."""
    b = GraphBuilder("heads")
    b.rope(b.transpose(b.input("x", (1, 8, 32, 64)), (0, 2, 1, 3)))
    graph = b.build()
    network = quantise(graph)
    assert not graph.tasks
    assert not rest_costs(network, DEFAULT)
    (task,) = Programs([graph]).tasks(graph.name, DEFAULT)
    assert task.operators == (network.operators[0].name,)
    assert isinstance(network.operators[0], Rotation)
    layer = task.layer
    schedules = [choose(layer, DEFAULT)]
    (cost,) = schedule_costs([layer], schedules, DEFAULT, "instruction")
    inputs = {name: np.zeros(view.shape, np.int8) for name, view in network.inputs.items()}
    run = run_network(compile_network(network, DEFAULT, data=inputs))
    energy = sum(sum(counted_energy(step.activity, DEFAULT).values()) for step in run.steps)
    assert task.count * cost.energy_pj == pytest.approx(energy, rel=0.25)
