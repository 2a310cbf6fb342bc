"""Convolutions of which each reads what the one before wrote, as one unit: what is computed, strip by strip, and where it lies.

Images between the convolutions are kept in the scratchpad as *rings* of rows: row y of the image lies in slot y modulo the
number of slots, and no row is computed twice. All weights stay in the scratchpad. The unit goes through *rounds*; in each,
every convolution computes the rows that a strip of results needs beyond those of the strip before. It works a strip behind
the convolution whose results it reads, so that these are there.

An image may be added to the last results. The array adds, too: the image comes to the accumulator as residuals do, and a block of
the convolution's results, which has been to the scratchpad and is int8 there, is multiplied by the identity matrix onto it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from accel.config import Accelerator
from common.errors import InfeasibleError, InputError
from compiler.layers.layer import Layer
from compiler.styles.fused.chain import multiplies_by
from workloads.problem import Problem

__all__ = [
    "MOST_ROWS",
    "ConvolutionChain",
    "Image",
    "StripMemory",
    "StripSchedule",
    "is_depthwise",
    "place_strips",
    "rows_needed",
    "strip_image",
    "weight_rows",
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
            made = (before.problem.N, (before.problem.Q, before.problem.P), _channels(before)[1])
            if made != (layer.problem.N, layer.size, _channels(layer)[0]):
                raise InputError("each convolution of a chain reads what the one before makes")
        if self.addition is not None:
            self._check_addition(self.addition)

    def _check_addition(self, addition: Layer) -> None:
        last, channels = self.layers[-1].problem, _channels(self.layers[-1])[1]
        alone = Layer(Problem(P=last.P, Q=last.Q, C=1, K=1, N=last.N, groups=channels))
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
    """

    rows: int

    def first(self, height: int) -> int:
        """Rows of the first strip, of `height` in all: half of the others, for which the array waits less at the beginning."""
        return height if self.rows >= height else -(-self.rows // 2)

    def strips(self, height: int) -> int:
        """How many there are in so many rows of results."""
        return 1 + -(-(height - self.first(height)) // self.rows)

    def __str__(self) -> str:
        return f"strips {self.rows}"


@dataclass(frozen=True)
class Image:
    """One that is kept in the scratchpad: what a convolution reads.

    Attributes:
        height, width, channels: in pixels and elements.
        left, right: columns of zeros beside it.
        slots: of rows.
        start: first scratchpad row.
        zeros: first row of an image row of zeros, for what lies above and below; as `start` if nothing does.
        dim: side of the array.
    """

    height: int
    width: int
    channels: int
    left: int
    right: int
    slots: int
    start: int
    zeros: int
    dim: int

    @property
    def pitch(self) -> int:
        """Scratchpad rows of an image row's block of channels."""
        return self.left + self.width + self.right

    @property
    def blocks(self) -> int:
        """Of channels."""
        return -(-self.channels // self.dim)

    @property
    def slot(self) -> int:
        """Scratchpad rows from one image row to the next: its blocks lie together, so that a load of new rows, of several blocks
        at once, is never taken for one that overwrites rows in use (hazards are seen by first and last row)."""
        return self.blocks * self.pitch


@dataclass(frozen=True)
class StripMemory:
    """Where everything lies.

    Attributes:
        images: that the convolutions read, the first one from main memory.
        weights: first scratchpad rows, by convolution.
        most: rows that each convolution computes in a round, at most.
        rounds: how many there are for an image.
        ones, between: with an addition, first scratchpad rows of the identity matrix, and of two blocks of the last
            convolution's results of `between_rows` rows each.
        sums, copies: accumulator rows for the sums of a block of channels, and how many blocks there is room for.
        scratchpad_rows, accumulator_rows: used.
    """

    images: tuple[Image, ...]
    weights: tuple[int, ...]
    most: tuple[int, ...]
    rounds: int
    ones: int
    between: int
    between_rows: int
    sums: int
    copies: int
    scratchpad_rows: int
    accumulator_rows: int


def is_depthwise(layer: Layer) -> bool:
    """Whether every channel is convolved by itself."""
    p = layer.problem
    return p.groups > 1 and p.C == p.K == 1


def _channels(layer: Layer) -> tuple[int, int]:
    """Of image and results."""
    p = layer.problem
    return p.C * p.groups, p.K * p.groups


def strip_image(layer: Layer) -> tuple[int, int]:
    """Columns of zeros that windows reach left and right of the image."""
    p, left = layer.problem, layer.padding[1]
    return left, max(0, (p.P - 1) * p.stride_w + p.R - left - layer.size[1])


def weight_rows(layer: Layer, dim: int) -> int:
    """Scratchpad rows of a convolution's weights."""
    p = layer.problem
    deep = dim if is_depthwise(layer) else p.C
    return p.S * p.R * deep * -(-_channels(layer)[1] // dim)


def rows_needed(chain: ConvolutionChain, strip: int, schedule: StripSchedule) -> list[int]:
    """Rows of every image, results last, that must be there when a strip of results is; of none before the first strip."""
    last = chain.layers[-1].problem.Q
    found = [min(last, max(0, schedule.first(last) + strip * schedule.rows))]
    for layer in reversed(chain.layers):
        p = layer.problem
        needed = (found[0] - 1) * p.stride_h + p.S - layer.padding[0] if found[0] else 0
        found.insert(0, min(layer.size[0], max(0, needed)))
    return found


def place_strips(chain: ConvolutionChain, schedule: StripSchedule, accelerator: Accelerator) -> StripMemory:
    """Where everything lies. Raises InfeasibleError for a schedule that does not fit."""
    dim, layers = accelerator.dim, chain.layers
    multiplies_by(accelerator)
    count = len(layers)
    rounds = schedule.strips(layers[-1].problem.Q) + count
    # rows there after each round; images are loaded a round ahead of the first convolution
    there = [
        [rows_needed(chain, number - lag, schedule)[lag] for lag in range(count + 1)]
        for number in range(rounds)
    ]
    before = [[0] * (count + 1), *there]
    most = [max(now[i] - then[i] for then, now in zip(before, there, strict=False)) for i in range(count + 1)]
    weights = [0]
    for layer in layers:
        weights.append(weights[-1] + weight_rows(layer, dim))
    adds = chain.addition is not None
    if adds and not accelerator.features.mvin_scale:
        raise InfeasibleError(f"{accelerator.name} cannot scale a residual")
    between, between_rows = weights[-1] + dim * adds, most[-1] * layers[-1].problem.P * adds
    begin = between + 2 * between_rows
    # a row is kept until the next convolution has computed all rows that read it
    kept = [
        max(
            now[i] - max(0, then[i + 1] * layer.problem.stride_h - layer.padding[0])
            for then, now in zip(before, there, strict=False)
        )
        for i, layer in enumerate(layers)
    ]
    # powers of two, so that the slot of a row is a few of its bits, where there is room
    images, at = _place_images(layers, [1 << max(0, (rows - 1).bit_length()) for rows in kept], begin, dim)
    if at > accelerator.scratchpad_rows:
        images, at = _place_images(layers, kept, begin, dim)
    sums = max(rows * layer.problem.P for rows, layer in zip(most[1:], layers, strict=True))
    for what, used, available in (
        ("scratchpad", at, accelerator.scratchpad_rows),
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
    return StripMemory(
        images,
        tuple(weights[:-1]),
        tuple(most),
        rounds,
        weights[-1],
        between,
        between_rows,
        sums,
        copies,
        at,
        copies * sums,
    )


def _place_images(
    layers: Sequence[Layer], slots: Sequence[int], at: int, dim: int
) -> tuple[tuple[Image, ...], int]:
    """What convolutions read, in so many slots each from a scratchpad row on; and the row behind."""
    images = []
    for layer, count in zip(layers, slots, strict=True):
        p, (left, right), (height, width) = layer.problem, strip_image(layer), layer.size
        below = (p.Q - 1) * p.stride_h + p.S - layer.padding[0] > height
        zeros = left + width + right if layer.padding[0] or below else 0
        images.append(
            Image(height, width, _channels(layer)[0], left, right, max(1, count), at + zeros, at, dim)
        )
        at = images[-1].start + images[-1].slots * images[-1].slot
    return tuple(images), at
