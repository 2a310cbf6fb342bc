"""Which command wrote an element: for messages about wrong results."""

from __future__ import annotations

from dataclasses import dataclass

from baco.accel.isa import decode
from baco.sim.trace.log import Log, LogEntry

_ACCUMULATOR, _READ_FULL = 1 << 31, 1 << 29


@dataclass
class _Store:
    """What CONFIG_ST said: bytes between rows, and the image that windows leave."""

    stride: int = 0
    columns: int = 0  # stored pixels of a row of the tile; 0 without windows
    rows: int = 0
    pitch: int = 0  # pixels from one stored row to the next


def last_writer(log: Log, address: int) -> LogEntry | None:
    """The last MVOUT, by the order of the program, that wrote the byte at `address` of main memory; None if none did."""
    state, latest = _Store(), None
    for entry in sorted(log.entries, key=lambda one: one.allocated):
        if entry.unit != "store":
            continue
        if entry.name == "CONFIG_ST":
            state = _configured(entry)
        elif entry.name == "MVOUT" and _writes(entry, state, address):
            latest = entry
    return latest


def _configured(entry: LogEntry) -> _Store:
    fields = decode(entry.funct, entry.rs1, entry.rs2)
    if fields["pool_stride"]:
        return _Store(fields["stride"], fields["pocols"], fields["porows"], fields["pool_out_dim"])
    if fields["pool_size"]:
        return _Store(fields["stride"], fields["ocols"], fields["orows"], fields["pool_out_dim"])
    return _Store(fields["stride"])


def _writes(entry: LogEntry, state: _Store, address: int) -> bool:
    fields = decode(entry.funct, entry.rs1, entry.rs2)
    raw = fields["local"] & _ACCUMULATOR and fields["local"] & _READ_FULL
    width = fields["cols"] * (4 if raw else 1)
    offset = address - fields["address"]
    if not state.columns:
        return _in_rows(offset, state.stride, fields["rows"], width)
    rows = (offset - row * state.pitch * state.stride for row in range(state.rows))
    return any(_in_rows(one, state.stride, state.columns, width) for one in rows)


def _in_rows(offset: int, stride: int, rows: int, width: int) -> bool:
    """Whether an offset lies in one of so many rows of `width` bytes, `stride` apart."""
    if stride == 0:
        return 0 <= offset < width
    last = min(offset // stride, rows - 1)  # of the rows that begin at or before it
    return last >= 0 and offset - last * stride < width
