"""The integer reference of every operator against loops over single elements, on small random networks."""

import dataclasses

import numpy as np
import pytest

from baco.compiler.layers.reference import requantise
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.quantiser import Quantiser
from baco.compiler.network.reference import reference
from baco.compiler.ops import elements as element_operators
from baco.compiler.ops import floating
from baco.compiler.ops.elementwise import Addition, Map
from baco.compiler.ops.operator import IntegerOperator
from baco.compiler.ops.products import Convolution, MatMul, SumOfRows
from baco.workloads.builder import GraphBuilder
from baco.workloads.semantics import Parameter, constant
from tests.compiler.network import net_quant_oracle
from tests.compiler.network.net_quant_networks import SMALL, run_both
from tests.compiler.network.operator_kinds import concrete_kinds

#: Operators on real numbers that are compared with their models' evaluators, in `test_net_given_floats.py` and
#: `test_net_float_arrays.py`.
REAL = {
    "Coded",
    "CodedSum",
    "RealProducts",
    "RealResize",
    "RealRows",
    "RealSelection",
    "RealTop",
    "RealWindows",
    "ScaledIntegers",
    "ScaledSums",
    "Widened",
}
#: Those that only a lowering makes, `test_net_row_sums.py`, `test_net_gates.py` and `test_fuse_elements.py`.
LOWERED = {"FusedElements", "Gate", "NormalisationBySums"}


def random_elements(network: QuantisedNetwork, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Any bytes for the inputs; indices may lie outside their tables."""
    result = {}
    for view in network.inputs.values():
        value = network.values[view.value]
        low, high = (-128, 128) if value.dtype == "int8" else (-20, 20)
        result[value.name] = rng.integers(low, high, value.shape).astype(value.dtype)
    return result


@pytest.mark.parametrize("scales", ["float", "power-of-two"])
@pytest.mark.parametrize("name", SMALL)
def test_reference_equals_loops(name, scales):
    network = quantise(SMALL[name](), quantiser=Quantiser(scales=scales), seed=1)
    inputs = random_elements(network, np.random.default_rng(3))
    values = reference(network, inputs)
    for value, elements in net_quant_oracle.run(network, inputs).items():
        assert values[value].reshape(-1).tolist() == elements, value


def test_every_operator_is_covered():
    used = {type(op) for make in SMALL.values() for op in quantise(make()).operators}
    left = concrete_kinds(IntegerOperator) - used
    assert {kind.__name__ for kind in left} == REAL | LOWERED
    assert {kind.__module__ for kind in left if kind.__name__ in REAL} == {
        floating.__name__,
        element_operators.__name__,
    }
    assert used >= {MatMul, SumOfRows}
    assert {kind.__name__ for kind in used} == set(net_quant_oracle.ORACLES)


@pytest.mark.parametrize("name", SMALL)
def test_quantised_results_are_near_the_real_ones(name):
    network, _, ratios = run_both(SMALL[name]())
    # Positions of maxima are right or wrong, which says nothing about noise.
    pairs = zip(network.outputs.values(), ratios, strict=True)
    assert min(r for view, r in pairs if network.values[view.value].dtype == "int8") > 20


@pytest.mark.parametrize("name", SMALL)
def test_operators_are_in_order_and_everything_is_described(name):
    network = quantise(SMALL[name]())
    written = {n for n, v in network.values.items() if v.role in ("input", "constant")}
    times = {n: np.full(v.shape, int(n in written)) for n, v in network.values.items()}
    names = [op.name for op in network.operators]
    assert len(set(names)) == len(names)
    for op in network.operators:
        assert {view.value for view in op.inputs} <= written, op.name
        assert all(view.read(times[view.value]).all() for view in op.inputs), op.name
        assert not op.output.read(times[op.output.value]).any(), op.name
        op.output.write(times[op.output.value], np.ones(op.output.shape))
        written.add(op.output.value)
        for view in (*op.inputs, op.output):
            size = np.prod(network.values[view.value].shape)
            last = view.offset + sum(
                (n - 1) * max(s, 0) for n, s in zip(view.shape, view.strides, strict=True)
            )
            first = view.offset + sum(
                (n - 1) * min(s, 0) for n, s in zip(view.shape, view.strides, strict=True)
            )
            assert 0 <= first <= last < size, (op.name, view)
        if isinstance(op, Convolution):
            image, pitch = op.input, op.input.strides[2] if op.input.shape[2] > 1 else 0
            assert image.shape[3] == 1 or image.strides[3] == 1
            if image.shape[1] > 1 and pitch:
                assert image.strides[1] == image.shape[2] * pitch
        if isinstance(op, MatMul):
            assert op.left.strides[-1] == 1 or op.left.shape[-1] == 1
            assert op.output.strides[-1] == 1 or op.output.shape[-1] == 1
            assert 1 in op.right.strides[-2:] or 1 in op.right.shape[-2:]
    assert written == set(network.values)
    assert set(network.constants) == {n for n, v in network.values.items() if v.role == "constant"}
    for name_, elements in network.constants.items():
        value = network.values[name_]
        assert (elements.shape, elements.dtype.name) == (value.shape, value.dtype)


def test_same_seed_gives_the_same_integers():
    first, second, other = (quantise(SMALL["products"](), seed=s) for s in (5, 5, 6))
    assert first.operators == second.operators
    assert first.values == second.values
    for name, elements in first.constants.items():
        assert np.array_equal(elements, second.constants[name])
    assert not np.array_equal(first.constants["linear0.weight"], other.constants["linear0.weight"])
    assert "linear0.weight" in first.random


@pytest.mark.parametrize("scale", [0.5, 0.3333333, 1.0, 127.0, 2.0**-20, -0.75])
def test_scaling_rounds_twice_to_even(scale):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.integers(-(2**31), 2**31, 200), np.arange(-300, 300), 2**24 + np.arange(-4, 5)])
    got = requantise(x.astype(np.int32), float(np.float32(scale)))
    assert got.tolist() == [net_quant_oracle.scaled(int(v), scale) for v in x]


def test_sums_beyond_32_bits_are_an_error():
    network = quantise(SMALL["convolutions"]())
    op = next(o for o in network.operators if isinstance(o, Convolution) and o.bias is not None)
    inputs = random_elements(network, np.random.default_rng(0))
    values = reference(network, inputs)
    values[op.bias.value] = np.full(network.values[op.bias.value].shape, 2**31 - 1, np.int32)
    values[op.weight.value] = np.full(network.values[op.weight.value].shape, 127, np.int8)
    values[op.input.value] = np.full(network.values[op.input.value].shape, 127, np.int8)
    with pytest.raises(OverflowError):
        op.compute(lambda view: view.read(values[view.value]))


def test_biases_that_would_overflow_raise_the_scale():
    b = GraphBuilder("bias")
    bias = constant("b", np.array([1e6, -2e5, 0.0, 3.0]))
    tiny = Parameter("w", (3, 4), spread=1e-6)
    b.matmul(b.input("x", (5, 3)), tiny, bias=bias)
    network, _, ratios = run_both(b.build())
    assert ratios[0] > 40
    assert np.abs(network.constants["matmul0.bias"]).max() < 2**31 - 3 * 127 * 128


def test_inputs_are_rounded_and_saturated():
    network = quantise(SMALL["clipped"](), [{"x": np.full((1, 3, 8, 8), 0.635, np.float32)}])
    assert network.values["x"].scale == pytest.approx(0.005, rel=2**-12)
    given = np.zeros((1, 3, 8, 8))
    given[0, 1, 2, 3], given[0, 2, 0, 0], given[0, 0, 7, 7] = 0.01, 9.0, -9.0
    elements = quantise_inputs(network, {"x": given})["x"]
    assert elements.shape == (1, 8, 8, 3)
    assert (elements[0, 2, 3, 1], elements[0, 0, 0, 2], elements[0, 7, 7, 0]) == (2, 127, -128)


def test_relu6_saturates_or_is_clipped():
    exact = quantise(SMALL["clipped"]())
    limit = next(o for o in exact.operators if o.name == "conv2d0")
    assert exact.values[limit.output.value].scale * 127 == pytest.approx(0.5)
    assert not any("clip" in o.name for o in exact.operators)
    powers = quantise(SMALL["clipped"](), quantiser=Quantiser(scales="power-of-two"))
    clip = next(o for o in powers.operators if o.name == "relu60.clip")
    assert isinstance(clip, Map)
    scale = powers.values[clip.output.value].scale
    assert powers.constants[clip.table.value].max() == round(0.5 / scale)
    for value in powers.values.values():
        if value.dtype == "int8" and value.role != "constant":
            assert np.log2(value.scale) % 1 == 0


def test_operators_are_plain_data():
    op = quantise(SMALL["products"]()).operators[0]
    assert hash(op) == hash(dataclasses.replace(op))


def test_a_convolution_that_only_an_addition_reads_is_in_its_units():
    """The finer one of two operands is rounded once, if it is a convolution's and nothing else needs it in its own units."""
    for again, own in ((False, 1.0), (True, 0.25)):
        b = GraphBuilder("residual")
        x = b.input("x", (1, 2, 4, 4))
        y = b.conv2d(x, 2, 1, trained=(constant("quarter", np.eye(2)[..., None, None] / 4), None))
        if again:
            b.softmax(y)
        b.add(x, y)
        sample = {"x": np.linspace(-1, 1, 32).reshape(1, 2, 4, 4)}
        quantised, _, ratios = run_both(b.build(), [sample])
        (sum_,) = (op for op in quantised.operators if isinstance(op, Addition))
        assert (sum_.left_scale, sum_.right_scale) == pytest.approx((1.0, own), rel=0.01)
        assert min(ratios) > 35
