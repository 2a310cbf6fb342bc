"""Blocks that the accelerator moves and multiplies: loads, products in the array, results on their way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from accel.isa import GARBAGE, IDENTITY_SCALE
from common.errors import Location
from compiler.blocks.analysis import Product, Sum, used_once_beside
from compiler.blocks.host import HostCode
from compiler.blocks.memory import Accumulated, InMemory, Placed
from compiler.blocks.pipeline import Layout, Pipeline
from compiler.blocks.prefetch import Prefetch
from compiler.blocks.reading import (
    Addend,
    Factor,
    Size,
    addend_of,
    filled_with,
    is_relu,
    requantised,
    same_sizes,
    shape_of,
)
from compiler.blocks.scalars import either
from compiler.blocks.state import State
from compiler.emit import Condition, Number
from compiler.location import location_of

__all__ = ["ArrayCode"]

#: Bytes of a row that one load or store moves on every implementation.
_MAX_BYTES = 64
_LOADS = ("mvin", "mvin2", "mvin3")


class ArrayCode:
    """Writes commands.

    Args:
        prefetches: factors to be loaded a round ahead.
        crowded: there are more kinds of loads than load configurations, so single loads must not rely on one that
            was written long before.
    """

    def __init__(self, state: State, prefetches: Sequence[Prefetch], *, crowded: bool = False) -> None:
        self.state = state
        self._crowded = crowded
        self.host = HostCode(state, self.spill)
        self._load_numbers: dict[tuple[Number, int, int], int] = {}
        dim = state.accelerator.dim
        self._blocks = max(_MAX_BYTES // dim, 1)
        self._blocks_int32 = max(_MAX_BYTES // (4 * dim), 1)
        ahead = prefetches if state.buffering.scratchpad > 1 else []
        self.pipeline = Pipeline(
            state,
            [one for one in ahead if self._prefetchable(one)],
            layout=self._layout,
            load=self._load,
            configure=self._configure,
            loads=self._loads,
            allocate=self._allocate,
        )

    # ---------------------------------------------------------------- loads

    def place(self, value: SSAValue) -> None:
        """Load a factor to the scratchpad."""
        record = self.state.records[value]
        there = self.pipeline.row_of(value)
        if there is not None:
            assert isinstance(record, InMemory)
            self.state.placed[value] = self._placed(value, record, there[1], there[0])
            return
        if not isinstance(record, InMemory) or not _zero_padded(record) or not _loadable(record):
            record = self.in_main_memory(value)
        self.state.placed[value] = self._place(value, record, transposed=False)

    def _place(self, value: SSAValue, block: InMemory, *, transposed: bool) -> Placed:
        """Load a block in memory to the scratchpad; `transposed`: it holds the factor transposed."""
        e, copies = self.state.e, self.state.buffering.scratchpad
        layout = self._layout(value, block, transposed=transposed)
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

    def _layout(self, value: SSAValue, block: InMemory, *, transposed: bool = False) -> Layout:
        """How a block of memory is laid out in the scratchpad."""
        dim = self.state.accelerator.dim
        if not _rows_loadable(block):
            block, transposed = _transposed(block), not transposed
        rows, columns = block.shape
        tile, across = min(dim, rows), -(-columns // dim)
        return Layout(tile, across, -(-rows // dim) * across * tile, transposed)

    def _exposed(self, value: SSAValue, block: InMemory, layout: Layout) -> bool:
        """The array transposes the block as its right factor and its tiles are not full (instruction set, 6.5 a)."""
        dim = self.state.accelerator.dim
        rights = self.state.analysis.rights.get(value, [])
        return any(factor.transposed ^ layout.transposed for factor in rights) and not all(
            isinstance(size, int) and size % dim == 0 for size in block.sizes
        )

    def _placed(
        self, value: SSAValue, block: InMemory, layout: Layout, base: Number, *, transposed: bool = False
    ) -> Placed:
        """The record of a block in the scratchpad."""
        stored = block if layout.transposed == transposed else _transposed(block)
        extents = (stored.sizes[0], stored.sizes[1])
        exposed = self._exposed(value, block, layout)
        return Placed(base, layout.tile, layout.across, extents, layout.transposed, exposed)

    def _prefetchable(self, one: Prefetch) -> bool:
        """Commands can load the block as it lies, without fences."""
        load = one.load
        block = InMemory(0, load.strides, load.sizes, load.low, load.shape, load.bits)
        if not _loadable(block):
            return False
        return not self._exposed(one.value, block, self._layout(one.value, block))

    def _allocate(self, value: SSAValue, layout: Layout) -> int:
        """First row of both places of a prefetched block."""
        top = value in self.state.analysis.rights
        return self.state.scratchpad.allocate(
            2 * layout.rows, _what(value), top=top, location=_location(value)
        )

    def _configure(self, block: InMemory, layout: Layout) -> None:
        """The configuration for loads of a factor."""
        self._configure_load(self._pitch(_oriented(block)), layout.tile)

    def _loads(self, block: InMemory, layout: Layout) -> tuple[int, Number]:
        """Loads of a factor, one a row of tiles and as many columns as one moves: at most, and in fact."""
        block = _oriented(block)
        across = -(-block.shape[1] // (self._blocks * self.state.accelerator.dim))
        rows = self.state.e.ceil_div(block.sizes[0], layout.tile)
        return -(-block.shape[0] // layout.tile) * across, self.state.e.mul(rows, across)

    def _load(self, block: InMemory, layout: Layout, base: Number, number: Number | None) -> None:
        """Load number `number` of a factor, or all."""
        e, wide = self.state.e, self._blocks * self.state.accelerator.dim
        block = _oriented(block)
        if number is None:
            self._move_in(block, base, tile=layout.tile, across=layout.across, wide=self._blocks)
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
            self._move_one(block, base, i, j, tile=layout.tile, across=layout.across, wide=self._blocks)

    def _move_in(
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
        pitch = self._pitch(block)
        address = e.add(block.address, e.mul(i, tile, pitch), e.mul(j, size))
        row = e.add(base, e.mul(i, across * tile), e.mul(e.div(j, dim), tile))
        e.command(
            _LOADS[self._load_number(pitch, tile, shrink)],
            address=address,
            local=e.local(row, accumulator=accumulator, accumulate=accumulate),
            cols=_rest(self.state, block.sizes[1], j, wide * dim),
            rows=_rest(self.state, block.sizes[0], e.mul(i, tile), tile),
        )

    def _pitch(self, block: InMemory) -> Number:
        """Bytes from row to row; of a single row it does not matter."""
        stride = block.strides[0]
        if block.shape[0] == 1 and not isinstance(stride, int):
            stride = 0
        return self.state.e.mul(stride, block.bits // 8)

    @property
    def needs_crowded(self) -> bool:
        """More kinds of loads have been written than there are configurations."""
        return len(self._load_numbers) > len(_LOADS) and not self._crowded

    def _load_number(self, pitch: Number, tile: int, shrink: int) -> int:
        """Which of the three load configurations: equal loads share one, so that it is written once."""
        key = (pitch, tile, shrink)
        if key not in self._load_numbers:
            self._load_numbers[key] = len(self._load_numbers) % len(_LOADS)
        return self._load_numbers[key]

    def _configure_load(self, pitch: Number, tile: int, shrink: int = 0) -> int:
        """Write the configuration of loads; which of the three it is."""
        number = self._load_number(pitch, tile, shrink)
        self.state.e.command("config_ld", state=number, shrink=shrink, block_stride=tile, stride=pitch)
        return number

    # ---------------------------------------------------------------- the accumulator

    def region(self, value: SSAValue, user: Operation, results: Sequence[SSAValue]) -> Accumulated:
        """A block where `user` may change it: its own region, or a new one that starts as the block.

        Args:
            results: blocks that will be in the region, to see what part of it matters.
        """
        state = self.state
        record = state.records[value]
        if isinstance(record, Accumulated) and used_once_beside(value):
            return record
        dim, shape = state.accelerator.dim, shape_of(value)
        rows, columns = shape
        asked = state.analysis.demand(results)
        extents: tuple[Size, ...] = tuple(
            size if isinstance(size, int) or size in state.numbers else extent
            for size, extent in zip(asked, shape, strict=True)
        )
        addend = addend_of(value)
        if addend is not None and addend.load.source in state.analysis.stored:
            addend = None
        source = None
        if filled_with(value) != 0 and addend is None:
            source = self.in_main_memory(value)
        base = state.rotating(
            state.accumulator,
            -(-rows // dim) * -(-columns // dim) * dim,
            state.buffering.accumulator,
            f"a block of {rows} x {columns} int32",
            location=location_of(user),
        )
        numbers = tuple(map(state.number, extents))
        acc = Accumulated(base, (rows, columns), (numbers[0], numbers[1]))
        if source is not None:
            self._add(acc, source, accumulate=False)
        elif addend is not None:
            if not _covers(addend.sizes, extents, shape):
                self._zero(acc)
                state.e.fence()
            self._add_block(acc, addend, accumulate=False)
        else:
            writer = state.analysis.first_writer(value, user)
            if writer is not None and _covers(writer[0], extents, shape):
                return replace(acc, started=False)
            self._zero(acc)
        return acc

    def _zero(self, acc: Accumulated) -> None:
        """Overwrite a region by zeros."""
        e, dim = self.state.e, self.state.accelerator.dim
        state = self._configure_load(0, dim)
        with (
            e.loop(e.ceil_div(acc.extents[0], dim), hint="r") as i,
            e.loop(e.ceil_div(acc.extents[1], dim), hint="c") as j,
        ):
            e.command(
                _LOADS[state],
                address=0,
                local=e.local(self._tile(acc, i, j), accumulator=True),
                cols=dim,
                rows=dim,
            )

    def _tile(self, acc: Accumulated, i: Number, j: Number) -> Number:
        e, dim = self.state.e, self.state.accelerator.dim
        across = -(-acc.shape[1] // dim)
        return e.add(acc.base, e.mul(i, across * dim), e.mul(j, dim))

    def _add(self, acc: Accumulated, block: InMemory, *, accumulate: Condition) -> None:
        """Load a block of int32 or int8 to the region, over it or on top."""
        dim = self.state.accelerator.dim
        small = block.bits == 8
        self._configure_load(self._pitch(block), dim, int(small))
        self._move_in(
            block,
            acc.base,
            tile=dim,
            across=-(-acc.shape[1] // dim),
            wide=self._blocks if small else self._blocks_int32,
            shrink=int(small),
            accumulator=True,
            accumulate=accumulate,
        )

    def _add_block(self, acc: Accumulated, addend: Addend, *, accumulate: Condition) -> None:
        block = self.state.in_memory(addend.load)
        # of a repeated row, or a block that covers more, only what is asked for
        sizes = [
            acc.extents[dim] if size == acc.shape[dim] else self.state.number(size)
            for dim, size in enumerate(addend.sizes)
        ]
        column_stride = block.strides[addend.column_dim]
        seen = replace(
            block,
            strides=(addend.row_stride, column_stride),
            sizes=tuple(sizes),
            low=(0, 0),
            shape=acc.shape,
        )
        self._add(acc, seen, accumulate=accumulate)

    def sum(self, op: Operation, found: Sum) -> Accumulated:
        """Add what a load gives to a block in the accumulator."""
        acc = self.region(found.total, op, op.results)
        # accumulating loads must meet neither products that accumulate nor other loads of the rows
        self.state.e.fence()
        self._add_block(acc, found.addend, accumulate=True)
        self.state.e.fence()
        return acc

    # ---------------------------------------------------------------- products

    def product(self, op: Operation, found: Product) -> Accumulated:
        """A product, added to its total in the accumulator."""
        acc = self.region(found.total, op, op.results)
        left, right = self._legal(found.left, found.right)
        left_t, right_t = (
            found.left.transposed ^ left.transposed,
            found.right.transposed ^ right.transposed,
        )
        e, dim = self.state.e, self.state.accelerator.dim
        weights_stay = "WS" in self.state.accelerator.dataflows
        e.command("config_ex", dataflow=int(weights_stay), a_transpose=int(left_t), b_transpose=int(right_t))
        m, k_left = left.extents[::-1] if left_t else left.extents
        k_right, n = right.extents[::-1] if right_t else right.extents
        slots = -(-shape_of(found.right.source)[0] // dim) * -(-shape_of(found.right.source)[1] // dim)
        k = k_left if k_left is k_right or k_left == k_right else e.min(k_left, k_right)
        with (
            e.loop(e.ceil_div(n, dim), hint="j") as j,
            e.loop(e.ceil_div(k, dim), hint="k") as step,
        ):
            nn, kk = _rest(self.state, n, e.mul(j, dim), dim), _rest(self.state, k, e.mul(step, dim), dim)
            weights = _tile_of(self.state, right, step, j, right_t)
            accumulate = either(e, acc.started, e.compare("sgt", step, 0))

            def one(i: Number, first: bool) -> None:
                mm = _rest(self.state, m, e.mul(i, dim), dim)
                target = e.local(self._tile(acc, i, j), accumulator=True, accumulate=accumulate)
                size = {"c": target, "c_cols": nn, "c_rows": mm}
                source = {"a": _tile_of(self.state, left, i, step, left_t), "a_cols": kk, "a_rows": mm}
                if not weights_stay:
                    e.command("preload", bd=GARBAGE, bd_cols=nn, bd_rows=mm, **size)
                    e.command("compute_preloaded", bd=weights, bd_cols=nn, bd_rows=kk, **source)
                    return
                e.command("preload", bd=weights if first else GARBAGE, bd_cols=nn, bd_rows=kk, **size)
                name = "compute_preloaded" if first else "compute_accumulated"
                e.command(name, bd=GARBAGE, bd_cols=nn, bd_rows=mm, **source)

            with e.when(e.compare("sgt", m, 0)):
                one(0, True)
            with e.loop(e.ceil_div(m, dim), 1, hint="i") as i:
                one(i, False)
            self.pipeline.slot(slots)
        if left.exposed or right.exposed:
            e.fence()
        return replace(acc, started=True)

    def _legal(self, left: Factor, right: Factor) -> tuple[Placed, Placed]:
        """The factors as the array can take them: it transposes one of them at most."""
        placed = [self.state.placed[one.source] for one in (left, right)]
        turned = [one.transposed ^ where.transposed for one, where in zip((left, right), placed, strict=True)]
        if "WS" in self.state.accelerator.dataflows:
            if all(turned):
                placed[0] = self._turned(left.source, placed[0])
        elif turned == [False, True]:
            placed[1] = self._turned(right.source, placed[1])
        return placed[0], placed[1]

    def _turned(self, source: SSAValue, placed: Placed) -> Placed:
        """The factor in the scratchpad once more, stored the other way round."""
        dense = self.in_main_memory(source)
        if placed.transposed:
            return self._place(source, dense, transposed=False)
        rows, columns = dense.shape
        turned = self.state.temporary((columns, rows), dense.bits)
        host, e = self.host, self.state.e
        with host.section(), host.loops((columns, rows)) as at:
            number = e.load(host.address(dense, at[::-1]), 8)
            e.store(host.address(turned, at), number, 8)
        return self._place(source, turned, transposed=True)

    # ---------------------------------------------------------------- results

    def in_main_memory(self, value: SSAValue) -> InMemory:
        """A dense copy of a block in the workspace, complete when this is done."""
        kind = value.type
        shape = shape_of(value)
        width = getattr(kind.element_type, "width", None)  # type: ignore[attr-defined]
        bits = 64 if width is None else max(int(width.data), 8)
        target = self.state.temporary(shape, bits)
        self.state.e.fence()
        if not self.drain(value, target):
            self.host.store(value, target)
        self.state.e.fence()
        return target

    def spill(self, value: SSAValue, record: Accumulated) -> InMemory:
        """Copy a block of the accumulator to main memory as int32."""
        return self.in_main_memory(value)

    def drain(self, value: SSAValue, to: InMemory) -> bool:
        """Store a block in the accumulator, or one requantised from it, by the accelerator; False if it cannot."""
        features = self.state.accelerator.features
        scale, relu = None, False
        inner = value
        while not isinstance(self.state.records[inner], Accumulated):
            if (below := is_relu(inner)) is not None and not relu:
                relu, inner = True, below
            elif scale is None and (found := requantised(inner)) is not None:
                inner, scale = found
            else:
                return False
            if inner not in self.state.records:
                return False
        acc = self.state.records[inner]
        assert isinstance(acc, Accumulated)
        if scale is None:
            usable = not relu and features.read_full_width and to.bits == 32
        else:
            usable = features.read_small_width and to.bits == 8 and (features.activations or not relu)
            usable &= features.accumulator_scale or scale == IDENTITY_SCALE
            usable &= not (relu and scale >> 31)
        assert acc.started is True, "a block that may be empty is looked at"
        if not usable or not _rows_loadable(to):
            return False
        self._move_out(acc, to, scale, relu)
        return True

    def _move_out(self, acc: Accumulated, to: InMemory, scale: int | None, relu: bool) -> None:
        e, dim, size = self.state.e, self.state.accelerator.dim, to.bits // 8
        stride = to.strides[0] if isinstance(to.strides[0], int) or to.shape[0] > 1 else 0
        pitch = e.mul(stride, size)
        e.command(
            "config_st",
            activation=int(relu),
            stride=pitch,
            acc_scale=IDENTITY_SCALE if scale is None else scale,
        )
        wide = dim if scale is None else self._blocks * dim
        rows, columns = to.sizes
        with e.loop(e.ceil_div(rows, dim), hint="r") as i, e.loop(columns, step=wide, hint="c") as j:
            e.command(
                "mvout",
                address=e.add(to.address, e.mul(i, dim, pitch), e.mul(j, size)),
                local=e.local(self._tile(acc, i, e.div(j, dim)), accumulator=True, read_full=scale is None),
                cols=_rest(self.state, columns, j, wide),
                rows=_rest(self.state, rows, e.mul(i, dim), dim),
            )


def _loadable(block: InMemory) -> bool:
    """Commands can move it: one dimension is dense, the other has a stride that is known and not negative."""
    return _rows_loadable(block) or _rows_loadable(_transposed(block))


def _oriented(block: InMemory) -> InMemory:
    """The block as loads take it: rows dense."""
    return block if _rows_loadable(block) else _transposed(block)


def _what(value: SSAValue) -> str:
    rows, columns = shape_of(value)
    return f"a block of {rows} x {columns} int8"


def _location(value: SSAValue) -> Location | None:
    return location_of(value.owner if isinstance(value.owner, Operation) else value.owner.parent_op())


def _zero_padded(block: InMemory) -> bool:
    """It begins with the part that is there, and the rest is zero."""
    there = all(one == 0 for one in block.low)
    return there and (block.other == 0 or all(map(_equal, block.sizes, block.shape)))


def _equal(a: Number, b: Number) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a == b


def _rows_loadable(block: InMemory) -> bool:
    if len(block.shape) != 2:
        return False
    (row, column), (rows, columns) = block.strides, block.shape
    dense = column == 1 or columns == 1
    return dense and (rows == 1 or (isinstance(row, int) and row > 0))


def _transposed(block: InMemory) -> InMemory:
    return replace(
        block,
        strides=block.strides[::-1],
        sizes=block.sizes[::-1],
        low=block.low[::-1],
        shape=block.shape[::-1],
    )


def _tile_of(state: State, factor: Placed, i: Number, j: Number, transposed: bool) -> Number:
    """First row of tile (i, j) of a factor as it is used."""
    if transposed:
        i, j = j, i
    e = state.e
    return e.add(factor.base, e.mul(i, factor.across * factor.rows), e.mul(j, factor.rows))


def _rest(state: State, total: Number, first: Number, size: int) -> Number:
    """Elements of the piece of `size` that begins at `first`: all of it but at the end."""
    if isinstance(total, int) and (total % size == 0 or total <= size):
        return min(total, size)
    return state.e.min(state.e.sub(total, first), size)


def _covers(written: Sequence[Size], asked: Sequence[Size], shape: Sequence[int]) -> bool:
    """What is written includes what is asked for."""
    return all(
        (isinstance(one, int) and one == extent) or same_sizes((one,), (other,))
        for one, other, extent in zip(written, asked, shape, strict=True)
    )
