"""Ranges of a pipeline's tensors in exact fractions, scales by powers of two, and the proof that nothing overflows.

A number is a fixed-point one if it is a multiple of 2**exponent, known when it is traced. Such numbers are exact in float32 while their
magnitude is at most 2**(24 + exponent), and in a byte while their range has at most 256 steps; sums of products of bytes are exact
in the array's 32 bits. What cannot be shown to lie within these limits is refused, never rounded silently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from baco.workloads.encoding import Encoding

#: Bits of a float32's mantissa, and the largest magnitude that it holds.
MANTISSA_BITS = 24
LARGEST_REAL = Fraction(2) ** 127
#: Limits of the array's accumulators.
LARGEST_SUM = 2**31 - 1

Number = int | Fraction


@dataclass(frozen=True)
class Range:
    """What a tensor's elements can be.

    Attributes:
        low, high: exact limits, both included.
        exponent: the elements are multiples of 2**exponent; None for real numbers, which float32 rounds.
    """

    low: Fraction
    high: Fraction
    exponent: int | None = 0

    @property
    def magnitude(self) -> Fraction:
        """Largest absolute value."""
        return max(abs(self.low), abs(self.high))

    @property
    def steps(self) -> int | None:
        """Numbers of units of 2**exponent from `low` to `high`; None of real numbers."""
        if self.exponent is None:
            return None
        return math.floor((self.high - self.low) / _power(self.exponent))

    @property
    def exact(self) -> bool:
        """Whether float32 holds every such number as it is."""
        return self.exponent is not None and self.magnitude <= _power(MANTISSA_BITS + self.exponent)

    def encoding(self) -> Encoding | None:
        """How a byte holds every such number as it is, in units of a power of two; None where 8 bits are too few."""
        steps = self.steps
        if self.exponent is None or steps is None or steps > 255 or not -100 < self.exponent < 100:
            return None
        unit = _power(self.exponent)
        low, high = math.ceil(self.low / unit), math.floor(self.high / unit)
        scale = float(unit)
        if low >= -128 and high <= 127:
            return Encoding(scale, 0, -128, 127)
        if low >= 0 and high <= 255:
            return Encoding(scale, 0, 0, 255)
        return Encoding(scale, -low, 0, 255)


def _power(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


def exponent_of(number: Fraction) -> int | None:
    """The largest e so that the number is a multiple of 2**e; None for one that is no such multiple, 0 of 0."""
    if number == 0:
        return 0
    numerator, denominator = number.numerator, number.denominator
    if denominator & (denominator - 1):
        return None
    return (numerator & -numerator).bit_length() - denominator.bit_length()


def of_numbers(numbers: Sequence[Fraction]) -> Range:
    """Of constants."""
    exponents = [exponent_of(one) for one in numbers if one]
    known = [one for one in exponents if one is not None]
    exponent = min(known, default=0) if len(known) == len(exponents) else None
    return Range(min(numbers), max(numbers), exponent)


# Arithmetic of intervals


def _both(x: Range, y: Range) -> int | None:
    if x.exponent is None or y.exponent is None:
        return None
    return min(x.exponent, y.exponent)


def added(x: Range, y: Range) -> Range:
    """x + y."""
    return Range(x.low + y.low, x.high + y.high, _both(x, y))


def negated(x: Range) -> Range:
    """-x."""
    return Range(-x.high, -x.low, x.exponent)


def multiplied(x: Range, y: Range) -> Range:
    """x * y, of independent numbers."""
    corners = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    exponent = None if x.exponent is None or y.exponent is None else x.exponent + y.exponent
    return Range(min(corners), max(corners), exponent)


def squared(x: Range) -> Range:
    """x * x."""
    least = Fraction(0) if x.low <= 0 <= x.high else min(x.low**2, x.high**2)
    return Range(least, x.magnitude**2, None if x.exponent is None else 2 * x.exponent)


def absolute(x: Range) -> Range:
    """|x|."""
    least = Fraction(0) if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high))
    return Range(least, x.magnitude, x.exponent)


def divided(x: Range, y: Range) -> Range | None:
    """x / y; None where y may be 0."""
    if y.low <= 0 <= y.high:
        return None
    corners = [a / b for a in (x.low, x.high) for b in (y.low, y.high)]
    exponent = None
    if y.low == y.high and x.exponent is not None:
        shift = exponent_of(y.low)
        if shift is not None and abs(y.low) == _power(shift):
            exponent = x.exponent - shift
    return Range(min(corners), max(corners), exponent)


def rounded(x: Range, function: str) -> Range:
    """A function that gives whole numbers: floor, ceil, round (ties to even) or trunc."""
    functions: dict[str, Callable[[Fraction], int]] = {
        "floor": math.floor,
        "ceil": math.ceil,
        "round": round,
        "trunc": math.trunc,
    }
    apply = functions[function]
    exponent = max(0, x.exponent) if x.exponent is not None else 0
    return Range(Fraction(apply(x.low)), Fraction(apply(x.high)), exponent)


def limited(x: Range, low: Fraction | None, high: Fraction | None) -> Range:
    """clip(x, low, high)."""
    least, most = x.low, x.high
    exponents = [x.exponent]
    for limit in (low, high):
        if limit is not None and x.low < limit < x.high:
            exponents.append(exponent_of(limit))
    if low is not None:
        least, most = max(least, low), max(most, low)
    if high is not None:
        least, most = min(least, high), min(most, high)
    known = [one for one in exponents if one is not None]
    return Range(least, most, min(known) if len(known) == len(exponents) else None)


def joined(*ranges: Range) -> Range:
    """What holds all of them."""
    exponents = [one.exponent for one in ranges if one.low or one.high]
    known = [one for one in exponents if one is not None]
    exponent = min(known, default=0) if len(known) == len(exponents) else None
    return Range(min(one.low for one in ranges), max(one.high for one in ranges), exponent)


def summed(x: Range, count: int) -> Range:
    """The sum of so many."""
    return Range(x.low * count, x.high * count, x.exponent)


def weighted(x: Range, weights: np.ndarray, exponent: int) -> Range:
    """Sums of numbers times whole weights [terms, sums] in units of 2**exponent: each sum has limits of its own."""
    ends = np.unique(
        np.stack([np.maximum(weights, 0).sum(0), np.minimum(weights, 0).sum(0)]), axis=1
    ).T.tolist()
    unit = _power(exponent)
    low = min(above * x.low + below * x.high for above, below in ends) * unit
    high = max(above * x.high + below * x.low for above, below in ends) * unit
    return Range(low, high, None if x.exponent is None else x.exponent + exponent)


def root(x: Range) -> Range:
    """The square root; x is not negative. Limits are those of float64, a little wider."""
    low = Fraction(max(0.0, math.sqrt(x.low) * (1 - 2**-40)))
    return Range(low, Fraction(math.sqrt(x.high) * (1 + 2**-40)), None)


# Scales (Xia, 2022, section 5.5.3)

#: Operators whose results are numbers that are there already.
CARRYING = frozenset(
    (
        "pad",
        "split",
        "concat",
        "slice",
        "reshape",
        "transpose",
        "resize",
        "max_pool",
        "compare",
        "min",
        "topk",
    )
)


def round_up_power(x: Number) -> int:
    """The nearest power of two that is greater than x: 4 of 3, 16 of 11, 256 of 255."""
    return 1 << int(x).bit_length() if x >= 1 else 1


def scale(operator: str, magnitude: Number, count: int = 1) -> Fraction:
    """The power of two by which results of an operator are less than 1 whatever it is given.

    Args:
        operator: `add`, `sub`, `mul`, `reduce_sum`, `reduce_mean`, `conv`, `matmul`, or one that leaves numbers as they are.
        magnitude: largest absolute value of its operands.
        count: how many numbers, or products, are added: of a reduction, a kernel's elements, the inner dimension of a product.

    Reductions over a whole image must not be scaled beforehand: of 16 bits next to nothing would be left.

    Raises ValueError for other operators, of which no scale is known.
    """
    if operator in CARRYING or operator == "input":
        return Fraction(1, round_up_power(magnitude))
    if operator in ("add", "sub"):
        return Fraction(1, 2 * round_up_power(magnitude))
    if operator in ("reduce_sum", "reduce_mean"):
        return Fraction(1, round_up_power(count - 1) * round_up_power(magnitude))
    if operator in ("mul", "conv", "matmul"):
        return Fraction(1, round_up_power(count - 1) * round_up_power(Fraction(magnitude) ** 2))
    raise ValueError(f"no scale of '{operator}' is known: it is not linear")
