"""What the accelerator's memory port and main memory do when rows of a tensor are moved.

A load command brings rows as wide as a request. Rows that follow each other in memory with less than a beat between them
are one span, else every row is one; a span is covered by naturally aligned requests of powers of two, from a beat to the
largest request. The number in flight and the latency of memory limit the rate of small requests, the entries of the
reservation station that of small commands. The original Gemmini differs: a request a row, rounded up to what brings most of it,
and a second-level cache (`baco.compiler.analysis.profile`).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.compiler.analysis.arrays import NUMPY, Arrays, Values
from baco.compiler.analysis.profile import PROFILES, QUEUED_LATENCY, TimingProfile

#: The channel of main memory moves aligned pieces of so many bytes (`baco.sim.job.MainMemory`).
_BURST = 8.0
#: Alignment of rows, in bytes, beyond which more makes no difference.
MOST_ALIGNED = 64.0
#: Bytes of a row up to which requests are tabulated; longer ones are multiples of that.
_LONGEST = 128


@dataclass(frozen=True)
class MachineRates:
    """What the cycles of the macros depend on; numbers, or arrays of them.

    Attributes:
        dim: side of the array.
        beat: bytes that the memory port moves in a cycle.
        request: bytes of the largest memory request.
        requests: memory requests in flight.
        bandwidth: bytes that main memory moves in a cycle.
        load_entries, execute_entries, store_entries: of the reservation station.
        load_queue: commands that the load unit has accepted beside the one whose rows come in.
        scale_pace: cycles of a row at the scaling lanes.
        array_speed, host_speed: how many times as fast as built array and host core are, to ask what that would give.
        timing: one of `baco.accel.config.TIMINGS`, the same for all.
    """

    dim: Values
    beat: Values
    request: Values
    requests: Values
    bandwidth: Values
    load_entries: Values
    execute_entries: Values
    store_entries: Values
    load_queue: Values
    scale_pace: Values = 1.0
    array_speed: Values = 1.0
    host_speed: Values = 1.0
    timing: str = "baco"

    @property
    def profile(self) -> TimingProfile:
        """What the timing differs in."""
        return PROFILES[self.timing]

    def store_pace(self, raw: Values) -> Values:
        """Cycles of a row of the accumulator on its way out, where the port does not take more; `raw`: 1 for sums, 0 for what is scaled."""
        return self.profile.store_pace * (raw + (1.0 - raw) * self.scale_pace)

    @classmethod
    def of(cls, accelerator: Accelerator) -> MachineRates:
        """The numbers of one accelerator."""
        return cls(
            float(accelerator.dim),
            accelerator.dma_bits / 8,
            float(accelerator.dma_max_bytes),
            float(accelerator.dma_requests),
            channel_bytes_per_cycle(accelerator),
            float(accelerator.load_entries),
            float(accelerator.execute_entries),
            float(accelerator.store_entries),
            float(accelerator.load_queue),
            # the original has lanes of its own, whose pace is its profile's
            max(1.0, accelerator.dim / accelerator.scale_lanes) if accelerator.timing == "baco" else 1.0,
            timing=accelerator.timing,
        )


@dataclass(frozen=True)
class Moved:
    """What loads take: cycles of the memory port, rows of the local memories, bytes that the channel of memory moves, and,
    counted only where few are under way at a time (`TimingProfile.load_trackers`), commands, and requests beside the first
    of a row."""

    port: Values
    rows: Values
    bytes: Values
    commands: Values = 0.0
    further: Values = 0.0

    def scaled(self, machine: MachineRates) -> Moved:
        """The same where rows are scaled on their way in."""
        return replace(self, rows=self.rows * machine.scale_pace)

    def __add__(self, other: Moved) -> Moved:
        return Moved(
            self.port + other.port,
            self.rows + other.rows,
            self.bytes + other.bytes,
            self.commands + other.commands,
            self.further + other.further,
        )

    def __mul__(self, times: Values) -> Moved:
        return Moved(
            self.port * times,
            self.rows * times,
            self.bytes * times,
            self.commands * times,
            self.further * times,
        )


def load_rows(
    a: Arrays,
    machine: MachineRates,
    rows: Values,
    width: Values,
    pitch: Values,
    *,
    element: Values = 1.0,
    command_rows: Values = None,
    between: Values = None,
    shift: Values = 128.0,
    crowd: Values = 1.0,
) -> Moved:
    """Rows of `width` elements that lie `pitch` elements apart, brought by commands as wide as requests are.

    Args:
        element: bytes; half a one where two are a byte, of which a command then brings no more than of bytes.
        command_rows: rows of a command; `dim` (or all there are) if not given.
        between: rows from the first one of a command to that of the next; `dim` if not given.
        shift: elements by which neighbouring tiles begin apart, for the alignment of rows.
        crowd: commands that share the reservation station, for each of these.
    """
    if command_rows is None:
        command_rows = rows / a.larger(a.up(rows / machine.dim), 1.0)
    step = a.larger(a.smaller(a.smaller(a.power(pitch), a.power(shift)) * element, 128.0), 1.0)
    commands = _Commands(
        machine, rows, command_rows, pitch * element, step, machine.dim if between is None else between, crowd
    )
    least = max(element, 1.0) if isinstance(element, float) else a.larger(element, 1.0)
    widest = a.larger(machine.request / least, machine.dim)
    whole = a.down(width / widest)
    rest = width - whole * widest
    moved = commands.move(a, rest * element, a.up(rest / machine.dim))
    if a.some(whole > 0):
        moved = moved + commands.move(a, widest * element, widest / machine.dim) * whole
    return moved


@dataclass(frozen=True)
class _Commands:
    """Commands that bring the rows of one piece of a matrix.

    Attributes:
        rows, command_rows: of all, of one command.
        pitch: bytes from row to row.
        step: bytes that rows begin at multiples of.
        between: rows from the first one of a command to that of the next.
        crowd: commands that share the reservation station, for each of these.
    """

    machine: MachineRates
    rows: Values
    command_rows: Values
    pitch: Values
    step: Values
    between: Values
    crowd: Values

    def move(self, a: Arrays, size: Values, local: Values) -> Moved:
        """Rows of `size` bytes, at most those of a command, each written to `local` rows. The port takes the longest of
        transfers, requests in flight, and commands in flight."""
        machine, rows = self.machine, self.rows
        beat, request = machine.beat, machine.request
        profile = machine.profile
        commands = rows / a.larger(self.command_rows, 1.0)
        if profile.covers:
            requests, beats, _ = covered(a, machine, self.step, size)
            moved = rows * beats * beat
            transfer = moved / a.smaller(machine.bandwidth, beat)
            waiting = (rows * requests * profile.latency + transfer) / machine.requests
            commands = a.where(size > 0, commands * self.crowd, 0.0 * commands)
            queued = held_cycles(a, machine, commands, transfer)
            further = rows * a.larger(requests - 1.0, 0.0)
            return Moved(
                a.larger(a.larger(transfer, waiting), queued), rows * local, moved, commands, further
            )
        place = (a.log2(beat) - 2.0, a.log2(request) - 3.0, a.log2(self.step), a.smaller(size, _LONGEST))
        requests, beats = a.tables(request_table(), *place)
        longer = a.larger(size / _LONGEST, 1.0)
        gap = self.pitch - size
        merged = (gap >= 0) & (gap < beat) & (size > 0)
        span = (self.command_rows - 1.0) * self.pitch + size
        start = a.smaller(self.step * self.between, beat)
        span_bytes = a.up(span / start) * start + beat - start
        # a span begins and ends with smaller requests until it is aligned
        ragged = a.log2(request / beat) * (1.0 - a.smaller(self.step * self.between, request) / request)
        requests = a.where(merged, commands * (span_bytes / request + 0.6 * ragged), rows * requests * longer)
        moved = a.where(merged, commands * span_bytes, rows * beats * beat * longer)
        transfer = moved / a.smaller(machine.bandwidth, beat)
        waiting = (requests * profile.latency + transfer) / machine.requests
        queued = held_cycles(a, machine, a.where(size > 0, commands * self.crowd, 0.0 * commands), transfer)
        return Moved(a.larger(a.larger(transfer, waiting), queued), rows * local, moved)


def covered(a: Arrays, machine: MachineRates, step: Values, size: Values) -> tuple[Values, Values, Values]:
    """Requests, beats, and requests of several beats for `size` bytes in a row that begin at any multiple of `step`, where
    requests bring the most of what is left."""
    place = (
        a.log2(machine.beat) - 2.0,
        a.log2(machine.request) - 3.0,
        a.log2(step),
        a.smaller(size, _LONGEST),
    )
    requests, beats, several = a.tables(request_table(True), *place)
    longer = a.larger(size / _LONGEST, 1.0)
    return requests * longer, beats * longer, several * longer


def held_cycles(a: Arrays, machine: MachineRates, commands: Values, transfer: Values) -> Values:
    """Cycles that commands take since only so many are under way at a time; `transfer` cycles of their data."""
    profile = machine.profile
    if not profile.load_trackers:
        # the unit takes commands in order: those accepted wait behind the one whose rows come in
        inside = QUEUED_LATENCY / (machine.load_queue + 1.0)
        return commands * a.larger(profile.command_latency / machine.load_entries, inside)
    # requests go out one command after the other, and the next one's while the last data of this one come
    trackers = machine.requests / machine.dim + 1.0
    return (commands * (profile.latency + profile.command_latency) + transfer) / trackers


def loaded(
    a: Arrays,
    machine: MachineRates,
    once: Moved,
    times: Values,
    rows: Values,
    columns: Values,
    pitch: Values,
    part: Values,
    fresh: Values = 1.0,
    groups: Values = 1.0,
) -> Moved:
    """A matrix of bytes loaded some times, in tiles of `part` columns; `once` is what that takes from a cache, if there is
    one, and `fresh` the share of its rows that are not loaded twice in that. Of several groups, it is that of one.

    Lines come from main memory the first time, and again where the cache has lost them (`TimingProfile.lost_of`).
    """
    profile = machine.profile
    if not profile.cached:
        repeated: Moved = once * times
        return repeated
    line = profile.line_bytes
    row, hot = pitch, a.larger(once.port, once.rows)
    lines = cache_lines(a, machine, rows, columns, pitch, 1.0, groups)
    # Tiles that begin or end within a line share it with their neighbours, which come when all rows of the tile have; if rows
    # are so far apart that few sets serve them, more of these lines are lost.
    inside = line - a.smaller(a.smaller(a.power(part), a.power(row)), line)
    inside = a.where((row >= line) & (part < columns), inside, 0.0 * inside)
    far = a.where(a.power(row) >= line, a.power(row / line), 1.0)
    lost = profile.lost(rows * a.larger(far * line, part))
    shared_lines = rows * (columns / part - 1.0) * inside / line
    # requests of a row beside its first find the line on its way, and take the place of those that would ask for another
    fill = profile.fill_cycles(lines + lost * shared_lines) + profile.further_cycles * once.further
    # of a line that two share, half on the mean is the second's, and it is there
    others = (1.0 - lost) * inside / a.larger(2.0 * part, line)
    # requests of narrow rows wait for the line that they share
    shared = a.larger(line / row, 1.0) * (profile.latency + profile.miss_cycles) / machine.requests * lines
    latency = profile.latency + profile.command_latency + profile.miss_cycles
    transfer = a.larger(fill, once.bytes / machine.bandwidth)
    queued = (once.commands * latency + transfer) / (machine.requests / machine.dim + 1.0)
    cold = a.larger(a.larger(fill, shared), queued * (1.0 - others))
    cold = a.larger(cold + others * once.port, hot)
    again = hot + (cold - hot) * profile.lost_of(lines * line * fresh)
    cold = hot + (cold - hot) * fresh
    return Moved(
        cold + again * (times - 1.0),
        once.rows * times,
        once.bytes * times,
        once.commands * times,
        once.further * times,
    )


def cache_lines(
    a: Arrays,
    machine: MachineRates,
    rows: Values,
    columns: Values,
    pitch: Values,
    element: Values,
    groups: Values = 1.0,
) -> Values:
    """Lines of the cache that a matrix lies in; of matrices of several groups beside each other in the rows, those that are not
    there yet since they are of another group's, too."""
    line, cache = machine.profile.line_bytes, machine.profile.cache_bytes
    step = a.smaller(a.power(pitch) * element, line)
    # a row begins at any multiple of the step, and reaches into a step that it does not fill
    reach = a.up(columns * element / step) * step + line - step
    lines = rows * a.smaller(pitch * element, reach) / line
    beside = (groups > 1.5) & (pitch > groups * columns - 0.5) & (rows * pitch * element <= cache)
    return a.where(beside, a.smaller(lines, rows * pitch * element / line / groups), lines)


def stored(
    a: Arrays,
    machine: MachineRates,
    busy: Values,
    rows: Values,
    columns: Values,
    pitch: Values,
    *,
    piece: Values,
    element: Values,
    groups: Values = 1.0,
    shift: Values = None,
    running: Values = None,
) -> Values:
    """Cycles of the stores of a matrix, that of one of some groups, in pieces of `piece` elements, which take the store unit `busy`
    cycles: lines of a second-level cache that are written in parts are read first, those that it cannot hold leave it again.
    Neighbouring tiles begin `shift` elements apart, rows if that is not given. `running`: whether a tile's stores may begin
    before those of the one before have ended; none do if that is not given."""
    profile = machine.profile
    if not profile.cached:
        return busy
    line = profile.line_bytes
    lines = cache_lines(a, machine, rows, columns, pitch, element, groups)
    apart = a.smaller(a.power(pitch) * element, line)
    step = apart if shift is None else a.smaller(apart, a.power(shift) * element)
    width = a.smaller(piece, columns) * element
    share = a.smaller(width, step) / line
    beyond = a.larger(1.0 - profile.cache_bytes / a.larger(lines * line, 1.0), 0.0)
    read = a.where(share < 1.0, 1.0 + 0.0 * share, 0.0 * share)
    fill = profile.fill_cycles(lines) * read + lines * profile.line_cycles * beyond
    # parts of a line that has come already are written without waiting; of two lines that a piece begins and ends in, one has
    first = a.where(
        pitch * element < line, width / (columns * element), a.larger(share, width / (2.0 * line))
    )
    if running is not None:
        # they are written beside refills where rows begin at different places of their lines, so that some rows of a piece wait for
        # theirs and others do not
        first = a.where((running > 0.5) & (pitch * element >= line), width / apart, first)
    first = a.smaller(first, 1.0)
    return a.larger(busy * first, fill) + busy * (1.0 - first)


def store_bytes(
    a: Arrays,
    machine: MachineRates,
    rows: Values,
    width: Values,
    pitch: Values,
    *,
    piece: Values,
    element: Values,
) -> Values:
    """Bytes that the channel moves to store rows of `width` elements `pitch` apart, in pieces of `piece` elements."""
    profile = machine.profile
    whole = a.down(width / piece)
    rest = width - whole * piece
    if profile.covers:
        step = a.smaller(a.smaller(a.power(pitch), a.power(piece)) * element, 128.0)

        def written(elements: Values) -> Values:
            _, beats, several = covered(a, machine, step, elements * element)
            return (beats + several * profile.write_cycles) * machine.beat

        return rows * (whole * written(piece + 0.0 * width) + written(rest))
    step = a.smaller(a.smaller(a.power(pitch), a.power(piece)) * element, _BURST)

    def burst(elements: Values) -> Values:
        size = elements * element
        return a.where(size > 0, a.up(size / step) * step + _BURST - step, 0.0 * size)

    pieces = rows * (whole * burst(piece) + burst(rest))
    dense = rows * width * element
    return a.where((pitch - width < 0.5) & (width <= piece), dense, pieces)


@dataclass(frozen=True)
class RowTransfer:
    """What rows of a tensor take on their way: bytes that the channel moves, cycles of the port, and requests."""

    bytes: Values
    beats: Values
    requests: Values

    def __add__(self, other: RowTransfer) -> RowTransfer:
        return RowTransfer(self.bytes + other.bytes, self.beats + other.beats, self.requests + other.requests)


def rows_read(
    a: Arrays, machine: MachineRates, spans: Values, useful: Values, pitch: Values, aligned: Values
) -> RowTransfer:
    """Rows in memory that loads of explicit code fetch, in closed form.

    Args:
        spans: rows.
        useful: bytes of all of them.
        pitch: bytes from row to row.
        aligned: power of two that where rows begin is a multiple of, in bytes.
    """
    beat, width, aligned = machine.beat, _width(a, spans, useful), a.smaller(aligned, MOST_ALIGNED)
    if machine.profile.covers:
        requests, beats, _ = covered(a, machine, aligned, width)
        return RowTransfer(spans * beats * beat, spans * beats, spans * requests)
    merged = (pitch - width < beat) & (pitch >= width - 1e-6)
    beats = a.where(merged, pitch / beat, _mean_beats(a, machine, aligned, width))
    bytes_ = beats * beat
    # requests of a row: as few as its size needs, and more where it begins inside a larger one
    requests = a.larger(bytes_ / machine.request, 1.0)
    odd = (bytes_ > aligned * 1.01) & (bytes_ > beat * 1.01)
    requests = a.where(odd, requests + 0.75, requests)
    requests = a.where(merged, bytes_ / machine.request, requests)
    return RowTransfer(spans * bytes_, spans * beats, spans * requests)


def rows_written(
    a: Arrays, machine: MachineRates, spans: Values, useful: Values, aligned: Values
) -> RowTransfer:
    """Rows in memory that stores of explicit code write; the requests are beats."""
    width, aligned = _width(a, spans, useful), a.smaller(aligned, MOST_ALIGNED)
    if machine.profile.covers:
        requests, beats, several = covered(a, machine, aligned, width)
        busy = spans * (beats + several * machine.profile.write_cycles)
        return RowTransfer(busy * machine.beat, busy, spans * requests)
    beats = _mean_beats(a, machine, aligned, width)
    bytes_ = a.larger(width + _BURST - a.smaller(aligned, _BURST), _BURST)
    return RowTransfer(spans * bytes_, spans * beats, spans * beats)


def _width(a: Arrays, spans: Values, useful: Values) -> Values:
    return useful / a.larger(spans, 1e-9)


def _mean_beats(a: Arrays, machine: MachineRates, aligned: Values, width: Values) -> Values:
    """Of a row whose first byte is at any multiple of `aligned` in its beat."""
    return a.larger(width / machine.beat + 1 - a.smaller(aligned, machine.beat) / machine.beat, 1.0)


@functools.cache
def request_table(covers: bool = False) -> NDArray[np.float64]:
    """Mean requests and beats of a span: [which, log2 beat - 2, log2 largest request - 3, log2 step, bytes].

    The span begins at any multiple of the step, up to 128 bytes; beats are 4 to 64 bytes, requests 8 to 128. With `covers`
    requests bring the most of what is left, and beats without a wanted byte with it; the third entry is then how many of
    them have several beats.
    """
    if covers:
        return _covering_table()
    sizes = np.arange(_LONGEST + 1)
    table = np.zeros((2, 5, 5, 8, _LONGEST + 1))
    for b in range(5):
        beat = 4 << b
        for m in range(5):
            chunks = _chunks(max(1, (8 << m) // beat))
            for s in range(8):
                offsets = np.arange(0, _LONGEST, 1 << s)[:, None]
                first = offsets // beat
                count = (offsets + sizes - 1) // beat - first + 1
                count[:, 0] = 0
                table[0, b, m, s] = chunks[first % len(chunks), count].mean(0)
                table[1, b, m, s] = count.mean(0)
    return table


def _covering_table() -> NDArray[np.float64]:
    """`request_table` of requests that bring the most of what is left, the smallest of those that bring as much."""
    table = np.zeros((3, 5, 5, 8, _LONGEST + 1))
    for b in range(5):
        for m in range(5):
            sizes = [size for size in (4 << b << n for n in range(6)) if size <= max(8 << m, 4 << b)]
            for s in range(8):
                starts = np.arange(0, _LONGEST, 1 << s)[:, None]
                at = np.broadcast_to(starts, (len(starts), _LONGEST + 1)).copy()
                left = np.broadcast_to(np.arange(_LONGEST + 1), at.shape).copy()
                total = np.zeros((3, *at.shape))
                while left.any():
                    brought = np.stack([np.minimum(size - at % size, left) for size in sizes])
                    chosen = brought.argmax(0)  # the first of the largest
                    got = brought.max(0)
                    beats = np.array(sizes)[chosen] // (4 << b)
                    total += np.stack([got > 0, beats * (got > 0), (beats > 1) & (got > 0)])
                    at, left = at + got, left - got
                table[:, b, m, s] = total.mean(1)
    return table


@functools.cache
def _chunks(most: int) -> NDArray[np.int64]:
    """Requests that cover [first beat modulo `most`, number of beats]: aligned powers of two of at most `most` beats."""
    longest = _LONGEST // 4 + 1
    found = np.zeros((most, longest + 1), dtype=np.int64)
    for first in range(most):
        for count in range(1, longest + 1):
            at, end = first, first + count
            while at < end:
                size = 1
                while size * 2 <= most and at % (size * 2) == 0 and at + size * 2 <= end:
                    size *= 2
                at += size
                found[first, count] += 1
    return found


def channel_bytes_per_cycle(accelerator: Accelerator) -> float:
    """What the channel of memory moves in a cycle: main memory's, or that of a second-level cache, as wide as the port."""
    if PROFILES[accelerator.timing].cached:
        return accelerator.dma_bits / 8
    return accelerator.dram_bytes_per_cycle


def bytes_per_cycle(accelerator: Accelerator) -> float:
    """What memory, or the port if that is narrower, moves in a cycle."""
    return min(channel_bytes_per_cycle(accelerator), accelerator.dma_bits / 8)


def read_cycles(accelerator: Accelerator, rows: float, columns: float, pitch: int) -> float:
    """Cycles to load `rows` rows of `columns` bytes, which lie `pitch` bytes apart, of tiles as wide as they are."""
    return _read_cycles(MachineRates.of(accelerator), float(rows), float(columns), float(pitch))


@functools.lru_cache(
    maxsize=65_536
)  # a search asks for the same rows on many accelerators that differ in sizes
def _read_cycles(machine: MachineRates, rows: float, columns: float, pitch: float) -> float:
    width = np.array([columns])
    return float(load_rows(NUMPY, machine, np.array([rows]), width, pitch, shift=np.ceil(width)).port[0])
