"""Timing of stores (section 7 of the original's description), with a memory that is never the bottleneck."""

from __future__ import annotations

from collections.abc import Callable

from baco.bench.rtl.probe import Probe, done, issued, period
from baco.bench.rtl.stream import BASE, accumulator

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


#: What measures each of the facts in `facts.csv`.
STORE_FACTS: dict[str, Callable[[Probe], float]] = {
    "store_issue": _ordered,
    "store_gap": _gap,
    "store_spad": _rate(from_accumulator=False),
    "store_1": _rate(),
    "store_4": _rate(blocks=4),
    "store_full": _rate(full=True),
    "store_pool": _pooled,
    "store_first_acc": _first(True),
    "store_first_spad": _first(False),
}
