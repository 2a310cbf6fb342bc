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
from functools import cached_property

import numpy as np

from baco.accel.config import Accelerator
from baco.compiler.analysis.arrays import NUMPY, Arrays, Values
from baco.compiler.analysis.profile import PROFILES, QUEUED_LATENCY, TimingProfile
from baco.compiler.analysis.requests import LONGEST, request_table

#: The channel of main memory moves aligned pieces of so many bytes (`baco.sim.job.MainMemory`).
_BURST = 8.0
#: Alignment of rows, in bytes, beyond which more makes no difference.
MOST_ALIGNED = 64.0


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
        return Moved(*(0.0 if _is_zero(part) else part * times for part in vars(self).values()))


def _is_zero(part: Values) -> bool:
    """Whether it is nothing for a whole batch."""
    return isinstance(part, float) and part == 0.0


@dataclass(frozen=True)
class RowLoads:
    """Commands, as wide as requests are, that bring rows of a matrix.

    Attributes:
        rows, command_rows: of all, of one command.
        pitch: bytes from row to row.
        element: bytes.
        step: bytes that rows begin at multiples of.
        between: rows from the first one of a command to that of the next.
        crowd: commands that share the reservation station, for each of these.
    """

    a: Arrays
    machine: MachineRates
    rows: Values
    command_rows: Values
    pitch: Values
    element: Values
    step: Values
    between: Values
    crowd: Values

    @classmethod
    def of(
        cls,
        a: Arrays,
        machine: MachineRates,
        rows: Values,
        pitch: Values,
        *,
        element: Values = 1.0,
        command_rows: Values = None,
        between: Values = None,
        shift: Values = 128.0,
        crowd: Values = 1.0,
    ) -> RowLoads:
        """Of rows that lie `pitch` elements apart.

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
        between = machine.dim if between is None else between
        return cls(a, machine, rows, command_rows, pitch * element, element, step, between, crowd)

    def moved(self, width: Values) -> Moved:
        """What rows of `width` elements take."""
        a, machine, widest = self.a, self.machine, self._widest
        whole = a.down(width / widest)
        rest = width - whole * widest
        moved = self._move(rest * self.element, a.up(rest / machine.dim))
        return moved + self._widest_moved * whole if a.some(whole > 0) else moved

    @cached_property
    def _widest(self) -> Values:
        """Elements of a row that a command brings."""
        least = (
            max(self.element, 1.0) if isinstance(self.element, float) else self.a.larger(self.element, 1.0)
        )
        return self.a.larger(self.machine.request / least, self.machine.dim)

    @cached_property
    def _widest_moved(self) -> Moved:
        return self._move(self._widest * self.element, self._widest / self.machine.dim)

    @cached_property
    def _commands(self) -> Values:
        return self.rows / self.a.larger(self.command_rows, 1.0)

    @cached_property
    def _crowded(self) -> Values:
        """Commands, and those that share the reservation station with them."""
        return self._commands * self.crowd

    @cached_property
    def _rate(self) -> Values:
        """Bytes a cycle between memory and accelerator."""
        return self.a.smaller(self.machine.bandwidth, self.machine.beat)

    @cached_property
    def _held(self) -> Values:
        return command_cycles(self.a, self.machine)

    @cached_property
    def _place(self) -> Values:
        return request_place(self.a, self.machine, self.step)

    @cached_property
    def _start(self) -> Values:
        """Bytes of a beat that commands begin at multiples of."""
        return self.a.smaller(self.step * self.between, self.machine.beat)

    @cached_property
    def _ragged(self) -> Values:
        """Smaller requests that a span begins and ends with until it is aligned."""
        a, request = self.a, self.machine.request
        steps = a.smaller(self.step * self.between, request)
        return a.log2(request / self.machine.beat) * (1.0 - steps / request)

    def _move(self, size: Values, local: Values) -> Moved:
        """Rows of `size` bytes, at most those of a command, each written to `local` rows. The port takes the longest of
        transfers, requests in flight, and commands in flight."""
        a, machine, rows, commands = self.a, self.machine, self.rows, self._commands
        beat, request, profile = machine.beat, machine.request, machine.profile
        some = size > 0
        issued = a.where(some, self._crowded, 0.0)
        if profile.covers:
            requests, beats, _ = covered(a, machine, self._place, size)
            moved = rows * beats * beat
            transfer = moved / self._rate
            waiting = (rows * requests * profile.latency + transfer) / machine.requests
            queued = held_cycles(machine, issued, transfer, self._held)
            further = rows * a.larger(requests - 1.0, 0.0)
            return Moved(a.larger(a.larger(transfer, waiting), queued), rows * local, moved, issued, further)
        requests, beats = a.between(request_table(), self._place, a.smaller(size, LONGEST))
        longer = a.larger(size / LONGEST, 1.0)
        gap = self.pitch - size
        merged = (gap >= 0) & (gap < beat) & some
        span = (self.command_rows - 1.0) * self.pitch + size
        span_bytes = a.up(span / self._start) * self._start + beat - self._start
        requests = a.where(
            merged, commands * (span_bytes / request + 0.6 * self._ragged), rows * requests * longer
        )
        moved = a.where(merged, commands * span_bytes, rows * beats * beat * longer)
        transfer = moved / self._rate
        waiting = (requests * profile.latency + transfer) / machine.requests
        queued = held_cycles(machine, issued, transfer, self._held)
        return Moved(a.larger(a.larger(transfer, waiting), queued), rows * local, moved)


def request_place(a: Arrays, machine: MachineRates, step: Values) -> Values:
    """The place in `request_table` of spans that begin at any multiple of `step` bytes."""
    table = request_table(machine.profile.covers)
    return a.place(table, a.log2(machine.beat) - 2.0, a.log2(machine.request) - 3.0, a.log2(step))


def covered(a: Arrays, machine: MachineRates, place: Values, size: Values) -> tuple[Values, Values, Values]:
    """Requests, beats, and requests of several beats for `size` bytes in a row that begin at a `request_place`, where
    requests bring the most of what is left."""
    requests, beats, several = a.between(request_table(True), place, a.smaller(size, LONGEST))
    longer = a.larger(size / LONGEST, 1.0)
    return requests * longer, beats * longer, several * longer


def command_cycles(a: Arrays, machine: MachineRates) -> Values:
    """Cycles that a command holds up those behind it, beside the transfer of its data."""
    profile = machine.profile
    if profile.load_trackers:
        return profile.latency + profile.command_latency
    # the unit takes commands in order: those accepted wait behind the one whose rows come in
    inside = QUEUED_LATENCY / (machine.load_queue + 1.0)
    return a.larger(profile.command_latency / machine.load_entries, inside)


def held_cycles(machine: MachineRates, commands: Values, transfer: Values, held: Values) -> Values:
    """Cycles that commands take since only so many are under way at a time, each for the `command_cycles` `held`; `transfer` cycles of
    their data."""
    if not machine.profile.load_trackers:
        return commands * held
    # requests go out one command after the other, and the next one's while the last data of this one come
    trackers = machine.requests / machine.dim + 1.0
    return (commands * held + transfer) / trackers


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
        place = request_place(a, machine, step)

        def written(elements: Values) -> Values:
            _, beats, several = covered(a, machine, place, elements * element)
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
        requests, beats, _ = covered(a, machine, request_place(a, machine, aligned), width)
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
        requests, beats, several = covered(a, machine, request_place(a, machine, aligned), width)
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
    loads = RowLoads.of(NUMPY, machine, np.array([rows]), pitch, shift=np.ceil(width))
    return float(loads.moved(width).port[0])
