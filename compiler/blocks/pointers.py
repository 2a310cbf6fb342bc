"""Pointer analysis: blocks of offsets as a base and a stride a dimension, masks as windows of a block.

What `baco.arange`, broadcasting, sums and products with scalars build is recovered here; everything else is data, and
an access through it is a gather.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import SSAValue

from baco.compiler.blocks.indexing import IndexBuilder, Number


@dataclass(frozen=True)
class StridedOffsets:
    """Offsets `base + sum over d of strides[d] * i_d`; a scalar has no dimensions."""

    base: Number
    strides: tuple[Number, ...] = ()
    shape: tuple[int, ...] = ()

    @property
    def uniform(self) -> bool:
        """All elements are the base."""
        return all(stride == 0 for stride in self.strides if isinstance(stride, int)) and all(
            isinstance(stride, int) for stride in self.strides
        )

    def plus(self, other: StridedOffsets, build: IndexBuilder) -> StridedOffsets:
        """Sum of blocks of one shape."""
        strides = tuple(build.add(a, b) for a, b in zip(self.strides, other.strides, strict=True))
        return StridedOffsets(build.add(self.base, other.base), strides, self.shape)

    def minus(self, other: StridedOffsets, build: IndexBuilder) -> StridedOffsets:
        """Difference of blocks of one shape."""
        strides = tuple(build.sub(a, b) for a, b in zip(self.strides, other.strides, strict=True))
        return StridedOffsets(build.sub(self.base, other.base), strides, self.shape)

    def times(self, other: StridedOffsets, build: IndexBuilder) -> StridedOffsets | None:
        """Product of blocks of one shape, one of which must be uniform; else None."""
        if self.uniform:
            self, other = other, self
        if not other.uniform:
            return None
        strides = tuple(build.mul(stride, other.base) for stride in self.strides)
        return StridedOffsets(build.mul(self.base, other.base), strides, self.shape)

    def expanded(self, axis: int) -> StridedOffsets:
        """With a dimension of size 1 inserted."""
        strides, shape = list(self.strides), list(self.shape)
        strides.insert(axis, 0)
        shape.insert(axis, 1)
        return StridedOffsets(self.base, tuple(strides), tuple(shape))

    def broadcast(self, shape: Sequence[int]) -> StridedOffsets:
        """Repeated along dimensions of size 1."""
        strides = tuple(
            0 if old == 1 else stride for stride, old in zip(self.strides, self.shape, strict=True)
        )
        return StridedOffsets(self.base, strides, tuple(shape))

    def permuted(self, order: Sequence[int]) -> StridedOffsets:
        """Dimension d of the result is `order[d]`."""
        return StridedOffsets(
            self.base, tuple(self.strides[d] for d in order), tuple(self.shape[d] for d in order)
        )


@dataclass(frozen=True)
class Pointers:
    """A function argument (a memref) plus offsets in elements; offsets that are data are a tensor."""

    argument: SSAValue
    offsets: StridedOffsets | SSAValue


@dataclass(frozen=True)
class BlockWindow:
    """A block of i1 that is true exactly where `low[d] <= i_d < high[d]` in every dimension."""

    shape: tuple[int, ...]
    low: tuple[Number, ...]
    high: tuple[Number, ...]

    def meet(self, other: BlockWindow, build: IndexBuilder) -> BlockWindow:
        """Where both are true."""
        low = tuple(build.max(a, b) for a, b in zip(self.low, other.low, strict=True))
        high = tuple(build.min(a, b) for a, b in zip(self.high, other.high, strict=True))
        return BlockWindow(self.shape, low, high)

    def expanded(self, axis: int) -> BlockWindow:
        """With a dimension of size 1 inserted."""
        parts = []
        for sequence, new in ((self.shape, 1), (self.low, 0), (self.high, 1)):
            grown: list[Number] = list(sequence)
            grown.insert(axis, new)
            parts.append(tuple(grown))
        shape, low, high = parts
        return BlockWindow(tuple(int(s) for s in shape if isinstance(s, int)), low, high)

    def broadcast(self, shape: Sequence[int], build: IndexBuilder) -> BlockWindow:
        """Repeated along dimensions of size 1: bounds 0 and 1 become 0 and the size."""
        factors = [new if old == 1 else 1 for old, new in zip(self.shape, shape, strict=True)]
        low = tuple(build.mul(a, f) for a, f in zip(self.low, factors, strict=True))
        high = tuple(build.mul(a, f) for a, f in zip(self.high, factors, strict=True))
        return BlockWindow(tuple(shape), low, high)

    def permuted(self, order: Sequence[int]) -> BlockWindow:
        """Dimension d of the result is `order[d]`."""
        return BlockWindow(*(tuple(part[d] for d in order) for part in (self.shape, self.low, self.high)))  # type: ignore[arg-type]


#: What a value of a block program is: its value below, or what the analysis knows instead.
Meaning: TypeAlias = "SSAValue | StridedOffsets | Pointers | BlockWindow"


def window_where(
    predicate: str, lhs: StridedOffsets, rhs: StridedOffsets, build: IndexBuilder
) -> BlockWindow | None:
    """The window where lhs `predicate` rhs holds; None unless they differ along one dimension, by steps of one."""
    if predicate not in ("lt", "le", "gt", "ge"):
        return None
    if predicate in ("gt", "ge"):
        lhs, rhs = rhs, lhs
    difference = lhs.minus(rhs, build)
    along = [d for d, stride in enumerate(difference.strides) if stride != 0]
    if len(along) != 1 or difference.strides[along[0]] not in (1, -1):
        return None
    axis = along[0]
    # base + s*i < 0, or <= 0
    bound = difference.base if predicate in ("lt", "gt") else build.sub(difference.base, 1)
    low: list[Number] = [0] * len(lhs.shape)
    high: list[Number] = list(lhs.shape)
    size = lhs.shape[axis]
    if difference.strides[axis] == 1:
        high[axis] = build.clamp(build.sub(0, bound), size)
    else:
        low[axis] = build.clamp(build.add(bound, 1), size)
    return BlockWindow(lhs.shape, tuple(low), tuple(high))
