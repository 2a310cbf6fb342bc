"""Shortening a stream on which the two models disagree, and naming the command that first makes them differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from baco.accel.isa import Command, decode, encode, find_command_type
from baco.sim.cosim.run import Simulator, StreamOutcome
from baco.sim.cosim.stream import Group, Stream, describe

#: What a setting of memory and host is tried as: the plainest value.
_PLAIN: dict[str, int | float] = {
    "gap": 0,
    "stall": 0,
    "latency": 1,
    "bandwidth": 64.0,
    "reads": 256,
    "writes": 32,
    "seed": 0,
    "data": 1,
}
#: What a field of a command is tried as, by its name; others are tried as 0.
_PLAIN_FIELDS = {
    "scale": 0x3F800000,
    "acc_scale": 0x3F800000,
    "a_stride": 1,
    "c_stride": 1,
    "pixel_repeats": 1,
}
_SIZES = ("rows", "cols", "a_rows", "a_cols", "bd_rows", "bd_cols", "c_rows", "c_cols")
#: Fields whose small values mean other places or other data: no simpler than what they are.
_KEPT = ("address", "a", "b", "d", "c", "bd", "local", "destination", "weights", "output", "bias", "input")
#: Candidates played by one process.
_BATCH = 64


@dataclass(frozen=True)
class Divergence:
    """The shortest prefix of a stream that already shows a difference.

    Attributes:
        index: of its last group, from 0.
        group: that group; its last command is the one to look at.
        outcome: what is different after it.
    """

    index: int
    group: Group
    outcome: StreamOutcome

    def describe(self) -> str:
        """The place, both values, and the command."""
        return f"{self.outcome.describe()}\n  after: {describe(self.group[-1])}"


@dataclass(frozen=True)
class Minimised:
    """A short failing stream, how it fails, and where; `runs` counts the streams played to find it."""

    stream: Stream
    outcome: StreamOutcome
    divergence: Divergence | None
    runs: int


def minimise(
    stream: Stream, simulator: Simulator, *, report: Callable[[str], None] | None = None
) -> Minimised:
    """The stream with every group of commands removed that the failure does not need, and the rest made plain.

    A candidate counts when it fails in the same way (contents that differ, wherever; the same two verdicts; stuck; ...).
    Where only random contents at power-up show the failure, what writes all of them first stays as it is, since nothing else
    says what is right. Raises ValueError when `stream` does not fail at all.
    """
    search = _Search(simulator, stream, report or (lambda _: None))
    best = search.groups(search.without_power(stream))
    best = search.settings(best)
    best = search.fields(best)
    best = search.groups(best)
    outcome = search.outcome
    return Minimised(best, outcome, first_divergence(best, simulator), search.runs)


def first_divergence(stream: Stream, simulator: Simulator) -> Divergence | None:
    """Where a failing stream goes wrong; None when no prefix fails."""
    least = max(1, stream.setup)
    prefixes = [
        stream.with_groups(stream.groups[:n], f"prefix-{n}") for n in range(least, len(stream.groups) + 1)
    ]
    for start in range(0, len(prefixes), _BATCH):
        for offset, outcome in enumerate(simulator.play(prefixes[start : start + _BATCH])):
            if outcome.failed:
                index = least - 1 + start + offset
                return Divergence(index, stream.groups[index], outcome)
    return None


def _failure_class(outcome: StreamOutcome) -> str:
    if outcome.kind == "verdict":  # by the codes of both sides, whatever the commands
        return " ".join(side.split()[0] for side in outcome.text.split(" | "))
    return "contents" if outcome.kind in ("local", "memory") else outcome.kind


class _Search:
    """Keeps the best stream known; every step tries a list of candidates and takes the first that still fails."""

    def __init__(self, simulator: Simulator, stream: Stream, report: Callable[[str], None]) -> None:
        self.simulator, self.report, self.runs = simulator, report, 0
        (self.outcome,) = simulator.play([stream])
        if not self.outcome.failed:
            raise ValueError(f"stream {stream.name} does not fail: {self.outcome.describe()}")
        self.wanted = _failure_class(self.outcome)

    def first(self, candidates: Iterator[Stream]) -> Stream | None:
        """The first candidate that fails as wanted."""
        batch: list[Stream] = []
        size = 8  # the first candidates often succeed: play few of them at once
        for candidate in candidates:
            batch.append(candidate)
            if len(batch) >= size:
                if found := self._try(batch):
                    return found
                batch, size = [], min(2 * size, _BATCH)
        return self._try(batch) if batch else None

    def _try(self, batch: Sequence[Stream]) -> Stream | None:
        self.runs += len(batch)
        for candidate, outcome in zip(batch, self.simulator.play(batch), strict=True):
            if outcome.failed and _failure_class(outcome) == self.wanted:
                self.outcome = outcome
                return candidate
        return None

    def without_power(self, best: Stream) -> Stream:
        """From zeros, if it fails so, too: then every command may go."""
        plain = {key: value for key, value in best.settings.items() if key not in ("power", "setup")}
        return self.first(iter([replace(best, settings=plain)])) or best if "power" in best.settings else best

    def groups(self, best: Stream) -> Stream:
        """Remove runs of groups behind the set-up, long ones first (delta debugging by complements)."""
        length, start = max(1, (len(best.groups) - best.setup) // 2), best.setup
        while True:
            found = self.first(_without(best, length, start))
            if found is not None and found.groups:
                start = int(found.name)  # what lies before was tried at this length
                best = found.with_groups(found.groups, best.name)
                self.report(f"{len(best.groups)} groups of commands left")
            elif start > best.setup:
                start = best.setup
            elif length == 1:
                return best
            else:
                length = (length + 1) // 2

    def settings(self, best: Stream) -> Stream:
        """Give memory and host plain manners, one after the other."""
        for key, value in _PLAIN.items():
            if best.settings.get(key, value) == value:
                continue
            found = self.first(iter([replace(best, settings={**best.settings, key: value})]))
            best = found or best
        return best

    def fields(self, best: Stream) -> Stream:
        """Give the fields of every command plain values where that keeps the failure."""
        for index in range(best.setup, len(best.groups)):
            for position in range(len(best.groups[index])):
                while found := self.first(_plainer(best, index, position)):
                    best = found
        return best


def _without(stream: Stream, length: int, start: int) -> Iterator[Stream]:
    """The stream without `length` groups at each of several places, named by the place."""
    groups = stream.groups
    for at in range(start, len(groups), length):
        yield stream.with_groups(groups[:at] + groups[at + length :], str(at))


def _plainer(stream: Stream, index: int, position: int) -> Iterator[Stream]:
    group = stream.groups[index]
    item = group[position]
    if item is None:
        return
    for command in _plainer_commands(item):
        changed = (*group[:position], command, *group[position + 1 :])
        yield stream.with_groups((*stream.groups[:index], changed, *stream.groups[index + 1 :]))


def _plainer_commands(item: Command) -> Iterator[Command]:
    for command in _plainer_fields(item):
        yield type(item)(*command)
    if type(item) is not Command:
        yield Command(*item)


def _plainer_fields(item: Command) -> Iterator[Command]:
    kind = find_command_type(item.funct, item.rs1)
    if kind is None:
        yield from (one for one in (item._replace(rs1=0), item._replace(rs2=0)) if one != item)
        return
    name = kind.name
    fields = decode(item.funct, item.rs1, item.rs2)
    clean = encode(name, **fields)
    if clean != item:
        yield clean
    for field, value in fields.items():
        if field in _KEPT:
            continue
        plain = 1 if field in _SIZES else _PLAIN_FIELDS.get(field, 0)
        if value != plain:
            yield encode(name, **{**fields, field: plain})
        if field in _SIZES and value > 2:
            yield encode(name, **{**fields, field: value // 2})
