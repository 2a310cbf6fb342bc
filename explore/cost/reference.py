"""The reference analytical cost model: access counts, latency and energy of batches of mappings.

Source: method specification section 3 (it reproduces published Timeloop results), extended to the
output-stationary dataflow by the same counting rules. One implementation serves gradients (real-valued
factors) and exact evaluation (whole factors, exact up to 2^53), on CPU and GPU, in any float type.

Arrays are laid out with the batch last, so that each operation runs over contiguous memory. Loop
dimensions are ordered as in `AXES`, which makes the dimensions of W and of O contiguous slices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from baco.accel.energy import EnergyLaw
from baco.common import tensors
from baco.compiler.mapping.batch import MappingBatch, ProblemBatch

_W, _O, _REDUCTION, _PIXELS = slice(0, 4), slice(3, 7), slice(0, 3), slice(4, 7)
_R, _S, _C, _K, _P, _Q, _N = range(7)
#: A relaxed loop shorter than this reuses like no loop at all; whole factors are on the safe side of it.
_LOOP = 1.5
_NONE = 64  # rank of a loop that does not exist


@dataclass(frozen=True)
class Counts:
    """What a mapping does and needs, independent of the accelerator it runs on; all (B,).

    Attributes:
        macs: multiply-accumulates executed, padding and groups included.
        a0, a1, a2, a3: words accessed at registers, accumulator, scratchpad, DRAM.
        a1_rows, a2_rows: rows of accumulator and scratchpad accessed, instead of words, where code leaves columns of the
            array idle (see `access_counts`).
        rows, columns: array extent used.
        accumulator_words: 32-bit words a column must hold.
        scratchpad_words: bytes the scratchpad must hold, unpadded.
        scratchpad_rows: array-wide rows it must hold when every block is padded to whole rows.
    """

    macs: Tensor
    a0: Tensor
    a1: Tensor
    a2: Tensor
    a3: Tensor
    a1_rows: Tensor
    a2_rows: Tensor
    rows: Tensor
    columns: Tensor
    accumulator_words: Tensor
    scratchpad_words: Tensor
    scratchpad_rows: Tensor

    def stacked(self) -> Tensor:
        """All fields as one (12, B) tensor."""
        return torch.stack([getattr(self, name) for name in self.__dataclass_fields__])

    def in_rows(self, dim: Tensor | float) -> Counts:
        """The same in words on an array of side `dim`: a row is one access of all its words, since all columns are
        clocked."""
        none = torch.zeros_like(self.a1)
        a1, a2 = self.a1 + self.a1_rows * dim, self.a2 + self.a2_rows * dim
        return replace(self, a1=a1, a2=a2, a1_rows=none, a2_rows=none)


def _product(factors: Tensor) -> Tensor:
    """Product over the first axis (torch.prod has a slow and memory-hungry backward)."""
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def _reuse(factors: Tensor, rank: Tensor, relevant: slice, irrelevant: slice) -> Tensor:
    """Iterations that pass before a tensor's tile changes: the product of the irrelevant loops inside the
    innermost relevant one.

    Args:
        factors: (levels, 7, B) temporal factors, innermost level first.
        rank: (levels, 7, B) places, made unique across levels by the caller.
    """
    first = rank[:, relevant].masked_fill(factors[:, relevant] < _LOOP, _NONE).flatten(0, 1).amin(0)
    kept = torch.where(rank[:, irrelevant] < first, factors[:, irrelevant], 1.0)
    return _product(kept.flatten(0, 1))


@dataclass(frozen=True)
class _Flows:
    """Words that pass between levels in one group, from which all accesses follow; all (B,).

    Attributes:
        macs: multiply-accumulates executed.
        out: words of the whole output.
        stationary: fills of the registers.
        inputs: words that the array reads of the input.
        weights: words that the array, or its registers, read of the weights.
        updates: words of partial sums that reach the accumulator.
        w_fills, i_fills, o_fills: words that scratchpad and accumulator exchange with DRAM, one way.
        o1: words of the output that a column of the accumulator holds.
        w2, i2: words of weights and input that the scratchpad holds.
        channels, pixels: of the input that the scratchpad holds.
    """

    macs: Tensor
    out: Tensor
    stationary: Tensor
    inputs: Tensor
    weights: Tensor
    updates: Tensor
    w_fills: Tensor
    i_fills: Tensor
    o_fills: Tensor
    o1: Tensor
    w2: Tensor
    i2: Tensor
    channels: Tensor
    pixels: Tensor


def _flows(problem: ProblemBatch, mapping: MappingBatch) -> _Flows:
    t = mapping.temporal
    rows, columns = mapping.rows, mapping.columns
    os = mapping.sums_stay
    level = torch.arange(3, dtype=mapping.rank.dtype, device=t.device).view(3, 1, 1) * 7
    rank = mapping.rank + level

    tile1 = list((t[0] * t[1]).unbind(0))
    for axis, factor in mapping.row_factors.items():
        tile1[axis] = tile1[axis] * factor
    tile2 = list((torch.stack(tile1) * t[2]).unbind(0))
    tile2[_K] = tile2[_K] * columns

    dram = _product(t[3])
    level2 = _product(t[2])
    inner = _product(t[0])
    macs = inner * _product(t[1]) * level2 * dram * rows * columns
    out = tile2[_K] * tile2[_P] * tile2[_Q] * tile2[_N] * _product(t[3, _O])

    # Level 0: the stationary operand is refilled by every loop from its first relevant one outward.
    stationary_fills = macs / inner / _reuse(t[1:], rank, _W, _PIXELS)
    if os is not None:
        os_fills = macs / inner / _reuse(t[1:], rank, _O, _REDUCTION)
        stationary_fills = torch.where(os, os_fills, stationary_fills)
    # Level 1: partial sums leave the accumulator and come back.
    o1 = tile1[_K] * tile1[_P] * tile1[_Q] * tile1[_N]
    o_fills = o1 * columns * level2 * dram / _reuse(t[2:], rank[1:], _O, _REDUCTION)
    # Level 2, weights and inputs.
    w2 = tile2[_R] * tile2[_S] * tile2[_C] * tile2[_K]
    w_fills = w2 * dram / _reuse(t[3:], rank[2:], _W, _PIXELS)

    exists = t[3] >= _LOOP
    place = rank[2].masked_fill(~exists, _NONE)
    first_i = torch.minimum(place[:3].amin(0), place[4:].amin(0))
    k_reuse = torch.where(rank[2, _K] < first_i, t[3, _K], 1.0)
    # The innermost loop that moves the window brings only the union of the windows it sweeps.
    slide_r, slide_s = (torch.where(place[d] == first_i, t[3, d], 1.0) for d in (_R, _S))
    slide_p, slide_q = (torch.where(place[d] == first_i, t[3, d], 1.0) for d in (_P, _Q))
    none = first_i == _NONE
    slide = torch.where(none, 1.0, slide_r * slide_s * slide_p * slide_q)
    depth = tile2[_C] * tile2[_N]
    width = (tile2[_P] - 1) * problem.stride_w + (tile2[_R] - 1) * problem.dilation_w + 1
    height = (tile2[_Q] - 1) * problem.stride_h + (tile2[_S] - 1) * problem.dilation_h + 1
    swept_w = (
        (tile2[_P] * slide_p - 1) * problem.stride_w + (tile2[_R] * slide_r - 1) * problem.dilation_w + 1
    )
    swept_h = (
        (tile2[_Q] * slide_q - 1) * problem.stride_h + (tile2[_S] * slide_s - 1) * problem.dilation_h + 1
    )
    i2 = depth * width * height
    swept = torch.where(none, i2, torch.minimum(depth * swept_w * swept_h, i2 * slide))
    i_fills = swept * (dram / slide / k_reuse)

    # Partial sums reach the accumulator once a row of the array is done, or, where they stay, once a register is drained;
    # then the rows share weights. (Along the rows runs a dimension of what stays: `baco.accel.dataflows`.)
    updates = macs / rows
    operands = stationary_fills
    if os is not None:
        operands = torch.where(os, updates, stationary_fills)
        updates = torch.where(os, stationary_fills, updates)

    return _Flows(
        macs,
        out,
        stationary_fills,
        macs / columns,
        operands,
        updates,
        w_fills,
        i_fills,
        o_fills,
        o1,
        w2,
        i2,
        tile2[_C],
        tile2[_N] * width * height,
    )


def _unpadded(f: _Flows, mapping: MappingBatch, bounds: Tensor) -> _Flows:
    """What code moves that runs what is left of a dimension as a smaller tile: padding is no work but in lanes of the array.

    Registers, accumulator and scratchpad are as often accessed as such tiles have rows and window positions; of `bounds`
    (7, B), what `mapping` covers beyond them is not there. Halos of inputs are taken as pixels are. Stationary weights come
    once for each tile of pixels, since code goes over all these before it takes the next weights.
    """
    padded = _product(mapping.temporal)
    os = torch.zeros_like(mapping.rows, dtype=torch.bool) if mapping.sums_stay is None else mapping.sums_stay
    one = torch.ones_like(mapping.rows)
    lanes = [mapping.row_factors.get(axis, one) for axis in range(7)]
    lanes[_K] = mapping.columns
    true = bounds / (padded * torch.stack(lanes))
    window, pixels = true[_R] * true[_S], true[_P] * true[_Q] * true[_N]
    every = window * pixels * true[_C] * true[_K]
    weights, outputs = window * true[_C] * true[_K], pixels * true[_K]
    row = one
    for axis in mapping.row_factors:
        row = mapping.on_row(axis, true[axis], row)
    waves = every / true[_K] / row
    brought = _product(bounds[:4]) * _product(mapping.temporal[2:, 4:].flatten(0, 1))
    return replace(
        f,
        macs=f.macs * every,
        out=f.out * outputs,
        stationary=torch.where(os, f.stationary * outputs, brought),
        inputs=f.inputs * waves,
        weights=torch.where(os, f.weights * waves, brought),
        updates=f.updates * torch.where(os, outputs, waves),
        w_fills=f.w_fills * weights,
        i_fills=f.i_fills * pixels * true[_C],
        o_fills=f.o_fills * outputs,
    )


def access_counts(problem: ProblemBatch, mapping: MappingBatch, bounds: Tensor | None = None) -> Counts:
    """Access counts and capacity needs of a batch (method specification section 3).

    With `bounds` (7, B), what a mapping covers beyond them is not counted (`_unpadded`), and local memories are accessed
    by rows where a tile has no more channels than lanes, so that code cannot fill others. Differentiable in `mapping.temporal`, `rows` and `columns`; exact for whole numbers.
    """
    f = _flows(problem, mapping)
    if bounds is not None:
        f = _unpadded(f, mapping, bounds)
    t, rows, columns = mapping.temporal, mapping.rows, mapping.columns
    single = torch.ones(3, dtype=t.dtype, device=t.device)
    copies_w, copies_i, copies_o = single if mapping.copies is None else mapping.copies
    lanes_c = mapping.on_row(_C, rows, columns)
    groups = problem.groups
    a1 = (2 * f.updates - f.out + f.o_fills) * groups
    a2 = (f.inputs + f.weights + f.i_fills + f.w_fills) * groups
    a1_rows, a2_rows = torch.zeros_like(a1), torch.zeros_like(a2)
    if bounds is not None:
        idle = _idle(mapping)
        inputs, weights = f.inputs + f.i_fills, f.weights + f.w_fills
        a1_rows = torch.where(idle, a1 / columns, a1_rows)
        a2_rows = torch.where(idle, (inputs / rows + weights / columns) * groups, a2_rows)
        a1, a2 = torch.where(idle, 0.0, a1), torch.where(idle, 0.0, a2)
    return Counts(
        macs=f.macs * groups,
        a0=(f.macs + f.stationary) * groups,
        a1=a1,
        a2=a2,
        a3=(f.w_fills + f.i_fills + 2 * f.o_fills - f.out) * groups,
        a1_rows=a1_rows,
        a2_rows=a2_rows,
        rows=rows,
        columns=columns,
        accumulator_words=copies_o * f.o1,
        scratchpad_words=copies_w * f.w2 + copies_i * f.i2,
        scratchpad_rows=copies_w * (f.w2 / columns) + copies_i * f.pixels * _ceil(f.channels / lanes_c),
    )


def _idle(mapping: MappingBatch) -> Tensor:
    """Which mappings with channels along the rows have no more of them in a tile than lanes; (B,)."""
    beyond = mapping.temporal[:3, [_C, _K]].flatten(0, 1).amax(0)
    idle = beyond < _LOOP
    return mapping.on_row(_C, idle, torch.zeros_like(idle))


def tensor_accesses(
    problem: ProblemBatch, mapping: MappingBatch, bounds: Tensor | None = None, dim: float = 1.0
) -> Tensor:
    """What `access_counts` counts at levels 0 to 3, by tensor: words of (W, I, O), shape (4, 3, B); rows are those of an
    array of side `dim`."""
    f = _flows(problem, mapping)
    if bounds is not None:
        f = _unpadded(f, mapping, bounds)
    os = mapping.sums_stay
    none = torch.zeros_like(f.macs)
    registers = f.macs + f.stationary
    kept = none if os is None else torch.where(os, registers, none)
    words = [
        [registers - kept, none, kept],
        [none, none, 2 * f.updates - f.out + f.o_fills],
        [f.weights + f.w_fills, f.inputs + f.i_fills, none],
        [f.w_fills, f.i_fills, 2 * f.o_fills - f.out],
    ]
    found = torch.stack([torch.stack([one * problem.groups for one in level]) for level in words])
    if bounds is not None:
        lanes = torch.stack([mapping.columns, mapping.rows, mapping.columns])
        found[1:3] = torch.where(_idle(mapping), found[1:3] * dim / lanes, found[1:3])
    return found


def _ceil(x: Tensor) -> Tensor:
    """Ceiling in the forward direction, identity in the backward one."""
    return x + (torch.ceil(x - 1e-9) - x).detach()


def latency_terms(counts: Counts, dim: Tensor | float, dram_bytes_per_cycle: float = 8.0) -> Tensor:
    """Cycles each resource is busy: (compute, accumulator, scratchpad, DRAM), shape (4, B).

    Transfers and computation overlap, so a mapping's latency is the largest of the four.
    """
    return torch.stack(
        [
            counts.macs / (counts.rows * counts.columns),
            counts.a1 / (2 * counts.columns),
            counts.a2 / (2 * dim),
            counts.a3 / dram_bytes_per_cycle,
        ]
    )


def energy_terms(
    counts: Counts, dim: Tensor, accumulator_kib: Tensor, scratchpad_kib: Tensor, energy: EnergyLaw
) -> Tensor:
    """Energy in pJ by component: (MAC, registers, accumulator, scratchpad, DRAM), shape (5, B)."""
    return torch.stack(
        [
            *energy.array_terms(counts.macs, counts.a0, dim),
            energy.accumulator_pj(accumulator_kib, dim) * counts.a1,
            energy.scratchpad_pj(scratchpad_kib, dim) * counts.a2,
            energy.dram_pj * counts.a3,
        ]
    )


def total_energy(
    counts: Counts, dim: Tensor, accumulator_kib: Tensor, scratchpad_kib: Tensor, energy: EnergyLaw
) -> Tensor:
    """`energy_terms` summed up, (B,)."""
    return tensors.total(energy_terms(counts, dim, accumulator_kib, scratchpad_kib, energy))
