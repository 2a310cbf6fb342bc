"""What no mapping that fits an accelerator undercuts, by the instruction-aware model: energy and cycles of layers together.

`baco.exploration.cost.limits` grants every layer all of its operands once, whatever memories hold: so it is lowest on accelerators
with small memories, which no one would choose. Here a layer is cut into tiles as mappings cut it. Three numbers say how often
main memory's loops change its tiles: m blocks of pixels, d blocks of what is summed up (window and channels), k of result channels.
Of the tile sizes that give as many, the smallest are charged to the memories; of loop orders, all are looked at.

*Main memory.* The innermost loop that runs leaves one tensor where it is. Explicit code brings W m times or I k times, and where
the sums do not stay it writes and reads them d - 1 times; macros besides keep an operand of which no more than two
tiles come between two uses (`baco.compiler.styles.macros.reuse`), and products may have their loop over the depth anywhere.
Every element moved is a byte of the channel at least (sums four), rows of weights that begin inside a beat some more; and one of the
memory port, whose width the channel may exceed: it reads a beat a cycle, and beside it writes one.

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
from baco.common.portable import dot, power
from baco.compiler.analysis.traffic import channel_bytes_per_cycle
from baco.compiler.latency.host import LEAST_SCALE
from baco.compiler.latency.model import constants
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.macros.loop_ws import as_product
from baco.compiler.styles.macros.runs import CONSTANTS
from baco.exploration.cost.certificate import least_product
from baco.exploration.cost.layer_work import EXACT, RATIO, BlockTiles, LayerWork, column_counts, counts, few
from baco.exploration.cost.limits import LeastCosts
from baco.exploration.cost.predicted import most_packed
from baco.exploration.space import DesignSpace
from baco.exploration.space.points import HardwarePoints

Floats = NDArray[np.float64]


#: Ratio of numbers of blocks that share an interval where blocks beyond the first cost next to nothing.
_COARSE = 3.0
#: Sums in another order differ in their last bits.
_ROUNDING = 1 - 1e-12


@dataclass(frozen=True)
class Prices:
    """What an accelerator holds and costs.

    Attributes:
        accumulator_rows, scratchpad_rows: of words of the array's side.
        accumulator_pj, scratchpad_pj: of an access of a word.
        stationary_pj: of a stationary word that moves into the array.
        idle_pj: of a cycle.
    """

    accumulator_rows: float
    scratchpad_rows: float
    accumulator_pj: float
    scratchpad_pj: float
    stationary_pj: float
    idle_pj: float

    @classmethod
    def of(
        cls, space: DesignSpace, dim: int, accumulator_kib: float, scratchpad_kib: float, units: bool
    ) -> Prices:
        """Those of an accelerator of a space."""
        energy, base = space.base.energy_law, space.base
        return cls(
            math.floor(accumulator_kib * 8192 / (base.accumulator_bits * dim)),
            math.floor(scratchpad_kib * 8192 / (base.input_bits * dim)),
            float(energy.accumulator_pj(float(accumulator_kib), float(dim))),
            float(energy.scratchpad_pj(float(scratchpad_kib), float(dim))),
            float(energy.array_pj(0.0, 1.0, float(dim))),
            float(space.static_pj_of(1.0, dim, accumulator_kib, scratchpad_kib, units)),
        )


@dataclass(frozen=True)
class _Ways:
    """Ways to run a layer: explicit code, or macros.

    Attributes:
        work: of the layer.
        accelerator: of the space, sizes apart.
        explicit: whether this is explicit code.
        table: (9, B), see `_ways`.
    """

    work: LayerWork
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
        pj = pj + np.minimum.reduce(local) + at.stationary_pj * work.weights * tiles
        parts = waves, early, late, steps
        rough = self._cycles(np.maximum, *parts)
        rough_pj = pj + at.idle_pj * rough
        alone = np.isinf(weighings)
        slopes, ones = np.where(alone, 1.0, weighings), np.where(alone, 0.0, 1.0)

        def exact(chosen: NDArray[np.intp], slopes: Floats, ones: Floats) -> Floats:
            cycles = self._cycles(self._joined, *(part[chosen] for part in parts))
            return np.asarray(slopes * (pj[chosen] + at.idle_pj * cycles) + ones * cycles)

        values = slopes[:, None] * rough_pj + ones[:, None] * rough
        # exactly of the most promising of each weighing, then of all that may be less than that
        found = np.minimum(known, exact(values.argmin(1), slopes, ones))
        wanted = values < found[:, None]
        chosen = np.flatnonzero(wanted.any(0))
        if len(chosen):
            others = exact(chosen, slopes[:, None], ones[:, None])
            found = np.minimum(found, np.where(wanted[:, chosen], others, np.inf).min(1))
        return np.asarray(found)

    def _cycles(
        self, join: Callable[[Floats, Any], Floats], waves: Floats, early: Floats, late: Floats, steps: Floats
    ) -> Floats:
        """Cycles of array, main memory and, of explicit code, the host core."""
        work = self.work
        if not self.explicit:
            return join(waves, early) + (CONSTANTS[self.accelerator.timing].start + 2.0 * work.side)
        fitted = constants(self.accelerator.timing)
        passes = steps * math.ceil(work.pixels / work.side)
        host = LEAST_SCALE * (fitted.host["program"] + fitted.host["pass"] * passes)
        return join(join(waves, early) + late, host) + (fitted.timing["start"] + work.before)

    def _joined(self, one: Floats, other: Floats) -> Floats:
        """What two things at once take: as the model has it of explicit code, the longer one for macros."""
        if not self.explicit:
            return np.maximum(one, other)
        overlap = constants(self.accelerator.timing).timing["overlap"]
        most = np.maximum(np.maximum(one, other), 1e-9)
        share = np.minimum(one, other) / most
        return np.asarray(most * power(1 + power(share, overlap), 1 / overlap))


@dataclass(frozen=True)
class LeastMoved:
    """Bytes between main memory and accelerator, of tilings (B,)."""

    read: Floats
    written: Floats

    @classmethod
    def of(cls, work: LayerWork, operands: Floats, spills: Floats) -> LeastMoved:
        """Of a layer that loads so many bytes of operands, whose sums leave so often before they are complete."""
        sums = 4.0 * work.outputs * spills
        return cls(operands + work.extra_bytes + sums, work.output_bytes + sums)

    def beside_and_apart(
        self, accelerator: Accelerator, late: Floats | float = 0.0, stores_late: bool = False
    ) -> tuple[Floats, Floats]:
        """Least cycles beside passes and apart from them: of the channel of both, or of the memory port, which has a way each.

        Args:
            late: bytes of loads that the array waits for.
            stores_late: whether nothing goes on while results leave. Where it does, they may leave beside what is waited for, and
                the larger of either way is all that is sure of the port.
        """
        channel, beat = channel_bytes_per_cycle(accelerator), accelerator.dma_bits / 8
        narrow = min(channel, beat)
        early, late = self.read - late, late + 0.0 * self.read
        if stores_late:
            return early / narrow, (late + self.written) / narrow
        ways = np.array(
            [
                [(early + self.written) / channel, late / channel],
                [early / beat, late / beat],
                [self.written / beat, 0.0 * late],
            ]
        )
        longest = ways.sum(1).argmax(0)
        beside, apart = np.take_along_axis(ways, longest[None, None], 0)[0]
        # of what is beside passes every way is a bound
        return np.where(late == 0, ways[:, 0].max(0), beside), apart


def _explicit(work: LayerWork, accelerator: Accelerator) -> _Ways:
    """Explicit code, by the tensor that stays while the innermost loop over main memory runs, and by copies of weights, inputs
    and sums."""
    fine, coarse = (EXACT, RATIO), (1, _COARSE)
    found = []
    for stays in "WIO":
        tiles = BlockTiles.of(
            work,
            counts(work.pixels, *(coarse if stays == "W" else fine)),
            few(work.depth, 1) if stays == "O" else counts(work.depth, *fine),
            column_counts(work, *(coarse if stays == "I" else fine)),
        )
        m, d, k = tiles.pixels, tiles.depth, tiles.columns
        one = np.ones_like(m)
        weights = work.weight_bytes * (one if stays == "W" else m)
        inputs = work.inputs * (one if stays == "I" else k)
        spills = 0.0 * d if stays == "O" else d - 1
        # sums that stay while other tiles come are there as a whole block
        held = np.where(d > 1, tiles.sum_rows, one) if stays == "O" else one
        # what never changes has one copy, whatever a mapping says
        changing = (d * k * work.groups > 1, d * m * work.groups > 1, d > 0)
        for copies in itertools.product((1, 2), repeat=3):
            moved = LeastMoved.of(work, weights + inputs, spills)
            sums = 4.0 * work.outputs * spills
            late = weights * (copies[0] == 1) + inputs * (copies[1] == 1) + sums * (copies[2] == 1)
            rows = copies[0] * tiles.weight_rows + copies[1] * tiles.input_rows
            ways = _ways(
                work, accelerator, tiles, rows, held * copies[2], copies[2], moved, spills,
                moved.beside_and_apart(accelerator, late, copies[2] == 1), work.window,
            )  # fmt: skip
            chosen = [change for number, change in zip(copies, changing, strict=True) if number == 2]
            found.append(ways[:, np.logical_and.reduce([one > 0, *chosen])])
    return _Ways(work, accelerator, True, np.concatenate(found, axis=1))


def _macros(work: LayerWork, accelerator: Accelerator, product: bool) -> _Ways:
    """Macros, by the order of their loops over pixels (i), columns (j) and depth (k)."""
    fine, coarse = (EXACT, RATIO), (2, _COARSE)
    found = []
    for order in ("ijk", "jik", "kij", "kji") if product else ("ijk", "jik"):
        inner = order.endswith("k")
        tiles = BlockTiles.of(
            work,
            counts(work.pixels, *(coarse if order == "kji" else fine)),
            few(work.depth, 2) if inner else counts(work.depth, *fine),
            column_counts(work, *(coarse if order == "kij" else fine)),
        )
        m, d, k = tiles.pixels, tiles.depth, tiles.columns
        # tiles that come between two uses of a tile of weights, and of inputs; a loop inside that one of "ikj" and
        # "jki" comes between no fewer
        between = {"ijk": (k * d, d), "jik": (d, m * d), "kij": (k, 0 * m), "kji": (0 * m, m)}[order]
        operands = work.weight_bytes * np.where((between[0] <= 2) | work.pooled, 1.0, m)
        operands = operands + work.inputs * np.where(between[1] <= 2, 1.0, k)
        spills = np.where(inner | (m * k == 1), 0.0, d - 1)
        rows, moved = 2 * (tiles.weight_rows + tiles.input_rows), LeastMoved.of(work, operands, spills)
        found.append(
            _ways(
                work,
                accelerator,
                tiles,
                rows,
                2 * tiles.sum_rows,
                1,
                moved,
                spills,
                moved.beside_and_apart(accelerator),
                work.positions,
            )
        )
    return _Ways(work, accelerator, False, np.concatenate(found, axis=1))


def _ways(
    work: LayerWork,
    accelerator: Accelerator,
    tiles: BlockTiles,
    rows: Floats,
    held: Floats,
    copies: int,
    moved: LeastMoved,
    spills: Floats,
    memory: tuple[Floats, Floats],
    positions: float,
) -> Floats:
    """(9, B): rows of the scratchpad and of the accumulator that must be there; tiles of pixels at least; copies of a tile's
    sums; blocks of weights that the pixels of a tile pass; cycles of main memory beside passes and not; how often sums leave
    before they are complete; energy (pJ) of products and main memory.

    Args:
        memory: cycles of main memory beside passes and not.
        positions: of the window that the array takes one after the other.
    """
    energy = accelerator.energy_law
    pj = energy.array_pj(work.macs, 0.0, float(accelerator.dim)) + energy.dram_pj * (
        moved.read + moved.written
    )
    blocks = np.maximum(work.blocks[1], tiles.columns) * work.groups * work.blocks[0]
    # tiles of pooled results are no tiles of pixels
    pixels = np.ones_like(spills) if work.pooled else tiles.pixels
    steps = blocks * positions
    one = np.ones_like(spills)
    return np.stack([rows, held, pixels, copies * one, steps, *memory, spills, pj])


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
        least = np.full(len(weighings), np.inf)
        for ways in self._ways[task, side]:
            least = ways.least(at, weighings, least)
        return least

    def _all(self, layer: Layer, side: int) -> list[_Ways]:
        base = self.space.base
        work = LayerWork.of(layer, side, base)
        found = [_macros(work, base, as_product(layer) is not None), _explicit(work, base)]
        first, last = counts(most_packed(layer, side), 1, RATIO)
        for least, most in zip(first[1:].astype(int).tolist(), last[1:].astype(int).tolist(), strict=True):
            found.append(_explicit(LayerWork.of(layer, side, base, least, most), base))
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
    slope = float((dot(cycles, runs) + beside_cycles) / (dot(energy, runs) + beside_energy))
    # the product is least where energy and latency, so weighed, are as much
    weighings = np.array([0.0, slope, np.inf])
    lines = np.stack([cycles, slope * energy + cycles, energy], axis=1)
    beside = np.array([beside_cycles, slope * beside_energy + beside_cycles, beside_energy])
    side = int(point.dim[0])
    at = Prices.of(
        space, side, int(point.accumulator_kib[0]), int(point.scratchpad_kib[0]), bool(point.units[0])
    )
    edp = 0.0
    for task in np.argsort(-runs * lines[:, 1], kind="stable").tolist():
        if runs[task] > 0:
            lines[task] = np.maximum(lines[task], fitting.least(task, side, at, weighings))
            total = (runs[:, None] * lines).sum(0) + beside
            edp = least_product(weighings, total * _ROUNDING)[0]
            if edp >= enough:
                break
    return edp
