"""Two products of which the second reads what the first wrote, as one unit: what is computed, and how it is tiled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from baco.accel.config import Accelerator
from baco.accel.dataflows import DATAFLOWS
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.layers.layer import Layer

#: Bytes a row that one load may bring, by Gemmini's C header.
_LOAD_BYTES = 64
#: Rows of the array's side that are softmaxed in the scratchpad at once: a part, since tiles on their way wait meanwhile.
SOFTMAX_PARTS = 4


@dataclass(frozen=True)
class ProductChain:
    """out = second(between(first(input))), for every group: products of the same groups and rows.

    Attributes:
        first, second: products with int8 results and no residual, pooling or bias; the first one's K is the second one's C.
            How the first one's results would lie in memory does not matter.
        softmax: rows of the first one's results are softmaxed.
        causal: with softmax: how many elements of a group's first row take part, one more in every further row; None: all.
    """

    first: Layer
    second: Layer
    softmax: bool = False
    causal: int | None = None

    def __post_init__(self) -> None:
        one, two = self.first.problem, self.second.problem
        for layer in (self.first, self.second):
            if not layer.is_product or layer.problem.N > 1 or layer.scale is None:
                raise InputError("a chain is made of products with int8 results")
            if layer.bias or layer.pooling or layer.residual_scale is not None:
                raise InputError("products of a chain have neither bias nor residual nor pooling")
        if (one.K, one.P, one.groups) != (two.C, two.P, two.groups):
            raise InputError(
                "products of a chain have the same groups and rows, and the first one's K is the second one's C"
            )
        if self.causal is not None and not self.softmax:
            raise InputError("only a softmax is causal")

    def __str__(self) -> str:
        between = " softmax" if self.softmax else ""
        return f"{self.first.problem} >{between} {self.second.problem}"

    @property
    def layers(self) -> tuple[Layer, Layer]:
        """Both products."""
        return self.first, self.second

    @property
    def rows(self) -> int:
        """Of a group."""
        return self.first.problem.P

    @property
    def depth(self) -> int:
        """Of the first product."""
        return self.first.problem.C

    @property
    def between(self) -> int:
        """Columns of what stays on chip."""
        return self.first.problem.K

    @property
    def columns(self) -> int:
        """Of the result."""
        return self.second.problem.K

    @property
    def groups(self) -> int:
        """Independent chains."""
        return self.first.problem.groups


@dataclass(frozen=True)
class ChainSchedule:
    """How a chain of products is tiled: strips of rows, and in each tiles of what lies between.

    Attributes:
        rows: of a strip, a multiple of the array's side; or fewer than that, of a chain with a softmax, where the accumulator
            does not hold whole rows of `side` elements each: then blocks of columns lie as many rows apart there.
        columns: of a tile of what lies between, a multiple of the array's side that divides all of them, or all of them. A softmax
            takes whole rows, from the accumulator if they are one tile; scores that come in several tiles (`staged`)
            wait for the rest of their row in the scratchpad, as the int8 elements that a softmax sees either way.
        weights: right operands stay for a whole `group`, or come with every `tile`.
        copies: of right operands, of sums of the first product, and of the second.
    """

    rows: int
    columns: int
    weights: Literal["group", "tile"]
    copies: tuple[int, int, int]

    def staged(self, chain: ProductChain) -> bool:
        """Whether rows of scores come in tiles, and are softmaxed in the scratchpad once whole."""
        return chain.softmax and self.columns < chain.between

    def apart(self, dim: int) -> int:
        """Accumulator rows from one block of columns to the next, on an array of side `dim`."""
        return min(self.rows, dim)

    def seen(self, chain: ProductChain, dim: int) -> list[int]:
        """Of every strip of a group, blocks of a tile's columns of which any of its rows sees an element, on an array of side `dim`, or
        such tiles if scores come in several: with a causal softmax those behind are neither computed nor multiplied by."""
        strips = -(-chain.rows // self.rows)
        blocks, width = -(-self.columns // dim), dim
        if self.staged(chain):
            blocks, width = chain.between // self.columns, self.columns
        if chain.causal is None:
            return [blocks] * strips
        return [min(blocks, -(-(chain.causal - 1 + n * self.rows) // width)) for n in range(1, strips + 1)]

    def __str__(self) -> str:
        return f"chain {self.rows}x{self.columns} weights of a {self.weights} copies {','.join(map(str, self.copies))}"


@dataclass(frozen=True)
class Stored:
    """A right operand in the scratchpad: blocks of the array's side, those of the same rows one behind the other, so that the rows
    that a load brings lie together and nobody waits for them who reads others.

    Attributes:
        rows, columns: as in memory.
        dim: side of the array.
        wide: blocks that one load brings.
    """

    rows: int
    columns: int
    dim: int
    wide: int

    @property
    def height(self) -> int:
        """Scratchpad rows."""
        return self.chunk * -(-self.rows // self.dim)

    @property
    def chunk(self) -> int:
        """Scratchpad rows of the blocks of the same rows."""
        return self.dim * -(-self.columns // self.dim)

    @property
    def loads(self) -> tuple[int, int]:
        """Chunks of rows and of columns that are loaded one by one."""
        return -(-self.rows // self.dim), -(-self.columns // (self.wide * self.dim))


def stored(chain: ProductChain, schedule: ChainSchedule, accelerator: Accelerator) -> tuple[Stored, Stored]:
    """What is loaded at once of the right operands of the first and of the second product."""
    dim = accelerator.dim
    between = schedule.columns if schedule.weights == "tile" else chain.between
    wide = max(1, min(_LOAD_BYTES, max(4 * dim, accelerator.dma_max_bytes)) // dim)
    first, second = (chain.depth, between), (between, chain.columns)
    if chain.first.weights_transposed:
        first = first[::-1]
    if chain.second.weights_transposed:
        second = second[::-1]
    return Stored(*first, dim, wide), Stored(*second, dim, wide)


@dataclass(frozen=True)
class ChainMemory:
    """First rows of everything in the local memories, by copy; and rows used.

    Attributes:
        left: strips of the first left operand.
        between: tiles of what lies between.
        scores: strips of whole rows of scores that are to be softmaxed; empty unless they come in tiles.
        first, second: right operands.
        sums, results: of the first and the second product, in the accumulator.
        scratchpad_rows, accumulator_rows: used.
    """

    left: tuple[int, ...]
    between: tuple[int, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    sums: tuple[int, ...]
    results: tuple[int, ...]
    scratchpad_rows: int
    accumulator_rows: int
    scores: tuple[int, ...] = ()


def multiplies_by(accelerator: Accelerator) -> int:
    """The value of CONFIG_EX's field for products whose weights stay and whose sums go to the accumulator, from where they are
    stored as int8, as groups need them. Raises InfeasibleError for an accelerator without."""
    for name in accelerator.dataflows:
        rule = DATAFLOWS[name]
        if not rule.sums_stay and rule.execute is not None and accelerator.features.read_small_width:
            return rule.config_ex
    raise InfeasibleError(f"{accelerator.name} has no weight-stationary array with int8 results")


def _regions(
    chain: ProductChain, schedule: ChainSchedule, accelerator: Accelerator
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """What lies in scratchpad and accumulator, as (rows, copies): right operands, strips and tiles of what lies between, of
    scores in tiles whole strips; results and sums."""
    dim = accelerator.dim
    weights, sums, results = schedule.copies
    first, second = stored(chain, schedule, accelerator)
    depth, between, right = (
        math.ceil(extent / dim) for extent in (chain.depth, schedule.columns, chain.columns)
    )
    kept = max(schedule.rows, dim)  # in the scratchpad, blocks always lie a side apart
    scratchpad = [(first.height, weights), (second.height, weights), (kept * depth, 2)]
    if schedule.staged(chain):
        scratchpad.append((kept * math.ceil(chain.between / dim), 3))
    else:
        scratchpad.append((kept * between, 2))
    return scratchpad, [(schedule.rows * right, results), (schedule.rows * between, sums)]


def chain_rows(chain: ProductChain, schedule: ChainSchedule, accelerator: Accelerator) -> tuple[int, int]:
    """Rows of scratchpad and accumulator that a schedule needs on arrays of the accelerator's side."""
    scratchpad, accumulator = (
        sum(rows * copies for rows, copies in regions) for regions in _regions(chain, schedule, accelerator)
    )
    return scratchpad, accumulator


def place_chain(chain: ProductChain, schedule: ChainSchedule, accelerator: Accelerator) -> ChainMemory:
    """Where everything lies. Raises InfeasibleError for a schedule that does not fit the chain or the accelerator."""
    dim = accelerator.dim
    whole = schedule.columns == chain.between
    few = schedule.rows < dim and chain.softmax
    if (schedule.rows % dim and not few) or not (
        whole or (schedule.columns % dim == 0 and chain.between % schedule.columns == 0)
    ):
        raise InfeasibleError(
            f"{schedule} does not divide a chain of {chain.rows} rows and {chain.between} columns"
        )
    if schedule.staged(chain) and (few or schedule.weights != "tile" or schedule.copies[:2] != (2, 2)):
        raise InfeasibleError(
            "scores in tiles need whole strips, and two copies of their sums, and of weights, which come with every tile"
        )
    if chain.softmax and not accelerator.features.row_functions:
        raise InfeasibleError(f"{accelerator.name} has no units for functions of rows")
    multiplies_by(accelerator)
    scratchpad, accumulator = _regions(chain, schedule, accelerator)
    places = []
    for what, regions, there, banks in (
        ("scratchpad", scratchpad, accelerator.scratchpad_rows, accelerator.scratchpad_banks),
        ("accumulator", accumulator, accelerator.accumulator_rows, accelerator.accumulator_banks),
    ):
        used = sum(rows * copies for rows, copies in regions)
        if used > there:
            raise InfeasibleError(
                f"{schedule} takes {used} rows of the {what}, {used - there} more than its {there}"
            )
        places.append(_starts(regions, there, there // banks))
    (one, two, strips, tiles), (ends, middles) = places
    scores: tuple[int, ...] = ()
    if schedule.staged(chain):
        # quarters of the scratchpad share banks with the next but one: those of scores are not that of left and right operands
        scores, tiles = tiles[::2], tiles[1:2]
    used_rows = [
        max(starts[-1] + rows for starts, (rows, _) in zip(found, regions, strict=True))
        for found, regions in zip(places, (scratchpad, accumulator), strict=True)
    ]
    return ChainMemory(strips, tiles, one, two, middles, ends, used_rows[0], used_rows[1], scores)


def _starts(regions: list[tuple[int, int]], rows: int, bank: int) -> list[tuple[int, ...]]:
    """First rows of every region's copies, in (rows, copies): one behind the other; of the last region each copy in a bank of
    its own at the end if there is room, since it is written while what it was before and all the others are read."""
    at, found = 0, []
    for size, copies in regions:
        found.append(tuple(at + n * size for n in range(copies)))
        at += size * copies
    size, copies = regions[-1]
    apart = tuple(max(found[-1][0], rows - bank * (copies - n)) for n in range(copies))
    ends = [start + size for start in apart]
    if all(end <= start for end, start in zip(ends, (*apart[1:], rows), strict=True)):
        found[-1] = apart
    return found
