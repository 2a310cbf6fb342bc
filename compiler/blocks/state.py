"""What the lowering of one structured function knows while it writes commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, TensorType, i64
from xdsl.ir import Attribute, Block, SSAValue

from baco.accel.config import Accelerator
from baco.common.errors import Location
from baco.compiler.blocks.analysis import Analysis
from baco.compiler.blocks.memory import InMemory, PlacedFactor, Record, RowAllocator, Workspace
from baco.compiler.blocks.reading import BlockLoad, Size
from baco.compiler.ir.emit import Cell, Emitter, Number


@dataclass(frozen=True)
class Buffering:
    """Copies, at most, of what a loop brings on the chip anew in every round, so that others come while one is used."""

    scratchpad: int = 2
    accumulator: int = 2


@dataclass
class LoweringState:
    """Everything the parts of the lowering share.

    Attributes:
        e: writes the program.
        numbers: emitted numbers by scalar value.
        arguments: byte addresses by `memref` argument.
        records: what each block is.
        placed: factors in the scratchpad.
        tables: first bytes of softmaxes' tables in the workspace, by their scales.
        spills: blocks of the accumulator that have been copied to main memory, by value.
        depth: loops around the present point.
    """

    e: Emitter
    accelerator: Accelerator
    analysis: Analysis
    buffering: Buffering
    scratchpad: RowAllocator
    accumulator: RowAllocator
    workspace: Workspace
    numbers: dict[SSAValue, Number] = field(default_factory=dict)
    arguments: dict[SSAValue, Number] = field(default_factory=dict)
    records: dict[SSAValue, Record] = field(default_factory=dict)
    placed: dict[SSAValue, PlacedFactor] = field(default_factory=dict)
    tables: dict[Attribute, int] = field(default_factory=dict)
    spills: dict[SSAValue, InMemory] = field(default_factory=dict)
    depth: int = 0

    def number(self, size: Size) -> Number:
        """A size of the structured level as a number of the program."""
        return size if isinstance(size, int) else self.numbers[size]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """The body of a loop: what is allocated and spilled inside is gone afterwards."""
        marks = self.scratchpad.mark(), self.accumulator.mark()
        spills = dict(self.spills)
        self.depth += 1
        yield
        self.depth -= 1
        self.spills = spills
        self.scratchpad.release(marks[0])
        self.accumulator.release(marks[1])

    def in_memory(self, load: BlockLoad) -> InMemory:
        """A block where it is loaded from."""
        e = self.e
        address = e.add(self.arguments[load.source], e.mul(self.number(load.offset), load.bits // 8))
        return InMemory(
            address,
            tuple(map(self.number, load.strides)),
            tuple(map(self.number, load.sizes)),
            tuple(map(self.number, load.low)),
            load.shape,
            load.bits,
            load.other,
        )

    def temporary(self, shape: Sequence[int], bits: int) -> InMemory:
        """Room for a dense block in the workspace."""
        strides = [1]
        for size in reversed(shape[1:]):
            strides.insert(0, strides[0] * size)
        offset = self.workspace.allocate(strides[0] * shape[0] * bits // 8)
        address = self.e.add(self.workspace.address, offset)
        return InMemory(address, tuple(strides), tuple(shape), (0,) * len(shape), tuple(shape), bits)

    def rotating(
        self,
        memory: RowAllocator,
        rows: int,
        copies: int,
        what: str,
        *,
        top: bool = False,
        location: Location | None = None,
    ) -> Number:
        """First row of room for a block; inside a loop the copies take turns."""
        copies = copies if self.depth else 1
        base = memory.allocate(rows * copies, what, top=top, location=location)
        if copies == 1:
            return base
        turn: Cell = self._entry_variable(rows)
        now = self.e.sub(rows, turn.get())
        turn.set(now)
        return self.e.add(base, now)

    def _entry_variable(self, initial: int) -> Cell:
        """A variable that is set once, where the function begins."""
        entry = self.workspace.address.owner
        assert isinstance(entry, Block)
        cell = memref.AllocaOp.get(i64, None, [1])
        zero = arith.ConstantOp.from_int_and_width(0, IndexType())
        first = arith.ConstantOp.from_int_and_width(initial, i64)
        ops = [cell, zero, first, memref.StoreOp.get(first, cell, [zero])]
        if entry.first_op is None:
            entry.add_ops(ops)
        else:
            entry.insert_ops_before(ops, entry.first_op)
        return Cell(self.e, cell.memref)


def bytes_of(value: SSAValue) -> int:
    """Of an element of a block in main memory."""
    kind = value.type
    element = kind.element_type if isinstance(kind, TensorType | MemRefType) else kind
    return max(element.width.data, 8) // 8 if isinstance(element, IntegerType) else 8
