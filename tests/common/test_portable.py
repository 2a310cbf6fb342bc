"""Portable arithmetic against 50 decimal digits, and against itself in other arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, getcontext

import numpy as np
import pytest

from baco.common import portable

getcontext().prec = 50
RNG = np.random.default_rng(1)
POSITIVE = np.concatenate(
    [
        np.exp(RNG.uniform(-300, 300, 400)),
        RNG.uniform(0.4, 2.2, 400),
        1 + RNG.normal(size=100) * 1e-9,
        [
            2.0**0.5,
            0.5**0.5,
            np.nextafter(0.5**0.5, 0),
            1.0,
            5e-324,
            1e-310,
            2.0**-1022,
            1.7976931348623157e308,
        ],
    ]
)
EXPONENTS = np.concatenate([RNG.uniform(-707, 709, 400), RNG.uniform(-1, 1, 400), [0.0, -707.9, 709.6]])
FUNCTIONS: dict[str, tuple[Callable[..., object], np.ndarray]] = {  # type: ignore[type-arg]
    "log": (portable.log, POSITIVE),
    "log2": (portable.log2, POSITIVE),
    "exp": (portable.exp, EXPONENTS),
    "exp2": (portable.exp2, EXPONENTS),
    "power": (lambda x: portable.power(x, 3.067), POSITIVE),
    "root": (lambda x: portable.power(x, 0.35), POSITIVE),
}
KNOWN = [
    "0x1.193ea7aad030bp+0",
    "0x1.a934f0979a371p+1",
    "0x1.cf46d99d52b3ap-1",
    "0x1.3b2c47bff8329p+0",
    "0x1.00ab323ca4efep+1",
]
ODD = np.array([0.0, -0.0, -1.0, np.inf, -np.inf, np.nan, 709.71, -708.1, 1024.0])


def bits(values: object) -> list[int]:
    """Of float64 numbers; all NaN alike."""
    found = np.asarray(values, dtype=np.float64)
    return np.where(np.isnan(found), np.nan, found).view(np.int64).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("function", "exact", "values", "units"),
    [
        (portable.log, lambda x: x.ln(), POSITIVE, 3),
        (portable.log2, lambda x: x.ln() / Decimal(2).ln(), POSITIVE, 4),
        (portable.exp, lambda x: x.exp(), EXPONENTS, 2),
        (portable.exp2, lambda x: (x * Decimal(2).ln()).exp(), EXPONENTS, 2),
    ],
)
def test_close_to_the_exact_value(
    function: Callable[[np.ndarray], np.ndarray],  # type: ignore[type-arg]
    exact: Callable[[Decimal], Decimal],
    values: np.ndarray,  # type: ignore[type-arg]
    units: int,
) -> None:
    for value, found in zip(values.tolist(), function(values).tolist(), strict=True):
        true = exact(Decimal(value))
        assert abs(Decimal(found) - true) <= units * Decimal(math.ulp(float(true))), value


@pytest.mark.parametrize("exponent", [0.35, 1 / 3.067, 3.067, 12.0, -2.5])
def test_powers(exponent: float) -> None:
    values = RNG.uniform(1e-3, 50, 300)
    for value, found in zip(values.tolist(), portable.power(values, exponent).tolist(), strict=True):
        true = (Decimal(value).ln() * Decimal(exponent)).exp()
        assert abs(Decimal(found) / true - 1) < Decimal("2e-15") * max(
            1, abs(int(exponent * math.log(value)))
        )


def test_exact_where_it_says_so() -> None:
    whole = np.arange(-1021.0, 1024.0)
    assert np.array_equal(portable.log2(np.ldexp(1.0, whole.astype(int))), whole)
    assert np.array_equal(portable.exp2(whole), np.ldexp(1.0, whole.astype(int)))
    assert portable.log(1.0) == 0.0
    assert portable.exp(0.0) == 1.0


def test_limits() -> None:
    assert bits(portable.log(ODD[:6])) == bits([-np.inf, -np.inf, np.nan, np.inf, np.nan, np.nan])
    assert bits(portable.exp(ODD)) == bits(
        [1.0, 1.0, portable.exp(-1.0), np.inf, 0.0, np.nan, np.inf, 0.0, np.inf]
    )
    assert bits(portable.power(np.array([0.0, 1.0, np.inf]), 3.067)) == bits([0.0, 1.0, np.inf])
    assert bits(portable.exp2(np.array([1023.0, 1024.0]))) == bits([2.0**1023, np.inf])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_element_has_the_same_bits_alone_and_in_any_array(name: str) -> None:
    function, values = FUNCTIONS[name]
    values = np.concatenate([values, ODD])
    expected = bits(function(values))
    assert bits([function(one) for one in values.tolist()]) == expected, "numbers"
    assert bits([function(values[i : i + 1])[0] for i in range(len(values))]) == expected  # type: ignore[index]
    order = RNG.permutation(len(values))
    assert bits(function(values[order])) == np.array(expected)[order].tolist()
    many = np.tile(values, 50)
    assert bits(function(many)) == expected * 50, "several blocks"
    table = np.tile(values, (3, 1)).T
    assert bits(function(table)) == [[one] * 3 for one in expected], "an array that is not contiguous"


def test_known_bits() -> None:
    """Those that every processor must find."""
    found = [
        portable.log(3.0), portable.log2(10.0), portable.exp(-0.1), portable.exp2(0.3), portable.power(7.3, 0.35),
    ]  # fmt: skip
    assert [one.hex() for one in found] == KNOWN


def test_sums_go_from_the_first_element_to_the_last() -> None:
    values = RNG.normal(size=(40, 17)) * 10.0 ** RNG.integers(-8, 8, (40, 17))
    weights = RNG.normal(size=17)
    for row, found, weighted in zip(
        values.tolist(), portable.total(values), portable.dot(values, weights), strict=True
    ):
        one = other = 0.0
        for value, weight in zip(row, weights.tolist(), strict=True):
            one, other = one + value, other + value * weight
        assert (one, other) == (found, weighted)
    assert bits(portable.total(values.T, 0)) == bits(portable.total(values))
    assert bits(portable.total(values[:1])) == bits(portable.total(values))[:1]


def test_matrices() -> None:
    one, other = RNG.normal(size=(6, 9)), RNG.normal(size=(9, 4))
    assert np.allclose(portable.matmul(one, other), one @ other, rtol=1e-12)
    matrix = one @ one.T + 0.1 * np.eye(6)
    assert np.allclose(portable.inverse(matrix), np.linalg.inv(matrix), rtol=1e-9)
    assert bits(portable.matmul(one[:1], other)) == bits(portable.matmul(one, other))[:1]
