"""What a mapping asks for, worked out for one layer and one accelerator: tiles, loops, layouts in local memory.

Levels of tiles: the *block* in the scratchpad (level 2 of the mapping) holds weights and inputs; the *tile* in the
accumulator (level 1) holds results. Blocks follow each other in the mapping's loops of level 3, tiles inside a block in
those of level 2. All reduction that a block has is done while a tile is visited: loops of level 2 over R, S, C are
taken innermost there, which never moves more. What happens inside a tile is the business of the array's passes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass, replace
from functools import cached_property

from baco.accel.config import Accelerator
from baco.accel.dataflows import RELEVANT, Dataflow, check_executable
from baco.common.errors import InfeasibleError
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.compiler.schedules.trip import Trip
from baco.workloads.problem import DIMS

#: Loop over the groups of a layer, outside all others.
GROUP = "G"
REDUCTION = ("R", "S", "C")
#: Dimensions of the results.
RESULT = ("N", "Q", "P", "K")
#: Bytes a row that one load may bring, by Gemmini's C header, whatever the accelerator's bus.
LOAD_BYTES = 64
#: Largest block stride and operand stride that the configuration commands hold.
LARGEST_STRIDE = (1 << 16) - 1
#: Largest product of two 8-bit numbers.
_PRODUCT = 128 * 128


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

    step: int
    result: int
    window: int
    extent: int


@dataclass(frozen=True)
class ExplicitPlan:
    """A mapping for a layer on an accelerator. Extents are in elements, sizes of memories in rows of the array's side.

    Attributes:
        layer: the layer, neighbouring rows of pixels merged to one where nothing tells them apart.
        accelerator: what it runs on.
        dataflow: how the array multiplies.
        bounds: of one group.
        last: bounds in the last group that differ.
        block, tile: extents in the scratchpad and in the accumulator, nowhere beyond the bounds.
        blocks: loops over blocks that run more than once, outermost first, the one over groups included.
        tiles: loops over tiles in a block likewise.
        copies: of the (W, I, O) tiles.
        depth: channels of C that one pass takes.
        row, column: of the input image that a block keeps.
    """

    layer: Layer
    accelerator: Accelerator
    dataflow: Dataflow
    bounds: Dictionary[str, int]
    last: Dictionary[str, int]
    block: Dictionary[str, int]
    tile: Dictionary[str, int]
    blocks: tuple[Trip, ...]
    tiles: tuple[Trip, ...]
    copies: tuple[int, int, int]
    depth: int
    row: ImageAxis
    column: ImageAxis

    # ---------------------------------------------------------------- loops

    def trips(self, name: str) -> int:
        """How often the loop over blocks of a dimension runs."""
        return -(-self.bounds[name] // self.block[name])

    @cached_property
    def held(self) -> tuple[str, ...]:
        """Reduction loops over blocks during which a tile stays in the accumulator."""
        inside: list[str] = []
        if not self.tiles:
            for trip in reversed(self.blocks):
                if trip.name not in REDUCTION:
                    break
                inside.append(trip.name)
        return tuple(inside)

    @cached_property
    def revisits(self) -> tuple[str, ...]:
        """Reduction loops over blocks outside which a tile leaves the accumulator and comes back."""
        return tuple(t.name for t in self.blocks if t.name in REDUCTION and t.name not in self.held)

    @property
    def spills(self) -> bool:
        """Whether partial sums go through main memory."""
        return bool(self.revisits)

    def innermost(self, names: tuple[str, ...]) -> int | None:
        """Place in `blocks` of the innermost loop over one of the names, None if there is none."""
        places = [at for at, trip in enumerate(self.blocks) if trip.name in names]
        return places[-1] if places else None

    def changes(self, tensor: str) -> tuple[str, ...]:
        """Loops over blocks that bring another tile of W or I."""
        return (GROUP, *RELEVANT[tensor])

    @cached_property
    def visits(self) -> int:
        """Tiles visited in all groups, counted again for every block they are visited in."""

        def along(name: str, bound: int) -> int:
            full, rest = divmod(bound, self.block[name])
            if name in REDUCTION:
                return full + (rest > 0)
            return full * -(-self.block[name] // self.tile[name]) + -(-rest // self.tile[name])

        groups = self.layer.problem.groups
        return groups * math.prod(along(name, self.bounds[name]) for name in DIMS)

    # ---------------------------------------------------------------- scratchpad

    @property
    def load_blocks(self) -> int:
        """Blocks of the array's side that one load brings at most."""
        a = self.accelerator
        return max(1, min(LOAD_BYTES, max(4 * a.dim, a.dma_max_bytes)) // a.dim)

    @property
    def pixels_in(self) -> int:
        """Rows of one channel block of I in a block."""
        return self.block["N"] * self.row.extent * self.column.extent

    @property
    def chain(self) -> int:
        """Passes in a row that may sum up in the array, output-stationary."""
        return exact_products(self.accelerator) // self.depth

    @property
    def depth_blocks(self) -> int:
        """Channel blocks of I in a block."""
        return -(-self.block["C"] // self.depth)

    @property
    def input_rows(self) -> int:
        """Scratchpad rows of one copy of I."""
        return self.pixels_in * self.depth_blocks

    @property
    def window_rows(self) -> int:
        """Scratchpad rows of the weights of one column block, not transposed: window position and channel."""
        return self.block["S"] * self.block["R"] * self.block["C"]

    @property
    def tile_columns(self) -> int:
        """Column blocks of a tile."""
        return -(-self.tile["K"] // self.accelerator.dim)

    @property
    def block_columns(self) -> int:
        """Column blocks of a block: those of each of its tiles."""
        return -(-self.block["K"] // self.tile["K"]) * self.tile_columns

    @property
    def weight_rows(self) -> int:
        """Scratchpad rows of one copy of W."""
        if self.layer.weights_transposed:
            return self.depth_blocks * self.block["K"]
        return self.window_rows * self.block_columns

    # ---------------------------------------------------------------- accumulator

    @property
    def pixels_out(self) -> int:
        """Rows of one column block of a tile."""
        return self.tile["N"] * self.tile["Q"] * self.tile["P"]

    @property
    def result_rows(self) -> int:
        """Accumulator rows of one copy of a tile."""
        return self.pixels_out * self.tile_columns


def make_plan(
    layer: Layer,
    mapping: Mapping,
    accelerator: Accelerator,
    *,
    last: Dictionary[str, int] | None = None,
) -> ExplicitPlan:
    """The plan of a mapping.

    Args:
        layer, mapping, accelerator: what to do, how, on what.
        last: C and K of the last group where it has fewer than the others; tiles are not smaller than a group then.

    Raises InputError if the mapping does not cover the layer, InfeasibleError if the accelerator lacks what it needs.
    """
    mapping.check(layer.problem)
    dim = accelerator.dim
    if mapping.dataflow not in accelerator.dataflows:
        raise InfeasibleError(
            f"the mapping is {mapping.dataflow}, but {accelerator.name} runs {' and '.join(accelerator.dataflows)} only"
        )
    check_executable([mapping.dataflow])
    for name, used in (("rows", mapping.rows), ("columns", mapping.columns)):
        if used > dim:
            raise InfeasibleError(
                f"the mapping uses {used} {name} of the array, {used - dim} more than there are"
            )
    if accelerator.input_bits != 8 or accelerator.accumulator_bits != 32:
        raise InfeasibleError("programs are compiled for 8-bit inputs and 32-bit accumulation only")
    block, tile = mapping.tile(2), mapping.tile(1)
    tile["K"] *= mapping.columns
    problem = layer.problem
    bounds = dict(zip(DIMS, problem.bounds, strict=True))
    block = {name: min(block[name], bounds[name]) for name in DIMS}
    tile = {name: min(tile[name], block[name]) for name in RESULT}
    for name in last or ():
        block[name] = bounds[name]
        if name in tile:
            tile[name] = bounds[name]
    orders = list(mapping.order)
    layer = _merged(layer, bounds, block, tile, orders)
    problem = layer.problem
    steps = {name: -(-bounds[name] // block[name]) for name in DIMS} | {GROUP: problem.groups}
    inner = {name: -(-block[name] // tile[name]) for name in RESULT}
    blocks = [Trip(name, steps[name]) for name in (GROUP, *reversed(orders[3])) if steps[name] > 1]
    tiles = [Trip(name, inner[name]) for name in reversed(orders[2]) if inner.get(name, 1) > 1]
    names = {trip.name for trip in blocks}
    changing = (
        names & {GROUP, *RELEVANT["W"]},
        names & {GROUP, *RELEVANT["I"]},
        (names & {GROUP, *RELEVANT["O"]}) | {trip.name for trip in tiles},
    )
    copies_w, copies_i, copies_o = (
        copies if changes else 1 for copies, changes in zip(mapping.buffering, changing, strict=True)
    )
    exact = exact_products(accelerator)
    if exact < 1:
        raise InfeasibleError(
            f"partial sums of {accelerator.partial_sum_bits} bits cannot hold one product of 8-bit numbers"
        )
    return ExplicitPlan(
        layer=layer,
        accelerator=accelerator,
        dataflow=mapping.dataflow,
        bounds=bounds,
        last={name: size for name, size in (last or {}).items() if size != bounds[name]},
        block=block,
        tile=tile,
        blocks=tuple(blocks),
        tiles=tuple(tiles),
        copies=(copies_w, copies_i, copies_o),
        depth=min(dim, exact),
        row=_axis(block["Q"], block["S"], problem.stride_h, problem.dilation_h),
        column=_axis(block["P"], block["R"], problem.stride_w, problem.dilation_w),
    )


def exact_products(accelerator: Accelerator) -> int:
    """Products of 8-bit numbers whose sum never leaves the array's partial sums."""
    return ((1 << (accelerator.partial_sum_bits - 1)) - 1) // _PRODUCT


def _axis(results: int, window: int, stride: int, dilation: int) -> ImageAxis:
    """What a block keeps along one direction: only pixels that some result meets."""
    if window == 1:
        dilation = 0
    if results == 1:
        stride = 0
    step = math.gcd(stride, dilation) or 1
    result, inside = stride // step, dilation // step
    return ImageAxis(step, result, inside, (results - 1) * result + (window - 1) * inside + 1)


def _merged(
    layer: Layer, bounds: dict[str, int], block: dict[str, int], tile: dict[str, int], orders: list[str]
) -> Layer:
    """Make rows of pixels, then images, one long row, if a tile has whole ones and nothing depends on the place.

    Changes extents and loop orders in place: the merged loop takes the place of the one over rows or images, since
    that over P ran once.
    """
    problem = layer.problem
    plain = (
        problem.R == problem.S == problem.stride_w == problem.stride_h == 1
        and layer.padding == (0, 0)
        and layer.size == (problem.Q, problem.P)
        and layer.pooling is None
    )
    for name in ("Q", "N"):
        if not plain or bounds[name] == 1:
            continue
        if tile["P"] < bounds["P"]:
            break
        for extents in (bounds, block, tile):
            extents["P"] *= extents[name]
            extents[name] = 1
        orders[:] = [order.translate(str.maketrans(f"P{name}", f"{name}P")) for order in orders]
        problem = replace(problem, **{name: bounds[name], "P": bounds["P"]})
        layer = replace(layer, problem=problem, image=(problem.Q, problem.P))
    return layer
