"""Where a chain of convolutions keeps its images and weights in the scratchpad."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from baco.accel.config import Accelerator
from baco.compiler.layers.layer import Layer

__all__ = [
    "Image",
    "StripPlacement",
    "StripWeights",
    "channels",
    "is_depthwise",
    "is_unrolled",
    "least_rows",
    "place_scratchpad",
    "strip_image",
    "wide_load",
]

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


def _image(layer: Layer, slots: int, dim: int) -> Image:
    """What a convolution reads, from scratchpad row 0 on."""
    p, (left, right), (height, width) = layer.problem, strip_image(layer), layer.size
    below = (p.Q - 1) * p.stride_h + p.S - layer.padding[0] > height
    zeros = left + width + right if layer.padding[0] or below else 0
    return Image(height, width, channels(layer)[0], left, right, max(1, slots), zeros, 0, dim)


def _size(image: Image) -> int:
    """Scratchpad rows from the zeros on."""
    return image.start - image.zeros + image.slots * image.slot


def _end(image: Image) -> int:
    """The scratchpad row behind its last slot."""
    return image.start + image.ring


def _parts(image: Image) -> list[tuple[int, int]]:
    """Scratchpad rows of pixels, from and to."""
    return [(start, start + slots * image.slot) for start, slots in image.pieces]


def _grouped(accelerator: Accelerator) -> bool:
    """Whether quarters of the scratchpad lie in different banks."""
    rows = accelerator.scratchpad_rows
    return accelerator.scratchpad_banks >= _GROUPED_BANKS and rows & (rows - 1) == 0


def least_rows(
    layers: Sequence[Layer], slots: Sequence[int], streamed: Sequence[bool], accelerator: Accelerator
) -> int:
    """Scratchpad rows for images of so many slots and for the weights, of which two groups at least are there of streamed ones."""
    dim, wide = accelerator.dim, max(1, wide_load(accelerator) // 2)
    found = 0
    for layer, count, again in zip(layers, slots, streamed, strict=True):
        rows, blocks = _weights(layer, dim)
        found += _size(_image(layer, count, dim)) + rows * min(blocks, 2 * wide if again else blocks)
    return found


def place_scratchpad(
    layers: Sequence[Layer],
    slots: Sequence[int],
    streamed: Sequence[bool],
    accelerator: Accelerator,
    extra: tuple[int, int],
) -> StripPlacement:
    """Where everything lies, and `extra` rows beside, the latter number of them twice, in a scratchpad of `least_rows` and these or
    more. The array reads the former and the latter at once: they lie in different banks if there is room.

    Pixels a stride apart lie in one bank, in which they would meet the weights: of convolutions with strides these lie in other
    banks if there is room, be it in two pieces. Rings have a power of two of slots if there is room.
    """
    powers = [1 << max(0, (rows - 1).bit_length()) for rows in slots]
    plain, widest = [False] * len(layers), wide_load(accelerator)
    strided = [_grouped(accelerator) and layer.problem.stride_w > 1 for layer in layers]
    ways = [(strided, way) for way in ("whole", "over", "halves") if any(strided)] + [(plain, "whole")]
    beside = (0, 1, None) if _grouped(accelerator) and any(extra) else (None,)
    for wide in sorted({widest, max(1, widest // 2)}, reverse=True):
        best: tuple[float, StripPlacement] | None = None
        for (apart, way), counts, banks in itertools.product(ways, (powers, slots), beside):
            found = _attempt(layers, counts, streamed, apart, way, accelerator, extra, banks, wide)
            if found is None:
                continue
            meet = sum(part for part, one in zip(found.together, strided, strict=True) if one)
            if best is None or meet < best[0] - _LESS:
                best = meet, found
            if best[0] <= _LESS:  # no other is better
                break
        if best is not None:
            return best[1]
    raise AssertionError("in the last attempt everything lies one behind the other")


class _Room:
    """Free rows of a scratchpad, as intervals."""

    def __init__(self, rows: int) -> None:
        self.free = [(0, rows)]
        self._quarter = max(1, rows // 4)

    def pieces(self, group: int | None) -> list[tuple[int, int]]:
        """Free intervals, smallest first; of one group of banks only."""
        found = self.free
        if group is not None:
            quarters = [(n * self._quarter, (n + 1) * self._quarter) for n in (group, group + 2)]
            found = [(max(a, c), min(b, d)) for a, b in found for c, d in quarters]
        return sorted((one for one in found if one[0] < one[1]), key=lambda one: (one[1] - one[0], one[0]))

    def halves(self, group: int) -> list[tuple[int, int]]:
        """The largest free intervals in both quarters of a group of banks, in order."""
        found: dict[int, tuple[int, int]] = {}
        for one in self.pieces(group):
            found[one[0] // self._quarter] = one
        return sorted(found.values())

    def take(self, rows: int, group: int | None = None) -> int | None:
        """First of so many rows that lie together; None where there are none."""
        for start, end in self.pieces(group):
            if end - start >= rows:
                self.remove(start, rows)
                return start
        return None

    def take_over(self, rows: int, group: int) -> int | None:
        """First of so many rows that lie together, of which as many as possible are in a quarter of the group."""
        for quarter in (group, group + 2):
            for start in (quarter * self._quarter, (quarter + 1) * self._quarter - rows):
                if any(a <= start and start + rows <= b for a, b in self.free):
                    self.remove(start, rows)
                    return start
        return None

    def shares(self, parts: Sequence[tuple[int, int]]) -> tuple[float, float]:
        """Parts of rows, from and to, in both groups of banks."""
        inside = [0, 0]
        for a, b in parts:
            for n in range(4):
                inside[n % 2] += max(0, min(b, (n + 1) * self._quarter) - max(a, n * self._quarter))
        return inside[0] / max(1, sum(inside)), inside[1] / max(1, sum(inside))

    def remove(self, start: int, rows: int) -> None:
        """Rows that are taken."""
        left = [(a, min(b, start)) for a, b in self.free] + [(max(a, start + rows), b) for a, b in self.free]
        self.free = sorted(one for one in left if one[0] < one[1])


def _attempt(
    layers: Sequence[Layer],
    slots: Sequence[int],
    streamed: Sequence[bool],
    apart: Sequence[bool],
    way: str,
    accelerator: Accelerator,
    extra: tuple[int, int],
    banks: int | None,
    wide: int,
) -> StripPlacement | None:
    """Images of so many slots, weights, in groups of at most so many blocks if they are streamed, and rows beside, the former in one
    group of banks; of some convolutions in different banks, where the image lies in a quarter of the scratchpad as a `whole`, in two
    quarters as two `halves`, or `over` the edge of one. None where there is no room."""
    dim, room = accelerator.dim, _Room(accelerator.scratchpad_rows)
    images: dict[int, Image] = {}
    weights: dict[int, StripWeights] = {}
    # what must lie in certain banks first, then what must lie together
    for i in sorted(range(len(layers)), key=lambda i: (not apart[i], i)):
        one = _image(layers[i], slots[i], dim)
        start = room.take(_size(one), 1 if apart[i] else None)
        halves = _halves(layers[i], one, room) if start is None and way == "halves" and apart[i] else None
        if start is None and way == "over":
            start = room.take_over(_size(one), 1)
        if halves is not None:
            images[i] = halves
        elif start is not None:
            images[i] = replace(one, start=start + one.start - one.zeros, zeros=start)
        else:
            return None
        if apart[i]:
            found = _place_weights(layers[i], streamed[i], room, 0, accelerator, wide)
            if found is None:
                return None
            weights[i] = found
    beside = _place_beside(room, extra, banks)
    if beside is None:
        return None
    for i, layer in enumerate(layers):
        if i not in weights:
            found = _place_weights(layer, streamed[i], room, None, accelerator, wide)
            if found is None:
                return None
            weights[i] = found
    ends = [_end(one) for one in images.values()]
    together = []
    for i in range(len(layers)):
        pixels, kernel = room.shares(_parts(images[i])), room.shares(weights[i].parts)
        together.append(pixels[0] * kernel[0] + pixels[1] * kernel[1])
    parts = [part for one in weights.values() for part in one.parts]
    return StripPlacement(
        tuple(images[i] for i in range(len(layers))),
        tuple(weights[i] for i in range(len(layers))),
        beside,
        max([*ends, *(end for _, end in parts), beside[0] + extra[0], max(beside[1:]) + extra[1]]),
        tuple(together) if _grouped(accelerator) else (1.0,) * len(layers),
    )


def _halves(layer: Layer, image: Image, room: _Room) -> Image | None:
    """An image in two pieces, which both lie in the quarters of one group of banks; None where there is no room."""
    pieces = room.halves(1)
    # steps of rows, down the image and down the window, go over one edge at most
    most = max(layer.problem.S, layer.problem.stride_h)
    if len(pieces) < 2:
        return None
    (first, end), (second, stop) = pieces
    zeros = image.start - image.zeros
    split = min((end - first - zeros) // image.slot, image.slots - most)
    found = replace(image, zeros=first, start=first + zeros, split=split, second=second)
    if split < most or (image.slots - split) * image.slot > stop - second or found.gap < most * image.slot:
        return None
    room.remove(first, zeros + found.edge)
    room.remove(second, (image.slots - split) * image.slot)
    return found


def _place_beside(room: _Room, extra: tuple[int, int], banks: int | None) -> tuple[int, int, int] | None:
    """First rows of so many in one group of banks, and twice of so many in the other; or anywhere."""
    if not any(extra):
        return 0, 0, 0
    other = None if banks is None else 1 - banks
    first, second, third = room.take(extra[0], banks), room.take(extra[1], other), room.take(extra[1], other)
    if first is None or second is None or third is None:
        return None
    return first, second, third


def _place_weights(
    layer: Layer, streamed: bool, room: _Room, group: int | None, accelerator: Accelerator, most: int
) -> StripWeights | None:
    """StripWeights of a convolution, in few parts and in wide groups rather than in others."""
    rows, blocks = _weights(layer, accelerator.dim)
    widest = wide_load(accelerator)
    if streamed and blocks > 2 * max(1, widest // 2):
        for wide in [one for one in (most, max(1, widest // 2)) if blocks > 2 * one]:
            left = list(room.free)
            one, two = room.take(wide * rows, group), room.take(wide * rows, group)
            if one is not None and two is not None:
                return StripWeights(rows, blocks, wide, (one, two), 1, True)
            room.free = left
        return None
    start = room.take(blocks * rows, group)
    if start is not None:
        return StripWeights(rows, blocks, min(widest, blocks), (start, start), -(-blocks // widest), False)
    wide = min(widest, blocks)
    while wide:
        *_, (second, stop), (first, end) = [(0, 0), (0, 0), *room.pieces(group)]
        split = (end - first) // (wide * rows)
        rest = blocks * rows - split * wide * rows
        if split and rest <= stop - second:
            room.remove(first, split * wide * rows)
            room.remove(second, rest)
            return StripWeights(rows, blocks, wide, (first, second), split, False)
        wide //= 2
    return None
