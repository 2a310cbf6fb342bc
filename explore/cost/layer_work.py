"""What a layer takes whatever its tiles, and blocks of it that stand for all tiles: of what `baco.exploration.cost.fitting_limits` is
made."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.explicit.extents import LOAD_BYTES
from baco.compiler.styles.macros.estimate import expansion_cycles
from baco.exploration.cost.limits import loaded_pixels, pooled_from
from baco.workloads.problem import Problem

Floats = NDArray[np.float64]

#: Numbers of blocks up to which each is looked at, and the ratio of those that share an interval beyond.
EXACT, RATIO = 4, 1.5


@dataclass(frozen=True)
class LayerWork:
    """One run of a layer on an array of one side, with some groups at once: between two numbers of them, amounts are of
    whichever gives less.

    Attributes:
        side: of the array.
        groups: passes over groups.
        depth, channels, columns: what is summed up of a group, the channels of it, the result channels.
        pixels, window, line: of a group's results, of the window, of a line of it.
        computed: pixels that pooling does not leave out.
        weights, inputs, outputs: words of all groups.
        reads: words of inputs that the array reads.
        weight_bytes, output_bytes, extra_bytes: that main memory moves at least; the last for bias and residual.
        macs: multiply-accumulates.
        before: cycles before the program of the layer begins.
        idle: how many times as much words of columns (of rows) count where lanes are idle.
        small: whether the problem is no larger than the array.
        packed: whether groups share passes.
        pooled: whether results are pooled.
        reach: pixels of the input that a tile of t results takes are at least a t + b sqrt(t) + c.
    """

    side: int
    groups: float
    depth: float
    channels: float
    columns: float
    pixels: float
    window: float
    line: float
    computed: float
    weights: float
    inputs: float
    outputs: float
    reads: float
    weight_bytes: float
    output_bytes: float
    extra_bytes: float
    macs: float
    before: float
    idle: tuple[float, float]
    small: bool
    packed: bool
    pooled: bool
    reach: tuple[float, float, float]

    @classmethod
    def of(
        cls, layer: Layer, side: int, accelerator: Accelerator, least: int = 1, most: int = 1
    ) -> LayerWork:
        """With `least` to `most` groups at once, all in lanes of the array's side."""
        p = layer.problem
        channels, columns = least * p.C, least * p.K
        window, pixels = float(p.R * p.S), float(p.P * p.Q * p.N)
        # of packs of n groups: n times the weights, half of them zeros, and as many products
        weights = float(p.weight_words * least)
        outputs = float(p.output_words)
        stored, computed = outputs, pixels
        if layer.pooling is not None:
            stored = float(p.groups * p.N * p.K) * layer.pooling.rows * layer.pooling.columns
            computed = float(p.N * math.prod(pooled_from(layer)))
        extra = 0.0 if layer.residual_scale is None else outputs * layer.element_bytes
        if layer.bias and layer.pooling is None:
            extra += 4.0 * p.groups * p.K * math.ceil(pixels / side)
        return cls(
            side=side,
            groups=float(math.ceil(p.groups / most)),
            depth=window * channels,
            channels=float(channels),
            columns=float(columns),
            pixels=pixels,
            window=window,
            line=float(p.R),
            computed=computed,
            weights=weights,
            inputs=float(p.groups * p.C * p.N) * loaded_pixels(layer),
            outputs=outputs,
            reads=p.groups * pixels * window * p.C * math.ceil(columns / side),
            weight_bytes=weights * layer.weight_size
            + (_ragged(layer, side, accelerator) if most == 1 else 0.0),
            output_bytes=stored * layer.output_bits / 8,
            extra_bytes=extra,
            macs=float(p.macs * least),
            before=expansion_cycles(layer, least) if least > 1 else 0.0,
            idle=(max(1.0, side / (most * p.K)), max(1.0, side / (most * p.C))),
            small=channels <= side and columns <= side,
            packed=least > 1,
            pooled=layer.pooling is not None,
            reach=_reach(p),
        )

    @property
    def blocks(self) -> tuple[int, int]:
        """Of the array's side that channels and columns take."""
        return math.ceil(self.channels / self.side), math.ceil(self.columns / self.side)

    @property
    def positions(self) -> float:
        """Of the window that the array takes one after the other at least: macros put those of a line side by side in spare
        lanes."""
        together = 1 if self.packed else max(1, int(self.side // self.channels))
        return self.window / self.line * math.ceil(self.line / together)

    @property
    def accesses(self) -> list[tuple[float, float, float, float]]:
        """Words of the accumulator, and more of it each time that sums are spilled; words of the scratchpad, and more of
        it each time that weights come to the registers: for all that mappings may do with lanes."""
        updates = 2 * self.outputs * self.window * self.blocks[0]
        columns, rows = self.idle if self.small else (1.0, 1.0)
        found = [
            (
                updates * columns,
                self.outputs * columns,
                (self.reads + self.inputs) * rows + self.weights * columns,
                self.weights * columns,
            )
        ]
        if self.small and not self.packed:
            moved = self.inputs + self.weights
            found += [
                (updates * twice, self.outputs, self.reads * 2 / twice + moved, self.weights)
                for twice in (1, 2)
            ]
        return found


def _reach(p: Problem) -> tuple[float, float, float]:
    """See `LayerWork.reach`: w x h results take (a w + b)(a' h + b'), which is least for a square; of several images, more."""
    across, down = p.stride_w, p.stride_h
    more_across = (p.R - 1) * p.dilation_w + 1 - across
    more_down = (p.S - 1) * p.dilation_h + 1 - down
    if more_across < 0 or more_down < 0:
        return 1.0, 0.0, 0.0
    area = across * down
    return float(area), 2 * math.sqrt(area * more_across * more_down), float(more_across * more_down)


def _ragged(layer: Layer, side: int, accelerator: Accelerator) -> float:
    """Bytes that loads of weights bring beside them, once: a row of one load begins inside a beat of the port, as far as the
    rows' distance says, unless rows are so near that several are one."""
    p, beat = layer.problem, accelerator.dma_bits // 8  # (of weights of 4 bits: none are counted)
    widest = max(LOAD_BYTES, accelerator.dma_max_bytes, side)
    pitch = layer.weight.pitch
    if layer.weights_transposed or layer.weight_bits < 8 or pitch - min(widest, p.K) < beat:
        return 0.0
    rows = p.groups * p.R * p.S * p.C * math.ceil(p.K / widest)
    return float(rows * (beat - min(pitch & -pitch, beat)))


@dataclass(frozen=True)
class BlockTiles:
    """Tilings (B,): blocks of pixels, sums and columns at least, rows of the scratchpad that a block of weights and of inputs
    takes at least, rows of the accumulator likewise."""

    pixels: Floats
    depth: Floats
    columns: Floats
    weight_rows: Floats
    input_rows: Floats
    sum_rows: Floats

    @classmethod
    def of(cls, work: LayerWork, pixels: Counts, depth: Counts, columns: Counts) -> BlockTiles:
        """All combinations of numbers of blocks."""
        m, d, k = (grid.ravel() for grid in np.meshgrid(pixels[0], depth[0], columns[0], indexing="ij"))
        most_m, most_d, most_k = (
            grid.ravel() for grid in np.meshgrid(pixels[1], depth[1], columns[1], indexing="ij")
        )
        results = np.ceil(work.pixels / most_m)
        linear, root, constant = work.reach
        # windows may be cut, too: then a result takes one pixel
        taken = np.where(d == 1, linear * results + root * np.sqrt(results) + constant, results)
        channels = np.ceil(np.ceil(work.channels / most_d) / work.side)
        blocks = np.ceil(np.ceil(work.columns / most_k) / work.side)
        return cls(
            m, d, k, np.ceil(work.depth / most_d) * blocks, taken * channels * (1 - 1e-9), results * blocks
        )


#: Numbers of blocks as intervals: first and last of each.
Counts = tuple[Floats, Floats]


def counts(bound: float, exact: int, ratio: float) -> Counts:
    """1 ... `bound`, one by one up to `exact`."""
    first, last, n = [], [], 1
    while n <= bound:
        end = n if n <= exact else min(int(bound), max(n, int(n * ratio)))
        first.append(float(n))
        last.append(float(end))
        n = end + 1
    return np.array(first), np.array(last)


def few(bound: float, exact: int) -> Counts:
    """1 ... `exact`, and all beyond as one interval: of blocks that cost nothing."""
    numbers = np.arange(1.0, min(bound, exact + 1) + 1)
    last = numbers.copy()
    last[exact:] = bound
    return numbers, last


def column_counts(work: LayerWork, exact: int, ratio: float) -> Counts:
    """Likewise of columns: more blocks than the array's sides in them leave lanes idle, and are one interval."""
    blocks = work.blocks[1]
    first, last = counts(blocks, exact, ratio)
    if work.columns > blocks:
        first, last = np.append(first, blocks + 1.0), np.append(last, work.columns)
    return first, last
