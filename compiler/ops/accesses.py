"""How the classes of operators say which elements their iterations touch."""

from __future__ import annotations

import math
from collections.abc import Sequence

from baco.compiler.mapping.contraction import Access
from baco.compiler.mapping.expression import Expression, Sum, variable
from baco.compiler.ops.operator import Dependences, IntegerOperator, Operand

#: Operations of a function of one element (a table), and of an arithmetic operation (Souffle's O(10) and O(1)).
FUNCTION, ARITHMETIC = 10, 1


class Accesses:
    """Iterations of one operator: those of its results, `d0`, `d1`, ... from the outermost one, and more.

    Attributes:
        result: index of the result.
    """

    def __init__(self, op: IntegerOperator) -> None:
        self._op = op
        self._extents = {f"d{at}": size for at, size in enumerate(op.output.shape)}
        self._operands: list[Operand] = []
        self.result: list[Expression] = [variable(name) for name in self._extents]

    def reduce(self, name: str, extent: int) -> Expression:
        """An iteration that no result's index has."""
        self._extents[name] = extent
        return variable(name)

    def split(self, at: int, outer: int, inner: int) -> tuple[Expression, Expression]:
        """Replace an iteration over results by two."""
        name = f"d{at}"
        del self._extents[name]
        self._extents |= {f"{name}o": outer, f"{name}i": inner}
        return variable(f"{name}o"), variable(f"{name}i")

    def read(self, name: str, indices: Sequence[Expression | int] | None, *, indirect: bool = False) -> None:
        """An operand, by the field that it is; nothing where that is None."""
        view = getattr(self._op, name)
        if view is not None:
            access = None
            if indices is not None:
                access = Access(name, tuple(Sum((), one) if isinstance(one, int) else one for one in indices))
            self._operands.append(Operand(name, view, access, indirect))

    def done(self, operations: int | None = None) -> Dependences:
        """All of it; operations are by default one for every iteration."""
        count = math.prod(self._extents.values()) if operations is None else operations
        output = Access("output", tuple(self.result))
        return Dependences(self._op, self._extents, output, tuple(self._operands), count)


def of_elements(op: IntegerOperator, *names: str, operations: int = ARITHMETIC) -> Dependences:
    """Every result is made of one element of each of these, by so many operations."""
    touched = Accesses(op)
    for name in names:
        touched.read(name, touched.result)
    return touched.done(operations * op.output.words)


def of_rows(op: IntegerOperator, *names: str) -> Dependences:
    """Every result depends on the whole row of each of these that it is in."""
    touched = Accesses(op)
    lead = touched.result[:-1]
    row = touched.reduce("r", op.output.shape[-1])
    for name in names:
        touched.read(name, [*lead, row])
    return touched.done(op.output.words)


def of_reduced(op: IntegerOperator, name: str) -> Dependences:
    """Every result depends on all elements of trailing dimensions of one operand."""
    touched = Accesses(op)
    shape = getattr(op, name).shape[len(op.output.shape) :]
    row = [touched.reduce(f"r{at}", size) for at, size in enumerate(shape)]
    touched.read(name, [*touched.result, *row])
    return touched.done()


def of_chosen(op: IntegerOperator, *names: str) -> Dependences:
    """Any element of these may decide any result."""
    touched = Accesses(op)
    for name in names:
        touched.read(name, None, indirect=True)
    return touched.done(op.output.words)


def of_windows(
    op: IntegerOperator,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
    by_position: str | None = None,
) -> Dependences:
    """Every result depends on a window of the image `input`, and on what `by_position` has for it."""
    touched = Accesses(op)
    s, r = touched.reduce("s", kernel[0]), touched.reduce("r", kernel[1])
    n, q, p, c = touched.result
    y = q * stride[0] + s * dilation[0] - padding[0]
    x = p * stride[1] + r * dilation[1] - padding[1]
    touched.read("input", [n, y, x, c])
    if by_position is not None:
        touched.read(by_position, [q, p])
    return touched.done()
