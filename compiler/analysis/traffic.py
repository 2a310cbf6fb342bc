"""What the accelerator's memory port and main memory do when rows of a tensor are moved.

A load command brings rows as wide as a request. Rows that follow each other in memory with less than a beat between them
are one span, else every row is one; a span is covered by naturally aligned requests of powers of two, from a beat to the
largest request. The number in flight and the latency of memory limit the rate of small requests, the entries of the
reservation station that of small commands. (The original rounds requests up instead, timing page, section 6, which
costs about as much.)
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accel.config import Accelerator
from compiler.analysis.arrays import NUMPY, Arrays, Values

__all__ = [
    "COMMAND_LATENCY",
    "MEMORY_LATENCY",
    "MachineRates",
    "Moved",
    "bytes_per_cycle",
    "load_rows",
    "read_cycles",
    "request_table",
    "store_bytes",
]

Numbers = NDArray[np.float64]
#: Cycles from a request's acceptance to its first data. No source fixes one; the simulator's default is 60, and the
#: accelerator takes the data two cycles later.
MEMORY_LATENCY = 62.9
#: Cycles that a load of few rows holds its entry of the reservation station.
COMMAND_LATENCY = 95.0
#: The channel of main memory moves aligned pieces of so many bytes (`sim.job.MainMemory`).
_BURST = 8.0
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
        load_entries, execute_entries: of the reservation station.
        array_speed, host_speed: how many times as fast as built array and host core are, to ask what that would give.
    """

    dim: Values
    beat: Values
    request: Values
    requests: Values
    bandwidth: Values
    load_entries: Values
    execute_entries: Values
    array_speed: Values = 1.0
    host_speed: Values = 1.0

    @classmethod
    def of(cls, accelerator: Accelerator) -> MachineRates:
        """The numbers of one accelerator."""
        return cls(
            float(accelerator.dim),
            accelerator.dma_bits / 8,
            float(accelerator.dma_max_bytes),
            float(accelerator.dma_requests),
            accelerator.dram_bytes_per_cycle,
            float(accelerator.load_entries),
            float(accelerator.execute_entries),
        )


@dataclass(frozen=True)
class Moved:
    """What loads take: cycles of the memory port, rows of the local memories, bytes that the channel of memory moves."""

    port: Values
    rows: Values
    bytes: Values

    def __add__(self, other: Moved) -> Moved:
        return Moved(self.port + other.port, self.rows + other.rows, self.bytes + other.bytes)

    def __mul__(self, times: Values) -> Moved:
        return Moved(self.port * times, self.rows * times, self.bytes * times)


def load_rows(
    a: Arrays,
    machine: MachineRates,
    rows: Values,
    width: Values,
    pitch: Values,
    *,
    element: float = 1.0,
    command_rows: Values = None,
    between: Values = None,
    shift: Values = 128.0,
    crowd: Values = 1.0,
) -> Moved:
    """Rows of `width` elements that lie `pitch` elements apart, brought by commands as wide as requests are.

    Args:
        element: bytes.
        command_rows: rows of a command; `dim` (or all there are) if not given.
        between: rows from the first one of a command to that of the next; `dim` if not given.
        shift: elements by which neighbouring tiles begin apart, for the alignment of rows.
        crowd: commands that share the reservation station, for each of these.
    """
    if command_rows is None:
        command_rows = rows / a.larger(a.up(rows / machine.dim), 1.0)
    step = a.smaller(a.smaller(a.power(pitch), a.power(shift)) * element, 128.0)
    commands = _Commands(
        machine, rows, command_rows, pitch * element, step, machine.dim if between is None else between, crowd
    )
    widest = a.larger(machine.request / element, machine.dim)
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
        commands = rows / a.larger(self.command_rows, 1.0)
        requests = a.where(merged, commands * (span_bytes / request + 0.6 * ragged), rows * requests * longer)
        moved = a.where(merged, commands * span_bytes, rows * beats * beat * longer)
        transfer = moved / a.smaller(machine.bandwidth, beat)
        waiting = (requests * MEMORY_LATENCY + transfer) / machine.requests
        queued = (
            a.where(size > 0, commands * self.crowd, 0.0 * commands) * COMMAND_LATENCY / machine.load_entries
        )
        return Moved(a.larger(a.larger(transfer, waiting), queued), rows * local, moved)


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
    step = a.smaller(a.smaller(a.power(pitch), a.power(piece)) * element, _BURST)
    whole = a.down(width / piece)
    rest = width - whole * piece

    def burst(elements: Values) -> Values:
        size = elements * element
        return a.where(size > 0, a.up(size / step) * step + _BURST - step, 0.0 * size)

    pieces = rows * (whole * burst(piece) + burst(rest))
    dense = rows * width * element
    return a.where((pitch - width < 0.5) & (width <= piece), dense, pieces)


@functools.cache
def request_table() -> NDArray[np.float64]:
    """Mean requests and beats of a span: [which, log2 beat - 2, log2 largest request - 3, log2 step, bytes].

    The span begins at any multiple of the step, up to 128 bytes; beats are 4 to 64 bytes, requests 8 to 128.
    """
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


def bytes_per_cycle(accelerator: Accelerator) -> float:
    """What memory, or the port if that is narrower, moves in a cycle."""
    return min(accelerator.dram_bytes_per_cycle, accelerator.dma_bits / 8)


def read_cycles(accelerator: Accelerator, rows: Numbers, columns: Numbers, pitch: int) -> Numbers:
    """Cycles to load `rows` rows of `columns` bytes, which lie `pitch` bytes apart, of tiles as wide as they are."""
    port: Numbers = load_rows(
        NUMPY, MachineRates.of(accelerator), rows, columns, float(pitch), shift=np.ceil(columns)
    ).port
    return port
