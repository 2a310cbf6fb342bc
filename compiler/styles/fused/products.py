"""A chain of two products by explicit commands: what lies between them goes from the accumulator to the scratchpad.

The chain is gone through in *steps*, a tile of what lies between each: the first product makes its sums, the store unit
moves them to the scratchpad, requantised and perhaps softmaxed, and the second product adds up results. While a tile is on its
way, the array works on the second product of the step before; loads for later steps are issued between passes. The hazard
logic of the accelerator does the waiting.

Left operands lie in the scratchpad as the array reads them: `dim` rows of one block of columns after the other, then the next
`dim` rows. Right operands: blocks of columns, one behind the other, as they are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from baco.accel.config import Accelerator
from baco.compiler.ir.emit import Condition, Emitter, Number, parts
from baco.compiler.ir.moves import PassWeights, array_pass
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.fused.chain import (
    ChainSchedule,
    ProductChain,
    multiplies_by,
    place_chain,
    stored,
)
from baco.compiler.styles.fused.right_operand import RightOperand
from baco.compiler.styles.fused.row_unit import begin_softmax, end_function


@dataclass(frozen=True)
class ChainOperands:
    """Addresses of a chain's tensors in main memory, and numbers that its function is called with.

    Attributes:
        left, first, second, output: left operand, right operands of both products, result.
        scales: bits of the float32 scales of both products.
        softmax: numerator and its shift, of a chain with a softmax.
    """

    left: Number
    first: Number
    second: Number
    output: Number
    scales: tuple[Number, Number]
    softmax: tuple[Number, Number] = (0, 0)


@dataclass(frozen=True)
class ChainStep:
    """Numbers of a step, of its strip, and of its group, strip in the group and tile in the strip."""

    number: Number
    strip: Number
    group: Number
    row: Number
    tile: Number
    place: Number  # in the group


class ProductWriter:
    """Writes the code of a chain whose second product takes each tile as soon as it is there."""

    def __init__(
        self,
        e: Emitter,
        chain: ProductChain,
        schedule: ChainSchedule,
        accelerator: Accelerator,
        operands: ChainOperands,
    ) -> None:
        self.e, self.chain, self.schedule, self.operands = e, chain, schedule, operands
        self.dim, self.dataflow = accelerator.dim, multiplies_by(accelerator)
        self.memory = place_chain(chain, schedule, accelerator)
        first, second = stored(chain, schedule, accelerator)
        self.wide = first.wide
        self.apart = schedule.apart(self.dim)
        self.right = (
            RightOperand(e, chain.first, first, self.memory.first, operands.first, "mvin2"),
            RightOperand(e, chain.second, second, self.memory.second, operands.second, "mvin3"),
        )
        self.strips, self.tiles = -(-chain.rows // schedule.rows), chain.between // schedule.columns
        self.steps = chain.groups * self.strips * self.tiles
        self.tile_blocks, self.depth_blocks, self.column_blocks = (
            -(-extent // self.dim) for extent in (schedule.columns, chain.depth, chain.columns)
        )
        self.turns = chain.first.weights_transposed != chain.second.weights_transposed

    # ---------------------------------------------------------------- the loop

    def write(self) -> None:
        """All of it."""
        e, chain = self.e, self.chain
        e.command("config_ld", state=0, stride=chain.first.input.pitch, block_stride=self.dim)
        for state, right in enumerate(self.right, 1):
            right.configure(state)
        if not self.turns:
            self._configure_products(chain.first)
        begin = self._step(0)
        self._load_left(begin)
        self._first(begin, begins=True)
        with e.loop(self.steps + 1, 1, hint="step") as number:
            with e.when(e.compare("slt", number, self.steps)):
                self._first(self._step(number))
            self._second(self._step(e.sub(number, 1)))

    def _step(self, number: Number) -> ChainStep:
        e = self.e
        strip = e.div(number, self.tiles)
        row = e.mod(strip, self.strips)
        tile = e.mod(number, self.tiles)
        place = e.add(e.mul(row, self.tiles), tile)
        return ChainStep(number, strip, e.div(strip, self.strips), row, tile, place)

    def _rows(self, step: ChainStep) -> Number:
        """Of a strip."""
        e, most, rows = self.e, self.schedule.rows, self.chain.rows
        return most if rows % most == 0 else e.min(most, e.sub(rows, e.mul(step.row, most)))

    def _seen(self, step: ChainStep) -> Number:
        """Blocks of a tile's columns that rows of a strip see, see `ChainSchedule.seen`."""
        e, chain = self.e, self.chain
        if chain.causal is None:
            return self.tile_blocks
        last = e.add(e.mul(e.add(step.row, 1), self.schedule.rows), chain.causal - 1)
        return e.min(self.tile_blocks, e.ceil_div(last, self.dim))

    def _of_seen(self, seen: Number, first: int, count: int) -> Number:
        """How many of `count` blocks from number `first` on are seen."""
        if first == 0 and count == 1:
            return 1  # all rows see an element
        return self.e.min(count, self.e.sub(seen, first))

    def _chunks(self, rows: Number) -> Number:
        return self.e.ceil_div(rows, self.dim)

    def _chunk_rows(self, rows: Number, chunk: Number) -> Number:
        if isinstance(rows, int) and rows % self.dim == 0:
            return self.dim
        return self.e.min(self.dim, self.e.sub(rows, self.e.mul(chunk, self.dim)))

    def _turn(self, starts: Sequence[int], number: Number) -> Number:
        """First row of the copy that is used the `number`-th time."""
        e = self.e
        if len(starts) == 1:
            return starts[0]
        return e.add(starts[0], e.mul(e.mod(number, len(starts)), starts[1] - starts[0]))

    # ---------------------------------------------------------------- loads

    def _load_left(self, step: ChainStep) -> None:
        """A strip of the left operand."""
        e, chain, dim = self.e, self.chain, self.dim
        rows, start = self._rows(step), self._turn(self.memory.left, step.strip)
        pitch, width = chain.first.input.pitch, self.wide * dim
        base = e.add(
            self.operands.left,
            e.mul(step.group, chain.first.input.group),
            e.mul(step.row, self.schedule.rows * pitch),
        )
        with e.loop(self._chunks(rows), hint="row") as chunk:
            for columns, first, count in parts(chain.depth, width):
                with e.loop(count, hint="column") as n:
                    column = e.mul(e.add(n, first), width)
                    e.command(
                        "mvin",
                        address=e.add(base, e.mul(chunk, dim * pitch), column),
                        local=e.add(start, e.mul(chunk, self.depth_blocks * dim), column),
                        cols=columns,
                        rows=self._chunk_rows(rows, chunk),
                    )

    def _tile_offset(self, layer: Layer, step: ChainStep) -> Number:
        """Elements from the address of a right operand to what a step needs of it."""
        e = self.e
        offset = e.mul(step.group, layer.weight.group)
        if self.schedule.weights == "tile":
            # columns of the first operand, rows of the second; the other way round where they are stored transposed
            along_rows = layer.weights_transposed == (layer is self.chain.first)
            pitch = layer.weight.pitch if along_rows else 1
            offset = e.add(offset, e.mul(step.tile, self.schedule.columns * pitch))
        return offset

    def _ahead(self, which: int, step: ChainStep, beats: int) -> tuple[Callable[[Number], None], int]:
        """Loads of a right operand that later steps need, a share in each of the step's beats: what a beat writes, and how many
        beats write something."""
        e, right = self.e, self.right[which]
        layer = (self.chain.first, self.chain.second)[which]
        by_tile, (copies, *_) = self.schedule.weights == "tile", self.schedule.copies
        units = self.chain.groups * self.tiles * self.strips if by_tile else self.chain.groups
        if units == 1 or copies == 1:
            return lambda beat: None, 0
        in_unit = 1 if by_tile else self.strips * self.tiles
        share = -(-right.loads // in_unit)
        per_beat = -(-share // beats)
        unit = step.number if by_tile else step.group
        target = (
            self._step(e.add(step.number, 1)) if by_tile else ChainStep(0, 0, e.add(step.group, 1), 0, 0, 0)
        )
        start, offset = right.start(e.add(unit, 1)), self._tile_offset(layer, target)
        wanted = e.compare("slt", e.add(unit, 1), units)
        first = 0 if by_tile else e.mul(step.place, share)

        def beat_of(beat: Number) -> None:
            with e.when(wanted):
                for n in range(per_beat):
                    inside = e.add(e.mul(beat, per_beat), n)
                    number = e.add(first, inside)
                    left: Condition = e.compare("slt", inside, share)
                    if right.loads % in_unit:
                        left = e.both(left, e.compare("slt", number, right.loads))
                    with e.when(left):
                        right.load(number, start, offset)

        return beat_of, -(-share // per_beat)

    def _at_once(self, which: int, step: ChainStep) -> None:
        """Where there is one copy of a right operand: all loads of another one, before the step that needs it first."""
        e, right = self.e, self.right[which]
        layer = (self.chain.first, self.chain.second)[which]
        by_tile, (copies, *_) = self.schedule.weights == "tile", self.schedule.copies
        if copies > 1 or (not by_tile and self.chain.groups == 1):
            return
        begins = e.compare("sgt", step.number, 0)
        if not by_tile:
            begins = e.both(begins, e.compare("eq", step.place, 0))
        with e.when(begins), e.loop(right.loads, hint="load") as n:
            right.load(n, right.start(0), self._tile_offset(layer, step))

    # ---------------------------------------------------------------- the two products

    def _configure_products(self, layer: Layer) -> None:
        self.e.command(
            "config_ex",
            dataflow=self.dataflow,
            b_transpose=int(layer.weights_transposed),
            a_stride=1,
            c_stride=1,
        )

    def _first(self, step: ChainStep, *, begins: bool = False) -> None:
        """Sums of a tile, and its way to the scratchpad. The very first tile's weights come while it is computed, those of the second
        product with the next tile."""
        e, chain, dim = self.e, self.chain, self.dim
        right, other = self.right
        self._at_once(0, step)
        if self.steps > self.tiles:
            after = self._step(e.add(step.number, 1))
            changes = e.both(
                e.compare("eq", step.tile, self.tiles - 1), e.compare("slt", after.number, self.steps)
            )
            with e.when(changes):
                self._load_left(after)
        if self.turns:
            self._configure_products(chain.first)
        rows = self._rows(step)
        left, sums = self._turn(self.memory.left, step.strip), self._turn(self.memory.sums, step.number)
        by_tile = self.schedule.weights == "tile"
        weights = self.right[0].start(step.number if by_tile else step.group)
        beside = 0 if by_tile else e.mul(step.tile, self.schedule.columns)
        beat, beats = self._ahead(0, step, self.tile_blocks)
        seen = self._seen(step)
        if begins:
            right.load_columns(0, right.start(0), self._tile_offset(chain.first, step))
        share = -(-other.loads // self.tile_blocks)

        def begin_second(column: Number) -> None:
            """A share of the loads of the second product's first weights."""
            with e.loop(share, hint="load") as n:
                number = e.add(e.mul(column, share), n)
                with e.when(e.compare("slt", number, other.loads)):
                    other.load(number, other.start(0), self._tile_offset(chain.second, self._step(0)))

        second_begins = False if begins else e.compare("eq", step.number, 1)
        for columns, before, count in parts(self.schedule.columns, dim):
            with e.loop(self._of_seen(seen, before, count), hint="column") as n:
                column = e.add(n, before)
                beat(column)
                if begins:
                    offset = self._tile_offset(chain.first, step)
                    right.load_columns(e.add(column, 1), right.start(0), offset)
                with e.when(second_begins):
                    begin_second(column)
                for inner, above, deep in parts(chain.depth, dim):
                    for first, times in first_apart(above, deep):
                        with e.loop(times, hint="depth") as d:
                            depth = e.add(d, first)
                            self._passes(
                                rows,
                                self.right[0].block(weights, depth, column, 0, beside),
                                (inner, columns),
                                e.add(left, e.mul(depth, dim)),
                                self.depth_blocks,
                                e.add(sums, e.mul(column, self.apart)),
                                self.tile_blocks,
                                accumulate=first > 0,
                                transposed=chain.first.weights_transposed,
                            )
        self._move(step, rows, sums, seen)
        if chain.causal is not None:  # loads that were to be written beside columns that no row sees
            with e.loop(beats, seen, hint="beat") as n:
                beat(n)
            with e.when(second_begins), e.loop(self.tile_blocks, seen, hint="beat") as n:
                begin_second(n)
        if begins and not by_tile:  # what later tiles, or strips, take
            blocks = -(-chain.between // dim)
            with e.loop(blocks, e.add(seen, 1), hint="column") as n:
                right.load_columns(n, right.start(0), self._tile_offset(chain.first, step))
        if begins and self.steps == 1:
            with e.loop(other.loads, hint="load") as n:
                other.load(n, other.start(0), self._tile_offset(chain.second, step))

    def _move(self, step: ChainStep, rows: Number, sums: Number, seen: Number) -> None:
        """A tile from the accumulator to the scratchpad."""
        e, chain, dim = self.e, self.chain, self.dim
        e.command("config_st", stride=0, activation=int(chain.first.relu), acc_scale=self.operands.scales[0])
        if chain.softmax:
            numerator, shift = self.operands.softmax
            strip = e.mul(step.row, self.schedule.rows)
            valid = None if chain.causal is None else e.add(chain.causal, strip)
            begin_softmax(e, numerator, shift, valid, 0 if self.apart == dim else self.apart)
        target = self._turn(self.memory.between, step.number)
        with e.loop(self._chunks(rows), hint="row") as chunk:
            place = e.mul(chunk, self.tile_blocks * dim)
            e.command(
                "mvout_spad",
                destination=e.add(target, place),
                destination_stride=1,
                local=e.local(e.add(sums, place), accumulator=True),
                cols=e.min(self.schedule.columns, e.mul(seen, dim)),
                rows=self._chunk_rows(rows, chunk),
            )
        if chain.softmax:
            end_function(e)

    def _second(self, step: ChainStep) -> None:
        """What a tile adds to the results, and these if they are complete."""
        e, chain, dim = self.e, self.chain, self.dim
        self._at_once(1, step)
        if self.turns:
            self._configure_products(chain.second)
        rows = self._rows(step)
        left = self._turn(self.memory.between, step.number)
        results = self._turn(self.memory.results, step.strip)
        by_tile = self.schedule.weights == "tile"
        weights = self.right[1].start(step.number if by_tile else step.group)
        deep_before = 0 if by_tile else e.mul(step.tile, self.schedule.columns)
        fresh = e.compare("eq", step.tile, 0)
        beat, beats = self._ahead(1, step, self.tile_blocks)
        seen = self._seen(step)
        # all columns of a block of depth before the next block: weights are taken in the order in which they are loaded
        for inner, above, deep in parts(self.schedule.columns, dim):
            for first, times in first_apart(above, deep):
                with e.loop(self._of_seen(seen, first, times), hint="depth") as d:
                    depth = e.add(d, first)
                    beat(depth)
                    for columns, before, count in parts(chain.columns, dim):
                        with e.loop(count, hint="column") as n:
                            column = e.add(n, before)
                            self._passes(
                                rows,
                                self.right[1].block(weights, depth, column, deep_before, 0),
                                (inner, columns),
                                e.add(left, e.mul(depth, dim)),
                                self.tile_blocks,
                                e.add(results, e.mul(column, self.apart)),
                                self.column_blocks,
                                accumulate=True if first > 0 else _not(e, fresh),
                                transposed=chain.second.weights_transposed,
                            )
        if chain.causal is not None:
            with e.loop(beats, seen, hint="beat") as n:
                beat(n)
        with e.when(e.compare("eq", step.tile, self.tiles - 1)):
            self._store(step, rows, results)

    def _store(self, step: ChainStep, rows: Number, results: Number) -> None:
        """A strip of results to main memory."""
        e, chain, dim = self.e, self.chain, self.dim
        output = chain.second.output
        e.command(
            "config_st",
            stride=output.pitch,
            activation=int(chain.second.relu),
            acc_scale=self.operands.scales[1],
        )
        base = e.add(
            self.operands.output,
            e.mul(step.group, output.group),
            e.mul(step.row, self.schedule.rows * output.pitch),
        )
        # a store of several blocks finds them a side apart
        blocks = self.wide if self.apart == dim else 1
        width = blocks * dim
        with e.loop(self._chunks(rows), hint="row") as chunk:
            for columns, first, count in parts(chain.columns, width):
                with e.loop(count, hint="column") as n:
                    block = e.add(n, first)
                    column = e.mul(block, width)
                    place = e.add(
                        results,
                        e.mul(chunk, self.column_blocks * dim),
                        e.mul(block, blocks * self.apart),
                    )
                    e.command(
                        "mvout",
                        address=e.add(base, e.mul(chunk, dim * output.pitch), column),
                        local=e.local(place, accumulator=True),
                        cols=columns,
                        rows=self._chunk_rows(rows, chunk),
                    )

    def _passes(
        self,
        rows: Number,
        weights: Number,
        size: tuple[int, int],
        left: Number,
        left_blocks: int,
        target: Number,
        target_blocks: int,
        *,
        accumulate: Condition,
        transposed: bool,
    ) -> None:
        """All rows of a strip through one block of weights, of `size` (depth, columns)."""
        e, dim, (inner, columns) = self.e, self.dim, size
        block = PassWeights(weights, inner, columns, dim if transposed else None)
        chunks = self._chunks(rows)

        def one(chunk: Number, new: bool) -> None:
            height = self._chunk_rows(rows, chunk)
            to = e.add(target, e.mul(chunk, target_blocks * dim))
            c = e.local(to, accumulator=True, accumulate=accumulate)
            a = e.add(left, e.mul(chunk, left_blocks * dim))
            array_pass(e, dim, block, height, a=a, c=c, new=new)

        one(0, True)
        if isinstance(chunks, int):
            for known in range(1, chunks):
                one(known, False)
        else:
            with e.loop(chunks, 1, hint="row") as chunk:
                one(chunk, False)


def first_apart(first: int, count: int) -> list[tuple[int, int]]:
    """Numbers of a loop that begins at `first`, number 0 on its own: number of the first, how many."""
    if first > 0:
        return [(first, count)]
    return [(0, 1)] + ([(1, count - 1)] if count > 1 else [])


def _not(e: Emitter, condition: Condition) -> Condition:
    if isinstance(condition, bool):
        return not condition
    return e.compare("eq", e.select(condition, 1, 0), 0)
