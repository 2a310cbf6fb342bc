"""Networks on arrays of floating point: every operator equals the reference; the reference equals ml_dtypes and float32 additions."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.layers.float_sums import FloatSums, float_sums
from baco.compiler.network.calibrate import random_inputs
from baco.compiler.network.program import NetworkProgram, compile_network
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.quantiser import DEFAULT, Quantiser
from baco.compiler.network.reference import reference
from baco.compiler.ops.elements import Coded, CodedSum
from baco.compiler.ops.products import Convolution
from baco.sim.engines.program import run_program
from baco.workloads.builder import GraphBuilder
from baco.workloads.encoding import FloatEncoding
from baco.workloads.network import Network
from tests.compiler.layers.layer_oracle import KINDS, integers, spread
from tests.compiler.network import net_quant_networks as small
from tests.compiler.network.net_sketch import DIM4, Sketch, check
from tests.compiler.network.test_net_program_random import NETWORKS
from tests.compiler.network.test_net_quant_random import RandomNetwork
from tests.gemmini.float_machine import rounded_once
from tests.machines import BFLOATS, FLOATS
from tests.seeds import seeds, some

ROOMY = FLOATS.replace(name="roomy", scratchpad_kib=16, accumulator_kib=8)
OTHER = ROOMY.replace(name="other", input_format="fp8-e5m2", dim=2, tile_rows=1)
#: With elements of 16 bits.
WIDE = ROOMY.replace(name="wide", input_format="bf16", scratchpad_kib=32)
#: Positions between real numbers, as `selected` has them, are refused.
NAMES = [name for name in NETWORKS if name != "selected"]
BYTES = [form for form, kind in KINDS.items() if np.dtype(kind).itemsize == 1]


def run(
    network: Network, accelerator: Accelerator, seed: int = 0, engine: str = "functional"
) -> NetworkProgram:
    quantised = quantise(network, quantiser=DEFAULT.on(accelerator), seed=seed)
    inputs = {n: a for n, a in random_inputs(network, seed + 1).items() if n in quantised.inputs}
    data = quantise_inputs(quantised, inputs)
    expected = reference(quantised, data)
    program = compile_network(quantised, accelerator, data=data, reference=expected, check_layers=True)
    outputs, result = run_program(program.program, engine=engine)
    assert result.exit_code == 0, result.console
    for value, buffer in program.buffer_names.items():
        if quantised.values[value].role == "output":
            assert outputs[buffer].tobytes() == expected[value].tobytes(), value
    return program


@pytest.mark.parametrize(
    ("name", "accelerator"),
    [
        # each network on one of the arrays every time
        pytest.param(name, machine, marks=[pytest.mark.slow] * ((number + place) % 3 > 0))
        for number, name in enumerate(NAMES)
        for place, machine in enumerate((ROOMY, OTHER, WIDE))
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_networks_of_all_operators(accelerator: Accelerator, name: str) -> None:
    run(getattr(small, name)(), accelerator)


@pytest.mark.parametrize("seed", seeds(3, of=100))
def test_random_networks(seed: int) -> None:
    run(RandomNetwork(seed).grow(15), (ROOMY, OTHER, WIDE)[seed % 3], seed)


@pytest.mark.parametrize("accelerator", some(1, [FLOATS, BFLOATS, ROOMY, WIDE]), ids=lambda one: one.name)
def test_convolutions_in_rtl(accelerator: Accelerator) -> None:
    program = run(small.convolutions(), accelerator, engine="rtl")
    on_array = {step.operator for step in program.lowered.steps if step.accelerator}
    assert {op.name for op in program.network.operators if isinstance(op, Convolution)} <= on_array


def _numbers(form: str, codes: np.ndarray) -> np.ndarray:
    return codes.view(KINDS[form]).astype(np.float32)


@pytest.mark.parametrize("form", KINDS)
def test_products_are_added_block_by_block(form: str) -> None:
    """From a bias, blocks of so many rows, each from 0 on; one float32 addition after the other."""
    random, floats = np.random.default_rng(0), FloatSums(form, 4)
    left, right = (
        spread(random, math.prod(size)).reshape(size).astype(KINDS[form]).view(integers(KINDS[form]))
        for size in ((5, 11), (11, 3))
    )
    bias = random.normal(size=3).astype(np.float32)
    sums = floats.added(np.broadcast_to(bias, (5, 3)), floats.numbers(left), floats.numbers(right))
    x, w = _numbers(form, left), _numbers(form, right)
    another = 0
    for i, j in np.ndindex(5, 3):
        total, straight = bias[j], bias[j]
        for start in range(0, 11, 4):
            block = np.float32(0)
            for k in range(start, min(start + 4, 11)):
                block = np.float32(block + np.float32(x[i, k] * w[k, j]))
                straight = np.float32(straight + np.float32(x[i, k] * w[k, j]))
            total = np.float32(total + block)
        assert total == sums[i, j]
        another += bool(total != straight)
    assert another, "the order makes a difference"


@pytest.mark.parametrize("form", KINDS)
@pytest.mark.parametrize("relu", [False, True])
def test_codes_of_sums(form: str, relu: bool) -> None:
    random = np.random.default_rng(1)
    sums = random.normal(0, 1, 4000) * 2.0 ** random.integers(-20, 20, 4000)
    sums = np.concatenate([sums, [0.0, -0.0, np.inf, -np.inf, np.nan]]).astype(np.float32)
    for scale in (1.0, 0.25, 64.0):
        exact = np.clip(
            sums.astype(np.float64) * scale, *(x * float(ml_dtypes.finfo(KINDS[form]).max) for x in (-1, 1))
        )
        exact = np.where(relu & np.signbit(exact) & ~np.isnan(exact), 0.0, exact)
        wanted = rounded_once(exact, KINDS[form]).view(integers(KINDS[form]))
        np.testing.assert_array_equal(FloatSums(form, 4).codes(sums, relu, scale), wanted)
    with pytest.raises(InputError, match=r"scaled by powers of two, not by 0\.3"):
        FloatSums(form, 4).codes(sums, relu, 0.3)


@pytest.mark.parametrize("form", KINDS)
def test_encodings(form: str) -> None:
    encoding, random = FloatEncoding(0.5, 0, -128, 127, form), np.random.default_rng(2)
    numbers = (random.normal(size=2000) * 2.0 ** random.integers(-12, 9, 2000)).astype(np.float32)
    most = float(ml_dtypes.finfo(KINDS[form]).max)
    wanted = np.clip(numbers * 2, -most, most).astype(KINDS[form])
    codes = wanted.view(integers(KINDS[form]))
    np.testing.assert_array_equal(encoding.whole(numbers), codes)
    np.testing.assert_array_equal(encoding.real(codes), wanted.astype(np.float32) / 2)


@pytest.mark.parametrize("form", KINDS)
def test_the_host_rounds_to_codes(form: str) -> None:
    """Its C function, beside every number and every middle of two, and on what is no number of the format."""
    size = integers(KINDS[form]).itemsize
    codes = np.arange(1 << 8 * size).astype(f"uint{8 * size}")
    numbers = codes.view(KINDS[form]).astype(np.float32)
    numbers = np.sort(numbers[np.isfinite(numbers)])
    # of many a stretch beside 1, one across 0, and the largest
    parts = (0x7F00, 0x7F80, 0x3F40) if size == 2 else ()
    kept = np.concatenate([numbers[start : start + 80] for start in parts] + [numbers[-80:]])
    numbers = kept if parts else numbers
    with np.errstate(over="ignore"):
        middles = (numbers[1:] + numbers[:-1]) / 2
    points = np.concatenate([numbers, middles, [np.inf, -np.inf, np.nan, 1e-40, 1e30]])
    points = points.astype(np.float32)
    points = np.concatenate([points, *(np.nextafter(points, np.float32(end)) for end in (-np.inf, np.inf))])
    sketch = Sketch(np.random.default_rng(0))
    source = sketch.value(points.shape, "input", points)
    sketch.add(
        Coded,
        sketch.value(points.shape, "output", dtype=f"int{8 * size}"),
        input=source,
        scale=1.0,
        form=form,
    )
    program = check(sketch, check_layers=False)
    (name,) = (value.name for value in program.network.values.values() if value.role == "output")
    codes = reference(program.network, sketch.inputs())[name]
    most = float(ml_dtypes.finfo(KINDS[form]).max)
    kept = ~np.isnan(points)
    wanted = np.clip(points[kept], -most, most).astype(KINDS[form]).view(integers(KINDS[form]))
    np.testing.assert_array_equal(codes[kept], wanted)


#: Scales of both addends and of the sum, and whether it ends at zero.
_SUMS = (((1.0, 0.25, 2.0), True), ((0.125, 1.0, 0.5), False), ((1.0, 1.0, 1.0), False))


@pytest.mark.parametrize(
    ("form", "scales", "relu"),
    [
        pytest.param(form, scales, relu, marks=[pytest.mark.slow] * ((number + place) % 2))
        for number, form in enumerate(BYTES)
        for place, (scales, relu) in enumerate(_SUMS)
    ],
)
def test_sums_of_codes(form: str, scales: tuple[float, float, float], relu: bool) -> None:
    """All pairs of numbers: one float32 addition, saturated and rounded once, on the array and by the host core."""
    machine = (ROOMY if form == ROOMY.input_format else OTHER).replace(name="sums")
    codes = np.arange(256, dtype=np.uint8)
    codes = codes[np.isfinite(codes.view(KINDS[form]).astype(np.float32))].view(np.int8)
    left, right = np.repeat(codes, len(codes)), np.tile(codes, len(codes))
    numbers = np.arange(-128, 128).astype(np.int8).view(KINDS[form]).astype(np.float32)
    total = sum(_numbers(form, one) * np.float32(by) for one, by in zip((left, right), scales, strict=False))
    total = np.where(total == 0, 0, total).astype(np.float64) * scales[2]
    most = float(ml_dtypes.finfo(KINDS[form]).max)
    wanted = np.clip(np.maximum(total, 0) if relu else total, -most, most).astype(KINDS[form]).view(np.int8)
    for accelerator in (
        machine,
        machine.replace(features=machine.features.model_copy(update={"accumulator_scale": False})),
    ):
        sketch = Sketch(np.random.default_rng(0))
        views = [
            sketch.value((len(codes), len(codes)), "input", one.reshape(len(codes), -1))
            for one in (left, right)
        ]
        table = sketch.value((256,), "constant", numbers)
        sketch.add(
            CodedSum, sketch.value(views[0].shape, "output"), left=views[0], right=views[1], table=table,
            left_scale=scales[0], right_scale=scales[1], scale=scales[2], relu=relu, form=form,
        )  # fmt: skip
        program = check(sketch, accelerator, check_layers=False)
        (step,) = program.lowered.steps
        assert step.accelerator == (accelerator is machine or scales[2] == 1.0)
        (name,) = (value.name for value in program.network.values.values() if value.role == "output")
        np.testing.assert_array_equal(reference(program.network, sketch.inputs())[name].ravel(), wanted)


def residual(seed: int) -> Network:
    """Blocks with additions: of what came before, of a convolution of it, of an operand of other magnitude, with ReLUs and without."""
    r, b = np.random.default_rng(seed), GraphBuilder(f"residual{seed}")
    channels = int(r.integers(3, 12))
    x = b.relu(b.conv2d(b.input("x", (1, 3, 6, 5)), channels, 3, padding=1))
    for _ in range(3):
        y = b.conv2d(b.relu(b.conv2d(x, channels, 3, padding=1)), channels, 1, bias=True)
        other = b.conv2d(x, channels, 1) if r.random() < 0.4 else x
        total = b.add(*((y, other) if r.random() < 0.5 else (other, y)))
        x = b.relu(total) if r.random() < 0.7 else total
    b.conv2d(x, 4, 1)
    return b.build()


@pytest.mark.parametrize("seed", seeds(2, of=40))
def test_residual_networks(seed: int) -> None:
    machine = (ROOMY, OTHER)[seed % 2]
    program = run(residual(seed), machine, seed, ("functional", "timed")[seed // 2 % 2])
    sums = {op.name for op in program.network.operators if isinstance(op, CodedSum)}
    assert len(sums) == 3
    assert sums <= {step.operator for step in program.lowered.steps if step.accelerator}


def test_residuals_in_rtl() -> None:
    run(residual(1), FLOATS, engine="rtl")


def test_every_tile_gives_the_same() -> None:
    """A network's numbers depend on the rows of the array, not on the schedules of its layers."""
    network, found = small.convolutions(), []
    for size in (ROOMY, FLOATS, ROOMY.replace(scratchpad_kib=2)):
        program = run(network, size)
        found.append({name: array.tobytes() for name, array in program.network.constants.items()})
        found.append({code.schedule.text for code in program.lowered.layers.values()})
    assert found[0] == found[2] == found[4]
    assert found[1] != found[3]


def test_other_numbers_are_refused() -> None:
    network = small.convolutions()
    floats = quantise(network, quantiser=DEFAULT.on(ROOMY))
    with pytest.raises(InfeasibleError, match=r"in fp8-e4m3 for arrays of 4 rows, and \w+ computes integers"):
        compile_network(floats, DIM4)
    with pytest.raises(InfeasibleError, match="in integers, and roomy computes fp8-e4m3 for arrays of 4"):
        compile_network(quantise(network), ROOMY)
    with pytest.raises(
        InfeasibleError, match="weight_format cannot be chosen for roomy, whose elements are fp8"
    ):
        Quantiser(weight_format="int4").on(ROOMY)
    assert float_sums(DIM4) is None
    assert DEFAULT.on(DIM4) == DEFAULT


def test_choices_are_kept() -> None:
    chosen = DEFAULT.on(OTHER)
    assert Quantiser(**chosen.to_json()) == chosen
    assert chosen.label == "fp8-e5m2"
    assert "floats" not in DEFAULT.to_json()
