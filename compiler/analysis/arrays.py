"""Numbers that formulas are written over: numpy's arrays here, tensors where a model has to be differentiable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from baco.common import portable

#: A number or an array of numbers of whatever kind an `Arrays` works on; they broadcast with each other.
Values = Any


class Arrays(Protocol):
    """What formulas need beside arithmetic and comparison, elementwise."""

    def up(self, x: Values) -> Values:
        """Rounded up."""

    def down(self, x: Values) -> Values:
        """Rounded down."""

    def larger(self, a: Values, b: Values) -> Values:
        """The larger one."""

    def smaller(self, a: Values, b: Values) -> Values:
        """The smaller one."""

    def where(self, condition: Values, a: Values, b: Values) -> Values:
        """a where the condition holds, b elsewhere."""

    def power(self, x: Values) -> Values:
        """The largest power of two that divides a whole number, at most 128; 128 for 0."""

    def log2(self, x: Values) -> Values:
        """Of a power of two, exactly."""

    def raised(self, x: Values, exponent: float) -> Values:
        """x to a power; x is not negative."""

    def some(self, condition: Values) -> bool:
        """Whether the condition holds anywhere."""

    def place(self, tables: InterpolatedTables, *index: Values) -> Values:
        """Where the last axis of tables begins, given whole indices of those before: what `between` takes."""

    def between(self, tables: InterpolatedTables, place: Values, last: Values) -> Sequence[Values]:
        """Elements of the tables, one result each, at a `place` and between neighbours along their last axis by linear
        interpolation."""


@dataclass(frozen=True, eq=False)
class InterpolatedTables:
    """Tables of one shape, `values[n]`, whose last axis is interpolated."""

    values: NDArray[np.float64]

    @property
    def width(self) -> int:
        """Elements along the last axis."""
        return int(self.values.shape[-1])

    @cached_property
    def rows(self) -> NDArray[np.float64]:
        """(n, elements) of the tables one after the other."""
        return self.values.reshape(len(self.values), -1)

    @cached_property
    def slopes(self) -> NDArray[np.float64]:
        """From each of `rows` to its neighbour along the last axis, 0 from the last one."""
        return np.diff(self.values, axis=-1, append=self.values[..., -1:]).reshape(self.rows.shape)

    def place(self, index: Sequence[Values]) -> Values:
        """Of the first element along the last axis, given all indices before."""
        first = index[0]
        for one, size in zip(index[1:], self.values.shape[2:-1], strict=True):
            first = first * size + one
        return first * self.width


def _itself(part: Values) -> Values:
    return part


class Parts(NamedTuple):
    """Parts of a whole: so many of one size, and one of what is left, which may be 0; None where parts need not be whole."""

    count: Values
    size: Values
    rest: Values | None

    def each(self, of: Callable[[Values], Values]) -> Parts:
        """With something of each part in its place."""
        return Parts(self.count, of(self.size), None if self.rest is None else of(self.rest))

    def pair_total(self, of: Callable[[Values], Values] = _itself) -> Values:
        """Sum of `of(part)` over the parts of all parts, which are parts themselves."""
        return self.total(lambda parts: parts.total(of))

    def total(self, of: Callable[[Values], Values] = _itself, of_size: Values = None) -> Values:
        """Sum of `of(part)` over all of them, of those of one size `of_size` each if that is known. `of(0)` must be 0."""
        full = self.count * (of(self.size) if of_size is None else of_size)
        return full if self.rest is None else full + of(self.rest)


class CountArrays(Protocol):
    """What plans of code and counts of its commands need: over whole numbers (`INTEGERS`), or tensors that need not be whole."""

    def larger(self, a: Values, b: Values) -> Values:
        """The larger one."""

    def smaller(self, a: Values, b: Values) -> Values:
        """The smaller one."""

    def where(self, condition: Values, a: Values, b: Values) -> Values:
        """a where the condition holds, b elsewhere."""

    def at_least(self, x: Values, least: Values) -> Values:
        """x, or the least if that is more; at that bound, changes of x count."""

    def at_most(self, x: Values, most: Values) -> Values:
        """x, or the most if that is less; at that bound, changes of x count."""

    def equal(self, a: Values, b: Values) -> Values:
        """Whether two sizes are the same."""

    def step(self, a: Values, b: Values) -> Values:
        """The greatest common divisor of two whole numbers, 1 for two zeros."""

    def pieces(self, whole: Values, size: Values) -> Values:
        """How many pieces of at most `size` a whole takes."""

    def fitting(self, whole: Values, size: Values) -> Values:
        """How many pieces of `size` fit into a whole."""

    def parts(self, whole: Values, size: Values) -> Parts:
        """The parts of a whole, all of `size` but the last one."""


class _Integers:
    """`CountArrays` of Python's integers."""

    def larger(self, a: Values, b: Values) -> Values:
        return max(a, b)

    def smaller(self, a: Values, b: Values) -> Values:
        return min(a, b)

    def where(self, condition: Values, a: Values, b: Values) -> Values:
        return a if condition else b

    at_least, at_most = larger, smaller

    def equal(self, a: Values, b: Values) -> Values:
        return a == b

    def step(self, a: Values, b: Values) -> Values:
        return math.gcd(a, b) or 1

    def pieces(self, whole: Values, size: Values) -> Values:
        return -(-whole // size)

    def fitting(self, whole: Values, size: Values) -> Values:
        return whole // size

    def parts(self, whole: Values, size: Values) -> Parts:
        return Parts(whole // size, size, whole % size)


class _Choices:
    """Choices elementwise, by numpy."""

    def larger(self, a: Values, b: Values) -> Values:
        return np.maximum(a, b)

    def smaller(self, a: Values, b: Values) -> Values:
        return np.minimum(a, b)

    def where(self, condition: Values, a: Values, b: Values) -> Values:
        return np.where(condition, a, b)


class _IntegerArrays(_Choices, _Integers):
    """`CountArrays` of numpy's integers."""

    at_least, at_most = _Choices.larger, _Choices.smaller

    def step(self, a: Values, b: Values) -> Values:
        return np.maximum(np.gcd(a, b), 1)


INTEGERS: CountArrays = _Integers()
INTEGER_ARRAYS: CountArrays = _IntegerArrays()


class _Numpy(_Choices):
    """`Arrays` of numpy."""

    def up(self, x: Values) -> Values:
        return np.ceil(x - 1e-9)

    def down(self, x: Values) -> Values:
        return np.floor(x + 1e-9)

    def power(self, x: Values) -> Values:
        whole = np.rint(np.asarray(x)).astype(np.int64)
        low = whole & -whole
        return np.where(low == 0, 128, np.minimum(low, 128)).astype(np.float64)

    def log2(self, x: Values) -> Values:
        return np.frexp(x)[1] - 1.0

    def raised(self, x: Values, exponent: float) -> Values:
        return portable.power(x, exponent)

    def some(self, condition: Values) -> bool:
        return bool(np.any(condition))

    def place(self, tables: InterpolatedTables, *index: Values) -> Values:
        sizes = tables.values.shape[1:-1]
        return tables.place(
            [np.clip(np.rint(one), 0, size - 1) for one, size in zip(index, sizes, strict=True)]
        )

    def between(self, tables: InterpolatedTables, place: Values, last: Values) -> Sequence[Values]:
        below = np.clip(np.floor(last), 0, tables.width - 1)
        share = last - below
        first, second = (
            (place + one).astype(np.int64) for one in (below, np.minimum(below + 1, tables.width - 1))
        )
        return [table[first] * (1.0 - share) + table[second] * share for table in tables.rows]


NUMPY: Arrays = _Numpy()
