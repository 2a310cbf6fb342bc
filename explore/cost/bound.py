"""Lower bounds on the energy-delay product: how far from the limit can a found design still be?

`compulsory_bound` is the published kind: every tensor crosses the DRAM bus once, arrays are perfectly used.
`capacity_bound` also knows what memories cost and hold: for every hardware point it charges the energy of
*that* scratchpad and accumulator, and the least DRAM traffic of any tiling that fits them. No mapping of
the reference model on a point of the space costs less (argument at `_traffic`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.accel.dataflows import DATAFLOWS, MACRO_DATAFLOW, Dataflow
from baco.accel.energy import EnergyLaw, EnergyTable
from baco.compiler.mapping.batch import AXES
from baco.exploration.combine import chain
from baco.exploration.cost.limits import inputs_touched
from baco.exploration.cost.tiles import copies_at_least, scratchpad_bytes, swept
from baco.exploration.space import DesignSpace
from baco.workloads.network import Task
from baco.workloads.problem import Problem

Floats = NDArray[np.float64]

#: Tile counts up to this are enumerated one by one, larger ones in intervals of this ratio. Finer intervals give a
#: somewhat higher bound at many times the cost; `baco.exploration.cost.certificate` closes the rest far more cheaply.
_EXACT_COUNTS, _RATIO = 4, 1.3


def compulsory_bound(
    tasks: Sequence[Task],
    energy: EnergyTable | None = None,
    dram_bytes_per_cycle: float = 8.0,
    dataflows: Sequence[Dataflow] = (MACRO_DATAFLOW,),
) -> float:
    """Compulsory-traffic bound on a workload's EDP in µJ·cycles, for the best array side of 8 to 128.

    Source: method specification section 3, for weight-stationary mappings, but that pixels between those that windows
    touch do not count (`baco.exploration.cost.limits`); for output-stationary ones (which
    put P on the rows, drain every output once and read both operands for every pass) by the same argument, and so for others
    that put another dimension there. Where several are allowed, each layer is granted the best latency and the best energy."""
    e = energy or EnergyTable()
    best = np.inf
    for dim in range(8, 129):
        total_e = total_l = 0.0
        for task in tasks:
            picojoules, cycles = compulsory_cost(
                task.problem,
                dim,
                e,
                dram_bytes_per_cycle,
                dataflows,
                accumulator_pj=e.accumulator_base_pj,
                scratchpad_pj=e.scratchpad_base_pj,
            )
            total_l += task.count * cycles
            total_e += task.count * picojoules
        best = min(best, total_e * 1e-6 * total_l)
    return float(best)


def compulsory_cost(
    p: Problem,
    dim: float,
    energy: EnergyLaw,
    dram_bytes_per_cycle: float,
    dataflows: Sequence[Dataflow],
    *,
    accumulator_pj: float,
    scratchpad_pj: float,
    packed: float = 1.0,
) -> tuple[float, float]:
    """Least energy (pJ) and latency (cycles) of one run of a problem on an array of side `dim` whose memories cost so much
    a word: every tensor crosses the DRAM bus once, the array is perfectly used by `packed` groups at once. The two are of
    the best of the dataflows each, not of one mapping."""
    words = p.weight_words + inputs_touched(p) + p.output_words
    columns = min(p.K, dim)
    always = energy.array_pj(p.macs, 0.0, dim) + energy.dram_pj * words
    cycles, picojoules = [], []
    for rule in (DATAFLOWS[name] for name in dataflows):
        rows = min(getattr(p, rule.row), dim)
        cycles.append(p.macs / (rows * columns * packed))
        if rule.sums_stay:
            reads = p.macs / columns + p.macs / rows
            updates = accumulator_pj * 2 * p.output_words
        else:
            reads = p.macs / columns + p.weight_words
            updates = accumulator_pj * p.macs / rows
        picojoules.append(updates + scratchpad_pj * reads)
    return always + min(picojoules), max(min(cycles), words / dram_bytes_per_cycle)


def compulsory_costs(
    problems: Sequence[Problem], accelerator: Accelerator, packs: Sequence[bool] | None = None
) -> tuple[Floats, Floats]:
    """`compulsory_cost` of every problem on an accelerator, (n,) each; `packs` says of which problems as many groups as the
    lanes hold run at once."""
    energy, dim = accelerator.energy_law, accelerator.dim
    costs = []
    for i, p in enumerate(problems):
        costs.append(
            compulsory_cost(
                p,
                dim,
                energy,
                accelerator.dram_bytes_per_cycle,
                accelerator.dataflows,
                accumulator_pj=energy.accumulator_pj(float(accelerator.accumulator_kib), dim),
                scratchpad_pj=energy.scratchpad_pj(float(accelerator.scratchpad_kib), dim),
                packed=max(1, min(p.groups, dim // max(p.C, p.K))) if packs is not None and packs[i] else 1,
            )
        )
    table = np.array(costs, dtype=np.float64).reshape(-1, 2)
    return table[:, 0].copy(), table[:, 1].copy()


@dataclass(frozen=True)
class CapacityBound:
    """Bounds over the hardware points of a space.

    Attributes:
        edp: least over all points, µJ·cycles.
        dim, accumulator_kib, scratchpad_kib: the points, (H,) each.
        edp_by_point: (H,) bound of each.
    """

    edp: float
    dim: Floats
    accumulator_kib: Floats
    scratchpad_kib: Floats
    edp_by_point: Floats


def capacity_bound(tasks: Sequence[Task], space: DesignSpace) -> CapacityBound:
    """Bound for every hardware point of an enumerable space within its area and SRAM limits.

    Other constraints are not used, so it is a bound with or without them."""
    points = space.hardware()
    dim = np.asarray(points.dim, dtype=np.float64)
    acc = np.asarray(points.accumulator_kib, dtype=np.float64)
    sp = np.asarray(points.scratchpad_kib, dtype=np.float64)
    energies: list[Floats] = []
    latencies: list[Floats] = []
    for task in tasks:
        e, t = _layer_bound(task.problem, space, dim, acc, sp)
        energies.append(e)
        latencies.append(t)
    counts = [task.count for task in tasks]
    edp = np.full(len(dim), np.inf)
    for h in range(len(dim)):
        merged = chain([e[:, h] for e in energies], [t[:, h] for t in latencies], counts)
        if merged is not None:
            edp[h] = (merged.energy * 1e-6 * merged.latency).min()
    return CapacityBound(float(edp.min()), dim, acc, sp, edp)


def _layer_bound(
    p: Problem, space: DesignSpace, dim: Floats, acc_kib: Floats, sp_kib: Floats
) -> tuple[Floats, Floats]:
    """Energy (pJ) and latency (cycles) no mapping of `p` on a point undercuts, for each way to run it:
    (ways, H); infinite where nothing fits."""
    energy = space.base.energy_law
    c_acc = np.asarray(energy.accumulator_pj(acc_kib, dim))
    c_sp = np.asarray(energy.scratchpad_pj(sp_kib, dim))
    words_per_column = np.floor(acc_kib * 1024 / (4 * dim))
    plain, held = _traffic(p, space, dim, words_per_column, sp_kib * 1024)
    a3 = np.minimum(plain, held)
    bounds = {axis: getattr(p, axis) for axis in AXES}
    pixels = bounds["P"] * bounds["Q"] * bounds["N"]
    kernel = bounds["R"] * bounds["S"]
    out = pixels * bounds["K"]
    weights = kernel * bounds["C"] * bounds["K"]
    inputs = inputs_touched(p) / p.groups
    macs = p.macs / p.groups
    columns_passes = np.ceil(bounds["K"] / dim)
    ways: list[tuple[Floats, Floats]] = []

    def way(compute: Floats, a0: Floats, a1: Floats, a2: Floats, traffic: Floats) -> None:
        multiplied, registers = energy.array_terms(macs, a0, dim)
        pj = multiplied + registers + c_acc * a1 + c_sp * a2 + energy.dram_pj * traffic
        cycles = np.maximum.reduce(
            [
                compute,
                a1 / (2 * np.minimum(bounds["K"], dim)),
                a2 / (2 * dim),
                traffic / space.base.dram_bytes_per_cycle,
            ]
        )
        pj = pj + space.static_pj_of(cycles, dim, acc_kib, sp_kib)
        ways.append((pj * p.groups, cycles * p.groups))

    for rule in (DATAFLOWS[name] for name in space.dataflows):
        passes = np.ceil(bounds[rule.row] / dim)
        beside = math.prod(bounds[name] for name in rule.row_peers)
        if rule.sums_stay:
            rest = beside * kernel * bounds["C"]
            compute = rest * passes * columns_passes
            reads = rest * (bounds[rule.row] * columns_passes + bounds["K"] * passes) + weights + inputs
            way(compute, np.asarray(macs + out), np.full(len(dim), 2.0 * out), reads, a3)
            continue
        compute = pixels * beside * passes * columns_passes
        updates = out * beside * passes
        reads = pixels * kernel * bounds["C"] * columns_passes + weights + inputs
        # Weights are refetched into the registers for every accumulator tile of pixels ...
        share = words_per_column
        if space.double_buffer:
            resident = (words_per_column >= pixels * columns_passes) & (p.groups == 1)
            share = np.where(resident, words_per_column, words_per_column / 2)
        refills = np.maximum(1.0, np.ceil(pixels / np.maximum(share, 1)))
        single = (beside == 1) & (bounds[rule.row] <= dim)
        refills = np.where(single, 1.0, refills)
        way(compute, macs + weights * refills, 2 * updates, reads + weights * refills, a3)
        # ... unless partial sums go to DRAM and back in between.
        way(compute, macs + weights, 2 * updates, reads + weights, np.maximum(a3, weights + inputs + 3 * out))
    return np.stack([w[0] for w in ways]), np.stack([w[1] for w in ways])


def _counts(bound: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of tiles along a dimension, as intervals [first, last] that cover 1 ... bound."""
    first, last = [], []
    n = 1
    while n <= bound:
        end = n if n < _EXACT_COUNTS else min(bound, int(n * _RATIO))
        # Equal tile sizes from `n` on to `end` need only the smallest count.
        first.append(n)
        last.append(end)
        n = end + 1
    return np.array(first), np.array(last)


def _traffic(
    p: Problem, space: DesignSpace, dim: Floats, words_per_column: Floats, sp_bytes: Floats
) -> tuple[Floats, Floats]:
    """Least DRAM words of one group on each hardware point, (H,) twice: when partial sums are not held over
    reduction loops at DRAM, and when they are (which the accumulator must have room for).

    Every loop dimension is irrelevant to exactly one tensor (R, S, C to outputs, K to inputs, P, Q, N to
    weights), so the innermost DRAM loop lets exactly one tensor stay and there are three kinds of orders. For
    each, traffic follows from the numbers of tiles n alone; reuse of all loops irrelevant to the tensor that
    stays, and the best sliding loop for the inputs, are granted. Loops inside the scratchpad are free here.
    Numbers of tiles beyond a few are taken in intervals, with the traffic of the fewest and the tile size of
    the most tiles, which only lowers the bound.
    """
    sizes = [getattr(p, axis) for axis in AXES]
    intervals = [_counts(size) for size in sizes]
    shape = [len(first) for first, _ in intervals]

    def along(values: NDArray[np.int64], axis: int) -> Floats:
        return values.astype(np.float64).reshape([-1 if i == axis else 1 for i in range(7)])

    n = [along(first, i) for i, (first, _) in enumerate(intervals)]
    tile = [along(-(-sizes[i] // last), i) for i, (_, last) in enumerate(intervals)]
    nr, ns, nc, nk, np_, nq, nn = n
    *_, k, pp, q, b = tile
    reduction, pixels = nr * ns * nc, np_ * nq * nn
    # pixels brought in one pass over the image, with the best sliding loop
    by_pixels, by_kernel = (float(sizes[2] * sizes[6]) * one for one in swept(p, n, tile, sizes))
    by_any = np.minimum(by_pixels, by_kernel)
    weights = float(sizes[0] * sizes[1] * sizes[2] * sizes[3])
    out = float(sizes[3] * sizes[4] * sizes[5] * sizes[6])
    spilled = out * (2 * reduction - 1)
    stay_w = weights + by_pixels * nk + spilled
    stay_i = weights * pixels + by_any + spilled
    stay_o = weights * pixels + by_kernel * nk + out
    plain = np.minimum(np.broadcast_to(stay_w, shape), np.broadcast_to(stay_i, shape)).ravel()
    held = np.broadcast_to(stay_o, shape).ravel()
    copies = copies_at_least(p, space, n)
    best_plain = np.full(len(dim), np.inf)
    best_held = np.full(len(dim), np.inf)
    for side in np.unique(dim):
        mine = np.flatnonzero(dim == side)
        need = scratchpad_bytes(p, space, tile, copies, side, side)
        column_words = copies[2] * pp * q * b * np.ceil(k / side)
        capacities, back_sp = np.unique(sp_bytes[mine], return_inverse=True)
        columns, back_acc = np.unique(words_per_column[mine], return_inverse=True)
        slot = np.searchsorted(capacities, np.broadcast_to(need, shape).ravel())
        room = np.searchsorted(columns, np.broadcast_to(column_words, shape).ravel())
        table = np.full(len(capacities) + 1, np.inf)
        np.minimum.at(table, slot, plain)
        best_plain[mine] = np.minimum.accumulate(table[:-1])[back_sp]
        table2 = np.full((len(capacities) + 1, len(columns) + 1), np.inf)
        np.minimum.at(table2, (slot, room), held)
        table2 = np.minimum.accumulate(np.minimum.accumulate(table2, 0), 1)
        best_held[mine] = table2[back_sp, back_acc]
    return best_plain, best_held
