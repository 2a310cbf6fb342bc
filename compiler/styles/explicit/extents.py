"""Blocks, tiles, loops and runs of a mapping in numbers, from which explicit code is written and its commands are counted.

Levels of tiles: the *block* in the scratchpad (level 2 of the mapping) holds weights and inputs; the *tile* in the
accumulator (level 1) holds results. Blocks follow each other in the mapping's loops of level 3, tiles inside a block in
those of level 2. All reduction that a block has is done while a tile is visited: loops of level 2 over R, S, C are
taken innermost there, which never moves more. What happens inside a tile is the business of the array's passes.

Numbers are integers for the one layer that code is written for (`baco.compiler.styles.explicit.plan`), tensors for many layers
that are predicted (`baco.compiler.latency`). Sums over all blocks or tiles along a dimension are exact, partial ones included,
since what is summed up is a product of functions of single dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import Any, Self

from baco.accel.dataflows import RELEVANT
from baco.compiler.analysis.arrays import CountArrays, Parts, Values
from baco.workloads.problem import DIMS

REDUCTION, PIXELS = ("R", "S", "C"), ("P", "Q", "N")
#: Dimensions of the results.
RESULT = ("N", "Q", "P", "K")
#: Bytes a row that one load may bring, by Gemmini's C header, whatever the accelerator's bus.
LOAD_BYTES = 64
#: Largest block stride and operand stride that the configuration commands hold.
LARGEST_STRIDE = (1 << 16) - 1
#: A loop runs if it has at least so many steps: relaxed ones between 1 and this do not.
LOOP = 1.5
#: Rank of a loop that does not run.
NONE = 1000.0

Function = Callable[[Values], Values]
#: A number for each dimension.
Extents = Dictionary[str, Values]


def product(factors: Sequence[Values]) -> Values:
    """Of one number or more."""
    return reduce(lambda a, b: a * b, factors)


@dataclass(frozen=True)
class ImageAxis:
    """Positions of one image direction that a block keeps.

    Local position j is pixel `start * stride + first * dilation - padding + j * step` of the image, where `start` is the
    block's first result and `first` its first window position; result o and window position w meet at
    `o * result + w * window`.

    Attributes:
        step: pixels of the image between neighbours; more than 1 where the window leaves pixels out.
        result, window: local positions between neighbouring results and window positions.
        extent: positions of a full block.
    """

    step: Values
    result: Values
    window: Values
    extent: Values

    @staticmethod
    def of(a: CountArrays, results: Values, window: Values, stride: Values, dilation: Values) -> ImageAxis:
        """Of a full block: only pixels that some result meets."""
        apart = a.where(window < LOOP, 0 * dilation, dilation)
        further = a.where(results < LOOP, 0 * stride, stride)
        step = a.step(further, apart)
        result, inside = a.pieces(further, step), a.pieces(apart, step)
        return ImageAxis(step, result, inside, (results - 1) * result + (window - 1) * inside + 1)

    def positions(self, results: Values, window: Values) -> Values:
        """Of so many results and window positions."""
        return (results - 1) * self.result + (window - 1) * self.window + 1


@dataclass(frozen=True)
class NestedRun:
    """Elements that follow each other along nested dimensions, like pixels of rows of images.

    Attributes:
        names: the dimensions, innermost first.
        joins: whether runs go on along the second dimension, and along the third.
    """

    names: tuple[str, str, str]
    joins: tuple[Values, Values]

    @property
    def along(self) -> tuple[str, ...]:
        """The dimensions that a run goes along, of one layer."""
        return self.names[: 1 + sum(map(bool, self.joins))]

    def choose(self, a: CountArrays, first: Values, second: Values, third: Values) -> Values:
        """What belongs to the outermost dimension that a run goes along."""
        return a.where(self.joins[1], third, a.where(self.joins[0], second, first))


@dataclass(frozen=True)
class PassRows:
    """Which pixels of a tile are the rows of a pass: those of a run, or neighbours in a column or across images.

    Attributes:
        run: along rows of pixels, and on along columns and images where nothing lies between, in I and in the tile.
        down, across: whether they are neighbours in a column, or across images, instead; not both.
    """

    run: NestedRun
    down: Values
    across: Values

    @property
    def along(self) -> tuple[str, ...]:
        """The dimensions that they go along, of one layer."""
        return ("N",) if self.across else ("Q",) if self.down else self.run.along

    def choose(self, a: CountArrays, run: Values, down: Values, across: Values) -> Values:
        """What belongs to the chosen way."""
        return a.where(self.across, across, a.where(self.down, down, run))


@dataclass(frozen=True)
class Tiling:
    """A mapping for a layer on an accelerator, or many: extents in elements by dimension, pixel rows merged to one where nothing
    tells them apart.

    Attributes:
        a: what numbers they are.
        bounds: of one group.
        block, tile: extents in the scratchpad and, of results, in the accumulator, nowhere beyond the bounds.
        steps: blocks along each dimension.
        tile_steps: tiles of a full block along each dimension of the results.
        rank: place of each loop over blocks, innermost smallest; `NONE` for one that does not run.
        weights_stay: whether weights stay in the array, not sums.
        transposed: whether weights are stored transposed.
        groups: of the layer.
        copies: of the (W, I, O) tiles that are really used.
        dim, depth: side of the array, channels of C that one pass takes.
        chain: passes in a row that may sum up in the array.
        load_blocks: blocks of the array's side that one load brings at most.
        weight_panel: columns of a panel of weights in blocks with shared powers (`WeightBlocks`), 0 for weights as they are.
        row, column: of the input image that a block keeps.
    """

    a: CountArrays
    bounds: Extents
    block: Extents
    tile: Extents
    steps: Extents
    tile_steps: Extents
    rank: Extents
    weights_stay: Values
    transposed: Values
    groups: Values
    copies: tuple[Values, Values, Values]
    dim: Values
    depth: Values
    chain: Values
    load_blocks: Values
    weight_panel: Values
    row: ImageAxis
    column: ImageAxis

    @classmethod
    def make(
        cls,
        a: CountArrays,
        problem: Any,
        bounds: Extents,
        block: Extents,
        tile: Extents,
        rank: Extents,
        copies: Sequence[Values],
        **more: Any,
    ) -> Self:
        """The tiling of extents that are within the bounds.

        Args:
            problem: has strides, dilations and groups.
            rank: place of each dimension in the order of the loops over blocks.
            copies: that the mapping has of the (W, I, O) tiles; where a tile never changes, one is enough.
            more: all other fields.
        """
        steps = {name: a.pieces(bounds[name], block[name]) for name in DIMS}
        runs = {name: steps[name] >= LOOP for name in DIMS}
        grouped = problem.groups > 1
        tile_steps = {name: a.pieces(block[name], tile[name]) for name in RESULT}
        changes = (
            [runs[name] for name in RELEVANT["W"]],
            [runs[name] for name in RELEVANT["I"]],
            [*(runs[name] for name in RELEVANT["O"]), *(count >= LOOP for count in tile_steps.values())],
        )
        w, i, o = (
            a.where(reduce(lambda x, y: x | y, any_of, grouped), count, 0 * count + 1)
            for any_of, count in zip(changes, copies, strict=True)
        )
        return cls(
            a=a,
            bounds=bounds,
            block=block,
            tile=tile,
            steps=steps,
            tile_steps=tile_steps,
            rank={name: a.where(runs[name], rank[name], NONE) for name in DIMS},
            groups=problem.groups,
            copies=(w, i, o),
            row=ImageAxis.of(a, block["Q"], block["S"], problem.stride_h, problem.dilation_h),
            column=ImageAxis.of(a, block["P"], block["R"], problem.stride_w, problem.dilation_w),
            **more,
        )

    # ---------------------------------------------------------------- sums

    @cached_property
    def _blocks(self) -> Dictionary[str, Parts]:
        """Blocks along each dimension."""
        return {name: self.a.parts(self.bounds[name], self.block[name]) for name in DIMS}

    @cached_property
    def _tiles(self) -> Dictionary[str, Parts]:
        """The same of the results, a block being the tiles along it."""
        return {name: self._blocks[name].each(partial(self._in_tiles, name)) for name in RESULT}

    def _in_tiles(self, name: str, extent: Values) -> Parts:
        return self.a.parts(extent, self.tile[name])

    def over_blocks(self, name: str, of: Function) -> Values:
        """Sum of `of(extent)` over the blocks along a dimension. `of(0)` must be 0."""
        return self._blocks[name].total(of)

    def over_tiles(self, name: str, of: Function) -> Values:
        """Sum of `of(extent)` over the tiles along a dimension, in all its blocks. `of(0)` must be 0."""
        of_tile = of(self.tile[name])
        return self._tiles[name].total(lambda tiles: tiles.total(of, of_tile))

    def pairs(self, name: str, other: str, of: Callable[[Values, Values], Values]) -> Parts:
        """Blocks along one dimension, in place of each the blocks along another, and of these `of(extent, extent)`."""
        return self._blocks[name].each(lambda x: self._blocks[other].each(lambda y: of(x, y)))

    def chunks(self, size: Values) -> Function:
        """How many pieces of at most `size` something takes."""
        return lambda x: self.a.pieces(x, size)

    def counted(self, name: str) -> Values:
        """Tiles along a dimension of the results, in all its blocks."""
        return self.over_blocks(name, self.chunks(self.tile[name]))

    def nested_chunks(
        self, names: Sequence[str], over: Callable[[str, Function], Values]
    ) -> tuple[Values, Values, Values]:
        """Pieces of at most the array's side of all runs along the first of three dimensions, innermost first, along two, and along
        all: of blocks or tiles, as `over` sums."""
        by_dim, bounds, (x, y, z) = self.chunks(self.dim), self.bounds, names
        return (
            over(x, by_dim) * bounds[y] * bounds[z],
            over(y, lambda extent: by_dim(extent * bounds[x])) * bounds[z],
            over(z, lambda extent: by_dim(extent * bounds[x] * bounds[y])),
        )

    def nested_count(self, names: Sequence[str], parts: Extents) -> tuple[Values, Values, Values]:
        """These runs, of so many blocks or tiles along each dimension."""
        bounds, (x, y, z) = self.bounds, names
        return parts[x] * bounds[y] * bounds[z], parts[y] * bounds[z], parts[z]

    @cached_property
    def pixel_chunks(self) -> tuple[Values, Values, Values]:
        """Pieces of at most the array's side of runs of pixels of all tiles."""
        return self.nested_chunks(PIXELS, self.over_tiles)

    @cached_property
    def pixel_runs(self) -> tuple[Values, Values, Values]:
        """Runs of pixels of all tiles."""
        return self.nested_count(PIXELS, self.tiles_counted)

    @cached_property
    def depth_chunks(self) -> Parts:
        """Blocks along C, as how many pieces of the depth of a pass each is."""
        return self._blocks["C"].each(self.chunks(self.depth))

    @cached_property
    def column_blocks(self) -> Values:
        """Column blocks of all tiles, of the array's side."""
        return self.over_tiles("K", self.chunks(self.dim))

    # ---------------------------------------------------------------- loops

    def lowest(self, names: Sequence[str]) -> Values:
        """Rank of the innermost loop over blocks among some; `NONE` if none runs."""
        return reduce(self.a.smaller, [self.rank[name] for name in names])

    def repeats(self, relevant: Sequence[str]) -> Values:
        """How often every block of a tensor is brought: once for each step of the other loops outside the innermost
        one that changes it."""
        first = self.lowest(relevant)
        times = [
            self.a.where((self.rank[name] > first) & self.runs[name], self.steps[name], 1)
            for name in DIMS
            if name not in relevant
        ]
        return product(times)

    @cached_property
    def runs(self) -> Extents:
        """Whether the loop over blocks along each dimension runs."""
        return {name: rank < NONE for name, rank in self.rank.items()}

    @cached_property
    def holds(self) -> Extents:
        """By dimension of the reduction, whether a tile stays in the accumulator for that loop over blocks: for the innermost
        ones, if a block is one tile."""
        outer = self.lowest(RESULT)
        single = reduce(lambda x, y: x & y, [count < LOOP for count in self.tile_steps.values()])
        return {name: single & (self.rank[name] < outer) for name in REDUCTION}

    @cached_property
    def times_left(self) -> Values:
        """How often a tile leaves the accumulator: once for each step of the reduction loops that it is not held for."""
        steps = [(self.holds[name] | (self.steps[name] < LOOP), self.steps[name]) for name in REDUCTION]
        return product([self.a.where(stays, 1, count) for stays, count in steps])

    @cached_property
    def tiles_counted(self) -> Extents:
        """Tiles along each dimension of the results, in all blocks."""
        return {name: self.counted(name) for name in RESULT}

    @property
    def visits(self) -> Values:
        """Tiles visited in all groups, counted again for every block they are visited in."""
        return self.groups * product([*self.tiles_counted.values(), *(self.steps[d] for d in REDUCTION)])

    # ---------------------------------------------------------------- runs

    def _whole(self, name: str, part: Extents) -> Values:
        return self.a.equal(part[name], self.bounds[name])

    @cached_property
    def weight_run(self) -> NestedRun:
        """Rows of weights of a block that follow each other in memory."""
        whole_depth = self._whole("C", self.block)
        return NestedRun(("C", "R", "S"), (whole_depth, whole_depth & self._whole("R", self.block)))

    @cached_property
    def result_run(self) -> NestedRun:
        """Pixels of a tile that follow each other in memory and in the tile."""
        whole_row = self._whole("P", self.tile)
        return NestedRun(PIXELS, (whole_row, whole_row & self._whole("Q", self.tile)))

    @cached_property
    def distance(self) -> dict[str, tuple[Values, Values]]:
        """Rows of I and of the tile from one pixel to the next along each dimension."""
        tile, line = self.tile, self.column.extent
        return {
            "P": (self.column.result, 1),
            "Q": (self.row.result * line, tile["P"]),
            "N": (self.row.extent * line, tile["P"] * tile["Q"]),
        }

    @cached_property
    def pass_rows(self) -> PassRows:
        """The rows of a pass: as few passes as can be, evenly spaced rows of I, and neighbours in the tile where sums stay."""
        a, tile, distance, memory = self.a, self.tile, self.distance, self.result_run
        joins_q = memory.joins[0] & a.equal(distance["Q"][0], tile["P"] * distance["P"][0])
        joins_n = joins_q & memory.joins[1] & a.equal(distance["N"][0], tile["Q"] * distance["Q"][0])
        run = NestedRun(PIXELS, (joins_q, joins_n))

        def allowed(name: str) -> Values:
            image, result = distance[name]
            near = (image <= LARGEST_STRIDE) & (result <= LARGEST_STRIDE)
            return near & (self.weights_stay | (result < LOOP))

        along = run.choose(
            a,
            self.tile_passes(("P",)),
            self.tile_passes(("P", "Q")),
            self.tile_passes(("P", "Q", "N")),
        )
        along_q = self.tile_passes(("Q",))
        down = allowed("Q") & (along_q < along)
        across = allowed("N") & (self.tile_passes(("N",)) < a.where(down, along_q, along))
        return PassRows(run, down, across)

    def tile_passes(self, names: Sequence[str]) -> Values:
        """Passes over the pixels of a full tile whose rows go along some dimensions."""
        tile = self.tile
        others = [tile[name] for name in PIXELS if name not in names]
        return product([self.a.pieces(product([tile[name] for name in names]), self.dim), *others])

    # ---------------------------------------------------------------- loads

    @property
    def tiles_apart(self) -> Values:
        """Whether columns of W are loaded by tiles, since these end inside a row of the array."""
        return (self.block["K"] > self.tile["K"]) & (self.tile["K"] % self.dim > 1e-3)

    @property
    def window_rows(self) -> Values:
        """Scratchpad rows of the weights of one column block, not transposed: window position and channel."""
        return self.block["S"] * self.block["R"] * self.block["C"]

    @property
    def weight_distance(self) -> Values:
        """Scratchpad rows from one block of columns (transposed: of channels) of W to the next."""
        return self.a.where(self.transposed, self.block["K"], self.window_rows)

    @property
    def weight_unit(self) -> Values:
        """Columns of a row of W in the scratchpad."""
        return self.a.where(self.transposed, self.depth, self.dim)

    @property
    def wide_weights(self) -> Values:
        """Whether one load may bring weights of several blocks of columns."""
        return (self.weight_distance <= LARGEST_STRIDE) & (self.weight_unit >= self.dim)

    @property
    def weight_width(self) -> Values:
        """Columns that one load of weights brings at most."""
        width = self.weight_unit * self.a.where(self.wide_weights, self.load_blocks, 1)
        return self.a.where(self.weight_panel > 0, self.a.smaller(width, self.weight_panel), width)

    @property
    def pixels_in(self) -> Values:
        """Rows of one channel block of I in a block."""
        return self.block["N"] * self.row.extent * self.column.extent

    @property
    def wide_inputs(self) -> Values:
        """Whether one load may bring several blocks of channels."""
        return (self.pixels_in <= LARGEST_STRIDE) & (self.depth >= self.dim)

    @property
    def input_width(self) -> Values:
        """Channels that one load of inputs brings at most."""
        return self.depth * self.a.where(self.wide_inputs, self.load_blocks, 1)

    @property
    def lines_inside(self) -> Values:
        """Whether the loop over lines of a block of I goes inside that over pieces of a line: the longer one does, since its
        steps cost the host core the least."""
        return self.row.extent > self.a.pieces(self.column.extent, self.dim)


def load_blocks(a: CountArrays, dim: Values, request: Values, element: Values) -> Values:
    """Blocks of the array's side that one load brings at most, of elements of `element` bytes, where memory has requests of `request`
    bytes."""
    widest = a.at_most(a.larger(4 * dim, request), LOAD_BYTES)
    return a.at_least(widest // (dim * element), 1)


def merge_rows(
    a: CountArrays, plain: Values, extents: Sequence[dict[str, Values]], ranks: Sequence[dict[str, Values]]
) -> None:
    """Make rows of pixels, then images, one long row, if a tile has whole ones and nothing depends on the place.

    Changes all in place: the merged loop takes the place of the one over rows or images, since that over P ran once.

    Args:
        plain: `Layer.plain`.
        extents: bounds, block and tile.
        ranks: places of dimensions in orders of loops.
    """
    bounds, _, tile = extents
    for name in ("Q", "N"):
        plain = plain & (a.equal(tile["P"], bounds["P"]) | (bounds[name] == 1))
        merged = plain & (bounds[name] > 1)
        for sizes in extents:
            both, single = sizes["P"] * sizes[name], 0 * sizes[name] + 1
            sizes["P"], sizes[name] = a.where(merged, both, sizes["P"]), a.where(merged, single, sizes[name])
        for rank in ranks:
            row, other = rank["P"], rank[name]
            rank["P"], rank[name] = a.where(merged, other, row), a.where(merged, row, other)
