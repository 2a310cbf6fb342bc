"""Mappings as rows of whole numbers, the form in which searchers change them by the thousand.

A genome row holds, for one problem: the flow (0 and 1 the first two dataflows, from 2 on the first in macro form), rows, columns, the tile factors
of levels 1, 2 and 3 over `AXES`, an index into `ORDERS`, and which tensors are held once though their tiles change
(where a space gives such tiles two copies: one copy leaves room for larger tiles). Two choices that can never lose are
fixed: loops that the stationary operand can sit through run at level 0, and reduction loops are innermost at level 2.

What a tile held once waits for, only the instruction-aware model says; to the reference model moving is free, so that its
searches and proofs hold all that changes twice.

Macro form is what a loop macro of the accelerator can carry out (`baco.compiler.styles.registry.realise`): no loops at level 2, the
loops that sum innermost at DRAM, and two copies of every tile whether it changes or not, since the macros always work
in halves of the memories. What a macro's tile takes of them depends on the array's side, so a flow names it: flow 2 + n
is macro form on an array of side 2^(n + 1). Further dataflows have the numbers behind these.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from baco.accel.dataflows import DATAFLOWS, MACRO_DATAFLOW, Dataflow
from baco.compiler.mapping.batch import AXES, MappingBatch, ProblemBatch
from baco.compiler.mapping.nest import REGISTER_DIMS, Mapping
from baco.exploration.cost.reference import Counts, access_counts
from baco.workloads.problem import DIMS, Problem

Genomes = NDArray[np.int64]

#: Loop orders over DRAM, innermost first, that differ in what they reuse: which tensor stays (W under P, Q, N;
#: I under K; O under R, S, C) and which loop slides the input window. The first three are the published ones.
DRAM_ORDERS = (
    "PQNRSCK",
    "KRSPQCN",
    "RSCKPQN",
    "QPNRSCK",
    "NPQRSCK",
    "KPQNRSC",
    "KQPNRSC",
    "KSRPQCN",
    "KCRSPQN",
    "SRCKPQN",
    "CRSKPQN",
)
#: Orders that macros carry out: reductions innermost, output channels inside or outside the pixels.
MACRO_ORDERS = ("CRSKPQN", "CRSPQNK")
#: All that a genome can name; those that only macros tell apart come last.
ORDERS = (*DRAM_ORDERS, *(order for order in MACRO_ORDERS if order not in DRAM_ORDERS))
#: Order at levels 1 and 2: partial sums stay in the accumulator as long as they can.
INNER_ORDER = "RSCPQNK"

FLOW, ROWS, COLUMNS, ORDER, ONCE = 0, 1, 2, 24, 25
T1, T2, T3 = slice(3, 10), slice(10, 17), slice(17, 24)
WIDTH = 26
#: The first flow in macro form, and one behind the last, which is for arrays of side 128.
MACRO, _BEHIND_MACRO = 2, 9
_NAMES: tuple[Dataflow, ...] = tuple(DATAFLOWS)
#: Dataflow by flow.
FLOWS: tuple[Dataflow, ...] = (
    *_NAMES[:MACRO],
    *(MACRO_DATAFLOW,) * (_BEHIND_MACRO - MACRO),
    *_NAMES[MACRO:],
)
#: Flow of the macros' dataflow in other than macro form.
PLAIN = FLOWS.index(MACRO_DATAFLOW)
#: Place in `DATAFLOWS` by flow.
DATAFLOW_NUMBER = np.array([_NAMES.index(name) for name in FLOWS])
C_AXIS, K_AXIS, P_AXIS, Q_AXIS = (AXES.index(name) for name in "CKPQ")
#: Axis spread over the rows of the array, by flow.
ROW_AXIS = np.array([AXES.index(DATAFLOWS[flow].row) for flow in FLOWS])
#: The macros' orders as indices into `ORDERS`.
MACRO_ORDER_INDEX = np.array([ORDERS.index(order) for order in MACRO_ORDERS])

#: Bits of `ONCE`: weights, inputs, outputs.
ONCE_BITS = np.array([1, 2, 4])

_REGISTER = np.array([[axis in REGISTER_DIMS[flow] for axis in AXES] for flow in FLOWS])
_INSIDE = torch.tensor([[axis in rule.loops[0] for rule in DATAFLOWS.values()] for axis in AXES])
_INNER_RANK = torch.tensor([INNER_ORDER.index(axis) for axis in AXES], dtype=torch.int8)
_DRAM_RANK = torch.tensor([[order.index(axis) for axis in AXES] for order in ORDERS], dtype=torch.int8)


class ProblemSet:
    """The problems of a search as arrays: `bounds` (n, 7) in `AXES` order, and their shapes as tensors.

    Args:
        packs: (n,) whether neighbouring groups may share a pass (`baco.compiler.mapping.nest.packed_groups`); none may without.
    """

    def __init__(self, problems: Sequence[Problem], packs: NDArray[np.bool_] | None = None) -> None:
        self.problems = tuple(problems)
        self.packs = np.zeros(len(problems), dtype=np.bool_) if packs is None else packs
        self.bounds = np.array(
            [[p.bounds[DIMS.index(axis)] for axis in AXES] for p in problems], dtype=np.int64
        )
        self.batch = ProblemBatch.of(problems)
        self.groups = np.array([p.groups for p in problems], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.problems)

    def packed(self, task: NDArray[np.int64], genomes: Genomes) -> NDArray[np.int64]:
        """Groups that each row runs at once, (B,), as `baco.compiler.mapping.nest.packed_groups` has it."""
        found = np.ones(len(genomes), dtype=np.int64)
        index = np.flatnonzero(self.packs[task] & (genomes[:, FLOW] == PLAIN))
        if len(index):
            of, rows = task[index], genomes[index]
            bounds = self.bounds[of]
            temporal = rows[:, T1] * rows[:, T2] * rows[:, T3]
            whole = (temporal[:, C_AXIS] == 1) & (temporal[:, K_AXIS] == 1)
            lanes = np.minimum(rows[:, ROWS] // bounds[:, C_AXIS], rows[:, COLUMNS] // bounds[:, K_AXIS])
            found[index] = np.where(whole, np.minimum(lanes, self.groups[of]), 1).clip(1)
        return found

    def packed_bounds(self, task: NDArray[np.int64], packed: NDArray[np.int64]) -> NDArray[np.int64]:
        """Loop bounds (B, 7) where so many groups run at once."""
        bounds = self.bounds[task]
        bounds[:, [C_AXIS, K_AXIS]] *= packed[:, None]
        return np.asarray(bounds)


def assemble(
    flow: Tensor | None,
    rows: Tensor,
    columns: Tensor,
    t1: Tensor,
    t2: Tensor,
    t3: Tensor,
    order: Tensor,
    groups: Tensor | None,
    macro: Tensor | None = None,
    once: Tensor | None = None,
) -> MappingBatch:
    """A mapping batch from factors (whole or relaxed).

    Args:
        flow: (B,) places in `DATAFLOWS`; None if all are the first.
        rows, columns: (B,) spatial factors.
        t1, t2, t3: (7, B) temporal factors of levels 1 (level 0 included), 2 and 3.
        order: (B,) indices into `ORDERS`.
        groups: (B,) repetitions of the whole nest when tiles that change are to be double-buffered; None for
            single buffers.
        macro: (B,) booleans, True for mappings in macro form, whose tiles all have two copies; None if none is.
        once: (B,) bits of the tensors held once in any case (`ONCE_BITS`); None for none.
    """
    inside = _INSIDE[:, :1] if flow is None else _INSIDE[:, flow]
    one = torch.ones((), dtype=t1.dtype)
    rank = torch.stack([_INNER_RANK.view(7, 1).expand(7, len(rows))] * 2 + [_DRAM_RANK[order].T])
    copies = None
    if groups is not None:
        # A tile that never changes needs no second copy; between one and two the need is relaxed linearly.
        copies = torch.stack(_tiles_used(groups, t2, t3)).clamp(1, 2)
        if once is not None:
            copies = torch.where((once & torch.from_numpy(ONCE_BITS).view(3, 1)) > 0, one, copies)
    if macro is not None:
        single = torch.ones((3, len(rows)), dtype=t1.dtype) if copies is None else copies
        copies = torch.where(macro, 2.0, single)
    return MappingBatch(
        temporal=torch.stack([torch.where(inside, t1, one), torch.where(inside, one, t1), t2, t3]),
        rows=rows,
        columns=columns,
        rank=rank,
        flow=flow,
        copies=copies,
    )


def _tiles_used(groups: Any, t2: Any, t3: Any) -> list[Any]:
    """How many tiles of weights, inputs and outputs come one after the other in their memory; factors of levels 2 and 3
    (7, ...) and groups in any array type."""
    r, s, c, k, p, q, n = t3
    return [
        groups * r * s * c * k,
        groups * r * s * c * p * q * n,
        groups * k * p * q * n * t2[3] * t2[4] * t2[5] * t2[6],
    ]


def plain_copies(genomes: Genomes, groups: Any) -> Genomes:
    """The rows without saying that a tensor is held once whose tile never changes, so that equal mappings are equal rows."""
    used = np.array(_tiles_used(groups, genomes[:, T2].T, genomes[:, T3].T))
    rows = genomes.copy()
    rows[:, ONCE] &= ((used > 1) * ONCE_BITS[:, None]).sum(0)
    return rows


def copies_of(genomes: Genomes, groups: Any) -> NDArray[np.int64]:
    """Copies of the tiles of weights, inputs and outputs where those that change are held twice, (3, B)."""
    once = (genomes[:, ONCE] & ONCE_BITS[:, None]) > 0
    used = np.array(_tiles_used(groups, genomes[:, T2].T, genomes[:, T3].T))
    return np.where(once, 1, np.minimum(used, 2))


def batch_of(shape: ProblemBatch, genomes: Genomes, double_buffer: bool) -> MappingBatch:
    """Genome rows as a mapping batch; `shape` gives the groups of each row's problem."""
    factors = torch.from_numpy(np.ascontiguousarray(genomes.T)).to(torch.float64)
    flow = torch.from_numpy(DATAFLOW_NUMBER[genomes[:, FLOW]])
    macro = torch.from_numpy(is_macro_flow(genomes[:, FLOW]))
    return assemble(
        flow if bool(flow.any()) else None,
        factors[ROWS],
        factors[COLUMNS],
        factors[T1],
        factors[T2],
        factors[T3],
        torch.from_numpy(genomes[:, ORDER].copy()),
        shape.groups if double_buffer else None,
        macro if bool(macro.any()) else None,
        torch.from_numpy(genomes[:, ONCE].copy()) if genomes[:, ONCE].any() else None,
    )


def count(
    problems: ProblemSet,
    task: NDArray[np.int64],
    genomes: Genomes,
    double_buffer: bool,
    *,
    padded: bool = True,
) -> Counts:
    """Access counts of genome rows; `task[i]` is the problem of row i. One evaluation a row.

    Args:
        padded: as `baco.exploration.cost.layer_costs.layer_costs` has it. Without, needs of capacity are not those of the rows.
    """
    shape = problems.batch.take(torch.from_numpy(task))
    packed = problems.packed(task, genomes)
    if not padded:
        genomes = genomes.copy()
        bounds = problems.packed_bounds(task, packed)
        tighten(genomes, bounds)
    mappings = batch_of(shape, genomes, double_buffer)
    if (packed > 1).any():
        shape = replace(shape, groups=torch.ceil(shape.groups / torch.from_numpy(packed)))
    return access_counts(shape, mappings, None if padded else torch.from_numpy(bounds.T.astype(np.float64)))


def tighten(genomes: Genomes, bounds: NDArray[np.int64]) -> None:
    """Shrink factors in place, outermost first, so that they just cover `bounds` (B, 7)."""
    index = np.arange(len(genomes))
    spatial = np.ones_like(bounds)
    row_axis = ROW_AXIS[genomes[:, FLOW]]
    spatial[index, row_axis] = genomes[:, ROWS]
    spatial[:, K_AXIS] *= genomes[:, COLUMNS]
    t1, t2 = genomes[:, T1], genomes[:, T2]
    t3 = genomes[:, T3] = -(-bounds // (spatial * t1 * t2))
    t2 = genomes[:, T2] = -(-bounds // (spatial * t1 * t3))
    t1 = genomes[:, T1] = -(-bounds // (spatial * t2 * t3))
    spatial = -(-bounds // (t1 * t2 * t3))
    genomes[:, ROWS] = spatial[index, row_axis]
    genomes[:, COLUMNS] = spatial[:, K_AXIS]


def needs(
    problems: ProblemSet, task: NDArray[np.int64], genomes: Genomes, double_buffer: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Capacity a mapping needs, without counting its accesses: (accumulator words a column, scratchpad bytes
    unpadded, scratchpad rows), each (B,). Feasibility is checked with this before an evaluation is spent."""
    g = genomes.astype(np.float64)
    row_axis = ROW_AXIS[genomes[:, FLOW]]
    macro = is_macro_flow(genomes[:, FLOW])
    index = np.arange(len(g))
    tile1 = g[:, T1].copy()
    tile1[index, row_axis] *= g[:, ROWS]
    tile2 = tile1 * g[:, T2]
    tile2[:, K_AXIS] *= g[:, COLUMNS]
    r, s, c, k, p, q, n = tile2.T
    shape = problems.batch
    stride_w, stride_h, dilation_w, dilation_h = (
        getattr(shape, name).numpy()[task] for name in ("stride_w", "stride_h", "dilation_w", "dilation_h")
    )
    pixels = (
        n * ((p - 1) * stride_w + (r - 1) * dilation_w + 1) * ((q - 1) * stride_h + (s - 1) * dilation_h + 1)
    )
    o1 = tile1[:, 3:7].prod(1)
    copies = (
        copies_of(genomes, problems.groups[task]) if double_buffer else np.ones((3, len(g)), dtype=np.int64)
    )
    copies_w, copies_i, copies_o = np.where(macro, 2.0, copies)
    lanes = np.where(row_axis == C_AXIS, g[:, ROWS], g[:, COLUMNS])
    words = copies_w * r * s * c * k + copies_i * pixels * c
    rows = copies_w * r * s * c * (k / g[:, COLUMNS]) + copies_i * pixels * np.ceil(c / lanes - 1e-9)
    return copies_o * o1, words, rows


def to_mapping(genome: Genomes, groups: int, double_buffer: bool) -> Mapping:
    """One genome row as a mapping object."""
    return _mapping(np.asarray(genome, dtype=np.int64).tobytes(), groups, double_buffer)


@functools.lru_cache(maxsize=16_384)  # designs share most of their mappings
def _mapping(row: bytes, groups: int, double_buffer: bool) -> Mapping:
    genome = np.frombuffer(row, dtype=np.int64)
    flow = FLOWS[int(genome[FLOW])]
    inside = _REGISTER[int(genome[FLOW])]
    t1, t2, t3 = genome[T1], genome[T2], genome[T3]
    levels = [np.where(inside, t1, 1), np.where(inside, 1, t1), t2, t3]
    place = [AXES.index(name) for name in DIMS]
    w, i, o = (1, 1, 1) if not double_buffer else copies_of(genome[None], groups)[:, 0].tolist()
    if is_macro_flow(genome[FLOW]):
        w, i, o = 2, 2, 2
    return Mapping(
        dataflow=flow,
        rows=int(genome[ROWS]),
        columns=int(genome[COLUMNS]),
        temporal=tuple(tuple(int(level[i]) for i in place) for level in levels),
        order=(INNER_ORDER, INNER_ORDER, INNER_ORDER, ORDERS[int(genome[ORDER])]),
        buffering=(w, i, o),
    )


def is_macro_flow(flow: Any) -> Any:
    """Which flows, a number or an array of any type, are in macro form."""
    return (flow >= MACRO) & (flow < _BEHIND_MACRO)


def macro_flow(side: NDArray[np.int64]) -> NDArray[np.int64]:
    """Flow of macro form on arrays of the given sides, which are powers of two."""
    return np.asarray(MACRO - 2 + np.frexp(side)[1], dtype=np.int64)


def macro_side(flow: NDArray[np.int64]) -> NDArray[np.int64]:
    """Inverse of `macro_flow`; 0 for flows that are not of macro form."""
    return np.asarray(np.where(is_macro_flow(flow), 1 << np.clip(flow - MACRO + 1, 0, 7), 0))


def explicit(genomes: Genomes) -> Genomes:
    """The rows with those in macro form as plain ones."""
    rows = genomes.copy()
    rows[is_macro_flow(rows[:, FLOW]), FLOW] = PLAIN
    return rows


def sides(genomes: Genomes) -> NDArray[np.float64]:
    """Least array side that each row needs; macro form is for its own side."""
    extent = np.maximum(genomes[:, ROWS], genomes[:, COLUMNS])
    return np.maximum(extent, macro_side(genomes[:, FLOW])).astype(np.float64)


def from_mapping(mapping: Mapping, side: int, groups: int, double_buffer: bool) -> Genomes | None:
    """The row that stands for a mapping on an array of the given side; None if rows cannot say it.

    Loops that run once may stand anywhere in its orders, and the orders inside main memory are those of every row.
    """
    place = [DIMS.index(axis) for axis in AXES]
    level0, level1, level2, level3 = (np.array(level)[place] for level in mapping.temporal)
    inside = _REGISTER[FLOWS.index(mapping.dataflow)]
    row = trivial(1)[0]
    row[FLOW], row[ROWS], row[COLUMNS] = FLOWS.index(mapping.dataflow), mapping.rows, mapping.columns
    row[T1], row[T2], row[T3] = level0 * level1, level2, level3
    busy = {axis for axis, factor in zip(AXES, level3, strict=True) if factor > 1}
    wanted = [axis for axis in mapping.order[3] if axis in busy]
    found = (n for n, order in enumerate(ORDERS) if [axis for axis in order if axis in busy] == wanted)
    order = next(found, None)
    if order is None or (level1[inside] > 1).any() or (level0[~inside] > 1).any():
        return None
    row[ORDER] = order
    fewer = np.array(mapping.buffering) < to_mapping(row, groups, double_buffer).buffering
    row[ONCE] = (ONCE_BITS * fewer).sum() if double_buffer else 0
    for flow in (row[FLOW], macro_flow(np.array(side))):
        row[FLOW] = flow
        if (
            FLOWS[flow] == mapping.dataflow
            and to_mapping(row, groups, double_buffer).buffering == mapping.buffering
        ):
            return np.asarray(row)
    return None


def trivial(count_: int, flow: int = 0) -> Genomes:
    """Genome rows of all ones (every loop at DRAM once tightened)."""
    genomes = np.ones((count_, WIDTH), dtype=np.int64)
    genomes[:, FLOW] = flow
    genomes[:, [ORDER, ONCE]] = 0
    return genomes
