"""Where the values of a network lie while it runs: one area that values share when they do not live at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Values begin at multiples of this, bytes.
ALIGN = 64


@dataclass(frozen=True)
class Lifetime:
    """When a value must be kept.

    Attributes:
        name: of the value.
        nbytes: its size.
        first, last: numbers of the first step that writes and of the last one that touches it.
        shares: value whose memory it takes over, if that one's last step is its own first; both have one size.
        by_parts: whether it takes it over part by part, while others of that one's parts are still to come.
    """

    name: str
    nbytes: int
    first: int
    last: int
    shares: str | None = None
    by_parts: bool = False


@dataclass(frozen=True)
class MemoryPlan:
    """Offsets of the values in the shared area.

    Attributes:
        offsets: bytes, by value.
        nbytes: of the area.
        live_bytes: the most that any step needs at once; no plan can do with less.
        total_bytes: of all values.
    """

    offsets: Mapping[str, int]
    nbytes: int
    live_bytes: int
    total_bytes: int


@dataclass
class _Block:
    """Values in one place, one after the other."""

    names: list[str]
    nbytes: int
    first: int
    last: int
    offset: int = -1


def plan_memory(lifetimes: Sequence[Lifetime]) -> MemoryPlan:
    """Offsets of values so that no two overlap in time and space.

    The largest values come first, each in the smallest gap that it fits among those that live with it (best fit;
    after Pisarchyk and Lee 2020, "Efficient memory management for deep neural net inference", greedy by size).
    """
    blocks = _blocks(lifetimes)
    placed: list[_Block] = []
    for block in sorted(blocks, key=lambda block: (-block.nbytes, block.first, block.names[0])):
        beside = sorted(
            (other for other in placed if other.first <= block.last and block.first <= other.last),
            key=lambda other: other.offset,
        )
        block.offset = _best_gap(block.nbytes, beside)
        placed.append(block)
    return MemoryPlan(
        offsets={name: block.offset for block in blocks for name in block.names},
        nbytes=max((block.offset + block.nbytes for block in blocks), default=0),
        live_bytes=_live_bytes(blocks),
        total_bytes=sum(lifetime.nbytes for lifetime in lifetimes),
    )


def _blocks(lifetimes: Sequence[Lifetime]) -> list[_Block]:
    owner: dict[str, _Block] = {}
    blocks = []
    for lifetime in sorted(lifetimes, key=lambda lifetime: (lifetime.first, lifetime.name)):
        host = owner.get(lifetime.shares) if lifetime.shares else None
        if (
            host is not None
            and (host.last == lifetime.first or (lifetime.by_parts and host.names[-1] == lifetime.shares))
            and host.nbytes == _aligned(lifetime.nbytes)
        ):
            host.names.append(lifetime.name)
            host.last = max(host.last, lifetime.last)
        else:
            host = _Block([lifetime.name], _aligned(lifetime.nbytes), lifetime.first, lifetime.last)
            blocks.append(host)
        owner[lifetime.name] = host
    return blocks


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
        events[one.first] = events.get(one.first, 0) + one.nbytes
        events[one.last + 1] = events.get(one.last + 1, 0) - one.nbytes
    most = live = 0
    for step in sorted(events):
        live += events[step]
        most = max(most, live)
    return most
