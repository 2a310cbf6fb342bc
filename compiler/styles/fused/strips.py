"""Convolutions of which each reads what the one before wrote, as one unit: what is computed, strip by strip, and where it lies.

Images between the convolutions are kept in the scratchpad as *rings* of rows: row y of the image lies in slot y modulo the
number of slots, and no row is computed twice. Weights stay in the scratchpad, or come again for every strip. The unit goes
through *rounds*; in each, every convolution computes the rows that a strip of results needs beyond those of the strip before. It works a strip behind
the convolution whose results it reads, so that these are there.

An image may be added to the last results (`baco.compiler.styles.fused.adding`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.fused.chain import multiplies_by
from baco.compiler.styles.fused.strip_placement import (
    Image,
    StripWeights,
    channels,
    is_depthwise,
    least_rows,
    place_scratchpad,
    wide_load,
)
from baco.workloads.problem import Problem

__all__ = [
    "MOST_ROWS",
    "ConvolutionChain",
    "StripMemory",
    "StripSchedule",
    "place_strips",
    "rows_by_round",
    "rows_needed",
]

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
        rounds: how many there are for an image.
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
    rounds: int
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
    return _rows_for(chain, ends[min(strip, len(ends) - 1)] if strip >= 0 else 0)


def _rows_for(chain: ConvolutionChain, results: int) -> list[int]:
    """Rows of every image that so many rows of results need, and these."""
    found = [results]
    for layer in reversed(chain.layers):
        p = layer.problem
        needed = (found[0] - 1) * p.stride_h + p.S - layer.padding[0] if found[0] else 0
        found.insert(0, min(layer.size[0], max(0, needed)))
    return found


def rows_by_round(chain: ConvolutionChain, schedule: StripSchedule) -> list[list[int]]:
    """Rows of every image that are there after each round; images are loaded a round ahead of the first convolution."""
    count = len(chain.layers)
    ends = schedule.ends(chain.layers[-1].problem.Q)
    strips = len(ends)
    needed = [_rows_for(chain, end) for end in [*[0] * count, *ends]]
    return [
        [needed[min(number - lag, strips - 1) + count][lag] for lag in range(count + 1)]
        for number in range(strips + count)
    ]


def place_strips(chain: ConvolutionChain, schedule: StripSchedule, accelerator: Accelerator) -> StripMemory:
    """Where everything lies. Raises InfeasibleError for a schedule that does not fit."""
    layers = chain.layers
    multiplies_by(accelerator)
    if not 1 <= schedule.begin <= schedule.rows or any(i >= len(layers) for i in schedule.streamed):
        raise InfeasibleError(f"{schedule} is none of a chain of {len(layers)} convolutions")
    there = rows_by_round(chain, schedule)
    before = [[0] * (len(layers) + 1), *there]
    most = [
        max(now[i] - then[i] for then, now in zip(before, there, strict=False))
        for i in range(len(layers) + 1)
    ]
    # a row is kept until the next convolution has computed all rows that read it
    kept = [
        max(
            now[i] - max(0, then[i + 1] * layer.problem.stride_h - layer.padding[0])
            for then, now in zip(before, there, strict=False)
        )
        for i, layer in enumerate(layers)
    ]
    block, wide, extra = most[-1] * layers[-1].problem.P, wide_load(accelerator), (0, 0)
    if chain.addition is not None:
        if not (accelerator.features.mvin_scale and accelerator.features.preload_d):
            raise InfeasibleError(f"{accelerator.name} cannot add scaled results in the array")
        wide = min(wide, -(-chain.addition.problem.groups // accelerator.dim))
        extra = accelerator.dim + 2 * block, wide * block
    streamed = [i in schedule.streamed for i in range(len(layers))]
    least = least_rows(layers, kept, streamed, accelerator) + extra[0] + 2 * extra[1]
    sums = max(rows * layer.problem.P for rows, layer in zip(most[1:], layers, strict=True))
    for what, used, available in (
        ("scratchpad", least, accelerator.scratchpad_rows),
        ("accumulator", chain.least_copies * sums, accelerator.accumulator_rows),
    ):
        if used > available:
            raise InfeasibleError(
                f"{schedule} takes {used} rows of the {what}, {used - available} more than its {available}"
            )
    copies = min(_MOST_COPIES, accelerator.accumulator_rows // sums)
    if any(layer.problem.P > MOST_ROWS for layer in layers[:-1]):
        raise InfeasibleError(
            f"image rows of more than {MOST_ROWS} pixels do not go to the scratchpad at once"
        )
    placed = place_scratchpad(layers, kept, streamed, accelerator, extra)
    return StripMemory(
        placed.images, placed.weights, tuple(most), len(there), placed.extra[0], block, placed.extra[1:], wide, sums, copies, placed.rows, copies * sums, least, placed.together
    )  # fmt: skip
