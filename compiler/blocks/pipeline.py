"""Software pipelining: factors of the next round are loaded between the products of this one.

The host issues commands in order, so loads overlap products only if they are issued before the products that follow
have filled the queues. Each factor has two places; a round uses one while the other is loaded, a command at a time
between the passes of its products, for the next round of the whole nest of loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.ir import SSAValue

from compiler.blocks.memory import InMemory
from compiler.blocks.prefetch import Prefetch, bounds_of_loop
from compiler.blocks.scalars import scalar_operation
from compiler.blocks.state import State
from compiler.ir.emit import Condition, Number, Variable

__all__ = ["Layout", "Pending", "Pipeline"]


@dataclass(frozen=True)
class Layout:
    """How a block lies in the scratchpad.

    Attributes:
        tile: rows of a tile.
        across: tiles side by side.
        rows: in all.
        transposed: the block is stored transposed.
    """

    tile: int
    across: int
    rows: int
    transposed: bool


@dataclass
class Pending:
    """Loads of one block that are issued bit by bit.

    Attributes:
        issue: writes load number n, of `across` in a row of tiles.
        across: loads side by side.
        most: loads at most.
        total: loads there are, 0 when there is no next round.
        done: loads issued.
    """

    issue: Callable[[Number], None]
    most: int
    total: Number
    done: Variable


@dataclass
class _Buffer:
    """Both places of a prefetched block.

    Attributes:
        base: first row of the first one.
        turn: what to add to it for the one of this round.
        now: the same while a round is written.
    """

    prefetch: Prefetch
    layout: Layout
    base: int
    turn: Variable
    now: Number = 0
    pending: Pending | None = field(default=None)


class Pipeline:
    """The prefetches of a function while it is written.

    Args:
        layout: how a block of memory is laid out in the scratchpad.
        load: writes the loads of a block to a row: (block, layout, first row, number of the load, or None for all).
        configure: writes the configuration for the loads of a block.
        loads: how many loads there are at most and in fact: (block, layout) -> (most, total).
    """

    def __init__(
        self,
        state: State,
        prefetches: list[Prefetch],
        *,
        layout: Callable[[SSAValue, InMemory], Layout],
        load: Callable[[InMemory, Layout, Number, Number | None], None],
        configure: Callable[[InMemory, Layout], None],
        loads: Callable[[InMemory, Layout], tuple[int, Number]],
        allocate: Callable[[SSAValue, Layout], int],
    ) -> None:
        self.state = state
        self._prefetches = prefetches
        self._layout, self._load, self._configure = layout, load, configure
        self._loads, self._allocate = loads, allocate
        self._buffers: dict[SSAValue, _Buffer] = {}

    def enter(self, loop: scf.ForOp) -> None:
        """Before a loop: first loads of the nests that begin with it."""
        for one in self._prefetches:
            if one.nest[0] is not loop:
                continue
            saved = dict(self.state.numbers)
            first: dict[scf.ForOp, Number] = {}
            for inner in one.nest:
                bounds = bounds_of_loop(inner)
                assert bounds is not None
                first[inner] = bounds[0]
            block = self._place(one, first)
            layout = self._layout(one.value, block)
            base = self._allocate(one.value, layout)
            self._buffers[one.value] = _Buffer(one, layout, base, self.state.e.variable(0))
            self._configure(block, layout)
            self._load(block, layout, base, None)
            self.state.numbers = saved

    def _place(self, prefetch: Prefetch, at: dict[scf.ForOp, Number]) -> InMemory:
        """Where the block lies in the round of given loop numbers; overwrites numbers of the nest."""
        numbers = self.state.numbers
        for loop, ops in zip(prefetch.nest, prefetch.slices, strict=True):
            numbers[loop.body.block.args[0]] = at[loop]
            for op in ops:
                operands = [numbers[operand] for operand in op.operands]
                numbers[op.results[0]] = scalar_operation(self.state.e, op, operands)
        return self.state.in_memory(prefetch.load)

    def begin(self, loop: scf.ForOp) -> None:
        """At the start of a round, its number being known: prepare the loads for the next one."""
        for buffer in self._of(loop):
            e, prefetch = self.state.e, buffer.prefetch
            saved = dict(self.state.numbers)
            at, last = self._next(prefetch)
            block = self._place(prefetch, at)
            self.state.numbers = saved
            layout = buffer.layout
            buffer.now = buffer.turn.get()
            if last is True:
                continue  # the only round there is
            other = e.add(buffer.base, e.sub(layout.rows, buffer.now))
            self._configure(block, layout)
            most, total = self._loads(block, layout)

            def issue(
                number: Number, block: InMemory = block, layout: Layout = layout, other: Number = other
            ) -> None:
                self._load(block, layout, other, number)

            buffer.pending = Pending(issue, most, e.select(last, 0, total), e.variable(0))

    def _next(self, prefetch: Prefetch) -> tuple[dict[scf.ForOp, Number], Condition]:
        """Loop numbers of the round after this one, and whether there is none."""
        e = self.state.e
        carry: Condition = True
        at: dict[scf.ForOp, Number] = {}
        for loop in reversed(prefetch.nest):
            bounds = bounds_of_loop(loop)
            assert bounds is not None
            lower, upper, step = bounds
            now = self.state.numbers[loop.body.block.args[0]]
            after = e.add(now, step)
            over = e.compare("sge", after, upper)
            at[loop] = e.select(carry, e.select(over, lower, after), now)
            carry = e.both(carry, over)
        return at, carry

    def slot(self, slots: int) -> None:
        """A place between products, one of `slots`: some of what is pending is issued."""
        for buffer in self._buffers.values():
            if buffer.pending is not None:
                self._issue(buffer.pending, -(-buffer.pending.most // slots))

    def _issue(self, pending: Pending, count: int) -> None:
        e = self.state.e
        for _ in range(count):
            number = pending.done.get()
            with e.when(e.compare("slt", number, pending.total)):
                pending.issue(number)
                pending.done.set(e.add(number, 1))

    def end(self, loop: scf.ForOp) -> None:
        """At the end of a round: what has not been issued yet; the places change roles."""
        e = self.state.e
        for buffer in self._of(loop):
            pending = buffer.pending
            if pending is not None:
                with e.loop(pending.total, pending.done.get(), hint="rest") as number:
                    pending.issue(number)
            buffer.turn.set(e.sub(buffer.layout.rows, buffer.now))
            buffer.pending = None

    def row_of(self, value: SSAValue) -> tuple[Number, Layout] | None:
        """Where a prefetched block is in this round; None for a block that is not prefetched."""
        buffer = self._buffers.get(value)
        if buffer is None:
            return None
        return self.state.e.add(buffer.base, buffer.now), buffer.layout

    def _of(self, loop: scf.ForOp) -> list[_Buffer]:
        return [one for one in self._buffers.values() if one.prefetch.nest[-1] is loop]
