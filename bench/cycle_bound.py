"""A bound on the cycles of a layer, at the granularity of array passes and of bytes that main memory must move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baco.accel.config import Accelerator
from baco.compiler.layers.layer import Layer

#: Rows that a pass takes at least (timing page, 3.2).
LEAST_ROWS = 4


@dataclass(frozen=True)
class CycleBound:
    """What no program that computes a layer directly from its tensors can beat.

    Attributes:
        array_cycles: weight-stationary passes, padding of rows and blocks included.
        memory_cycles: transfers between accelerator and main memory.
        memory_bytes: what they move.
    """

    array_cycles: int
    memory_cycles: float
    memory_bytes: int

    @property
    def cycles(self) -> float:
        """The larger one: at best, transfers hide behind passes or the other way round."""
        return max(float(self.array_cycles), self.memory_cycles)


def bound(layer: Layer, accelerator: Accelerator) -> CycleBound:
    """The bound of a layer.

    Array: every block of weights (up to `dim` of the depth by `dim` output channels) meets all rows, that is pixels.
    Its passes take `max(rows, 4)` cycles, and `dim` the one that shifts the next block in, whatever its rows are; so
    the cheapest legal cut of the rows into passes counts, see `pass_cycles`. One pass of `dim` cycles brings the first
    block. The depth of a block is a run of the input that lies contiguous in memory: `dim` channels of a pixel, or
    where pixels are dense several neighbours of a window's row, for no load puts together what lies apart. Groups too
    small for a block share it as a diagonal. Output-stationary passes of `dim` cycles are never fewer.

    Memory: every byte of weights, bias, residual, of input pixels that a window touches, and of results moves once, at
    the accelerator's memory bandwidth; reads alone and writes alone at most at its port's width.
    """
    p, dim = layer.problem, accelerator.dim
    rows = p.N * p.P * p.Q
    depth = p.S * p.R * -(-p.C // dim)
    if p.dilation_w == 1 and layer.input.pitch == p.C:
        depth = min(depth, p.S * -(-p.R * p.C // dim))
    blocks = p.groups * depth * -(-p.K // dim)
    shared = dim // max(p.C, p.K)
    if shared > 1:
        blocks = min(blocks, p.S * p.R * -(-p.groups // shared))
    array = dim + (blocks - 1) * pass_cycles(rows, dim) + max(rows, LEAST_ROWS)

    result = 4 if layer.scale is None else 1
    reads = p.groups * (_touched(layer) * p.C + p.S * p.R * p.C * p.K + (4 * p.K if layer.bias else 0))
    if layer.residual_scale is not None:
        reads += p.groups * layer.pixels_out * p.K
    writes = p.groups * layer.pixels_stored * p.K * result
    port = accelerator.dma_bits / 8
    memory = max((reads + writes) / accelerator.dram_bytes_per_cycle, reads / port, writes / port)
    return CycleBound(array, memory, reads + writes)


def pass_cycles(rows: int, dim: int) -> int:
    """Least cycles of the passes of a block of weights over `rows` rows, one of them shifting the next block in."""
    return dim if rows <= dim else dim + max(rows - dim, LEAST_ROWS)


def _touched(layer: Layer) -> int:
    """Stored input pixels of one group that some window covers."""
    p = layer.problem
    height, width = layer.size
    rows = _covered(p.Q, p.stride_h, p.S, p.dilation_h, layer.padding[0], height)
    columns = _covered(p.P, p.stride_w, p.R, p.dilation_w, layer.padding[1], width)
    return p.N * rows * columns


def _covered(results: int, stride: int, window: int, dilation: int, padding: int, extent: int) -> int:
    at = np.add.outer(np.arange(results) * stride, np.arange(window) * dilation) - padding
    return len(np.unique(at[(at >= 0) & (at < extent)]))
