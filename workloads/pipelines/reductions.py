"""Sums over images and distances between rows, as products of bytes: split so that no sum leaves the array's 32 bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from baco.workloads.pipelines.node import Node
from baco.workloads.pipelines.ranges import LARGEST_SUM

#: Elements from which on a whole sum is worth a product.
_LEAST = 256


def square_of(node: Node, is_byte: Callable[[Node], bool]) -> Node | None:
    """What is multiplied by itself, if that is bytes."""
    if (
        node.function != "binary"
        or node.attributes["name"] != "mul"
        or node.operands[0] is not node.operands[1]
    ):
        return None
    return node.operands[0] if is_byte(node.operands[0]) else None


def summed_bytes(node: Node, byte: Node, is_byte: Callable[[Node], bool]) -> bool:
    """Whether a reduction adds up all of a tensor of bytes that is large enough."""
    axes = node.attributes["axes"]
    return (
        is_byte(byte)
        and len(axes) == len(byte.shape)
        and math.prod(byte.shape) >= _LEAST
        and gram_blocks(byte, True, 16) is not None
    )


def gram_blocks(byte: Node, squared: bool, dim: int) -> tuple[int, int, int] | None:
    """(blocks, rows, columns) that all elements are split into: sums along columns stay within 32 bits, products of two bytes or of a
    byte and 1; as few blocks as that takes, and rows as the array has them. None where the number of elements has no such divisors.
    """
    count = math.prod(byte.shape)
    rows = max(n for n in range(1, dim + 1) if count % n == 0)
    most = LARGEST_SUM // (255 * 255 if squared else 255 * 128) // 4
    columns = count // rows
    blocks = next(
        (n for n in range(-(-columns // most), min(columns, 1 << 16) + 1) if columns % n == 0), None
    )
    return None if blocks is None else (blocks, rows, columns // blocks)


@dataclass(frozen=True)
class RowSet:
    """RowSet of numbers, of which some dimension of a result counts.

    Attributes:
        node: that holds them.
        rows: how many.
    """

    node: Node
    rows: int


@dataclass(frozen=True)
class Distances:
    """Sums of squares of differences between all rows of two tensors.

    Attributes:
        left, right: the rows.
        depth: length of a row.
        turned: whether the result's dimension of `right` comes first.
    """

    left: RowSet
    right: RowSet
    depth: int
    turned: bool

    @property
    def needed(self) -> tuple[Node, ...]:
        """What is read."""
        return tuple(one.node for one in (self.left, self.right) if one.node.function != "constant")


def distances(node: Node, is_byte: Callable[[Node], bool]) -> Distances | None:
    """The distances that a sum over the last dimension is: sum((a - b) * (a - b), -1), in whole numbers of bytes; None for others."""
    (inner,) = node.operands
    if node.attributes["name"] != "sum" or node.attributes["axes"] != (len(inner.shape) - 1,):
        return None
    if (
        inner.function != "binary"
        or inner.attributes["name"] != "mul"
        or inner.operands[0] is not inner.operands[1]
    ):
        return None
    difference = inner.operands[0]
    if difference.function != "binary" or difference.attributes["name"] != "sub":
        return None
    shape = difference.shape
    found: list[tuple[int, RowSet]] = []
    for x in difference.operands:
        lead = (1,) * (len(shape) - len(x.shape)) + x.shape[:-1]
        own = [axis for axis, n in enumerate(lead) if n > 1]
        if len(own) > 1 or not x.shape or x.shape[-1] != shape[-1] or not _whole_bytes(x, is_byte):
            return None
        found.append((own[0] if own else -1, RowSet(x, lead[own[0]] if own else 1)))
    (first, left), (second, right) = found
    if first == second and first >= 0:
        return None
    if left.node.function == "constant" and right.node.function == "constant":
        return None
    if left.node.function == "constant":  # weights are on the right
        first, left, second, right = second, right, first, left
    return Distances(left, right, shape[-1], 0 <= second < first)


def _whole_bytes(x: Node, is_byte: Callable[[Node], bool]) -> bool:
    if x.range.exponent is None or x.range.exponent < 0:
        return False
    if x.function == "constant":
        return x.range.magnitude <= 127
    return is_byte(x)
