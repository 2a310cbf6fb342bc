"""The code of a chain of products, and its variant for softmaxes whose rows do not fit the accumulator.

There a strip's scores come in tiles. Each goes to the scratchpad as int8, which is what a softmax takes wherever it finds its rows;
once a row is whole there, the store unit softmaxes it from one part of the scratchpad to another. So results are those of
whole rows in the accumulator, bit for bit, and no score is computed twice, as sums and maxima that are corrected
from tile to tile would have it. A strip's scores are computed while rows of the strip before are softmaxed, which
are then multiplied by values.
"""

from __future__ import annotations

from collections.abc import Callable

from baco.accel.config import Accelerator
from baco.compiler.ir.emit import Emitter, Number, parts
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.fused.chain import SOFTMAX_PARTS, ChainSchedule, ProductChain
from baco.compiler.styles.fused.products import ChainOperands, ChainStep, ProductWriter, first_apart
from baco.compiler.styles.fused.row_unit import begin_softmax, end_function


def emit_chain(
    e: Emitter,
    chain: ProductChain,
    schedule: ChainSchedule,
    accelerator: Accelerator,
    operands: ChainOperands,
) -> None:
    """Write the code of a chain where `e` stands; a softmax's table has been loaded. No fence at the end.

    Raises InfeasibleError for a schedule that does not fit the chain or the accelerator.
    """
    writer = StagedWriter if schedule.staged(chain) else ProductWriter
    writer(e, chain, schedule, accelerator, operands).write()


class StagedWriter(ProductWriter):
    """Writes the code of a chain whose scores come in tiles."""

    def write(self) -> None:
        """All of it: of every strip the scores, and behind them what is made of those of the strip before."""
        e, chain = self.e, self.chain
        total = chain.groups * self.strips
        self.blocks = self.tiles * self.tile_blocks
        self.turn = e.variable(0), e.variable(0)  # of tiles of the right operands
        e.command("config_ld", state=0, stride=chain.first.input.pitch, block_stride=self.dim)
        for state, right in enumerate(self.right, 1):
            right.configure(state)
        if not self.turns:
            self._configure_products(chain.first)
        begin = self._at(0, 0)
        self._load_left(begin)
        for right, layer in zip(self.right, chain.layers, strict=True):
            with e.loop(right.loads, hint="load") as n:
                right.load(n, right.start(0), self._tile_offset(layer, begin))
        with e.loop(total + 1, hint="strip") as strip:
            now, before = self._at(strip, 0), self._at(e.sub(strip, 1), 0)
            with e.when(e.compare("slt", strip, total)):
                self._scores(now, total)
            with e.when(e.compare("eq", strip, total)):
                self._softmaxed(before, 0, 1)
            with e.when(e.compare("sgt", strip, 0)):
                self._values(before, total)

    def _at(self, strip: Number, tile: Number) -> ChainStep:
        e = self.e
        return ChainStep(strip, strip, e.div(strip, self.strips), e.mod(strip, self.strips), tile, tile)

    def _tiles(self, step: ChainStep) -> Number:
        """Tiles of a strip, those of a causal softmax of which some row sees an element."""
        e, chain = self.e, self.chain
        if chain.causal is None:
            return self.tiles
        last = e.add(e.mul(e.add(step.row, 1), self.schedule.rows), chain.causal - 1)
        return e.min(self.tiles, e.ceil_div(last, self.schedule.columns))

    def _next(
        self, which: int, layer: Layer, step: ChainStep, tiles: Number, total: int
    ) -> Callable[[Number], None]:
        """Writes a beat's share of the loads of the tile of a right operand behind a step's, the next strip's first behind the last."""
        e, right = self.e, self.right[which]
        more = e.compare("slt", e.add(step.tile, 1), tiles)
        after = self._at(
            e.select(more, step.strip, e.add(step.strip, 1)), e.select(more, e.add(step.tile, 1), 0)
        )
        wanted = e.compare("slt", after.strip, total)
        start, offset = right.start(e.add(self.turn[which].get(), 1)), self._tile_offset(layer, after)
        share = -(-right.loads // self.tile_blocks)

        def beat(number: Number) -> None:
            with e.when(wanted):
                for n in range(share):
                    load = e.add(e.mul(number, share), n)
                    with e.when(e.compare("slt", load, right.loads)):
                        right.load(load, start, offset)

        return beat

    def _scores(self, strip: ChainStep, total: int) -> None:
        """A strip's scores, a tile after the other, and between them the softmax of the strip before."""
        e, chain, dim = self.e, self.chain, self.dim
        after = self._at(e.add(strip.strip, 1), 0)
        with e.when(e.compare("slt", after.strip, total)):
            self._load_left(after)
        if self.turns:
            self._configure_products(chain.first)
        rows, left = self._rows(strip), self._turn(self.memory.left, strip.strip)
        scores, tiles = self._turn(self.memory.scores, strip.strip), self._tiles(strip)
        e.command("config_st", stride=0, activation=int(chain.first.relu), acc_scale=self.operands.scales[0])
        with e.loop(tiles, hint="tile") as tile:
            step = self._at(strip.strip, tile)
            turn = self.turn[0].get()
            weights, sums = self.right[0].start(turn), self._turn(self.memory.sums, turn)
            beat = self._next(0, chain.first, step, tiles, total)
            # stores of the tile before have left their queue by the middle of this one: what it has no room for, all passes wait for
            middle = self.tile_blocks // 2
            for begin, end in ((0, middle), (middle, self.tile_blocks)):
                if begin == middle:
                    with e.when(e.compare("sgt", strip.strip, 0)):
                        self._softmaxed(self._at(e.sub(strip.strip, 1), 0), tile, tiles)
                with e.loop(end, begin, hint="column") as column:
                    beat(column)
                    for inner, above, deep in parts(chain.depth, dim):
                        for first, times in first_apart(above, deep):
                            with e.loop(times, hint="depth") as d:
                                depth = e.add(d, first)
                                self._passes(
                                    rows,
                                    self.right[0].block(weights, depth, column, 0, 0),
                                    (inner, dim),
                                    e.add(left, e.mul(depth, dim)),
                                    self.depth_blocks,
                                    e.add(sums, e.mul(column, dim)),
                                    self.tile_blocks,
                                    accumulate=first > 0,
                                    transposed=chain.first.weights_transposed,
                                )
            beside = e.mul(tile, self.schedule.columns)
            with e.loop(self._chunks(rows), hint="row") as chunk:
                e.command(
                    "mvout_spad",
                    destination=e.add(scores, e.mul(chunk, self.blocks * dim), beside),
                    destination_stride=1,
                    local=e.local(e.add(sums, e.mul(chunk, self.tile_blocks * dim)), accumulator=True),
                    cols=self.schedule.columns,
                    rows=self._chunk_rows(rows, chunk),
                )
            self.turn[0].set(e.add(turn, 1))

    def _softmaxed(self, strip: ChainStep, share: Number, shares: Number) -> None:
        """One of so many shares of a strip's rows, from scores to what the second product reads."""
        e, dim = self.e, self.dim
        height = max(1, dim // SOFTMAX_PARTS)
        pieces = self.schedule.rows // height
        numerator, shift = self.operands.softmax
        rows, columns = self._rows(strip), e.mul(self._tiles(strip), self.schedule.columns)
        with e.loop(pieces, hint="piece") as piece:
            row, spread = e.mul(piece, height), e.mul(piece, shares)
            begun = e.compare("sge", spread, e.mul(share, pieces))
            mine = e.both(begun, e.compare("slt", spread, e.mul(e.add(share, 1), pieces)))
            with e.when(e.both(mine, e.compare("slt", row, rows))):
                causal = self.chain.causal
                sees = None if causal is None else e.add(causal, e.mul(strip.row, self.schedule.rows), row)
                begin_softmax(e, numerator, shift, sees)
                inside = e.add(e.mul(e.div(row, dim), self.blocks * dim), e.mod(row, dim))
                e.command(
                    "mvout_spad",
                    destination=e.add(self.memory.between[0], inside),
                    destination_stride=1,
                    local=e.add(self._turn(self.memory.scores, strip.strip), inside),
                    cols=columns,
                    rows=e.min(height, e.sub(rows, row)),
                )
                end_function(e)

    def _values(self, strip: ChainStep, total: int) -> None:
        """A strip's results, to main memory."""
        e, chain, dim = self.e, self.chain, self.dim
        if self.turns:
            self._configure_products(chain.second)
        rows, tiles = self._rows(strip), self._tiles(strip)
        results = self._turn(self.memory.results, strip.strip)
        with e.loop(tiles, hint="tile") as tile:
            turn = self.turn[1].get()
            weights = self.right[1].start(turn)
            beat = self._next(1, chain.second, self._at(strip.strip, tile), tiles, total)
            left = e.add(self.memory.between[0], e.mul(tile, self.schedule.columns))
            begun = e.compare("sgt", tile, 0)
            for first, times in first_apart(0, self.tile_blocks):
                with e.loop(times, hint="depth") as d:
                    depth = e.add(d, first)
                    beat(depth)
                    for columns, before, count in parts(chain.columns, dim):
                        with e.loop(count, hint="column") as n:
                            column = e.add(n, before)
                            self._passes(
                                rows,
                                self.right[1].block(weights, depth, column, 0, 0),
                                (dim, columns),
                                e.add(left, e.mul(depth, dim)),
                                self.blocks,
                                e.add(results, e.mul(column, dim)),
                                self.column_blocks,
                                accumulate=True if first > 0 else begun,
                                transposed=chain.second.weights_transposed,
                            )
            self.turn[1].set(e.add(turn, 1))
        self._store(strip, rows, results)
