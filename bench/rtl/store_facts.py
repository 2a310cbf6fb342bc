"""Timing of stores (section 7 of the original's description), with a memory that is never the bottleneck."""

from __future__ import annotations

from collections.abc import Callable

from baco.bench.rtl.facts import Fact
from baco.bench.rtl.probe import Probe, done, issued, period
from baco.bench.rtl.stream import BASE, accumulator

__all__ = ["STORE_FACTS"]

_COMMANDS = 24
#: Cycles from a beat, through its acknowledgement by the fast memory, to the end of the stream.
_BEAT_TO_END = 3


def _rate(
    *, blocks: int = 1, from_accumulator: bool = True, full: bool = False, rows: int | None = None
) -> Callable[[Probe], float]:
    """Cycles a command when stores of `rows` (default dim) rows of `blocks` blocks follow each other."""

    def run(probe: Probe) -> float:
        dim, stream = probe.accelerator.dim, probe.stream()
        stream.emit("CONFIG_ST", stride=dim * blocks * (4 if full else 1), acc_scale=0.5)
        for n in range(_COMMANDS):
            at = n % 2 * 4 * dim
            stream.store(
                BASE, accumulator(at, full=full) if from_accumulator else at, cols=dim * blocks, rows=rows
            )
        return period(probe.run(stream).stores())

    return run


def _pooled(probe: Probe) -> float:
    """Cycles a read when 2x2 windows of an 8x8 tile are pooled, stride 2."""
    dim, stream = probe.accelerator.dim, probe.stream()
    stream.emit(
        "CONFIG_ST",
        stride=dim,
        pool_stride=2,
        pool_size=2,
        pool_out_dim=4,
        porows=4,
        pocols=4,
        orows=8,
        ocols=8,
    )
    for _ in range(_COMMANDS):
        stream.store(BASE, accumulator(0), rows=1)
    return period(probe.run(stream).stores()) / 64


def _gap(probe: Probe) -> float:
    """Cycles between the reads of one store and those of the next."""
    return _rate(from_accumulator=False, rows=4)(probe) - 4


def _first(from_accumulator: bool) -> Callable[[Probe], float]:
    """Store of a row issued -> its first beat on the bus."""

    def run(probe: Probe) -> float:
        dim, stream = probe.accelerator.dim, probe.stream()
        stream.emit("CONFIG_ST", stride=dim, acc_scale=0.5)
        stream.fence()
        stream.store(BASE, accumulator(0) if from_accumulator else 0, rows=1)
        time = probe.run(stream)
        assert time.result.cycles is not None
        return time.result.cycles - issued(time.stores()[0]) - _BEAT_TO_END

    return run


def _ordered(probe: Probe) -> float:
    """A store's end -> issue of the next."""
    stream = probe.stream()
    stream.emit("CONFIG_ST", stride=probe.accelerator.dim)
    stream.fence()
    for n in range(2):
        stream.store(BASE, n * probe.accelerator.dim)
    first, second = probe.run(stream).stores()
    return issued(second) - done(first)


STORE_FACTS: tuple[Fact, ...] = (
    Fact(
        "store_issue",
        "end of a store -> issue of the next",
        "2",
        lambda d: 1,
        "cycles",
        _ordered,
        "one at a time there; negative: issued before",
    ),
    Fact(
        "store_gap", "stores: cycles between the reads of one and the next", "7", lambda d: 4, "cycles", _gap
    ),
    Fact(
        "store_spad",
        "stores of a block of the scratchpad",
        "7",
        lambda d: d + 4,
        "cycles/command",
        _rate(from_accumulator=False),
        "with the gap",
    ),
    Fact(
        "store_1",
        "stores of a block, scaled",
        "7",
        lambda d: 1.61 * d + 4,
        "cycles/command",
        _rate(),
        "with the gap",
    ),
    Fact(
        "store_4",
        "stores of 4 blocks, scaled",
        "7",
        lambda d: 7 * d + 4,
        "cycles/command",
        _rate(blocks=4),
        "with the gap",
    ),
    Fact(
        "store_full",
        "stores of a block of 32-bit elements",
        "7",
        lambda d: 4 * d,
        "cycles/command",
        _rate(full=True),
    ),
    Fact(
        "store_pool",
        "pooled stores, 2x2 windows, per window element",
        "7",
        lambda d: 1,
        "cycles/read",
        _pooled,
    ),
    Fact(
        "store_first_acc",
        "store of an accumulator row issued -> its first beat",
        "7",
        lambda d: 15,
        "cycles",
        _first(True),
    ),
    Fact(
        "store_first_spad",
        "store of a scratchpad row issued -> its first beat",
        "7",
        lambda d: 8,
        "cycles",
        _first(False),
    ),
)
