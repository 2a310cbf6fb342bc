"""How blocks lie in the scratchpad, which of them loads can fetch, and where the hardware's ordering is not enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from baco.compiler.blocks.memory import InMemory
from baco.compiler.blocks.reading import Factor


@dataclass(frozen=True)
class ScratchpadLayout:
    """How a block lies in the scratchpad.

    Attributes:
        tile: rows of a tile.
        across: tiles side by side.
        rows: in all.
        transposed: the block is stored transposed.
    """

    tile: int
    across: int
    rows: int
    transposed: bool


def layout_of(block: InMemory, dim: int, *, transposed: bool = False) -> ScratchpadLayout:
    """How a block of memory is laid out for an array of side `dim`; `transposed`: it holds the factor transposed."""
    if not rows_loadable(block):
        block, transposed = transposed_block(block), not transposed
    rows, columns = block.shape
    tile, across = min(dim, rows), -(-columns // dim)
    return ScratchpadLayout(tile, across, -(-rows // dim) * across * tile, transposed)


def needs_fences(rights: Sequence[Factor], block: InMemory, layout: ScratchpadLayout, dim: int) -> bool:
    """The array transposes the block as its right factor and its tiles are not full (instruction set, 6.5 a).

    Args:
        rights: how the block is the right factor of products.
    """
    return any(factor.transposed ^ layout.transposed for factor in rights) and not all(
        isinstance(size, int) and size % dim == 0 for size in block.sizes
    )


def loadable(block: InMemory) -> bool:
    """Commands can move it: one dimension is dense, the other has a stride that is known and not negative."""
    return rows_loadable(block) or rows_loadable(transposed_block(block))


def rows_loadable(block: InMemory) -> bool:
    """As it lies, the second dimension dense."""
    if len(block.shape) != 2:
        return False
    (row, column), (rows, columns) = block.strides, block.shape
    dense = column == 1 or columns == 1
    return dense and (rows == 1 or (isinstance(row, int) and row > 0))


def transposed_block(block: InMemory) -> InMemory:
    """The same elements, rows as columns."""
    return replace(
        block,
        strides=block.strides[::-1],
        sizes=block.sizes[::-1],
        low=block.low[::-1],
        shape=block.shape[::-1],
    )


def oriented(block: InMemory) -> InMemory:
    """The block as loads take it: rows dense."""
    return block if rows_loadable(block) else transposed_block(block)
