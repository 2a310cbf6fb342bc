"""Loads of a right operand of a chain of products: where its blocks lie in the scratchpad, and which load brings them."""

from __future__ import annotations

from collections.abc import Sequence

from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.fused.chain import Stored


class RightOperand:
    """A right operand: where its blocks lie, and the loads that bring it."""

    def __init__(
        self, e: Emitter, layer: Layer, matrix: Stored, starts: Sequence[int], address: Number, command: str
    ) -> None:
        self._e, self._layer, self._matrix, self._starts = e, layer, matrix, starts
        self._address, self._command = address, command
        self.loads = matrix.loads[0] * matrix.loads[1]

    def configure(self, state: int) -> None:
        """Set the load state that is this operand's."""
        pitch = self._layer.weight.pitch
        self._e.command("config_ld", state=state, stride=pitch, block_stride=self._matrix.dim)

    def start(self, turn: Number) -> Number:
        """First row of a copy."""
        e, (first, *others) = self._e, self._starts
        return e.add(first, e.mul(e.mod(turn, len(self._starts)), others[0] - first)) if others else first

    def block(self, start: Number, depth: Number, column: Number, deep: Number, wide: Number) -> Number:
        """First row of a block of weights: so many blocks down and across, behind rows and columns (elements) of other tiles."""
        e, dim, chunk = self._e, self._matrix.dim, self._matrix.chunk
        down, across = (column, depth) if self._layer.weights_transposed else (depth, column)
        before, beside = (wide, deep) if self._layer.weights_transposed else (deep, wide)
        return e.add(start, e.mul(e.add(down, e.div(before, dim)), chunk), e.mul(across, dim), beside)

    def load_columns(self, block: Number, start: Number, offset: Number) -> None:
        """Write the loads of what a block of columns of the product needs, unless an earlier block's have brought it."""
        e, (down, across), wide = self._e, self._matrix.loads, self._matrix.wide
        if self._layer.weights_transposed:
            with e.when(e.compare("slt", block, down)), e.loop(across, hint="load") as n:
                self.load(e.add(block, e.mul(n, down)), start, offset)
            return
        group = e.div(block, wide)
        due = e.both(e.compare("eq", e.mod(block, wide), 0), e.compare("slt", group, across))
        with e.when(due), e.loop(down, hint="load") as n:
            self.load(e.add(e.mul(group, down), n), start, offset)

    def load(self, number: Number, start: Number, offset: Number) -> None:
        """Write load `number` of all, those of the same columns one after the other; `offset`: elements from the operand's
        address."""
        e, one = self._e, self._matrix
        down, across = e.mod(number, one.loads[0]), e.div(number, one.loads[0])
        width = one.wide * one.dim
        row, column = e.mul(down, one.dim), e.mul(across, width)
        e.command(
            self._command,
            address=e.add(self._address, offset, e.mul(row, self._layer.weight.pitch), column),
            local=e.add(start, e.mul(down, one.chunk), column),
            cols=width if one.columns % width == 0 else e.min(width, e.sub(one.columns, column)),
            rows=one.dim if one.rows % one.dim == 0 else e.min(one.dim, e.sub(one.rows, row)),
        )
