"""Blocks that the accelerator moves and multiplies: loads, products in the array, results on their way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from baco.accel.dataflows import executed
from baco.accel.isa import IDENTITY_SCALE
from baco.compiler.blocks.analysis import AccumulatorSum, ArrayProduct, used_once_beside
from baco.compiler.blocks.host import HostCode, memory_bits
from baco.compiler.blocks.loads import LOADS, LoadCode, rest_of
from baco.compiler.blocks.memory import Accumulated, InMemory, PlacedFactor
from baco.compiler.blocks.pipelining import PipelinedLoad
from baco.compiler.blocks.reading import (
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
from baco.compiler.blocks.scalars import either
from baco.compiler.blocks.scratchpad import rows_loadable
from baco.compiler.blocks.state import LoweringState
from baco.compiler.ir.emit import Condition, Number
from baco.compiler.ir.location import location_of
from baco.compiler.ir.moves import PassWeights, array_pass


class ArrayCode:
    """Writes commands.

    Args:
        pipelined: loads that run ahead of their loops.
        crowded: there are more kinds of loads than load configurations; see `LoadCode`.
    """

    def __init__(
        self, state: LoweringState, pipelined: Sequence[PipelinedLoad], *, crowded: bool = False
    ) -> None:
        self.state = state
        self.host = HostCode(state, self.spill)
        self.loads = LoadCode(state, pipelined, self.in_main_memory, crowded=crowded)

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
        addend = addend_of(value, state.analysis.element_bits)
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
        state = self.loads.configure_load(0, dim)
        with (
            e.loop(e.ceil_div(acc.extents[0], dim), hint="r") as i,
            e.loop(e.ceil_div(acc.extents[1], dim), hint="c") as j,
        ):
            e.command(
                LOADS[state],
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
        """Load a block of sums or of elements to the region, over it or on top."""
        dim = self.state.accelerator.dim
        small = block.bits == self.state.accelerator.input_bits
        self.loads.configure_load(self.loads.pitch(block), dim, int(small))
        self.loads.move_in(
            block,
            acc.base,
            tile=dim,
            across=-(-acc.shape[1] // dim),
            wide=self.loads.wide if small else self.loads.wide_sums,
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

    def sum(self, op: Operation, found: AccumulatorSum) -> Accumulated:
        """Add what a load gives to a block in the accumulator."""
        acc = self.region(found.total, op, op.results)
        # accumulating loads must meet neither products that accumulate nor other loads of the rows
        self.state.e.fence()
        self._add_block(acc, found.addend, accumulate=True)
        self.state.e.fence()
        return acc

    # ---------------------------------------------------------------- products

    def product(self, op: Operation, found: ArrayProduct) -> Accumulated:
        """A product, added to its total in the accumulator."""
        acc = self.region(found.total, op, op.results)
        left, right = self._legal(found.left, found.right)
        left_t, right_t = (
            found.left.transposed ^ left.transposed,
            found.right.transposed ^ right.transposed,
        )
        e, dim = self.state.e, self.state.accelerator.dim
        rule = executed(self.state.accelerator.dataflows)
        e.command("config_ex", dataflow=rule.config_ex, a_transpose=int(left_t), b_transpose=int(right_t))
        m, k_left = left.extents[::-1] if left_t else left.extents
        k_right, n = right.extents[::-1] if right_t else right.extents
        slots = -(-shape_of(found.right.source)[0] // dim) * -(-shape_of(found.right.source)[1] // dim)
        k = k_left if k_left is k_right or k_left == k_right else e.min(k_left, k_right)
        with (
            e.loop(e.ceil_div(n, dim), hint="j") as j,
            e.loop(e.ceil_div(k, dim), hint="k") as step,
        ):
            nn, kk = rest_of(self.state, n, e.mul(j, dim), dim), rest_of(self.state, k, e.mul(step, dim), dim)
            weights = _tile_of(self.state, right, step, j, right_t)
            accumulate = either(e, acc.started, e.compare("sgt", step, 0))

            def one(i: Number, first: bool) -> None:
                mm = rest_of(self.state, m, e.mul(i, dim), dim)
                target = e.local(self._tile(acc, i, j), accumulator=True, accumulate=accumulate)
                a = _tile_of(self.state, left, i, step, left_t)
                block = PassWeights(weights, kk, nn)
                array_pass(e, dim, block, mm, a=a, c=target, new=first, sums_stay=rule.sums_stay)

            with e.when(e.compare("sgt", m, 0)):
                one(0, True)
            with e.loop(e.ceil_div(m, dim), 1, hint="i") as i:
                one(i, False)
            self.loads.pipeline.slot(slots)
        if left.exposed or right.exposed:
            e.fence()
        return replace(acc, started=True)

    def _legal(self, left: Factor, right: Factor) -> tuple[PlacedFactor, PlacedFactor]:
        """The factors as the array can take them: it does not transpose them in every way together."""
        placed = [self.state.placed[factor.source] for factor in (left, right)]
        a, b = (
            factor.transposed ^ where.transposed for factor, where in zip((left, right), placed, strict=True)
        )
        taken = executed(self.state.accelerator.dataflows).transposes
        if (a, b) not in taken:
            # that one which leaves the array the least to transpose
            ways = [(n, way) for n, way in enumerate(((not a, b), (a, not b))) if way in taken]
            n = min(ways, key=lambda way: sum(way[1]))[0]
            placed[n] = self._turned((left, right)[n].source, placed[n])
        return placed[0], placed[1]

    def _turned(self, source: SSAValue, placed: PlacedFactor) -> PlacedFactor:
        """The factor in the scratchpad once more, stored the other way round."""
        dense = self.in_main_memory(source)
        if placed.transposed:
            return self.loads.place_block(source, dense, transposed=False)
        rows, columns = dense.shape
        turned = self.state.temporary((columns, rows), dense.bits)
        host, e = self.host, self.state.e
        with host.section(), host.loops((columns, rows)) as at:
            bits = memory_bits(dense.bits)
            e.store(host.address(turned, at), e.load(host.address(dense, at[::-1]), bits), bits)
        return self.loads.place_block(source, turned, transposed=True)

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
            element = self.state.accelerator.input_bits
            usable = features.read_small_width and to.bits == element and (features.activations or not relu)
            usable &= features.accumulator_scale or scale == IDENTITY_SCALE
            usable &= not (relu and scale >> 31)
        assert acc.started is True, "a block that may be empty is looked at"
        if not usable or not rows_loadable(to):
            return False
        self.move_out(acc, to, scale, relu=relu)
        return True

    def move_out(
        self, acc: Accumulated, to: InMemory, scale: int | None, *, relu: bool, whole_rows: bool = False
    ) -> None:
        """Stores of a block in the accumulator; `whole_rows`: each of a row of tiles, as functions of rows need it."""
        e, dim, size = self.state.e, self.state.accelerator.dim, to.bits // 8
        stride = to.strides[0] if isinstance(to.strides[0], int) or to.shape[0] > 1 else 0
        pitch = e.mul(stride, size)
        e.command(
            "config_st",
            activation=int(relu),
            stride=pitch,
            acc_scale=IDENTITY_SCALE if scale is None else scale,
        )
        wide = dim if scale is None else self.loads.wide * dim
        rows, columns = to.sizes
        if whole_rows:
            wide = to.shape[1]
        with e.loop(e.ceil_div(rows, dim), hint="r") as i, e.loop(columns, step=wide, hint="c") as j:
            e.command(
                "mvout",
                address=e.add(to.address, e.mul(i, dim, pitch), e.mul(j, size)),
                local=e.local(self._tile(acc, i, e.div(j, dim)), accumulator=True, read_full=scale is None),
                cols=rest_of(self.state, columns, j, wide),
                rows=rest_of(self.state, rows, e.mul(i, dim), dim),
            )


def _tile_of(state: LoweringState, factor: PlacedFactor, i: Number, j: Number, transposed: bool) -> Number:
    """First row of tile (i, j) of a factor as it is used."""
    if transposed:
        i, j = j, i
    e = state.e
    return e.add(factor.base, e.mul(i, factor.across * factor.rows), e.mul(j, factor.rows))


def _covers(written: Sequence[Size], asked: Sequence[Size], shape: Sequence[int]) -> bool:
    """What is written includes what is asked for."""
    return all(
        (isinstance(one, int) and one == extent) or same_sizes((one,), (other,))
        for one, other, extent in zip(written, asked, shape, strict=True)
    )
