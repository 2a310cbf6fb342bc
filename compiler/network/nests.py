"""Loops over several views at once: what a walk of the host's C functions or a move of the accelerator runs through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from baco.common.errors import InfeasibleError
from baco.compiler.network.views import View

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
        if extents and all(one[-1] == s[d] * size for one, s in zip(steps, strides, strict=True)):
            extents[-1] *= size
            for one, s in zip(steps, strides, strict=True):
                one[-1] = s[d]
        else:
            extents.append(size)
            for one, s in zip(steps, strides, strict=True):
                one.append(s[d])
    return Nest(tuple(extents), tuple(map(tuple, steps)))


def common(views: Sequence[View]) -> Nest:
    """Loops over views of one shape."""
    return nest_of(views[0].shape, [one.strides for one in views])
