"""Cycles of mappings that loop macros carry out: the formulas of `baco.compiler.styles.macros.cycles` over tensors.

What a mapping says becomes the tile of a macro as `baco.compiler.styles.registry.realise` makes it: products are LOOP_WS with whole
blocks of the array's side, all else is LOOP_CONV_WS.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from baco.accel.config import Accelerator
from baco.compiler.analysis.traffic import MachineRates
from baco.compiler.latency.arrays import TensorArrays, larger, smaller
from baco.compiler.latency.batch import HardwareBatch, LayerBatch, Resource, by_name
from baco.compiler.latency.prediction import InstructionLatency
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.batch import AXES, MappingBatch
from baco.compiler.schedules.schedule import LoopConvSchedule, LoopWsSchedule
from baco.compiler.styles.explicit.extents import LOOP, PIXELS, REDUCTION
from baco.compiler.styles.macros.cycles import (
    ConvTile,
    MacroCycles,
    MacroLayer,
    ProductTile,
    conv_macro,
    product_macro,
)
from baco.compiler.styles.macros.estimate import macro_cycles
from baco.compiler.styles.macros.tile_rows import pooled_results

#: Rows of a batch, and what predicts the latency of layers, mappings and accelerators that are those rows.
Kind: TypeAlias = tuple[Tensor, Callable[[LayerBatch, MappingBatch, HardwareBatch], InstructionLatency]]


@dataclass(frozen=True)
class _Shape:
    """A batch's tiles: by dimension extents of a full tile and of the layer, times the tile is changed, and how often the mapping says
    that it is (more, where tiles of pooled results overlap), loop ranks."""

    tile: dict[str, Tensor]
    bounds: dict[str, Tensor]
    trips: dict[str, Tensor]
    said: dict[str, Tensor]
    rank: dict[str, Tensor]


def _shape(layers: LayerBatch, mappings: MappingBatch, a: TensorArrays) -> _Shape:
    registers, accumulator, scratchpad, memory = mappings.temporal.unbind(0)
    inner = by_name(registers * accumulator * scratchpad)
    inner["C"] = inner["C"] * mappings.rows
    inner["K"] = inner["K"] * mappings.columns
    bounds = by_name(layers.bounds.expand_as(memory))
    tile = {name: smaller(inner[name], bounds[name]) for name in AXES}
    trips = {name: a.pieces(bounds[name], tile[name]) for name in AXES}
    return _Shape(tile, bounds, trips, by_name(memory), by_name(mappings.rank[-1].to(memory.dtype)))


def macro_kinds(layers: LayerBatch, a: TensorArrays) -> list[Kind]:
    """Which layers are carried out by LOOP_WS, which by LOOP_CONV_WS, and what predicts either; rows that have no macro form get numbers
    that mean nothing."""
    product = layers.plain > 0.5

    def predicted_by(formula: Callable[..., MacroCycles]) -> Callable[..., InstructionLatency]:
        return lambda layers, mappings, hardware: _terms(
            formula(a, hardware, layers, _shape(layers, mappings, a))
        )

    return [(product, predicted_by(_product)), (~product, predicted_by(_convolution))]


def by_kind(
    layers: LayerBatch, mappings: MappingBatch, hardware: HardwareBatch, kinds: Sequence[Kind]
) -> InstructionLatency:
    """Latency of a batch whose rows are of several kinds, each predicted by itself.

    Args:
        kinds: which rows (B,), or what broadcasts with them, are of a kind, and what predicts them. Every row is of one.
    """
    kinds = [(chosen, predict) for chosen, predict in kinds if bool(chosen.any())] or kinds[:1]
    count = mappings.rows.shape[0]
    if len(kinds) == 1:
        return kinds[0][1](layers, mappings, hardware)
    if layers.bounds.shape[-1] != count or hardware.dim.shape != (count,):
        # fields that broadcast cannot be picked from: every kind for all rows
        parts = [(chosen, predict(layers, mappings, hardware)) for chosen, predict in kinds]
        return functools.reduce(lambda others, part: part[1].where(part[0], others), parts[1:], parts[0][1])
    # only loops over blocks have an order here
    mappings = replace(mappings, rank=mappings.rank[-1:])
    chosen_rows = [(chosen.expand(count).nonzero().flatten(), predict) for chosen, predict in kinds]
    return InstructionLatency.merged(
        [
            (rows, predict(layers.take(rows), mappings.take(rows), hardware.take(rows)))
            for rows, predict in chosen_rows
        ]
    )


def _terms(found: MacroCycles) -> InstructionLatency:
    parts = (
        found.compute,
        found.load,
        larger(found.memory - found.load, found.store),
        found.host,
        found.ends,
    )
    same = torch.broadcast_tensors(*parts)  # type: ignore[no-untyped-call]
    moved = torch.broadcast_tensors(  # type: ignore[no-untyped-call]
        found.weight_bytes, found.input_bytes, found.addend_bytes, found.result_bytes
    )
    return InstructionLatency(found.total, torch.stack(same), found.bytes, torch.stack(moved))


def schedule_latency(
    layer: Layer,
    schedule: LoopWsSchedule | LoopConvSchedule,
    accelerator: Accelerator,
    twice: Resource | None = None,
) -> InstructionLatency:
    """As `baco.compiler.latency.model.latency`, of one macro schedule: what its tiles, order and kept operands say, which need not be what a mapping
    would be realised by. Raises InfeasibleError if it cannot be carried out.

    Args:
        twice: a resource that there is twice of (`HardwareBatch.doubled`).
    """
    machine = None
    if twice is not None:
        doubled = HardwareBatch.of([accelerator]).doubled(twice)
        rates: dict[str, Any] = {f.name: getattr(doubled, f.name) for f in fields(MachineRates)}
        rates |= {name: one.item() for name, one in rates.items() if isinstance(one, Tensor)}
        machine = MachineRates(**rates)
    found = macro_cycles(layer, schedule, accelerator, machine)
    return _terms(MacroCycles(*(torch.tensor([float(x)], dtype=torch.float64) for x in astuple(found))))


def _product(
    a: TensorArrays,
    machine: MachineRates,
    layers: LayerBatch,
    shape: _Shape,
) -> MacroCycles:
    dim, bounds, rank = machine.dim, shape.bounds, shape.rank

    def blocks(size: Tensor, whole: Tensor) -> Tensor:
        return smaller(a.up(size / dim) * dim, whole)

    rows = bounds["P"] * bounds["Q"] * bounds["N"]
    # the loop over rows is the outermost one over pixels that runs
    busy = _stack(shape.trips, PIXELS) >= LOOP
    pixels = torch.where(busy.any(0), torch.where(busy, _stack(rank, PIXELS), -1.0).amax(0), rank["P"])
    outside = rank["C"].unsqueeze(0) > torch.stack([pixels, rank["K"]])
    kept = torch.ones_like(rows)
    return product_macro(
        a,
        machine,
        _layer(layers, bounds, bounds["Q"], bounds["P"]),
        ProductTile(
            blocks(shape.tile["P"] * shape.tile["Q"] * shape.tile["N"], rows),
            blocks(shape.tile["K"], bounds["K"]),
            blocks(shape.tile["C"], bounds["C"]),
            (rank["K"] > pixels).to(rows.dtype),
            torch.where(shape.trips["C"] >= LOOP, outside.sum(0), 0).to(rows.dtype),
            kept,
            kept,
        ),
    )  # fmt: skip


def _layer(layers: LayerBatch, bounds: dict[str, Tensor], rows: Tensor, columns: Tensor) -> MacroLayer:
    """Layers that store images of so many rows and columns."""
    problem = layers.problem
    return MacroLayer(
        bounds["N"], rows, columns, bounds["K"], bounds["S"], bounds["R"], bounds["C"], problem.groups, bounds["Q"],
        bounds["P"], problem.stride_h, problem.stride_w, problem.dilation_h, problem.dilation_w, layers.height,
        layers.width, layers.top, layers.left, layers.bias, layers.residual, layers.raw, layers.transposed,
        layers.pool_size, layers.pool_stride, layers.pool_padding, layers.input_pitch, layers.weight_pitch,
        layers.output_pitch, layers.weight_size, layers.element_size,
    )  # fmt: skip


def _convolution(
    a: TensorArrays,
    machine: MachineRates,
    layers: LayerBatch,
    shape: _Shape,
) -> MacroCycles:
    tile, bounds, problem = shape.tile, shape.bounds, layers.problem
    pooled = layers.pool_size > 0.5
    stored = [
        torch.where(pooled, layers.pool_rows, bounds["Q"]), torch.where(pooled, layers.pool_columns, bounds["P"])
    ]  # fmt: skip
    parts = []
    for d, whole in zip("QP", stored, strict=True):
        pool = layers.pool_size, layers.pool_stride, whole
        part = pooled_results(a, tile[d], shape.said[d], bounds[d], pool)
        parts.append(torch.where(pooled, part, tile[d]))
    rows, columns = (a.pieces(whole, part) for whole, part in zip(stored, parts, strict=True))
    trips = shape.trips | {"Q": rows, "P": columns}
    down = _downsamples(layers, bounds)
    # first layers pack as many pixels as fit, of whole numbers
    packs = (
        (bounds["C"] <= tile["C"] + 1e-3)
        & (bounds["C"] <= machine.dim)
        & (problem.dilation_w < 1.5)
        & ~down
        & (layers.real < 0.5)
    )
    pixels = smaller(tile["R"], a.down(machine.dim / bounds["C"])).clamp_min(1.0)
    pixels = torch.where(packs, pixels, 1.0)
    inputs, weights = _loads(trips, shape.rank)
    spatial = trips["N"] * trips["Q"] * trips["P"]
    packed = pixels > LOOP
    return conv_macro(
        a,
        machine,
        _layer(layers, bounds, *stored),
        ConvTile(
            tile["N"], parts[0], parts[1], tile["K"], tile["S"], tile["R"], tile["C"], torch.where(packed, trips["K"], inputs),
            torch.where(packed, spatial, weights), pixels, down.to(pixels.dtype),
        ),
    )  # fmt: skip


def _downsamples(layers: LayerBatch, bounds: dict[str, Tensor]) -> Tensor:
    """As `baco.compiler.styles.macros.loop_conv_check.downsamples`."""
    problem = layers.problem
    even = (torch.remainder(layers.height, 2) < 0.5) & (torch.remainder(layers.width, 2) < 0.5)
    unpadded = (layers.top < 0.5) & (layers.left < 0.5) & (layers.pool_size < 0.5)
    twice = (problem.stride_h == 2) & (problem.stride_w == 2)
    return (bounds["R"] < LOOP) & (bounds["S"] < LOOP) & twice & unpadded & even


def _stack(numbers: dict[str, Tensor], names: Sequence[str]) -> Tensor:
    return torch.stack([numbers[name] for name in names])


def _loads(trips: dict[str, Tensor], rank: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """How often inputs are loaded over the loop over channels, weights over those over pixels: once if no more than two
    of their tiles come between two uses (`baco.compiler.styles.macros.reuse`)."""
    one = torch.ones_like(trips["K"])
    between_inputs, between_weights = one, one
    outermost = torch.stack([torch.where(trips[d] >= LOOP, rank[d], -one) for d in PIXELS]).amax(0)
    for d in (*PIXELS, *REDUCTION):
        between_inputs = between_inputs * torch.where(rank[d] < rank["K"], trips[d], one)
    for d in ("K", *REDUCTION):
        between_weights = between_weights * torch.where(rank[d] < outermost, trips[d], one)
    spatial = trips["N"] * trips["Q"] * trips["P"]
    return (
        torch.where(between_inputs < 2.5, one, trips["K"]),
        torch.where(between_weights < 2.5, one, spatial),
    )
