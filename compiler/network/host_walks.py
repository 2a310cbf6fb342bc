"""What nests of loops of the host's C functions touch: elements, rows, cache lines; and how their parameters are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from baco.compiler.host_core import LINE_BYTES, SETS, WAYS


@dataclass(frozen=True)
class HostWork:
    """Amounts that the time of one call is linear in.

    Attributes:
        variant: which loops run: the function, and how its operands lie.
        amounts: how often each part of the loops runs, by name; `calls` is 1.
        misses: lines that come from memory.
    """

    variant: str
    amounts: Mapping[str, float]
    misses: float


@dataclass(frozen=True)
class OperandWalk:
    """What an operand of a nest of loops touches.

    Attributes:
        place: two operands of one place are the same memory.
        extents: of the loops, outermost first.
        strides: bytes, one for each extent.
        itemsize: bytes of an element.
    """

    place: object
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int = 1

    def lines(self, level: int) -> float:
        """Different cache lines that the loops from number `level` on touch."""
        span, lines = float(self.itemsize), 1.0
        pairs = zip(self.extents[level:], self.strides[level:], strict=True)
        for stride, extent in sorted((abs(stride), extent) for extent, stride in pairs if stride):
            if stride <= max(span, LINE_BYTES):
                span += (extent - 1) * stride
            else:
                lines *= extent
        # a span that begins anywhere in a line
        return lines * max(1.0, (span + LINE_BYTES / 2) / LINE_BYTES if span > LINE_BYTES else 1.0)

    def fits(self, level: int) -> bool:
        """Whether all those lines find room in the sets that they fall into."""
        sets = SETS
        wide = [
            abs(stride)
            for extent, stride in zip(self.extents[level:], self.strides[level:], strict=True)
            if extent > 1 and abs(stride) > LINE_BYTES
        ]
        narrow = any(
            extent > 1 and 0 < abs(stride) <= LINE_BYTES
            for extent, stride in zip(self.extents[level:], self.strides[level:], strict=True)
        )
        if wide and not narrow:
            apart = math.gcd(*wide)
            if apart % LINE_BYTES == 0:
                sets = SETS // math.gcd(apart // LINE_BYTES, SETS)
        return self.lines(level) <= sets * WAYS


def line_misses(operands: Sequence[OperandWalk]) -> float:
    """Lines that a nest of loops over several operands fetches; all have the same number of loops.

    What the inner loops touch is still there in the next round of a loop if it fits the cache.
    """
    operands = list({(one.place, one.extents, one.strides): one for one in operands}.values())
    if not operands:
        return 0.0
    levels = len(operands[0].extents)
    misses = [one.lines(levels) for one in operands]
    for level in range(levels - 1, -1, -1):
        inside = sum(one.lines(level + 1) for one in operands) <= SETS * WAYS and all(
            one.fits(level + 1) for one in operands
        )
        for n, one in enumerate(operands):
            misses[n] = one.lines(level) if inside else one.extents[level] * misses[n]
    return sum(misses)


class Words:
    """Parameters, read in order."""

    def __init__(self, words: Sequence[int], places: Sequence[object]) -> None:
        self._words = [int(word) for word in words]
        self._at = 0
        #: Where each operand of the call lies.
        self.places = places

    def take(self, count: int) -> list[int]:
        found = self._words[self._at : self._at + count]
        self._at += count
        return found

    def one(self) -> int:
        return self.take(1)[0]

    def walk(self, operands: int) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
        """Extents, and strides for every operand, in elements."""
        rank = self.one()
        extents = tuple(self.take(rank))
        return extents, [tuple(self.take(rank)) for _ in range(operands)]


WorkReader: TypeAlias = Callable[[str, Words], HostWork]


def counted(**counts: float) -> dict[str, float]:
    """How often parts of a call run, by name."""
    return {"calls": 1.0, **{name: float(count) for name, count in counts.items()}}


def elementwise(
    operands: Sequence[int], sizes: Callable[[Words], Sequence[int]] | None = None, tables: int = 0
) -> WorkReader:
    """Functions of host/elementwise.c.

    Args:
        operands: which of the call's places the walk goes over.
        sizes: of their elements, bytes, from the words behind the steps; 1 without.
        tables: bytes of the tables that results are looked up in.
    """

    def read(function: str, words: Words) -> HostWork:
        extents, strides = words.walk(len(operands))
        extent = words.one()
        steps = words.take(len(operands))
        size = sizes(words) if sizes else [1] * len(operands)
        rows = math.prod(extents)
        dense = all(step == 1 for step in steps)
        loops = [
            OperandWalk(
                words.places[operand],
                (*extents, extent),
                tuple(one * size[n] for one in (*strides[n], steps[n])),
                size[n],
            )
            for n, operand in enumerate(operands)
        ]
        # copies of 8 bytes at once need both ends alike; a byte at a time else
        variant = f"{function} {'dense' if dense else 'strided'}"
        if function in ("net_copy", "net_fill"):
            variant += f" {size[0]}"
        misses = line_misses(loops) + min(rows * extent, tables / LINE_BYTES)
        return HostWork(variant, counted(rows=rows, elements=rows * extent), misses)

    return read


def pooled(function: str, words: Words) -> HostWork:
    """Windows of an image, as the parameters of `host/images.c` begin."""
    images, rows, columns, channels, height, width = words.take(6)
    source, target = words.take(4), words.take(4)
    kernel, stride, padding = words.take(2), words.take(2), words.take(2)
    dilation = words.take(2) if function == "net_max_pool" else [1, 1]
    inside = [
        sum(0 <= at * stride[i] + tap * dilation[i] - padding[i] < size for at in range(count))
        for i, (count, size) in enumerate(((rows, height), (columns, width)))
        for tap in range(kernel[i])
    ]
    down, across = sum(inside[: kernel[0]]), sum(inside[kernel[0] :])
    pixels = images * rows * columns
    lines = OperandWalk(0, (images, height, width, channels), tuple(source)).lines(0)
    lines += OperandWalk(1, (images, rows, columns, channels), tuple(target)).lines(0)
    amounts = counted(
        pixels=pixels,
        results=pixels * channels,
        rows=images * down * columns * channels,
        taps=images * down * across * channels,
    )
    return HostWork(function, amounts, lines)
