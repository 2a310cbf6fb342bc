"""Products with constant matrices: their ranges, the parts of banded ones, and resizing as two of them."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from baco.compiler.network.quantise import quantise_given, quantise_inputs
from baco.compiler.network.reference import reference
from baco.compiler.ops.products import MatMul
from baco.workloads.pipelines.emitter import Placing
from baco.workloads.pipelines.functions import resize
from baco.workloads.pipelines.pipeline import Numbers, TracedPipeline
from baco.workloads.pipelines.product_forms import bands
from baco.workloads.pipelines.ranges import Range, weighted
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(6, of=60))
def test_parts_of_a_matrix_hold_all_of_it_and_take_no_more_passes_than_the_whole(seed):
    random = np.random.default_rng(seed)
    terms, sums, width = (int(random.integers(1, n)) for n in (200, 120, 40))
    matrix = np.zeros((terms, sums), np.int64)
    for column in range(sums):
        first = max(0, column * terms // sums - width // 2)
        matrix[first : first + width, column] = random.integers(-3, 4, len(matrix[first : first + width]))
    rows = int(random.integers(1, 5000))
    parts = bands(matrix, rows, 16)
    again = np.zeros_like(matrix)
    for first, last, low, high in parts:
        again[low:high, first:last] = matrix[low:high, first:last]
    assert np.array_equal(again, matrix)
    assert [part[0] for part in parts] == [0, *(part[1] for part in parts[:-1])]
    passes = [-(-(high - low) // 16) * -(-(last - first) // 16) for first, last, low, high in parts]
    assert sum(passes) <= -(-terms // 16) * -(-sums // 16) or len(parts) == 1


def test_a_band_of_many_rows_is_split_and_a_full_matrix_is_not():
    x = np.eye(512, dtype=np.int64)
    assert len(bands(x, 10_000, 16)) == 32
    assert len(bands(x, 1, 16)) == 1
    assert len(bands(np.ones((512, 512), np.int64), 10_000, 16)) == 1


@pytest.mark.parametrize("seed", seeds(10, of=100))
def test_sums_of_weighted_numbers_reach_their_limits_and_go_no_further(seed):
    random = np.random.default_rng(seed)
    low, high = sorted(int(n) for n in random.integers(-4, 5, 2))
    weights = random.integers(-3, 4, (3, 2))
    found = weighted(Range(Fraction(low), Fraction(high), 0), weights, -1)
    numbers = [0.5 * (np.array(x) @ weights) for x in itertools.product(range(low, high + 1), repeat=3)]
    assert (float(found.low), float(found.high)) == (np.min(numbers), np.max(numbers))
    assert found.exponent == -1


def _interpolated(image, size):
    """By loops, in Python's fractions: weights in 64ths, rounded to whole numbers (ties to even) after rows and after columns."""

    def line(pixels, count):
        result = []
        for i in range(count):
            at = Fraction(2 * i + 1, 2) * Fraction(len(pixels), count) - Fraction(1, 2)
            low = at.numerator // at.denominator
            upper = Fraction(round((at - low) * 64), 64)
            first, second = (pixels[min(max(n, 0), len(pixels) - 1)] for n in (low, low + 1))
            result.append(round((1 - upper) * first + upper * second))
        return result

    columns = [line([int(row[x]) for row in image], size[0]) for x in range(image.shape[1])]
    return np.array([line([column[y] for column in columns], size[1]) for y in range(size[0])])


@pytest.mark.parametrize(
    ("shape", "size"),
    [((40, 56, 3), (12, 20)), ((9, 16), (20, 7)), ((16, 16, 3), (16, 10)), ((12, 8), (5, 8))],
)
def test_a_resized_image_of_bytes_is_that_of_fractions_and_is_computed_by_the_array_alone(shape, size):
    traced = TracedPipeline(lambda image: resize(image, size, rounded=True), {"image": Numbers(shape)})
    assert traced.exact == [True]
    arrays = traced.random(0)
    image = arrays["image"]
    channels = [image] if image.ndim == 2 else [image[..., c] for c in range(image.shape[2])]
    wanted = np.stack([_interpolated(channel, size) for channel in channels], -1).reshape(*size, *shape[2:])
    assert np.array_equal(traced.evaluated(arrays)[0], wanted)
    for placing in ("packed", "host"):
        quantised = quantise_given(traced.network(Placing(placing, 4)))
        data = quantise_inputs(quantised, traced.graph_inputs(arrays))
        found = quantised.read_output("result", reference(quantised, data)).reshape(wanted.shape)
        assert np.array_equal(found, wanted)
        assert all(isinstance(op, MatMul) for op in quantised.operators) == (placing == "packed")


@pytest.mark.parametrize("same", [True, False])
def test_a_product_with_a_constant_on_its_left_is_that_of_numpy(same):
    """Whose rows have one sum, to which the zero point of bytes adds the same, or not."""
    rows = (
        np.array([[3, 5, 0, -4], [1, 1, 1, 1], [0, 4, 0, 0]])
        if same
        else np.array([[1, 2, 3, 4], [5, 0, 0, 1]])
    )
    traced = TracedPipeline(lambda image: np.rint(rows @ image / 16), {"image": Numbers((4, 9))})
    arrays = traced.random(1)
    quantised = quantise_given(traced.network(Placing("packed", 4)))
    found = quantised.read_output(
        "result", reference(quantised, quantise_inputs(quantised, traced.graph_inputs(arrays)))
    )
    assert np.array_equal(found, np.rint(rows @ arrays["image"] / 16))
