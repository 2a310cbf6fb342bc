"""The pipeline chart as a page to zoom and point at, for logs of any length."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from baco.common.files import atomic_write
from baco.common.page import html_cards, page
from baco.common.text import html_text
from baco.sim.trace.chart import Bar, Chart, busy_spans, colours_of, make_chart
from baco.sim.trace.log import UNITS, Log

_ASSETS = Path(__file__).parent
#: What a unit is called.
_WORDS = {"load": "load", "execute": "array", "store": "store"}
#: Commands whose fields the page has; beyond, it would be too large to open.
_MOST_TEXTS = 30_000
_BODY = """<p class="lead">{lead}</p>
<ul class="cards">{cards}</ul>
<section aria-labelledby="h-chart">
  <div class="head"><h2 id="h-chart">Pipeline</h2>
    <div class="controls" role="group" aria-label="What the chart shows">
      <button type="button" id="in">zoom in</button><button type="button" id="out">zoom out</button>
      <button type="button" id="left">earlier</button><button type="button" id="right">later</button>
      <button type="button" id="whole">all</button>
    </div>
  </div>
  <p class="hint">A unit's curve is the share of cycles in which it runs some command. Below it every lane holds one command at a
  time: pale while it waits to be issued, full until it is done; from far away a lane is as dark as it is busy. Wheel or
  buttons zoom, dragging moves, pointing at a command names it.</p>
  <p class="hint" id="window"></p>
  <div class="chart" id="chart"></div>
  <p class="hint tip" id="tip">&nbsp;</p>
  <div class="legend" id="legend"></div>
</section>
<section aria-labelledby="h-commands">
  <h2 id="h-commands">Commands</h2>
  <p class="hint">Cycles of all commands of a kind; several may wait or run at once.</p>
  <div class="scroll" tabindex="0"><table id="commands"></table></div>
</section>"""


def draw_html(log: Log, path: str | Path, *, first: int = 0, until: int | None = None) -> None:
    """Draw the chart as one offline page, light, dark or printed. Raises InputError for an empty window or more lanes
    than can be drawn, StorageError when the file cannot be written."""
    chart = make_chart(log, first, until)
    begin, end = chart.span
    lead = (
        f"{len(chart.bars):,} commands in cycles {begin:,} to {end - 1:,} of an accelerator with a"
        f" {log.dim} × {log.dim} array."
    )
    text = page(
        title=f"Pipeline chart, cycles {begin:,} to {end - 1:,} (baco)",
        brand="pipeline chart",
        heading="Pipeline chart",
        body=_BODY.format(lead=html_text(lead), cards=html_cards(_cards(chart))),
        data={
            "span": chart.span,
            "lanes": _lanes(chart),
            "names": chart.names,
            "colours": colours_of(chart.names),
        },
        packed={"packed": _packed(chart)},
        styles=[(_ASSETS / "page.css").read_text("utf-8")],
        scripts=[(_ASSETS / "page.js").read_text("utf-8")],
    )
    atomic_write(path, text)


def _lanes(chart: Chart) -> list[dict[str, Any]]:
    """Of every unit: name, and its first lane and the one behind its last."""
    found, at = [], 0
    for unit in UNITS:
        count = sum(lane.split()[0] == unit for lane in chart.lanes)
        found.append({"unit": _WORDS[unit], "from": at, "until": at + count})
        at += count
    return found


def _cards(chart: Chart) -> list[tuple[str, str, str]]:
    begin, end = chart.span
    cards = [("Cycles", f"{end - begin:,}", "shown")]
    for unit in UNITS:
        busy = _within(busy_spans([bar for bar in chart.bars if bar.entry.unit == unit]), begin, end)
        cards.append((f"{_WORDS[unit].capitalize()} busy", f"{busy / (end - begin):.0%}", f"{busy:,} cycles"))
    return cards


def _within(spans: Sequence[tuple[int, int]], begin: int, end: int) -> int:
    return sum(max(0, min(until, end) - max(start, begin)) for start, until in spans)


def _packed(chart: Chart) -> dict[str, Any]:
    """Columns of the bars, in the order of the chart; times as differences, which are small and compress well."""
    bars = chart.bars
    numbers = {name: place for place, name in enumerate(chart.names)}
    return {
        "lane": [bar.lane for bar in bars],
        "name": [numbers[bar.entry.name] for bar in bars],
        "allocated": _differences(bars),
        "wait": [bar.issued - bar.entry.allocated for bar in bars],
        "run": [bar.done - bar.issued for bar in bars],
        "unfinished": [place for place, bar in enumerate(bars) if bar.entry.done is None],
        "texts": [bar.entry.text for bar in bars] if len(bars) <= _MOST_TEXTS else [],
    }


def _differences(bars: Sequence[Bar]) -> list[int]:
    before, found = 0, []
    for bar in bars:
        found.append(bar.entry.allocated - before)
        before = bar.entry.allocated
    return found
