"""What no mapping that fits an accelerator undercuts, by the instruction-aware model: energy and cycles of layers together.

`baco.exploration.cost.limits` grants every layer all of its operands once, whatever memories hold: so it is lowest on accelerators
with small memories, which no one would choose. Here a layer is cut into tiles as mappings cut it. Three numbers say how often
main memory's loops change its tiles: m blocks of pixels, d blocks of what is summed up (window and channels), k of result channels.
Of the tile sizes that give as many, the smallest are charged to the memories; of loop orders, all are looked at.

*Main memory.* The innermost loop that runs leaves one tensor where it is. Explicit code brings W m times or I k times, and where
the sums do not stay it writes and reads them d - 1 times; macros besides keep an operand of which no more than two
tiles come between two uses (`baco.compiler.styles.macros.reuse`), and products may have their loop over the depth anywhere.
Every element moved is a byte of the channel at least (sums four), rows of weights that begin inside a beat some more.

*Room.* Tiles of one copy or two, as the mapping says, in whole rows of the scratchpad (`baco.exploration.cost.genome.needs`); of
sums that stay while other tiles come, a row of the accumulator for each pixel and block of columns. Pixels that the accumulator
does not hold at once come in more passes: each brings all weights to the registers again, and takes the array's side at least.

*Cycles.* Explicit code: what two copies hide goes on beside the passes, all else before or after, joined as the model joins them
(`baco.compiler.latency.model.joined`, a norm: so parts may be joined one by one and only fall), the host core's work for passes
beside it. Macros: the longer of array and channel, and the ends.

*Energy.* As the reference model counts (`baco.exploration.cost.limits._reference`), with the weights' fills and spilled sums of the
tiling. A problem no larger than the array either leaves lanes idle, whose whole rows are accessed, or cuts its channels or columns in
two. Neighbouring groups may share passes (`baco.compiler.styles.packed`), for as many more multiplications.

Everything that is not said is granted: halos of tiles, misaligned results, waiting, commands of the host but passes'.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.accel.dataflows import MACRO_DATAFLOW
from baco.compiler.analysis.traffic import channel_bytes_per_cycle
from baco.compiler.latency.model import constants
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.explicit.plan import LOAD_BYTES
from baco.compiler.styles.macros.estimate import expansion_cycles
from baco.compiler.styles.macros.loop_ws import as_product
from baco.compiler.styles.macros.runs import CONSTANTS
from baco.exploration.cost.certificate import least_product
from baco.exploration.cost.limits import LeastCosts, loaded_pixels, pooled_from
from baco.exploration.cost.predicted import most_packed
from baco.exploration.space import DesignSpace
from baco.exploration.space.points import HardwarePoints
from baco.workloads.problem import Problem

__all__ = ["Fitting", "Prices", "least_edp"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Numbers of blocks up to which each is looked at, and the ratio of those that share an interval beyond.
_EXACT, _RATIO = 4, 1.5
#: Likewise the ratio where blocks beyond the first cost next to nothing.
_COARSE = 3.0
#: Sums in another order differ in their last bits.
_ROUNDING = 1 - 1e-12
#: What host work is at least multiplied by (`baco.compiler.latency.host.host_features`).
_LEAST_ALIVE = 0.6**0.35


@dataclass(frozen=True)
class Prices:
    """What an accelerator holds and costs.

    Attributes:
        accumulator_rows, scratchpad_rows: of words of the array's side.
        accumulator_pj, scratchpad_pj, register_pj: of an access of a word.
        idle_pj: of a cycle.
    """

    accumulator_rows: float
    scratchpad_rows: float
    accumulator_pj: float
    scratchpad_pj: float
    register_pj: float
    idle_pj: float

    @classmethod
    def of(
        cls, space: DesignSpace, dim: int, accumulator_kib: float, scratchpad_kib: float, units: bool
    ) -> Prices:
        """Those of an accelerator of a space."""
        energy, base = space.base.energy, space.base
        return cls(
            math.floor(accumulator_kib * 8192 / (base.accumulator_bits * dim)),
            math.floor(scratchpad_kib * 8192 / (base.input_bits * dim)),
            float(energy.accumulator_pj(float(accumulator_kib), float(dim))),
            float(energy.scratchpad_pj(float(scratchpad_kib))),
            energy.register_pj,
            float(space.static_pj_of(1.0, dim, accumulator_kib, scratchpad_kib, units)),
        )


@dataclass(frozen=True)
class _Work:
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
    def of(cls, layer: Layer, side: int, accelerator: Accelerator, least: int = 1, most: int = 1) -> _Work:
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
        extra = 0.0 if layer.residual_scale is None else outputs
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
            weight_bytes=weights + (_ragged(layer, side, accelerator) if most == 1 else 0.0),
            output_bytes=stored * (4 if layer.scale is None else 1),
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
    """See `_Work.reach`: w x h results take (a w + b)(a' h + b'), which is least for a square."""
    across, down = p.stride_w, p.stride_h
    more_across = (p.R - 1) * p.dilation_w + 1 - across
    more_down = (p.S - 1) * p.dilation_h + 1 - down
    if p.N > 1 or more_across < 0 or more_down < 0:
        return 1.0, 0.0, 0.0
    area = across * down
    return float(area), 2 * math.sqrt(area * more_across * more_down), float(more_across * more_down)


def _ragged(layer: Layer, side: int, accelerator: Accelerator) -> float:
    """Bytes that loads of weights bring beside them, once: a row of one load begins inside a beat of the port, as far as the
    rows' distance says, unless rows are so near that several are one."""
    p, beat = layer.problem, accelerator.dma_bits // 8
    widest = max(LOAD_BYTES, accelerator.dma_max_bytes, side)
    pitch = layer.weight.pitch
    if layer.weights_transposed or pitch - min(widest, p.K) < beat:
        return 0.0
    rows = p.groups * p.R * p.S * p.C * math.ceil(p.K / widest)
    return float(rows * (beat - min(pitch & -pitch, beat)))


@dataclass(frozen=True)
class _Tiles:
    """Tilings (B,): blocks of pixels, sums and columns at least, rows of the scratchpad that a block of weights and of inputs
    takes at least, rows of the accumulator likewise."""

    pixels: Floats
    depth: Floats
    columns: Floats
    weight_rows: Floats
    input_rows: Floats
    sum_rows: Floats

    @classmethod
    def of(cls, work: _Work, pixels: _Counts, depth: _Counts, columns: _Counts) -> _Tiles:
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
_Counts = tuple[Floats, Floats]


def _counts(bound: float, exact: int, ratio: float) -> _Counts:
    """1 ... `bound`, one by one up to `exact`."""
    first, last, n = [], [], 1
    while n <= bound:
        end = n if n <= exact else min(int(bound), max(n, int(n * ratio)))
        first.append(float(n))
        last.append(float(end))
        n = end + 1
    return np.array(first), np.array(last)


def _few(bound: float, exact: int) -> _Counts:
    """1 ... `exact`, and all beyond as one interval: of blocks that cost nothing."""
    numbers = np.arange(1.0, min(bound, exact + 1) + 1)
    last = numbers.copy()
    last[exact:] = bound
    return numbers, last


def _column_counts(work: _Work, exact: int, ratio: float) -> _Counts:
    """Likewise of columns: more blocks than the array's sides in them leave lanes idle, and are one interval."""
    blocks = work.blocks[1]
    first, last = _counts(blocks, exact, ratio)
    if work.columns > blocks:
        first, last = np.append(first, blocks + 1.0), np.append(last, work.columns)
    return first, last


@dataclass(frozen=True)
class _Ways:
    """Ways to run a layer: explicit code, or macros.

    Attributes:
        work: of the layer.
        accelerator: of the space, sizes apart.
        explicit: whether this is explicit code.
        table: (9, B), see `_ways`.
    """

    work: _Work
    accelerator: Accelerator
    explicit: bool
    table: Floats

    def least(self, at: Prices, weighings: Floats, known: Floats) -> Floats:
        """Least weighing * energy + cycles on an accelerator, (G,), but no more than what is `known`. An infinite weighing
        stands for energy alone."""
        fits = (self.table[0] <= at.scratchpad_rows) & (self.table[1] <= at.accumulator_rows)
        if not fits.any():
            return known
        _, _, tiles, copies, steps, early, late, spills, pj = self.table[:, fits]
        work, timing = self.work, constants(self.accelerator.timing).timing
        exchange = 0.0
        if self.explicit:
            held = np.floor(at.accumulator_rows / copies)
            tiles = np.maximum(tiles, np.ceil(work.pixels / held))
            exchange = timing["exchange"]
        waves = steps * (np.maximum(work.computed, tiles * work.side) + exchange * tiles)
        local = [
            at.accumulator_pj * words
            + at.scratchpad_pj * reads
            + at.accumulator_pj * spilled * spills
            + at.scratchpad_pj * again * tiles
            for words, spilled, reads, again in work.accesses
        ]
        pj = pj + np.minimum.reduce(local) + at.register_pj * work.weights * tiles
        parts = waves, early, late, steps
        rough = self._cycles(np.maximum, *parts)
        rough_pj = pj + at.idle_pj * rough
        found = known.copy()
        for n, weighing in enumerate(weighings.tolist()):
            slope, one = (1.0, 0.0) if math.isinf(weighing) else (weighing, 1.0)
            values = slope * rough_pj + one * rough
            # exactly of the most promising, then of all that may be less than that
            for chosen in (values.argmin()[None], None):
                if chosen is None:
                    chosen = np.flatnonzero(values < found[n])
                if len(chosen):
                    cycles = self._cycles(self._joined, *(part[chosen] for part in parts))
                    exact = slope * (pj[chosen] + at.idle_pj * cycles) + one * cycles
                    found[n] = min(found[n], exact.min())
        return found

    def _cycles(
        self, join: Callable[[Floats, Any], Floats], waves: Floats, early: Floats, late: Floats, steps: Floats
    ) -> Floats:
        """Cycles of array, main memory and, of explicit code, the host core."""
        work = self.work
        if not self.explicit:
            return join(waves, early) + (CONSTANTS[self.accelerator.timing].start + 2.0 * work.side)
        fitted = constants(self.accelerator.timing)
        passes = steps * math.ceil(work.pixels / work.side)
        host = _LEAST_ALIVE * (fitted.host["program"] + fitted.host["pass"] * passes)
        return join(join(waves, early) + late, host) + (fitted.timing["start"] + work.before)

    def _joined(self, one: Floats, other: Floats) -> Floats:
        """What two things at once take: as the model has it of explicit code, the longer one for macros."""
        if not self.explicit:
            return np.maximum(one, other)
        power = constants(self.accelerator.timing).timing["overlap"]
        most = np.maximum(np.maximum(one, other), 1e-9)
        share = np.minimum(one, other) / most
        return np.asarray(most * (1 + share**power) ** (1 / power))


def _explicit(work: _Work, accelerator: Accelerator) -> _Ways:
    """Explicit code, by the tensor that stays while the innermost loop over main memory runs, and by copies of weights, inputs
    and sums."""
    fine, coarse = (_EXACT, _RATIO), (1, _COARSE)
    found = []
    for stays in "WIO":
        tiles = _Tiles.of(
            work,
            _counts(work.pixels, *(coarse if stays == "W" else fine)),
            _few(work.depth, 1) if stays == "O" else _counts(work.depth, *fine),
            _column_counts(work, *(coarse if stays == "I" else fine)),
        )
        m, d, k = tiles.pixels, tiles.depth, tiles.columns
        one = np.ones_like(m)
        weights = work.weight_bytes * (one if stays == "W" else m)
        inputs = work.inputs * (one if stays == "I" else k)
        spills = 0.0 * d if stays == "O" else d - 1
        results = work.output_bytes + 8.0 * work.outputs * spills
        # sums that stay while other tiles come are there as a whole block
        held = np.where(d > 1, tiles.sum_rows, one) if stays == "O" else one
        # what never changes has one copy, whatever a mapping says
        changing = (d * k * work.groups > 1, d * m * work.groups > 1, d > 0)
        for copies in itertools.product((1, 2), repeat=3):
            late = sum(
                moved * (number == 1)
                for number, moved in zip(copies, (weights, inputs, results), strict=True)
            )
            rows = copies[0] * tiles.weight_rows + copies[1] * tiles.input_rows
            ways = _ways(
                work, accelerator, tiles, rows, held * copies[2], copies[2], weights + inputs, spills, late,
                work.window,
            )  # fmt: skip
            chosen = [change for number, change in zip(copies, changing, strict=True) if number == 2]
            found.append(ways[:, np.logical_and.reduce([one > 0, *chosen])])
    return _Ways(work, accelerator, True, np.concatenate(found, axis=1))


def _macros(work: _Work, accelerator: Accelerator, product: bool) -> _Ways:
    """Macros, by the order of their loops over pixels (i), columns (j) and depth (k)."""
    fine, coarse = (_EXACT, _RATIO), (2, _COARSE)
    found = []
    for order in ("ijk", "jik", "kij", "kji") if product else ("ijk", "jik"):
        inner = order.endswith("k")
        tiles = _Tiles.of(
            work,
            _counts(work.pixels, *(coarse if order == "kji" else fine)),
            _few(work.depth, 2) if inner else _counts(work.depth, *fine),
            _column_counts(work, *(coarse if order == "kij" else fine)),
        )
        m, d, k = tiles.pixels, tiles.depth, tiles.columns
        # tiles that come between two uses of a tile of weights, and of inputs; a loop inside that one of "ikj" and
        # "jki" comes between no fewer
        between = {"ijk": (k * d, d), "jik": (d, m * d), "kij": (k, 0 * m), "kji": (0 * m, m)}[order]
        operands = work.weight_bytes * np.where((between[0] <= 2) | work.pooled, 1.0, m)
        operands = operands + work.inputs * np.where(between[1] <= 2, 1.0, k)
        spills = np.where(inner | (m * k == 1), 0.0, d - 1)
        rows = 2 * (tiles.weight_rows + tiles.input_rows)
        found.append(
            _ways(
                work, accelerator, tiles, rows, 2 * tiles.sum_rows, 1, operands, spills, 0.0, work.positions
            )
        )
    return _Ways(work, accelerator, False, np.concatenate(found, axis=1))


def _ways(
    work: _Work,
    accelerator: Accelerator,
    tiles: _Tiles,
    rows: Floats,
    held: Floats,
    copies: int,
    operands: Floats,
    spills: Floats,
    late: Floats | float,
    positions: float,
) -> Floats:
    """(9, B): rows of the scratchpad and of the accumulator that must be there; tiles of pixels at least; copies of a tile's
    sums; blocks of weights that the pixels of a tile pass; cycles of main memory beside passes and not; how often sums leave
    before they are complete; energy (pJ) of products and main memory.

    Args:
        operands, late: bytes of operands, and those of all that moves apart from passes.
        positions: of the window that the array takes one after the other.
    """
    energy, rate = accelerator.energy, channel_bytes_per_cycle(accelerator)
    moved = operands + work.output_bytes + work.extra_bytes + 8.0 * work.outputs * spills
    pj = (energy.mac_pj + energy.register_pj) * work.macs + energy.dram_pj * moved
    blocks = np.maximum(work.blocks[1], tiles.columns) * work.groups * work.blocks[0]
    # tiles of pooled results are no tiles of pixels
    pixels = np.ones_like(spills) if work.pooled else tiles.pixels
    steps = blocks * positions
    one = np.ones_like(spills)
    return np.stack(
        [rows, held, pixels, copies * one, steps, (moved - late) / rate, late / rate * one, spills, pj]
    )


class Fitting:
    """What no mapping that fits undercuts, of the layers of a search's tasks; ways to run them are listed once a side.

    Args:
        layers: what the tasks compute, in their order.
        space: whose compiled programs run; `knows` says of which spaces something can be said.
    """

    def __init__(self, layers: Sequence[Layer], space: DesignSpace) -> None:
        self.layers, self.space = tuple(layers), space
        self._ways: dict[tuple[int, int], list[_Ways]] = {}

    @staticmethod
    def knows(space: DesignSpace) -> bool:
        """Whether programs of the space's accelerators are such as is said here."""
        return space.enumerable and space.base.timing == "baco" and space.dataflows == (MACRO_DATAFLOW,)

    def least(self, task: int, side: int, at: Prices, weighings: Floats) -> Floats:
        """See `_Ways.least`: of one run of a task."""
        if (task, side) not in self._ways:
            self._ways[task, side] = self._all(self.layers[task], side)
        found = np.full(len(weighings), np.inf)
        for ways in self._ways[task, side]:
            found = ways.least(at, weighings, found)
        return found

    def _all(self, layer: Layer, side: int) -> list[_Ways]:
        base = self.space.base
        work = _Work.of(layer, side, base)
        found = [_macros(work, base, as_product(layer) is not None), _explicit(work, base)]
        first, last = _counts(most_packed(layer, side), 1, _RATIO)
        for least, most in zip(first[1:].astype(int).tolist(), last[1:].astype(int).tolist(), strict=True):
            found.append(_explicit(_Work.of(layer, side, base, least, most), base))
        return found


def least_edp(limits: LeastCosts, layers: Sequence[Layer], incumbent: float = math.inf) -> float:
    """Least energy-delay product of a workload's compiled programs as the instruction-aware model predicts them on any
    accelerator of a space, µJ·cycles.

    Accelerators are looked at in the order of what `limits` says of them, until that is more than what was found; and of
    each the layers that take most first, until it cannot be the least or is worse than a known design.

    Args:
        limits: of compiled programs, and what they do beside layers.
        layers: of the tasks, in their order.
        incumbent: EDP of a design that is known.
    """
    if not Fitting.knows(limits.space):
        return limits.edp
    points = limits.points()
    fitting = Fitting(layers, limits.space)
    rough = limits.products(points)
    least = math.inf
    for h in np.argsort(rough, kind="stable").tolist():
        if rough[h] >= least:
            break
        enough = min(least, incumbent)
        least = min(least, max(float(rough[h]), _edp_at(limits, fitting, points.take([h]), enough)))
    return least


def _edp_at(limits: LeastCosts, fitting: Fitting, point: HardwarePoints, enough: float) -> float:
    """Least EDP on one accelerator, µJ·cycles; some lower bound above `enough` will do."""
    space = limits.space
    runs, (energy, cycles), (beside_energy, beside_cycles) = limits.parts(point)
    slope = float((runs @ cycles + beside_cycles) / (runs @ energy + beside_energy))
    # the product is least where energy and latency, so weighed, are as much
    weighings = np.array([0.0, slope, np.inf])
    lines = np.stack([cycles, slope * energy + cycles, energy], axis=1)
    beside = np.array([beside_cycles, slope * beside_energy + beside_cycles, beside_energy])
    side = int(point.dim[0])
    at = Prices.of(
        space, side, int(point.accumulator_kib[0]), int(point.scratchpad_kib[0]), bool(point.units[0])
    )
    found = 0.0
    for task in np.argsort(-runs * lines[:, 1], kind="stable").tolist():
        if runs[task] > 0:
            lines[task] = np.maximum(lines[task], fitting.least(task, side, at, weighings))
            total = (runs[:, None] * lines).sum(0) + beside
            found = least_product(weighings, total * _ROUNDING)[0]
            if found >= enough:
                break
    return found
