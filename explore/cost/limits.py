"""What no design can undercut: least cycles and least energy of a workload on every accelerator of a space.

A limit holds for the costs of one kind, and is worth showing beside no others:

* `reference`: what the reference model predicts (`baco.exploration.cost.reference`);
* `compiled`: what the instruction-aware model predicts of compiled programs, and what is measured of them on the RTL.

Both are sums over layers, and in each layer a maximum over what a layer cannot do without: each operand crosses main
memory's channel, and the array takes one row of operands a cycle. What may differ from mapping to mapping (tiles, orders,
dataflow, groups that share a pass, pixels that share a row) is granted at its best, each for itself; so a limit is below
every mapping that a search may choose, and no limit says that some mapping reaches it. Capacities only enter the energy
of an access, never what fits: that lowers limits as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.accel.dataflows import DATAFLOWS, Dataflow, check_executable
from baco.compiler.analysis.traffic import channel_bytes_per_cycle
from baco.compiler.layers.layer import Layer
from baco.exploration.rest import RestOfPrograms
from baco.exploration.space import DesignSpace
from baco.exploration.space.points import HardwarePoints
from baco.workloads.network import Task
from baco.workloads.problem import Problem

Floats = NDArray[np.float64]

#: Relative tolerance with which the cost models round quotients up (`baco.compiler.latency.arrays`): limits may not
#: round up what they do not.
_TOLERANCE = 1e-6
#: Sums in another order differ in their last bits, which must not lift a limit above what reaches it.
_ROUNDING = 1 - 1e-12


@dataclass(frozen=True)
class _Least:
    """Of one run of a layer, by array side (S,) where there is an axis: words accessed at registers, accumulator,
    scratchpad and main memory, as the reference model names them, and cycles."""

    macs: float
    a0: float
    a1: Floats
    a2: Floats
    a3: float
    cycles: Floats


@dataclass(frozen=True)
class LeastCosts:
    """Least costs of one run of each task of a workload, by array side.

    Attributes:
        space: whose accelerators they are for.
        networks: their names, ascending.
        weights: (N,) runs of each in the workload.
        tasks: (T,)
        cycles: (T, S) by the sides of the space.
        fixed_pj: (T, S) energy that does not depend on capacities.
        accumulator_words, scratchpad_words: (T, S) accesses whose energy does.
        rest: what programs do beside the layers, which no mapping changes; None where only the layers count.
    """

    space: DesignSpace
    networks: tuple[str, ...]
    weights: Floats
    tasks: tuple[Task, ...]
    cycles: Floats
    fixed_pj: Floats
    accumulator_words: Floats
    scratchpad_words: Floats
    rest: RestOfPrograms | None = None

    def points(self) -> HardwarePoints:
        """Accelerators that stand for all of the space that keep its bounds on area and SRAM."""
        points = self.space.least_points()
        sizes = points.dim, points.accumulator_kib, points.scratchpad_kib
        return points.take(self.space.allowed(*sizes, points.units))

    def at(self, points: HardwarePoints) -> tuple[Floats, Floats]:
        """Least energy (pJ) and least cycles of one run of each network on accelerators, (N, H) each."""
        counts, own, beside = self._amounts(points)
        found = np.zeros((len(own), len(self.networks), len(points)))
        for n, task in enumerate(self.tasks):
            found[:, self.networks.index(task.network)] += counts[:, n] / task.weight * own[:, n]
        found += beside / self.weights[:, None]
        energy, cycles = self._priced(found, points)
        return energy * _ROUNDING, cycles * _ROUNDING

    def parts(self, point: HardwarePoints) -> tuple[Floats, tuple[Floats, Floats], tuple[float, float]]:
        """Of one accelerator: runs of each task, weights included, energy (pJ) and cycles of one run of each, (T,) each, and
        of all that programs do beside them."""
        counts, own, beside = self._amounts(point)
        energy, cycles = self._priced(own, point)
        more, longer = self._priced(beside.sum(1), point)
        return counts[0], (energy[:, 0], cycles[:, 0]), (float(more[0]), float(longer[0]))

    def _amounts(self, points: HardwarePoints) -> tuple[Floats, Floats, Floats]:
        """Runs of each task (H, T), weights included; cycles, energy that does not depend on capacities, words of accumulator
        and scratchpad: of one run of each, (4, T, H), and beside them, (4, networks, H), weights included."""
        side = np.searchsorted(np.array(self.space.dim), points.dim)
        own = np.stack([self.cycles, self.fixed_pj, self.accumulator_words, self.scratchpad_words])[..., side]
        counts = np.broadcast_to([task.count for task in self.tasks], (len(points), len(self.tasks)))
        if self.rest is None:
            return counts, own, np.zeros((len(own), len(self.networks), len(points)))
        # points that stand for larger ones as well must not be charged for what these hold
        exact = self.space.enumerable
        least = np.where(exact, (points.accumulator_kib, points.scratchpad_kib), np.inf)
        where = np.asarray(points.dim, dtype=np.float64), least[0], least[1], points.units
        beside = np.stack([one.T for one in self.rest.of(*where)])
        return self.rest.runs(self.tasks, *where), own, beside

    def _priced(self, amounts: Floats, points: HardwarePoints) -> tuple[Floats, Floats]:
        """Energy (pJ) and cycles, (..., H) each, of amounts (4, ..., H)."""
        cycles, *words = amounts
        sizes = (points.dim, points.accumulator_kib, points.scratchpad_kib)
        dim, accumulator, scratchpad = (np.asarray(one, dtype=np.float64) for one in sizes)
        energy = self.space.base.energy_law.with_memories(
            *words, accumulator_kib=accumulator, scratchpad_kib=scratchpad, dim=dim
        )
        # silicon takes energy for as many cycles as there are at least
        return energy + self.space.static_pj_of(cycles, *sizes, points.units), cycles

    def products(self, points: HardwarePoints) -> Floats:
        """Least EDP of the workload on accelerators, (H,), µJ·cycles: least energy times least latency."""
        energy, latency = self.at(points)
        return self.workload(energy) * 1e-6 * self.workload(latency)

    def workload(self, each: Floats) -> Floats:
        """Sum over the networks of (N, H), with their weights, (H,)."""
        total = np.zeros(each.shape[1:])
        for weight, one in zip(self.weights, each, strict=True):
            total += weight * one
        return total

    @property
    def edp(self) -> float:
        """Least energy-delay product of the workload on any accelerator of the space, µJ·cycles: the least product of
        least energy and least latency on the same accelerator. Infinite for a space without any."""
        return float(self.products(self.points()).min(initial=np.inf))


def limits_of(
    tasks: Sequence[Task],
    space: DesignSpace,
    layers: Sequence[Layer] | None,
    rest: RestOfPrograms | None = None,
    *,
    fused: bool = False,
) -> LeastCosts:
    """Limits of a workload in a space.

    Args:
        layers: what the tasks compute, in their order, for limits of compiled programs; None for the reference model's.
        rest: what programs do beside the tasks, which no mapping changes; None where only the tasks count.
        fused: limits that hold whichever operators run as one unit, known or not: nothing crosses main memory's channel, and
            what is beside the tasks takes nothing.
    """
    if fused:
        rest = None
    networks = tuple(sorted({task.network for task in tasks}))
    sides = np.array(space.dim, dtype=np.float64)
    shape = (len(tasks), len(sides))
    cycles, fixed, a1, a2 = (np.zeros(shape) for _ in range(4))
    table, weights = space.base.energy_law, np.ones(len(networks))
    for index, task in enumerate(tasks):
        least = [
            _reference(task.problem, sides, space.base.dram_bytes_per_cycle, flow)
            if layers is None
            else _fused(task.problem, sides, flow)
            if fused
            else _compiled(layers[index], sides, space.base, flow)
            for flow in space.dataflows
        ]
        weights[networks.index(task.network)] = task.weight
        # each dataflow has the better of everything: a layer chooses one
        cycles[index] = np.minimum.reduce([limit.cycles for limit in least])
        a1[index] = np.minimum.reduce([limit.a1 for limit in least])
        a2[index] = np.minimum.reduce([limit.a2 for limit in least])
        energies = (
            sum(table.array_terms(limit.macs, limit.a0, sides)) + table.dram_pj * limit.a3 for limit in least
        )
        # of what switches, energies differ by sides
        fixed[index] = np.minimum.reduce([np.broadcast_to(pj, sides.shape) for pj in energies])
    return LeastCosts(space, networks, weights, tuple(tasks), cycles, fixed, a1, a2, rest)


def touched(results: int, window: int, stride: int, dilation: int) -> int:
    """Different positions x * stride + y * dilation of x < results and y < window: pixels that an axis of a convolution
    reads, whatever its tiles.

    Divided by the common divisor of stride s and dilation d, window positions in different classes modulo s never meet,
    and one of J positions in a class is the one before, moved by d results: P + (J - 1) min(d, P) pixels in all.
    """
    if results == 1 or window == 1:
        return max(results, window)
    step = math.gcd(stride, dilation)
    s, d = stride // step, dilation // step
    long, more = divmod(window, s)

    def pixels(positions: int) -> int:
        return results + (positions - 1) * min(d, results) if positions else 0

    return more * pixels(long + 1) + (s - more) * pixels(long)


def inputs_touched(p: Problem) -> int:
    """Input elements that a problem reads, over all groups, zero padding counted as data."""
    across = touched(p.P, p.R, p.stride_w, p.dilation_w)
    return p.C * p.N * p.groups * across * touched(p.Q, p.S, p.stride_h, p.dilation_h)


def _inside(results: int, window: int, stride: int, dilation: int, before: int, size: int) -> int:
    """Pixels along one axis that code loads at least, of an image of `size` pixels behind a padding of `before`.

    In truth all that are touched and lie inside. But the instruction-aware model estimates what lies outside, for three
    tiles of results beside each edge and for each part of a window that tiles cut, and may count gaps between touched
    pixels as lost (`baco.compiler.styles.explicit.loads`): that it is right up to that is all that is proven here. With
    whole windows, it counts no less than what is touched, less a padding for each of these tiles; with windows cut in
    n > 1 parts, no less than n times the results, less n such paddings. So does the macros' (`baco.compiler.styles.macros.cycles`).
    """
    beyond = (results - 1) * stride + (window - 1) * dilation - before - (size - 1)
    lost = sum(max(0, side - tile * stride) for side in (before, beyond) for tile in range(3))
    whole = touched(results, window, stride, dilation) - lost
    return max(0, whole if window == 1 else min(whole, 2 * (results - lost)))


def pooled_from(layer: Layer) -> tuple[int, int]:
    """Rows and columns of the results before pooling that some window of it takes."""
    pool, p = layer.pooling, layer.problem
    assert pool is not None
    reaches = ((stored - 1) * pool.stride + pool.size - pool.padding for stored in (pool.rows, pool.columns))
    rows, columns = (min(reach, whole) for reach, whole in zip(reaches, (p.Q, p.P), strict=True))
    return rows, columns


def loaded_pixels(layer: Layer) -> int:
    """Pixels that code loads at least of an image."""
    p = layer.problem
    down = _inside(p.Q, p.S, p.stride_h, p.dilation_h, layer.padding[0], layer.size[0])
    across = _inside(p.P, p.R, p.stride_w, p.dilation_w, layer.padding[1], layer.size[1])
    return down * across


def _up(x: Floats) -> Floats:
    """Rounded up, as the models do."""
    return np.ceil(x * (1 - _TOLERANCE))


def _reference(p: Problem, sides: Floats, bandwidth: float, flow: Dataflow) -> _Least:
    """Limits of the reference model (method specification, section 3, whose names are used).

    A mapping covers every bound and has at most `dim` rows and columns. Then, padded or not, the array takes ceil(D / dim)
    ceil(K / dim) passes over all else, D being the dimension along the rows (C, weight-stationary; P, output-stationary);
    every output is updated once a pass over what is summed up and leaves the accumulator at least once, a1 = 2 updates - out + fills of O;
    operands reach the array once a pass, weights (output-stationary: each row's) besides, and a tensor is filled at
    least once with every element that is touched: window extents count what lies between as well, but a mapping of
    single pixels does not. Accumulator and scratchpad have the model's ports.
    """
    pixels, kernel = float(p.P * p.Q * p.N), float(p.R * p.S)
    outputs, weights = float(p.output_words), float(p.weight_words)
    inputs = float(inputs_touched(p))
    columns = np.ceil(p.K / sides)
    reads = p.groups * pixels * kernel * p.C * columns
    rule = DATAFLOWS[flow]
    rows = np.ceil(getattr(p, rule.row) / sides)
    beside = float(math.prod(getattr(p, name) for name in rule.row_peers))
    if rule.sums_stay:
        streamed = beside * kernel * p.C * rows
        compute = p.groups * streamed * columns
        a0, a1 = p.macs + outputs, np.full_like(sides, 2 * outputs)
        a2 = reads + p.groups * streamed * p.K + weights + inputs
    else:
        compute = p.groups * pixels * beside * rows * columns
        a0, a1 = p.macs + weights, 2 * outputs * beside * rows
        a2 = reads + 2 * weights + inputs
    a3 = weights + inputs + outputs
    busy = [
        compute,
        a1 / (2 * np.minimum(p.K, sides)),
        a2 / (2 * sides),
        np.full_like(sides, a3 / bandwidth),
    ]
    return _Least(float(p.macs), a0, a1, a2, a3, np.maximum.reduce(busy))


def _compiled(layer: Layer, sides: Floats, accelerator: Accelerator, flow: Dataflow) -> _Least:
    """Limits of compiled programs: of what the instruction-aware model predicts, and of what the RTL does.

    *Cycles.* The array takes one row a cycle, of at most `dim` operands for at most `dim` results. Code multiplies
    blocks of a layer, so a pixel takes ceil(C / dim) ceil(K / dim) rows for every position of the window, but for two
    packings of the compiler's: LOOP_CONV_WS puts floor(dim / C) positions of a line of the window in a row
    (`baco.compiler.styles.macros.cycles`), and explicit code floor(dim / max(C, K)) groups (`baco.compiler.styles.packed`). Neither
    is for output-stationary code. The model's cycles are never below its rows of the array, its bytes over the channel's
    bandwidth, and what it reads and what it writes over the width of the memory port, since it adds to the largest of these
    (`macro_runs.overlapped`: every factor is at least 1 and no addend negative; `instruction.model`: phases one after the other, a
    norm of what goes on in one). In the RTL one channel serves reads and writes, the port moves a beat of each a cycle, and a
    fence ends the program.

    *Bytes.* Weights, the pixels of the stored image that some window touches, and results cross the channel; requests
    and bursts only add to that.

    *Energy.* Results are written to a row of the accumulator once a pass and read as often: by the next pass, and by the
    store. Operands are read from the scratchpad once a row, weights once more, and both were written there before. The
    model counts these accesses as the reference model does (`_reference`), with as many passes or more. The RTL clocks
    whole rows of memories, which only adds.
    """
    check_executable([flow])
    weights_stay = not DATAFLOWS[flow].sums_stay
    p = layer.problem
    pixels, kernel = float(p.P * p.Q * p.N), float(p.R * p.S)
    weights = float(p.weight_words)
    inputs = float(p.C * p.N * p.groups) * loaded_pixels(layer)
    stored, computed = float(p.output_words), pixels
    if layer.pooling is not None:
        computed = float(p.N * math.prod(pooled_from(layer)))
        stored = float(p.N * p.K * p.groups) * layer.pooling.rows * layer.pooling.columns
    read = weights * layer.weight_size + inputs * layer.element_bytes
    written = stored * layer.output_bits / 8
    channel, beat = channel_bytes_per_cycle(accelerator), accelerator.dma_bits / 8
    columns = _up(p.K / sides)
    rows, passes = _rows(p, sides, weights_stay)
    return _Least(
        macs=float(p.macs),
        a0=p.macs + (weights if weights_stay else 0.0),
        a1=2.0 * p.output_words * passes,
        a2=p.groups * pixels * kernel * p.C * columns + 2 * weights + inputs,
        a3=read + written,
        cycles=np.maximum(rows * computed, max((read + written) / channel, read / beat, written / beat)),
    )


def _fused(problem: Problem, sides: Floats, flow: Dataflow) -> _Least:
    """Limits of a layer as a part of any unit (`baco.compiler.styles.fused`): what `_compiled` says of the array, since units
    pass operands through it in the same ways, and of memories that every row of operands is read. Halos are computed more than once,
    never less; products of a causal attention leave out what lies behind the diagonal, which is less than half, and may hand on
    results without the scratchpad.
    """
    p = problem
    product = p.R == p.S == 1
    share, pixels = 0.5 if product else 1.0, float(p.P * p.Q * p.N)
    rows, _ = _rows(p, sides, weights_stay=not DATAFLOWS[flow].sums_stay)
    return _Least(
        macs=share * p.macs,
        a0=share * p.macs,
        a1=np.zeros_like(sides),
        a2=np.full_like(sides, 0.0 if product else p.groups * pixels * p.R * p.S * p.C),
        a3=0.0,
        cycles=share * rows * pixels,
    )


def _rows(p: Problem, sides: Floats, weights_stay: bool) -> tuple[Floats, Floats]:
    """Rows of operands that the array takes for a pixel at least, and passes over sums."""
    kernel = float(p.R * p.S)
    columns, blocks = _up(p.K / sides), _up(p.C / sides)
    if not weights_stay:
        return p.groups * columns * blocks * kernel, np.ones_like(sides)
    steps = p.S * _up(p.R / np.maximum(1.0, np.floor(sides / p.C)))
    together = np.floor(sides / max(p.C, p.K))
    packed = np.where(together >= 2, _up(p.groups / np.maximum(together, 1.0)) * kernel, np.inf)
    return np.minimum(p.groups * columns * blocks * steps, packed), blocks * steps
