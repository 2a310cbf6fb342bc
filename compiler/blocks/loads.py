"""Loads: factors to the scratchpad, ahead of time where possible, and blocks to the accumulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue

from baco.accel.config import MOVE_BYTES
from baco.common.errors import Location
from baco.compiler.blocks.memory import InMemory, PlacedFactor
from baco.compiler.blocks.pipeline import Pipeline
from baco.compiler.blocks.pipelining import PipelinedLoad
from baco.compiler.blocks.reading import shape_of
from baco.compiler.blocks.scratchpad import (
    ScratchpadLayout,
    layout_of,
    loadable,
    needs_fences,
    oriented,
    transposed_block,
)
from baco.compiler.blocks.state import LoweringState
from baco.compiler.ir.emit import Condition, Number
from baco.compiler.ir.location import location_of

#: Load commands, by the number of their configuration.
LOADS = ("mvin", "mvin2", "mvin3")


class LoadCode:
    """Writes loads.

    Args:
        pipelined: loads that run ahead of their loops.
        dense: makes a dense copy of a block in main memory.
        crowded: there are more kinds of loads than load configurations, so single loads must not rely on one that
            was written long before.

    Attributes:
        wide, wide_sums: tiles that one load moves of elements and of sums.
        pipeline: those loads.
    """

    def __init__(
        self,
        state: LoweringState,
        pipelined: Sequence[PipelinedLoad],
        dense: Callable[[SSAValue], InMemory],
        *,
        crowded: bool,
    ) -> None:
        self.state = state
        self._dense, self._crowded = dense, crowded
        self._copies = {one.value: one.stages for one in pipelined}
        self._load_numbers: dict[tuple[Number, int, int], int] = {}
        dim = state.accelerator.dim
        self.wide = max(MOVE_BYTES // (state.accelerator.element_bytes * dim), 1)
        self.wide_sums = max(MOVE_BYTES // (4 * dim), 1)
        self.pipeline = Pipeline(
            state,
            [one for one in pipelined if min(one.stages, state.buffering.scratchpad) > 1],
            load=self._load,
            configure=self._configure,
            counts=self._counts,
            allocate=self._allocate,
        )

    def place(self, value: SSAValue) -> None:
        """Load a factor to the scratchpad."""
        record = self.state.records[value]
        there = self.pipeline.row_of(value)
        if there is not None:
            assert isinstance(record, InMemory)
            self.state.placed[value] = self._placed(value, record, there[1], there[0])
            return
        if not isinstance(record, InMemory) or not _zero_padded(record) or not loadable(record):
            record = self._dense(value)
        self.state.placed[value] = self.place_block(value, record, transposed=False)

    def place_block(self, value: SSAValue, block: InMemory, *, transposed: bool) -> PlacedFactor:
        """Load a block in memory to the scratchpad; `transposed`: it holds the factor transposed."""
        e, copies = self.state.e, min(self._copies.get(value, 2), self.state.buffering.scratchpad)
        layout = layout_of(block, self.state.accelerator.dim, transposed=transposed)
        base = self.state.rotating(
            self.state.scratchpad,
            layout.rows,
            copies,
            _what(value),
            top=value in self.state.analysis.rights,
            location=_location(value),
        )
        exposed = self._exposed(value, block, layout)
        if exposed:
            e.fence()
        self._configure(block, layout)
        self._load(block, layout, base, None)
        if exposed:
            e.fence()
        return self._placed(value, block, layout, base, transposed=transposed)

    def _exposed(self, value: SSAValue, block: InMemory, layout: ScratchpadLayout) -> bool:
        """The hardware does not see all hazards between its loads and products."""
        rights = self.state.analysis.rights.get(value, ())
        return needs_fences(rights, block, layout, self.state.accelerator.dim)

    def _placed(
        self,
        value: SSAValue,
        block: InMemory,
        layout: ScratchpadLayout,
        base: Number,
        *,
        transposed: bool = False,
    ) -> PlacedFactor:
        """The record of a block in the scratchpad."""
        stored = block if layout.transposed == transposed else transposed_block(block)
        extents = (stored.sizes[0], stored.sizes[1])
        exposed = self._exposed(value, block, layout)
        return PlacedFactor(base, layout.tile, layout.across, extents, layout.transposed, exposed)

    def _allocate(self, load: PipelinedLoad, rows: int) -> int:
        """First row of the places of a pipelined block."""
        top = load.value in self.state.analysis.rights
        return self.state.scratchpad.allocate(
            rows, _what(load.value), top=top, location=_location(load.value)
        )

    def _configure(self, block: InMemory, layout: ScratchpadLayout) -> None:
        """The configuration for loads of a factor."""
        self.configure_load(self.pitch(oriented(block)), layout.tile)

    def _counts(self, block: InMemory, layout: ScratchpadLayout) -> tuple[int, Number]:
        """Loads of a factor, one a row of tiles and as many columns as one moves: at most, and in fact."""
        block = oriented(block)
        across = -(-block.shape[1] // (self.wide * self.state.accelerator.dim))
        rows = self.state.e.ceil_div(block.sizes[0], layout.tile)
        return -(-block.shape[0] // layout.tile) * across, self.state.e.mul(rows, across)

    def _load(self, block: InMemory, layout: ScratchpadLayout, base: Number, number: Number | None) -> None:
        """Load number `number` of a factor, or all."""
        e, wide = self.state.e, self.wide * self.state.accelerator.dim
        block = oriented(block)
        if number is None:
            self.move_in(block, base, tile=layout.tile, across=layout.across, wide=self.wide)
            return
        if self._crowded:
            self._configure(block, layout)
        across = -(-block.shape[1] // wide)
        i, j = e.div(number, across), e.mul(e.mod(number, across), wide)
        columns = block.sizes[1]
        there: Condition = True
        if across > 1 and not isinstance(columns, int):
            there = e.compare("slt", j, columns)
        with e.when(there):
            self._move_one(block, base, i, j, tile=layout.tile, across=layout.across, wide=self.wide)

    def move_in(
        self,
        block: InMemory,
        base: Number,
        *,
        tile: int,
        across: int,
        wide: int,
        shrink: int = 0,
        accumulator: bool = False,
        accumulate: Condition = False,
    ) -> None:
        """Loads of a block, a row of `wide` tiles by one command; they are configured before."""
        e = self.state.e
        rows, columns = block.sizes
        step = wide * self.state.accelerator.dim
        with e.loop(e.ceil_div(rows, tile), hint="r") as i, e.loop(columns, step=step, hint="c") as j:
            self._move_one(
                block,
                base,
                i,
                j,
                tile=tile,
                across=across,
                wide=wide,
                shrink=shrink,
                accumulator=accumulator,
                accumulate=accumulate,
            )

    def _move_one(
        self,
        block: InMemory,
        base: Number,
        i: Number,
        j: Number,
        *,
        tile: int,
        across: int,
        wide: int,
        shrink: int = 0,
        accumulator: bool = False,
        accumulate: Condition = False,
    ) -> None:
        """The load of row i of tiles from column j on."""
        e, dim, size = self.state.e, self.state.accelerator.dim, block.bits // 8
        pitch = self.pitch(block)
        address = e.add(block.address, e.mul(i, tile, pitch), e.mul(j, size))
        row = e.add(base, e.mul(i, across * tile), e.mul(e.div(j, dim), tile))
        e.command(
            LOADS[self._load_number(pitch, tile, shrink)],
            address=address,
            local=e.local(row, accumulator=accumulator, accumulate=accumulate),
            cols=rest_of(self.state, block.sizes[1], j, wide * dim),
            rows=rest_of(self.state, block.sizes[0], e.mul(i, tile), tile),
        )

    def pitch(self, block: InMemory) -> Number:
        """Bytes from row to row; of a single row it does not matter."""
        stride = block.strides[0]
        if block.shape[0] == 1 and not isinstance(stride, int):
            stride = 0
        return self.state.e.mul(stride, block.bits // 8)

    @property
    def needs_crowded(self) -> bool:
        """More kinds of loads have been written than there are configurations."""
        return len(self._load_numbers) > len(LOADS) and not self._crowded

    def _load_number(self, pitch: Number, tile: int, shrink: int) -> int:
        """Which of the three load configurations: equal loads share one, so that it is written once."""
        key = (pitch, tile, shrink)
        if key not in self._load_numbers:
            self._load_numbers[key] = len(self._load_numbers) % len(LOADS)
        return self._load_numbers[key]

    def configure_load(self, pitch: Number, tile: int, shrink: int = 0) -> int:
        """Write the configuration of loads; which of the three it is."""
        number = self._load_number(pitch, tile, shrink)
        self.state.e.command("config_ld", state=number, shrink=shrink, block_stride=tile, stride=pitch)
        return number


def rest_of(state: LoweringState, total: Number, first: Number, size: int) -> Number:
    """Elements of the piece of `size` that begins at `first`: all of it but at the end."""
    if isinstance(total, int) and (total % size == 0 or total <= size):
        return min(total, size)
    return state.e.min(state.e.sub(total, first), size)


def _zero_padded(block: InMemory) -> bool:
    """It begins with the part that is there, and the rest is zero."""
    there = all(one == 0 for one in block.low)
    return there and (block.other == 0 or all(map(_equal, block.sizes, block.shape)))


def _equal(a: Number, b: Number) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a == b


def _what(value: SSAValue) -> str:
    rows, columns = shape_of(value)
    return f"a block of {rows} x {columns} int8"


def _location(value: SSAValue) -> Location | None:
    return location_of(value.owner if isinstance(value.owner, Operation) else value.owner.parent_op())
