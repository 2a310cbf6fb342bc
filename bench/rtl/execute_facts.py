"""Timing of matrix products: pass lengths, latencies, what drains the array, bank conflicts.

Figures of the original (`facts.csv`) are those of an array of 1x1 tiles whose operands lie in different banks of 1/4 of the
scratchpad each (sections 3 to 5 of its description). Its latency from operand read to result row is 2 * dim + 3: operand 2, register
1, array 2 * dim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from baco.accel.isa import GARBAGE
from baco.bench.rtl.probe import Probe, Timeline, done, issued, period
from baco.bench.rtl.stream import BASE, StreamText, accumulator

#: Cycles from the issue of a COMPUTE to the first read of its operand, and from the presentation of a result row at the
#: array's south end to the PRELOAD's being reported done: both in our RTL; the first is the original's, too (section 3.1).
_ISSUE_TO_READ, _OUT_TO_DONE = 2, 1
_PASSES = 64
#: Banks (of our scratchpad, rows modulo their number) apart from that of A, so that first rows do not meet.
_STATIONARY, _MOVING = 1, 2


def _rows(probe: Probe, share: float, bank: int = 0) -> int:
    """A scratchpad row at a share of the memory."""
    return int(probe.accelerator.scratchpad_rows * share) // 64 * 64 + bank


def _latency(time: Timeline, index: int) -> float:
    """First read of pass `index` -> last result row at the array's end."""
    written, compute = time.preloads()[index], time.computes()[index]
    return done(written) - _OUT_TO_DONE - issued(compute) - _ISSUE_TO_READ


def _isolated(*, dataflow: int = 1, warm: bool = True, **product: Any) -> Callable[[Probe], float]:
    """Latency of one pass on an array where weights are (`warm`), with nothing else under way."""

    def run(probe: Probe) -> float:
        stream = probe.stream()
        stream.emit("CONFIG_EX", dataflow=dataflow)
        if warm:
            stream.product(0, accumulator(0), stationary=_rows(probe, 0.25, _STATIONARY))
        stream.fence()
        arguments = {name: value(probe) if callable(value) else value for name, value in product.items()}
        stream.product(0, accumulator(probe.accelerator.dim), **arguments)
        return _latency(probe.run(stream), int(warm))

    return run


def _sustained(
    *,
    dataflow: int = 1,
    weights: bool = False,
    bias: float | None = None,
    a_share: float = 0.0,
    b_share: float = 0.25,
    rows: int = 0,
    inner: int = 0,
    part: int = 1,
    aligned: bool = False,
    each_result: bool = True,
    **config: Any,
) -> Callable[[Probe], float]:
    """Cycles a pass when passes follow each other.

    Args:
        weights: every pass brings a new stationary operand.
        bias: share of the scratchpad where the operand of COMPUTE lies; None for garbage.
        a_share, b_share: the same for A and the stationary operand.
        rows, inner: of A; 0 for dim / part and dim.
        aligned: all operands begin in the same of our banks.
        each_result: every pass has a result.
        config: fields of CONFIG_EX.
    """

    def run(probe: Probe) -> float:
        dim, stream = probe.accelerator.dim, probe.stream()
        b_bank, d_bank = (0, 0) if aligned else (_STATIONARY, _MOVING)
        stream.emit("CONFIG_EX", dataflow=dataflow, **config)
        stream.product(
            0,
            stationary=_rows(probe, b_share, b_bank),
            moving=_rows(probe, 0.5, _MOVING) if not dataflow else GARBAGE,
        )
        stream.fence()
        for n in range(_PASSES):
            at = n % 4 * dim
            stream.product(
                _rows(probe, a_share) + at,
                accumulator(at) if each_result else GARBAGE,
                stationary=_rows(probe, b_share, b_bank) + at if weights else GARBAGE,
                moving=GARBAGE if bias is None else _rows(probe, bias, d_bank) + at,
                rows=rows or dim // part,
                inner=inner or dim,
            )
        return period(probe.run(stream).computes()[1:])

    return run


def _flush(probe: Probe) -> float:
    """Output-stationary: last row fed -> last result row at the array's end, when nothing follows."""
    stream = probe.stream()
    stream.emit("CONFIG_EX", dataflow=0)
    stream.product(
        0, accumulator(0), stationary=_rows(probe, 0.25, _STATIONARY), moving=_rows(probe, 0.5, _MOVING)
    )
    time = probe.run(stream)
    # a COMPUTE is done when its last row enters the array, which the original counts as fed two cycles earlier
    return done(time.preloads()[0]) - _OUT_TO_DONE - (done(time.computes()[0]) - _ISSUE_TO_READ)


def _config(**fields: Any) -> Callable[[Probe], float]:
    """Cycles that a CONFIG_EX between passes adds."""

    def run(probe: Probe) -> float:
        dim, stream = probe.accelerator.dim, probe.stream()
        stream.emit("CONFIG_EX", dataflow=1)
        stream.product(0, stationary=_rows(probe, 0.25, _STATIONARY))
        for n in range(8):
            stream.product(n * dim, accumulator(n * dim))
        stream.emit("CONFIG_EX", **fields)
        os = fields["dataflow"] == 0
        stream.product(0, accumulator(0), keep=not os, moving=_rows(probe, 0.5, _MOVING) if os else GARBAGE)
        computes = probe.run(stream).computes()
        return done(computes[9]) - done(computes[8]) - dim

    return run


def _busy_passes(stream: StreamText, count: int) -> None:
    for n in range(count):
        stream.product(n % 4 * stream.dim, accumulator(0, accumulate=True))


def _store_beside(probe: Probe) -> float:
    """Cycles of a store of one block while passes accumulate into other rows of what is one bank there."""
    dim, stream = probe.accelerator.dim, probe.stream()
    stream.emit("CONFIG_EX", dataflow=1)
    stream.emit("CONFIG_ST", stride=dim, acc_scale=1.0)
    stream.product(0, stationary=_rows(probe, 0.25, _STATIONARY))
    _busy_passes(stream, 12)
    stream.store(BASE, accumulator(4 * dim))
    _busy_passes(stream, 32)
    store = probe.run(stream).stores()[0]
    return done(store) - issued(store)


def _load_beside(probe: Probe) -> float:
    """Cycles that passes lose while 16 blocks are loaded into the bank that A is read from."""
    dim = probe.accelerator.dim

    def length(loads: bool) -> int:
        stream = probe.stream()
        stream.emit("CONFIG_EX", dataflow=1)
        stream.config_load(dim)
        stream.product(0, stationary=_rows(probe, 0.25, _STATIONARY))
        for n in range(48):
            stream.product(n % 4 * dim, accumulator(0, accumulate=True))
            if loads and n % 2 == 0 and n < 32:
                stream.load(BASE, (8 + n) * dim)
        computes = probe.run(stream).computes()
        return done(computes[-1]) - done(computes[0])

    return length(True) - length(False)


def _stage(share: float) -> Callable[[Probe], int]:
    return lambda probe: _rows(probe, share, _STATIONARY)


#: What measures each of the facts in `facts.csv`.
EXECUTE_FACTS: dict[str, Callable[[Probe], float]] = {
    "ws_row": _isolated(rows=1),
    "ws_block": _isolated(),
    "ws_block_weights": _isolated(warm=False, stationary=_stage(0.25)),
    "ws_garbage": _isolated(keep=False),
    "ws_pass": _sustained(),
    "ws_pass_weights": _sustained(weights=True),
    "ws_pass_half": _sustained(part=2),
    "ws_pass_4": _sustained(rows=4),
    "ws_pass_half_weights": _sustained(weights=True, part=2),
    "ws_pass_at": _sustained(a_transpose=1),
    "ws_pass_bt": _sustained(weights=True, b_transpose=1),
    "os_pass": _sustained(dataflow=0, bias=0.5, each_result=False),
    "os_pass_short": _sustained(dataflow=0, bias=0.5, each_result=False, inner=4),
    "os_pass_new": _sustained(dataflow=0, weights=True, bias=0.5),
    "os_flush": _flush,
    "config_ex": _config(dataflow=1),
    "config_ex_strides": _config(dataflow=1, set_only_strides=1),
    "config_ex_dataflow": _config(dataflow=0),
    "conflict_2": _sustained(bias=0.125, aligned=True),
    "conflict_3": _sustained(weights=True, bias=0.125, b_share=0.1875, aligned=True),
    "conflict_stride_weights": _sustained(weights=True, a_stride=2),
    "conflict_stride": _sustained(bias=0.5, a_stride=4),
    "load_beside": _load_beside,
    "store_beside": _store_beside,
}
