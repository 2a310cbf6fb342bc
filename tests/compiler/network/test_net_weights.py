"""Weights of four bits, scales of channels, equalised channels: against numpy, onnx.reference and whole programs."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save
from onnx.reference import ReferenceEvaluator

import baco
from baco.accel.config import Accelerator
from baco.common.errors import InputError
from baco.compiler.network.equalise import equalised
from baco.compiler.network.float_graph import FloatGraph
from baco.compiler.network.parameters import Parameters
from baco.compiler.network.program import compile_network, scheduler
from baco.compiler.network.quantise import quantise, quantise_inputs, runnable, sketch
from baco.compiler.network.quantiser import Quantiser
from baco.compiler.network.reference import reference
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.requantisation import Requantise
from baco.sim.network.run import run_network
from baco.workloads.inputs.load import load_network
from tests.compiler.network.net_quant_networks import convolutions, products, run_both, transposed
from tests.seeds import some

RANDOM = np.random.default_rng(8)
X = RANDOM.standard_normal((1, 4, 9, 9)).astype(np.float32)
#: Ranges of channels as far apart as trained depthwise layers have them.
UNLIKE = np.exp2(np.linspace(-5, 5, 12)).astype(np.float32)
ARRAYS = {
    "v": RANDOM.standard_normal((12, 4, 3, 3)).astype(np.float32) * UNLIKE[:, None, None, None],
    "vb": RANDOM.standard_normal(12).astype(np.float32) * UNLIKE,
    "d": RANDOM.standard_normal((12, 1, 3, 3)).astype(np.float32),
    "w": RANDOM.standard_normal((6, 12, 1, 1)).astype(np.float32) / UNLIKE[:, None, None],
    "gamma": RANDOM.uniform(0.5, 2, 6).astype(np.float32),
    "beta": RANDOM.standard_normal(6).astype(np.float32),
    "mean": RANDOM.standard_normal(6).astype(np.float32),
    "var": RANDOM.uniform(0.5, 2, 6).astype(np.float32),
    "u": RANDOM.standard_normal((8, 6, 3, 3)).astype(np.float32),
    "f": RANDOM.standard_normal((8, 10)).astype(np.float32),
    "g": RANDOM.standard_normal((10, 5)).astype(np.float32),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Convolutions, one depthwise and one normalised, with rectifiers and a pooling between them, and two products."""
    nodes = [
        helper.make_node("Conv", ["x", "v", "vb"], ["a"], pads=[1, 1, 1, 1], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "d"], ["c"], group=12, name="depthwise"),
        helper.make_node("Conv", ["c", "w"], ["e"], name="pointwise"),
        helper.make_node("BatchNormalization", ["e", "gamma", "beta", "mean", "var"], ["n"], name="norm"),
        helper.make_node("LeakyRelu", ["n"], ["l"], alpha=0.125),
        helper.make_node("MaxPool", ["l"], ["m"], kernel_shape=[2, 2]),
        helper.make_node("Conv", ["m", "u"], ["o"], name="last"),
        helper.make_node("GlobalAveragePool", ["o"], ["p"]),
        helper.make_node("Flatten", ["p"], ["q"]),
        helper.make_node("MatMul", ["q", "f"], ["r"], name="up"),
        helper.make_node("Relu", ["r"], ["s"]),
        helper.make_node("MatMul", ["s", "g"], ["y"], name="down"),
    ]
    graph = helper.make_graph(
        nodes,
        "unlike",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(one, name) for name, one in ARRAYS.items()],
    )
    path = tmp_path_factory.mktemp("weights") / "unlike.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return str(path)


def _weights(quantised, name):
    """int8 [K, C, R, S] as ONNX has them, and the scale of each channel or of all [n, 1, 1, 1]."""
    integers = quantised.constants[f"{name}.weight"].transpose(3, 2, 0, 1)
    largest = float(quantised.values[f"{name}.weight"].scale)
    if f"{name}.factors" not in quantised.constants:
        return integers, np.full((1, 1, 1, 1), largest)
    factors = quantised.constants[f"{name}.factors"].view(np.float32).astype(np.float64)
    return integers, (factors / factors[0] * largest).reshape(-1, 1, 1, 1)


@pytest.mark.parametrize(("form", "steps"), [("int8", 127), ("int4", 7)])
@pytest.mark.parametrize("scales", ["tensor", "channel"])
def test_every_weight_is_the_nearest_of_its_scale(model, form, steps, scales):
    """With scales that reach the largest magnitude, of all weights or of each channel."""
    chosen = Quantiser("min-max", weight_format=form, weight_scales=scales, bias_correction=False)
    quantised = quantise(load_network(model), [{"x": X}], quantiser=chosen)
    for name, given in (("first", "v"), ("depthwise", "d"), ("last", "u")):
        real = ARRAYS[given].astype(np.float64)
        axes = (1, 2, 3) if scales == "channel" else None
        scale = (np.abs(real).max(axes, keepdims=True) / steps).astype(np.float32).astype(np.float64)
        integers, found = _weights(quantised, name)
        assert np.array_equal(integers, np.rint(real / scale))
        assert np.abs(integers).max() == steps
        assert np.allclose(found, scale, rtol=1e-6)


@pytest.mark.parametrize("form", ["int8", "int4"])
def test_ends_of_channels_are_the_best_of_those_tried(model, form):
    quantised = quantise(
        load_network(model),
        [{"x": X}],
        quantiser=Quantiser(weight_format=form, weight_scales="channel"),
    )
    steps = {"int8": 127, "int4": 7}[form]
    integers, scale = _weights(quantised, "last")
    assert np.abs(integers).max() <= steps + 1
    for channel, real in enumerate(ARRAYS["u"].astype(np.float64)):
        found = ((integers[channel] * scale[channel, 0] - real) ** 2).sum()
        errors = []
        for part in range(40, 9, -1):  # a shorter end must take a tenth of the error away
            step = np.abs(real).max() * part / 40 / steps
            tried = np.clip(np.rint(real / step), -steps - 1, steps) * step
            errors.append(((tried - real) ** 2).sum())
        assert found <= min(errors) / 0.9 * (1 + 1e-6)
        assert found <= errors[0] * (1 + 1e-6)


def test_layers_can_have_fewer_bits_by_name(model):
    few = quantise(load_network(model), [{"x": X}], quantiser=Quantiser(int4_layers=("last", "up")))
    whole = quantise(load_network(model), [{"x": X}])
    for name in ("first.weight", "depthwise.weight", "down.weight"):
        assert np.array_equal(few.constants[name], whole.constants[name])
    for name in ("last.weight", "up.weight"):
        assert np.abs(few.constants[name].astype(int)).max() <= 8
        assert np.abs(whole.constants[name].astype(int)).max() > 60
    with pytest.raises(InputError, match="no operator 'lost'"):
        baco.quantise(model, {"x": X}, int4_layers=["lost"])


def test_equalised_channels_leave_the_network_as_it_is_to_the_bit(model):
    network, parameters = load_network(model), Parameters(model)
    plain = runnable(network, parameters)
    level = equalised(plain, parameters)
    inputs = {"x": X}
    (wanted,) = FloatGraph(plain, parameters).run(inputs)
    (found,) = FloatGraph(level, parameters).run(inputs)
    assert np.array_equal(found, wanted)
    (theirs,) = ReferenceEvaluator(model).run(None, inputs)
    assert np.allclose(found, theirs, rtol=1e-4, atol=1e-5)
    changed = {
        op.name for op, before in zip(level.operators, plain.operators, strict=True) if op is not before
    }
    assert {"first", "depthwise", "pointwise", "last", "up", "down"} <= changed


def test_ranges_of_equalised_channels_are_alike(model):
    """In front of and behind every channel that one layer hands to one other, within the two of a power of two."""
    parameters = Parameters(model)
    level = equalised(runnable(load_network(model), parameters), parameters)
    weights = {
        op.name: np.abs(parameters(op.semantics.operands[1]).astype(np.float64))
        for op in level.operators
        if op.name in ("first", "depthwise", "pointwise", "norm", "last", "up", "down")
    }
    factor = weights["norm"] / np.sqrt(ARRAYS["var"] + 1e-5)  # which is part of the weights in front of it
    weights["pointwise"] *= factor[:, None, None, None]
    pairs = [
        (weights["first"].max((1, 2, 3)), weights["depthwise"].max((1, 2, 3))),
        (weights["depthwise"].max((1, 2, 3)), weights["pointwise"].max((0, 2, 3))),
        (weights["pointwise"].max((1, 2, 3)), weights["last"].max((0, 2, 3))),
        (weights["up"].max(0), weights["down"].max(1)),
    ]
    for front, behind in pairs:
        assert (np.abs(np.log2(front / behind)) <= 1.001).all()


def test_what_each_choice_earns_where_channels_are_unlike(model):
    """Signal to noise of the output, in integers as programs compute them: of channels, of equalised ones, of fewer bits."""
    data = {"x": np.concatenate([X, RANDOM.standard_normal((15, *X.shape[1:])).astype(np.float32)])}

    def db(**options):
        return baco.quantise(model, data, **options).accuracy.near.snr_db

    plain, level = db(), db(equalisation=True)
    assert level > plain + 3
    channels = db(weight_scales="channel", equalisation=True)
    assert channels > plain + 3
    assert db(weight_format="int4", weight_scales="channel", equalisation=True) < channels - 6


def test_scales_of_channels_lose_nothing_on_any_kind_of_product():
    for network in (convolutions(), transposed(), products()):
        _, _, plain = run_both(network)
        quantised, _, found = run_both(network, quantiser=Quantiser(weight_scales="channel"))
        assert sum(isinstance(op, Requantise) for op in quantised.operators) > 0
        assert min(np.array(found) - plain) > -1.5


@pytest.mark.parametrize(
    ("machine", "options"),
    some(2, [
        ("gemmini-default,dim=8", {"weight_scales": "channel", "weight_format": "int4", "equalisation": True}),
        ("gemmini-default,dim=8,features.requantization=true", {"weight_scales": "channel"}),
        ("gemmini-default,dim=8", {"weight_scales": "channel"}),
        (
            "gemmini-default,dim=8,features.requantization=true",
            {"weight_scales": "channel", "weight_format": "int4", "equalisation": True},
        ),
    ]),
    ids=str,
)  # fmt: skip
def test_programs_give_these_integers(model, machine, options):
    run = baco.run(model, machine, inputs={"x": X}, **options)
    assert run.right, run.wrong
    by_host = [step.function for step in run._measured.steps if "net_requantise" in step.function]
    assert bool(by_host) == ("requantization" not in machine)


def test_sketches_have_the_operators_of_the_network_itself(model):
    chosen = Quantiser(weight_scales="channel")
    real, drawn = (
        quantise(load_network(model), [{"x": X}], quantiser=chosen),
        sketch(load_network(model), quantiser=chosen),
    )
    for one, other in zip(real.operators, drawn.operators, strict=True):
        assert type(one) is type(other)
        assert one.output.shape == other.output.shape
        if isinstance(one, Convolution | MatMul):
            assert (one.scale is None) == (other.scale is None)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"weight_format": "int3"}, "weights cannot be 'int3'"),
        ({"weight_scales": "row"}, "scales of weights cannot be by 'row'"),
    ],
)
def test_choices_that_there_are_not(model, options, says):
    with pytest.raises(InputError, match=says):
        baco.quantise(model, {"x": X}, **options)


PACKING = {"features": {"packed_weights": True}}


@pytest.mark.parametrize("engine", ["functional", "timed"])
def test_weights_of_four_bits_lie_two_a_byte_where_the_machine_loads_them_so(model, engine):
    """The network's integers are those of int8 machines, and weights take half of main memory; groups of one channel stay bytes."""
    plain = Accelerator(name="plain", dim=8, scratchpad_kib=16, accumulator_kib=8)
    packing = plain.replace(name="packing", **PACKING)
    network = load_network(model)
    quantised = quantise(network, [{"x": X}], quantiser=Quantiser(weight_format="int4"))
    inputs = quantise_inputs(quantised, {"x": X})
    values, sizes = reference(quantised, inputs), {}
    for machine in (plain, packing):
        program = compile_network(
            quantised, machine, schedule=scheduler(machine), data=inputs, reference=values, check_layers=True
        )
        run = run_network(program, values, engine)
        assert run.result.exit_code == 0, run.wrong
        assert run.checked
        assert not run.wrong
        layers = [code.layer for code in program.lowered.layers.values()]
        assert {layer.weight_bits for layer in layers if layer.problem.groups > 1} <= {8}
        assert {layer.weight_bits for layer in layers if layer.problem.groups == 1} == {
            4 if machine is packing else 8
        }
        used = {
            step.arguments[1].value
            for step in program.lowered.steps
            if step.function in program.lowered.layers
        }
        sizes[machine.name] = sum(program.lowered.constants[name].nbytes for name in used)
    assert sizes["packing"] < 0.6 * sizes["plain"]
