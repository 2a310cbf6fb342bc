"""Where a chain of convolutions keeps its images and weights in the scratchpad."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.fused.strip_rooms import Intervals, Rooms

Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
#: Bytes a row that one load may bring, by Gemmini's C header.
_LOAD_BYTES = 64
#: Part of the pixels by which another place has to be better.
_LESS = 0.1
#: Banks from which on quarters of the scratchpad lie in two groups of banks in turn (`accel/rtl/baco_scratchpad.v`).
_GROUPED_BANKS = 4


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
        split, second: of a ring in two pieces, slots of the first one and first row of the second, which lies behind it.
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
    split: int = 0
    second: int = 0

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

    @property
    def edge(self) -> int:
        """Rows of the first piece, if there are two."""
        return self.split * self.slot

    @property
    def gap(self) -> int:
        """Rows between the pieces."""
        return self.second - self.start - self.edge if self.split else 0

    @property
    def ring(self) -> int:
        """Rows from the first slot to behind the last one."""
        return self.slots * self.slot + self.gap

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """First row and slots of each."""
        if not self.split:
            return [(self.start, self.slots)]
        return [(self.start, self.split), (self.second, self.slots - self.split)]

    def place(self, row: int) -> int:
        """Scratchpad row of an image row, from `start` on."""
        slot = row % self.slots
        return slot * self.slot + (self.gap if self.split and slot >= self.split else 0)


@dataclass(frozen=True)
class StripWeights:
    """A convolution's weights in the scratchpad: blocks of results one behind the other, in parts of which each holds whole groups
    of blocks, those that one load brings.

    Attributes:
        rows: of a block of results.
        blocks: of results.
        wide: blocks of a group.
        starts: first rows of both parts.
        split: groups in the first part, the others are in the second one; of streamed weights one group is in each part, in turn.
        streamed: whether they come again for every strip.
    """

    rows: int
    blocks: int
    wide: int
    starts: tuple[int, int]
    split: int
    streamed: bool

    @property
    def groups(self) -> int:
        """Groups of blocks."""
        return -(-self.blocks // self.wide)

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Scratchpad rows of both parts, from and to."""
        size = self.wide * self.rows
        if self.streamed:
            return [(start, start + size) for start in self.starts]
        first = min(self.blocks * self.rows, self.split * size)
        rest = self.blocks * self.rows - first
        return [(self.starts[0], self.starts[0] + first)] + [(self.starts[1], self.starts[1] + rest)] * (
            rest > 0
        )


@dataclass(frozen=True)
class StripPlacement:
    """Where images and weights lie, by convolution.

    Attributes:
        images, weights: as in `StripMemory`.
        extra: first rows of those asked for beside.
        rows: of the scratchpad, to the last one used.
        together: part of the pixels and weights that lie in the same banks.
    """

    images: tuple[Image, ...]
    weights: tuple[StripWeights, ...]
    extra: tuple[int, int, int]
    rows: int
    together: tuple[float, ...]


@dataclass(frozen=True)
class StripPlacements:
    """`StripPlacement` by many schedules of a chain, as arrays (S, layers, ...).

    Attributes:
        slots, start, split, second: of images, as in `Image`.
        wide, starts, groups, streamed: of weights, as in `StripWeights`; `groups` is its `split`.
        extra, rows, together: as there.
    """

    layers: tuple[Layer, ...]
    dim: int
    slots: Integers
    start: Integers
    split: Integers
    second: Integers
    wide: Integers
    starts: Integers
    groups: Integers
    streamed: Bools
    extra: Integers
    rows: Integers
    together: NDArray[np.float64]

    @classmethod
    def none(cls, layers: Sequence[Layer], count: int, dim: int) -> StripPlacements:
        """Of schedules for which nothing has been placed."""
        size = count, len(layers)
        slots, start, split, second, wide, groups = np.zeros((6, *size), dtype=np.int64)
        starts, extra = np.zeros((*size, 2), dtype=np.int64), np.zeros((count, 3), dtype=np.int64)
        streamed, rows, together = (
            np.zeros(size, dtype=np.bool_),
            np.zeros(count, dtype=np.int64),
            np.ones(size),
        )
        return cls(
            tuple(layers), dim, slots, start, split, second, wide, starts, groups, streamed, extra, rows, together
        )  # fmt: skip

    def put(self, place: Integers, other: StripPlacements, which: Bools) -> None:
        """Take over some of other placements, for the schedules at `place`."""
        for field in _ARRAYS:
            getattr(self, field)[place] = getattr(other, field)[which]

    def image_parts(self, i: int) -> list[Intervals]:
        """Scratchpad rows of pixels that a convolution reads."""
        slot, start, split, second = (
            _image(self.layers[i], self.dim).slot,
            self.start[:, i],
            self.split[:, i],
            self.second[:, i],
        )
        first = np.where(split > 0, split, self.slots[:, i])
        return [(start, start + first * slot), (second, second + (self.slots[:, i] - first) * slot)]

    def weight_parts(self, i: int) -> list[Intervals]:
        """Scratchpad rows of both parts of a convolution's weights."""
        rows, blocks = _weights(self.layers[i], self.dim)
        one, two, size = self.starts[:, i, 0], self.starts[:, i, 1], self.wide[:, i] * rows
        first = np.where(self.streamed[:, i], size, np.minimum(blocks * rows, self.groups[:, i] * size))
        return [(one, one + first), (two, two + np.where(self.streamed[:, i], size, blocks * rows - first))]

    def weight_groups(self, i: int) -> Integers:
        """Groups of blocks of a convolution's weights."""
        return -(-_weights(self.layers[i], self.dim)[1] // np.maximum(1, self.wide[:, i]))

    def one(self, n: int) -> StripPlacement:
        """By one schedule."""
        images, weights = [], []
        for i, layer in enumerate(self.layers):
            image, start = _image(layer, self.dim), int(self.start[n, i])
            slots, split, second = (int(one[n, i]) for one in (self.slots, self.split, self.second))
            zeros = start - image.start
            images.append(replace(image, slots=slots, start=start, zeros=zeros, split=split, second=second))
            starts = int(self.starts[n, i, 0]), int(self.starts[n, i, 1])
            wide, groups, again = int(self.wide[n, i]), int(self.groups[n, i]), bool(self.streamed[n, i])
            weights.append(StripWeights(*_weights(layer, self.dim), wide, starts, groups, again))
        first, second_, third = self.extra[n].tolist()
        together = tuple(self.together[n].tolist())
        return StripPlacement(
            tuple(images), tuple(weights), (first, second_, third), int(self.rows[n]), together
        )


_ARRAYS = (
    "slots", "start", "split", "second", "wide", "starts", "groups", "streamed", "extra", "rows", "together"
)  # fmt: skip


def wide_load(accelerator: Accelerator) -> int:
    """Blocks of channels that one load may bring."""
    return max(1, min(_LOAD_BYTES, max(4 * accelerator.dim, accelerator.dma_max_bytes)) // accelerator.dim)


def is_depthwise(layer: Layer) -> bool:
    """Whether every channel is convolved by itself."""
    p = layer.problem
    return p.groups > 1 and p.C == p.K == 1


def is_unrolled(layer: Layer) -> bool:
    """Whether the places of a window are written one by one, which takes the host core less time: where there is little to do at
    each. Others are a loop, since code that runs for the first time is slow."""
    return layer.problem.R == 1 or is_depthwise(layer)


def channels(layer: Layer) -> tuple[int, int]:
    """Of image and results."""
    p = layer.problem
    return p.C * p.groups, p.K * p.groups


def strip_image(layer: Layer) -> tuple[int, int]:
    """Columns of zeros that windows reach left and right of the image."""
    p, left = layer.problem, layer.padding[1]
    return left, max(0, (p.P - 1) * p.stride_w + p.R - left - layer.size[1])


def _weights(layer: Layer, dim: int) -> tuple[int, int]:
    """Scratchpad rows of a block of results' weights, and how many blocks there are."""
    p = layer.problem
    return p.S * p.R * (dim if is_depthwise(layer) else p.C), -(-channels(layer)[1] // dim)


def _image(layer: Layer, dim: int) -> Image:
    """What a convolution reads, with one slot, from the scratchpad row behind its zeros on; these begin at row 0."""
    p, (left, right), (height, width) = layer.problem, strip_image(layer), layer.size
    below = (p.Q - 1) * p.stride_h + p.S - layer.padding[0] > height
    zeros = left + width + right if layer.padding[0] or below else 0
    return Image(height, width, channels(layer)[0], left, right, 1, zeros, 0, dim)


def _grouped(accelerator: Accelerator) -> bool:
    """Whether quarters of the scratchpad lie in different banks."""
    rows = accelerator.scratchpad_rows
    return accelerator.scratchpad_banks >= _GROUPED_BANKS and rows & (rows - 1) == 0


def least_rows(
    layers: Sequence[Layer], slots: Integers, streamed: Bools, accelerator: Accelerator
) -> Integers:
    """Scratchpad rows for images of so many slots (S, layers) and for the weights, of which two groups at least are there of streamed
    ones: (S,)."""
    dim, wide = accelerator.dim, max(1, wide_load(accelerator) // 2)
    found = np.zeros(len(slots), dtype=np.int64)
    for i, layer in enumerate(layers):
        (rows, blocks), image = _weights(layer, dim), _image(layer, dim)
        held = np.where(streamed[:, i], min(blocks, 2 * wide), blocks)
        found += image.start + np.maximum(1, slots[:, i]) * image.slot + rows * held
    return found


def place_scratchpad(
    layers: Sequence[Layer], slots: Integers, streamed: Bools, accelerator: Accelerator, extra: Integers
) -> StripPlacements:
    """Where everything lies by each of many schedules, and `extra` rows (S, 2) beside, the latter number of them twice, in a
    scratchpad of `least_rows` and these or more. The array reads the former and the latter at once: they lie in different banks
    if there is room.

    Pixels a stride apart lie in one bank, in which they would meet the weights: of convolutions with strides these lie in other
    banks if there is room, be it in two pieces. Rings have a power of two of slots if there is room.

    Args:
        slots: (S, layers) of images, at least.
        streamed: (S, layers) whether weights come again for every strip.
    """
    count = len(slots)
    powers = np.array([[1 << max(0, (rows - 1).bit_length()) for rows in row] for row in slots.tolist()])
    powers = powers.reshape(slots.shape)
    plain, widest = [False] * len(layers), wide_load(accelerator)
    grouped = _grouped(accelerator)
    strided = [grouped and layer.problem.stride_w > 1 for layer in layers]
    ways = [(strided, way) for way in ("whole", "over", "halves") if any(strided)] + [(plain, "whole")]
    beside = (0, 1, None) if grouped and extra.any() else (None,)
    found = StripPlacements.none(layers, count, accelerator.dim)
    open_ = np.ones(count, dtype=np.bool_)
    for wide in sorted({widest, max(1, widest // 2)}, reverse=True):
        best = np.full(count, np.inf)
        for (apart, way), counts, banks in itertools.product(ways, (powers, slots), beside):
            todo = np.flatnonzero(open_ & (best > _LESS))  # of the others no other is better
            if not len(todo):
                break
            attempt = _Attempt(layers, counts[todo], streamed[todo], accelerator, wide)
            placed = attempt.place(apart, way, extra[todo], banks)
            meet = np.zeros(len(todo))
            for i in np.flatnonzero(strided):
                meet = meet + placed.together[:, i]
            better = attempt.good & ((best[todo] == np.inf) | (meet < best[todo] - _LESS))
            best[todo[better]] = meet[better]
            found.put(todo[better], placed, better)
        open_ &= best == np.inf
    if open_.any():
        raise AssertionError("in the last attempt everything lies one behind the other")
    return found


class _Attempt:
    """Attempts to place everything one after the other, of many schedules at once.

    Attributes:
        good: (S,) of which there has been room so far.
    """

    def __init__(
        self, layers: Sequence[Layer], slots: Integers, streamed: Bools, accelerator: Accelerator, wide: int
    ) -> None:
        self._layers, self._slots, self._streamed, self._accelerator = layers, slots, streamed, accelerator
        self._wide, self._room = wide, Rooms(len(slots), accelerator.scratchpad_rows)
        self._found = StripPlacements.none(layers, len(slots), accelerator.dim)
        self.good = np.ones(len(slots), dtype=np.bool_)

    def place(self, apart: Sequence[bool], way: str, extra: Integers, banks: int | None) -> StripPlacements:
        """Images, weights, in groups of at most so many blocks if they are streamed, and rows beside, the former in one group of
        banks; of some convolutions in different banks, where the image lies in a quarter of the scratchpad as a `whole`, in two
        quarters as two `halves`, or `over` the edge of one."""
        # what must lie in certain banks first, then what must lie together
        for i in sorted(range(len(self._layers)), key=lambda i: (not apart[i], i)):
            self._place_image(i, way, apart=apart[i])
            if apart[i]:
                self._place_weights(i, 0)
        self._place_beside(extra, banks)
        for i in range(len(self._layers)):
            if not apart[i]:
                self._place_weights(i, None)
        self._finish(extra)
        return self._found

    def _place_image(self, i: int, way: str, *, apart: bool) -> None:
        image, found = _image(self._layers[i], self._accelerator.dim), self._found
        slots = np.maximum(1, self._slots[:, i])
        size = image.start + slots * image.slot
        start, placed = self._room.take(size, 1 if apart else None, self.good)
        split, second = np.zeros_like(slots), np.zeros_like(slots)
        left = self.good & ~placed
        if way == "over" and left.any():
            over, taken = self._room.take_over(size, 1, left)
            start, placed = np.where(taken, over, start), placed | taken
        if way == "halves" and apart and left.any():
            first, parts, behind, taken = self._halves(i, image, slots, left)
            start, placed = np.where(taken, first, start), placed | taken
            split, second = np.where(taken, parts, 0), np.where(taken, behind, 0)
        self.good &= placed
        found.slots[:, i], found.start[:, i] = slots, start + image.start
        found.split[:, i], found.second[:, i] = split, second

    def _halves(
        self, i: int, image: Image, slots: Integers, wanted: Bools
    ) -> tuple[Integers, Integers, Integers, Bools]:
        """Of an image in two pieces, which both lie in the quarters of one group of banks: its first row, the slots of the first
        piece, the first row of the second, and where there is room."""
        p = self._layers[i].problem
        # steps of rows, down the image and down the window, go over one edge at most
        most = max(p.S, p.stride_h)
        first, end, second, stop = self._room.halves(1)
        split = np.minimum((end - first - image.start) // image.slot, slots - most)
        edge = split * image.slot
        fits = wanted & (end > first) & (stop > second) & (split >= most)
        fits &= (slots - split) * image.slot <= stop - second
        fits &= second - first - image.start - edge >= most * image.slot
        self._room.remove(first, image.start + edge, fits)
        self._room.remove(second, (slots - split) * image.slot, fits)
        return first, split, second, fits

    def _place_beside(self, extra: Integers, banks: int | None) -> None:
        """So many rows in one group of banks, and twice of so many in the other; or anywhere."""
        if not extra.any():
            return
        other = None if banks is None else 1 - banks
        for n, (rows, group) in enumerate(((extra[:, 0], banks), (extra[:, 1], other), (extra[:, 1], other))):
            start, placed = self._room.take(rows, group, self.good)
            self.good &= placed
            self._found.extra[:, n] = start

    def _place_weights(self, i: int, group: int | None) -> None:
        """Weights of a convolution, in few parts and in wide groups rather than in others."""
        rows, blocks = _weights(self._layers[i], self._accelerator.dim)
        widest, room = wide_load(self._accelerator), self._room
        least = max(1, widest // 2)
        again = self._streamed[:, i] if blocks > 2 * least else np.zeros_like(self.good)
        self._found.streamed[:, i] = again
        open_ = self.good & again
        for wide in [width for width in (self._wide, least) if blocks > 2 * width]:
            if not open_.any():
                break
            before = room.copy()
            size = np.full(len(open_), wide * rows)
            one, there = room.take(size, group, open_)
            two, both = room.take(size, group, there)
            room.undo(before, there & ~both)
            self._put_weights(i, both, wide, one, two, 1)
            open_ &= ~both
        self.good &= ~open_
        open_ = self.good & ~again
        start, placed = room.take(np.full(len(open_), blocks * rows), group, open_)
        self._put_weights(i, placed, min(widest, blocks), start, start, -(-blocks // widest))
        open_ &= ~placed
        wide = min(widest, blocks)
        while wide and open_.any():
            first, end, second, stop = room.largest(group)
            split = (end - first) // (wide * rows)
            rest = blocks * rows - split * wide * rows
            fits = open_ & (split > 0) & (rest <= stop - second)
            room.remove(first, split * wide * rows, fits)
            room.remove(second, rest, fits & (rest > 0))
            self._put_weights(i, fits, wide, first, second, split)
            open_ &= ~fits
            wide //= 2
        self.good &= ~open_

    def _put_weights(
        self, i: int, where: Bools, wide: int, first: Integers, second: Integers, split: Integers | int
    ) -> None:
        found = self._found
        found.wide[where, i] = wide
        found.starts[where, i, 0], found.starts[where, i, 1] = first[where], second[where]
        found.groups[where, i] = np.broadcast_to(split, where.shape)[where]

    def _finish(self, extra: Integers) -> None:
        """Rows that are used, and what lies in the same banks."""
        found = self._found
        beside = np.maximum(found.extra[:, 0] + extra[:, 0], found.extra[:, 1:].max(1) + extra[:, 1])
        ends = [beside]
        shares = []
        for i in range(len(self._layers)):
            pixels, kernel = found.image_parts(i), found.weight_parts(i)
            ends += [np.where(end > start, end, 0) for start, end in (*pixels, *kernel)]
            shares.append((self._room.shares(pixels), self._room.shares(kernel)))
        found.rows[:] = np.max(ends, axis=0)
        if _grouped(self._accelerator):
            for i, (image, held) in enumerate(shares):
                found.together[:, i] = image[0] * held[0] + image[1] * held[1]
