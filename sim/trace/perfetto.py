"""The command log in the trace event format that ui.perfetto.dev, chrome://tracing and others open.

One cycle is one microsecond there. Every lane is a thread, so that no two events of a thread overlap; a command's
waiting and running are events of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from baco.common.files import atomic_write
from baco.sim.trace.chart import Chart, busy_spans, make_chart
from baco.sim.trace.log import UNITS, Log

#: Commands whose fields are written out; beyond, their names are all there is, so that viewers can open the file.
_MOST_TEXTS = 100_000


def write_perfetto(log: Log, path: str | Path, *, first: int = 0, until: int | None = None) -> None:
    """Write the commands in flight in [first, until). Raises InputError for an empty window, StorageError when the file
    cannot be written."""
    chart = make_chart(log, first, until)
    atomic_write(path, '{"displayTimeUnit":"ns","traceEvents":[\n' + ",\n".join(_events(chart)) + "\n]}\n")


def _events(chart: Chart) -> Iterator[str]:
    """Each as JSON."""
    for pid, unit in enumerate(UNITS):
        yield _event("M", "process_name", pid, args={"name": unit})
        yield _event("M", "process_sort_index", pid, args={"sort_index": pid})
    for tid, lane in enumerate(chart.lanes):
        yield _event("M", "thread_name", UNITS.index(lane.split()[0]), tid, args={"name": lane})
    texts = len(chart.bars) <= _MOST_TEXTS
    for bar in chart.bars:
        args = {"command": bar.entry.text} if texts else {}
        if bar.entry.done is None:
            args["unfinished"] = "the log ends before it"
        pid = UNITS.index(bar.entry.unit)
        for kind, (start, length) in (("waits", bar.waiting), ("", bar.running)):
            if length:
                name = f"{bar.entry.name} {kind}".rstrip()
                yield _event("X", name, pid, bar.lane, ts=start, dur=length, args=args)
        if bar.issued == bar.done and bar.entry.done is not None:  # logs without timing have nothing else
            yield _event("i", bar.entry.name, pid, bar.lane, ts=bar.done, s="t", args=args)
    for pid, unit in enumerate(UNITS):
        for start, end in busy_spans([bar for bar in chart.bars if bar.entry.unit == unit]):
            yield _event("C", "busy", pid, ts=start, args={unit: 1})
            yield _event("C", "busy", pid, ts=end, args={unit: 0})


def _event(kind: str, name: str, pid: int, tid: int = 0, **more: Any) -> str:
    return json.dumps({"ph": kind, "name": name, "pid": pid, "tid": tid, **more}, separators=(",", ":"))
