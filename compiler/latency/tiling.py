"""Mappings as explicit code carries them out, in tensors: the blocks, tiles and loops of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from baco.compiler.latency.arrays import TensorArrays, smaller
from baco.compiler.latency.batch import HardwareBatch, LayerBatch, by_name
from baco.compiler.mapping.batch import AXES, MappingBatch
from baco.compiler.styles.explicit.extents import RESULT, Tiling, load_blocks, merge_rows


@dataclass(frozen=True)
class BatchTiling(Tiling):
    """Tilings of a batch; every number is a tensor (B,), conditions are booleans."""

    a: TensorArrays
    bounds: dict[str, Tensor]
    block: dict[str, Tensor]
    tile: dict[str, Tensor]
    steps: dict[str, Tensor]
    copies: tuple[Tensor, Tensor, Tensor]
    layer: LayerBatch
    hardware: HardwareBatch

    @cached_property
    def uneven_tiles(self) -> dict[str, Tensor]:
        """Whether tiles do not fill the bounds evenly, along each dimension of the results."""
        return {name: uneven(self.bounds[name], tile) for name, tile in self.tile.items()}


def make_tiling(
    layer: LayerBatch, mapping: MappingBatch, hardware: HardwareBatch, a: TensorArrays
) -> BatchTiling:
    """The tiling of a batch, as `baco.compiler.styles.explicit.plan.make_plan` makes one."""
    registers, accumulator, scratchpad, _ = mapping.temporal.unbind(0)
    one = torch.ones_like(mapping.rows)
    inner = by_name(registers * accumulator)
    for axis, factor in mapping.row_factors.items():
        inner[AXES[axis]] = inner[AXES[axis]] * factor
    inner["K"] = inner["K"] * mapping.columns
    outer, bounds = by_name(scratchpad), by_name(layer.bounds.expand_as(scratchpad))
    block = {name: smaller(inner[name] * outer[name], bounds[name]) for name in AXES}
    tile = {name: smaller(inner[name], block[name]) for name in RESULT}
    rank = by_name(mapping.rank[-1].to(one.dtype))
    merge_rows(a, layer.plain > 0, (bounds, block, tile), (rank,))
    stay = torch.ones_like(one, dtype=torch.bool) if mapping.sums_stay is None else ~mapping.sums_stay
    return BatchTiling.make(
        a,
        layer.problem,
        bounds,
        block,
        tile,
        rank,
        (one, one, one) if mapping.copies is None else mapping.copies.unbind(0),
        weights_stay=stay,
        transposed=layer.transposed > 0,
        dim=hardware.dim,
        depth=hardware.depth,
        chain=hardware.chain,
        weight_panel=layer.weight_panel,
        load_blocks=load_blocks(a, hardware.dim, hardware.request, layer.element_size),
        layer=layer,
        hardware=hardware,
    )


def uneven(bound: Tensor, size: Tensor) -> Tensor:
    """Whether parts of a size do not fill a bound evenly."""
    parts = bound / size
    return (parts - torch.round(parts)).abs() > 1e-4
