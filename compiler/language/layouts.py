"""Arithmetic on blocks of offsets with a known layout."""

from __future__ import annotations

from compiler.language.forms import Form
from compiler.language.values import Axis, Integer, Layout, Offsets, integer

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
    return Offsets(Layout((size.value,), {0: Axis(ONE, start, size)}, Form()))


def expand(layout: Layout, axis: int) -> Layout:
    """One more dimension, of size 1, at `axis`."""
    shape = list(layout.shape)
    shape.insert(axis, 1)
    return Layout(tuple(shape), {d + (d >= axis): term for d, term in layout.axes.items()}, layout.rest)


def permute(layout: Layout, permutation: tuple[int, ...]) -> Layout:
    """Dimension d of the result is `permutation`[d] of the layout."""
    axes = {d: layout.axes[source] for d, source in enumerate(permutation) if source in layout.axes}
    return Layout(tuple(layout.shape[source] for source in permutation), axes, layout.rest)


def broadcast(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """The layout repeated to `shape`, which fits it by numpy's rules."""
    shift = len(shape) - len(layout.shape)
    axes = {}
    rest = layout.rest
    for dimension, axis in layout.axes.items():
        if axis.size.value == shape[dimension + shift]:
            axes[dimension + shift] = axis
        else:  # of size 1, repeated
            rest = rest + axis.coefficient * axis.start
    return Layout(shape, axes, rest)


def scale(layout: Layout, factor: Form) -> Layout:
    """The layout times a compile-time integer."""
    axes = {d: Axis(axis.coefficient * factor, axis.start, axis.size) for d, axis in layout.axes.items()}
    return Layout(layout.shape, axes, layout.rest * factor)


def shift(layout: Layout, distance: Form) -> Layout:
    """The layout plus an integer.

    In a plain run of offsets the integer moves the run (`pid * BLOCK + arange(0, BLOCK)`), elsewhere it is a rest.
    """
    if len(layout.axes) == 1:
        ((dimension, axis),) = layout.axes.items()
        if axis.coefficient.same(ONE):
            moved = Axis(ONE, axis.start + layout.rest + distance, axis.size)
            return Layout(layout.shape, {dimension: moved}, Form())
    return Layout(layout.shape, layout.axes, layout.rest + distance)


def add(left: Layout, right: Layout) -> Layout | None:
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
            axes[dimension] = Axis(coefficient, start, axis.size)
    return Layout(shape, axes, rest)


def as_layout(value: Integer | Offsets) -> Layout:
    """An integer as a layout of rank 0."""
    return Layout((), {}, value.form) if isinstance(value, Integer) else value.layout


def simplify(layout: Layout) -> Integer | Offsets:
    """A layout of rank 0 as an integer."""
    return Integer(layout.rest) if not layout.shape else Offsets(layout)


__all__ = [
    "add",
    "arange",
    "as_layout",
    "broadcast",
    "broadcast_shapes",
    "expand",
    "integer",
    "permute",
    "scale",
    "shift",
    "simplify",
]
