"""What a call of the host's C functions has to do, as far as its time depends on it: elements, rows, cache lines.

An operator's `host_call` says it beside the parameters that it writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from baco.compiler.host_core import LINE_BYTES, SETS, WAYS


@dataclass(frozen=True)
class HostWork:
    """Amounts that the time of one call is linear in.

    Attributes:
        variant: which loops run: the function, and how its operands lie.
        amounts: how often each part of the loops runs, by name; `calls` is 1.
        nest: what operands that are gone through side by side touch; each has its number among the operands of the call in
            the place of its memory.
        lines: lines that come from memory besides.
        cycles: of each of the amounts once, where none were fitted to measurements (`baco.compiler.ops.host_model`).
    """

    variant: str
    amounts: Mapping[str, float]
    nest: tuple[OperandWalk, ...] = ()
    lines: float = 0.0
    cycles: Mapping[str, float] | None = None

    def misses(self, places: Sequence[object]) -> float:
        """Lines that come from memory.

        Args:
            places: for each operand of the call something that is the same for operands in the same memory.
        """
        return line_misses([replace(one, place=places[one.place]) for one in self.nest]) + self.lines


@dataclass(frozen=True)
class OperandWalk:
    """What an operand of a nest of loops touches.

    Attributes:
        place: two operands of one place are the same memory; in `HostWork.nest` the number of the operand.
        extents: of the loops, outermost first.
        strides: bytes, one for each extent.
        itemsize: bytes of an element.
    """

    place: Any
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int = 1

    def around(self, extents: tuple[int, ...], strides: tuple[int, ...]) -> OperandWalk:
        """With further loops around these; strides in elements."""
        steps = tuple(self.itemsize * one for one in strides)
        return OperandWalk(self.place, (*extents, *self.extents), (*steps, *self.strides), self.itemsize)

    def over(self, extent: int, stride: int) -> OperandWalk:
        """With a further loop within these; the stride in elements."""
        step = self.itemsize * stride
        return OperandWalk(self.place, (*self.extents, extent), (*self.strides, step), self.itemsize)

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


def counted(**counts: float) -> dict[str, float]:
    """How often parts of a call run, by name."""
    return {"calls": 1.0, **{name: float(count) for name, count in counts.items()}}
