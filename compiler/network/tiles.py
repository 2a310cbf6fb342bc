"""Matrices in main memory that pass through local memory tile by tile: loops, addresses and turns of the tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from baco.accel.config import MOVE_BYTES
from baco.compiler.ir.emit import Emitter, Number, parts
from baco.compiler.ops.nests import Nest

#: Writes the code of a tile: its rows and columns, where it lies in every operand, and its number.
WriteTile: TypeAlias = "Callable[[tuple[int, int], tuple[Number, ...], Number], None]"


@dataclass(frozen=True)
class TileWalk:
    """A walk over the tiles of operands of one shape whose innermost dimension is contiguous in all of them.

    Attributes:
        e: where the code is written.
        nest: loops over the operands; of one dimension: rows as long as a move can have, and what remains.
        dim: most rows of a tile.
        wide: most columns of a tile.
    """

    e: Emitter
    nest: Nest
    dim: int
    wide: int

    @property
    def pitches(self) -> tuple[int, ...]:
        """Bytes from row to row of each operand."""
        if len(self.nest.shape) < 2:
            return (MOVE_BYTES,) * len(self.nest.strides)
        return tuple(steps[-2] for steps in self.nest.strides)

    def each(
        self,
        addresses: tuple[Number, ...],
        tile: WriteTile,
        matrix: Callable[[], None] | None = None,
    ) -> None:
        """Write the loops.

        Args:
            addresses: of the operands.
            tile: writes the code of a tile of (rows, columns) at addresses; its number counts all tiles, for turns.
            matrix: writes what comes before the tiles of each matrix, the two inner dimensions.
        """
        if len(self.nest.shape) >= 2:
            self._outer(0, addresses, 0, tile, matrix)
            return
        rows, rest = divmod(self.nest.split()[1], MOVE_BYTES)
        self._matrix((rows, MOVE_BYTES), addresses, 0, tile, matrix)
        behind = tuple(self.e.add(one, rows * MOVE_BYTES) for one in addresses)
        self._matrix((1, rest), behind, 0, tile, matrix)

    def _outer(
        self,
        level: int,
        addresses: tuple[Number, ...],
        before: Number,
        tile: WriteTile,
        matrix: Callable[[], None] | None,
    ) -> None:
        """Loops over the outer dimensions; `before` counts the iterations, for the turns."""
        e, nest = self.e, self.nest
        if level == len(nest.shape) - 2:
            self._matrix((nest.shape[-2], nest.shape[-1]), addresses, before, tile, matrix)
            return
        with e.loop(nest.shape[level]) as n:
            inner = tuple(
                e.add(one, e.mul(n, steps[level])) for one, steps in zip(addresses, nest.strides, strict=True)
            )
            count = e.add(e.mul(before, nest.shape[level]), n)
            self._outer(level + 1, inner, count, tile, matrix)

    def _matrix(
        self,
        size: tuple[int, int],
        addresses: tuple[Number, ...],
        before: Number,
        tile: WriteTile,
        matrix: Callable[[], None] | None,
    ) -> None:
        e, dim, wide = self.e, self.dim, self.wide
        rows, columns = size
        row_tiles, column_tiles = -(-rows // dim), -(-columns // wide)
        if matrix is not None:
            matrix()
        # whole tiles are written once in a loop, those at the edges on their own, with known sizes
        for tile_columns, first, count in parts(columns, wide):
            with e.loop(count) as j:
                column = e.mul(e.add(j, first), wide)
                for tile_rows, above, tall in parts(rows, dim):
                    with e.loop(tall) as i:
                        number = e.add(e.mul(e.add(j, first), row_tiles), i, above)
                        turn = e.add(e.mul(before, row_tiles * column_tiles), number)
                        row = e.mul(e.add(i, above), dim)
                        at = tuple(
                            e.add(one, e.mul(row, pitch), column)
                            for one, pitch in zip(addresses, self.pitches, strict=True)
                        )
                        tile((tile_rows, tile_columns), at, turn)
