"""Masks of blocks in all rounds of a kernel's loops: which elements of rows take part in a softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.linalg.ops import GenericOp, IndexOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from baco.compiler.blocks.reading import shape_of
from baco.compiler.blocks.rounds import Integers, Rounds

_Array: TypeAlias = "np.ndarray[Any, Any]"
#: Elements of all rounds that are looked at most.
_MOST_ELEMENTS = 1 << 23
#: By the numbers of predicates: eq, ne, slt, sle, sgt, sge.
_COMPARISONS: tuple[Callable[[Any, Any], Any], ...] = (
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
)  # fmt: skip
_ARITHMETIC: dict[type[Operation], Callable[[Any, Any], Any]] = {
    arith.AddiOp: np.add,
    arith.SubiOp: np.subtract,
    arith.MuliOp: np.multiply,
    arith.AndIOp: np.bitwise_and,
}
_CASTS = (arith.IndexCastOp, arith.ExtSIOp)


def mask_elements(mask: SSAValue, rounds: Rounds) -> _Array | None:
    """Truths (rounds, *shape) of a block of conditions; None where they depend on anything but places and loops."""
    if rounds.count * int(np.prod(shape_of(mask))) > _MOST_ELEMENTS:
        return None
    return _elements(mask, rounds)


def _elements(value: SSAValue, rounds: Rounds) -> _Array | None:
    op, shape = value.owner, shape_of(value)
    if not isinstance(op, GenericOp) or any(kind.data.value != "parallel" for kind in op.iterator_types):
        return None
    numbers: dict[SSAValue, _Array] = {}
    for operand, indexing, argument in zip(
        op.inputs, op.indexing_maps.data, op.body.block.args, strict=False
    ):
        elements, results = _elements(operand, rounds), indexing.data.results
        if elements is None or not all(isinstance(result, AffineDimExpr) for result in results):
            return None
        axes = [result.position for result in results if isinstance(result, AffineDimExpr)]
        if axes != sorted(set(axes)):
            return None
        sizes = [elements.shape[1 + axes.index(n)] if n in axes else 1 for n in range(len(shape))]
        numbers[argument] = elements.reshape(elements.shape[0], *sizes)

    def number(scalar: SSAValue) -> _Array | None:
        if scalar in numbers:
            return numbers[scalar]
        evaluated = rounds.evaluate(scalar)
        return None if evaluated is None else evaluated.reshape(-1, *(1 for _ in shape))

    for inner in op.body.block.ops:
        if isinstance(inner, IndexOp):
            dim = inner.dim.value.data
            sizes = [shape[dim] if n == dim else 1 for n in range(len(shape))]
            numbers[inner.result] = np.arange(shape[dim]).reshape(1, *sizes)
            continue
        operands = [number(operand) for operand in inner.operands]
        known = [array for array in operands if array is not None]
        if inner is op.body.block.last_op:
            return known[0] if known else None
        if len(known) < len(operands):
            return None
        if isinstance(inner, arith.CmpiOp) and inner.predicate.value.data < len(_COMPARISONS):
            numbers[inner.results[0]] = _COMPARISONS[inner.predicate.value.data](*known)
        elif type(inner) in _ARITHMETIC:
            numbers[inner.results[0]] = _ARITHMETIC[type(inner)](*known)
        elif isinstance(inner, _CASTS):
            numbers[inner.results[0]] = known[0]
        elif not isinstance(inner, arith.ConstantOp):
            return None
    return None


def causal_from(part: _Array, rows: Integers, stored: Integers) -> int | None:
    """How many elements of row 0 take part, if one more does in every further row.

    Args:
        part: truths (programs, rows, columns), or what broadcasts to it.
        rows: first row of each program.
        stored: rows of each program that are stored.
    """
    columns = np.arange(part.shape[-1])
    height = part.shape[-2]
    first = int(part[0, 0].sum()) - int(rows[0])
    ends = first + rows[:, None] + np.arange(height)
    there = np.arange(height) < stored[:, None]
    right = (part == (columns < ends[..., None])).all(-1)
    if not (right | ~there).all():
        return None
    return first if first >= 1 and int(ends[there].max()) <= len(columns) else None
