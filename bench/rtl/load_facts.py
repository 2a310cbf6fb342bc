"""Timing of loads (section 6 of the original's description), with a memory that is never the bottleneck."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from baco.bench.rtl.probe import Probe, issued, period
from baco.bench.rtl.stream import BASE, accumulator

_COMMANDS = 32


def _rate(
    *,
    blocks: int = 1,
    to_accumulator: bool = False,
    zero: bool = False,
    rows: int | None = None,
    **config: Any,
) -> Callable[[Probe], float]:
    """Cycles a command when loads of `rows` (default dim) rows of `blocks` blocks follow each other."""

    def run(probe: Probe) -> float:
        dim, stream = probe.accelerator.dim, probe.stream()
        element = 4 if to_accumulator and not config.get("shrink") else 1
        stream.config_load(dim * blocks * element, **config)
        for n in range(_COMMANDS):
            at = n % 2 * 4 * dim
            local = accumulator(at) if to_accumulator else at
            # of repeated pixels, the copies lie below the address
            stream.load(
                0 if zero else BASE,
                local + (dim if "pixel_repeats" in config else 0),
                cols=dim * blocks // config.get("pixel_repeats", 1),
                rows=rows,
            )
        return period(probe.run(stream).loads())

    return run


def _latency(probe: Probe) -> float:
    """Load of one row issued -> dependent pass issued, without the time in memory."""
    dim, stream = probe.accelerator.dim, probe.stream()
    stream.emit("CONFIG_EX", dataflow=1)
    stream.config_load(dim)
    stream.fence()
    stream.load(BASE, 0, rows=1)
    stream.product(0, accumulator(0), keep=False)  # the array holds nothing yet that could be kept
    time = probe.run(stream)
    spent = time.result.counters["memory_read_latency_sum_cycles"]
    return issued(time.computes()[0]) - issued(time.loads()[0]) - spent


def _front(probe: Probe) -> float:
    """Command accepted -> issued."""
    stream = probe.stream()
    stream.config_load(probe.accelerator.dim)
    time = probe.run(stream)
    return issued(time.load[0]) - time.front[0].allocated


def _loop_start(probe: Probe) -> float:
    """LOOP_WS accepted -> its first load allocated."""
    dim, stream = probe.accelerator.dim, probe.stream()
    stream.emit("CONFIG_EX", dataflow=1)
    for state in range(3):
        stream.config_load(dim, state=state)
    stream.emit("CONFIG_ST", stride=dim)
    stream.emit("LOOP_WS_CONFIG_BOUNDS", i=1, j=1, k=1)
    stream.emit("LOOP_WS_CONFIG_ADDRS_AB", a=BASE, b=BASE)
    stream.emit("LOOP_WS_CONFIG_ADDRS_DC", c=BASE)
    stream.emit("LOOP_WS_CONFIG_STRIDES_AB", a_stride=dim, b_stride=dim)
    stream.emit("LOOP_WS_CONFIG_STRIDES_DC", c_stride=dim)
    stream.emit("LOOP_WS")
    time = probe.run(stream)
    return time.loads()[0].allocated - time.front[-1].allocated


def _wide(probe: Probe) -> int:
    """Blocks of the widest load."""
    return max(1, probe.accelerator.dma_max_bytes // probe.accelerator.dim)


def _widest(probe: Probe) -> float:
    return _rate(blocks=_wide(probe))(probe) / _wide(probe)


#: What measures each of the facts in `facts.csv`.
LOAD_FACTS: dict[str, Callable[[Probe], float]] = {
    "front": _front,
    "loop_start": _loop_start,
    "load_1": _rate(),
    "load_wide": _widest,
    "load_row": _rate(rows=1),
    "load_scaled": _rate(scale=0.5),
    "load_full": _rate(to_accumulator=True),
    "load_shrunk": _rate(to_accumulator=True, shrink=1),
    "load_zero": _rate(zero=True),
    "load_repeat": _rate(pixel_repeats=2),
    "load_latency": _latency,
}
