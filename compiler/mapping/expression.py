"""Index expressions: which element of a tensor, or which address, an iteration touches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

#: What index expressions are combined with.
Index: TypeAlias = "Expression | int"


class Expression:
    """A whole-number expression in the iterations of a loop nest; combine with + * // %."""

    def __add__(self, other: Index) -> Expression:
        return _sum(self, other)

    def __radd__(self, other: Index) -> Expression:
        return _sum(other, self)

    def __sub__(self, other: Index) -> Expression:
        return _sum(self, other * -1)

    def __mul__(self, factor: int) -> Expression:
        return _scaled(self, factor)

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> Expression:
        if divisor < 1:
            raise ValueError(f"an index is divided by positive numbers only, not {divisor}")
        return self if divisor == 1 else Quotient(self, divisor)

    def __mod__(self, divisor: int) -> Expression:
        if divisor < 1:
            raise ValueError(f"an index is divided by positive numbers only, not {divisor}")
        return Sum((), 0) if divisor == 1 else Remainder(self, divisor)

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The number it stands for; `values` may be integers or numpy arrays of one broadcastable shape."""
        raise NotImplementedError

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the iterations in it, in the order of their appearance."""
        raise NotImplementedError


@dataclass(frozen=True)
class Variable(Expression):
    """One iteration."""

    name: str

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Its number."""
        return values[self.name]

    @property
    def variables(self) -> tuple[str, ...]:
        """Its name."""
        return (self.name,)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Sum(Expression):
    """A constant plus multiples of other expressions: `terms` are (expression, factor), no factor is 0."""

    terms: tuple[tuple[Expression, int], ...]
    constant: int = 0

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Their sum."""
        total: Any = self.constant
        for term, factor in self.terms:
            total = total + term.evaluate(values) * factor
        return total

    @property
    def variables(self) -> tuple[str, ...]:
        """Names in the terms."""
        return tuple(dict.fromkeys(name for term, _ in self.terms for name in term.variables))

    def coefficient(self, name: str) -> int:
        """Factor of an iteration that appears by itself; 0 if it does not."""
        return next((factor for term, factor in self.terms if term == Variable(name)), 0)

    def __str__(self) -> str:
        text = ""
        for term, factor in self.terms:
            part = str(term) if abs(factor) == 1 else f"{term}*{abs(factor)}"
            text += (" - " if text else "-") + part if factor < 0 else (" + " if text else "") + part
        if self.constant or not text:
            sign = (" - " if self.constant < 0 else " + ") if text else "-" if self.constant < 0 else ""
            text += f"{sign}{abs(self.constant)}"
        return text


@dataclass(frozen=True)
class Quotient(Expression):
    """An expression divided by a positive number, rounded down."""

    dividend: Expression
    divisor: int

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The quotient."""
        return self.dividend.evaluate(values) // self.divisor

    @property
    def variables(self) -> tuple[str, ...]:
        """Names in the dividend."""
        return self.dividend.variables

    def __str__(self) -> str:
        return f"{_bracketed(self.dividend)}//{self.divisor}"


@dataclass(frozen=True)
class Remainder(Expression):
    """The remainder by a positive number, never negative."""

    dividend: Expression
    divisor: int

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The remainder."""
        return self.dividend.evaluate(values) % self.divisor

    @property
    def variables(self) -> tuple[str, ...]:
        """Names in the dividend."""
        return self.dividend.variables

    def __str__(self) -> str:
        return f"{_bracketed(self.dividend)}%{self.divisor}"


def variable(name: str) -> Expression:
    """An iteration as an expression."""
    return Variable(name)


def as_sum(expression: Index) -> Sum:
    """The expression as a sum of terms."""
    if isinstance(expression, Sum):
        return expression
    if isinstance(expression, int):
        return Sum((), expression)
    return Sum(((expression, 1),))


def _sum(*parts: Index) -> Expression:
    factors: dict[Expression, int] = {}
    constant = 0
    for part in map(as_sum, parts):
        constant += part.constant
        for term, factor in part.terms:
            factors[term] = factors.get(term, 0) + factor
    terms = tuple((term, factor) for term, factor in factors.items() if factor)
    if not constant and len(terms) == 1 and terms[0][1] == 1:
        return terms[0][0]
    return Sum(terms, constant)


def _scaled(expression: Index, factor: int) -> Expression:
    total = as_sum(expression)
    terms = tuple((term, own * factor) for term, own in total.terms if factor)
    return _sum(Sum(terms, total.constant * factor))


def _bracketed(expression: Expression) -> str:
    return f"({expression})" if isinstance(expression, Sum) else str(expression)
