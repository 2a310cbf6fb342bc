"""Normalisations whose scale and shift are computed, or whose dimensions are not the last ones; local responses, norms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from baco.workloads.onnx.expansion import Expansion, RefusedError


def _channels(e: Expansion, index: int, rank: int) -> str:
    """A vector of channels as it is broadcast over images."""
    return e.reshape(e.input(index), (-1, *(1 for _ in range(rank - 2))))


def batch_normalisation(e: Expansion) -> None:
    """With parameters that are not constants: (x - mean) / sqrt(variance + eps) * scale + shift."""
    rank = len(e.shape(0))
    if e.attribute("training_mode", 0):
        _of_the_batch(e, rank)
        return
    if all(e.is_constant(i) for i in range(1, 5)):  # of more dimensions than an image has
        flat = e.reshape(e.input(0), (*e.shape(0)[:2], -1))
        epsilon = float(e.attribute("epsilon", 1e-5))
        y = e.add("BatchNormalization", flat, *(e.input(i) for i in range(1, 5)), epsilon=epsilon)
        e.finish("Reshape", y, e.constant(list(e.shape(0))))
        return
    scale, shift, mean, variance = (_channels(e, i, rank) for i in range(1, 5))
    deviation = e.add("Sqrt", e.add("Add", variance, e.constant(float(e.attribute("epsilon", 1e-5)))))
    centred = e.add("Sub", e.input(0), mean)
    e.finish("Add", e.add("Mul", centred, e.add("Div", scale, deviation)), shift)


def _of_the_batch(e: Expansion, rank: int) -> None:
    """Training mode: mean and variance are those of the batch, and move the running ones by 1 - momentum."""
    axes = e.constant([a for a in range(rank) if a != 1])
    mean = e.add("ReduceMean", e.input(0), axes, keepdims=1)
    centred = e.add("Sub", e.input(0), mean)
    variance = e.add("ReduceMean", e.add("Mul", centred, centred), axes, keepdims=1)
    deviation = e.add("Sqrt", e.add("Add", variance, e.constant(float(e.attribute("epsilon", 1e-5)))))
    normal = e.add("Div", centred, deviation)
    e.finish("Add", e.add("Mul", normal, _channels(e, 1, rank)), _channels(e, 2, rank))
    kept = float(e.attribute("momentum", 0.9))
    for output, (index, own) in enumerate(((3, mean), (4, variance)), 1):
        if e.wants(output):
            running = e.add("Mul", e.input(index), e.constant(kept))
            flat = e.add("Mul", e.reshape(own, (-1,)), e.constant(1 - kept))
            e.finish("Add", running, flat, output=output)
        e.input(index)


def _scaled(e: Expansion, y: str, scale: str | None, shift: str | None) -> None:
    if scale is not None:
        y = e.add("Mul", y, scale)
    if shift is not None:
        y = e.add("Add", y, shift)
    e.finish("Identity", y)


def layer_normalisation(e: Expansion, operator: str) -> None:
    """With parameters that are not constants, or whose mean and deviation are read."""
    shape = e.shape(0)
    axis = e.attribute("axis", -1) % len(shape)
    if e.wants(1) or e.wants(2):
        axes = e.constant(list(range(axis, len(shape))))
        mean = e.add("ReduceMean", e.input(0), axes, keepdims=1)
        e.finish("Identity", mean, output=1)
        centred = e.add("Sub", e.input(0), mean)
        variance = e.add("ReduceMean", e.add("Mul", centred, centred), axes, keepdims=1)
        shifted = e.add("Add", variance, e.constant(float(e.attribute("epsilon", 1e-5))))
        e.finish("Reciprocal", e.add("Sqrt", shifted), output=2)
    ones = e.constant(np.ones(shape[axis:], np.float32))
    eps = float(e.attribute("epsilon", 1e-5))
    y = e.add(operator, e.input(0), ones, axis=axis, epsilon=eps)
    _scaled(e, y, e.input(1) if e.has(1) else None, e.input(2) if e.has(2) else None)


def group_normalisation(e: Expansion, per_channel: bool = False) -> None:
    """With parameters that are not constants, or (before version 21) of groups."""
    shape = e.shape(0)
    rank, channels = len(shape), shape[1]
    groups = channels if per_channel else e.attribute("num_groups", 0)
    if groups < 1 or channels % groups:
        raise RefusedError(f"{groups} groups do not divide {channels} channels")
    eps = float(e.attribute("epsilon", 1e-5))
    ones, zeros = e.constant(np.ones(channels, np.float32)), e.constant(np.zeros(channels, np.float32))
    y = e.add("GroupNormalization", e.input(0), ones, zeros, num_groups=groups, epsilon=eps)
    parts = []
    for index in (1, 2):
        size = math.prod(e.shape(index))
        part = e.input(index)
        if size == groups != channels:
            wide = e.add("Expand", e.reshape(part, (groups, 1)), e.constant([groups, channels // groups]))
            part = wide
        parts.append(e.reshape(part, (channels, *(1 for _ in range(rank - 2)))))
    _scaled(e, y, parts[0], parts[1])


def _to_end(e: Expansion, x: str, rank: int, axes: Sequence[int]) -> tuple[str, list[int]]:
    """The dimensions behind all others, and their order."""
    order = [*(a for a in range(rank) if a not in axes), *axes]
    return (x if order == list(range(rank)) else str(e.add("Transpose", x, perm=order))), order


def _back(e: Expansion, y: str, order: Sequence[int]) -> None:
    if list(order) == sorted(order):
        e.finish("Identity", y)
    else:
        e.finish("Transpose", y, perm=[int(i) for i in np.argsort(order)])


def mean_variance(e: Expansion) -> None:
    """Mean 0 and variance 1 over some dimensions."""
    shape = e.shape(0)
    axes = sorted(a % len(shape) for a in e.attribute("axes", [0, 2, 3]))
    x, order = _to_end(e, e.input(0), len(shape), axes)
    ones = e.constant(np.ones([shape[a] for a in axes], np.float32))
    y = e.add("LayerNormalization", x, ones, axis=len(shape) - len(axes), epsilon=1e-9)
    _back(e, y, order)


def lp_normalisation(e: Expansion) -> None:
    """Division by the sum of magnitudes or the Euclidean norm along a dimension."""
    shape = e.shape(0)
    axis, p = e.attribute("axis", -1) % len(shape), e.attribute("p", 2)
    if p == 1:
        total = e.add("ReduceSum", e.add("Abs", e.input(0)), e.constant([axis]), keepdims=1)
        e.finish("Div", e.input(0), total)
        return
    if p != 2:
        raise RefusedError(f"p={p}")
    x, order = _to_end(e, e.input(0), len(shape), [axis])
    # The root of the mean of squares, without its factor of 1 / sqrt(n).
    scale = e.constant(np.full(shape[axis], 1 / math.sqrt(shape[axis]), np.float32))
    # What is zero stays zero: the least normal number keeps it from being divided by itself.
    _back(e, e.add("RMSNormalization", x, scale, axis=-1, epsilon=float(np.finfo(np.float32).tiny)), order)


def local_response(e: Expansion) -> None:
    """x / (bias + alpha / size * (sum of squares of neighbouring channels)) ** beta."""
    shape = e.shape(0)
    size = e.attribute("size", 1)
    alpha, beta, bias = (
        float(e.attribute(name, default))
        for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    if len(shape) < 3 or size < 1:
        raise RefusedError(f"size={size} of {shape}")
    rows = e.reshape(e.input(0), (shape[0], shape[1], -1))
    turned = e.add("Transpose", rows, perm=[0, 2, 1])
    square = e.add("Mul", turned, turned)
    before, after = (size - 1) // 2, size // 2
    mean = e.add(
        "AveragePool", square, kernel_shape=[size], pads=[before, after], strides=[1], count_include_pad=1
    )
    total = e.add("Add", e.add("Mul", mean, e.constant(alpha)), e.constant(bias))
    y = e.add("Mul", turned, e.add("Pow", total, e.constant(-beta)))
    e.finish("Reshape", e.add("Transpose", y, perm=[0, 2, 1]), e.constant(list(shape)))


def product(e: Expansion) -> None:
    """ReduceProd of a few elements: one after the other."""
    shape = e.shape(0)
    axes = [a % len(shape) for a in e.numbers(1, "axes", "axes") or range(len(shape))]
    count = math.prod(shape[a] for a in axes)
    if count > 64:
        raise RefusedError(f"a product of {count} elements")
    order = [*(a for a in range(len(shape)) if a not in axes), *axes]
    lead = [shape[a] for a in order[: len(shape) - len(axes)]]
    flat = e.reshape(e.add("Transpose", e.input(0), perm=order), (*lead, count))
    parts = [e.slice(flat, len(lead), i, i + 1) for i in range(count)]
    y = parts[0]
    for part in parts[1:]:
        y = e.add("Mul", y, part)
    kept = [1 if a in axes else n for a, n in enumerate(shape)]
    result = kept if e.attribute("keepdims", 1) else lead
    e.finish("Reshape", y, e.constant(result, np.int64))
