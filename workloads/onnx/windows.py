"""Convolutions with computed weights, 3-D convolutions and pooling: slices, products and operators of two dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from baco.workloads.onnx.evaluate import evaluate_node
from baco.workloads.onnx.expansion import Expansion, RefusedError

#: Elements of the matrix of a deformed convolution.
_MOST_ELEMENTS = 1 << 22
#: Taps of a window whose slices are put side by side.
_MOST_TAPS = 1024


@dataclass(frozen=True)
class _Window:
    """Of every spatial dimension."""

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def out(self) -> tuple[int, ...]:
        """Positions."""
        found = tuple(
            (n + b + a - (k - 1) * d - 1) // s + 1
            for n, b, a, k, d, s in zip(
                self.size, self.before, self.after, self.kernel, self.dilation, self.stride, strict=True
            )
        )
        if min(found) < 1:
            raise RefusedError(f"a kernel of {self.kernel} does not fit into {self.size}")
        return found


def _window(e: Expansion, size: Sequence[int], kernel: Sequence[int]) -> _Window:
    rank = len(kernel)
    stride = tuple(e.attribute("strides", [1] * rank))
    dilation = tuple(e.attribute("dilations", [1] * rank))
    pads = list(e.attribute("pads", [0] * (2 * rank)))
    mode = e.attribute("auto_pad", "NOTSET")
    if len(size) != rank or len(stride) != rank or len(dilation) != rank or len(pads) != 2 * rank:
        raise RefusedError(f"a window of {rank} dimensions over {len(size)}")
    if mode == "VALID":
        pads = [0] * (2 * rank)
    elif mode.startswith("SAME"):
        totals = [
            max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
            for n, s, k, d in zip(size, stride, kernel, dilation, strict=True)
        ]
        small = [t // 2 for t in totals]
        large = [t - t // 2 for t in totals]
        pads = small + large if mode == "SAME_UPPER" else large + small
    return _Window(tuple(size), tuple(kernel), stride, dilation, tuple(pads[:rank]), tuple(pads[rank:]))


def _padded(e: Expansion, x: str, before: Sequence[int], after: Sequence[int], lead: int = 2) -> str:
    """With zeros around the spatial dimensions."""
    if not any((*before, *after)):
        return x
    return str(e.add("Pad", x, e.constant([*[0] * lead, *before, *[0] * lead, *after])))


def _tap(e: Expansion, x: str, axis: int, number: int, w: _Window, dim: int, out: int) -> str:
    """What one tap along a spatial dimension reads, for all positions of the window."""
    start = number * w.dilation[dim]
    return e.slice(x, axis, start, start + (out - 1) * w.stride[dim] + 1, w.stride[dim])


def convolution(e: Expansion) -> None:
    """A convolution of one to three dimensions whose weights are computed, or of three with trained ones."""
    shape, weight = e.shape(0), e.shape(1)
    rank = len(weight) - 2
    if rank < 1 or len(shape) != len(weight):
        raise RefusedError(f"weights of {weight} on an input of {shape}")
    w = _window(e, shape[2:], weight[2:])
    e.attribute("kernel_shape", None)
    groups = e.attribute("group", 1)
    y = _convolved(e, e.input(0), shape, e.input(1), weight, w, groups, e.is_constant(1))
    _with_bias(e, y, rank)


def _with_bias(e: Expansion, y: str, rank: int) -> None:
    if e.has(2):
        e.finish("Add", y, e.reshape(e.input(2), (-1, *[1] * rank)))
    else:
        e.finish("Identity", y)


def _convolved(
    e: Expansion,
    x: str,
    shape: Sequence[int],
    weights: str,
    weight: Sequence[int],
    w: _Window,
    groups: int,
    trained: bool,
) -> str:
    if trained and len(w.kernel) <= 2:
        pads = [*w.before, *w.after]
        return str(
            e.add(
                "Conv",
                x,
                weights,
                strides=list(w.stride),
                dilations=list(w.dilation),
                pads=pads,
                group=groups,
            )
        )
    if trained and len(w.kernel) == 3:
        return _depth_as_channels(e, x, shape, weights, weight, w, groups)
    taps = math.prod(w.kernel)
    if taps > _MOST_TAPS:
        raise RefusedError(f"a window of {taps} taps whose weights are computed")
    batch, channels, outputs = shape[0], shape[1], weight[0]
    out = w.out
    parts = [_padded(e, x, w.before, w.after)]
    for dim in range(len(w.kernel)):
        parts = [
            _tap(e, part, 2 + dim, number, w, dim, out[dim])
            for part in parts
            for number in range(w.kernel[dim])
        ]
    pixels = math.prod(out)
    # Rows of the patches: channel by channel, the taps of each in the order of the weights.
    columns = [e.reshape(part, (batch, channels, 1, pixels)) for part in parts]
    patches = columns[0] if taps == 1 else e.add("Concat", *columns, axis=2)
    depth = channels // groups * taps
    if groups == 1:
        right = e.reshape(patches, (batch, depth, pixels))
        left = e.reshape(weights, (1, outputs, depth))
    else:
        right = e.reshape(patches, (batch, groups, depth, pixels))
        left = e.reshape(weights, (1, groups, outputs // groups, depth))
    return e.reshape(e.add("MatMul", left, right), (batch, outputs, *out))


def _depth_as_channels(
    e: Expansion, x: str, shape: Sequence[int], weights: str, weight: Sequence[int], w: _Window, groups: int
) -> str:
    """A 3-D convolution as one of two dimensions, whose channels are those of all taps in depth, for every depth of the output."""
    batch, channels = shape[0], shape[1]
    depth = w.out[0]
    padded = _padded(e, x, [w.before[0], 0, 0], [w.after[0], 0, 0])
    taps = [_tap(e, padded, 2, number, w, 0, depth) for number in range(w.kernel[0])]
    height, width = shape[3:]
    columns = []
    for tap in taps:  # (N, C, D, H, W) to (N, D, C, 1, H, W)
        turned = e.add("Transpose", tap, perm=[0, 2, 1, 3, 4])
        columns.append(e.reshape(turned, (batch, depth, channels, 1, height, width)))
    joined = columns[0] if len(columns) == 1 else e.add("Concat", *columns, axis=3)
    image = e.reshape(joined, (batch * depth, channels * w.kernel[0], height, width))
    kernel = e.reshape(weights, (weight[0], weight[1] * w.kernel[0], *w.kernel[1:]))
    y = e.add(
        "Conv",
        image,
        kernel,
        strides=list(w.stride[1:]),
        dilations=list(w.dilation[1:]),
        pads=[*w.before[1:], *w.after[1:]],
        group=groups,
    )
    out = w.out
    split = e.reshape(y, (batch, depth, weight[0], *out[1:]))
    return str(e.add("Transpose", split, perm=[0, 2, 1, 3, 4]))


def transposed_convolution(e: Expansion) -> None:
    """A transposed convolution of three dimensions or with computed weights: an ordinary one of the input with zeros between
    its elements and the weights turned around."""
    shape, weight = e.shape(0), e.shape(1)
    rank = len(weight) - 2
    groups = e.attribute("group", 1)
    e.attribute("kernel_shape", None)
    stride = e.attribute("strides", [1] * rank)
    dilation = e.attribute("dilations", [1] * rank)
    extra = list(e.attribute("output_padding", [0] * rank))
    pads = list(e.attribute("pads", [0] * (2 * rank)))
    wanted, mode = e.attribute("output_shape", None), e.attribute("auto_pad", "NOTSET")
    reach = [(k - 1) * d for k, d in zip(weight[2:], dilation, strict=True)]
    if mode == "VALID":
        pads = [0] * (2 * rank)
    if wanted is not None or mode.startswith("SAME"):
        wanted = wanted or [n * s for n, s in zip(shape[2:], stride, strict=True)]
        for i in range(rank):
            total = stride[i] * (shape[2 + i] - 1) + extra[i] + reach[i] + 1 - wanted[i]
            extra[i], total = (extra[i] - total, 0) if total < 0 else (extra[i], total)
            half = total // 2 if mode == "SAME_UPPER" else total - total // 2
            pads[i], pads[rank + i] = half, total - half
    x, spread = e.input(0), list(shape)
    for i in range(rank):
        if stride[i] > 1:  # zeros behind every element but the last
            x = e.reshape(x, (*spread[: 3 + i], 1, *spread[3 + i :]))
            rows = len(spread) + 1
            pad = [0] * (2 * rows)
            pad[rows + 3 + i] = stride[i] - 1
            x = e.add("Pad", x, e.constant(pad))
            wide = spread[2 + i] * stride[i]
            x = e.reshape(x, (*spread[: 2 + i], wide, *spread[3 + i :]))
            spread[2 + i] = wide - stride[i] + 1
            x = e.slice(x, 2 + i, 0, spread[2 + i])
    before = [r - p for r, p in zip(reach, pads[:rank], strict=True)]
    after = [r - p + o for r, p, o in zip(reach, pads[rank:], extra, strict=True)]
    for i in range(rank):  # more padding than taps: elements are cut off
        low, high = max(0, -before[i]), max(0, -after[i])
        if low or high:
            x = e.slice(x, 2 + i, low, spread[2 + i] - high)
            spread[2 + i] -= low + high
    before, after = [max(0, n) for n in before], [max(0, n) for n in after]
    outputs = weight[1] * groups
    turned = e.input(1)
    for i in range(rank):
        if weight[2 + i] > 1:
            turned = e.slice(turned, 2 + i, weight[2 + i] - 1, -1, -1)
    # (C, K / groups, ...) to (K, C / groups, ...), group by group
    split = e.reshape(turned, (groups, weight[0] // groups, *weight[1:]))
    swapped = e.add("Transpose", split, perm=[0, 2, 1, *range(3, 3 + rank)])
    ordinary = (outputs, weight[0] // groups, *weight[2:])
    kernel = e.reshape(swapped, ordinary)
    w = _Window(
        tuple(spread[2:]), tuple(weight[2:]), (1,) * rank, tuple(dilation), tuple(before), tuple(after)
    )
    _with_bias(e, _convolved(e, x, spread, kernel, ordinary, w, groups, e.is_constant(1)), rank)


def pool(e: Expansion, operator: str) -> None:
    """Pooling of three dimensions: of height and width, then of depth. A mean over part of a window is the mean of its means."""
    shape = e.shape(0)
    kernel = e.attribute("kernel_shape", [])
    if operator == "AveragePool" and max(e.attribute("dilations", [1])) > 1 and len(shape) <= 4:
        _dilated_average(e, kernel)
        return
    if len(kernel) != 3 or len(shape) != 5:
        raise RefusedError(f"a window of {len(kernel)} dimensions over {shape}")
    if e.wants(1):
        raise RefusedError("its output 'Indices'")
    w = _window(e, shape[2:], kernel)
    ceil = e.attribute("ceil_mode", 0)
    options: dict[str, Any] = {"ceil_mode": ceil}
    if operator == "AveragePool":
        options["count_include_pad"] = e.attribute("count_include_pad", 0)

    def pooled(x: str, first: int, last: int, size: Sequence[int], channels: int) -> tuple[str, list[int]]:
        out = []
        for dim in range(first, last):
            span = w.size[dim] + w.before[dim] + w.after[dim] - (w.kernel[dim] - 1) * w.dilation[dim] - 1
            count = (-(-span // w.stride[dim]) if ceil else span // w.stride[dim]) + 1
            if ceil and (count - 1) * w.stride[dim] >= w.size[dim] + w.before[dim]:
                count -= 1
            out.append(count)
        flat = e.reshape(x, (shape[0], channels, *size))
        extra = [1] if last - first == 1 else []
        zero = [0] * len(extra)
        y = e.add(
            operator,
            flat,
            kernel_shape=[*w.kernel[first:last], *extra],
            strides=[*w.stride[first:last], *extra],
            dilations=[*w.dilation[first:last], *extra],
            pads=[*w.before[first:last], *zero, *w.after[first:last], *zero],
            **options,
        )
        return y, out

    plane, out = pooled(e.input(0), 1, 3, shape[3:], shape[1] * shape[2])
    deep, depth = pooled(plane, 0, 1, (shape[2], math.prod(out)), shape[1])
    e.finish("Reshape", deep, e.constant([*shape[:2], *depth, *out]))


def _dilated_average(e: Expansion, kernel: Sequence[int]) -> None:
    """A depthwise convolution; where padding does not count, times the share of the window that lies inside."""
    shape = e.shape(0)
    w = _window(e, shape[2:], kernel)
    after = list(w.after)
    if e.attribute("ceil_mode", 0):  # the last window may reach beyond the padding, where nothing counts
        for i in range(len(kernel)):
            span = w.size[i] + w.before[i] + w.after[i] - (kernel[i] - 1) * w.dilation[i] - 1
            more = -span % w.stride[i]
            if span + more < w.size[i] + w.before[i]:
                after[i] += more
    counted, w = w, replace(w, after=tuple(after))
    rank, taps = len(kernel), math.prod(kernel)
    ones = np.full((shape[1], 1, *kernel), 1 / taps, np.float32)
    options: dict[str, Any] = {
        "strides": list(w.stride),
        "dilations": list(w.dilation),
        "pads": [*w.before, *w.after],
        "group": shape[1],
    }
    y = e.add("Conv", e.input(0), e.constant(ones), **options)
    inside = np.ones(())
    for i in range(rank):
        first = np.arange(w.out[i]) * w.stride[i] - w.before[i]
        position = first[:, None] + np.arange(w.kernel[i]) * w.dilation[i]
        low, high = 0, w.size[i]
        if e.attribute("count_include_pad", 0):
            low, high = -w.before[i], w.size[i] + counted.after[i]
        count = ((position >= low) & (position < high)).sum(1) / w.kernel[i]
        inside = inside[..., None] * count
    if (inside == 1).all():
        e.finish("Identity", y)
    else:
        e.finish("Mul", y, e.constant(1 / np.maximum(inside, 1 / taps)))


def fused_convolution(e: Expansion) -> None:
    """onnxruntime's convolution with an addition and an activation."""
    from baco.workloads.onnx.pointwise import activated

    options = {
        name: e.attribute(name, None)
        for name in ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
        if e.attribute(name, None) is not None
    }
    inputs = [e.input(0), e.input(1), *([e.input(2)] if e.has(2) else [])]
    y = e.add("Conv", *inputs, **options)
    if e.has(3):
        y = e.add("Add", y, e.input(3))
    name, numbers = e.attribute("activation", ""), e.attribute("activation_params", [])
    if not name:
        e.finish("Identity", y)
        return
    operator, attributes, further = activated(e, name, [float(n) for n in np.asarray(numbers).reshape(-1)])
    e.finish(operator, y, *further, **attributes)


def deformed_convolution(e: Expansion) -> None:
    """DeformConv at constant places: a product with a matrix for every image."""
    shape = e.shape(0)
    mixed = math.prod(shape[1:])
    weight, offset = e.value(1, "weights"), e.value(2, "offsets")
    mask = e.value(4, "mask") if e.has(4) else None
    pixels = weight.shape[0] * math.prod(offset.shape[2:])
    if shape[0] * mixed * pixels > _MOST_ELEMENTS:
        raise RefusedError(f"{pixels} results of {mixed} elements each")
    names = ["x", "weight", "offset"] + ([] if mask is None else ["", "mask"])
    node = onnx.helper.make_node("DeformConv", names, ["y"])
    node.attribute.extend(e.raw_attributes())
    given = {"x": np.eye(mixed, dtype=np.float32).reshape(mixed, *shape[1:]), "weight": weight}
    matrices = []
    for image in range(shape[0]):
        given["offset"] = np.repeat(offset[image : image + 1], mixed, 0)
        if mask is not None:
            given["mask"] = np.repeat(mask[image : image + 1], mixed, 0)
        matrices.append(evaluate_node(node, given, e.version)["y"].reshape(mixed, pixels))
    y = e.add("MatMul", e.reshape(e.input(0), (shape[0], 1, mixed)), e.constant(np.stack(matrices)))
    y = e.reshape(y, (shape[0], *weight.shape[:1], *offset.shape[2:]))
    if e.has(3):
        y = e.add("Add", y, e.reshape(e.input(3), (-1, *(1 for _ in shape[2:]))))
    e.finish("Identity", y)


def unpool(e: Expansion) -> None:
    """MaxUnpool: elements at their positions in a vector of zeros, then in the shape that is wanted, zeros behind."""
    shape = e.shape(0)
    if e.shape(1) != shape:
        raise RefusedError(f"positions of {e.shape(1)} for elements of {shape}")
    rank = len(shape) - 2
    kernel = e.attribute("kernel_shape", [])
    strides, pads = e.attribute("strides", [1] * rank), e.attribute("pads", [0] * (2 * rank))
    if not len(kernel) == len(strides) == rank or len(pads) != 2 * rank:
        raise RefusedError(f"a window of {len(kernel)} dimensions over {rank}")
    space = [
        (n - 1) * s - pads[i] - pads[rank + i] + k
        for i, (n, s, k) in enumerate(zip(shape[2:], strides, kernel, strict=True))
    ]
    full = [*shape[:2], *space]
    zeros = e.constant(np.zeros(math.prod(full), np.float32))
    flat = [e.reshape(e.input(i), (math.prod(shape),)) for i in (1, 0)]
    y = e.reshape(e.add("ScatterElements", zeros, *flat, axis=0), full)
    if e.has(2):
        wanted = [int(n) for n in e.value(2, "output_shape").reshape(-1)]
        if len(wanted) != len(full) or any(n < m for n, m in zip(wanted, full, strict=True)):
            raise RefusedError(f"output_shape={wanted} of {full}")
        y = e.add("Pad", y, e.constant([0] * len(full) + [n - m for n, m in zip(wanted, full, strict=True)]))
    e.finish("Identity", y)
