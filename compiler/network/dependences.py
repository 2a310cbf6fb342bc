"""Maps between views, of operators in a row (Souffle's analysis; of one operator `baco.compiler.ops.operator.Dependences`).

* a result *relies on one* element of an operand where no iteration adds to it: its index there is an affine map M v + c of
  the result's index v. Else it *relies on many*: all that the reduced iterations meet.
* an operator is *compute-intensive* if it reduces and does two operations and more for an element that it moves. (The published
  rule asks for no reduction, by which an elementwise sine would compute.)

Maps of operators in a row are composed from the last one backwards: where the first reads what a second wrote, f1(f2(v)) for
f1 of the operator that runs first. (The published formula has the composition the other way round; its example does not.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from baco.compiler.ops.views import View

#: Operations for an element moved from which on an operator that reduces computes.
THRESHOLD = 2.0
#: Operations of a function of one element (a table), and of an arithmetic operation (Souffle's O(10) and O(1)).
_FUNCTION, _ARITHMETIC = 10, 1


@dataclass(frozen=True)
class IndexMap:
    """index = matrix * v + offset.

    Attributes:
        matrix: a row for each dimension of what is read, a column for each of v.
        offset: one number for each row.
    """

    matrix: tuple[tuple[int, ...], ...]
    offset: tuple[int, ...]

    def slice(self, extents: Sequence[int]) -> tuple[int, ...]:
        """Extents of the block that a block of indices goes to."""
        return tuple(
            1 + sum(abs(factor) * (extent - 1) for factor, extent in zip(row, extents, strict=True))
            for row in self.matrix
        )

    def __str__(self) -> str:
        return f"{[list(row) for row in self.matrix]} v + {list(self.offset)}"


def map_between(reader: View, writer: View) -> IndexMap | None:
    """From an index in a view to the index, in another view of the same value, of the same element; None if some element is
    not in the other view, or indices there are no affine map (a row that was folded into several, say)."""
    dims = sorted(
        (at for at, size in enumerate(writer.shape) if size > 1), key=lambda at: -writer.strides[at]
    )

    def digits(distance: int) -> list[int] | None:
        found = [0] * len(writer.shape)
        left = abs(distance)
        for at in dims:
            if writer.strides[at] <= 0:
                return None
            found[at], left = divmod(left, writer.strides[at])
        return None if left else [-one for one in found] if distance < 0 else found

    offset = digits(reader.offset - writer.offset)
    columns = [
        digits(stride if size > 1 else 0) for size, stride in zip(reader.shape, reader.strides, strict=True)
    ]
    if offset is None or any(column is None for column in columns):
        return None
    known = [column for column in columns if column is not None]
    for at, size in enumerate(writer.shape):
        steps = [column[at] * (extent - 1) for column, extent in zip(known, reader.shape, strict=True)]
        low = offset[at] + sum(step for step in steps if step < 0)
        high = offset[at] + sum(step for step in steps if step > 0)
        if low < 0 or high >= size:
            return None
    matrix = tuple(tuple(column[at] for column in known) for at in range(len(writer.shape)))
    return IndexMap(matrix, tuple(offset))
