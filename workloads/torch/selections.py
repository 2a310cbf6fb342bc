"""PyTorch operators that select or average elements unevenly: slices side by side, products with a constant matrix."""

from __future__ import annotations

import math

import numpy as np
import torch

from baco.workloads.network import Tensor, UnsupportedNodeError
from baco.workloads.semantics import constant
from baco.workloads.torch.node import TorchNode

#: Elements of a selection that are put side by side one by one.
_MOST_PIECES = 64


def along(imp: TorchNode, x: Tensor, axis: int, matrix: np.ndarray, name: str) -> Tensor:
    """The product of every row along a dimension with a constant matrix."""
    rank = len(x.shape)
    order = [*(a for a in range(rank) if a != axis), axis]
    moved = imp.builder.transpose(x, order)
    fixed = constant(f"{name}.matrix", matrix.astype(np.float32))
    y = imp.builder.matmul(moved, fixed, name)
    return imp.builder.transpose(y, [int(a) for a in np.argsort(order)])


def adaptive_average(imp: TorchNode, rank: int) -> bool:
    """Averages of windows of unequal sizes, as products; False where all are alike."""
    x = imp.tensors()[0]
    wanted = imp.numbers("output_size", 1)
    wanted = wanted * rank if len(wanted) == 1 else wanted
    sizes = x.shape[-rank:]
    alike = all(n % w == 0 for n, w in zip(sizes, wanted, strict=True))
    if set(wanted) == {1} or (alike and rank < 3):
        return False
    for i, (size, count) in enumerate(zip(sizes, wanted, strict=True)):
        matrix = np.zeros((size, count))
        for number in range(count):
            first, last = number * size // count, -(-(number + 1) * size // count)
            matrix[first:last, number] = 1 / (last - first)
        last_one = i == rank - 1
        x = along(imp, x, len(x.shape) - rank + i, matrix, imp.name if last_one else f"{imp.name}.dim{i}")
    imp.emit(x)
    return True


def roll(imp: TorchNode) -> None:
    """Elements moved around the end of a dimension: two slices in the opposite order."""
    x = imp.tensors()[0]
    shifts, dims = imp.numbers("shifts", 0), imp.numbers("dims", 0) if imp.args.get("dims") else ()
    shape = x.shape
    if not dims:
        x = imp.builder.reshape(x, (math.prod(shape),))
        dims = (0,)
    if len(shifts) != len(dims):
        raise UnsupportedNodeError(f"{len(shifts)} shifts of {len(dims)} dimensions")
    moves = [(d % len(x.shape), s) for d, s in zip(dims, shifts, strict=True) if s % x.shape[d]]
    for number, (axis, shift) in enumerate(moves):
        cut = x.shape[axis] - shift % x.shape[axis]
        parts = [imp.builder.slice(x, axis, cut), imp.builder.slice(x, axis, 0, cut)]
        x = imp.builder.concat(parts, axis, name=imp.builder.unique(f"{imp.name}.{number}"))
    imp.emit(imp.builder.reshape(x, shape))


def index_select(imp: TorchNode) -> bool:
    """Selection by a constant list along one dimension; False where that is not what the node does."""
    x = imp.tensors()[0]
    index = imp.args.get("index")
    axis = int(imp.args.get("dim") or 0)
    if index is None:  # x[:, list]
        lists = list(imp.args.get("indices") or [])
        given = [i for i, one in enumerate(lists) if one is not None]
        if len(given) != 1:
            return False
        axis, index = given[0], lists[given[0]]
    fixed = imp.constants.get(index) if isinstance(index, torch.fx.Node) else None
    if fixed is None or fixed.load is None or fixed.shape is None or len(fixed.shape) != 1:
        return False
    if not x.shape or not 0 < math.prod(fixed.shape) <= _MOST_PIECES:
        return False
    value = fixed.load()
    if value is None or value.dtype == torch.bool:
        return False
    axis %= len(x.shape)
    places = [int(i) % x.shape[axis] for i in value]
    parts = [imp.builder.slice(x, axis, i, i + 1) for i in places]
    imp.emit(imp.builder.concat(parts, axis, name=imp.name))
    return True


def mirrored_pad(imp: TorchNode, mode: str) -> None:
    """Padding of the last dimensions with elements of the tensor: slices side by side."""
    x = imp.tensors()[0]
    pads = imp.numbers("pad" if "pad" in imp.args else "padding", 0)
    for number in range(len(pads) // 2):
        axis = len(x.shape) - 1 - number
        size = x.shape[axis]
        width = (pads[2 * number], pads[2 * number + 1])
        index = np.pad(np.arange(size), [max(0, n) for n in width], mode=mode)  # type: ignore[call-overload]
        index = index[max(0, -width[0]) : len(index) - max(0, -width[1])]
        before, after = max(0, width[0]), max(0, width[1])
        if before + after > _MOST_PIECES:
            raise UnsupportedNodeError(f"padding of {before + after} elements")
        middle = imp.builder.slice(x, axis, int(index[before]), int(index[len(index) - after - 1]) + 1)
        ends = [
            [imp.builder.slice(x, axis, int(i), int(i) + 1) for i in part]
            for part in (index[:before], index[len(index) - after :])
        ]
        name = imp.builder.unique(f"{imp.name}.{number}")
        x = imp.builder.concat([*ends[0], middle, *ends[1]], axis, name=name)
    imp.emit(x)
