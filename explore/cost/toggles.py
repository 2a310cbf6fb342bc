"""What the numbers of a network make switch in the array: samples of its layers' operands, taken through the array as it passes them.

A weight-stationary array of side D multiplies rows of D inputs by a block of D x D weights, sums run down its columns. Bits that
change from row to row, of inputs, products and sums, are counted on some blocks and rows of each layer (with the zeros that activations
and padding leave), and as they move in, of the weights. Nothing is fitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from baco.accel.switched_energy import Toggles
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.ops.products import Convolution, MatMul

Array = np.ndarray[Any, Any]
#: Blocks of a layer that are looked at, rows that pass each, and columns of it.
_BLOCKS, _ROWS, _COLUMNS = 8, 48, 4
_BITS = np.array([value.bit_count() for value in range(256)], dtype=np.uint8)
#: Draws rows of inputs (T, C) that follow each other, and the weights (C, K) that they meet.
_Draw = Callable[[np.random.Generator], tuple[Array, Array]]


def network_toggles(network: QuantisedNetwork, values: Mapping[str, Array], dim: int) -> dict[str, Toggles]:
    """By the names of a network's convolutions and products, on an array of side `dim`.

    Args:
        values: elements of all values of a run (`baco.compiler.network.reference.reference`).
    """
    random = np.random.default_rng(0)
    found = {}
    for op in network.operators:
        if isinstance(op, Convolution):
            image = op.input.read(values[op.input.value])
            draw = _windows(op, image, op.weight.read(values[op.weight.value]))
        elif isinstance(op, MatMul):
            draw = _products(op.left.read(values[op.left.value]), op.right.read(values[op.right.value]))
        else:
            continue
        seen = np.array([_block(*draw(random), dim, random) for _ in range(_BLOCKS)])
        found[op.name] = Toggles(*seen.mean(0).tolist())
    return found


def _windows(op: Convolution, image: Array, weights: Array) -> _Draw:
    """Neighbouring pixels of a group that one position of the window meets."""
    taps = weights.shape[:2]
    depth, outs = weights.shape[2], weights.shape[3] // op.groups
    height, width = image.shape[1:3]

    def draw(random: np.random.Generator) -> tuple[Array, Array]:
        group, s, r = (int(random.integers(extent)) for extent in (op.groups, *taps))
        pixels = np.arange(min(_ROWS, math.prod(op.size)))
        pixels = pixels + int(random.integers(math.prod(op.size) - len(pixels) + 1))
        down = pixels // op.size[1] * op.stride[0] + s * op.dilation[0] - op.padding[0]
        across = pixels % op.size[1] * op.stride[1] + r * op.dilation[1] - op.padding[1]
        inside = (down >= 0) & (down < height) & (across >= 0) & (across < width)
        channels = image[0, down.clip(0, height - 1), across.clip(0, width - 1)]
        rows = np.where(inside[:, None], channels, 0)[:, group * depth : (group + 1) * depth]
        return rows, weights[s, r, :, group * outs : (group + 1) * outs]

    return draw


def _products(left: Array, right: Array) -> _Draw:
    """Rows of one of the products of a batch."""
    lefts = left.reshape(-1, *left.shape[-2:]) if right.ndim > 2 else left.reshape(1, -1, left.shape[-1])
    rights = right.reshape(-1, *right.shape[-2:])

    def draw(random: np.random.Generator) -> tuple[Array, Array]:
        place = int(random.integers(len(rights)))
        rows = lefts[place]
        count = min(_ROWS, len(rows))
        start = int(random.integers(len(rows) - count + 1))
        return rows[start : start + count], rights[place]

    return draw


def _block(rows: Array, weights: Array, dim: int, random: np.random.Generator) -> tuple[float, ...]:
    """Fields of `Toggles` where rows pass one block of weights."""
    depth, columns = weights.shape
    first = dim * int(random.integers(-(-depth // dim)))
    left = dim * int(random.integers(-(-columns // dim)))
    used, wide = min(dim, depth - first), min(dim, columns - left)
    chosen = left + random.choice(wide, min(_COLUMNS, wide), replace=False)
    block = weights[first : first + used][:, chosen]
    a = rows[:, first : first + used]
    # where rows are fewer than weights take to move in, nothing follows them for a while; else nothing follows weights
    few = len(rows) < dim
    products = a[:, :, None].astype(np.int16) * block[None].astype(np.int16)
    sums = products.astype(np.int32).cumsum(1, dtype=np.int32)
    totals = _changed(sums, few)
    # below its last weight, a sum passes through the rest of the column as it is
    of_column = totals.sum(0) + (dim - used) * totals[-1]
    return (
        float(_changed(a.astype(np.int8), few).mean()) * dim / wide,
        float(_changed(block.astype(np.int8), not few).mean()),
        float(_changed(products, few).mean()),
        float(of_column.mean()) / used,
        dim * dim / (used * wide),
    )


def _changed(values: Array, alone: bool) -> Array:
    """Bits that change on average with each of the values (T, ...), of any integers: from one to the next, or where they stand alone
    from and to zero, too; (...)."""
    if alone or len(values) == 1:
        edge = np.zeros_like(values[:1])
        values, count = np.concatenate([edge, values, edge]), len(values)
    else:
        count = len(values) - 1
    bits = np.ascontiguousarray(values[1:] ^ values[:-1])
    flat = _BITS[bits.view(np.uint8)].reshape(*bits.shape, bits.itemsize)
    return np.asarray(flat.sum((0, -1), dtype=np.int64) / count)
