"""The operators of the single-operator tables."""

import collections
import re

from baco.bench.paper.shapes import (
    CONVOLUTIONS,
    PRODUCTS,
    SEED,
    TABLE_CASES,
    draw,
    read_shapes,
    to_csv,
)

SHAPES = read_shapes()


def test_the_committed_list_is_what_its_generator_draws():
    assert draw(SEED) == SHAPES
    assert to_csv(draw(SEED)) == to_csv(SHAPES)
    assert draw(SEED + 1) != SHAPES


def test_products_lie_in_the_published_ranges():
    """Table 6.4: 544 cases in six ranges of M, N, K, which P, K, C (or K, 1, C of a transposed vector) are."""
    products = [s for s in SHAPES if s.kind in ("GEMM", "GEMV")]
    assert len(products) == 544
    assert collections.Counter(s.category for s in products) == {
        " ".join(f"{name}[{a},{b}]" for name, (a, b) in zip("MNK", ranges, strict=True)): cases
        for *ranges, cases in PRODUCTS
    }
    for shape in products:
        p = shape.problem
        m, n, k = (p.K, 1, p.C) if shape.kind == "GEMV" else (p.P, p.K, p.C)
        assert (p.R, p.S, p.Q, p.N) == (1, 1, 1, 1)
        if shape.kind == "GEMV":
            assert p.P == 1
        for value, (low, high) in zip((m, n, k), re.findall(r"\[(\d+),(\d+)\]", shape.category), strict=True):
            assert int(low) <= value <= int(high)


def test_convolutions_lie_in_the_published_ranges():
    """Table 6.5: nine ranges of map size with a filter each."""
    numbers = collections.Counter(s.category for s in SHAPES if s.kind == "Conv2D")
    assert list(numbers.values()) == [cases for _, _, _, cases, _ in CONVOLUTIONS]
    ranges = {f"{net} [{a},{b}] {f}x{f}": (a, b, f, channels) for net, (a, b), f, _, channels in CONVOLUTIONS}
    for shape in SHAPES:
        p = shape.problem
        if shape.kind == "Conv2D":
            low, high, kernel, channels = ranges[shape.category]
            assert p.P == p.Q
            assert p.R == p.S == kernel
            assert low <= p.P <= high
            assert {p.C, p.K} <= set(channels)
        elif shape.kind == "Conv1D":
            assert p.S == p.Q == 1


def test_the_table_counts_the_published_numbers_of_cases():
    assert collections.Counter(s.kind for s in SHAPES if s.table) == TABLE_CASES


def test_every_decade_of_a_wide_range_is_drawn_from():
    depths = [s.problem.C for s in SHAPES if s.category.endswith("K[1,65536]")]
    assert all(any(10**e <= d < 10 ** (e + 1) for d in depths) for e in range(5))
