"""Software pipelining of loads: while a round of a nest of loops computes, blocks of later rounds are on their way.

A block with N places ("stages") is loaded N - 1 rounds ahead (ALCOP). Counting the rounds of the whole nest through, round i
finds its block in place i mod N; before the nest the first N - 1 blocks are loaded, and in round i the one of round
i + N - 1 if there is such a round, so that every block is loaded exactly once. Loads keep their own numbers of the nest's loops,
which run ahead of the loops'. The host issues commands in order, so loads overlap products only if they are issued before the
products that follow have filled the queues: they are issued a command at a time, between the passes of products. The hardware
orders what touches the same rows; nothing waits for anything in the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.ir import SSAValue

from baco.compiler.blocks.memory import InMemory
from baco.compiler.blocks.pipelining import PipelinedLoad
from baco.compiler.blocks.scalars import scalar_operation
from baco.compiler.blocks.scratchpad import ScratchpadLayout, layout_of
from baco.compiler.blocks.state import LoweringState
from baco.compiler.ir.counting import following
from baco.compiler.ir.emit import Cell, Number
from baco.compiler.ir.known import known


@dataclass
class _Pending:
    """Loads of one block that are issued bit by bit.

    Attributes:
        issue: writes load number n.
        most: loads at most.
        total: loads there are, 0 when there is no such round.
        done: loads issued.
    """

    issue: Callable[[Number], None]
    most: int
    total: Number
    done: Cell


@dataclass
class _Stream:
    """A block that is loaded ahead, while its nest runs.

    Attributes:
        base: first row of the first place.
        stages: places.
        counts: rounds of each loop of the nest.
        rounds: of the nest.
        at: of the next block to load, which round of each loop it is for.
        left: blocks that are not loaded yet.
        fill, turn: rows from the first place to that of the next block to load, and of this round.
        now: the latter while a round is written.
    """

    load: PipelinedLoad
    layout: ScratchpadLayout
    base: int
    stages: int
    counts: list[Number]
    rounds: Number
    at: list[Cell]
    left: Cell
    fill: Cell
    turn: Cell
    now: Number = 0
    pending: _Pending | None = field(default=None)


class Pipeline:
    """The loads of a function that run ahead, while it is written.

    Args:
        loads: which, each with at least two stages.
        load: writes the loads of a block to a row: (block, layout, first row, number of the load, or None for all).
        configure: writes the configuration for the loads of a block.
        counts: how many loads there are at most and in fact: (block, layout) -> (most, total).
        allocate: first of so many rows for the places of a block.
    """

    def __init__(
        self,
        state: LoweringState,
        loads: list[PipelinedLoad],
        *,
        load: Callable[[InMemory, ScratchpadLayout, Number, Number | None], None],
        configure: Callable[[InMemory, ScratchpadLayout], None],
        counts: Callable[[InMemory, ScratchpadLayout], tuple[int, Number]],
        allocate: Callable[[PipelinedLoad, int], int],
    ) -> None:
        self.state = state
        self._loads = loads
        self._load, self._configure, self._counts, self._allocate = load, configure, counts, allocate
        self._streams: dict[SSAValue, _Stream] = {}

    def enter(self, loop: scf.ForOp) -> None:
        """Before a loop: the first blocks of the nests that begin with it, round by round, so that the first round has all
        of its own before any of the second one's is asked for."""
        e, together = self.state.e, dict[tuple[tuple[scf.ForOp, ...], int], list[_Stream]]()
        for one in self._loads:
            if one.nest[0] is loop:
                stream = self._streams[one.value] = self._stream(one)
                together.setdefault((one.nest, stream.stages), []).append(stream)
        for streams in together.values():
            with e.loop(e.min(streams[0].stages - 1, streams[0].rounds), hint="ahead"):
                for stream in streams:
                    block, row = self._next_block(stream)
                    self._configure(block, stream.layout)
                    self._load(block, stream.layout, row, None)

    def _stream(self, load: PipelinedLoad) -> _Stream:
        """Before the nest: nothing loaded yet."""
        e, dim = self.state.e, self.state.accelerator.dim
        stages = min(load.stages, self.state.buffering.scratchpad)
        counts = [self._rounds(inner) for inner in load.nest]
        rounds = e.mul(*counts)
        plan = load.load
        layout = layout_of(InMemory(0, plan.strides, (), (), plan.shape, plan.bits), dim)
        base = self._allocate(load, stages * layout.rows)
        at = [e.variable(0) for _ in counts]
        left, fill, turn = e.variable(rounds), e.variable(0), e.variable(0)
        return _Stream(load, layout, base, stages, counts, rounds, at, left, fill, turn)

    def _rounds(self, loop: scf.ForOp) -> Number:
        e, step = self.state.e, known(loop.step)
        assert step is not None
        distance = e.sub(self._bound(loop.ub), self._bound(loop.lb))
        return e.ceil_div(e.max(distance, 0), step)

    def _bound(self, value: SSAValue) -> Number:
        number = known(value)
        return self.state.numbers[value] if number is None else number

    def _next_block(self, stream: _Stream) -> tuple[InMemory, Number]:
        """The next block to load, and the row it goes to; the one after it is the next then."""
        e = self.state.e
        at = [cell.get() for cell in stream.at]
        block = self._place(stream.load, at)
        row = stream.fill.get()
        for cell, number in zip(stream.at, following(e, at, stream.counts).numbers, strict=True):
            cell.set(number)
        stream.left.set(e.sub(stream.left.get(), 1))
        stream.fill.set(self._place_after(stream, row))
        return block, e.add(stream.base, row)

    def _place_after(self, stream: _Stream, row: Number) -> Number:
        e, rows = self.state.e, stream.layout.rows
        if stream.stages == 2:
            return e.sub(rows, row)
        last = e.compare("sge", row, (stream.stages - 1) * rows)
        return e.select(last, 0, e.add(row, rows))

    def _place(self, load: PipelinedLoad, at: Sequence[Number]) -> InMemory:
        """Where the block lies in the given round of each loop of the nest."""
        e = self.state.e
        saved, numbers = dict(self.state.numbers), self.state.numbers
        for loop, ops, number in zip(load.nest, load.slices, at, strict=True):
            step = known(loop.step)
            assert step is not None
            numbers[loop.body.block.args[0]] = e.add(self._bound(loop.lb), e.mul(number, step))
            for op in ops:
                operands = [numbers[operand] for operand in op.operands]
                numbers[op.results[0]] = scalar_operation(e, op, operands)
        block = self.state.in_memory(load.load)
        self.state.numbers = saved
        return block

    def begin(self, loop: scf.ForOp) -> None:
        """At the start of a round, its number being known: prepare the loads for a later one."""
        for stream in self._of(loop):
            e = self.state.e
            stream.now = stream.turn.get()
            if isinstance(stream.rounds, int) and stream.rounds < stream.stages:
                continue  # all of them are loaded before the nest
            there = e.compare("sgt", stream.left.get(), 0)
            block, row = self._next_block(stream)
            layout = stream.layout
            self._configure(block, layout)
            most, total = self._counts(block, layout)

            def issue(
                number: Number, block: InMemory = block, layout: ScratchpadLayout = layout, row: Number = row
            ) -> None:
                self._load(block, layout, row, number)

            stream.pending = _Pending(issue, most, e.select(there, total, 0), e.variable(0))

    def slot(self, slots: int) -> None:
        """A place between products, one of `slots`: some of what is pending is issued."""
        for stream in self._streams.values():
            if stream.pending is not None:
                self._issue(stream.pending, -(-stream.pending.most // slots))

    def _issue(self, pending: _Pending, count: int) -> None:
        e = self.state.e
        for _ in range(count):
            number = pending.done.get()
            with e.when(e.compare("slt", number, pending.total)):
                pending.issue(number)
                pending.done.set(e.add(number, 1))

    def end(self, loop: scf.ForOp) -> None:
        """At the end of a round: what has not been issued yet; the next round is at the next place."""
        e = self.state.e
        for stream in self._of(loop):
            pending = stream.pending
            if pending is not None:
                with e.loop(pending.total, pending.done.get(), hint="rest") as number:
                    pending.issue(number)
            stream.turn.set(self._place_after(stream, stream.now))
            stream.pending = None

    def row_of(self, value: SSAValue) -> tuple[Number, ScratchpadLayout] | None:
        """Where a block that is loaded ahead is in this round; None for any other."""
        stream = self._streams.get(value)
        if stream is None:
            return None
        return self.state.e.add(stream.base, stream.now), stream.layout

    def _of(self, loop: scf.ForOp) -> list[_Stream]:
        return [one for one in self._streams.values() if one.load.nest[-1] is loop]
