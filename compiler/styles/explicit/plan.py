"""What a mapping asks for, worked out for one layer and one accelerator: tiles, loops, layouts in local memory."""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from dataclasses import dataclass, replace
from functools import cached_property

from baco.accel.config import Accelerator
from baco.accel.dataflows import DATAFLOWS, RELEVANT, Dataflow, check_executable
from baco.common.errors import InfeasibleError
from baco.compiler.analysis.arrays import INTEGERS
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.compiler.schedules.trip import Trip
from baco.compiler.styles.explicit.extents import REDUCTION, RESULT, Tiling, load_blocks, merge_rows
from baco.workloads.problem import DIMS

#: Loop over the groups of a layer, outside all others.
GROUP = "G"


@dataclass(frozen=True)
class ExplicitPlan(Tiling):
    """A mapping for a layer on an accelerator, in integers. Sizes of memories are in rows of the array's side.

    Attributes:
        layer: the layer, neighbouring rows of pixels merged to one where nothing tells them apart.
        accelerator: what it runs on.
        dataflow: how the array multiplies.
        last: bounds in the last group that differ.
        tiles: loops over tiles in a block that run more than once, outermost first.
    """

    bounds: Dictionary[str, int]
    block: Dictionary[str, int]
    tile: Dictionary[str, int]
    steps: Dictionary[str, int]
    dim: int
    depth: int
    layer: Layer
    accelerator: Accelerator
    dataflow: Dataflow
    last: Dictionary[str, int]
    tiles: tuple[Trip, ...]

    # ---------------------------------------------------------------- loops

    @cached_property
    def blocks(self) -> tuple[Trip, ...]:
        """Loops over blocks that run more than once, outermost first, the one over groups included."""
        outside = sorted(DIMS, key=lambda name: -self.rank[name])
        steps = [Trip(GROUP, self.groups), *(Trip(name, self.steps[name]) for name in outside)]
        return tuple(trip for trip in steps if trip.count > 1)

    @cached_property
    def held(self) -> tuple[str, ...]:
        """Reduction loops over blocks during which a tile stays in the accumulator, innermost first."""
        return tuple(t.name for t in reversed(self.blocks) if self.holds.get(t.name))

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

    # ---------------------------------------------------------------- scratchpad

    @property
    def depth_blocks(self) -> int:
        """Channel blocks of I in a block."""
        return -(-self.block["C"] // self.depth)

    @property
    def input_rows(self) -> int:
        """Scratchpad rows of one copy of I."""
        rows: int = self.pixels_in * self.depth_blocks
        return rows

    @property
    def tile_columns(self) -> int:
        """Column blocks of a tile."""
        return -(-self.tile["K"] // self.dim)

    @property
    def block_columns(self) -> int:
        """Column blocks of a block: those of each of its tiles."""
        return -(-self.block["K"] // self.tile["K"]) * self.tile_columns

    @property
    def weight_rows(self) -> int:
        """Scratchpad rows of one copy of W."""
        if self.transposed:
            return self.depth_blocks * self.block["K"]
        rows: int = self.window_rows * self.block_columns
        return rows

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
    if not accelerator.common_elements:
        raise InfeasibleError(
            "programs are compiled for 8-bit and 16-bit inputs and 32-bit accumulation only"
        )
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
    blocks_rank, tiles_rank = ({name: mapping.order[level].index(name) for name in DIMS} for level in (3, 2))
    merge_rows(INTEGERS, layer.plain, (bounds, block, tile), (blocks_rank, tiles_rank))
    if bounds["P"] != problem.P:
        layer = replace(
            layer,
            problem=replace(problem, P=bounds["P"], Q=bounds["Q"], N=bounds["N"]),
            image=(bounds["Q"], bounds["P"]),
        )
    exact = exact_products(accelerator)
    if exact < 1:
        raise InfeasibleError(
            f"partial sums of {accelerator.partial_sum_bits} bits cannot hold one product of"
            f" {accelerator.input_bits}-bit numbers"
        )
    depth = min(dim, exact)
    inside = sorted(RESULT, key=lambda name: -tiles_rank[name])
    tiles = [Trip(name, -(-block[name] // tile[name])) for name in inside]
    return ExplicitPlan.make(
        INTEGERS,
        layer.problem,
        bounds,
        block,
        tile,
        blocks_rank,
        mapping.buffering,
        weights_stay=not DATAFLOWS[mapping.dataflow].sums_stay,
        transposed=layer.weights_transposed,
        dim=dim,
        depth=depth,
        chain=exact // depth,
        weight_panel=0 if layer.weight_blocks is None else layer.weight_blocks.columns,
        load_blocks=load_blocks(INTEGERS, dim, accelerator.dma_max_bytes, accelerator.element_bytes),
        layer=layer,
        accelerator=accelerator,
        dataflow=mapping.dataflow,
        last={name: size for name, size in (last or {}).items() if size != bounds[name]},
        tiles=tuple(trip for trip in tiles if trip.count > 1),
    )


def exact_products(accelerator: Accelerator) -> int:
    """Products of elements that the array's partial sums add up as accumulators would, whatever their values: as many as never leave
    the bits of a partial sum; any where these are as many as an accumulator's, which wraps alike."""
    most = (1 << (accelerator.partial_sum_bits - 1)) - 1
    largest = 1 << 2 * (accelerator.input_bits - 1)
    return most if accelerator.partial_sum_bits == accelerator.accumulator_bits else most // largest
