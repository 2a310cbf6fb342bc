"""Convolutions of which each reads what the one before wrote, as one unit: what is computed, strip by strip, and where it lies.

Images between the convolutions are kept in the scratchpad as *rings* of rows: row y of the image lies in slot y modulo the
number of slots, and no row is computed twice. Weights stay in the scratchpad, or come again for every strip. The unit goes
through *rounds*; in each, every convolution computes the rows that a strip of results needs beyond those of the strip before. It works a strip behind
the convolution whose results it reads, so that these are there.

An image may be added to the last results (`baco.compiler.styles.fused.adding`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.fused.chain import multiplies_by
from baco.compiler.styles.fused.strip_placement import (
    Image,
    StripPlacements,
    StripWeights,
    channels,
    is_depthwise,
    least_rows,
    place_scratchpad,
    wide_load,
)
from baco.workloads.problem import Problem

Integers = NDArray[np.int64]
#: Blocks of channels whose sums are in the accumulator at most: one is made, one leaves, one begins.
_MOST_COPIES = 4
#: Most rows of a move of one block of columns, of our accelerator.
MOST_ROWS = 255


@dataclass(frozen=True)
class ConvolutionChain:
    """Convolutions one behind the other.

    Attributes:
        layers: one or more, with int8 results and without residual, pooling and dilation, of one group or of one for each
            channel; each has the image that the one before makes, dense.
        addition: what is done with the results of the last one, if anything: a layer that convolves every channel by itself with
            one weight of 1, and adds a residual.
    """

    layers: tuple[Layer, ...]
    addition: Layer | None = None

    def __post_init__(self) -> None:
        if not self.layers:
            raise InputError("a chain has convolutions")
        for layer in self.layers:
            p = layer.problem
            if (
                layer.scale is None
                or layer.pooling
                or layer.residual_scale is not None
                or layer.weights_transposed
            ):
                raise InputError("convolutions of a chain have int8 results, and no residual and no pooling")
            if (p.dilation_h, p.dilation_w) != (1, 1):
                raise InputError("convolutions of a chain have no dilation")
            if p.groups > 1 and not is_depthwise(layer):
                raise InputError("convolutions of a chain have one group, or one for each channel")
        for before, layer in zip(self.layers, self.layers[1:], strict=False):
            made = (before.problem.N, (before.problem.Q, before.problem.P), channels(before)[1])
            if made != (layer.problem.N, layer.size, channels(layer)[0]):
                raise InputError("each convolution of a chain reads what the one before makes")
        if self.addition is not None:
            self._check_addition(self.addition)

    def _check_addition(self, addition: Layer) -> None:
        last, made = self.layers[-1].problem, channels(self.layers[-1])[1]
        alone = Layer(Problem(P=last.P, Q=last.Q, C=1, K=1, N=last.N, groups=made))
        given = (addition.relu, addition.scale, addition.residual_scale, addition.output)
        named = dict(zip(("relu", "scale", "residual_scale", "output"), given, strict=True))
        if None in given or addition != replace(alone, **named):  # type: ignore[arg-type]
            raise InputError("what is added to a chain's results is an int8 image of their size")

    def __str__(self) -> str:
        added = "" if self.addition is None else " + residual"
        return " > ".join(str(layer.problem) for layer in self.layers) + added

    @property
    def stored(self) -> Layer:
        """The one whose results go to main memory."""
        return self.layers[-1] if self.addition is None else self.addition

    @property
    def least_copies(self) -> int:
        """Blocks of channels whose sums are in the accumulator at least: one is made while one leaves, and one is added to."""
        return 2 if self.addition is None else 3


@dataclass(frozen=True)
class StripSchedule:
    """How a chain of convolutions is carried out.

    Attributes:
        rows: of a strip of results.
        begin: rows of the first strip, at most `rows`; each strip has twice the rows of the one before until `rows` are reached,
            so that the array need not wait for many rows at the beginning.
        streamed: numbers of the convolutions whose weights come from main memory again for every strip; those of the others stay
            in the scratchpad.
    """

    rows: int
    begin: int = 1
    streamed: tuple[int, ...] = ()

    def begun(self) -> list[StripSchedule]:
        """With each of the first strips that are worth a look, from one row on."""
        return [replace(self, begin=rows) for rows in sorted({1, 2, 4, self.rows}) if rows <= self.rows]

    def ends(self, height: int) -> list[int]:
        """Rows of results, of `height`, that are there after each strip."""
        found, size = [min(height, self.begin)], self.begin
        while found[-1] < height:
            size = min(self.rows, 2 * size)
            found.append(min(height, found[-1] + size))
        return found

    def __str__(self) -> str:
        streamed = ",".join(str(i + 1) for i in self.streamed)
        return f"strips {self.rows} from {self.begin}" + (f" streaming {streamed}" if streamed else "")


@dataclass(frozen=True)
class StripMemory:
    """Where everything lies.

    Attributes:
        images: that the convolutions read, the first one from main memory.
        weights: by convolution.
        most: rows that each convolution computes in a round, at most.
        ones, block, residual, wide: with an addition, first scratchpad row of the identity matrix, behind which two blocks of the
            last convolution's results lie; rows of such a block at most; first rows of the image's blocks of a group, in turn; and
            blocks of a group.
        sums, copies: accumulator rows for the sums of a block of channels, and how many blocks there is room for.
        scratchpad_rows, accumulator_rows: used, to the last one.
        least_rows: of a scratchpad in which there is room for all of it.
        together: by convolution, part of its pixels and weights that lie in the same banks.
    """

    images: tuple[Image, ...]
    weights: tuple[StripWeights, ...]
    most: tuple[int, ...]
    ones: int
    block: int
    residual: tuple[int, int]
    wide: int
    sums: int
    copies: int
    scratchpad_rows: int
    accumulator_rows: int
    least_rows: int
    together: tuple[float, ...]


def rows_needed(chain: ConvolutionChain, strip: int, schedule: StripSchedule) -> list[int]:
    """Rows of every image, results last, that must be there when a strip of results is; of none before the first strip."""
    ends = schedule.ends(chain.layers[-1].problem.Q)
    results = ends[min(strip, len(ends) - 1)] if strip >= 0 else 0
    return [int(rows) for rows in _rows_for(chain, np.array(results))]


def _rows_for(chain: ConvolutionChain, results: Integers) -> Integers:
    """Rows of every image that numbers of rows of results (...,) need, and these: (..., images)."""
    found = [results]
    for layer in reversed(chain.layers):
        p = layer.problem
        needed = np.where(found[0] > 0, (found[0] - 1) * p.stride_h + p.S - layer.padding[0], 0)
        found.insert(0, np.minimum(layer.size[0], np.maximum(0, needed)))
    return np.stack(found, -1)


def rows_by_round(chain: ConvolutionChain, schedule: StripSchedule) -> list[list[int]]:
    """Rows of every image that are there after each round; images are loaded a round ahead of the first convolution."""
    found: list[list[int]] = rounds_of(chain, [schedule])[0].tolist()
    return found


def rounds_of(chain: ConvolutionChain, schedules: Sequence[StripSchedule]) -> Integers:
    """`rows_by_round` of each of many schedules, (schedules, rounds, images): those of fewer rounds than others end in rounds in
    which nothing is done."""
    count, height = len(chain.layers), chain.layers[-1].problem.Q
    known: dict[tuple[int, int], list[int]] = {}
    for schedule in schedules:
        if (schedule.rows, schedule.begin) not in known:
            known[schedule.rows, schedule.begin] = schedule.ends(height)
    most = max(map(len, known.values())) + count
    # nothing is there of images that wait for those before
    ends = np.array([[*[0] * count, *stops, *[height] * (most - len(stops))] for stops in known.values()])
    needed = _rows_for(chain, ends)
    rounds = np.stack([needed[:, count - lag : count - lag + most, lag] for lag in range(count + 1)], -1)
    place = {key: n for n, key in enumerate(known)}
    return np.asarray(rounds[[place[schedule.rows, schedule.begin] for schedule in schedules]])


@dataclass(frozen=True)
class StripMemories:
    """Where everything lies by each of many schedules of a chain that fit an accelerator, as arrays over these; as in `StripMemory`.

    Attributes:
        schedules: those that fit.
        reasons: why others do not, by schedule, in order.
        there: (S, rounds, images) as `rounds_of` has it.
        placed: images and weights.
        wide: blocks of a group of the image that is added; the same of all.
    """

    schedules: tuple[StripSchedule, ...]
    reasons: Mapping[StripSchedule, str]
    there: Integers
    placed: StripPlacements
    most: Integers
    block: Integers
    wide: int
    sums: Integers
    copies: Integers
    least_rows: Integers

    def one(self, n: int) -> StripMemory:
        """Of one schedule."""
        placed, copies, sums = self.placed.one(n), int(self.copies[n]), int(self.sums[n])
        return StripMemory(
            placed.images, placed.weights, tuple(self.most[n].tolist()), placed.extra[0], int(self.block[n]),
            placed.extra[1:], self.wide, sums, copies, placed.rows, copies * sums, int(self.least_rows[n]), placed.together
        )  # fmt: skip


def place_strips(chain: ConvolutionChain, schedule: StripSchedule, accelerator: Accelerator) -> StripMemory:
    """Where everything lies. Raises InfeasibleError for a schedule that does not fit."""
    found = strip_memories(chain, [schedule], accelerator)
    if found.reasons:
        raise InfeasibleError(found.reasons[schedule])
    return found.one(0)


def strip_memories(
    chain: ConvolutionChain, schedules: Sequence[StripSchedule], accelerator: Accelerator
) -> StripMemories:
    """Where everything lies by each of the schedules that fit. Raises InfeasibleError for what no schedule of the chain can do."""
    layers = chain.layers
    multiplies_by(accelerator)
    for schedule in schedules:
        if not 1 <= schedule.begin <= schedule.rows or any(i >= len(layers) for i in schedule.streamed):
            raise InfeasibleError(f"{schedule} is none of a chain of {len(layers)} convolutions")
    there = rounds_of(chain, schedules)
    before = np.concatenate([np.zeros_like(there[:, :1]), there[:, :-1]], 1)
    most = (there - before).max(1)
    # a row is kept until the next convolution has computed all rows that read it
    read = [before[..., i + 1] * layer.problem.stride_h - layer.padding[0] for i, layer in enumerate(layers)]
    kept = np.stack([(there[..., i] - np.maximum(0, read[i])).max(1) for i in range(len(layers))], 1)
    block, wide = most[:, -1] * layers[-1].problem.P, wide_load(accelerator)
    extra = np.zeros((len(there), 2), dtype=np.int64)
    if chain.addition is not None:
        if not (accelerator.features.mvin_scale and accelerator.features.preload_d):
            raise InfeasibleError(f"{accelerator.name} cannot add scaled results in the array")
        wide = min(wide, -(-chain.addition.problem.groups // accelerator.dim))
        extra = np.stack([accelerator.dim + 2 * block, wide * block], 1)
    streamed = np.array([[i in schedule.streamed for i in range(len(layers))] for schedule in schedules])
    least = least_rows(layers, kept, streamed, accelerator) + extra[:, 0] + 2 * extra[:, 1]
    sums = (most[:, 1:] * [layer.problem.P for layer in layers]).max(1)
    broad = any(layer.problem.P > MOST_ROWS for layer in layers[:-1])
    reasons: dict[StripSchedule, str] = {}
    for n, schedule in enumerate(schedules):
        for what, used, available in (
            ("scratchpad", int(least[n]), accelerator.scratchpad_rows),
            ("accumulator", chain.least_copies * int(sums[n]), accelerator.accumulator_rows),
        ):
            if used > available:
                text = f"{schedule} takes {used} rows of the {what}, {used - available} more than its {available}"
                reasons.setdefault(schedule, text)
        if broad:
            text = f"image rows of more than {MOST_ROWS} pixels do not go to the scratchpad at once"
            reasons.setdefault(schedule, text)
    fit = np.array([n for n, schedule in enumerate(schedules) if schedule not in reasons], dtype=np.int64)
    sums = sums[fit]
    return StripMemories(
        tuple(schedules[n] for n in fit),
        reasons,
        there[fit],
        place_scratchpad(layers, kept[fit], streamed[fit], accelerator, extra[fit]),
        most[fit],
        block[fit],
        wide,
        sums,
        np.minimum(_MOST_COPIES, accelerator.accumulator_rows // sums),
        least[fit],
    )
