"""Arithmetic on blocks of offsets with a known layout."""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import SSAValue

from baco.compiler.dialects.baco import shape_of
from baco.compiler.language.forms import UNBOUNDED, Form
from baco.compiler.language.values import AxisTerm, BlockLayout, Gather, Integer, Offsets

ONE = Form.of(1)


def broadcast_shapes(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...] | None:
    """The common shape by numpy's rules, or None."""
    rank = max(len(left), len(right))
    padded = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    sizes = []
    for a, b in padded:
        if a != b and 1 not in (a, b):
            return None
        sizes.append(b if a == 1 else a)
    return tuple(sizes)


def arange(start: Form, end: Form) -> Offsets:
    """start, start + 1, ..., end - 1."""
    size = end - start
    return Offsets(BlockLayout((size.value,), {0: AxisTerm(ONE, start, size)}, Form()))


def expand(layout: BlockLayout, axis: int) -> BlockLayout:
    """One more dimension, of size 1, at `axis`."""
    shape = list(layout.shape)
    shape.insert(axis, 1)
    gathers = tuple(
        replace(one, dimensions=tuple(d + (d >= axis) for d in one.dimensions)) for one in layout.gathers
    )
    return BlockLayout(
        tuple(shape), {d + (d >= axis): t for d, t in layout.axes.items()}, layout.rest, gathers
    )


def permute(layout: BlockLayout, permutation: tuple[int, ...]) -> BlockLayout:
    """Dimension d of the result is `permutation`[d] of the layout."""
    axes = {d: layout.axes[source] for d, source in enumerate(permutation) if source in layout.axes}
    gathers = tuple(
        replace(one, dimensions=tuple(permutation.index(d) for d in one.dimensions)) for one in layout.gathers
    )
    return BlockLayout(tuple(layout.shape[source] for source in permutation), axes, layout.rest, gathers)


def broadcast(layout: BlockLayout, shape: tuple[int, ...]) -> BlockLayout:
    """The layout repeated to `shape`, which fits it by numpy's rules."""
    shift = len(shape) - len(layout.shape)
    axes = {}
    rest = layout.rest
    for dimension, axis in layout.axes.items():
        if axis.size.value == shape[dimension + shift]:
            axes[dimension + shift] = axis
        else:  # of size 1, repeated
            rest = rest + axis.coefficient * axis.start
    gathers = tuple(
        replace(one, dimensions=tuple(d + shift for d in one.dimensions)) for one in layout.gathers
    )
    return BlockLayout(shape, axes, rest, gathers)


def scale(layout: BlockLayout, factor: Form) -> BlockLayout:
    """The layout times a compile-time integer."""
    axes = {d: AxisTerm(axis.coefficient * factor, axis.start, axis.size) for d, axis in layout.axes.items()}
    gathers = tuple(replace(one, coefficient=one.coefficient * factor) for one in layout.gathers)
    return BlockLayout(layout.shape, axes, layout.rest * factor, gathers)


def shift(layout: BlockLayout, distance: Form) -> BlockLayout:
    """The layout plus an integer.

    In a plain run of offsets the integer moves the run (`pid * BLOCK + arange(0, BLOCK)`), elsewhere it is a rest.
    """
    if len(layout.axes) == 1:
        ((dimension, axis),) = layout.axes.items()
        if axis.coefficient.same(ONE):
            moved = AxisTerm(ONE, axis.start + layout.rest + distance, axis.size)
            return BlockLayout(layout.shape, {dimension: moved}, Form(), layout.gathers)
    return BlockLayout(layout.shape, layout.axes, layout.rest + distance, layout.gathers)


def add(left: BlockLayout, right: BlockLayout) -> BlockLayout | None:
    """The sum of both after broadcasting; None if the shapes do not fit."""
    shape = broadcast_shapes(left.shape, right.shape)
    if shape is None:
        return None
    left, right = broadcast(left, shape), broadcast(right, shape)
    axes, rest = dict(left.axes), left.rest + right.rest
    for dimension, axis in right.axes.items():
        if dimension not in axes:
            axes[dimension] = axis
            continue
        other = axes.pop(dimension)
        coefficient = other.coefficient + axis.coefficient
        if other.start.same(axis.start):
            start = axis.start
        else:
            start = Form()
            rest = rest + other.coefficient * other.start + axis.coefficient * axis.start
        if coefficient.is_zero:
            rest = rest + coefficient * start
        else:
            axes[dimension] = AxisTerm(coefficient, start, axis.size)
    return BlockLayout(shape, axes, rest, left.gathers + right.gathers)


def gathered(ssa: SSAValue, ends: tuple[int, int] | None, *, data: bool = False) -> Offsets:
    """Offsets that an operation computes, a block of element type index.

    Args:
        ends: their bounds, if they are known.
        data: whether they come from memory.
    """
    shape = shape_of(ssa.type)
    low, high = ends or (-UNBOUNDED, UNBOUNDED)
    source = "program" if ends is not None else "data" if data else "unknown"
    term = Gather(ssa, tuple(range(len(shape))), ONE, low, high, source)
    return Offsets(BlockLayout(shape, {}, Form(), (term,)))


def bounds(layout: BlockLayout) -> tuple[int, int] | None:
    """Least and greatest offset, as far as the program tells; None if it does not."""
    low, high = layout.rest.range
    if not layout.rest.bounded or not all(one.known for one in layout.gathers):
        return None
    for axis in layout.axes.values():
        if not axis.start.bounded:
            return None
        first, last = axis.start.low, axis.start.high + axis.size.value - 1
        ends = (axis.coefficient.value * first, axis.coefficient.value * last)
        low, high = low + min(ends), high + max(ends)
    for one in layout.gathers:
        ends = (one.coefficient.value * one.low, one.coefficient.value * one.high)
        low, high = low + min(ends), high + max(ends)
    return low, high


def as_layout(value: Integer | Offsets) -> BlockLayout:
    """An integer as a layout of rank 0."""
    return BlockLayout((), {}, value.form) if isinstance(value, Integer) else value.layout
