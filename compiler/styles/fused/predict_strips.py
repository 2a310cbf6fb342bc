"""Cycles, bytes and accesses of a chain of convolutions strip by strip, and the strips that take least."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.analysis.traffic import bytes_per_cycle, read_cycles
from baco.compiler.ir.emit import parts
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.fused.predict import UnitCost
from baco.compiler.styles.fused.strip_cycles import StripRound, StripWork, Turn, strip_costs, strip_cycles
from baco.compiler.styles.fused.strip_placement import StripWeights, is_depthwise, is_unrolled
from baco.compiler.styles.fused.strips import (
    MOST_ROWS,
    ConvolutionChain,
    StripMemory,
    StripSchedule,
    place_strips,
    rows_by_round,
)

__all__ = ["choose_strips", "predict_strips", "strip_schedules", "strip_work"]

#: Main memory that reads for an addition and writes its sums at the same time takes so many times as long, measured on our RTL.
_MIXED = 1.2
#: Schedules whose predicted cycles differ by less than so much are told apart by the bytes that they move.
_ALIKE = 1.003
#: Part of the cycles of the best strips with weights that stay, which those with weights that come again have to be below.
_GAIN = 0.97
#: Weights that are more than such a part of a chain's may be streamed; all heights of strips up to so many rows are looked at; of so
#: many of the best, other beginnings.
_LARGE, _EVERY, _LOOKED_AT = 8, 12, 4
#: From the first command to data, and back: times the latency of memory.
_START = 4


def predict_strips(
    chain: ConvolutionChain,
    schedule: StripSchedule,
    accelerator: Accelerator,
    memory: StripMemory | None = None,
) -> UnitCost:
    """Of all images. Raises InfeasibleError for a schedule that does not fit.

    Args:
        memory: where everything lies, if it is known.
    """
    memory = memory or place_strips(chain, schedule, accelerator)
    dim, layers = accelerator.dim, chain.layers
    images = layers[0].problem.N
    there = rows_by_round(chain, schedule)
    before = [[0] * (len(layers) + 1), *there]
    first, final, adds = layers[0], chain.stored, chain.addition is not None
    height, width = first.size
    channels = first.problem.C * first.problem.groups
    macs = stationary = accumulated = local = 0.0
    biases = 0.0
    weight_bytes = float(sum(rows * columns for rows, columns, _ in (_stored(one, dim) for one in layers)))
    for then, now in zip(before, there, strict=False):
        for i, layer in enumerate(layers):
            rows = now[i + 1] - then[i + 1]
            if not rows:
                continue
            p = layer.problem
            blocks, deep = _blocks(layer, dim)
            weights = blocks * deep
            stationary += weights * dim * dim
            sums = blocks * rows * p.P * dim
            accumulated += sums * (2 * deep - 1 + 2 * layer.bias + 1)
            # pixels to the array for every block of weights, the weights, and results that stay
            local += weights * rows * p.P * dim + weights * dim * dim + sums * (adds or i < len(layers) - 1)
            macs += rows * _macs(layer, dim) / (p.N * p.Q)
            biases += math.ceil(rows * p.P / MOST_ROWS) * 4 * p.K * p.groups * layer.bias
            if adds and i == len(layers) - 1:  # a pass of the identity matrix, to which the residual comes
                stationary += blocks * dim * dim
                accumulated += 2 * sums
                local += 3 * sums + blocks * dim * dim
                macs += rows * p.P * _macs(final, dim) / final.pixels_out
    for i, layer in enumerate(layers):
        if memory.weights[
            i
        ].streamed:  # once for every strip in which the convolution computes rows, of every image
            turns = sum(now[i + 1] > then[i + 1] for then, now in zip(before, there, strict=False))
            deep_rows, columns, _ = _stored(layer, dim)
            weight_bytes += (turns * images - 1) * deep_rows * columns
    pixels = float(first.problem.N * height * width)
    written = float(final.pixels_out * final.problem.K * final.problem.groups)
    residual, ones = adds * written, adds * dim * dim
    image = memory.images[0]
    cycles = strip_cycles(strip_work(chain, schedule, accelerator, memory), strip_costs())
    return UnitCost(
        cycles=images * cycles + _START * PROFILES[accelerator.timing].latency,
        read_bytes=weight_bytes + pixels * channels + images * biases + residual + ones,
        written_bytes=written,
        macs=images * macs,
        stationary_words=images * stationary,
        accumulator_words=images * accumulated,
        scratchpad_bytes=images * local + weight_bytes + ones + pixels * image.blocks * dim,
        softmax_elements=0.0,
    )


def strip_work(
    chain: ConvolutionChain,
    schedule: StripSchedule,
    accelerator: Accelerator,
    memory: StripMemory | None = None,
) -> StripWork:
    """What the cycles of an image depend on; `memory` as of `predict_strips`. Raises InfeasibleError for a schedule that does not
    fit."""
    memory = memory or place_strips(chain, schedule, accelerator)
    dim, layers = accelerator.dim, chain.layers
    images = layers[0].problem.N
    there = rows_by_round(chain, schedule)
    first = layers[0]
    row = read_cycles(accelerator, first.size[1], first.problem.C * first.problem.groups, first.input.pitch)
    weights = [_weight_cycles(layer, memory.weights[i], accelerator) for i, layer in enumerate(layers)]
    groups = [one.groups for one in memory.weights]
    last = layers[-1].problem
    rounds = []
    for number, (then, now) in enumerate(itertools.pairwise(there)):
        turns: list[Turn] = []
        moved = (now[0] - then[0]) * row
        for i, layer in enumerate(layers):
            rows = now[i + 1] - then[i + 1]
            if not rows:
                continue
            runs = math.ceil(rows * layer.problem.P / MOST_ROWS)
            adds = chain.addition if i == len(layers) - 1 else None
            kept = rows if i < len(layers) - 1 else runs if adds is not None else 0
            streamed = weights[i] if memory.weights[i].streamed else 0.0
            lead = weights[i] / groups[i] / images if number == i > 0 else 0.0
            turns.append(_turn(layer, rows, dim, memory.together[i], kept, streamed, lead))
            if adds is not None:
                turns.append(_turn(adds, rows, dim, 0.0, 0, 0.0, 0.0))
                groups_of_blocks = turns[-1].blocks / memory.wide
                moved += groups_of_blocks * read_cycles(
                    accelerator, rows * last.P, memory.wide * dim, adds.output.pitch
                )
            if streamed:
                moved += streamed
            elif number == i:  # all but the first group come while the convolution computes its first rows
                moved += weights[i] / images
        moved += (now[-1] - then[-1]) * last.P * last.K * last.groups / bytes_per_cycle(accelerator)
        rounds.append(StripRound(tuple(turns), moved * (1 if chain.addition is None else _MIXED)))
    before = there[0][0] * row + weights[0] / groups[0] / images
    ends = schedule.ends(last.Q)
    strip = ends[-1] - (ends[-2] if len(ends) > 1 else 0)
    behind = strip * last.P * min(dim, last.K * last.groups) / bytes_per_cycle(accelerator)
    copies = sum(_copies(layer, dim) for layer in layers)
    return StripWork(tuple(rounds), len(layers), copies, before, behind)


def _turn(
    layer: Layer, rows: int, dim: int, together: float, kept: int, streamed: float, lead: float
) -> Turn:
    """A convolution, or an addition, of which `kept` moves go to the scratchpad for each block of results; `streamed` and `lead`: cycles of main
    memory as in `Turn`."""
    p = layer.problem
    blocks, deep = _blocks(layer, dim)
    # pixels a stride apart lie in one bank, which weights are read from, too
    meets = dim / 2 * together if p.stride_w > 1 else 0.0
    runs = math.ceil(rows * p.P / MOST_ROWS)
    adds = layer.residual_scale is not None  # pixels of all rows lie together
    below = (p.Q - 1) * p.stride_h + p.S - layer.padding[0] > layer.size[0]
    return Turn(
        blocks=blocks,
        deep=deep,
        array=max(dim, rows * p.P) + meets,
        rows=1 if adds else rows,
        passes=math.ceil(rows * p.P / dim) if adds else rows * math.ceil(p.P / dim),
        unrolled=is_unrolled(layer),
        padded=bool(layer.padding[0]) or below,
        moves=runs * layer.bias + adds + (kept or runs),
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


def _weight_cycles(layer: Layer, place: StripWeights, accelerator: Accelerator) -> float:
    """To load all weights of a convolution, in groups of blocks."""
    rows, columns, pitch = _stored(layer, accelerator.dim)
    wide = columns if is_depthwise(layer) else min(columns, place.wide * accelerator.dim)
    return read_cycles(accelerator, rows, wide, pitch) * columns / wide


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
    rated: list[tuple[float, float, StripSchedule]] = []
    reason = ""

    def look(schedule: StripSchedule) -> None:
        nonlocal reason
        try:
            cost = predict_strips(chain, schedule, accelerator)
        except InfeasibleError as error:
            reason = reason or error.message
        else:
            rated.append((cost.cycles, cost.read_bytes + cost.written_bytes, schedule))

    for schedule in strip_schedules(chain):
        look(schedule)
    if not rated:
        raise InfeasibleError(f"no strips of the chain fit: {reason}")
    # weights that come again cost energy: they have to save cycles
    held = min((cycles for cycles, _, one in rated if not one.streamed), default=math.inf)
    rated = [one for one in rated if not one[2].streamed or one[0] < _GAIN * held]
    for _, _, schedule in sorted(rated, key=lambda one: one[0])[:_LOOKED_AT]:
        for begin in (2, 4, schedule.rows):
            if 1 < begin <= schedule.rows:
                look(replace(schedule, begin=begin))
    fewest = min(cycles for cycles, _, _ in rated)
    alike = [one for one in rated if one[0] <= _ALIKE * fewest]
    least = min(moved for _, moved, _ in alike)
    return min((one for one in alike if one[1] <= _ALIKE * least), key=lambda one: one[0])[2]
