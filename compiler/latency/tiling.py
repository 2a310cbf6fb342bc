"""A mapping as explicit code carries it out, in tensors: blocks, tiles, loops and copies.

The counterpart of `baco.compiler.styles.explicit.plan.ExplicitPlan` for batches: the same clipping at the layer's bounds, the same
merging of pixel rows, the same loops. Sums over all blocks or tiles along a dimension are exact, partial ones
included, since what is summed up is a product of functions of single dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from baco.compiler.latency.batch import HardwareBatch, LayerBatch
from baco.compiler.mapping.batch import AXES, MappingBatch
from baco.compiler.styles.explicit.plan import LARGEST_STRIDE, LOAD_BYTES

R, S, C, K, P, Q, N = range(7)
REDUCTION, PIXELS = (R, S, C), (P, Q, N)
#: Dimensions that choose a block of each tensor.
RELEVANT_W, RELEVANT_I = (R, S, C, K), (R, S, C, P, Q, N)
assert AXES == ("R", "S", "C", "K", "P", "Q", "N")
#: A loop runs if it has at least so many steps: relaxed ones between 1 and this do not.
LOOP = 1.5
#: Relative tolerance of rounding, so that whole quotients stay whole in float32.
_TOLERANCE = 1e-6
_NONE = 1000.0

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Rounding:
    """How quotients become whole.

    Attributes:
        relaxed: they do not: the model is then differentiable everywhere but where it is a maximum. Otherwise values
            are rounded and gradients pass as if they were not.
    """

    relaxed: bool = False

    def up(self, x: Tensor) -> Tensor:
        """Rounded up."""
        if self.relaxed:
            return x
        return x + (torch.ceil(x * (1 - _TOLERANCE)) - x).detach()

    def down(self, x: Tensor) -> Tensor:
        """Rounded down."""
        if self.relaxed:
            return x
        return x + (torch.floor(x * (1 + _TOLERANCE)) - x).detach()

    def parts(self, whole: Tensor, part: Tensor, of: Function) -> Tensor:
        """Sum of `of(size)` over the parts of `whole`, all of size `part` but the last one. `of(0)` must be 0."""
        full = self.down(whole / part)
        if self.relaxed:
            return full * of(part)
        rest = (whole - full * part).clamp_min(0.0)
        return full * of(part) + of(rest)

    def chunks(self, size: Tensor) -> Function:
        """How many pieces of at most `size` something takes."""
        return lambda x: self.up(x / size)


@dataclass(frozen=True)
class Tiling:
    """Blocks, tiles and loops of a batch; dimensions as in `AXES`, loops over blocks at level 3.

    Attributes:
        bounds, block, tile: by dimension, (B,) each; pixel rows merged to one where the compiler does.
        steps: blocks along each dimension.
        rank: (7, B) place of each loop over blocks, innermost smallest; `_NONE` for one that does not run.
        os: (B,) booleans, output-stationary.
        copies: of the W, I and O tiles that are really used, (B,) each.
        row_result, row_window, column_result, column_window: local positions between neighbouring results and window
            positions, down and across the image (`explicit_plan.Axis`); row_step, column_step: pixels between positions.
        load_width: columns that one load of weights (of inputs) brings at most.
    """

    rounding: Rounding
    layer: LayerBatch
    hardware: HardwareBatch
    bounds: tuple[Tensor, ...]
    block: tuple[Tensor, ...]
    tile: tuple[Tensor, ...]
    steps: tuple[Tensor, ...]
    rank: Tensor
    os: Tensor
    copies: tuple[Tensor, Tensor, Tensor]
    row_step: Tensor
    row_result: Tensor
    row_window: Tensor
    column_step: Tensor
    column_result: Tensor
    column_window: Tensor
    load_width: tuple[Tensor, Tensor]

    # ---------------------------------------------------------------- sums

    def over_blocks(self, d: int, of: Function) -> Tensor:
        """Sum of `of(extent)` over the blocks along a dimension."""
        return self.rounding.parts(self.bounds[d], self.block[d], of)

    def over_tiles(self, d: int, of: Function) -> Tensor:
        """Sum of `of(extent)` over the tiles along a dimension, in all its blocks."""
        return self.over_blocks(d, lambda extent: self.rounding.parts(extent, self.tile[d], of))

    def over_pairs(self, d: int, other: int, of: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Sum of `of(extent, extent)` over the blocks along two dimensions; 0 where one extent is 0."""
        return self.over_blocks(d, lambda x: self.over_blocks(other, lambda y: of(x, y)))

    # ---------------------------------------------------------------- loops

    def innermost(self, dimensions: tuple[int, ...]) -> Tensor:
        """Rank of the innermost loop over blocks among some; `_NONE` if none runs."""
        return self.rank[list(dimensions)].amin(0)

    def repeats(self, relevant: tuple[int, ...]) -> Tensor:
        """How often every block of a tensor is brought: once for each step of the other loops outside the innermost
        one that changes it."""
        first = self.innermost(relevant)
        times = torch.ones_like(first)
        for d in range(7):
            if d not in relevant:
                outside = (self.rank[d] > first) & (self.rank[d] < _NONE)
                times = times * torch.where(outside, self.steps[d], 1.0)
        return times

    @property
    def blocks(self) -> Tensor:
        """Blocks visited in one group."""
        return _product(self.steps)

    def counted(self, d: int) -> Tensor:
        """Tiles along a dimension of the results, in all its blocks."""
        return self.over_tiles(d, lambda x: (x > 0).to(x.dtype) if not self.rounding.relaxed else x / x)


def _product(factors: tuple[Tensor, ...] | list[Tensor]) -> Tensor:
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def uneven(bound: Tensor, size: Tensor) -> Tensor:
    """1 where parts of a size do not fill a bound evenly."""
    parts = bound / size
    return ((parts - torch.round(parts)).abs() > 1e-4).to(bound.dtype)


def make_tiling(
    layer: LayerBatch, mapping: MappingBatch, hardware: HardwareBatch, rounding: Rounding
) -> Tiling:
    """The tiling of a batch (compare `baco.compiler.styles.explicit.plan.make_plan`)."""
    t, rows, columns = mapping.temporal, mapping.rows, mapping.columns
    one = torch.ones_like(rows)
    os = torch.zeros_like(rows, dtype=torch.bool) if mapping.sums_stay is None else mapping.sums_stay
    inner = list((t[0] * t[1]).unbind(0))
    for axis, factor in mapping.row_factors.items():
        inner[axis] = inner[axis] * factor
    inner[K] = inner[K] * columns
    bounds = [bound + 0 * one for bound in layer.bounds.unbind(0)]
    block = [
        torch.minimum(x * outer, bound) for x, outer, bound in zip(inner, t[2].unbind(0), bounds, strict=True)
    ]
    tile = [torch.minimum(x, whole) for x, whole in zip(inner, block, strict=True)]
    rank = mapping.rank[2].to(t.dtype)
    rank = _merge(layer, bounds, block, tile, rank)
    steps = [rounding.up(bound / size) for bound, size in zip(bounds, block, strict=True)]
    exists = torch.stack(steps) >= LOOP
    rank = rank.masked_fill(~exists, _NONE)
    problem = layer.problem
    row = _axis(block[Q], block[S], problem.stride_h, problem.dilation_h)
    column = _axis(block[P], block[R], problem.stride_w, problem.dilation_w)
    grouped = problem.groups > 1
    tiled = torch.stack([block[d] / tile[d] for d in (K, P, Q, N)]).amax(0) >= LOOP
    changing = (
        exists[list(RELEVANT_W)].any(0) | grouped,
        exists[list(RELEVANT_I)].any(0) | grouped,
        exists[[K, P, Q, N]].any(0) | grouped | tiled,
    )
    wanted = (one, one, one) if mapping.copies is None else tuple(mapping.copies.unbind(0))
    copies = [torch.where(changes, count, one) for changes, count in zip(changing, wanted, strict=True)]
    dim = hardware.dim
    widest = torch.minimum(torch.maximum(4 * dim, hardware.request), torch.full_like(dim, LOAD_BYTES))
    blocks_at_once = torch.floor(widest / dim).clamp_min(1.0)
    pixels_in = block[N] * _extent(block[Q], block[S], row) * _extent(block[P], block[R], column)
    whole_depth = hardware.depth >= dim
    window_rows = torch.where(layer.transposed > 0, block[K], block[S] * block[R] * block[C])
    wide_w = (window_rows <= LARGEST_STRIDE) & (whole_depth | (layer.transposed == 0))
    unit_w = torch.where(layer.transposed > 0, hardware.depth, dim)
    wide_i = (pixels_in <= LARGEST_STRIDE) & whole_depth
    return Tiling(
        rounding=rounding,
        layer=layer,
        hardware=hardware,
        bounds=tuple(bounds),
        block=tuple(block),
        tile=tuple(tile),
        steps=tuple(steps),
        rank=rank,
        os=os,
        copies=(copies[0], copies[1], copies[2]),
        row_step=row[0],
        row_result=row[1],
        row_window=row[2],
        column_step=column[0],
        column_result=column[1],
        column_window=column[2],
        load_width=(
            torch.where(wide_w, blocks_at_once, one) * unit_w,
            torch.where(wide_i, blocks_at_once, one) * hardware.depth,
        ),
    )


def _merge(
    layer: LayerBatch, bounds: list[Tensor], block: list[Tensor], tile: list[Tensor], rank: Tensor
) -> Tensor:
    """Make rows of pixels, then images, one long row where the compiler does (`explicit_plan`); the loops' ranks then."""
    goes_on = layer.plain > 0
    order = list(rank.unbind(0))
    for name in (Q, N):
        goes_on = goes_on & ((tile[P] >= bounds[P] * (1 - 1e-6)) | (bounds[name] == 1))
        merged = goes_on & (bounds[name] > 1)
        for extents in (bounds, block, tile):
            extents[P] = torch.where(merged, extents[P] * extents[name], extents[P])
            extents[name] = torch.where(merged, torch.ones_like(extents[name]), extents[name])
        order[P], order[name] = (
            torch.where(merged, order[name], order[P]),
            torch.where(merged, order[P], order[name]),
        )
    return torch.stack(order)


def _axis(results: Tensor, window: Tensor, stride: Tensor, dilation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Pixels between local positions, positions between results and between window positions."""
    apart = torch.where(window < LOOP, torch.zeros_like(dilation), dilation)
    further = torch.where(results < LOOP, torch.zeros_like(stride), stride)
    step = torch.gcd(further.long(), apart.long()).clamp_min(1).to(stride.dtype)
    return step, further / step, apart / step


def _extent(results: Tensor, window: Tensor, axis: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Local positions that results and window positions take."""
    return (results - 1) * axis[1] + (window - 1) * axis[2] + 1
