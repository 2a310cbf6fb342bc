"""An image that is added to the last results of a chain of convolutions, one block of channels behind the convolution.

A block of the convolution's results goes to the scratchpad, where it is int8. In the meantime the image's part comes to the
accumulator, scaled on its way; the array multiplies the block by the identity matrix onto it. What is in the accumulator then
leaves as results of any other layer do.
"""

from __future__ import annotations

from dataclasses import dataclass

from accel.isa import GARBAGE
from compiler.ir.emit import Cell, Emitter, Number
from compiler.styles.fused.strip_moves import Leaving, block_columns
from compiler.styles.fused.strips import MOST_ROWS, ConvolutionChain, StripMemory

__all__ = ["Adding", "AdditionOperands"]


@dataclass(frozen=True)
class AdditionOperands:
    """What an addition works on.

    Attributes:
        residual, ones: addresses of the image, and of the identity matrix, int8 [dim, dim].
        residual_scale, scale: bits of scales.
    """

    residual: Number
    ones: Number
    residual_scale: Number
    scale: Number


class Adding:
    """The addition of one chain's code.

    Attributes:
        leaving: what is still to be moved away of the last block of sums.
    """

    def __init__(
        self,
        e: Emitter,
        chain: ConvolutionChain,
        memory: StripMemory,
        dim: int,
        operands: AdditionOperands,
        output: Number,
    ) -> None:
        assert chain.addition is not None
        self._e, self._layer, self._memory, self._dim = e, chain.addition, memory, dim
        self._operands, self._output = operands, output
        self._sums: Cell = e.variable(0)
        self.leaving = Leaving(e, self._layer, None, dim)
        e.command("config_ld", state=2, stride=dim, block_stride=dim)
        e.command("mvin3", address=operands.ones, local=memory.ones, cols=dim, rows=dim)
        self._for_biases()

    def place(self, block: Number) -> Number:
        """Scratchpad row where a block of the convolution's results goes."""
        e, memory = self._e, self._memory
        return e.add(memory.ones + self._dim, e.mul(e.mod(block, 2), memory.block))

    def configure_store(self) -> None:
        """Sums leave as they do here."""
        self._e.command(
            "config_st",
            stride=self._layer.output.pitch,
            activation=int(self._layer.relu),
            acc_scale=self._operands.scale,
        )

    def load(self, extent: tuple[Number, Number, Number], block: Number, sums: Number) -> None:
        """The image's part of a block, to accumulator rows; of `extent`: image, first row and rows."""
        e, p, pitch, dim = self._e, self._layer.problem, self._layer.output.pitch, self._dim
        number, first, rows = extent
        self._sums.set(sums)
        scale = self._operands.residual_scale
        e.command("config_ld", state=2, stride=pitch, block_stride=dim, shrink=1, scale=scale)
        pixel, pixels = e.mul(e.add(e.mul(number, p.Q), first), p.P), e.mul(rows, p.P)
        address = e.add(self._operands.residual, e.mul(pixel, pitch), e.mul(block, dim))
        with e.loop(e.ceil_div(pixels, MOST_ROWS), hint="residual") as n:
            row = e.mul(n, MOST_ROWS)
            e.command(
                "mvin3",
                address=e.add(address, e.mul(row, pitch)),
                local=e.local(e.add(sums, row), accumulator=True),
                cols=block_columns(e, self._layer, block, dim),
                rows=e.min(MOST_ROWS, e.sub(pixels, row)),
            )
        self._for_biases()

    def _for_biases(self) -> None:
        """Loads to the accumulator are those of biases again."""
        self._e.command("config_ld", state=2, stride=0, block_stride=self._dim)

    def add(self, extent: tuple[Number, Number, Number], block: Number) -> None:
        """A block of the convolution's results onto what `load` loaded; it then begins to leave."""
        e, dim = self._e, self._dim
        columns, pixels = block_columns(e, self._layer, block, dim), e.mul(extent[2], self._layer.problem.P)
        source, sums = self.place(block), self._sums.get()

        def one(n: Number, *, new: bool) -> None:
            rows = e.min(dim, e.sub(pixels, e.mul(n, dim)))
            e.command(
                "preload",
                bd=self._memory.ones if new else GARBAGE,
                bd_rows=columns if new else dim,
                bd_cols=columns if new else dim,
                c=e.local(e.add(sums, e.mul(n, dim)), accumulator=True, accumulate=True),
                c_rows=rows,
                c_cols=columns,
            )
            e.command(
                "compute_preloaded" if new else "compute_accumulated",
                a=e.add(source, e.mul(n, dim)),
                a_rows=rows,
                a_cols=columns,
                bd=GARBAGE,
                bd_rows=rows,
                bd_cols=columns,
            )

        one(0, new=True)
        with e.loop(e.ceil_div(pixels, dim), 1, hint="pixel") as n:
            one(n, new=False)
        self.leaving.start(self._output, extent, sums, block)
