"""Layers and accelerators as tensors: what the instruction-aware model knows of them.

Layouts are those of `baco.exploration.cost.reference`: the batch comes last and loop dimensions are ordered as in its `AXES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import torch
from torch import Tensor

from baco.accel.config import Accelerator
from baco.compiler.analysis.traffic import MachineRates
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.batch import AXES, ProblemBatch
from baco.compiler.styles.explicit.plan import exact_products

#: What is busy in the instruction-aware model: the array, the channel of main memory, loads, stores, the host core.
Resource = Literal["compute", "memory", "load", "store", "issue"]


def by_name(rows: Tensor) -> dict[str, Tensor]:
    """Rows (7, B) in the order of `AXES` by dimension."""
    return dict(zip(AXES, rows.unbind(0), strict=True))


@dataclass(frozen=True)
class LayerBatch:
    """Layers of a batch. Every field has the batch's shape (B,) or broadcasts with it, but for `bounds`.

    Attributes:
        problem: strides, dilations and groups.
        bounds: (7, B) loop bounds of one group, in the order of `AXES`.
        height, width: of the stored image.
        top, left: padding above and left of it.
        bias, residual, raw, transposed: 1 where the layer has a bias, adds a residual, stores int32 sums, has its
            weights stored transposed; else 0.
        pool_size, pool_stride, pool_padding, pool_rows, pool_columns: of maximum pooling on the way out, pooled image; 0
            without.
        plain: 1 where neighbouring rows of pixels can become one long row (`Layer.plain`).
        input_pitch, weight_pitch, output_pitch: elements from one pixel (row of weights) to the next.
        weight_size: bytes of a weight in main memory, those of an element, or 0.5 where two are a byte; in blocks with its part of powers.
        weight_panel: columns of a panel of weights in blocks, 0 for weights as they are.
        real: 1 where elements are floating point (`Layer.real`), whose sums have one order.
        element_size: bytes of an element, of input and results.
    """

    problem: ProblemBatch
    bounds: Tensor
    height: Tensor
    width: Tensor
    top: Tensor
    left: Tensor
    bias: Tensor
    residual: Tensor
    raw: Tensor
    transposed: Tensor
    pool_size: Tensor
    pool_stride: Tensor
    pool_padding: Tensor
    pool_rows: Tensor
    pool_columns: Tensor
    plain: Tensor
    input_pitch: Tensor
    weight_pitch: Tensor
    output_pitch: Tensor
    weight_size: Tensor
    weight_panel: Tensor
    real: Tensor
    element_size: Tensor

    @classmethod
    def of(cls, layers: Sequence[Layer], dtype: torch.dtype = torch.float64) -> LayerBatch:
        """One entry a layer."""
        problems = [layer.problem for layer in layers]
        bounds = torch.tensor([[getattr(p, axis) for axis in AXES] for p in problems], dtype=dtype)
        rows = torch.tensor([_numbers(layer) for layer in layers], dtype=dtype).reshape(len(layers), -1)
        return cls(
            ProblemBatch.of(problems, dtype), bounds.reshape(-1, 7).T.contiguous(), *rows.T.contiguous()
        )

    def take(self, index: Tensor) -> LayerBatch:
        """The layers at `index`."""
        return LayerBatch(
            self.problem.take(index),
            *(getattr(self, f.name).index_select(-1, index) for f in fields(self)[1:]),
        )

    def to(self, device: torch.device | str) -> LayerBatch:
        """A copy on `device`."""
        return LayerBatch(
            self.problem.to(device), *(getattr(self, f.name).to(device) for f in fields(self)[1:])
        )


def _numbers(layer: Layer) -> list[float]:
    """The fields of a `LayerBatch` from `height` on."""
    pool, (height, width) = layer.pooling, layer.size
    pooling = (pool.size, pool.stride, pool.padding, pool.rows, pool.columns) if pool else (0, 0, 0, 0, 0)
    return [
        height,
        width,
        *layer.padding,
        layer.bias,
        layer.residual_scale is not None,
        layer.scale is None,
        layer.weights_transposed,
        *pooling,
        layer.plain,
        layer.input.pitch,
        layer.weight.pitch if layer.weight_blocks is None else layer.weight_blocks.columns,
        layer.output.pitch,
        layer.weight_size,
        0 if layer.weight_blocks is None else layer.weight_blocks.columns,
        layer.real,
        layer.element_bytes,
    ]


@dataclass(frozen=True, kw_only=True)
class HardwareBatch(MachineRates):
    """Accelerators of a batch. Every field has the batch's shape (B,) or broadcasts with it.

    Attributes:
        depth: channels that one pass sums up, at most `dim`.
        chain: passes that may sum up in the array, output-stationary.
        execute_queue, store_queue: commands queued before these units.
        groups: rows of the array between pipeline registers (`dim / tile_rows`): half the array's latency in cycles.
        scratchpad_rows, accumulator_rows: capacities.
        scratchpad_banks, accumulator_banks: banks.
        loop_ws, loop_conv: 1 where the macro is built.
    """

    depth: Tensor
    chain: Tensor
    execute_queue: Tensor
    store_queue: Tensor
    groups: Tensor
    scratchpad_rows: Tensor
    accumulator_rows: Tensor
    scratchpad_banks: Tensor
    accumulator_banks: Tensor
    loop_ws: Tensor
    loop_conv: Tensor

    @classmethod
    def of(cls, accelerators: Sequence[Accelerator], dtype: torch.dtype = torch.float64) -> HardwareBatch:  # type: ignore[override]
        """One entry an accelerator. Raises ValueError for accelerators of several timings."""
        timings = {one.timing for one in accelerators}
        if len(timings) > 1:
            raise ValueError("a batch has one timing")
        rows = [_hardware(one) for one in accelerators]
        columns = {name: torch.tensor([row[name] for row in rows], dtype=dtype) for name in rows[0]}
        return cls(**columns, timing=timings.pop())

    @classmethod
    def joined(cls, batches: Sequence[HardwareBatch]) -> HardwareBatch:
        """Batches of one timing, whose fields have all rows, behind each other."""
        values: dict[str, Any] = {
            f.name: torch.cat([getattr(one, f.name) for one in batches])
            for f in fields(cls)
            if f.name != "timing"
        }
        return replace(batches[0], **values)

    @property
    def rate(self) -> Tensor:
        """Bytes a cycle between memory and accelerator: the slower of port and memory."""
        return torch.minimum(self.bandwidth, self.beat)

    def doubled(self, resource: Resource) -> HardwareBatch:
        """The same with twice of one resource: an array, a channel of main memory or a host core of twice the speed, or
        for loads and stores a memory port of twice the width with twice the requests and loads in flight."""
        names = {
            "compute": ("array_speed",),
            "memory": ("bandwidth",),
            "issue": ("host_speed",),
            "load": ("beat", "requests", "load_entries", "load_queue"),
            "store": ("beat", "requests", "load_entries", "load_queue"),
        }
        return replace(self, **{name: 2 * getattr(self, name) for name in names[resource]})

    def take(self, index: Tensor) -> HardwareBatch:
        """The accelerators at `index`."""
        return self._each(lambda one: one.index_select(-1, index))

    def to(self, device: torch.device | str) -> HardwareBatch:
        """A copy on `device`."""
        return self._each(lambda one: one.to(device))

    def _each(self, of: Callable[[Tensor], Tensor]) -> HardwareBatch:
        values: dict[str, Any] = {
            f.name: of(getattr(self, f.name)) for f in fields(self) if f.name != "timing"
        }
        return replace(self, **values)


def _hardware(a: Accelerator) -> dict[str, float]:
    exact = max(1, exact_products(a))
    depth = min(a.dim, exact)
    rates = vars(MachineRates.of(a)).copy()
    del rates["timing"]
    return rates | {
        "depth": depth,
        "chain": min(exact // depth, 1 << 30),
        "store_entries": a.store_entries,
        "execute_queue": a.execute_queue,
        "store_queue": a.store_queue,
        "groups": math.ceil(a.dim / a.tile_rows),
        "scratchpad_rows": a.scratchpad_rows,
        "accumulator_rows": a.accumulator_rows,
        "scratchpad_banks": a.scratchpad_banks,
        "accumulator_banks": a.accumulator_banks,
        "loop_ws": a.features.loop_ws,
        "loop_conv": a.features.loop_conv,
    }
