"""An image that is added to the last results of a chain of convolutions, one block of channels behind the convolution.

A block of the convolution's results goes to the scratchpad, where it is int8. The image comes there, too, scaled on its way, a
few blocks at once, whose pixels are longer pieces of main memory. The array multiplies the former by the identity matrix and
adds the latter; sums leave as results of any other layer do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.ir.emit import parts as divided
from baco.compiler.ir.moves import PassWeights, array_pass
from baco.compiler.styles.fused.strip_moves import Leaving, block_columns
from baco.compiler.styles.fused.strips import MOST_ROWS, ConvolutionChain, StripMemory


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
    """The addition of one chain's code."""

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
        self._leaving = Leaving(e, self._layer, None, dim)
        e.command("config_ld", state=2, stride=dim, block_stride=dim)
        e.command("mvin3", address=operands.ones, local=memory.ones, cols=dim, rows=dim)
        self._for_biases()

    def place(self, block: Number) -> Number:
        """Scratchpad row where a block of the convolution's results goes."""
        e, memory = self._e, self._memory
        return e.add(memory.ones + self._dim, e.mul(e.mod(block, 2), memory.block))

    def begin(self, extent: tuple[Number, Number, Number]) -> None:
        """A strip begins: the first parts of the image come; of `extent`: image, first row and rows."""
        self._load(extent, 0, range(self._early))

    def ahead(self, extent: tuple[Number, Number, Number], block: Number) -> None:
        """While the convolution makes a block: another part of the image comes, of blocks that are added to later."""
        e, wide = self._e, self._memory.wide
        with e.when(e.compare("eq", block, 0)):
            self._load(extent, 0, range(self._early, wide))
        with e.when(e.compare("sgt", block, 0)):
            before = e.sub(block, 1)
            self._load(extent, e.add(e.div(before, wide), 1), [e.mod(before, wide)])

    @property
    def _early(self) -> int:
        return (self._memory.wide + 1) // 2

    def _load(self, extent: tuple[Number, Number, Number], group: Number, parts: Sequence[Number]) -> None:
        """Parts of the image's blocks of a group, if there is such a group: some pixels of all of its blocks."""
        e, p, pitch, dim, memory = (
            self._e,
            self._layer.problem,
            self._layer.output.pitch,
            self._dim,
            self._memory,
        )
        number, first, rows = extent
        wide, share = memory.wide * dim, -(-memory.block // memory.wide)
        pixel, pixels = e.mul(e.add(e.mul(number, p.Q), first), p.P), e.mul(rows, p.P)
        with e.when(e.compare("slt", e.mul(group, wide), p.groups)):
            e.command(
                "config_ld",
                state=2,
                stride=pitch,
                block_stride=memory.block,
                scale=self._operands.residual_scale,
            )
            for part in parts:
                for most, above, count in divided(share, MOST_ROWS):
                    with e.loop(count, hint="residual") as n:
                        row = e.add(e.mul(part, share), e.mul(e.add(n, above), MOST_ROWS))
                        left = e.min(most, e.sub(pixels, row))
                        with e.when(e.compare("sgt", left, 0)):
                            at = e.add(e.mul(e.add(pixel, row), pitch), e.mul(group, wide))
                            e.command(
                                "mvin3",
                                address=e.add(self._operands.residual, at),
                                local=e.add(self._half(group), row),
                                cols=e.min(wide, e.sub(p.groups, e.mul(group, wide))),
                                rows=left,
                            )
            self._for_biases()

    def _half(self, group: Number) -> Number:
        """First scratchpad row of the image's blocks of a group."""
        one, two = self._memory.residual
        return self._e.select(self._e.compare("eq", self._e.mod(group, 2), 0), one, two)

    def _for_biases(self) -> None:
        """Loads to the accumulator are those of biases again."""
        self._e.command("config_ld", state=2, stride=0, block_stride=self._dim)

    def add(self, extent: tuple[Number, Number, Number], block: Number, sums: Number) -> None:
        """The sums of a block of the convolution's results and the image's, which then leave; the store unit is set up for that."""
        e, dim, memory = self._e, self._dim, self._memory
        columns, pixels = block_columns(e, self._layer, block, dim), e.mul(extent[2], self._layer.problem.P)
        source, wide = self.place(block), memory.wide
        residual = e.add(self._half(e.div(block, wide)), e.mul(e.mod(block, wide), memory.block))

        def one(at: Number, rows: Number, *, new: bool) -> None:
            to, a, d = e.local(e.add(sums, at), accumulator=True), e.add(source, at), e.add(residual, at)
            array_pass(e, dim, PassWeights(memory.ones, columns, columns), rows, a=a, c=to, d=d, new=new)

        # pixels that are over come first: all other passes are alike
        over = e.mod(pixels, dim) if self._layer.problem.P % dim else 0
        first = e.select(e.compare("eq", over, 0), dim, over)
        one(0, first, new=True)
        with e.loop(e.div(e.sub(pixels, first), dim), hint="pixel") as n:
            one(e.add(first, e.mul(n, dim)), dim, new=False)
        e.command(
            "config_st",
            stride=self._layer.output.pitch,
            activation=int(self._layer.relu),
            acc_scale=self._operands.scale,
        )
        self._leaving.start(self._output, extent, sums, block)
        self._leaving.finish()
