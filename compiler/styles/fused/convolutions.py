"""A chain of convolutions by explicit commands, strip by strip (`baco.compiler.styles.fused.strips`).

The sums of one block of channels are made in one part of the accumulator while those of the block before leave another, to the
ring of the next convolution or to main memory, and biases of the block after come to a third.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from baco.accel.config import Accelerator
from baco.compiler.ir.emit import Cell, Emitter, Number, parts
from baco.compiler.ir.moves import PassWeights
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.fused.adding import Adding, AdditionOperands
from baco.compiler.styles.fused.chain import multiplies_by
from baco.compiler.styles.fused.strip_moves import (
    Arriving,
    ArrivingWeights,
    Leaving,
    block_columns,
    clear,
)
from baco.compiler.styles.fused.strip_passes import PassedRows, RowPasses
from baco.compiler.styles.fused.strip_placement import Image, is_depthwise, is_unrolled, wide_load
from baco.compiler.styles.fused.strip_plans import Plans, TurnPlan
from baco.compiler.styles.fused.strips import (
    MOST_ROWS,
    ConvolutionChain,
    StripSchedule,
    place_strips,
    rows_by_round,
)

#: Loads of pixels that are issued first of all: not so many that the reservation station is full.
_EARLY = 6
#: Arguments of functions that are passed in registers.
_REGISTERS = 8


@dataclass(frozen=True)
class StripOperands:
    """Addresses in main memory, and bits of the scales.

    Attributes:
        input, output: images.
        weights, biases: by convolution; of those that convolve each channel by itself `diagonal_weights`, of those without bias 0.
        scales: likewise.
        addition: of a chain with one.
    """

    input: Number
    output: Number
    weights: tuple[Number, ...]
    biases: tuple[Number, ...]
    scales: tuple[Number, ...]
    addition: AdditionOperands | None = None


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


def _onward(e: Emitter, operands: StripOperands) -> StripOperands:
    """Go on in a function of its own, if its arguments find room in registers; the operands there."""
    added = operands.addition
    more = () if added is None else (added.residual, added.ones, added.residual_scale, added.scale)
    numbers = [operands.input, operands.output, *operands.weights, *operands.biases, *operands.scales, *more]
    if len({one for one in numbers if not isinstance(one, int)}) > _REGISTERS:
        return operands
    source, target, *others = e.onward(numbers)
    count = len(operands.weights)
    weights, biases, scales = (tuple(others[n * count : (n + 1) * count]) for n in range(3))
    addition = None if added is None else AdditionOperands(*others[3 * count :])
    return StripOperands(source, target, weights, biases, scales, addition)


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
        self.wide = wide_load(accelerator)
        self.turn: Cell | None = None
        self.rows: RowPasses
        #: Image rows that come in a round, how many are asked for at once, and how often while a block of results is made.
        self.arriving: Arriving | None = None
        self.share = self.times = 1
        #: What each convolution still has to move away of its last block of results.
        self.leaving: list[Leaving] = []
        self.adding: Adding | None = None

    def write(self) -> None:
        """All of it."""
        e, chain = self.e, self.chain
        first, image = chain.layers[0].problem, self.memory.images[0]
        # 0 pixels, 1 weights and zeros, 2 biases
        e.command(
            "config_ld",
            state=0,
            stride=chain.layers[0].input.pitch,
            block_stride=image.pitch if image.blocks > 1 else self.dim,
        )
        if any(layer.bias for layer in chain.layers):
            e.command("config_ld", state=2, stride=0, block_stride=self.dim)
        for one in self.memory.images:
            clear(e, one, self.wide)
        # the array begins with the first rows of weights and all rows of pixels
        there = rows_by_round(chain, self.schedule)
        arriving, weights = self._arrives(0), self._comes(0)
        early = min(there[0][0], max(1, _EARLY // arriving.commands))

        def rows() -> None:
            arriving.more(early)
            arriving.finish()

        few = weights.few
        if few:
            weights.halves(rows)
        else:
            weights.begin()
            rows()
        self.operands = _onward(e, self.operands)
        self.arriving = self._arrives(0)
        self.weights = [self._comes(i) for i in range(len(chain.layers))]
        if not few:
            self.weights[0].begin(begun=True)
        self.arriving.skip(early)
        self.arriving.more(there[0][0] - early)
        self.arriving.finish()
        if not few:
            self.weights[0].rest()
        blocks = -(-first.K * first.groups // self.dim)
        share = -(-self.memory.most[0] // blocks)
        self.times = min(share, first.S)
        self.share = -(-share // self.times)
        self._configure(0)
        images: list[Image | None] = [*self.memory.images[1:], None]
        self.leaving = [
            Leaving(e, layer, image, self.dim, inside=image is None and chain.addition is not None)
            for layer, image in zip(chain.layers, images, strict=True)
        ]
        if self.operands.addition is not None:
            added, output = self.operands.addition, self.operands.output
            self.adding = Adding(e, chain, self.memory, self.dim, added, output)
        self.turn = e.variable(0)
        self.rows = RowPasses(e, self.dim)
        self.plans = Plans(e, chain, self.schedule, self.memory.images)
        with e.loop(first.N, hint="image") as number:
            with e.when(e.compare("sgt", number, 0)):
                self.arriving.more(there[0][0])
                self.arriving.finish()
            with e.loop(self.plans.rounds, hint="round") as at:
                self._round(number, at)
            if first.N > 1:
                self.arriving.again(there[-1][0])
        self.leaving[-1].finish()

    def _arrives(self, index: int) -> Arriving:
        """Pixels of a convolution, where nothing has come."""
        layer, image = self.chain.layers[index], self.memory.images[index]
        return Arriving(self.e, layer, image, self.operands.input, self.wide * self.dim)

    def _comes(self, index: int) -> ArrivingWeights:
        """Weights of a convolution, likewise."""
        layer, place = self.chain.layers[index], self.memory.weights[index]
        return ArrivingWeights(self.e, layer, place, self.operands.weights[index], self.dim)

    # ---------------------------------------------------------------- rounds

    def _round(self, number: Number, at: Number) -> None:
        e, layers = self.e, self.chain.layers
        assert self.arriving is not None
        for i, layer in enumerate(layers):
            turn = self.plans.turn(i)
            if i == 0:
                self.arriving.more(turn.comes)
            ahead = partial(self.plans.ahead, at, i)
            with e.when(e.compare("ne", turn.rows, 0)):
                self._convolve(i, layer, number, turn, ahead)
            with e.when(e.compare("eq", turn.rows, 0)):
                if self.plans.waits(i):
                    self.leaving[i].finish()  # so that all is there which the next one reads
                ahead()
        if self.plans.late:
            self.arriving.finish()
        for i in range(1, len(layers)):  # a round before it begins
            with e.when(e.both(e.compare("eq", number, 0), e.compare("eq", at, i - 1)), rarely=True):
                self.weights[i].begin()
                self.weights[i].rest()

    def _configure(self, index: int) -> None:
        """The stride in which a convolution reads pixels."""
        self._configure_stride(self.chain.layers[index].problem.stride_w)

    def _configure_stride(self, stride: int) -> None:
        self.e.command("config_ex", dataflow=self.dataflow, a_stride=stride, c_stride=1)

    def _configure_store(self, index: int) -> None:
        """How results of a convolution leave."""
        layer, last = self.chain.layers[index], index == len(self.chain.layers) - 1
        self.e.command(
            "config_st",
            stride=layer.output.pitch if last and self.adding is None else 0,
            activation=int(layer.relu),
            acc_scale=self.operands.scales[index],
        )

    def _later(self, sums: Number, turns: int) -> Number:
        """Accumulator rows of a block of results so many blocks later."""
        e, memory = self.e, self.memory
        after, rows = e.add(sums, turns * memory.sums), memory.copies * memory.sums
        return e.unless(e.compare("sge", after, rows), e.sub(after, rows), after)

    def _convolve(
        self,
        index: int,
        layer: Layer,
        number: Number,
        turn: TurnPlan,
        ahead: Callable[[], None],
    ) -> None:
        """A turn, of an image. `ahead` writes what is read for the next turn.

        A block of results leaves while the array makes the next one, be it of the next convolution: a few moves between passes,
        since many at once would keep the passes behind them waiting.
        """
        e, dim, p = self.e, self.dim, layer.problem
        assigned = self.turn
        assert assigned is not None
        results = p.K * p.groups
        if len({layer.problem.stride_w for layer in self.chain.layers}) > 1:
            self._configure(index)
        leaving, weights, first, rows = self.leaving[index], self.weights[index], turn.first, turn.rows
        extent = number, first, rows
        adding = self.adding if index == len(self.chain.layers) - 1 else None
        again = e.compare("slt", e.add(first, rows), p.Q)
        if p.N > 1:
            again = e.compare("slt", e.add(first, rows, e.mul(number, p.Q)), p.N * p.Q)

        def open_block(block: Number) -> None:
            """The biases of a block, to the sums whose turn it is."""
            if layer.bias:
                with e.when(e.compare("slt", e.mul(block, dim), results)):
                    sums = assigned.get() if adding is None else in_turn(block, *spots[:2])
                    self._load_bias(layer, index, rows, block, sums)

        def in_turn(block: Number, one: Number, other: Number) -> Number:
            return e.select(e.compare("eq", e.mod(block, 2), 0), one, other)

        # with an addition, two are for the convolution, the others for the sums with the image
        spots = [self._later(assigned.get(), n) for n in range(self.memory.copies * (adding is not None))]

        def add(block: Number) -> None:
            assert adding is not None
            if p.stride_w > 1:
                self._configure_stride(1)
            adding.add(extent, block, in_turn(block, spots[2], spots[-1]))
            if p.stride_w > 1:
                self._configure_stride(p.stride_w)

        def onward(block: Number) -> None:
            open_block(e.add(block, 1))
            if adding is not None:
                adding.ahead(extent, block)

        weights.strip()
        open_block(0)
        if adding is not None:
            adding.begin(extent)
        for columns, before, count in parts(results, dim):
            with e.loop(count, hint="channel") as n:
                block = e.add(n, before)
                sums: Number = assigned.get()
                if adding is None:
                    assigned.set(self._later(sums, 1))
                else:
                    sums = in_turn(block, *spots[:2])
                weights.enter(block, again)
                half = partial(self._half, index, block, ahead, onward)
                self._sum(index, layer, turn, sums, block, columns, half)
                if adding is None:
                    leaving.start(self.operands.output, extent, sums, block, turn.writes)
                else:
                    leaving.start(adding.place(block), extent, sums, block)
                    leaving.finish()
                    with e.when(e.compare("sgt", block, 0)):
                        add(e.sub(block, 1))
                        self._configure_store(index)
        if adding is not None:
            blocks = -(-results // dim)
            add(blocks - 1)
            assigned.set(spots[blocks % 2])

    def _half(
        self, index: int, block: Number, ahead: Callable[[], None], onward: Callable[[Number], None]
    ) -> None:
        """Half of a block's products are issued: what was to leave has been sent. `ahead` writes what is read for the next turn,
        behind the last block, `onward` what the next block begins with, which may come where the one that left was."""
        e, p = self.e, self.chain.layers[index].problem
        self.leaving[index].finish()
        with e.when(e.compare("eq", block, 0), rarely=True):
            for number, other in enumerate(self.leaving):
                if number != index:
                    other.finish()
            self._configure_store(index)
        with e.when(e.compare("eq", block, -(-p.K * p.groups // self.dim) - 1), rarely=True):
            ahead()
        onward(block)
        self._arrive(index)

    def _load_bias(self, layer: Layer, index: int, rows: Number, block: Number, sums: Number) -> None:
        e, dim, p = self.e, self.dim, layer.problem
        address = e.add(self.operands.biases[index], e.mul(block, 4 * dim))
        columns = block_columns(e, layer, block, dim)
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
        turn: TurnPlan,
        sums: Number,
        block: Number,
        columns: int,
        half: Callable[[], None],
    ) -> None:
        """All products of a block of results; `half` writes what comes when half of them have been issued."""
        e, dim, p, image = self.e, self.dim, layer.problem, self.memory.images[index]
        depthwise = is_depthwise(layer)
        deep = [(columns, 0, 1)] if depthwise else parts(p.C, dim)
        each = sum(times for _, _, times in deep)  # blocks of weights at one place of the window
        middle = max(1, p.S * p.R * each // 2)
        weights, start = self.weights[index], self.weights[index].block(block)
        self.rows.into.set(e.local(sums, accumulator=True, accumulate=layer.bias))
        # of a window of one place the code is there once: the middle is looked for while the program runs, as in loops
        places = [(r, 1) for r in range(p.R)] if is_unrolled(layer) else [(0, p.R)]
        for s in range(p.S):
            for left, count in places:
                looked_for = count > 1 or p.S * p.R == 1
                before = (s * p.R + left) * each
                behind = partial(self._send_away, index, block, middle)
                with e.loop(left + count, left, hint="window") as r:
                    place = e.mul(e.add(r, s * p.R), dim if depthwise else p.C)
                    for inner, above, times in deep:
                        # those until the middle, at one place of several
                        known = middle - before - above if count == 1 and p.S * p.R > 1 else 0
                        ends = [0, known, times] if 0 < known < times else [0, times]
                        for low, high in itertools.pairwise(ends):
                            with e.loop(high - low, hint="depth") as n:
                                depth = e.add(n, low, above)
                                rows = e.add(start, place, 0 if depthwise else e.mul(depth, dim))
                                window = s, r, block if depthwise else depth
                                passed = PassedRows(
                                    self.rows, layer, image, turn, PassWeights(rows, inner, columns), window
                                )
                                passed.write(behind if before + above + low < middle else None)
                                if not layer.bias:
                                    self.rows.into.set(e.local(sums, accumulator=True, accumulate=True))
                                if looked_for and before < middle <= before + count * each:
                                    done = e.add(e.mul(e.sub(r, left), each), depth, before + 1)
                                    with e.when(e.compare("eq", done, middle), rarely=True):
                                        half()
                            if not looked_for and before + above + high == middle:
                                half()
            weights.step(s)
            if s < self.times - 1:  # there is enough to do between two blocks of results
                self._arrive(index)

    def _arrive(self, index: int) -> None:
        """A few rows of the first image, while its convolution works."""
        if index == 0:
            assert self.arriving is not None
            self.arriving.step(self.share)

    def _by_row(self, which: int, layer: Layer, beats: int) -> bool:
        """Whether a convolution's moves go between the rows of a block of weights, where the first row of each of `beats` is not enough;
        a row of one pass gives the host core no time for more."""
        moves = self.leaving[which].moves(self.memory.most[which + 1])
        return self.dim < layer.problem.P and beats < moves

    def _send_away(self, index: int, block: Number, beats: int, row: Number) -> None:
        """A share of what the block before has to move away, behind a row of passes, of which there are `beats` for each row."""
        e, layer, count = self.e, self.chain.layers[index], len(self.leaving)

        def step(which: int) -> None:
            moves = self.leaving[which].moves(self.memory.most[which + 1])
            rows = beats * (self.memory.most[index + 1] if self._by_row(which, layer, beats) else 1)
            self.leaving[which].step(-(-moves // rows), rarely=2 * moves < rows)

        now = [which for which in range(count) if row == 0 or self._by_row(which, layer, beats)]
        if index in now and (self.adding is None or index < count - 1):
            step(index)
        others = [which for which in now if which != index]
        if others:
            with e.when(e.compare("eq", block, 0), rarely=True):
                for which in others:
                    step(which)
