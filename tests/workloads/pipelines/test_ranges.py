"""Scales by powers of two, and the proof that a pipeline's numbers stay in range."""

from fractions import Fraction

import numpy as np
import pytest

from baco.compiler.network.quantise import quantise_given, quantise_inputs
from baco.compiler.network.reference import reference
from baco.workloads.pipelines.emitter import Placing
from baco.workloads.pipelines.functions import stencil
from baco.workloads.pipelines.node import PipelineError
from baco.workloads.pipelines.pipeline import Numbers, TracedPipeline
from baco.workloads.pipelines.ranges import Range, scale
from tests.seeds import seeds


@pytest.mark.parametrize(
    ("operator", "count", "expected"),
    [
        ("input", 1, 256),
        ("add", 1, 512),
        ("sub", 1, 512),
        ("mul", 1, 65536),
        ("conv", 25, 32 * 65536),  # 25 * 65536, to the next power of two
        ("matmul", 1000, 1024 * 65536),
        ("reduce_sum", 16, 16 * 256),
        ("transpose", 1, 256),
    ],
)
def test_scales_of_bytes_are_those_of_the_published_table(operator, count, expected):
    assert scale(operator, 255, count) == Fraction(1, expected)


def test_of_functions_that_are_not_linear_no_scale_is_known():
    with pytest.raises(ValueError, match="not linear"):
        scale("sqrt", 255)


@pytest.mark.parametrize("magnitude", [1, 3, 11, 127, 128, 255, 256, 1000])
def test_scaled_results_are_below_one_and_no_smaller_power_of_two_would_do_for_inputs(magnitude):
    assert magnitude * scale("input", magnitude) < 1 <= 2 * magnitude * scale("input", magnitude)
    assert 2 * magnitude * scale("add", magnitude) < 1
    assert magnitude**2 * scale("mul", magnitude) < 1
    assert 25 * magnitude**2 * scale("conv", magnitude, 25) < 1


@pytest.mark.parametrize(
    ("low", "high", "exponent", "stored"),
    [(0, 255, 0, 128), (-128, 127, 0, 0), (-100, 150, 0, 128), (0, 1, -7, 128), (0, 1020, 2, 128)],
)
def test_a_byte_holds_every_number_of_a_range_that_fits(low, high, exponent, stored):
    encoding = Range(Fraction(low), Fraction(high), exponent).encoding()
    numbers = np.arange(low, high + 2.0**exponent / 2, 2.0**exponent)
    assert encoding.shift == stored
    assert np.array_equal(encoding.real(encoding.whole(numbers)), numbers.astype(np.float32))
    assert encoding.fits_bytes


def test_a_byte_is_refused_to_a_range_of_more_than_256_steps():
    assert Range(Fraction(0), Fraction(256), 0).encoding() is None
    assert Range(Fraction(0), Fraction(1), None).encoding() is None


class _Program:
    """A random pipeline: steps that are applied to arrays and to traced tensors alike."""

    def __init__(self, random, stencils=False):
        self.steps = []
        kinds = [
            "add",
            "sub",
            "mul",
            "constant",
            "shift",
            "clip",
            "abs",
            "where",
            "max",
            "floor",
            "square",
            "compare",
        ]
        for _ in range(random.integers(2, 11)):
            kind = str(random.choice([*kinds, *(["stencil"] * 3 if stencils else [])]))
            self.steps.append((kind, *map(int, random.integers(0, 1 << 16, 3)), int(random.integers(1, 40))))

    def __call__(self, x, y, seen=None):
        values = [x, y]
        for kind, a, b, c, n in self.steps:
            left, right, third = (values[i % len(values)] for i in (a, b, c))
            if kind == "stencil":
                kernel = np.array([[a % 5 - 2, b % 7 - 3, 1], [2, c % 9 - 4, -1]])
                left = stencil(left, kernel, "zero")
            made = {
                "stencil": lambda left=left: left,
                "add": lambda left=left, right=right: left + right,
                "sub": lambda left=left, right=right: left - right,
                "mul": lambda left=left, right=right: left * right,
                "constant": lambda left=left, n=n: n * left - n // 2,
                "shift": lambda left=left, n=n: np.floor(left / 2 ** (n % 6 + 1)),
                "clip": lambda left=left, n=n, c=c: np.clip(left, -(c % 200), n * 4),
                "abs": lambda left=left: np.abs(left),
                "where": lambda left=left, right=right, third=third, n=n: np.where(left > n, right, third),
                "max": lambda left=left, right=right: np.maximum(left, right),
                "floor": lambda left=left, n=n: np.floor((left + n) / (2 * n)),
                "square": lambda left=left: left * left,
                "compare": lambda left=left, right=right: np.where(left <= right, 7, left),
            }[kind]()
            values.append(made)
            if seen is not None:
                seen.append(made)
        return values[-1]


def _holds(node, numbers):
    low, high = float(node.range.low), float(node.range.high)
    inside = numbers.min() >= low * (1 + 1e-12) - 1e-9 and numbers.max() <= high * (1 + 1e-12) + 1e-9
    if node.range.exponent is None:
        return inside
    steps = numbers / 2.0**node.range.exponent
    return inside and (steps == np.rint(steps)).all()


@pytest.mark.parametrize(("first", "count"), [(0, 60), pytest.param(60, 940, marks=pytest.mark.slow)])
def test_no_number_of_1000_random_pipelines_leaves_its_proven_range_for_any_input(first, count):
    """Brute force: both inputs take all of 16 x 16 pairs."""
    x, y = (one.reshape(-1).astype(np.float64) for one in np.mgrid[-8:8, 0:16])
    checked = refused = 0
    for seed in range(first, first + count):
        program = _Program(np.random.default_rng(seed))
        traced_values, values = [], []
        try:
            TracedPipeline(
                lambda a, b, program=program, traced_values=traced_values: program(a, b, traced_values),
                {"a": Numbers((256,), -8, 7), "b": Numbers((256,), 0, 15)},
            )
        except PipelineError:
            refused += 1
            continue
        program(x, y, values)
        for tensor, numbers in zip(traced_values, values, strict=True):
            assert _holds(tensor.node, np.asarray(numbers)), (seed, tensor, numbers.min(), numbers.max())
            checked += 1
    assert checked > 4 * count
    assert refused < count / 8


@pytest.mark.parametrize("seed", seeds(12, of=200))
def test_random_pipelines_in_integers_are_exact_or_refused_at_a_line(seed):
    """Small images, whose every intermediate number the proof either has exact or refuses; what runs is what numpy computes."""
    random = np.random.default_rng(seed)
    program = _Program(random, stencils=True)
    inputs = {"a": Numbers((7, 8), -8, 7), "b": Numbers((7, 8), 0, 255)}
    try:
        traced = TracedPipeline(lambda a, b: program(a, b), inputs)
        network = traced.network(Placing(("packed", "array", "host")[seed % 3], 4))
    except PipelineError as error:
        refused_at = error.location
    else:
        refused_at = None
    if refused_at is not None:
        assert refused_at.file == __file__
        return
    arrays = traced.random(seed)
    quantised = quantise_given(network)
    data = quantise_inputs(quantised, traced.graph_inputs(arrays))
    (name,) = quantised.outputs
    found = quantised.read_output(name, reference(quantised, data))
    (wanted,) = traced.evaluated(arrays)
    assert traced.exact == [True] or np.allclose(found, wanted, rtol=1e-5)
    if traced.exact == [True]:
        assert np.array_equal(found.astype(np.float64), np.broadcast_to(wanted, found.shape))
