"""Numbers of a nest of loops in all of its rounds at once: places and sizes are found out by going through them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects import arith, scf
from xdsl.ir import Operation, SSAValue

from baco.compiler.blocks.analysis import bounds_of_loop
from baco.compiler.blocks.reading import Size, known_or_value

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
#: Rounds that are gone through at most.
MOST_ROUNDS = 1 << 22

_ARITHMETIC: dict[type[Operation], Callable[[Integers, Integers], Integers]] = {
    arith.AddiOp: np.add,
    arith.SubiOp: np.subtract,
    arith.MuliOp: np.multiply,
    arith.MinSIOp: np.minimum,
    arith.MaxSIOp: np.maximum,
    arith.FloorDivSIOp: np.floor_divide,
}
#: The same for numbers that are not negative.
_NATURAL: dict[type[Operation], Callable[[Integers, Integers], Integers]] = {
    arith.DivSIOp: np.floor_divide,
    arith.DivUIOp: np.floor_divide,
    arith.RemSIOp: np.remainder,
    arith.RemUIOp: np.remainder,
}


class Rounds:
    """All rounds of a nest of loops, the innermost loop's fastest.

    Attributes:
        counts: rounds of each loop, outermost first.
        count: of all of them.
    """

    def __init__(self, loops: Sequence[scf.ForOp], ranges: Sequence[Integers]) -> None:
        self.counts = tuple(len(one) for one in ranges)
        self.count = math.prod(self.counts)
        self._numbers: dict[SSAValue, Integers] = {}
        for loop, grid in zip(loops, np.meshgrid(*ranges, indexing="ij"), strict=True):
            self._numbers[loop.body.block.args[0]] = grid.reshape(-1)

    @classmethod
    def of(cls, loops: Sequence[scf.ForOp]) -> Rounds | None:
        """Of loops, outermost first; None where bounds are not known, or there are more than `MOST_ROUNDS`."""
        bounds = [bounds_of_loop(loop) for loop in loops]
        ranges = [range(*bound) for bound in bounds if bound is not None]
        if len(ranges) < len(loops) or math.prod(len(span) for span in ranges) > MOST_ROUNDS:
            return None
        return cls(loops, [np.arange(span.start, span.stop, span.step, dtype=np.int64) for span in ranges])

    def evaluate(self, size: Size) -> Integers | None:
        """A number in every round, (count,); None if it depends on anything but the loops' numbers."""
        size = known_or_value(size)
        if isinstance(size, int):
            return np.full(self.count, size, np.int64)
        if size in self._numbers:
            return self._numbers[size]
        op = size.owner
        if not isinstance(op, Operation) or len(op.operands) != 2:
            return None
        a, b = (self.evaluate(operand) for operand in op.operands)
        if a is None or b is None:
            return None
        numbers = None
        if type(op) in _ARITHMETIC and not (isinstance(op, arith.FloorDivSIOp) and np.any(b == 0)):
            numbers = _ARITHMETIC[type(op)](a, b)
        elif type(op) in _NATURAL and np.all(a >= 0) and np.all(b > 0):
            numbers = _NATURAL[type(op)](a, b)
        if numbers is not None:
            self._numbers[size] = numbers
        return numbers
