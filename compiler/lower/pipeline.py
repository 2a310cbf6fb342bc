"""The runs of one schedule of a macro, one after the other: when loads, passes and stores of each begin and end.

Two runs are in flight. Loads of a run begin when the run before the last has computed; stores share memory with them.
This takes a moment a schedule, so only the most promising ones are looked at in this way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product

import numpy as np

from accel.config import Accelerator
from compiler.layer import Layer
from compiler.lower.bound import LEAST_ROWS
from compiler.lower.loop_conv_check import AXES, ConvPlan
from compiler.lower.loop_ws import Product
from compiler.lower.reuse import Reuse, Trip, plan_reuse
from compiler.lower.traffic import MEMORY_LATENCY, bytes_per_cycle, read_cycles, write_cycles
from compiler.schedule import LoopWsSchedule

__all__ = ["Run", "conv_runs", "least_period", "pipeline_cycles", "product_runs"]

#: Runs that are followed; the rest are taken to go on at that pace.
_MOST_RUNS = 600
#: Cycles from the command that starts a run to its first load.
_START = 40.0
#: Cycles lost between blocks of weights, and between runs, by macro (measured on our RTL).
_SWITCH_WS, _SWITCH_CONV = 1.0, 2.0
_CHANGE_WS, _CHANGE_CONV = 10.0, 25.0
#: Bytes of a row that a load command moves.
_WIDE = 64


@dataclass(frozen=True)
class Run:
    """Cycles of one run of a macro.

    Attributes:
        load: of memory, for its loads.
        lead: of memory, for the loads before its first pass.
        opening: of memory, for the loads before passes no longer wait for one after the other.
        after: of passes left then.
        behind: of passes left when the last load is there.
        passes: of the array.
        store: of memory, for its stores.
        tail: share of the stores that wait for the last passes.
    """

    load: float
    lead: float
    opening: float
    after: float
    behind: float
    passes: float
    store: float
    tail: float


def pipeline_cycles(runs: Iterator[Run], count: int) -> float:
    """Cycles of `count` runs, of which the iterator has the first ones at least."""
    memory = last = before = half = tail = waiting = 0.0
    followed = 0
    for run in islice(runs, _MOST_RUNS):
        # a slot is free when the run before the last has computed; its last stores go beside the loads
        begin = max(memory, before)
        memory = begin + run.load + waiting
        start = max(last, begin + run.lead + min(run.lead, waiting) + MEMORY_LATENCY)
        end = max(
            start + run.passes,
            begin + run.opening + min(run.opening, waiting) + MEMORY_LATENCY + run.after,
            memory + MEMORY_LATENCY + run.behind,
        )
        memory = max(memory, start) + run.store * (1 - run.tail) if run.store else memory
        before, last = last, end
        waiting, tail = tail, run.store * run.tail
        followed += 1
        if followed == _MOST_RUNS // 2:
            half = last
    if count > followed:
        last += (count - followed) * (last - half) / (followed - _MOST_RUNS // 2)
    return _START + max(last, memory) + tail + waiting / 2


def least_period(accelerator: Accelerator) -> float:
    """Cycles from pass to pass that short ones cannot go below: each has two entries of the reservation station until
    its results have left the array.
    """
    return (2 * accelerator.dim + 28) / max(1, accelerator.execute_entries // 2)


def _rows(accelerator: Accelerator, rows: int) -> float:
    """Cycles of the passes over so many neighbouring rows."""
    whole, rest = divmod(rows, accelerator.dim)
    least = max(LEAST_ROWS, least_period(accelerator)) if whole == 0 else LEAST_ROWS
    return whole * accelerator.dim + (max(rest, least) if rest else 0)


def _read(accelerator: Accelerator, rows: float, columns: int, pitch: int) -> float:
    return float(read_cycles(accelerator, np.array([float(rows)]), np.array([float(columns)]), pitch)[0])


def _write(accelerator: Accelerator, rows: float, columns: float) -> float:
    return float(write_cycles(accelerator, np.array([float(rows)]), np.array([float(columns)]))[0])


def _loaded(reuse: Reuse | None, at: dict[str, int]) -> bool:
    return reuse is None or not any(at[trip.axis] for trip in reuse.others)


def product_runs(
    layer: Layer, accelerator: Accelerator, matrix: Product, schedule: LoopWsSchedule
) -> tuple[Iterator[Run], int]:
    """The runs of LOOP_WS that do not go through partial sums in memory, and their number."""
    dim = accelerator.dim
    blocks = dict(zip("ijk", matrix.blocks(dim), strict=True))
    tile = {axis: min(getattr(schedule, axis), blocks[axis]) for axis in "ijk"}
    sizes = {"i": matrix.rows, "j": matrix.columns, "k": matrix.depth}
    trips = {axis: -(-blocks[axis] // tile[axis]) for axis in "ijk"} | {"g": layer.problem.groups}
    axes = "g" + schedule.order
    loops = [Trip(axis, trips[axis]) for axis in axes]
    keep_a = plan_reuse(loops, "gik") if schedule.keep_a else None
    keep_b = plan_reuse(loops, "gjk") if schedule.keep_b else None
    known: dict[tuple[bool, ...], Run] = {}

    def run(at: dict[str, int]) -> Run:
        edge = [at[axis] == trips[axis] - 1 for axis in "ijk"]
        key = (*edge, at["k"] == 0, _loaded(keep_a, at), _loaded(keep_b, at))
        if key not in known:
            part = [
                sizes[axis] - at[axis] * tile[axis] * dim if last else tile[axis] * dim
                for axis, last in zip("ijk", edge, strict=True)
            ]
            known[key] = _product_run(layer, accelerator, (part[0], part[1], part[2]), key)
        return known[key]

    numbers = product(*(range(trips[axis]) for axis in axes))
    count = trips["g"] * trips["i"] * trips["j"] * trips["k"]
    return (run(dict(zip(axes, at, strict=True))) for at in numbers), count


def _product_run(
    layer: Layer, accelerator: Accelerator, part: tuple[int, int, int], key: tuple[bool, ...]
) -> Run:
    """A run over `part` rows, columns and depth; the key's last four: stores, adds D, loads A, loads B."""
    dim = accelerator.dim
    rows, columns, depth = part
    stores, adds, with_a, with_b = key[2:]
    row_blocks, column_blocks, depth_blocks = (-(-size // dim) for size in part)
    group = min(column_blocks, max(1, _WIDE // dim)) / column_blocks
    block = max(dim, _rows(accelerator, rows)) + _SWITCH_WS
    passes = column_blocks * depth_blocks * block + _CHANGE_WS
    a = _read(accelerator, rows, depth, layer.input.pitch) if with_a else 0.0
    weight = (columns, depth) if layer.weights_transposed else (depth, columns)
    b = _read(accelerator, weight[0], weight[1], layer.weight.pitch) if with_b else 0.0
    d = 0.0
    if adds and layer.bias:
        d = row_blocks * column_blocks * 0.75 * dim
    elif adds and layer.residual_scale is not None:
        d = _read(accelerator, rows, columns, layer.output.pitch)
    store = _write(accelerator, rows, columns * layer.output_bits / 8) if stores else 0.0
    # the first block of weights meets every row block as the first loads of A bring them
    first = a * min(1.0, _WIDE / depth) + b * min(1.0, dim / depth) * group + d / column_blocks
    return Run(
        load=a + b + d,
        lead=max(first - row_blocks * dim, first / row_blocks),
        opening=a + (b + d) * group,
        after=passes * (1 - group),
        behind=block,
        passes=passes,
        store=store,
        tail=group,
    )


def conv_runs(layer: Layer, accelerator: Accelerator, plan: ConvPlan) -> tuple[Iterator[Run], int]:
    """The runs of LOOP_CONV_WS, and their number."""
    axes = "g" + plan.order
    known: dict[tuple[object, ...], Run] = {}

    def run(at: dict[str, int]) -> Run:
        edge = tuple(at[axis] == plan.trips[axis] - 1 for axis in AXES)
        clears = not any(at[axis] for axis in AXES[4:])
        # tiles at the image's borders load less
        border = (at["q"] == 0, at["p"] == 0)
        key = (edge, clears, _loaded(plan.keep_input, at), _loaded(plan.keep_weights, at), border)
        if key not in known:
            part = {
                axis: plan.sizes[axis] - at[axis] * plan.tile[axis] if last else plan.tile[axis]
                for axis, last in zip(AXES, edge, strict=True)
            }
            stores = all(edge[4:])
            known[key] = _conv_run(
                layer, accelerator, plan, part, stores, clears, key[2] is True, key[3] is True
            )
        return known[key]

    numbers = product(*(range(plan.trips[axis]) for axis in axes))
    count = 1
    for axis in axes:
        count *= plan.trips[axis]
    return (run(dict(zip(axes, at, strict=True))) for at in numbers), count


def _conv_run(
    layer: Layer,
    accelerator: Accelerator,
    plan: ConvPlan,
    part: dict[str, int],
    stores: bool,
    clears: bool,
    with_input: bool,
    with_weights: bool,
) -> Run:
    p, pool, dim = layer.problem, layer.pooling, accelerator.dim
    rows, columns = part["q"], part["p"]
    if pool:
        rows = min((rows - 1) * pool.stride + pool.size, p.Q)
        columns = min((columns - 1) * pool.stride + pool.size, p.P)
    images, out_blocks, in_blocks = part["n"], -(-part["k"] // dim), -(-part["c"] // dim)
    period = least_period(accelerator)
    line = max(_rows(accelerator, columns), -(-columns // dim) * (period if columns < dim else LEAST_ROWS))
    block = max(dim, images * rows * line) + _SWITCH_CONV
    blocks = out_blocks * part["s"] * -(-part["r"] // plan.pixels) * in_blocks
    height = min(rows * plan.stride + (part["s"] - 1) * plan.dilation, layer.size[0])
    width = min(columns * plan.stride + (part["r"] - 1) * plan.dilation, layer.size[1])
    inside = images * (height >> plan.downsample) * (width >> plan.downsample)
    inputs = 0.0
    if with_input:
        inputs = _read(accelerator, inside, part["c"], layer.input.pitch)
        inputs = max(inputs, inside * -(-part["c"] // _WIDE) * float(plan.pixels))
    weights = 0.0
    if with_weights:
        weights = _read(accelerator, part["s"] * part["r"] * part["c"], part["k"], layer.weight.pitch)
    # the accumulator is cleared or gets the bias, a row a cycle, and for the bias a row of memory every dim rows
    clear = images * rows * columns * out_blocks * (1.0 if layer.bias else 0.5) * clears
    stored = images * part["q"] * part["p"]
    store = _write(accelerator, stored, part["k"]) if stores else 0.0
    if pool and stores:
        store = max(store, stored * out_blocks * float(pool.size**2))
    opening = inputs + (weights + clear) / out_blocks
    return Run(
        load=inputs + weights + clear,
        lead=max(min(opening, 2.0 * dim * _WIDE / bytes_per_cycle(accelerator)), opening - block),
        opening=opening,
        after=block * max(0, blocks - 1),
        behind=block,
        passes=block * blocks + _CHANGE_CONV,
        store=store,
        tail=1 / out_blocks,
    )
