"""Selections by constant indices, padding by other elements, running sums: slices side by side, or products with a constant."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from baco.workloads.onnx.evaluate import evaluate_node
from baco.workloads.onnx.expansion import Expansion, RefusedError

#: Slices side by side; more pieces are a product with a matrix of zeros and ones.
_MOST_PIECES = 48
#: Elements of such a matrix.
_MOST_ELEMENTS = 1 << 22
#: Of a matrix whose determinant is written out: the terms are as many as the orders of its rows.
_MOST_ROWS = 4


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


def one_hot(e: Expansion) -> None:
    """Of constant indices, or with numbers that are computed: one of two numbers, by which positions are the indices'."""
    rank = len(e.shape(0)) + 1
    axis = e.attribute("axis", -1) % rank
    depth = int(e.value(1, "depth").reshape(-1)[0])
    values = e.input(2)
    off, on = (e.reshape(e.slice(values, 0, i, i + 1), ()) for i in (0, 1))
    if e.is_constant(0):
        index = np.expand_dims(e.value(0, "indices").astype(np.int64), axis)
        places = np.arange(depth).reshape(-1, *(1 for _ in range(rank - axis - 1)))
        hot = e.constant((index == places) | (index == places - depth))
    else:
        zero_one = e.constant([0.0, 1.0])
        marks = e.add("OneHot", e.input(0), e.constant([depth]), zero_one, axis=axis)
        hot = e.add("Cast", marks, to=onnx.TensorProto.BOOL)
    e.finish("Where", hot, on, off)


def determinant(e: Expansion) -> None:
    """Of small matrices, by minors along the first row."""
    shape = e.shape(0)
    rank, size = len(shape), shape[-1]
    if size > _MOST_ROWS:
        raise RefusedError(f"a matrix of {size} rows")

    def element(row: int, column: int) -> str:
        return e.slice(e.slice(e.input(0), rank - 2, row, row + 1), rank - 1, column, column + 1)

    def minor(row: int, columns: Sequence[int]) -> str:
        if len(columns) == 1:
            return element(row, columns[0])
        total = ""
        for number, column in enumerate(columns):
            rest = minor(row + 1, [c for c in columns if c != column])
            term = e.add("Mul", element(row, column), rest)
            total = e.add("Sub" if number % 2 else "Add", total, term) if total else term
        return total

    e.finish("Reshape", minor(0, range(size)), e.constant(list(shape[:-2]), np.int64))


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


def _scattered(e: Expansion, places: np.ndarray) -> None:
    """The first input with every element of the third written at its place (positions in the flattened first input), in order."""
    shape, size, updates = e.shape(0), math.prod(e.shape(0)), math.prod(e.shape(2))
    reduction = e.attribute("reduction", "none")
    operators = {"none": "", "add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
    if reduction not in operators:
        raise RefusedError(f"reduction={reduction}")
    y, given = e.reshape(e.input(0), (size,)), e.reshape(e.input(2), (updates,))
    rounds: list[dict[int, int]] = []
    for number, place in enumerate(places.reshape(-1).tolist()):
        free = (r for r in rounds if not operators[reduction] or place not in r)
        own = next(free, None)
        if own is None:
            own = {}
            rounds.append(own)
        own[place] = number
    if len(rounds) > _MOST_PIECES:
        raise RefusedError(f"{len(rounds)} updates of one element")
    for own in rounds:
        written, numbers = list(own), list(own.values())
        new = selected(e, given, (updates,), 0, numbers)
        if operators[reduction]:
            new = e.add(operators[reduction], selected(e, y, (size,), 0, written), new)
        order = np.arange(size)
        order[written] = size + np.arange(len(written))
        both = e.add("Concat", y, new, axis=0)
        y = selected(e, both, (size + len(written),), 0, [int(i) for i in order])
    e.finish("Reshape", y, e.constant(list(shape)))


def scatter_elements(e: Expansion) -> None:
    """By constant indices; the last of several updates of an element stays."""
    shape, index = e.shape(0), e.value(1, "indices")
    axis = e.attribute("axis", 0) % len(shape)
    places = list(np.indices(index.shape))
    places[axis] = _positions(index, shape[axis])
    _scattered(e, np.asarray(np.ravel_multi_index(places, shape)))


def scatter_nd(e: Expansion) -> None:
    """By constant indices; the last of several updates of an element stays."""
    shape, index = e.shape(0), e.value(1, "indices")
    order = np.arange(math.prod(shape)).reshape(shape)
    _scattered(e, order[tuple(np.moveaxis(index, -1, 0))])


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


def resize(e: Expansion) -> None:
    """Resampling that the rule of Resize itself does not have: a product with a constant matrix along every dimension."""
    shape = list(e.shape(0))
    rank = len(shape)
    old = e.node.op_type == "Upsample" or e.version < 11
    position = 1 if old else 2
    axes = [a % rank for a in e.attribute("axes", None) or range(rank)]
    scales = e.value(position, "scales").reshape(-1) if e.has(position) else np.zeros(0)
    sizes = e.value(3, "sizes").reshape(-1) if e.has(3) else np.zeros(0)
    if scales.size and not old:
        sizes = np.zeros(0)
    crop = e.attribute("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    regions = e.value(1, "roi").reshape(2, -1) if crop else np.zeros((2, len(axes)))
    attributes = e.raw_attributes("axes", "keep_aspect_ratio_policy")
    policy = e.attribute("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch" and sizes.size:
        ratios = [int(n) / shape[a] for n, a in zip(sizes, axes, strict=True)]
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        wanted = [math.floor(ratio * shape[a] + 0.5) for a in axes]
        if all(math.floor(ratio * shape[a]) == n for a, n in zip(axes, wanted, strict=True)):
            scales, sizes = np.full(len(axes), ratio, np.float32), np.zeros(0)
    else:
        wanted = (
            [int(n) for n in sizes]
            if sizes.size
            else [math.floor(shape[a] * s) for a, s in zip(axes, scales, strict=True)]
        )
    x = e.input(0)
    for number, axis in enumerate(axes):
        size = shape[axis]
        rows = np.eye(
            size + 1, size, dtype=np.float32
        )  # the last row is zero: what is there without any element
        given: dict[str, np.ndarray] = {"x": rows}
        names = ["x", "", ""]
        if crop:
            names[1] = "roi"
            given["roi"] = np.array([0, regions[0, number], 1, regions[1, number]], np.float32)
        if sizes.size:
            names.append("sizes")
            given["sizes"] = np.array([size + 1, wanted[number]], np.int64)
        else:
            names[2], given["scales"] = "scales", np.array([1.0, scales[number]], np.float32)
        node = onnx.helper.make_node("Resize", names, ["y"])
        node.attribute.extend(attributes)
        found = evaluate_node(node, given, 19)["y"]
        offset = found[-1]
        matrix = found[:-1] - offset
        if matrix.shape != (size, size) or (matrix != np.eye(size)).any():
            x = along(e, x, rank, axis, matrix)
        if offset.any():
            x = e.add("Add", x, e.constant(offset.reshape(-1, *(1 for _ in range(rank - axis - 1)))))
        shape[axis] = matrix.shape[1]
    e.finish("Identity", x)


def linear(e: Expansion, lead: int) -> None:
    """An operator that is linear in its first input, all others being constants: a product with the matrix of what it makes of
    each element.

    Args:
        lead: leading dimensions of which each element is treated alike (batches, channels).
    """
    shape = e.shape(0)
    mixed = math.prod(shape[lead:])
    if mixed * mixed > _MOST_ELEMENTS * 4:
        raise RefusedError(f"it mixes {mixed} elements")
    given = {
        "x": np.eye(mixed, dtype=np.float32).reshape(mixed, *(1 for _ in range(lead - 1)), *shape[lead:])
    }
    names = ["x"]
    for index in range(1, len(e.node.input)):
        names.append(e.input(index) if e.has(index) else "")
        if e.has(index):
            given[e.node.input[index]] = e.value(index, "parameters")
    node = onnx.helper.make_node(e.node.op_type, names, ["y"], domain=e.node.domain)
    node.attribute.extend(e.raw_attributes())
    found = evaluate_node(node, given, e.version)["y"]
    y = e.add("MatMul", e.reshape(e.input(0), (*shape[:lead], mixed)), e.constant(found.reshape(mixed, -1)))
    e.finish("Reshape", y, e.constant([*shape[:lead], *found.shape[lead:]]))


def sampled(e: Expansion) -> None:
    """GridSample at constant places: a product with a matrix for every image."""
    shape, grid = e.shape(0), e.value(1, "grid")
    pixels, places = math.prod(shape[2:]), math.prod(grid.shape[1:-1])
    if pixels * places * shape[0] > _MOST_ELEMENTS:
        raise RefusedError(f"{places} places in {pixels} pixels")
    node = onnx.helper.make_node("GridSample", ["x", "grid"], ["y"])
    node.attribute.extend(e.raw_attributes())
    basis = np.eye(pixels, dtype=np.float32).reshape(1, pixels, *shape[2:])
    matrices = [
        evaluate_node(node, {"x": basis, "grid": image[None]}, e.version)["y"].reshape(pixels, places)
        for image in grid
    ]
    y = e.add("MatMul", e.reshape(e.input(0), (*shape[:2], pixels)), e.constant(np.stack(matrices)))
    e.finish("Reshape", y, e.constant([*shape[:2], *grid.shape[1:-1]]))


def regions(e: Expansion) -> None:
    """RoiAlign of constant regions, averages: a product with a matrix for every region."""
    shape = e.shape(0)
    if e.attribute("mode", "avg") != "avg":
        raise RefusedError(f"mode={e.attribute('mode', 'avg')}")
    rois, images = e.value(1, "rois"), e.value(2, "batch_indices").reshape(-1)
    pixels = math.prod(shape[2:])
    node = onnx.helper.make_node("RoiAlign", ["x", "rois", "images"], ["y"])
    node.attribute.extend(e.raw_attributes())
    basis = np.eye(pixels, dtype=np.float32).reshape(1, pixels, *shape[2:])
    zero = np.zeros(len(rois), np.int64)
    found = evaluate_node(node, {"x": basis, "rois": rois, "images": zero}, e.version)["y"]
    if found.size > _MOST_ELEMENTS:
        raise RefusedError(f"{len(rois)} regions of {pixels} pixels")
    x = selected(e, e.input(0), shape, 0, [int(i) for i in images])
    y = e.add(
        "MatMul",
        e.reshape(x, (len(rois), shape[1], pixels)),
        e.constant(found.reshape(len(rois), pixels, -1)),
    )
    e.finish("Reshape", y, e.constant([len(rois), shape[1], *found.shape[2:]]))


def fourier(e: Expansion) -> None:
    """DFT along one dimension: a product with a constant matrix of sines and cosines."""
    shape = e.shape(0)
    rank = len(shape)
    given_axis = (
        int(e.value(2, "axis").reshape(-1)[0])
        if e.has(2)
        else e.attribute("axis", 1 if e.version < 20 else -2)
    )
    axis = given_axis % rank
    order = [*(a for a in range(rank - 1) if a != axis), axis, rank - 1]
    size, parts = shape[axis], shape[-1]
    rows = np.eye(size * parts, dtype=np.float32).reshape(size * parts, size, parts)
    given = {"x": rows}
    names = ["x"]
    if e.has(1):
        names, given["length"] = ["x", "length"], e.value(1, "length")
    if e.version >= 20:
        names = [names[0], names[1] if len(names) > 1 else "", "axis"]
        given["axis"] = np.array(1, np.int64)
    node = onnx.helper.make_node("DFT", names, ["y"])
    node.attribute.extend(e.raw_attributes("axis"))
    if e.version < 20:
        node.attribute.append(onnx.helper.make_attribute("axis", 1))
    found = evaluate_node(node, given, e.version)["y"]
    turned = e.add("Transpose", e.input(0), perm=order)
    lead = [shape[a] for a in order[:-2]]
    y = e.add("MatMul", e.reshape(turned, (*lead, size * parts)), e.constant(found.reshape(size * parts, -1)))
    split = e.reshape(y, (*lead, *found.shape[1:]))
    e.finish("Transpose", split, perm=[int(i) for i in np.argsort(order)])


def short_fourier(e: Expansion) -> None:
    """STFT of real signals: a convolution in time with sines and cosines, times the window."""
    shape = e.shape(0)
    step = int(e.value(1, "frame_step").reshape(-1)[0])
    window = e.value(2, "window").reshape(-1) if e.has(2) else None
    length = int(e.value(3, "frame_length").reshape(-1)[0]) if e.has(3) else None
    size = length if length is not None else len(window) if window is not None else 0
    if size < 1 or len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] != 1):
        raise RefusedError(f"a signal of {shape} in frames of {size}")
    rows = np.eye(size, dtype=np.float32)
    if window is not None:
        rows = rows * np.pad(window, (0, size - len(window)))[None]
    spectrum = np.fft.rfft(rows) if e.attribute("onesided", 1) else np.fft.fft(rows)
    both = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)  # (element, bin, part)
    kernel = both.reshape(size, -1).T[:, None, :]
    signal = e.reshape(e.input(0), (shape[0], 1, shape[1]))
    y = e.add("Conv", signal, e.constant(np.ascontiguousarray(kernel)), strides=[step])
    frames = (shape[1] - size) // step + 1
    turned = e.add("Transpose", y, perm=[0, 2, 1])
    e.finish("Reshape", turned, e.constant([shape[0], frames, both.shape[1], 2]))


def without_empty(e: Expansion) -> None:
    """Concat of the parts that hold anything."""
    parts = [e.input(i) for i in range(len(e.node.input)) if math.prod(e.shape(i))]
    axis = e.attribute("axis", 1)
    if not parts:
        raise RefusedError("its output is empty")
    if len(parts) == 1:
        e.finish("Identity", parts[0])
    else:
        e.finish("Concat", *parts, axis=axis)


def tensor_scatter(e: Expansion) -> None:
    """A cache with a piece written at constant positions of every batch."""
    shape, update = e.shape(0), e.shape(1)
    axis = e.attribute("axis", -2) % len(shape)
    starts = e.value(2, "write_indices").reshape(-1) if e.has(2) else np.zeros(shape[0], np.int64)
    written = np.full(shape, -1, np.int64)
    numbers = np.arange(math.prod(update)).reshape(update)
    circular = e.attribute("mode", "linear") == "circular"
    for batch, start in enumerate(int(n) for n in starts):
        places = start + np.arange(update[axis])
        places = places % shape[axis] if circular else places
        target = np.moveaxis(written[batch], axis - 1, 0)
        target[places] = np.moveaxis(numbers[batch], axis - 1, 0)
    size, updates = math.prod(shape), math.prod(update)
    both = e.add("Concat", e.reshape(e.input(0), (size,)), e.reshape(e.input(1), (updates,)), axis=0)
    flat = np.where(written < 0, np.arange(size).reshape(shape), size + written).reshape(-1)
    y = selected(e, both, (size + updates,), 0, [int(i) for i in flat])
    e.finish("Reshape", y, e.constant(list(shape)))
