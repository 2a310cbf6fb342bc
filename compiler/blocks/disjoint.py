"""Whether a store in a nest of loops writes every element once: found out by going through all rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith, memref, scf
from xdsl.ir import Operation, SSAValue

from compiler.blocks.analysis import bounds_of_loop
from compiler.blocks.reading import Size, known_or_value, mixed

__all__ = ["writes_once"]

_Array = np.ndarray[Any, np.dtype[np.int64]]
#: Rounds, and rows of all rounds, that are gone through at most.
_MOST = 1 << 22

_ARITHMETIC: dict[type[Operation], Callable[[_Array, _Array], _Array]] = {
    arith.AddiOp: np.add,
    arith.SubiOp: np.subtract,
    arith.MuliOp: np.multiply,
    arith.MinSIOp: np.minimum,
    arith.MaxSIOp: np.maximum,
    arith.FloorDivSIOp: np.floor_divide,
}
#: The same for numbers that are not negative.
_NATURAL: dict[type[Operation], Callable[[_Array, _Array], _Array]] = {
    arith.DivSIOp: np.floor_divide,
    arith.DivUIOp: np.floor_divide,
    arith.RemSIOp: np.remainder,
    arith.RemUIOp: np.remainder,
}


def writes_once(view: memref.ReinterpretCastOp, loops: Sequence[scf.ForOp]) -> bool:
    """No two rounds of the loops around a store to the view, nor two of its rows, share an element.

    False also where that cannot be seen: bounds or places that depend on anything but the loops' numbers, more than
    4 million rows, blocks of more than two dimensions or of rows that are not dense.
    """
    bounds = [bounds_of_loop(loop) for loop in loops]
    numbers: dict[SSAValue, _Array] = {}
    if any(one is None for one in bounds):
        return False
    ranges = [np.arange(*one, dtype=np.int64) for one in bounds if one is not None]
    if math.prod(len(one) for one in ranges) > _MOST:
        return False
    for loop, grid in zip(loops, np.meshgrid(*ranges, indexing="ij"), strict=True):
        numbers[loop.body.block.args[0]] = grid.reshape(-1)
    rounds = math.prod(len(one) for one in ranges)
    strides = mixed(view.static_strides.get_values(), view.strides)
    sizes = mixed(view.static_sizes.get_values(), view.sizes)
    offset = _evaluate(mixed(view.static_offsets.get_values(), view.offsets)[0], numbers, rounds)
    extents = [_evaluate(size, numbers, rounds) for size in sizes]
    if offset is None or any(one is None for one in extents) or not 1 <= len(sizes) <= 2:
        return False
    rows, columns = (extents[0] if len(sizes) == 2 else np.ones(rounds, np.int64)), extents[-1]
    pitch = strides[0] if len(sizes) == 2 else 1
    assert rows is not None
    assert columns is not None
    if strides[-1] != 1 and columns.max(initial=0) > 1:
        return False
    if not isinstance(pitch, int) and rows.max(initial=0) > 1:
        return False
    most = int(rows.max(initial=0))
    if rounds * most > _MOST:
        return False
    at = np.arange(most)
    starts = offset[:, None] + at[None, :] * (pitch if isinstance(pitch, int) else 0)
    there = (at[None, :] < rows[:, None]) & (columns[:, None] > 0)
    first = starts[there]
    last = first + np.broadcast_to(columns[:, None], there.shape)[there]
    order = np.argsort(first, kind="stable")
    return bool(np.all(first[order][1:] >= last[order][:-1]))


def _evaluate(size: Size, numbers: dict[SSAValue, _Array], rounds: int) -> _Array | None:
    """A number in every round; None if it depends on anything else."""
    size = known_or_value(size)
    if isinstance(size, int):
        return np.full(rounds, size, np.int64)
    if size in numbers:
        return numbers[size]
    op = size.owner
    if not isinstance(op, Operation) or len(op.operands) != 2:
        return None
    operands = [_evaluate(operand, numbers, rounds) for operand in op.operands]
    a, b = operands
    if a is None or b is None:
        return None
    found = None
    if type(op) in _ARITHMETIC and not (isinstance(op, arith.FloorDivSIOp) and np.any(b == 0)):
        found = _ARITHMETIC[type(op)](a, b)
    elif type(op) in _NATURAL and np.all(a >= 0) and np.all(b > 0):
        found = _NATURAL[type(op)](a, b)
    if found is not None:
        numbers[size] = found
    return found
