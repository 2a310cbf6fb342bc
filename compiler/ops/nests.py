"""Loops over several views at once: what a walk of the host's C functions or a move of the accelerator runs through."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from baco.common.errors import InfeasibleError
from baco.compiler.ops.host_work import OperandWalk
from baco.compiler.ops.views import View

#: MAX_RANK of host/host.h.
MOST_LOOPS = 12


@dataclass(frozen=True)
class Nest:
    """Loops over operands of one shape, as few as there can be.

    Attributes:
        shape: extents, outermost first; none of 1.
        strides: for each operand its strides, in elements.
    """

    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    def words(self) -> tuple[int, ...]:
        """As `walk_begin` of host/host.h reads it. Raises InfeasibleError for too many loops."""
        if len(self.shape) > MOST_LOOPS:
            raise InfeasibleError(
                f"an operator's views need {len(self.shape)} nested loops, more than {MOST_LOOPS}"
            )
        return (len(self.shape), *self.shape, *(step for steps in self.strides for step in steps))

    def walk(self, operand: int, size: int = 1) -> OperandWalk:
        """What the loops touch of an operand whose elements have so many bytes."""
        return OperandWalk(operand, self.shape, tuple(size * one for one in self.strides[operand]), size)

    def split(self) -> tuple[Nest, int, tuple[int, ...]]:
        """The outer loops, and extent and strides of the innermost one (1 and zeros without loops)."""
        if not self.shape:
            return self, 1, (0,) * len(self.strides)
        outer = Nest(self.shape[:-1], tuple(steps[:-1] for steps in self.strides))
        return outer, self.shape[-1], tuple(steps[-1] for steps in self.strides)


def nest_of(shape: Sequence[int], strides: Sequence[Sequence[int]], *, in_order: bool = False) -> Nest:
    """Loops over a shape; neighbouring dimensions are joined where every operand allows it.

    Args:
        shape: extents.
        strides: of each operand, one for each extent.
        in_order: visit the elements in row-major order; otherwise as the last operand, the result, has them in
            memory, which joins the most and makes the innermost steps the shortest.
    """
    axes = [d for d, size in enumerate(shape) if size > 1]
    if not in_order:
        axes.sort(key=lambda d: -abs(strides[-1][d]))
    extents: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for d in axes:
        size = shape[d]
        if extents and all(step[-1] == s[d] * size for step, s in zip(steps, strides, strict=True)):
            extents[-1] *= size
            for step, s in zip(steps, strides, strict=True):
                step[-1] = s[d]
        else:
            extents.append(size)
            for step, s in zip(steps, strides, strict=True):
                step.append(s[d])
    return Nest(tuple(extents), tuple(map(tuple, steps)))


def common(views: Sequence[View]) -> Nest:
    """Loops over views of one shape."""
    return nest_of(views[0].shape, [one.strides for one in views])


@dataclass(frozen=True)
class RowLoops:
    """Loops of a C function over operands: a walk over rows, and within it one loop over the elements of a row.

    Attributes:
        outer: over the rows.
        extent: elements of a row.
        steps: for each operand from element to element.
    """

    outer: Nest
    extent: int
    steps: tuple[int, ...]

    @property
    def rows(self) -> int:
        """How many."""
        return math.prod(self.outer.shape)

    @property
    def elements(self) -> int:
        """Of all rows."""
        return self.rows * self.extent

    @property
    def dense(self) -> bool:
        """Whether the elements of a row are neighbours in every operand."""
        return all(step == 1 for step in self.steps)

    def words(self) -> tuple[int, ...]:
        """The walk, the extent, the steps, as most functions read them."""
        return (*self.outer.words(), self.extent, *self.steps)

    def walks(self, sizes: Sequence[int], operands: Sequence[int | None] = ()) -> tuple[OperandWalk, ...]:
        """What each touches.

        Args:
            sizes: bytes of their elements.
            operands: their numbers among the operands of the call, in order without; None for one that is not there.
        """
        return tuple(
            replace(self.outer.walk(n, size).over(self.extent, step), place=number)
            for n, (number, size, step) in enumerate(
                zip(operands or range(len(sizes)), sizes, self.steps, strict=True)
            )
            if number is not None
        )


def element_loops(*views: View) -> RowLoops:
    """Over the elements of views of one shape, in any order."""
    return RowLoops(*common(views).split())


def row_loops(*views: View) -> RowLoops:
    """Over the last dimension of views whose other dimensions are alike; the first one says how long a row is."""
    outer = nest_of(views[0].shape[:-1], [one.strides[:-1] for one in views])
    return RowLoops(outer, views[0].shape[-1], tuple(one.strides[-1] for one in views))
