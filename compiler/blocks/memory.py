"""Where blocks are kept while a program runs: rows of the local memories, bytes of a workspace in main memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue

from baco.common.errors import InfeasibleError, Location
from baco.compiler.ir.emit import Condition, Number


@dataclass(frozen=True)
class InMemory:
    """A block in main memory.

    Attributes:
        address: bytes, of the first element that is there.
        strides: elements.
        sizes: of the part that is there.
        low: where that part begins in the block.
        shape: of the block.
        bits: of an element.
        other: what the rest of the block holds.
    """

    address: Number
    strides: tuple[Number, ...]
    sizes: tuple[Number, ...]
    low: tuple[Number, ...]
    shape: tuple[int, ...]
    bits: int
    other: int = 0


@dataclass(frozen=True)
class Filled:
    """A block all elements of which are one number."""

    number: Number
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Computed:
    """A block that is computed, element by element, where it is used."""

    op: GenericOp


@dataclass(frozen=True)
class Accumulated:
    """A block of int32 in the accumulator: tile (i, j) of dim x dim at row `base + (i * tiles across + j) * dim`.

    Attributes:
        base: first row.
        shape: of the block.
        extents: rows and columns that anything asks for; the rest of the region is undefined.
        started: whether it holds anything yet; until then the block is zero.
    """

    base: Number
    shape: tuple[int, int]
    extents: tuple[Number, Number]
    started: Condition = True


#: What a block is at some point of the program.
Record = InMemory | Filled | Computed | Accumulated


@dataclass(frozen=True)
class PlacedFactor:
    """A factor in the scratchpad, as it lies in memory: tile (i, j) of `rows` x dim at `base + (i * across + j) * rows`.

    Attributes:
        base: first row.
        rows: of a tile, dim or the height of a lower block.
        across: tiles side by side.
        extents: rows and columns as stored; the rest of the factor is zero.
        transposed: the factor is the stored matrix transposed.
        exposed: hazards of loads and products on it are not all seen by the hardware (instruction set, 6.5 a).
    """

    base: Number
    rows: int
    across: int
    extents: tuple[Number, Number]
    transposed: bool
    exposed: bool = False


@dataclass
class RowAllocator:
    """Rows of a local memory, given out from both ends and given back in reverse order.

    Attributes:
        name: for messages.
        rows: in all.
        low, high: the free rows are low ... high - 1.
        peak: most rows in use at any time.
    """

    name: str
    rows: int
    low: int = 0
    high: int = field(init=False)
    peak: int = 0

    def __post_init__(self) -> None:
        self.high = self.rows

    def mark(self) -> tuple[int, int]:
        """What `release` returns to."""
        return self.low, self.high

    def release(self, mark: tuple[int, int]) -> None:
        """Give back everything since the mark."""
        self.low, self.high = mark

    def allocate(self, rows: int, what: str, *, top: bool = False, location: Location | None = None) -> int:
        """First row of a free range. Raises InfeasibleError, naming need and capacity, when there is none."""
        if rows > self.high - self.low:
            used = self.rows - (self.high - self.low)
            raise InfeasibleError(
                f"{what} needs {rows} rows of the {self.name}, which has {self.rows} rows, {used} of them in use",
                location=location,
                hint=f"use smaller blocks, or an accelerator with a larger {self.name}",
            )
        if top:
            self.high -= rows
            first = self.high
        else:
            first = self.low
            self.low += rows
        self.peak = max(self.peak, self.rows - (self.high - self.low))
        return first


@dataclass
class Workspace:
    """Main memory for blocks that the host core computes or that pass from one unit to another.

    Attributes:
        address: where it begins.
        bytes: given out so far.
    """

    address: SSAValue
    bytes: int = 0

    def allocate(self, size: int) -> int:
        """Offset of `size` bytes, aligned to 64, followed by room that loads may read past the end."""
        offset = self.bytes
        self.bytes += -(-size // 64) * 64
        return offset
