"""Index arithmetic while the IR is built: known numbers are folded, and bounds of computed ones are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, LocationAttr, UnknownLoc
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.rewriter import InsertPoint

from baco.compiler.ir.known import known

#: A number of type `index`: known, or computed by the program.
Number: TypeAlias = "int | SSAValue"

_index = IndexType()
_NO_BOUND = 1 << 62


class IndexBuilder:
    """Appends operations to a block, folding arithmetic on known index numbers.

    Attributes:
        location: given to every operation appended.
    """

    def __init__(self, block: Block) -> None:
        self._builder = Builder(InsertPoint.at_end(block))
        self.location: LocationAttr = UnknownLoc()

    def at(self, block: Block) -> IndexBuilder:
        """One that appends to another block, with the same location."""
        other = IndexBuilder(block)
        other.location = self.location
        return other

    def insert(self, op: Operation) -> SSAValue:
        """Append an operation; its first result (of one without results, nothing useful)."""
        op.location = self.location
        self._builder.insert(op)
        return op.results[0] if op.results else None  # type: ignore[return-value]

    def value(self, number: Number) -> SSAValue:
        """The number as a value."""
        if isinstance(number, int):
            return self.insert(arith.ConstantOp.from_int_and_width(number, _index))
        return number

    def number(self, value: SSAValue) -> Number:
        """The value as a number, known if its bounds say so."""
        low, high = bounds_of(value)
        return low if low == high else value

    def add(self, a: Number, b: Number) -> Number:
        """a + b."""
        if isinstance(a, int):
            a, b = b, a
        if isinstance(b, int):
            if isinstance(a, int):
                return a + b
            if b == 0:
                return a
            if isinstance(a.owner, arith.AddiOp) and (inner := known(a.owner.rhs)) is not None:
                return self.add(a.owner.lhs, inner + b)  # constants gather on the right
        return self._fold(arith.AddiOp, a, b)

    def sub(self, a: Number, b: Number) -> Number:
        """a - b."""
        if isinstance(b, int):
            return self.add(a, -b)
        if a is b:
            return 0
        return self._fold(arith.SubiOp, a, b)

    def mul(self, a: Number, b: Number) -> Number:
        """a * b."""
        if isinstance(a, int):
            a, b = b, a
        if isinstance(b, int):
            if isinstance(a, int):
                return a * b
            if b in (0, 1):
                return a if b else 0
        return self._fold(arith.MuliOp, a, b)

    def min(self, a: Number, b: Number) -> Number:
        """The smaller one; the one that is never larger if the bounds tell."""
        (a_low, a_high), (b_low, b_high) = _bounds(a), _bounds(b)
        if a is b or a_high <= b_low:
            return a
        return b if b_high <= a_low else self._fold(arith.MinSIOp, a, b)

    def max(self, a: Number, b: Number) -> Number:
        """The larger one; the one that is never smaller if the bounds tell."""
        (a_low, a_high), (b_low, b_high) = _bounds(a), _bounds(b)
        if a is b or a_low >= b_high:
            return a
        return b if b_low >= a_high else self._fold(arith.MaxSIOp, a, b)

    def floor_div(self, a: Number, b: int) -> Number:
        """a divided by a positive known number, rounded down."""
        if isinstance(a, int):
            return a // b
        return a if b == 1 else self._fold(arith.FloorDivSIOp, a, b)

    def clamp(self, a: Number, upper: int) -> Number:
        """a, but at least 0 and at most `upper`."""
        return self.max(self.min(a, upper), 0)

    def _fold(self, kind: type[IRDLOperation], a: Number, b: Number) -> Number:
        op = kind(self.value(a), self.value(b))  # type: ignore[call-arg,arg-type]
        return self.number(self.insert(op))


def _bounds(number: Number) -> tuple[int, int]:
    return (number, number) if isinstance(number, int) else bounds_of(number)


def _product(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _quotient(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int] | None:
    """Of floor division by something positive."""
    if b[0] < 1:
        return None
    ends = [x // y for x in a for y in b]
    return min(ends), max(ends)


def _truncating(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int] | None:
    return _quotient(a, b) if a[0] >= 0 else None


def _ceiling(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int] | None:
    negative = _quotient((-a[1], -a[0]), b)
    return None if negative is None else (-negative[1], -negative[0])


def _remainder(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int] | None:
    if a[0] < 0 or b[0] < 1:
        return None
    return (a[0], a[1]) if a[1] < b[0] else (0, min(a[1], b[1] - 1))


_RULES: dict[type[IRDLOperation], Callable[[tuple[int, int], tuple[int, int]], tuple[int, int] | None]] = {
    arith.AddiOp: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    arith.SubiOp: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    arith.MuliOp: _product,
    arith.MinSIOp: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    arith.MaxSIOp: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    arith.FloorDivSIOp: _quotient,
    arith.DivSIOp: _truncating,
    arith.DivUIOp: _truncating,
    arith.CeilDivSIOp: _ceiling,
    arith.RemSIOp: _remainder,
    arith.RemUIOp: _remainder,
}


def bounds_of(value: SSAValue) -> tuple[int, int]:
    """Least and greatest number that an index value can have; +-2^62 where nothing is known.

    Interval arithmetic over the operations that compute it; numbers of loops with known bounds are between the first
    and the last one that the loop takes.
    """
    unknown = (-_NO_BOUND, _NO_BOUND)
    if (number := known(value)) is not None:
        return number, number
    if isinstance(value, BlockArgument):
        loop = value.owner.parent_op()
        if isinstance(loop, scf.ForOp) and value.index == 0:
            (first, _), (_, end), (step, widest) = map(bounds_of, (loop.lb, loop.ub, loop.step))
            if step != widest or step < 1:
                return first, max(first, end - 1)
            exact = known(loop.lb) is not None
            last = first + (end - 1 - first) // step * step if exact and end > first else max(first, end - 1)
            return first, last
        return unknown
    owner = value.owner
    rule = _RULES.get(type(owner))  # type: ignore[arg-type]
    if rule is None:
        return unknown
    assert isinstance(owner, Operation)
    found = rule(bounds_of(owner.operands[0]), bounds_of(owner.operands[1]))
    if found is None or max(map(abs, found)) >= _NO_BOUND:
        return unknown
    return found
