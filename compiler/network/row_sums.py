"""Sums and sums of squares of the rows of a normalisation as products, which takes the host core less than half of its work.

A row's sum is its product with ones; the sums of squares are the diagonal of the product of as many rows as the array is wide
with themselves. Sums are exact, so that results are those of the operator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from baco.compiler.ops.products import MatMul
from baco.compiler.ops.rows import Normalisation, NormalisationBySums
from baco.compiler.ops.views import View, dense

#: Elements from which on starting products takes less than adding up on the host, and of the longest row whose squares
#: always fit 32 bits.
_LEAST_ELEMENTS, _LONGEST = 4096, 2**16


@dataclass(frozen=True)
class SummedRows:
    """A normalisation in parts.

    Attributes:
        ones: constant that rows are multiplied by, int8 [columns].
        sums, squares: int32 values for products to write, elements.
        products: that write them.
        rest: what remains for the host.
    """

    ones: View
    sums: int
    squares: int
    products: tuple[MatMul, ...]
    rest: NormalisationBySums


def squares_words(rows: int, dim: int) -> int:
    """Elements of the products of groups of `dim` rows with themselves, so far apart that all diagonals are one."""
    return -(-rows // dim) * dim * (dim + 1)


def sums_of_rows(op: Normalisation, dim: int, names: tuple[str, str, str]) -> SummedRows | None:
    """The parts of a normalisation on an array of side `dim`; None where they would take longer, or rows are none of neighbours
    that share gains and offsets.

    Args:
        names: of the values of ones, sums and sums of squares.
    """
    columns = op.input.shape[-1]
    rows = math.prod(op.input.shape[:-1])
    lead = len(op.input.shape) - 1
    if op.axes != 1 or columns > _LONGEST or rows * columns < _LEAST_ELEMENTS:
        return None
    source, target = (view.reshaped((rows, columns)) for view in (op.input, op.output))
    gain, offset = (
        None
        if any(view.strides[:lead])
        else View(view.value, view.shape[lead:], view.strides[lead:], view.offset)
        for view in (op.gain.expanded(op.input.shape), op.offset.expanded(op.input.shape))
    )
    if source is None or target is None or gain is None or offset is None:
        return None
    if any(view.strides[-1] != 1 for view in (source, target, gain, offset)):
        return None
    ones, sums = dense(names[0], (columns,)), dense(names[1], (rows,))
    diagonal = View(names[2], (rows,), (dim + 1,))
    products = [_with_themselves(op, source, diagonal, dim, 0, rows // dim, dim)]
    products.append(_with_themselves(op, source, diagonal, dim, rows // dim * dim, 1, rows % dim))
    if op.centre:
        column = View(ones.value, (columns, 1), (1, 1))
        result = View(sums.value, (rows, 1), (1, 1))
        products.append(MatMul(op.name, (), result, source, column, None, relu=False, scale=None))
    rest = NormalisationBySums(
        op.name,
        (),
        target,
        source,
        sums if op.centre else None,
        diagonal,
        gain,
        offset,
        op.epsilon,
        op.shift,
        columns,
    )
    made = tuple(product for product in products if product is not None)
    return SummedRows(ones, rows, squares_words(rows, dim), made, rest)


def _with_themselves(
    op: Normalisation, source: View, diagonal: View, dim: int, first: int, groups: int, size: int
) -> MatMul | None:
    """Groups of `size` rows from row `first` on, each times itself transposed; None without any."""
    if groups == 0 or size == 0:
        return None
    columns, pitch = source.shape[1], source.strides[0]
    start, apart = source.offset + first * pitch, dim * pitch
    left = View(source.value, (groups, size, columns), (apart, pitch, 1), start)
    right = View(source.value, (groups, columns, size), (apart, 1, pitch), start)
    step = diagonal.strides[0]
    result = View(diagonal.value, (groups, size, size), (dim * step, dim, 1), first * step)
    return MatMul(op.name, (), result, left, right, None, relu=False, scale=None)
