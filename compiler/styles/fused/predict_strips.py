"""Cycles, bytes and accesses of a chain of convolutions strip by strip, and the strips that take least."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.analysis.traffic import bytes_per_cycle, read_cycles
from baco.compiler.ir.emit import parts
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.fused.predict import UnitCost
from baco.compiler.styles.fused.strip_cycles import StripWork, Turn, strip_costs, strip_cycles
from baco.compiler.styles.fused.strip_placement import is_depthwise, is_unrolled
from baco.compiler.styles.fused.strips import (
    MOST_ROWS,
    ConvolutionChain,
    StripMemories,
    StripSchedule,
    strip_memories,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Main memory that reads for an addition and writes its sums at the same time takes so many times as long, measured on our RTL.
_MIXED = 1.2
#: Schedules whose predicted cycles differ by less than so much are told apart by the bytes that they move.
_ALIKE = 1.003
#: Part of the cycles of the best strips with weights that stay, which those with weights that come again have to be below.
_GAIN = 0.97
#: Weights that are more than such a part of a chain's may be streamed; all heights of strips up to so many rows are looked at; of so
#: many of the best, other beginnings.
_LARGE, _EVERY, _LOOKED_AT = 8, 12, 4
#: Commands in the three queues between the host core and the reservation station (`commands`, `behind_conv` and `behind_ws` of
#: baco_accelerator.v).
_QUEUED = 6


def predict_strips(chain: ConvolutionChain, schedule: StripSchedule, accelerator: Accelerator) -> UnitCost:
    """Of all images. Raises InfeasibleError for a schedule that does not fit."""
    memories = strip_memories(chain, [schedule], accelerator)
    if memories.reasons:
        raise InfeasibleError(memories.reasons[schedule])
    return strip_unit_costs(chain, memories, accelerator)[0]


def strip_unit_costs(
    chain: ConvolutionChain, memories: StripMemories, accelerator: Accelerator
) -> list[UnitCost]:
    """Of all images, by each of the schedules that fit."""
    if not memories.schedules:
        return []
    dim, layers = accelerator.dim, chain.layers
    images = layers[0].problem.N
    computed = _computed(memories)
    first, final, adds = layers[0], chain.stored, chain.addition is not None
    height, width = first.size
    # (S, rounds, layers) each: what is summed in the order of rounds and convolutions
    macs, stationary, accumulated, local, biases = np.zeros((5, *computed[..., 1:].shape))
    weight_bytes = float(sum(rows * columns for rows, columns, _ in (_stored(one, dim) for one in layers)))
    added = np.zeros(computed.shape[:2])
    for i, layer in enumerate(layers):
        p, rows = layer.problem, computed[..., i + 1]
        blocks, deep = _blocks(layer, dim)
        weights, busy = blocks * deep, rows > 0
        stationary[..., i] = busy * weights * dim * dim
        sums = blocks * rows * p.P * dim
        accumulated[..., i] = sums * (2 * deep - 1 + 2 * layer.bias + 1)
        # pixels to the array for every block of weights, the weights, and results that stay
        local[..., i] = weights * rows * p.P * dim + busy * weights * dim * dim
        local[..., i] += sums * (adds or i < len(layers) - 1)
        macs[..., i] = rows * _macs(layer, dim) / (p.N * p.Q)
        biases[..., i] = -(-rows * p.P // MOST_ROWS) * 4 * p.K * p.groups * layer.bias
        if adds and i == len(layers) - 1:  # a pass of the identity matrix, to which the residual comes
            stationary[..., i] += busy * blocks * dim * dim
            accumulated[..., i] += 2 * sums
            local[..., i] += 3 * sums + busy * blocks * dim * dim
            added = rows * p.P * _macs(final, dim) / final.pixels_out
    loaded = np.full(len(computed), weight_bytes)
    for i, layer in enumerate(layers):
        # once for every strip in which the convolution computes rows, of every image
        turns = (computed[..., i + 1] > 0).sum(1)
        deep_rows, columns, _ = _stored(layer, dim)
        loaded += np.where(memories.placed.streamed[:, i], (turns * images - 1) * deep_rows * columns, 0.0)
    pixels = float(first.problem.N * height * width)
    written = float(final.pixels_out * final.problem.K * final.problem.groups)
    residual, ones = adds * written, adds * dim * dim
    blocks_in = -(-first.problem.C * first.problem.groups // dim)
    cycles = strip_cycles(strip_work(chain, memories, accelerator), strip_costs())
    numbers = (
        images * cycles + PROFILES[accelerator.timing].begin_and_end,
        loaded + pixels * first.problem.C * first.problem.groups + images * _added(biases) + residual + ones,
        images * _added(np.concatenate([macs, added[..., None]], -1)),
        images * _added(stationary),
        images * _added(accumulated),
        images * _added(local) + loaded + ones + pixels * blocks_in * dim,
    )
    return [
        UnitCost(
            cycles=taken,
            read_bytes=read,
            written_bytes=written,
            macs=products,
            stationary_words=words,
            accumulator_words=sums,
            scratchpad_bytes=moved,
            softmax_elements=0.0,
        )
        for taken, read, products, words, sums, moved in np.stack(numbers, 1).tolist()
    ]


def _computed(memories: StripMemories) -> Integers:
    """Rows of every image that come in every round, (S, rounds, images)."""
    there = memories.there
    return np.diff(there, axis=1, prepend=np.zeros_like(there[:, :1]))


def _added(values: Floats) -> Floats:
    """Sums over rounds and what they do, (S, rounds, N) to (S,), one by one: so that no sum depends on how many there are."""
    return np.add.accumulate(values.reshape(len(values), -1), axis=1)[:, -1]


def strip_work(chain: ConvolutionChain, memories: StripMemories, accelerator: Accelerator) -> StripWork:
    """What the cycles of an image depend on, by each of the schedules that fit."""
    dim, layers, placed = accelerator.dim, chain.layers, memories.placed
    images = layers[0].problem.N
    computed = _computed(memories)[:, 1:]
    first = layers[0]
    row = read_cycles(accelerator, first.size[1], first.problem.C * first.problem.groups, first.input.pitch)
    weights = [_weight_cycles(layer, placed.wide[:, i], accelerator) for i, layer in enumerate(layers)]
    groups = [placed.weight_groups(i) for i in range(len(layers))]
    last = layers[-1].problem
    turns: list[Turn] = []
    moved = computed[..., 0] * row
    for i, layer in enumerate(layers):
        rows = computed[..., i + 1]
        runs, busy = -(-rows * layer.problem.P // MOST_ROWS), rows > 0
        adds = chain.addition if i == len(layers) - 1 else None
        kept = rows if i < len(layers) - 1 else runs if adds is not None else 0 * rows
        again = placed.streamed[:, i]
        streamed = np.where(again, weights[i], 0.0)[:, None]
        lead = np.zeros(rows.shape)
        if 0 < i < rows.shape[1]:
            lead[:, i] = weights[i] / groups[i] / images
        turns.append(_turn(layer, rows, dim, placed.together[:, i : i + 1], kept, streamed, lead))
        if adds is not None:
            none = np.zeros((len(rows), 1))
            turns.append(_turn(adds, rows, dim, none, 0 * rows, none, none))
            added = partial(_addend_cycles, accelerator, memories.wide * dim, adds.output.pitch)
            groups_of_blocks = turns[-1].blocks / memories.wide
            moved = moved + groups_of_blocks * _of_each(rows * last.P, added)
        moved = moved + np.where(busy, streamed, 0.0)
        if i < rows.shape[1]:  # all but the first group come while the convolution computes its first rows
            moved[:, i] += np.where(again | ~busy[:, i], 0.0, weights[i] / images)
    moved = moved + computed[..., -1] * last.P * last.K * last.groups / bytes_per_cycle(accelerator)
    before = memories.there[:, 0, 0] * row + weights[0] / groups[0] / images
    ends = memories.there[..., -1]
    strips = np.array([len(one.ends(last.Q)) for one in memories.schedules])
    every, final = np.arange(len(ends)), strips + len(layers) - 1
    strip = ends[every, final] - ends[every, final - 1]
    behind = strip * last.P * min(dim, last.K * last.groups) / bytes_per_cycle(accelerator)
    copies = sum(_copies(layer, dim) for layer in layers)
    mixed = 1 if chain.addition is None else _MIXED
    waiting = (accelerator.execute_entries + _QUEUED) // 2  # a pass is two commands
    return StripWork(tuple(turns), moved * mixed, len(layers), copies, before, behind, waiting)


def _of_each(values: Integers, of: Callable[[float], float]) -> Floats:
    """A function of each of many numbers, most of which are alike."""
    known, place = np.unique(values, return_inverse=True)
    return np.array([of(float(one)) for one in known])[place.reshape(values.shape)]


def _addend_cycles(accelerator: Accelerator, columns: int, pitch: int, rows: float) -> float:
    """To load rows of an image that is added."""
    return read_cycles(accelerator, rows, columns, pitch) if rows else 0.0


def _turn(
    layer: Layer,
    rows: Integers,
    dim: int,
    together: Floats,
    kept: Integers,
    streamed: Floats,
    lead: Floats,
) -> Turn:
    """A convolution, or an addition, of which `kept` moves go to the scratchpad for each block of results; `streamed` and `lead`: cycles of main
    memory as in `Turn`. Arrays (S, rounds), `together` and `streamed` (S, 1)."""
    p = layer.problem
    blocks, deep = _blocks(layer, dim)
    # pixels a stride apart lie in one bank, which weights are read from, too
    meets: Floats | float = dim / 2 * together if p.stride_w > 1 else 0.0
    runs = -(-rows * p.P // MOST_ROWS)
    adds = layer.residual_scale is not None  # pixels of all rows lie together
    below = (p.Q - 1) * p.stride_h + p.S - layer.padding[0] > layer.size[0]
    return Turn(
        busy=rows > 0,
        blocks=blocks,
        deep=deep,
        array=np.maximum(dim, rows * p.P) + meets,
        rows=np.ones_like(rows) if adds else rows,
        passes=-(-rows * p.P // dim) if adds else rows * math.ceil(p.P / dim),
        unrolled=is_unrolled(layer),
        padded=bool(layer.padding[0]) or below,
        moves=runs * layer.bias + adds + np.where(kept > 0, kept, runs),
        kept=blocks * kept,
        pixels=blocks * rows * p.P,
        streamed=streamed,
        lead=lead,
    )


def _copies(layer: Layer, dim: int) -> int:
    """How often the code of passes through a block of weights is there."""
    p = layer.problem
    kinds = len(parts(p.K * p.groups, dim)) * (1 if is_depthwise(layer) else len(parts(p.C, dim)))
    return p.S * (p.R if is_unrolled(layer) else 1) * kinds


def _weight_cycles(layer: Layer, wide: Integers, accelerator: Accelerator) -> Floats:
    """To load all weights of a convolution, in groups of so many blocks (S,)."""
    rows, columns, pitch = _stored(layer, accelerator.dim)

    def cycles(blocks: float) -> float:
        each = columns if is_depthwise(layer) else min(columns, int(blocks) * accelerator.dim)
        return read_cycles(accelerator, rows, each, pitch) * columns / each

    return _of_each(wide, cycles)


def _blocks(layer: Layer, dim: int) -> tuple[int, int]:
    """Blocks of results, and blocks of weights for each."""
    p = layer.problem
    deep = 1 if is_depthwise(layer) else math.ceil(p.C / dim)
    return math.ceil(p.K * p.groups / dim), p.S * p.R * deep


def _stored(layer: Layer, dim: int) -> tuple[int, int, int]:
    """Rows, columns and pitch of the weights in memory."""
    p = layer.problem
    if is_depthwise(layer):
        return math.ceil(p.groups / dim) * p.S * p.R * dim, dim, dim
    return p.S * p.R * p.C, p.K, layer.weight.pitch


def _macs(layer: Layer, dim: int) -> int:
    """Multiplications that the array does: a block of channels convolved one by one is a product."""
    p = layer.problem
    if not is_depthwise(layer):
        return p.macs
    full, rest = divmod(p.groups, dim)
    return layer.pixels_out * p.S * p.R * (full * dim * dim + rest * rest)


def strip_schedules(chain: ConvolutionChain) -> Iterator[StripSchedule]:
    """Schedules worth looking at, whether they fit or not: strips of all heights that divide the results well, and weights that
    come again for every strip, of one convolution or of all, where they are a large part of the chain's."""
    height = chain.layers[-1].problem.Q
    weights = [math.prod(_stored(layer, 1)[:2]) for layer in chain.layers]
    large = tuple(i for i, one in enumerate(weights) if one * _LARGE >= sum(weights))
    heights = {-(-height // n) for n in range(1, height + 1)} | set(range(1, min(height, _EVERY) + 1))
    for streamed in dict.fromkeys([(), *((i,) for i in large), large]):
        for rows in sorted(heights):
            yield StripSchedule(rows, 1, streamed)


def choose_strips(chain: ConvolutionChain, accelerator: Accelerator) -> StripSchedule:
    """The strips of fewest predicted cycles, of those that are alike the ones that move least. Raises InfeasibleError where none
    fit."""

    reasons: list[str] = []

    def rated_of(schedules: Sequence[StripSchedule]) -> list[tuple[float, float, StripSchedule]]:
        memories = strip_memories(chain, schedules, accelerator)
        costs = strip_unit_costs(chain, memories, accelerator)
        reasons.extend(memories.reasons.values())
        return [
            (cost.cycles, cost.read_bytes + cost.written_bytes, schedule)
            for schedule, cost in zip(memories.schedules, costs, strict=True)
        ]

    rated = rated_of(list(strip_schedules(chain)))
    if not rated:
        raise InfeasibleError(f"no strips of the chain fit: {reasons[0]}")
    # weights that come again cost energy: they have to save cycles
    held = min((cycles for cycles, _, schedule in rated if not schedule.streamed), default=math.inf)
    rated = [entry for entry in rated if not entry[2].streamed or entry[0] < _GAIN * held]
    beginnings = [
        begun
        for _, _, schedule in sorted(rated, key=lambda entry: entry[0])[:_LOOKED_AT]
        for begun in schedule.begun()
        if begun.begin > schedule.begin
    ]
    if beginnings:
        rated += rated_of(beginnings)
    fewest = min(cycles for cycles, _, _ in rated)
    alike = [entry for entry in rated if entry[0] <= _ALIKE * fewest]
    least = min(moved for _, moved, _ in alike)
    return min((entry for entry in alike if entry[1] <= _ALIKE * least), key=lambda entry: entry[0])[2]
