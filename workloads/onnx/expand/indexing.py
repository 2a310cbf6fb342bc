"""Selections by constant indices, padding by other elements, running sums: slices side by side, or products with a constant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from baco.workloads.onnx.expand.expansion import Expansion, RefusedError

__all__ = [
    "compress",
    "cumulative_sum",
    "gather",
    "gather_elements",
    "gather_nd",
    "mirrored_pad",
    "resize",
    "reverse_sequence",
    "scatter_elements",
    "scatter_nd",
    "selected",
    "triangle",
]

#: Slices side by side; more pieces are a product with a matrix of zeros and ones.
_MOST_PIECES = 48
#: Elements of such a matrix.
_MOST_ELEMENTS = 1 << 22


def selected(e: Expansion, x: str, shape: Sequence[int], axis: int, index: Sequence[int]) -> str:
    """Elements of x at constant, non-negative positions along one dimension, in their order."""
    pieces = _runs(list(index))
    if len(pieces) > _MOST_PIECES:
        return _by_product(e, x, shape, axis, index)
    parts = []
    for first, step, count in pieces:
        if step == 0:
            wide = [*shape[:axis], count, *shape[axis + 1 :]]
            part = e.add("Expand", e.slice(x, axis, first, first + 1), e.constant(wide))
        else:
            part = e.slice(x, axis, first, first + step * count, step)
        parts.append(part)
    return parts[0] if len(parts) == 1 else str(e.add("Concat", *parts, axis=axis))


def _runs(index: list[int]) -> list[tuple[int, int, int]]:
    """Evenly spaced pieces of a list: (first, step, count)."""
    runs = []
    at = 0
    while at < len(index):
        count = 1
        step = index[at + 1] - index[at] if at + 1 < len(index) else 1
        while at + count < len(index) and index[at + count] - index[at + count - 1] == step:
            count += 1
        if count == 2 and at + 2 < len(index) and index[at + 2] - index[at + 1] in (1, -1, 0):
            count = 1  # the second begins a run of its own
        runs.append((index[at], step if count > 1 else 1, count))
        at += count
    return runs


def _by_product(e: Expansion, x: str, shape: Sequence[int], axis: int, index: Sequence[int]) -> str:
    if shape[axis] * len(index) > _MOST_ELEMENTS:
        raise RefusedError(f"a selection of {len(index)} of {shape[axis]} elements without order")
    matrix = np.zeros((shape[axis], len(index)), np.float32)
    matrix[list(index), np.arange(len(index))] = 1
    return along(e, x, len(shape), axis, matrix)


def along(e: Expansion, x: str, rank: int, axis: int, matrix: np.ndarray) -> str:
    """The product of every row along a dimension with a constant matrix."""
    order = [*(a for a in range(rank) if a != axis), axis]
    moved = x if axis == rank - 1 else e.add("Transpose", x, perm=order)
    y = e.add("MatMul", moved, e.constant(matrix))
    return str(y if axis == rank - 1 else e.add("Transpose", y, perm=np.argsort(order).tolist()))


def _positions(index: np.ndarray, size: int) -> np.ndarray:
    """Non-negative ones. Raises RefusedError for those outside."""
    index = np.where(index < 0, index + size, index)
    if index.size and (index.min() < 0 or index.max() >= size):
        raise RefusedError(f"an index is outside of {size} elements")
    return index


def gather(e: Expansion) -> None:
    """Gather of a constant list along a dimension of an activation."""
    shape, index = e.shape(0), e.value(1, "indices")
    axis = e.attribute("axis", 0) % len(shape)
    flat = _positions(index.reshape(-1), shape[axis])
    part = selected(e, e.input(0), shape, axis, [int(i) for i in flat])
    e.finish("Reshape", part, e.constant([*shape[:axis], *index.shape, *shape[axis + 1 :]]))


def _flat(e: Expansion, positions: np.ndarray) -> None:
    """The elements at positions of the flattened first input."""
    shape = e.shape(0)
    flat = e.reshape(e.input(0), (math.prod(shape),))
    part = selected(e, flat, (math.prod(shape),), 0, [int(i) for i in positions.reshape(-1)])
    e.finish("Reshape", part, e.constant(list(positions.shape)))


def gather_elements(e: Expansion) -> None:
    """By constant indices."""
    shape, index = e.shape(0), e.value(1, "indices")
    axis = e.attribute("axis", 0) % len(shape)
    order = np.arange(math.prod(shape)).reshape(shape)
    corner = order[tuple(slice(0, n) if a != axis else slice(None) for a, n in enumerate(index.shape))]
    _flat(e, np.take_along_axis(corner, _positions(index, shape[axis]), axis))


def gather_nd(e: Expansion) -> None:
    """By constant indices."""
    shape, index = e.shape(0), e.value(1, "indices")
    lead = e.attribute("batch_dims", 0)
    order = np.arange(math.prod(shape)).reshape(shape)
    if lead:
        batches = math.prod(shape[:lead])
        rows = order.reshape(batches, *shape[lead:])
        lists = index.reshape(batches, *index.shape[lead:])
        parts = [row[tuple(np.moveaxis(some, -1, 0))] for row, some in zip(rows, lists, strict=True)]
        positions = np.stack(parts).reshape(*shape[:lead], *parts[0].shape)
    else:
        positions = order[tuple(np.moveaxis(index, -1, 0))]
    _flat(e, positions)


def _scattered(e: Expansion, written: np.ndarray) -> None:
    """The first input where `written` is negative, else the element of the third at that position."""
    if e.attribute("reduction", "none") != "none":
        raise RefusedError(f"reduction={e.attribute('reduction', 'none')}")
    shape = e.shape(0)
    size = math.prod(shape)
    updates = math.prod(e.shape(2))
    both = e.add("Concat", e.reshape(e.input(0), (size,)), e.reshape(e.input(2), (updates,)), axis=0)
    flat = np.where(written < 0, np.arange(size).reshape(shape), size + written).reshape(-1)
    y = selected(e, both, (size + updates,), 0, [int(i) for i in flat])
    e.finish("Reshape", y, e.constant(list(shape)))


def scatter_elements(e: Expansion) -> None:
    """By constant indices; the last of several updates of an element stays."""
    shape, index = e.shape(0), e.value(1, "indices")
    axis = e.attribute("axis", 0) % len(shape)
    written = np.full(shape, -1, np.int64)
    places = list(np.indices(index.shape))
    places[axis] = _positions(index, shape[axis])
    written[tuple(places)] = np.arange(index.size).reshape(index.shape)
    _scattered(e, written)


def scatter_nd(e: Expansion) -> None:
    """By constant indices; the last of several updates of an element stays."""
    shape, index = e.shape(0), e.value(1, "indices")
    written = np.full(shape, -1, np.int64)
    parts = index.reshape(-1, index.shape[-1])
    block = math.prod(shape[index.shape[-1] :])
    numbers = np.arange(len(parts) * block).reshape(len(parts), *shape[index.shape[-1] :])
    for place, update in zip(parts, numbers, strict=True):
        written[tuple(place)] = update
    _scattered(e, written)


def compress(e: Expansion) -> None:
    """By a constant condition."""
    shape, chosen = e.shape(0), np.flatnonzero(e.value(1, "condition"))
    axis = e.attribute("axis", None)
    x = e.input(0)
    if axis is None:
        x, shape, axis = e.reshape(x, (math.prod(shape),)), (math.prod(shape),), 0
    if not chosen.size:
        raise RefusedError("its output is empty")
    e.finish("Identity", selected(e, x, shape, axis % len(shape), [int(i) for i in chosen]))


def reverse_sequence(e: Expansion) -> None:
    """The first elements of every row in the opposite order, constant numbers of them."""
    shape, lengths = e.shape(0), e.value(1, "lengths").reshape(-1)
    batch, time = e.attribute("batch_axis", 1), e.attribute("time_axis", 0)
    order = np.moveaxis(np.arange(math.prod(shape)).reshape(shape), (batch, time), (0, 1)).copy()
    for row, length in enumerate(int(n) for n in lengths):
        order[row, :length] = order[row, :length][::-1]
    _flat(e, np.moveaxis(order, (0, 1), (batch, time)))


def triangle(e: Expansion) -> None:
    """The upper or lower triangle: a product with zeros and ones."""
    shape = e.shape(0)
    k = int(e.value(1, "diagonal").reshape(-1)[0]) if e.has(1) else 0
    ones = np.ones(shape[-2:], np.float32)
    kept = np.triu(ones, k) if e.attribute("upper", 1) else np.tril(ones, k)
    e.finish("Where", e.constant(kept.astype(bool), "bool"), e.input(0), e.constant(0.0))


def cumulative_sum(e: Expansion) -> None:
    """A product with a triangle of ones."""
    shape = e.shape(0)
    axis = int(e.value(1, "axis").reshape(-1)[0]) % len(shape)
    exclusive = e.attribute("exclusive", 0)
    matrix = np.triu(np.ones((shape[axis],) * 2, np.float32), 1 if exclusive else 0)
    matrix = matrix.T if e.attribute("reverse", 0) else matrix
    e.finish("Identity", along(e, e.input(0), len(shape), axis, matrix))


def _pads(e: Expansion, rank: int) -> tuple[list[int], list[int]]:
    """(before, after) of every dimension."""
    given = e.numbers(1, "pads" if e.version >= 2 else "paddings", "pads")
    if given is None:
        raise RefusedError("its pads are missing")
    axes = [a % rank for a in e.numbers(3, "axes", "axes") or ()] if e.has(3) else list(range(rank))
    if len(given) != 2 * len(axes):
        raise RefusedError(f"{len(given)} pads for {len(axes)} dimensions")
    before, after = [0] * rank, [0] * rank
    for number, axis in enumerate(axes):
        before[axis], after[axis] = given[number], given[number + len(axes)]
    return before, after


def mirrored_pad(e: Expansion) -> None:
    """Padding with elements of the tensor (reflect, edge, wrap), and of only some dimensions."""
    shape = list(e.shape(0))
    mode = e.attribute("mode", "constant")
    before, after = _pads(e, len(shape))
    if mode == "constant":
        fill = [e.input(2)] if e.has(2) else []
        if not fill and e.attribute("value", 0.0):
            fill = [e.constant(e.attribute("value", 0.0))]
        e.finish("Pad", e.input(0), e.constant(before + after), *fill)
        return
    if mode not in ("reflect", "edge", "wrap"):
        raise RefusedError(f"mode={mode}")
    x = e.input(0)
    for axis, size in enumerate(shape):
        index = np.arange(size)[max(0, -before[axis]) : size - max(0, -after[axis])]
        width = (max(0, before[axis]), max(0, after[axis]))
        if not index.size:
            raise RefusedError("nothing is left of it")
        index = np.pad(index, width, mode=mode)
        if index.size != size or (index != np.arange(size)).any():
            x = selected(e, x, shape, axis, [int(i) for i in index])
            shape[axis] = index.size
    e.finish("Identity", x)


def resize(e: Expansion, known: Sequence[str] = ("nearest", "linear")) -> None:
    """Resampling that the rule of Resize itself does not have: a product with a constant matrix along every dimension."""
    from baco.workloads.onnx.evaluate import evaluate_node

    import onnx

    shape = list(e.shape(0))
    rank = len(shape)
    old = e.node.op_type == "Upsample" or e.version < 11
    position = 1 if old else 2
    axes = [a % rank for a in e.attribute("axes", None) or range(rank)]
    scales = e.value(position, "scales").reshape(-1) if e.has(position) else np.zeros(0)
    sizes = e.value(3, "sizes").reshape(-1) if e.has(3) else np.zeros(0)
    given: dict[str, Any] = {a.name: onnx.helper.get_attribute_value(a) for a in e.node.attribute}
    for name in given:
        e.read_attributes.add(name)
    if given.get("coordinate_transformation_mode") == b"tf_crop_and_resize":
        raise RefusedError("coordinate_transformation_mode=tf_crop_and_resize")
    given.pop("axes", None)
    policy = given.pop("keep_aspect_ratio_policy", b"stretch")
    if policy != b"stretch" and sizes.size:
        ratios = [int(n) / shape[a] for n, a in zip(sizes, axes, strict=True)]
        ratio = min(ratios) if policy == b"not_larger" else max(ratios)
        scales, sizes = np.array([ratio] * len(axes), np.float32), np.array(
            [math.floor(ratio * shape[a] + 0.5) for a in axes], np.int64
        )
    x = e.input(0)
    for number, axis in enumerate(axes):
        size = shape[axis]
        rows = np.eye(size, dtype=np.float32)
        ends: dict[str, np.ndarray] = {"x": rows}
        names = ["x", "", "", ""]
        if sizes.size and policy == b"stretch":
            names[3], ends["sizes"] = "sizes", np.array([size, sizes[number]], np.int64)
        else:
            names[2], ends["scales"] = "scales", np.array([1.0, scales[number]], np.float32)
        node = onnx.helper.make_node("Resize", names if names[3] else names[:3], ["y"])
        node.attribute.extend(onnx.helper.make_attribute(k, v) for k, v in given.items())
        matrix = evaluate_node(node, ends, 19)
        if matrix.shape == rows.shape and (matrix == rows).all():
            continue
        x = along(e, x, rank, axis, matrix)
        shape[axis] = matrix.shape[1]
    e.finish("Identity", x)
