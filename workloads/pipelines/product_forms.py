"""Products of bytes with constant matrices: which are rounded to bytes, and what a banded matrix is split into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from baco.workloads.pipelines.node import Node

#: Cycles of a product of its own beside those of its passes: its first loads and last stores. (32 × 94 × 16 has 6 passes of 32
#: rows, and takes 1,084 to 1,272 cycles.)
_CYCLES_OF_A_PRODUCT = 1000


@dataclass(frozen=True)
class RoundedProduct:
    """A product of bytes with a constant matrix, rounded to bytes.

    Attributes:
        product: the node of the product.
        views: what is made of it before it is rounded, the first one first.
        matrix: whole numbers of 8 bits [terms, sums].
        exponent: of their unit.
        left: whether the matrix is the left operand.
    """

    product: Node
    views: tuple[Node, ...]
    matrix: np.ndarray
    exponent: int
    left: bool

    @property
    def other(self) -> Node:
        """What is multiplied."""
        return self.product.operands[1 if self.left else 0]


def byte_weights(matrix: Node) -> np.ndarray | None:
    """A constant as whole numbers of 8 bits, in units of its step; None where it has none, or needs more bits."""
    if matrix.value is None or matrix.range.exponent is None:
        return None
    whole = np.rint(np.asarray(matrix.value, np.float64) / 2.0**matrix.range.exponent).astype(np.int64)
    return None if np.abs(whole).max() > 127 else whole


def constant_side(node: Node) -> int | None:
    """Which operand of a product is a constant matrix."""
    sides = [i for i, x in enumerate(node.operands) if x.function == "constant" and len(x.shape) == 2]
    return sides[0] if node.function == "matmul" and sides else None


def rounded_product(node: Node, is_byte: Callable[[Node], bool]) -> RoundedProduct | None:
    """The product that a node rounds to bytes; None for other nodes."""
    if node.function != "unary" or node.attributes["name"] != "round" or node.range.encoding() is None:
        return None
    views: list[Node] = []
    (inner,) = node.operands
    while inner.function in ("reshape", "transpose"):
        views.insert(0, inner)
        (inner,) = inner.operands
    side = constant_side(inner)
    if side is None or not is_byte(inner.operands[1 - side]) or len(inner.operands[1 - side].shape) != 2:
        return None
    constant = inner.operands[side]
    whole = byte_weights(constant)
    if whole is None or constant.range.exponent is None:
        return None
    matrix = whole.T if side == 0 else whole
    if side == 0 and len(np.unique(matrix.sum(0))) > 1:
        return None  # whose sums have no bias in common
    return RoundedProduct(inner, tuple(views), matrix, constant.range.exponent, side == 0)


def bands(matrix: np.ndarray, rows: int, dim: int) -> list[tuple[int, int, int, int]]:
    """(first sum, last, first term, last; the last ones excluded) of the parts of a matrix [terms, sums] that take the fewest
    cycles: those of a band have few terms each.

    Args:
        rows: that the matrix is multiplied with.
        dim: of the array, through which a tile of dim × dim takes a cycle a row.
    """
    terms, sums = matrix.shape
    best: tuple[int, list[tuple[int, int, int, int]]] | None = None
    size = -(-sums // dim) * dim
    while size >= dim:
        parts, cycles = [], 0
        for first in range(0, sums, size):
            last = min(first + size, sums)
            used = np.flatnonzero(matrix[:, first:last].any(1))
            low, high = (int(used[0]), int(used[-1]) + 1) if used.size else (0, min(dim, terms))
            parts.append((first, last, low, high))
            cycles += -(-(high - low) // dim) * -(-(last - first) // dim) * rows + _CYCLES_OF_A_PRODUCT
        if best is None or cycles < best[0]:
            best = cycles, parts
        size = size // 2 // dim * dim
    assert best is not None, "a matrix has sums"
    return best[1]
