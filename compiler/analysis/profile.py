"""What lies between an accelerator's moves and main memory, one set of numbers for each timing (`baco.accel.config.TIMINGS`).

The formulas of `baco.compiler.analysis.traffic`, of the macros and of explicit code are the same for all; what differs is here.
"""

from __future__ import annotations

from dataclasses import dataclass

from baco.compiler.analysis.arrays import Values

#: Cycles from a request's acceptance to its first data. No source fixes one; the simulator's default is 60, and the
#: accelerator takes the data two cycles later.
MEMORY_LATENCY = 62.9
#: Cycles that a load of few rows holds its entry of the reservation station.
COMMAND_LATENCY = 95.0
#: Of these, cycles that it is in the load unit, accepted and not yet written.
QUEUED_LATENCY = 80.0
#: Before the first data and behind the last ones: commands, memory and the way through the accelerator, both ways, as many times
#: the latency of memory.
_BEGIN_AND_END = 4
#: What a table takes until it is in force: its loads, one way through memory, in latencies.
_TABLE = 2
#: 8 ln(8/7), of eight ways.
_LINES_REPLACED = 1.068


@dataclass(frozen=True)
class TimingProfile:
    """What the formulas of one timing are told of moves and of the array.

    Attributes:
        latency: cycles from a request's acceptance to its first data.
        command_latency: cycles that a load holds its place beside that and the transfer of its data.
        covers: whether every row is requested by itself, each request the one of those up to the largest that brings most of
            what the row still needs; else rows less than a beat apart are requested together, and no beat without a wanted
            byte.
        load_trackers: whether few loads are under way at a time: one for every array's side of requests in flight, and one
            more; else as many as the reservation station has entries.
        line_bytes, line_cycles: of a second-level cache, and cycles in which main memory fills a line; 0 without a cache.
        cache_bytes: its capacity. Hits come at the width of the port.
        miss_cycles: more than `latency` until the first data of a line that has to be filled are there.
        victim_cycles: more than `line_cycles` for a line, where each takes the place of another, which has to be released first; of
            lines that follow each other without a gap.
        further_cycles: of a request beside the first of a row, where lines have to be filled.
        copies_rows: whether every copy of a packed pixel is written by itself; else only those of a command's last pixel take
            cycles of their own.
        passes_inside: passes that are on their way through the array at most, and then a block of weights comes in row by row
            with the last pass before it; 0 for as many as the reservation station has.
        store_pace: cycles of a row of the accumulator on its way out.
        write_cycles: of the port, beside the data of a write of several beats.
        in_turn: whether what explicit code issues behind more moves than the reservation station has entries for waits for these.
        runs_wait: whether runs of the loop macros wait for each other so much that unequal ones have to be gone through one by one
            (`baco.compiler.styles.macros.pipeline`).
    """

    latency: float = MEMORY_LATENCY
    command_latency: float = COMMAND_LATENCY
    covers: bool = False
    load_trackers: bool = False
    line_bytes: float = 0.0
    line_cycles: float = 0.0
    cache_bytes: float = 0.0
    miss_cycles: float = 0.0
    victim_cycles: float = 0.0
    further_cycles: float = 0.0
    copies_rows: bool = False
    passes_inside: float = 0.0
    store_pace: float = 1.0
    write_cycles: float = 0.0
    in_turn: bool = False
    runs_wait: bool = False

    @property
    def begin_and_end(self) -> float:
        """Cycles from the first command to its data, and from the last data to their end."""
        return _BEGIN_AND_END * self.latency

    @property
    def table(self) -> float:
        """Cycles until a table is in force."""
        return _TABLE * self.latency

    @property
    def cached(self) -> bool:
        """Whether there is a second-level cache."""
        return self.cache_bytes > 0

    def fill_cycles(self, lines: Values) -> Values:
        """Cycles in which main memory fills so many lines of a cache that is empty at first.

        Ways are replaced at random, free ones, too, so that of the lines which a set of w ways has taken in, the next one finds a
        victim with the probability 1 - (1 - 1/w)^n. Releases hold refills up only where most of them have one: by its square,
        whose mean over n lines is y² / (y² + 1.5 y + 3) within 0.02, of y = n ln(w / (w - 1)).
        """
        if not self.victim_cycles:
            return lines * self.line_cycles
        turns = _LINES_REPLACED * lines * self.line_bytes / self.cache_bytes
        square = turns * turns
        return lines * (self.line_cycles + self.victim_cycles * square / (square + 1.5 * turns + 3.0))

    def lost(self, between: Values) -> Values:
        """Share of a cache's lines that are not there any more when so many bytes of others have come in: ways are replaced at random, so
        that of n lines in a set each leaves one that it had with the probability ((w - 1) / w)^n, e^-x with x = n ln(w / (w - 1)),
        which is 1 / (1 + x + x²/2 + x³/6) within 0.03."""
        x = _LINES_REPLACED * between / self.cache_bytes
        return 1.0 - 1.0 / (1.0 + x * (1.0 + x * (0.5 + x / 6.0)))

    def lost_of(self, matrix: Values) -> Values:
        """Share of the lines of so many bytes that are not there any more when all have come: the mean of `lost` over what came behind each."""
        x = _LINES_REPLACED * matrix / self.cache_bytes
        return x * (0.5 + x * (1.0 / 3.0 + x / 6.0)) / (1.0 + x * (1.0 + x * (0.5 + x / 6.0)))


#: By timing. `baco`: the simulator's main memory (`sim/cpp/dram.h`), without a cache. `gemmini`: the Rocket system of
#: `sim/cpp/gemmini_bus.h`, whose cycles of hits, misses and writes these are; an inclusive cache of 512 KiB, main memory of 8
#: bytes a cycle behind it (a line of 64 bytes in 8), the queue of six tags of `gemmini_execute.cpp`, and the scaling pipeline
#: of `gemmini_store.h`, which lets five rows pass in eight cycles. Nothing of it is fitted here: what victims cost is what the lines
#: of long streams take there, 11.2 cycles each, beyond 8.
PROFILES = {
    "baco": TimingProfile(),
    "gemmini": TimingProfile(
        latency=14.0,
        command_latency=1.0,
        covers=True,
        load_trackers=True,
        line_bytes=64.0,
        line_cycles=8.0,
        cache_bytes=512.0 * 1024,
        miss_cycles=15.0,
        victim_cycles=3.2,
        further_cycles=1.0,
        copies_rows=True,
        passes_inside=6.0,
        store_pace=1.6,
        write_cycles=1.0,
        in_turn=True,
        runs_wait=True,
    ),
}
