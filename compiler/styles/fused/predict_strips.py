"""Cycles, bytes and accesses of a chain of convolutions strip by strip, and the strips that take least."""

from __future__ import annotations

import math
from collections.abc import Iterator

from accel.config import Accelerator
from common.errors import InfeasibleError
from compiler.analysis.profile import PROFILES
from compiler.analysis.traffic import bytes_per_cycle, read_cycles
from compiler.layers.layer import Layer
from compiler.styles.fused.predict import UnitCost
from compiler.styles.fused.strips import (
    MOST_ROWS,
    ConvolutionChain,
    StripSchedule,
    is_depthwise,
    place_strips,
    rows_needed,
)

__all__ = ["choose_strips", "predict_strips", "strip_schedules"]

#: Cycles measured on our RTL, fitted to 170 chains in strips on arrays of side 8, 16 and 32 (mean error 6%; 5% on side 16): of the
#: host core for a pass, for an image row of passes, for a move; of the array for a block of results and for a convolution of a round
#: besides its passes; of a move to the scratchpad beside its rows.
_PASS, _ROW, _MOVE, _RESULTS, _BEGIN, _KEEP = 6.3, 9.7, 33.0, 45.0, 234.0, 95.0
_START = 4


def predict_strips(chain: ConvolutionChain, schedule: StripSchedule, accelerator: Accelerator) -> UnitCost:
    """Of all images. Raises InfeasibleError for a schedule that does not fit."""
    memory = place_strips(chain, schedule, accelerator)
    dim, layers = accelerator.dim, chain.layers
    images = layers[0].problem.N
    there = [
        [rows_needed(chain, number - lag, schedule)[lag] for lag in range(len(layers) + 1)]
        for number in range(memory.rounds)
    ]
    before = [[0] * (len(layers) + 1), *there]
    first = layers[0]
    height, width = first.size
    channels = first.problem.C * first.problem.groups
    row = read_cycles(accelerator, width, channels, first.input.pitch)  # to load one
    stored = [_stored(layer, dim) for layer in layers]
    weights_come = [read_cycles(accelerator, rows, columns, pitch) for rows, columns, pitch in stored]
    cycles = macs = stationary = accumulated = local = 0.0
    biases = 0.0
    for number, (then, now) in enumerate(zip(before, there, strict=False)):
        array = host = move = 0.0
        # image rows for the next round, and weights of the convolution that begins then, to one image's worth of weights
        load = (now[0] - then[0]) * row + (weights_come[number] / images if number < len(layers) else 0.0)
        for i, layer in enumerate(layers):
            rows = now[i + 1] - then[i + 1]
            if not rows:
                continue
            last = i == len(layers) - 1
            p = layer.problem
            blocks, deep = _blocks(layer, dim)
            weights = blocks * deep
            passes = math.ceil(p.P / dim)
            meets = (
                dim // 2 if p.stride_w > 1 else 0
            )  # pixels a stride apart lie in one bank, which weights are read from, too
            array += weights * (max(dim, rows * p.P) + meets) + blocks * _RESULTS + _BEGIN
            moves = math.ceil(rows * p.P / MOST_ROWS)
            loads = blocks * moves * layer.bias
            stores = blocks * (moves if last else rows)
            host += weights * rows * (passes * _PASS + _ROW) + (loads + stores) * _MOVE
            move += blocks * rows * (p.P + (0.0 if last else _KEEP))
            stationary += weights * dim * dim
            sums = blocks * rows * p.P * dim
            accumulated += sums * (2 * deep - 1 + 2 * layer.bias + 1)
            # pixels to the array for every block of weights, the weights, and results that stay
            local += weights * rows * p.P * dim + weights * dim * dim + (0 if last else sums)
            macs += rows * _macs(layer, dim) / (p.N * p.Q)
            biases += moves * 4 * p.K * p.groups * layer.bias
        cycles += max(array, host, move, load)
    pixels = float(first.problem.N * height * width)
    weight_bytes = float(sum(rows * columns for rows, columns, _ in stored))
    memory_cycles = pixels / width * row + biases * images / bytes_per_cycle(accelerator)
    final = layers[-1]
    written = float(final.pixels_out * final.problem.K * final.problem.groups)
    memory_cycles += written / bytes_per_cycle(accelerator)
    image = memory.images[0]
    return UnitCost(
        cycles=max(images * cycles, memory_cycles) + _START * PROFILES[accelerator.timing].latency,
        read_bytes=weight_bytes + pixels * channels + images * biases,
        written_bytes=written,
        macs=images * macs,
        stationary_words=images * stationary,
        accumulator_words=images * accumulated,
        scratchpad_bytes=images * local + weight_bytes + pixels * image.blocks * dim,
        softmax_elements=0.0,
    )


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
    """Schedules worth looking at, those that take least memory first, whether they fit or not."""
    height = chain.layers[-1].problem.Q
    for rows in sorted({-(-height // n) for n in range(1, height + 1)}):
        yield StripSchedule(rows)


def choose_strips(chain: ConvolutionChain, accelerator: Accelerator) -> StripSchedule:
    """The strips of fewest predicted cycles. Raises InfeasibleError where none fit."""
    best: tuple[float, StripSchedule] | None = None
    reason = ""
    for schedule in strip_schedules(chain):
        try:
            cycles = predict_strips(chain, schedule, accelerator).cycles
        except InfeasibleError as error:
            reason = reason or error.message
            if best is not None:
                break  # larger ones take more
            continue
        if best is None or cycles < best[0]:
            best = cycles, schedule
    if best is None:
        raise InfeasibleError(f"no strips of the chain fit: {reason}")
    return best[1]
