"""Random mappings with exact divisors."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco.compiler.mapping.batch import AXES
from baco.compiler.mapping.factors import divisors, prime_powers
from baco.exploration.cost.genome import (
    COLUMNS,
    FLOW,
    K_AXIS,
    ORDER,
    ROW_AXIS,
    ROWS,
    T1,
    T2,
    T3,
    Genomes,
    to_mapping,
)
from baco.exploration.search.exact_factors import PUBLISHED_ORDERS, ExactMappings, nearest_divisor
from baco.workloads.problem import DIMS, Problem


def problem_of(bounds: np.ndarray) -> Problem:
    return Problem(**dict(zip(AXES, map(int, bounds), strict=True)))


@given(st.integers(1, 100_000))
def test_prime_powers_and_divisors(number: int) -> None:
    powers = prime_powers(number)
    assert math.prod(p**e for p, e in powers) == number
    assert all(p > 1 and all(p % q for q in range(2, math.isqrt(p) + 1)) for p, _ in powers)
    if number < 3000:
        assert divisors(number).tolist() == [d for d in range(1, number + 1) if number % d == 0]


@given(st.lists(st.integers(1, 96), min_size=7, max_size=7), st.integers(2, 64), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_factors_multiply_to_the_bounds_and_fit_the_array(bounds: list[int], dim: int, seed: int) -> None:
    table = np.array([bounds])
    rows = ExactMappings(table, [0, 1]).draw(np.zeros(40, int), np.full(40, dim), np.random.default_rng(seed))
    for row in rows:
        mapping = to_mapping(row, 1, double_buffer=False)
        assert mapping.padded_bounds == tuple(bounds[AXES.index(d)] for d in DIMS)
        assert max(mapping.rows, mapping.columns) <= dim
        assert row[ORDER] < PUBLISHED_ORDERS


def test_all_factorisations_are_equally_likely() -> None:
    """12 = 2^2 x 3 in three ordered factors without an array: 6 x 3 = 18 ways; compare with brute force."""
    table = np.array([[1, 1, 1, 1, 1, 12, 1]])
    size = 36_000
    rows = ExactMappings(table, [0]).draw(np.zeros(size, int), np.full(size, 4), np.random.default_rng(0))
    axis = AXES.index("Q")
    seen = Counter(zip(rows[:, T1][:, axis], rows[:, T2][:, axis], rows[:, T3][:, axis], strict=True))
    ways = [f for f in itertools.product(range(1, 13), repeat=3) if math.prod(f) == 12]
    assert set(seen) == set(ways)
    # 2,000 expected each, standard deviation 43.
    assert all(1750 < number < 2250 for number in seen.values())


def test_mappings_of_one_gene_pair_are_always_the_same() -> None:
    bounds = np.array([[3, 3, 64, 128, 28, 28, 1], [1, 1, 768, 3072, 384, 1, 1]])
    genes = np.random.default_rng(1).integers(0, 2**31, (200, 2))
    task = np.arange(200) % 2

    def everything_fits(index: np.ndarray, rows: Genomes) -> np.ndarray:
        return np.ones(len(rows), dtype=bool)

    mappings = ExactMappings(bounds, [0, 1])
    rows, good = mappings.decode(task, genes, np.full(200, 16), everything_fits)
    assert good.all()
    part = np.arange(150, 160)
    again, _ = mappings.decode(task[part], genes[part], np.full(10, 16), everything_fits)
    assert (again == rows[part]).all()
    assert len(np.unique(rows, axis=0)) > 180
    # One gene decides on channels and window, the other on pixels, dataflow and order.
    changed = genes.copy()
    changed[:, 1] += 1
    other, _ = mappings.decode(task, changed, np.full(200, 16), everything_fits)
    same_flow = other[:, FLOW] == rows[:, FLOW]
    window = [T1.start + a for a in range(2)] + [T2.start + a for a in range(2)]
    assert (other[same_flow][:, [*window, COLUMNS]] == rows[same_flow][:, [*window, COLUMNS]]).all()
    assert (other != rows).any(1).mean() > 0.9


@pytest.mark.parametrize("way", ["draw", "decode"])
def test_what_does_not_fit_is_made_to_fit(way: str) -> None:
    """A bound on the product of all inner factors that few draws satisfy."""
    bounds = np.array([[3, 3, 512, 512, 14, 14, 1]])
    size = 300

    def small(index: np.ndarray, rows: Genomes) -> np.ndarray:
        return rows[:, ROWS] * rows[:, COLUMNS] * rows[:, T1].prod(1) * rows[:, T2].prod(1) <= 4

    mappings, task, dim = ExactMappings(bounds, [0]), np.zeros(size, int), np.full(size, 64)
    rng = np.random.default_rng(0)
    if way == "draw":
        rows, good = mappings.draw_fitting(task, dim, small, rng)
    else:
        rows, good = mappings.decode(task, rng.integers(0, 2**31, (size, 2)), dim, small)
    assert good.all()
    assert small(np.arange(size), rows).all()
    for row in rows:
        assert to_mapping(row, 1, double_buffer=False).padded_bounds == problem_of(bounds[0]).bounds

    rows, good = mappings.draw_fitting(task, dim, lambda i, r: np.zeros(len(r), dtype=bool), rng)
    assert not good.any()
    # Even then they are valid mappings.
    assert (rows[:, T3].prod(1) == bounds.prod()).all()
    assert (rows[:, K_AXIS] >= 1).all()
    assert ROW_AXIS[0] == AXES.index("C")


@given(
    st.lists(st.tuples(st.integers(1, 500), st.floats(-1, 7), st.integers(1, 600)), min_size=1, max_size=20)
)
def test_nearest_divisor(cases: list[tuple[int, float, int]]) -> None:
    number, log_value, limit = (np.array(v) for v in zip(*cases, strict=True))
    found = nearest_divisor(log_value, number, limit)
    for n, value, most, got in zip(number, log_value, limit, found, strict=True):
        allowed = [d for d in range(1, n + 1) if n % d == 0 and d <= most]
        assert got in allowed
        assert abs(math.log(got) - value) <= min(abs(math.log(d) - value) for d in allowed) + 1e-12
