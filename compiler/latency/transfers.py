"""What the moves of explicit code transfer, in closed form."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from baco.compiler.analysis.traffic import RowTransfer, rows_read, rows_written
from baco.compiler.latency.arrays import smaller
from baco.compiler.latency.commands import Commands
from baco.compiler.latency.tiling import BatchTiling


@dataclass(frozen=True)
class Transfers:
    """What the moves of a batch bring and take away."""

    weights: RowTransfer
    inputs: RowTransfer
    results: RowTransfer
    sums_out: RowTransfer
    sums_in: RowTransfer
    bias: RowTransfer
    residual: RowTransfer

    @property
    def opening(self) -> RowTransfer:
        """What a tile of results begins with."""
        return self.bias + self.residual + self.sums_in

    @property
    def stored(self) -> RowTransfer:
        """What of it leaves."""
        return self.results + self.sums_out


def transfers(t: BatchTiling, c: Commands, again: Tensor) -> Transfers:
    """`again`: how often sums leave beside results."""
    layer, a, machine = t.layer, t.a, t.hardware

    def read(spans: Tensor, useful: Tensor, pitch: Tensor, aligned: Tensor) -> RowTransfer:
        return rows_read(a, machine, spans, useful, pitch, aligned)

    def written(spans: Tensor, useful: Tensor, aligned: Tensor) -> RowTransfer:
        return rows_written(a, machine, spans, useful, aligned)

    def alignment(*numbers: Tensor) -> Tensor:
        return functools.reduce(smaller, map(a.power, numbers))

    weight_aligned = alignment(layer.weight_pitch, t.block["K"])
    size = layer.weight_size
    weights = read(c.weight_spans, c.weight_bytes * size, layer.weight_pitch * size, weight_aligned * size)
    input_aligned = alignment(layer.input_pitch, t.block["C"])
    element = layer.element_size
    inputs = read(
        c.input_spans,
        c.input_bytes * element,
        layer.input_pitch * t.column.step * element,
        input_aligned * element,
    )
    tile_aligned = alignment(smaller(t.tile["K"], t.dim), t.block["K"])
    out_aligned = smaller(a.power(layer.output_pitch), tile_aligned)
    size = torch.where(layer.raw > 0, 4.0, element).to(c.visits.dtype)
    results = written(c.result_spans, c.result_spans * c.result_columns * size, out_aligned * size)
    sum_rows, residual_rows = c.result_rows * again, c.result_rows * layer.residual
    sum_bytes = sum_rows * c.result_columns * 4
    sums_out = written(sum_rows, sum_bytes, out_aligned * 4)
    sums_in = read(sum_rows, sum_bytes, layer.output_pitch * 4, out_aligned * 4)
    bias_bytes = c.bias_loads * c.result_columns * 4
    bias = read(c.bias_loads, bias_bytes, bias_bytes * 0 + 4096, tile_aligned * 4)
    residual = read(
        residual_rows,
        residual_rows * c.result_columns * element,
        layer.output_pitch * element,
        out_aligned * element,
    )
    return Transfers(weights, inputs, results, sums_out, sums_in, bias, residual)
