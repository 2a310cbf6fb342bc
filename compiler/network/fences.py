"""Where a program must wait for the accelerator: between accesses to the same memory that depend on each other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

#: Bytes [start, stop) of main memory.
Span = tuple[int, int]


@dataclass(frozen=True)
class StepAccess:
    """What one step touches.

    Attributes:
        reads, writes: spans of main memory.
        accelerator: the accelerator touches them, maybe after the step.
        host: the host core does, within the step.
        waits: a fence comes before the step even if it depends on nothing.
    """

    reads: Sequence[Span]
    writes: Sequence[Span]
    accelerator: bool
    host: bool
    waits: bool = False


def fences(steps: Iterable[StepAccess]) -> list[bool]:
    """For each step whether a fence must come before it.

    No order exists in main memory between the accelerator's commands, nor between them and the host, but by a fence
    (instruction set, 9), after which everything before is done.
    """
    pending = _Pending()
    needed = []
    for step in steps:
        wait = step.waits or pending.conflicts(step)
        if wait:
            pending = _Pending()
        pending.add(step)
        needed.append(wait)
    return needed


@dataclass
class _Pending:
    """What may still be under way since the last fence."""

    reads: _Spans = field(default_factory=lambda: _Spans())
    writes: _Spans = field(default_factory=lambda: _Spans())
    host_reads: _Spans = field(default_factory=lambda: _Spans())
    host_writes: _Spans = field(default_factory=lambda: _Spans())

    def conflicts(self, step: StepAccess) -> bool:
        """Whether the step depends on any of it. The host's own accesses are in order among themselves."""
        if self.writes.meets(step.reads) or self.writes.meets(step.writes) or self.reads.meets(step.writes):
            return True
        if not step.accelerator:
            return False
        return (
            self.host_writes.meets(step.reads)
            or self.host_writes.meets(step.writes)
            or self.host_reads.meets(step.writes)
        )

    def add(self, step: StepAccess) -> None:
        if step.accelerator:
            self.reads.add(step.reads)
            self.writes.add(step.writes)
        if step.host:
            self.host_reads.add(step.reads)
            self.host_writes.add(step.writes)


class _Spans:
    """A set of bytes: disjoint spans in order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def add(self, spans: Sequence[Span]) -> None:
        for start, stop in spans:
            first = bisect_right(self._stops, start - 1)
            last = bisect_right(self._starts, stop)
            if first < last:
                start, stop = min(start, self._starts[first]), max(stop, self._stops[last - 1])
            self._starts[first:last] = [start]
            self._stops[first:last] = [stop]

    def meets(self, spans: Sequence[Span]) -> bool:
        """Whether any byte of the spans is in the set."""
        for start, stop in spans:
            first = bisect_right(self._stops, start)
            if first < len(self._starts) and self._starts[first] < stop:
                return True
        return False
