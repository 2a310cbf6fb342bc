"""The command log in the trace event format that ui.perfetto.dev, chrome://tracing and others open.

One cycle is one microsecond there. Every lane is a thread, so that no two events of a thread overlap; a command's
waiting and running are events of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common.files import atomic_write
from sim.trace.chart import Bar, busy_spans, make_chart
from sim.trace.log import UNITS, Log

__all__ = ["write_perfetto"]

#: Commands whose fields are written out; beyond, their names are all there is, so that files stay openable.
_MOST_TEXTS = 100_000


def write_perfetto(log: Log, path: str | Path, *, first: int = 0, until: int | None = None) -> None:
    """Write the commands in flight in [first, until). Raises InputError for an empty window, StorageError when the file
    cannot be written."""
    chart = make_chart(log, first, until)
    # separators keep files of a million commands below 200 MB
    events = json.dumps(list(_events(chart.lanes, chart.bars)), separators=(",", ":"))
    atomic_write(path, f'{{"displayTimeUnit":"ns","traceEvents":{events}}}\n')


def _events(lanes: tuple[str, ...], bars: tuple[Bar, ...]) -> Iterator[dict[str, Any]]:
    for pid, unit in enumerate(UNITS):
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": unit}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}
    for tid, lane in enumerate(lanes):
        pid = UNITS.index(lane.split()[0])
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": lane}}
    texts = len(bars) <= _MOST_TEXTS
    for bar in bars:
        place = {"pid": UNITS.index(bar.entry.unit), "tid": bar.lane}
        args = {"command": bar.entry.text} if texts else {}
        if bar.entry.done is None:
            args["unfinished"] = "the log ends before it"
        for kind, (start, length) in (("waiting", bar.waiting), ("running", bar.running)):
            if length:
                name = bar.entry.name if kind == "running" else f"{bar.entry.name} waits"
                yield {
                    "ph": "X",
                    "name": name,
                    "cat": kind,
                    "ts": start,
                    "dur": length,
                    **place,
                    "args": args,
                }
    for pid, unit in enumerate(UNITS):
        for start, end in busy_spans([bar for bar in bars if bar.entry.unit == unit]):
            for cycle, value in ((start, 1), (end, 0)):
                yield {"ph": "C", "name": "busy", "pid": pid, "ts": cycle, "args": {unit: value}}
