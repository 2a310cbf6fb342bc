"""Functions of pipelines: numpy's, and those of images that numpy lacks, which compute with arrays just as well."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from baco.workloads.pipelines import ranges
from baco.workloads.pipelines.node import constant_node, refused
from baco.workloads.pipelines.ranges import Range
from baco.workloads.pipelines.tensor import Traced

#: How an image goes on beyond its borders: not at all, by zeros, its last pixels, or as in a mirror.
BORDERS = ("valid", "zero", "edge", "reflect")


# Functions that are no numpy's


def stencil(image: Any, kernel: Any, border: str = "valid") -> Any:
    """Every pixel as the sum of its neighbours times a constant kernel, channel by channel (a correlation).

    Args:
        image: (height, width) or (height, width, channels), an array or a tensor that is traced.
        kernel: (rows, columns) of numbers.
        border: one of `BORDERS`; a `valid` result is smaller by the kernel less 1.

    Raises PipelineError for a kernel larger than the image, and other borders.
    """
    weights = np.asarray(kernel)
    if isinstance(kernel, Traced) or weights.ndim != 2 or not weights.size:
        raise refused("a kernel is a constant matrix")
    shape = np.shape(image) if not isinstance(image, Traced) else image.shape
    if len(shape) not in (2, 3):
        raise refused(f"a stencil of a tensor of {len(shape)} dimensions, which is no image")
    if border not in BORDERS:
        raise refused(f"there is no border '{border}'", f"one of {', '.join(BORDERS)}")
    rows, columns = weights.shape
    if rows > shape[0] or columns > shape[1]:
        raise refused(f"a stencil of {rows}×{columns} is larger than the image, {shape[0]}×{shape[1]}")
    if border != "valid":
        around = [((rows - 1) // 2, rows // 2), ((columns - 1) // 2, columns // 2), (0, 0)][: len(shape)]
        mode = "constant" if border == "zero" else border
        image = np.pad(image, around, mode=mode)  # type: ignore[call-overload]
    if isinstance(image, Traced):
        return _traced_stencil(image, weights)
    image = np.asarray(image)
    height, width = image.shape[0] - rows + 1, image.shape[1] - columns + 1
    total: Any = 0
    for y in range(rows):
        for x in range(columns):
            total = total + weights[y, x] * image[y : y + height, x : x + width]
    return total


def _traced_stencil(image: Traced, weights: np.ndarray) -> Traced:
    constant_node(weights)
    total = Range(Fraction(0), Fraction(0), 0)
    for weight in weights.reshape(-1):
        if weight:
            one = ranges.of_numbers([Fraction(weight.item())])
            total = ranges.added(total, ranges.multiplied(image.node.range, one))
    rows, columns = weights.shape
    shape = (image.shape[0] - rows + 1, image.shape[1] - columns + 1, *image.shape[2:])
    return image.trace.add("stencil", (image.node,), {"kernel": weights}, shape, total)


def resize(image: Any, size: tuple[int, int], rounded: bool = False) -> Any:
    """Height and width changed, by linear interpolation between the nearest pixels (centres of pixels at halves, as OpenCV has it):
    two products with constant matrices.

    Args:
        image: (height, width) or (height, width, channels), an array or a tensor that is traced.
        size: height and width of the result.
        rounded: to whole numbers after each product, so that both are of bytes; else results are exact.

    Raises PipelineError for what is no image, and sizes below 1.
    """
    shape = image.shape if isinstance(image, Traced) else np.shape(image)
    if len(shape) not in (2, 3):
        raise refused(f"a tensor of {len(shape)} dimensions is no image")
    if len(size) != 2 or min(size) < 1:
        raise refused(f"{size} is no height and width")
    rows, columns = (None if shape[i] == size[i] else _interpolation(shape[i], size[i]) for i in range(2))
    width, channels = shape[1], (*shape, 1)[2]
    if rows is not None:
        flat = image if len(shape) == 2 else image.reshape(shape[0], width * channels)
        image = (rows @ flat).reshape(size[0], *shape[1:])
        image = np.rint(image) if rounded else image
    if columns is None:
        return image
    if not rounded:
        return image @ columns.T if len(shape) == 2 else columns @ image
    lines = image.reshape(size[0], width * channels) @ np.kron(columns.T, np.eye(channels))
    return np.rint(lines).reshape(*size, *shape[2:])


def _interpolation(source: int, target: int) -> np.ndarray:
    """[target, source]: weights in 1/64, so that a byte holds them."""
    at = (np.arange(target) + 0.5) * source / target - 0.5
    low = np.floor(at).astype(np.int64)
    upper = np.rint((at - low) * 64) / 64
    matrix = np.zeros((target, source))
    lines = np.arange(target)
    np.add.at(matrix, (lines, np.clip(low, 0, source - 1)), 1 - upper)
    np.add.at(matrix, (lines, np.clip(low + 1, 0, source - 1)), upper)
    return matrix


def top(values: Any, count: int, axis: int = -1, smallest: bool = False) -> Any:
    """Positions of the `count` largest (or smallest) elements along a dimension, in order, equal ones by their position."""
    if isinstance(values, Traced):
        return values.chosen(axis, count, smallest=smallest, keep=True)
    order = np.argsort(values if smallest else -np.asarray(values), axis=axis, kind="stable")
    return np.take(order, np.arange(count), axis)


# numpy's


def _concatenate(tensors: Sequence[Any], axis: int = 0) -> Traced:
    given = next(one for one in tensors if isinstance(one, Traced))
    nodes = [one.node if isinstance(one, Traced) else constant_node(one) for one in tensors]
    rank, at = given.ndim, given._axis(axis)
    for one in nodes:
        other = [n for i, n in enumerate(one.shape) if i != at]
        if len(one.shape) != rank or other != [n for i, n in enumerate(given.shape) if i != at]:
            raise refused("cannot join " + ", ".join(str(one.shape) for one in nodes) + f" along {at}")
    shape = tuple(sum(one.shape[i] for one in nodes) if i == at else n for i, n in enumerate(given.shape))
    found = ranges.joined(*(one.range for one in nodes))
    return given.trace.add("concat", tuple(nodes), {"axis": at}, shape, found)


def _stack(tensors: Sequence[Any], axis: int = 0) -> Traced:
    def wide(x: Any) -> Any:
        rank = len(np.shape(x)) if not isinstance(x, Traced) else x.ndim
        at = axis % (rank + 1)
        return x[(slice(None),) * at + (None,)]

    parts = [wide(one if isinstance(one, Traced) else np.asarray(one)) for one in tensors]
    return _concatenate(parts, axis if axis >= 0 else axis % parts[0].ndim)


def _pad(x: Traced, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Traced:
    around = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    if min(min(one) for one in around) < 0:
        raise refused("negative padding")
    if mode == "constant":
        value = constant_node(constant_values)
        if value.shape:
            raise refused("one number is padded with")
        shape = tuple(n + before + after for n, (before, after) in zip(x.shape, around, strict=True))
        attributes = {
            "before": tuple(before for before, _ in around),
            "after": tuple(after for _, after in around),
            "value": float(value.range.low),
        }
        found = ranges.joined(x.node.range, value.range) if shape != x.shape else x.node.range
        return x.trace.add("pad", (x.node,), attributes, shape, found)
    if mode not in ("edge", "reflect"):
        raise refused(f"np.pad with mode '{mode}' cannot be traced")
    for axis, (before, after) in enumerate(around):
        size = x.shape[axis]
        if mode == "reflect" and max(before, after) >= size:
            raise refused(f"a mirror of {max(before, after)} of {size} pixels")
        lines = np.pad(np.arange(size), (before, after), mode=mode)  # type: ignore[call-overload]
        index = [slice(None)] * x.ndim

        def line(at: int, index: list[slice] = index, axis: int = axis, x: Traced = x) -> Traced:
            return x[(*index[:axis], slice(at, at + 1))]

        parts = (
            [line(int(at)) for at in lines[:before]] + [x] + [line(int(at)) for at in lines[before + size :]]
        )
        x = _concatenate(parts, axis) if len(parts) > 1 else x
    return x


def _take(x: Any, indices: Any, axis: Any = None, **_: Any) -> Traced:
    traced = x if isinstance(x, Traced) else indices
    source = x.node if isinstance(x, Traced) else constant_node(x)
    index = indices.node if isinstance(indices, Traced) else constant_node(np.asarray(indices, np.int64))
    if axis is None:
        if not isinstance(x, Traced):
            return _take(np.reshape(x, -1), indices, 0)
        return _take(x.ravel(), indices, 0)
    at = axis % len(source.shape)
    if index.range.low < -source.shape[at] or index.range.high >= source.shape[at]:
        raise refused(
            f"positions from {float(index.range.low):g} to {float(index.range.high):g} of {source.shape[at]} elements",
            f"limit them first: np.clip(i, 0, {source.shape[at] - 1})",
        )
    shape = (*source.shape[:at], *index.shape, *source.shape[at + 1 :])
    return traced.trace.add("gather", (source, index), {"axis": at}, shape, source.range)


def _where(condition: Any, left: Any = None, right: Any = None) -> Traced:
    if left is None:
        raise refused("positions of truths are of no known number", "np.where takes two further operands")
    traced = next(one for one in (condition, left, right) if isinstance(one, Traced))
    return traced.trace.where(condition, left, right)


def _argsort(x: Traced, axis: int = -1, **_: Any) -> Traced:
    return x.chosen(axis, x.shape[x._axis(axis)], smallest=True, keep=True)


def _sort(x: Traced, axis: int = -1, **_: Any) -> Traced:
    at = x._axis(axis)
    order = _argsort(x, at)
    return x.trace.add("take", (x.node, order.node), {"axis": at}, x.shape, x.node.range)


def _swapped(x: Traced, first: int, second: int) -> Traced:
    order = list(range(x.ndim))
    a, b = x._axis(first), x._axis(second)
    order[a], order[b] = order[b], order[a]
    return x.transpose(order)


def _product(x: Any, y: Any) -> Traced:
    traced = x if isinstance(x, Traced) else y
    return traced.trace.pointwise("matmul", (x, y))


def _roll(x: Traced, shift: int, axis: int) -> Traced:
    at = x._axis(axis)
    by = int(shift) % x.shape[at]
    if not by:
        return x
    lead = (slice(None),) * at
    return _concatenate([x[(*lead, slice(-by, None))], x[(*lead, slice(None, -by))]], at)


def _diff(x: Traced, n: int = 1, axis: int = -1) -> Traced:
    at = x._axis(axis)
    lead = (slice(None),) * at
    for _ in range(n):
        x = x[(*lead, slice(1, None))] - x[(*lead, slice(None, -1))]
    return x


def _expanded(x: Traced, axis: int) -> Traced:
    at = axis % (x.ndim + 1)
    return x.reshape((*x.shape[:at], 1, *x.shape[at:]))


#: numpy's function -> what traces it.
NUMPY: dict[str, Callable[..., Any]] = {
    "where": _where,
    "clip": lambda x, a_min=None, a_max=None, min=None, max=None, **_: x.trace.clip(
        x, a_min if min is None else min, a_max if max is None else max
    ),
    "sum": lambda x, axis=None, keepdims=False, **_: x.sum(axis, keepdims),
    "mean": lambda x, axis=None, keepdims=False, **_: x.mean(axis, keepdims),
    "max": lambda x, axis=None, keepdims=False, **_: x.max(axis, keepdims),
    "amax": lambda x, axis=None, keepdims=False, **_: x.max(axis, keepdims),
    "min": lambda x, axis=None, keepdims=False, **_: x.min(axis, keepdims),
    "amin": lambda x, axis=None, keepdims=False, **_: x.min(axis, keepdims),
    "any": lambda x, axis=None, keepdims=False, **_: x.max(axis, keepdims),
    "all": lambda x, axis=None, keepdims=False, **_: x.min(axis, keepdims),
    "std": lambda x, axis=None, keepdims=False, **_: x.std(axis, keepdims),
    "var": lambda x, axis=None, keepdims=False, **_: x.var(axis, keepdims),
    "reshape": lambda x, shape, **_: x.reshape(shape),
    "ravel": lambda x, **_: x.ravel(),
    "transpose": lambda x, axes=None: x.transpose(*(() if axes is None else (axes,))),
    "swapaxes": _swapped,
    "expand_dims": _expanded,
    "squeeze": lambda x, axis=None: x.squeeze(axis),
    "broadcast_to": lambda x, shape, **_: x.expanded(tuple(shape)),
    "flip": lambda x, axis: x[(*(slice(None),) * x._axis(axis), slice(None, None, -1))],
    "concatenate": _concatenate,
    "stack": _stack,
    "pad": _pad,
    "roll": _roll,
    "diff": _diff,
    "dot": _product,
    "argmax": lambda x, axis=None, **_: x.argmax(axis),
    "argmin": lambda x, axis=None, **_: x.argmin(axis),
    "argsort": _argsort,
    "sort": _sort,
    "take": _take,
    "round": lambda x, decimals=0, **_: x.round(decimals),
    "around": lambda x, decimals=0, **_: x.round(decimals),
    "shape": lambda x: x.shape,
    "ndim": lambda x: x.ndim,
    "size": lambda x: math.prod(x.shape),
}
