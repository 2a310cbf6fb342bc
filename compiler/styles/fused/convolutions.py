"""A chain of convolutions by explicit commands, strip by strip (`compiler.styles.fused.strips`).

The sums of one block of channels are made in one part of the accumulator while those of the block before leave another, to the
ring of the next convolution or to main memory, and biases of the block after come to a third.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from accel.config import Accelerator
from accel.isa import GARBAGE
from compiler.ir.emit import Cell, Emitter, Number, parts
from compiler.layers.layer import Layer
from compiler.styles.explicit.jobs import MoveJob
from compiler.styles.fused.chain import multiplies_by
from compiler.styles.fused.strips import (
    MOST_ROWS,
    ConvolutionChain,
    Image,
    StripSchedule,
    is_depthwise,
    place_strips,
)

__all__ = ["StripOperands", "diagonal_weights", "emit_strips"]

#: Bytes a row that one load may bring, by Gemmini's C header.
_LOAD_BYTES = 64


@dataclass(frozen=True)
class StripOperands:
    """Addresses in main memory, and bits of the scales.

    Attributes:
        input, output: images.
        weights, biases: by convolution; of those that convolve each channel by itself `diagonal_weights`, of those without bias 0.
        scales: likewise.
    """

    input: Number
    output: Number
    weights: tuple[Number, ...]
    biases: tuple[Number, ...]
    scales: tuple[Number, ...]


def diagonal_weights(weights: np.ndarray, dim: int) -> np.ndarray:
    """int8 [blocks, S, R, dim, dim]: weights [S, R, channels], those of `dim` channels on the diagonal of one matrix."""
    rows, columns, channels = weights.shape
    blocks = -(-channels // dim)
    padded = np.zeros((rows, columns, blocks * dim), np.int8)
    padded[..., :channels] = weights
    found = np.zeros((blocks, rows, columns, dim, dim), np.int8)
    found[..., range(dim), range(dim)] = padded.reshape(rows, columns, blocks, dim).transpose(2, 0, 1, 3)
    return found


def emit_strips(
    e: Emitter,
    chain: ConvolutionChain,
    schedule: StripSchedule,
    accelerator: Accelerator,
    operands: StripOperands,
) -> None:
    """Write the code of a chain where `e` stands. No fence at the end. Raises InfeasibleError for a schedule that does not fit."""
    _Writer(e, chain, schedule, accelerator, operands).write()


class _Writer:
    def __init__(
        self,
        e: Emitter,
        chain: ConvolutionChain,
        schedule: StripSchedule,
        accelerator: Accelerator,
        operands: StripOperands,
    ) -> None:
        self.e, self.chain, self.schedule, self.operands = e, chain, schedule, operands
        self.dim, self.dataflow = accelerator.dim, multiplies_by(accelerator)
        self.memory = place_strips(chain, schedule, accelerator)
        self.run = min(self.memory.images[0].width, MOST_ROWS)
        self.wide = max(1, min(_LOAD_BYTES, max(4 * self.dim, accelerator.dma_max_bytes)) // self.dim)
        #: Rows of every image, results last, that are there.
        self.there: list[Cell] = []
        self.turn: Cell | None = None
        #: Loads of a round, and how many are issued at once.
        self.job: MoveJob | None = None
        self.share = 1

    def write(self) -> None:
        """All of it."""
        e, chain = self.e, self.chain
        first = chain.layers[0].problem
        for layer, start, address in zip(
            chain.layers, self.memory.weights, self.operands.weights, strict=True
        ):
            self._load_weights(layer, start, address)
        # from here on: 0 pixels, 1 zeros and nothing else, 2 biases
        image = self.memory.images[0]
        e.command(
            "config_ld",
            state=0,
            stride=chain.layers[0].input.pitch,
            block_stride=image.block if image.blocks > 1 else self.dim,
        )
        e.command("config_ld", state=2, stride=0, block_stride=self.dim)
        for one in self.memory.images:
            self._clear(one)
        self.there = [e.variable(0) for _ in range(len(chain.layers) + 1)]
        image, blocks = self.memory.images[0], 0
        for layer in chain.layers:
            blocks += -(-layer.problem.K * layer.problem.groups // self.dim)
        loads = (
            self.memory.most[0] * -(-image.channels // (self.wide * self.dim)) * -(-image.width // self.run)
        )
        self.share = max(1, -(-loads // blocks))
        self.job = MoveJob(e, 3, 3, self._load_bounds, self._load, whole=False)
        self.turn = e.variable(0)
        with e.loop(first.N, hint="image") as number:
            for cell in self.there:
                cell.set(0)
            with e.loop(self.memory.rounds, hint="round") as at:
                self._round(number, at)

    # ---------------------------------------------------------------- loads

    def _load_weights(self, layer: Layer, start: int, address: Number) -> None:
        """All weights of a convolution: blocks of columns one behind the other, in each all windows and channels."""
        e, p, dim = self.e, layer.problem, self.dim
        if is_depthwise(layer):
            rows = -(-p.groups // dim) * p.S * p.R * dim
            pitch, columns, width = dim, dim, dim
        else:
            rows, pitch, columns, width = p.S * p.R * p.C, layer.weight.pitch, p.K, self.wide * dim
        e.command("config_ld", state=1, stride=pitch, block_stride=rows)
        for across, before, count in parts(columns, width):
            with e.loop(count, hint="column") as n:
                column = e.mul(e.add(n, before), width)
                for high, above, times in parts(rows, MOST_ROWS):
                    with e.loop(times, hint="row") as m:
                        row = e.mul(e.add(m, above), MOST_ROWS)
                        e.command(
                            "mvin2",
                            address=e.add(address, e.mul(row, pitch), column),
                            local=e.add(start, e.mul(e.div(column, dim), rows), row),
                            cols=across,
                            rows=high,
                        )

    def _clear(self, image: Image) -> None:
        """Zeros beside and above the rows of an image."""
        e, beside = self.e, image.left + image.right > 0
        first = image.zeros if image.zeros != image.start or beside else image.start
        end = image.start + image.block * image.blocks if beside else image.start
        for rows, before, count in parts(end - first, MOST_ROWS):
            with e.loop(count, hint="zero") as n:
                row = e.add(first, e.mul(e.add(n, before), MOST_ROWS))
                e.command("mvin", address=0, local=row, cols=self.dim, rows=rows)

    def _load_bounds(self, parameters: Sequence[Number]) -> Sequence[Number]:
        """Image rows, chunks of pixels, chunks of channels."""
        image = self.memory.images[0]
        _, first, past = parameters
        return (
            self.e.sub(past, first),
            -(-image.width // self.run),
            -(-image.channels // (self.wide * self.dim)),
        )

    def _load(self, parameters: Sequence[Number], at: Sequence[Number]) -> None:
        """A load of pixels of the image in main memory."""
        e, dim, layer, image = self.e, self.dim, self.chain.layers[0], self.memory.images[0]
        number, first, _ = parameters
        pitch, width = layer.input.pitch, self.wide * dim
        y, x, channel = e.add(first, at[0]), e.mul(at[1], self.run), e.mul(at[2], width)
        pixel = e.add(e.mul(e.add(e.mul(number, image.height), y), image.width), x)
        e.command(
            "mvin",
            address=e.add(self.operands.input, e.mul(pixel, pitch), channel),
            local=e.add(self._row(image, y), e.mul(at[2], self.wide * image.block), image.left, x),
            cols=width if image.channels % width == 0 else e.min(width, e.sub(image.channels, channel)),
            rows=self.run if image.width % self.run == 0 else e.min(self.run, e.sub(image.width, x)),
        )

    def _row(self, image: Image, y: Number) -> Number:
        """First scratchpad row of an image row in its slot."""
        e = self.e
        return e.add(image.start, e.mul(e.mod(y, image.slots), image.pitch))

    # ---------------------------------------------------------------- rounds

    def _round(self, number: Number, at: Number) -> None:
        e, layers = self.e, self.chain.layers
        past = [self._needed(e.sub(at, lag))[lag] for lag in range(len(layers) + 1)]
        first = [cell.get() for cell in self.there]
        assert self.job is not None
        self.job.start([number, first[0], past[0]])
        for i, layer in enumerate(layers):
            with e.when(e.compare("sgt", past[i + 1], first[i + 1])):
                self._convolve(i, layer, number, first[i + 1], e.sub(past[i + 1], first[i + 1]))
        self.job.finish()
        for cell, end in zip(self.there, past, strict=True):
            cell.set(end)

    def _needed(self, strip: Number) -> list[Number]:
        """As `rows_needed`; a strip before the first needs nothing."""
        e, rows = self.e, self.schedule.rows
        result = e.max(0, e.min(self.chain.layers[-1].problem.Q, e.mul(e.add(strip, 1), rows)))
        found = [result]
        for layer in reversed(self.chain.layers):
            p = layer.problem
            needed = e.add(e.mul(e.sub(found[0], 1), p.stride_h), p.S - layer.padding[0])
            some = e.compare("sgt", found[0], 0)
            found.insert(0, e.select(some, e.max(0, e.min(layer.size[0], needed)), 0))
        return found

    def _convolve(self, index: int, layer: Layer, number: Number, first: Number, rows: Number) -> None:
        """Rows of results from row `first` on."""
        e, dim, p = self.e, self.dim, layer.problem
        depthwise, assigned = is_depthwise(layer), self.turn
        assert assigned is not None
        results = p.K * p.groups
        e.command("config_ex", dataflow=self.dataflow, a_stride=p.stride_w, c_stride=1)
        last = index == len(self.chain.layers) - 1
        e.command(
            "config_st",
            stride=layer.output.pitch if last else 0,
            activation=int(layer.relu),
            acc_scale=self.operands.scales[index],
        )
        window = p.S * p.R * (dim if depthwise else p.C)

        def open_block(block: Number) -> None:
            """The biases of a block, to the sums whose turn it is."""
            if layer.bias:
                with e.when(e.compare("slt", e.mul(block, dim), results)):
                    self._load_bias(layer, index, rows, block, assigned.get())

        open_block(0)
        for columns, before, count in parts(results, dim):
            with e.loop(count, hint="channel") as n:
                block = e.add(n, before)
                sums = assigned.get()
                after = e.add(sums, self.memory.sums)
                assigned.set(
                    e.select(e.compare("slt", after, self.memory.copies * self.memory.sums), after, 0)
                )
                weights = e.add(self.memory.weights[index], e.mul(block, window))

                def begun(following: Number) -> None:
                    """While the array has work: the next block's biases, and a share of the next round's pixels."""
                    open_block(following)
                    assert self.job is not None
                    self.job.step(self.share)

                self._sum(
                    index, layer, first, rows, weights, sums, block, columns, partial(begun, e.add(block, 1))
                )
                if last:
                    self._store(layer, number, first, rows, sums, block, columns)
                else:
                    self._keep(self.memory.images[index + 1], first, rows, sums, block, columns)

    def _load_bias(self, layer: Layer, index: int, rows: Number, block: Number, sums: Number) -> None:
        e, dim, p = self.e, self.dim, layer.problem
        address = e.add(self.operands.biases[index], e.mul(block, 4 * dim))
        columns = self._columns(layer, block)
        pixels = e.mul(rows, p.P)
        with e.loop(e.ceil_div(pixels, MOST_ROWS), hint="bias") as n:
            row = e.mul(n, MOST_ROWS)
            e.command(
                "mvin3",
                address=address,
                local=e.local(e.add(sums, row), accumulator=True),
                cols=columns,
                rows=e.min(MOST_ROWS, e.sub(pixels, row)),
            )

    def _sum(
        self,
        index: int,
        layer: Layer,
        first: Number,
        rows: Number,
        weights: Number,
        sums: Number,
        block: Number,
        columns: int,
        begun: Callable[[], None],
    ) -> None:
        """All products of a block of results; `begun` writes what comes when the first of them have been issued."""
        e, dim, p, image = self.e, self.dim, layer.problem, self.memory.images[index]
        depthwise = is_depthwise(layer)
        fresh = not layer.bias
        deep = [(columns, 0, 1)] if depthwise else parts(p.C, dim)
        for s in range(p.S):
            for r in range(p.R):
                for inner, above, times in deep:
                    for start, count in ((0, 1), (1, times - 1)) if above == 0 else ((0, times),):
                        with e.loop(count, hint="depth") as n:
                            depth = e.add(n, start, above)
                            place = e.mul(s * p.R + r, dim if depthwise else p.C)
                            self._passes(
                                layer,
                                image,
                                (first, rows),
                                e.add(weights, place, 0 if depthwise else e.mul(depth, dim)),
                                (inner, columns),
                                (s, r, block if depthwise else depth),
                                sums,
                                accumulate=not (fresh and s == r == 0 and above == 0 and start == 0),
                            )
                            if s == r == 0 and above == 0 and start == 0:
                                begun()

    def _passes(
        self,
        layer: Layer,
        image: Image,
        extent: tuple[Number, Number],
        weights: Number,
        size: tuple[int, int],
        window: tuple[int, int, Number],
        sums: Number,
        *,
        accumulate: bool,
    ) -> None:
        """All rows through one block of weights, at one place of the window."""
        e, dim, p = self.e, self.dim, layer.problem
        (first, rows), (inner, columns), (s, r, block) = extent, size, window
        above = max(0, layer.padding[0] - s)
        around = -(-above // image.slots) * image.slots
        outside = above > 0 or (p.Q - 1) * p.stride_h + s - layer.padding[0] >= image.height

        def ends(q: Number) -> tuple[Number, Number]:
            """Scratchpad row of the first pixel that a row of results reads, and accumulator row of its sum."""
            y = e.add(e.mul(e.add(first, q), p.stride_h), s - layer.padding[0])
            # whole turns around the ring, so that no row is negative
            source = e.add(self._row(image, e.add(y, around)), e.mul(block, image.block))
            if outside:
                within = e.both(e.compare("sge", y, 0), e.compare("slt", y, image.height))
                source = e.select(within, source, image.zeros)
            return e.add(source, r), e.add(sums, e.mul(q, p.P))

        def rest(left: Number, target: Number, begin: int) -> None:
            """The passes of a row of results from the `begin`-th on."""
            for pixels, before, times in parts(p.P, dim):
                low = max(0, begin - before)
                with e.loop(max(0, times - low), hint="pixel") as m:
                    x = e.mul(e.add(m, low, before), dim)
                    one(e.add(left, e.mul(x, p.stride_w)), e.add(target, x), pixels, new=False)

        def one(left: Number, target: Number, pixels: int, *, new: bool) -> None:
            e.command(
                "preload",
                bd=weights if new else GARBAGE,
                bd_rows=inner if new else dim,
                bd_cols=columns if new else dim,
                c=e.local(target, accumulator=True, accumulate=accumulate),
                c_rows=pixels,
                c_cols=columns,
            )
            e.command(
                "compute_preloaded" if new else "compute_accumulated",
                a=left,
                a_rows=pixels,
                a_cols=inner,
                bd=GARBAGE,
                bd_rows=pixels,
                bd_cols=columns,
            )

        left, target = ends(0)
        one(left, target, min(p.P, dim), new=True)
        rest(left, target, 1)
        with e.loop(rows, 1, hint="row") as q:
            rest(*ends(q), 0)

    def _columns(self, layer: Layer, block: Number) -> Number:
        """Results in a block."""
        e, dim, results = self.e, self.dim, layer.problem.K * layer.problem.groups
        return dim if results % dim == 0 else e.min(dim, e.sub(results, e.mul(block, dim)))

    def _keep(
        self, image: Image, first: Number, rows: Number, sums: Number, block: Number, columns: int
    ) -> None:
        """Results into the ring of the next convolution."""
        e = self.e
        with e.loop(rows, hint="row") as q:
            place = e.add(self._row(image, e.add(first, q)), e.mul(block, image.block), image.left)
            e.command(
                "mvout_spad",
                destination=place,
                destination_stride=1,
                local=e.local(e.add(sums, e.mul(q, image.width)), accumulator=True),
                cols=columns,
                rows=image.width,
            )

    def _store(
        self,
        layer: Layer,
        number: Number,
        first: Number,
        rows: Number,
        sums: Number,
        block: Number,
        columns: int,
    ) -> None:
        """Results to main memory."""
        e, dim, p, pitch = self.e, self.dim, layer.problem, layer.output.pitch
        begin = e.mul(e.add(e.mul(number, p.Q), first), p.P * pitch)
        base = e.add(self.operands.output, begin, e.mul(block, dim))
        pixels = e.mul(rows, p.P)
        with e.loop(e.ceil_div(pixels, MOST_ROWS), hint="row") as n:
            row = e.mul(n, MOST_ROWS)
            e.command(
                "mvout",
                address=e.add(base, e.mul(row, pitch)),
                local=e.local(e.add(sums, row), accumulator=True),
                cols=columns,
                rows=e.min(MOST_ROWS, e.sub(pixels, row)),
            )
