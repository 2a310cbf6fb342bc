"""Where the values of a network lie while it runs: one area that values share when they do not live at the same time.

Where several units work at once, no step number says that. A value's life begins when certain steps of every unit are surely done, and
is over once certain ones are; of two values one lives before the other where all that it waits for is done by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import le

#: Values begin at multiples of this, bytes.
ALIGN = 64


@dataclass(frozen=True)
class Lifetime:
    """When a value must be kept.

    Attributes:
        name: of the value.
        nbytes: its size.
        done: by unit, how many of its steps are done before any step that touches the value.
        over: by unit, how many of its steps are done once no further step touches it.
        shares: value whose memory it takes over, if that one's last step is its own first; both have one size.
        by_parts: whether it takes it over part by part, while others of that one's parts are still to come.
        unit: that runs the first step.
    """

    name: str
    nbytes: int
    done: tuple[int, ...]
    over: tuple[int, ...]
    shares: str | None = None
    by_parts: bool = False
    unit: int = 0


@dataclass(frozen=True)
class MemoryPlan:
    """Offsets of the values in the shared area.

    Attributes:
        offsets: bytes, by value.
        nbytes: of the area.
        live_bytes: the most that any step needs at once, no plan can do with less; None where several units run steps.
        total_bytes: of all values.
    """

    offsets: Mapping[str, int]
    nbytes: int
    live_bytes: int | None
    total_bytes: int


@dataclass
class _Block:
    """Values in one place, one after the other."""

    names: list[str]
    nbytes: int
    done: tuple[int, ...]
    over: tuple[int, ...]
    offset: int = -1

    def meets(self, other: _Block) -> bool:
        """Whether both may be needed at one time."""
        return not (_within(self.over, other.done) or _within(other.over, self.done))


def _within(steps: Sequence[int], others: Sequence[int]) -> bool:
    return all(map(le, steps, others))


def plan_memory(lifetimes: Sequence[Lifetime]) -> MemoryPlan:
    """Offsets of values so that no two overlap in time and space.

    The largest values come first, each in the smallest gap that it fits among those that live with it (best fit;
    after Pisarchyk and Lee 2020, "Efficient memory management for deep neural net inference", greedy by size).
    """
    blocks = _blocks(lifetimes)
    placed: list[_Block] = []
    for block in sorted(blocks, key=lambda block: (-block.nbytes, block.done, block.names[0])):
        beside = sorted((other for other in placed if other.meets(block)), key=lambda other: other.offset)
        block.offset = _best_gap(block.nbytes, beside)
        placed.append(block)
    return MemoryPlan(
        offsets={name: block.offset for block in blocks for name in block.names},
        nbytes=max((block.offset + block.nbytes for block in blocks), default=0),
        live_bytes=_live_bytes(blocks) if all(len(block.done) == 1 for block in blocks) else None,
        total_bytes=sum(lifetime.nbytes for lifetime in lifetimes),
    )


def _blocks(lifetimes: Sequence[Lifetime]) -> list[_Block]:
    owner: dict[str, _Block] = {}
    blocks = []
    for lifetime in sorted(lifetimes, key=lambda lifetime: (lifetime.done, lifetime.name)):
        host = owner.get(lifetime.shares) if lifetime.shares else None
        if host is not None and host.nbytes == _aligned(lifetime.nbytes) and _takes_over(lifetime, host):
            host.names.append(lifetime.name)
            host.over = tuple(map(max, host.over, lifetime.over))
        else:
            host = _Block([lifetime.name], _aligned(lifetime.nbytes), lifetime.done, lifetime.over)
            blocks.append(host)
        owner[lifetime.name] = host
    return blocks


def _takes_over(lifetime: Lifetime, host: _Block) -> bool:
    """Whether the last step that touches what is there is the value's first one, or one that takes parts of it over."""
    own = lifetime.unit
    elsewhere = (pair for unit, pair in enumerate(zip(host.over, lifetime.done, strict=True)) if unit != own)
    if any(over > done for over, done in elsewhere):
        return False
    in_parts = lifetime.by_parts and host.names[-1] == lifetime.shares
    return in_parts or host.over[own] == lifetime.done[own] + 1


def _aligned(nbytes: int) -> int:
    return -(-max(nbytes, 1) // ALIGN) * ALIGN


def _best_gap(nbytes: int, beside: Sequence[_Block]) -> int:
    best: tuple[int, int] | None = None
    end = 0
    for one in beside:
        gap = one.offset - end
        if gap >= nbytes and (best is None or gap < best[0]):
            best = (gap, end)
        end = max(end, one.offset + one.nbytes)
    return end if best is None else best[1]


def _live_bytes(blocks: Sequence[_Block]) -> int:
    events: dict[int, int] = {}
    for one in blocks:
        events[one.done[0]] = events.get(one.done[0], 0) + one.nbytes
        events[one.over[0]] = events.get(one.over[0], 0) - one.nbytes
    most = live = 0
    for step in sorted(events):
        live += events[step]
        most = max(most, live)
    return most
