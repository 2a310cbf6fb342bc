"""Integer expressions of a kernel as polynomials over what the user named.

Sizes and strides of a launch are constants, yet `BLOCK_SIZE_K * stride_ak` must be told apart from another product
that happens to have the same value: which dimension of a block a loop walks along follows from the names. So a
`Form` keeps arguments as atoms with a known value, beside atoms that change while the kernel runs (program ids,
loop variables, quotients), each with the range of its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

#: Values that nothing is known about (they come from memory, or change irregularly in a loop).
UNBOUNDED = 2**40
#: Terms of the longest sum.
MAX_TERMS = 256


class TooLargeError(Exception):
    """A value grows beyond what kernels can hold; the text says which. It becomes a KernelError where it is used."""


@dataclass(frozen=True, eq=False)
class Atom:
    """One indivisible integer: an argument, a program id, a loop variable, a quotient...

    Attributes:
        name: for messages and for a stable order; two atoms may share it.
        low, high: least and greatest value.
        fixed: an argument or computed from arguments alone, hence known when compiling (low = high).
        kind: "argument", "program", "loop", "cdiv", "floordiv", "mod", "min", "max", "memory" or "carried".
        operands: for "loop" (start, end, step), for "cdiv" ... "max" the two operands.
        serial: position in the order of creation.
    """

    name: str
    low: int
    high: int
    fixed: bool
    kind: str
    operands: tuple[Form, ...] = ()
    serial: int = 0

    @property
    def sort_key(self) -> tuple[str, int]:
        return self.name, self.serial


Monomial = tuple[Atom, ...]


@dataclass(frozen=True, eq=False)
class Form:
    """A polynomial with integer coefficients: {sorted atoms of a product: coefficient}."""

    terms: dict[Monomial, int] = field(default_factory=dict)

    @staticmethod
    def of(value: int | Atom) -> Form:
        if isinstance(value, Atom):
            return Form({(value,): 1})
        return Form({(): value} if value else {})

    def __add__(self, other: Form) -> Form:
        terms = dict(self.terms)
        for product, coefficient in other.terms.items():
            total = terms.get(product, 0) + coefficient
            if total:
                terms[product] = total
            else:
                terms.pop(product, None)
        if len(terms) > MAX_TERMS:
            raise TooLargeError(f"this integer is a sum of more than {MAX_TERMS} products")
        return Form(terms)

    def __neg__(self) -> Form:
        return Form({product: -coefficient for product, coefficient in self.terms.items()})

    def __sub__(self, other: Form) -> Form:
        return self + -other

    def __mul__(self, other: Form) -> Form:
        terms: dict[Monomial, int] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                product = tuple(sorted((*left, *right), key=lambda atom: atom.sort_key))
                terms[product] = terms.get(product, 0) + a * b
            if len(terms) > MAX_TERMS:
                raise TooLargeError(f"this integer is a sum of more than {MAX_TERMS} products")
        return Form({product: coefficient for product, coefficient in terms.items() if coefficient})

    def same(self, other: Form) -> bool:
        """Whether both are the same polynomial (not merely of the same value)."""
        return self.terms == other.terms

    @property
    def key(self) -> frozenset[tuple[Monomial, int]]:
        return frozenset(self.terms.items())

    def atoms(self) -> Iterator[Atom]:
        for product in self.terms:
            yield from product

    def origins(self) -> Iterator[Atom]:
        """The atoms, and those that they are computed from, each one once."""
        seen: set[Atom] = set()
        found = list(self.atoms())
        while found:
            atom = found.pop()
            if atom not in seen:
                seen.add(atom)
                yield atom
                found.extend(one for operand in atom.operands for one in operand.atoms())

    @property
    def is_zero(self) -> bool:
        return not self.terms

    @property
    def fixed(self) -> bool:
        """Whether the value is known when compiling."""
        return all(atom.fixed for atom in self.atoms())

    @cached_property
    def numeric(self) -> Form:
        """The same with every atom that has one value replaced by it."""
        terms: dict[Monomial, int] = {}
        for product, coefficient in self.terms.items():
            rest = []
            for atom in product:
                if atom.low == atom.high:
                    coefficient *= atom.low
                else:
                    rest.append(atom)
            if coefficient:
                terms[tuple(rest)] = terms.get(tuple(rest), 0) + coefficient
        return Form({product: coefficient for product, coefficient in terms.items() if coefficient})

    @cached_property
    def range(self) -> tuple[int, int]:
        """Bounds of the value; exact where every atom occurs once."""
        low = high = 0
        for product, coefficient in self.numeric.terms.items():
            least = greatest = coefficient
            for atom in product:
                corners = (least * atom.low, least * atom.high, greatest * atom.low, greatest * atom.high)
                least, greatest = min(corners), max(corners)
            low, high = low + least, high + greatest
        return low, high

    @property
    def low(self) -> int:
        return self.range[0]

    @property
    def high(self) -> int:
        return self.range[1]

    @property
    def value(self) -> int:
        """The value of a form that has only one."""
        assert self.low == self.high
        return self.low

    @property
    def bounded(self) -> bool:
        """Whether the range says something."""
        limit = UNBOUNDED // 2  # a loop up to a number from memory ends just below it
        return all(-limit < atom.low and atom.high < limit for atom in self.numeric.atoms())

    def divided_by(self, divisor: Form) -> Form | None:
        """The exact quotient by a single product of atoms, or None."""
        if len(divisor.terms) != 1:
            return self._quotient_of_sums(divisor)
        (factor, scale), terms = next(iter(divisor.terms.items())), {}
        for product, coefficient in self.terms.items():
            rest = list(product)
            for atom in factor:
                if atom not in rest:
                    return None
                rest.remove(atom)
            if coefficient % scale:
                return None
            terms[tuple(rest)] = coefficient // scale
        return Form(terms)

    def _quotient_of_sums(self, divisor: Form) -> Form | None:
        """The integer n with self = n * divisor, if the divisor is a sum and there is one."""
        if not divisor.terms or self.terms.keys() != divisor.terms.keys():
            return None
        quotients = {coefficient / divisor.terms[product] for product, coefficient in self.terms.items()}
        quotient = quotients.pop()
        return Form.of(int(quotient)) if not quotients and quotient == int(quotient) else None

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        parts = []
        for product, coefficient in self.terms.items():
            names = [atom.name for atom in product]
            if coefficient != 1 or not names:
                names.insert(0, str(coefficient))
            parts.append("*".join(names))
        return " + ".join(parts).replace("+ -", "- ")


class CeilingQuotient(int):
    """What `cdiv` gives outside of kernels: an `int` that remembers of what it is the quotient.

    A grid of such numbers (or products of them) tells the kernel how far each axis of the grid reaches.

    Attributes:
        factors: (dividend, divisor) of each quotient in the product that this number is.
    """

    factors: tuple[tuple[int, int], ...]

    @staticmethod
    def make(value: int, factors: tuple[tuple[int, int], ...]) -> CeilingQuotient:
        number = CeilingQuotient(value)
        number.factors = factors
        return number

    def __mul__(self, other: int) -> int:
        if isinstance(other, CeilingQuotient):
            return CeilingQuotient.make(int(self) * int(other), self.factors + other.factors)
        return int(self) * other

    __rmul__ = __mul__


def ceiling_quotient(dividend: int, divisor: int) -> CeilingQuotient:
    """The least integer that is at least `dividend` / `divisor`, for positive divisors."""
    return CeilingQuotient.make(-(-dividend // divisor), ((dividend, divisor),))
