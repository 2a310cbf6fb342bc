"""Cycles of the commands that runs of the original's loop macros send, one after the other through the units of its model.

Runs are told as lists of moves and passes (`baco.compiler.styles.macros.sent_commands`). They are gone through in the order of time, as far as what
decides the order of commands goes: which of a macro's phases sends next and whether the reservation station has an entry
(`sim/cpp/gemmini_unroller.h`, `gemmini_station.h`), what a command waits for, requests in flight and lines that come in
(`gemmini_load.h`, `gemmini_bus.h`, `gemmini_l2.h`), and rows of the accumulator that the array writes and stores read. What lies
below is taken together: four rows of a move at a time, a pass as a whole, writes to a bank as a share of the cycles, a cache that takes longer as
it fills up and that nothing leaves.

Its cycles from command to command follow these units' sources, set to the cycle by command logs of the timed model for a few layers; no
least squares. Which of its mechanisms matter was sought on alternatives of `baco bench choice --seed 12` and on the programs measured on
the original, so that neither is held out for it.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from baco.compiler.analysis.traffic import MachineRates

_NEVER = 1e18
_LOADS, _PASSES, _STORES = 0, 1, 2
#: Rows of a move that are gone through at once.
_ROWS = 4
#: From a request to its line's first data where the line comes from main memory (look-up of the page 2, buffers 3 each way, look-up and
#: message 3, memory 14, a line of 8 cycles, 5 behind it, and the reader's own step), and to data that are there.
_MISS, _HIT = 39.0, 14.0
#: Cycles in which the lines come in that wait for registers of the cache, ten of them, and what goes before the first.
_REGISTERS = 85.0
#: From a command's issue to its first request, and from its last data to its end.
_ACCEPTED, _PLACED = 4.0, 5.0
#: From data's arrival to their writing.
_WRITES = 4.0
#: Of a pass: from a row's read to the array, rows between, from its last row to the end of its compute, and in the array.
_READ, _ON_THE_WAY, _FED, _LEFT = 3.0, 6.0, 1.0, 33.0
#: Rows of a pass that the array takes at least.
_LEAST_ROWS = 4
#: Of the store unit: from a row's read to the end of the scaling pipeline, and from there to the request.
_SCALED, _WRITTEN = 11.0, 5.0
#: Rows read and not yet requested, at most.
_READ_AHEAD = 16


@dataclass(frozen=True)
class _Front:
    """Of a macro: cycles from the first command to its first, from macro to macro of the host core, from where a third may come in to its
    first command, and from an unroller to the station."""

    start: float
    pace: float
    enter: float
    hops: float


#: By macro. `start` and `pace` as command logs of compiled layers have them: 70 to 120 and 14 for LOOP_WS, 125 to 250 and 40 to 60 for
#: LOOP_CONV_WS, whose code takes more lines of the instruction cache.
_FRONTS = {"loop_ws": _Front(90.0, 15.0, 9.0, 1.0), "loop_conv": _Front(150.0, 45.0, 12.0, 3.0)}
#: From the last write to the end.
_END = 8.0

Phase = Literal["sums", "weights", "inputs", "passes", "stores"]
_PHASES: tuple[Phase, ...] = ("sums", "weights", "inputs", "passes", "stores")


class Move(NamedTuple):
    """A load or a store: local rows [first, last), with those of the accumulator from `ACCUMULATOR` on, and what is moved.

    Attributes:
        matrix: whose lines of the cache; "" for zeros.
        address: in it, in bytes; pitch: between rows.
        rows, size: rows in memory, and bytes of each.
        copies: cycles in which the data of a request, up to a row of the array, are written.
        words: whether it loads words of 4 bytes.
        blocks: local rows of each row, of a store; zeros: cycles in which they are written, of a load.
        wrap: rows behind each other, and bytes from the first of them to the next such row; 0 where all are.
    """

    first: int
    last: int
    matrix: str
    address: int
    pitch: int
    rows: int
    size: int
    copies: int = 1
    words: bool = False
    blocks: int = 1
    zeros: int = 0
    wrap: tuple[int, int] = (0, 0)


class Pass(NamedTuple):
    """A preload and a compute: whether weights come in, rows, and local rows [first, last) of results, weights and inputs; and of products how
    many loads of inputs and of weights have to be sent before."""

    fresh: bool
    rows: int
    results: tuple[int, int]
    weights: tuple[int, int]
    inputs: tuple[int, int]
    after_inputs: int = 0
    after_weights: int = 0


@dataclass
class MacroRun:
    """The commands of a run by phase.

    Attributes:
        stores_after: of each store of a product, passes that have to be sent before.
        inputs_a_step, weights_a_step: loads of a product's operands for a part of the depth, and that part in blocks: the operand that is
            behind goes first.
    """

    sums: list[Move] = field(default_factory=list)
    weights: list[Move] = field(default_factory=list)
    inputs: list[Move] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    stores: list[Move] = field(default_factory=list)
    stores_after: list[int] = field(default_factory=list)
    inputs_a_step: tuple[int, int] = (1, 1)
    weights_a_step: tuple[int, int] = (1, 1)

    def __len__(self) -> int:
        loads = len(self.sums) + len(self.weights) + len(self.inputs)
        return loads + 2 * len(self.passes) + len(self.stores)


#: Local rows from here on are those of the accumulator.
ACCUMULATOR = 1 << 32


class _Entry:
    """A command in the reservation station: rows that it touches, those it waits for, when it was allocated and is done."""

    __slots__ = ("allocated", "begun", "done", "first", "last", "other", "waits", "what", "writes")

    def __init__(
        self, rows: tuple[int, int], other: tuple[int, int], writes: bool, allocated: float, what: Any
    ) -> None:
        self.first, self.last = rows
        self.other, self.writes, self.allocated, self.what = other, writes, allocated, what
        self.done: float | None = None
        self.begun = 0
        self.waits: list[_Entry] = []

    def ready(self) -> float:
        """When all are done that it waits for."""
        at = self.allocated + 1
        for entry in self.waits:
            if entry.done is None:
                return _NEVER
            at = max(at, entry.done)
        return at


class _History:
    """When requests of a unit were answered, the last of them."""

    def __init__(self) -> None:
        self.count = 0
        self._parts: deque[tuple[int, int, float, float]] = deque(maxlen=40)

    def add(self, count: int, first: float, last: float) -> None:
        """So many more, answered evenly from one time to another."""
        self._parts.append((self.count, count, first, last))
        self.count += count

    def answered(self, number: int) -> float:
        """When the request of that number was."""
        for start, count, first, last in reversed(self._parts):
            if number >= start:
                return first + (last - first) * min(1.0, (number - start) / max(1, count - 1))
        return 0.0


class _Memory:
    """Lines that main memory fills one after the other, and the port's beats."""

    def __init__(self, machine: MachineRates) -> None:
        self.beat, self.line = int(machine.beat), int(machine.profile.line_bytes)
        self.sizes = [
            int(machine.beat) << n for n in range(int(machine.request // machine.beat).bit_length())
        ]
        self.fill, self.lines, self.spent = machine.profile.line_cycles, 0, 0.0
        self._fill_cycles = machine.profile.fill_cycles
        self.filled = self.port = self.free = 0.0
        self._seen: dict[str, set[int]] = {}
        self._requests: dict[tuple[int, int], tuple[int, int]] = {}

    def touch(self, matrix: str, address: int, pitch: int, rows: int, size: int) -> tuple[int, int, int]:
        """Requests, beats and lines for the first time, of some rows."""
        seen, line = self._seen.setdefault(matrix, set()), self.line
        requests = beats = fresh = 0
        for at in range(address, address + rows * pitch, pitch) if pitch else [address] * rows:
            key = (at % line, size)
            cost = self._requests.get(key) or self._requests.setdefault(key, self._cover(*key))
            requests, beats = requests + cost[0], beats + cost[1]
            for number in range(at // line, (at + size - 1) // line + 1):
                if number not in seen:
                    seen.add(number)
                    fresh += 1
        return requests, beats, fresh

    def _cover(self, at: int, left: int) -> tuple[int, int]:
        """Requests and beats of one row: always the request that brings the most, the smallest of those."""
        requests = beats = 0
        while left > 0:
            got, size = max((min(size - at % size, left), -size) for size in self.sizes)
            requests, beats = requests + 1, beats - size // self.beat
            at, left = at + got, left - got
        return requests, beats

    def fetch(self, at: float, fresh: int) -> tuple[float, float]:
        """Lines asked for from `at` on: when the first and the last are there. No request passes one that waits for a register."""
        self.lines += fresh
        before, self.spent = self.spent, float(self._fill_cycles(self.lines))
        first = max(at + _MISS, self.filled + self.fill)
        self.filled = max(at + _MISS - self.fill, self.filled) + self.spent - before
        self.free = max(self.free, self.filled - _REGISTERS)
        return first, self.filled


def stream_cycles(
    runs: Sequence[MacroRun], machine: MachineRates, half: int, bank_rows: int, macro: str
) -> float:
    """Cycles from the first command of the runs to the end of their last store.

    Args:
        half: rows of half the accumulator, which is a bank of it; `bank_rows`: of a bank of the scratchpad.
        macro: that sends them, `loop_ws` or `loop_conv`.
    """
    return _Stream(runs, machine, half, bank_rows, macro).cycles()


class _Stream:
    def __init__(
        self, runs: Sequence[MacroRun], machine: MachineRates, half: int, bank_rows: int, macro: str
    ) -> None:
        self.units = _Units(machine, half, bank_rows)
        self.runs, self.conv, self.front = runs, macro == "loop_conv", _FRONTS[macro]
        self.now = 0.0
        # by phase: the run whose commands it sends, and how many it has sent of it
        self.run = dict.fromkeys(_PHASES, 0)
        self.sent = dict.fromkeys(_PHASES, 0)
        self.over: dict[Phase, list[float | None]] = {phase: [None] * len(runs) for phase in _PHASES}
        # when each command of a product's run was sent
        self.times: dict[Phase, list[float]] = {phase: [] for phase in _PHASES}
        self.of_run = dict.fromkeys(_PHASES, 0)
        self.finished: list[float | None] = [None] * len(runs)
        self.entered: list[float | None] = [None] * len(runs)

    def cycles(self) -> float:
        units = self.units
        self._skip()
        best, phase = self._next()
        while True:
            unit, at = units.next()
            if at >= _NEVER and phase is None:
                break
            if at <= best:
                if not units.step(unit, at):
                    continue
            else:
                assert phase is not None, "the earlier one has a phase"
                self._send(phase, best)
                self._skip()
            best, phase = self._next()
        return units.end + _END

    # ---------------------------------------------------------------- the unroller

    def _enter(self, run: int) -> float:
        """When a run may begin: the host has sent it, and all of the one before the last is sent."""
        at = self.entered[run]
        if at is None:
            at = self.front.start + run * self.front.pace
            if run >= 2:
                before = self.finished[run - 2]
                if before is None:
                    return _NEVER
                at = max(at, before + self.front.enter)
            self.entered[run] = at
        return at

    def _loaded(self, run: int) -> float:
        """When all loads of a run were sent."""
        found = 0.0
        for phase in ("sums", "weights", "inputs"):
            at = self.over[phase][run]  # type: ignore[index]
            if at is None:
                return _NEVER
            found = max(found, at)
        return found

    def _end(self, phase: Phase, at: float) -> None:
        run = self.run[phase]
        self.over[phase][run] = at
        self.run[phase], self.sent[phase] = run + 1, 0
        ends = [self.over[one][run] for one in _PHASES]
        if None not in ends:
            self.finished[run] = max(one for one in ends if one is not None)

    def _skip(self) -> None:
        """Phases of which the next run has nothing."""
        moved = True
        while moved:
            moved = False
            for phase in _PHASES:
                run = self.run[phase]
                if run >= len(self.runs) or getattr(self.runs[run], phase):
                    continue
                if phase == "stores":
                    over = self.over["passes"][run]
                    at = _NEVER if over is None else over
                else:
                    at = self._loaded(run) if phase == "passes" else self._enter(run)
                if at < _NEVER:
                    self._end(phase, max(self.now, at) if phase in ("sums", "weights", "inputs") else at)
                    moved = True

    def _next(self) -> tuple[float, Phase | None]:
        """Which phase sends next, and when: stores first, then passes, loads of sums, loads of operands."""
        soon, best, chosen = self.now + 1, _NEVER, None
        for phase, kind in (("stores", _STORES), ("passes", _PASSES)):
            run = self.run[phase]  # type: ignore[index]
            if run < len(self.runs):
                gate = self._gate(phase, run)  # type: ignore[arg-type]
                if gate < best:
                    at = max(soon, gate, self.units.room(kind))
                    if at < best:
                        best, chosen = at, phase
        room = self.units.room(_LOADS)
        if room < best:
            gates = {phase: self._load_gate(phase) for phase in ("sums", "weights", "inputs")}  # type: ignore[arg-type]
            for phase in ("sums", self._operand(gates["weights"], gates["inputs"], max(soon, room))):
                at = max(soon, gates[phase], room)
                if at < best:
                    best, chosen = at, phase
        return best, chosen  # type: ignore[return-value]

    def _gate(self, phase: Phase, run: int) -> float:
        """When the next store or pass may be sent."""
        one, number = self.runs[run], self.sent[phase]
        if not getattr(one, phase):
            return _NEVER
        if self.conv:
            over = self.over["passes"][run] if phase == "stores" else self._loaded(run)
            return _NEVER if over is None else over + 3
        if phase == "stores":
            return self._sent("passes", run, one.stores_after[number]) + 2
        sums = self.over["sums"][run]
        if sums is None:
            return _NEVER
        what = one.passes[number]
        after = (
            self._sent("inputs", run, what.after_inputs),
            self._sent("weights", run, what.after_weights),
        )
        return max(sums, *after) + 1

    def _sent(self, phase: Phase, run: int, count: int) -> float:
        """When so many commands of a run's phase were sent."""
        if count == 0:
            return 0.0
        if self.of_run[phase] == run:
            times = self.times[phase]
            return times[count - 1] if len(times) >= count else _NEVER
        over = self.over[phase][run]
        return _NEVER if over is None else over

    def _load_gate(self, phase: Phase) -> float:
        run = self.run[phase]
        if run >= len(self.runs) or not getattr(self.runs[run], phase):
            return _NEVER
        gate = self._enter(run) + 1
        # loads of a convolution wait for those of the run before
        return max(gate, self._loaded(run - 1) + 1) if self.conv and run else gate

    def _operand(self, weights: float, inputs: float, soon: float) -> Phase:
        if self.conv:
            return "weights" if weights <= max(inputs, soon) else "inputs"
        if weights >= _NEVER or inputs >= _NEVER:
            return "inputs" if weights >= _NEVER else "weights"
        if self.run["inputs"] != self.run["weights"]:
            return "inputs" if self.run["inputs"] < self.run["weights"] else "weights"
        run = self.runs[self.run["inputs"]]
        (loads, depth), sent = run.inputs_a_step, self.sent["inputs"]
        (others, step), began = run.weights_a_step, self.sent["weights"]
        return "weights" if began == 0 or sent // loads * depth > began // others * step else "inputs"

    def _send(self, phase: Phase, at: float) -> None:
        number, run = self.run[phase], self.runs[self.run[phase]]
        what = getattr(run, phase)[self.sent[phase]]
        there, self.now = at + self.front.hops, at
        if self.of_run[phase] != number:
            self.of_run[phase], self.times[phase] = number, []
        if phase == "passes":
            self.units.allocate(_PASSES, _Entry(what.results, what.weights, True, there, what))
            room = self.units.room_or_wait(_PASSES)
            second = max(at + 1, room)
            self.units.allocate(_PASSES, _Entry(what.inputs, (0, 0), False, second + self.front.hops, None))
            if second <= at + 1:
                self.now = second
            at = second
        else:
            kind = _STORES if phase == "stores" else _LOADS
            self.units.allocate(kind, _Entry((what.first, what.last), (0, 0), kind == _LOADS, there, what))
        self.times[phase].append(at)
        self.sent[phase] += 1
        if self.sent[phase] == len(getattr(run, phase)):
            self._end(phase, at)


@dataclass
class _Feed:
    """Rows that have to be read for a pass, not before a time, and from which banks."""

    earliest: float
    rows: float
    banks: set[int]


class _Write(NamedTuple):
    """Rows on their way to memory: when the first and the last have been scaled; requests, beats and lines that have to be fetched."""

    first: float
    last: float
    rows: int
    requests: int
    beats: int
    fresh: int


class _Units:
    """The reservation station, and the units that it issues to."""

    def __init__(self, machine: MachineRates, half: int, bank_rows: int) -> None:
        self.memory, self.half, self.dim = _Memory(machine), ACCUMULATOR + half, int(machine.dim)
        self.window, self.pace = int(machine.requests), float(machine.store_pace(0.0))
        self.entries = (int(machine.load_entries), int(machine.execute_entries), int(machine.store_entries))
        # by class: commands that are not done as far as is known, ends of the others, all that may still be there, those not issued
        self.open = [0, 0, 0]
        self.ends: tuple[list[float], ...] = ([], [], [])
        self.live: list[list[_Entry]] = [[], [], []]
        self.queue: tuple[deque[_Entry], ...] = (deque(), deque(), deque())
        self.issued = [0.0, 0.0, 0.0]
        self.end = 0.0
        self.loads, self.load_free, self.zeros_free = _History(), 0.0, 0.0
        self.trackers = [0.0] * int(machine.requests // machine.dim + 1)
        self.placing = [0.0, 0.0]
        self.fed, self.rows_before, self.bank_before = 0.0, 0, -1
        self.feeds: list[_Feed] = []
        # of the scratchpad: bank, from when to when, and share of the cycles in which loads write it; until when that is known
        self.bank_rows, self.known = bank_rows, 0.0
        self.written: deque[tuple[int, float, float, float]] = deque(maxlen=48)
        passes = int(machine.profile.passes_inside)
        self.inside = deque([0.0] * passes, maxlen=passes)
        # rows of results, by half of the accumulator
        self.results: tuple[deque[tuple[float, float]], ...] = (deque(maxlen=24), deque(maxlen=24))
        self.rows, self.puts = _History(), _History()
        self.reading = self.scaled = self.putting = 0.0
        self.read, self.writes = 0, deque[_Write]()

    # ---------------------------------------------------------------- the station

    def room(self, kind: int) -> float:
        """When a command of a class finds an entry."""
        ends = self.ends[kind]
        if self.open[kind] + len(ends) < self.entries[kind]:
            return 0.0
        return ends[0] + 1 if ends else _NEVER

    def room_or_wait(self, kind: int) -> float:
        """The same, of a command that nothing is sent before."""
        while (at := self.room(kind)) >= _NEVER:
            unit, time = self.next()
            self.step(unit, time)
        return at

    def allocate(self, kind: int, entry: _Entry) -> None:
        """Into the station: it waits for older commands of other classes that touch the same rows."""
        if self.open[kind] + len(self.ends[kind]) >= self.entries[kind]:
            heapq.heappop(self.ends[kind])
        self.open[kind] += 1
        entry.waits = list(self._older(kind, entry))
        live = self.live[kind]
        if len(live) > 2 * self.entries[kind]:
            at = entry.allocated
            live[:] = [one for one in live if one.done is None or one.done > at]
        live.append(entry)
        self.queue[kind].append(entry)

    def _older(self, kind: int, entry: _Entry) -> Iterator[_Entry]:
        at, first, last = entry.allocated, entry.first, entry.last
        low, high = entry.other
        for other in (_LOADS, _PASSES, _STORES):
            if other == kind or (kind == _PASSES and other == _STORES and not entry.writes):
                continue
            for one in self.live[other]:
                if one.done is not None and one.done <= at:
                    continue
                same = first < one.last and one.first < last
                if kind == _LOADS:
                    waits = same or (other == _PASSES and first < one.other[1] and one.other[0] < last)
                elif kind == _PASSES:
                    waits = same or (other == _LOADS and low < one.last and one.first < high)
                else:
                    waits = same and one.writes
                if waits:
                    yield one

    def _retire(self, kind: int, entry: _Entry, done: float) -> None:
        entry.done = done
        self.open[kind] -= 1
        heapq.heappush(self.ends[kind], done)
        self.end = max(self.end, done)

    def next(self) -> tuple[int, float]:
        """The unit that goes on next, and when."""
        times = (self._next_load(), self._next_pass(), self._next_store(), self._next_write())
        at = min(times)
        return times.index(at), at

    def step(self, unit: int, at: float) -> bool:
        """Let a unit go on; whether a command is done with it."""
        return (self._load, self._pass, self._store, self._write)[unit](at)

    # ---------------------------------------------------------------- loads

    def _next_load(self) -> float:
        if not self.queue[_LOADS]:
            return _NEVER
        entry = self.queue[_LOADS][0]
        window = self.loads.answered(self.loads.count - self.window)
        if entry.begun:
            return max(self.load_free, window)
        at = entry.ready()
        if at >= _NEVER:
            return _NEVER
        at = max(at, self.issued[_LOADS] + 1)
        return max(at + _ACCEPTED, self.load_free, self.trackers[0] + 3, window)

    def _load(self, at: float) -> bool:
        entry, memory = self.queue[_LOADS][0], self.memory
        move: Move = entry.what
        if not entry.begun:
            self.issued[_LOADS] = max(entry.ready(), self.issued[_LOADS] + 1)
        if move.zeros:
            self.load_free = at + max(move.zeros, 2)
            done = self.zeros_free = max(at + move.zeros, self.zeros_free) + 1
        else:
            count = min(_ROWS, move.rows - entry.begun)
            start = move.address + entry.begun * move.pitch
            requests, beats, fresh = memory.touch(move.matrix, start, move.pitch, count, move.size)
            at = max(at, memory.free)
            self.load_free = at + max(requests, count, 2 if move.rows == 1 else 1)
            if fresh:
                first, last = memory.fetch(at, fresh)
                last = max(last + (4 if requests > fresh else 1), memory.port + beats)
            else:
                first = max(at + _HIT, memory.port)
                last = max(at + _HIT + max(beats, requests), memory.port + beats)
            before = memory.port
            memory.port = done = last
            self.loads.add(requests, first, last)
            if move.copies > 1:
                pieces = -(-move.size // (self.dim * (4 if move.words else 1)))
                self.placing[move.words] = max(self.placing[move.words], first) + move.copies * count * pieces
                done = max(done, self.placing[move.words])
            if move.first < ACCUMULATOR:
                rows = count * -(-move.size // self.dim) * move.copies
                begin, self.known = max(first, before) + _WRITES, done + _WRITES
                begin = min(begin, self.known - rows)
                self.written.append((self._bank(move.first), begin, self.known, rows / (self.known - begin)))
            entry.begun += count
            if entry.begun < move.rows:
                return False
            done += _PLACED
        heapq.heapreplace(self.trackers, done)
        self.queue[_LOADS].popleft()
        self._retire(_LOADS, entry, done)
        return True

    # ---------------------------------------------------------------- passes

    def _issue_pass(self) -> tuple[float, float]:
        """Of the preload and of the compute."""
        preload, compute = self.queue[_PASSES][0], self.queue[_PASSES][1]
        first = preload.ready()
        second = compute.ready() if first < _NEVER else _NEVER
        if second >= _NEVER:
            return _NEVER, _NEVER
        first = max(first, self.issued[_PASSES] + 1)
        return first, max(second, first + 1)

    def _next_pass(self) -> float:
        if self.feeds:
            return self.fed
        return max(self._issue_pass()[1] + 2, self.fed) if len(self.queue[_PASSES]) > 1 else _NEVER

    def _pass(self, at: float) -> bool:
        preload, compute = self.queue[_PASSES][0], self.queue[_PASSES][1]
        what: Pass = preload.what
        weights, bank = (self.dim, self._bank(what.weights[0])) if what.fresh else (_LEAST_ROWS, -1)
        if not self.feeds:
            ready = self._issue_pass()[1] + 2
            # weights come in beside the pass before, if the preload is there by then
            if ready <= self.fed and self.rows_before:
                both = max(self.rows_before, self.dim if what.fresh else 0)
                self.feeds = [_Feed(0.0, both, {self.bank_before, bank})]
            else:
                self.feeds = [_Feed(0.0, self.rows_before, {self.bank_before}), _Feed(ready, weights, {bank})]
        while self.feeds:
            feed = self.feeds[0]
            self.fed, feed.rows = self._read(max(self.fed, feed.earliest), feed)
            if feed.rows > 0:
                return False  # until more is known of what is written to the bank
            self.feeds.pop(0)
        self.issued[_PASSES] = self._issue_pass()[1]
        self.queue[_PASSES].popleft()
        self.queue[_PASSES].popleft()
        rows = self.rows_before = max(what.rows, _LEAST_ROWS)
        self.bank_before = self._bank(what.inputs[0])
        # the array takes few passes in; rows of others wait before it
        enters = max(self.fed + _READ, self.inside[0])
        self.fed = max(self.fed, enters - _READ - _ON_THE_WAY)
        left = enters + rows + _LEFT
        self.inside.append(left)
        self._retire(_PASSES, preload, left)
        self._retire(_PASSES, compute, self.fed + rows + _FED)
        self.results[preload.first >= self.half].append((left - rows, left))
        return True

    def _bank(self, row: int) -> int:
        return row // self.bank_rows

    def _read(self, at: float, feed: _Feed) -> tuple[float, float]:
        """Read rows from banks of the scratchpad, where loads go first: when, and how many are left where loads go on for as long as is known."""
        left = feed.rows
        for bank, first, last, share in self.written:
            if last <= at or bank not in feed.banks:
                continue
            free = max(0.0, first - at)
            if free >= left:
                break
            left, at = left - free, max(at, first)
            inside = (last - at) * (1.0 - share)
            if inside >= left:
                return at + left / (1.0 - share), 0.0
            left, at = left - inside, last
            if last >= self.known:
                return at, left
        return at + left, 0.0

    # ---------------------------------------------------------------- stores

    def _next_store(self) -> float:
        if not self.queue[_STORES]:
            return _NEVER
        entry, ahead = self.queue[_STORES][0], self.read - _READ_AHEAD
        if ahead >= self.rows.count:
            return _NEVER  # rows before have to leave first
        earliest = max(self.reading, self.rows.answered(ahead))
        if entry.begun:
            return earliest
        at = entry.ready()
        return _NEVER if at >= _NEVER else max(at + 2, self.issued[_STORES] + 3, earliest)

    def _store(self, at: float) -> bool:
        """Rows are read, scaled, and then ask for their place in memory."""
        entry = self.queue[_STORES][0]
        move: Move = entry.what
        if not entry.begun:
            self.issued[_STORES] = max(entry.ready(), self.issued[_STORES] + 1)
        count = min(_ROWS, move.rows - entry.begun)
        start = move.address + entry.begun * move.pitch
        if move.wrap[0]:
            behind, line = move.wrap
            count = min(count, behind - entry.begun % behind)
            start = move.address + entry.begun // behind * line + entry.begun % behind * move.pitch
        reads = left = float(count * move.blocks)
        for first, last in self.results[entry.first >= self.half]:
            if last <= at:
                continue
            if first >= at + left:
                break
            left -= max(0.0, first - at)
            at = last
        self.reading = read = at + left
        begin = max(self.scaled, at + _SCALED)
        self.scaled = begin + self.pace * reads
        self.read += count
        requests, beats, fresh = self.memory.touch(move.matrix, start, move.pitch, count, move.size)
        whole = self.memory.line
        if move.size == whole and not start % whole and not move.pitch % whole:
            fresh = 0  # a line that is written whole is not fetched
        self.writes.append(
            _Write(begin + _WRITTEN, self.scaled + _WRITTEN - 1, count, requests, beats, fresh)
        )
        entry.begun += count
        if entry.begun < move.rows:
            return False
        self.queue[_STORES].popleft()
        self._retire(_STORES, entry, max(read, self.issued[_STORES] + 2) + 1)
        return True

    def _next_write(self) -> float:
        if not self.writes:
            return _NEVER
        write = self.writes[0]
        answered = self.puts.answered(self.puts.count + write.requests - self.window)
        return max(write.first, answered - 3, self.putting)

    def _write(self, at: float) -> bool:
        write, memory = self.writes.popleft(), self.memory
        at = max(at, memory.free)
        last = self.putting = max(write.last, at + write.beats)
        self.rows.add(write.rows, at, last)
        # answers leave by the pipeline of data, those of several beats with a cycle more
        cycles = write.beats + (write.requests if write.beats > write.requests else 0)
        memory.port = there = max(memory.port, at + _HIT) + cycles
        if write.fresh:
            first, filled = memory.fetch(at, write.fresh)
            self.puts.add(write.requests, first, max(there, filled + 8))
        else:
            self.puts.add(write.requests, at + _HIT, max(there, last + _HIT))
        self.end = max(self.end, last + 2)
        return False
