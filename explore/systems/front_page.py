"""The front of a search over systems, as a section of a plan's page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from baco.common.page import html_table
from baco.common.text import html_text
from baco.exploration.systems.charts import COLOURS, chart, line, words

_WIDTH, _HEIGHT, _LEFT, _BELOW = 760, 320, 70, 40


class FrontRow(NamedTuple):
    """A system of the front: its units, mm² with cores, ms, µJ, and whether it is the best."""

    units: tuple[str, ...]
    area_mm2: float
    makespan_ms: float
    energy_uj: float
    best: bool


def units_text(units: Sequence[str]) -> str:
    """`2 x 16x16-256-64 + host`."""
    counts = Counter(units)
    return " + ".join(f"{count} x {name}" if count > 1 else name for name, count in counts.items())


def front_section(rows: Sequence[FrontRow], limit_mm2: float) -> str:
    """A chart of area and makespan, and the table."""
    cells = [
        (
            ("best: " if row.best else "") + units_text(row.units),
            f"{row.area_mm2:.4g}",
            f"{row.makespan_ms:.5g}",
            f"{row.energy_uj:,.1f}",
        )
        for row in rows
    ]
    within = "" if limit_mm2 == math.inf else f", {limit_mm2:.4g} mm² at most"
    caption = f"Systems that no other one beats in area, makespan and energy at once, predicted; cores count{within}"
    table = html_table(
        ("units", "area, mm²", "makespan, ms", "energy, µJ"), cells, (1, 2, 3), caption=caption
    )
    return f"<section><h2>Systems</h2><figure>{_chart(rows)}</figure>{table}</section>"


def _chart(rows: Sequence[FrontRow]) -> str:
    """A point for each system, as SVG."""
    areas, spans = [row.area_mm2 for row in rows], [row.makespan_ms for row in rows]
    low, high = (0.95 * min(areas), 1.05 * max(areas)), (0.0, 1.1 * max(spans))
    shapes = []
    for share in range(5):
        x = _LEFT + (_WIDTH - _LEFT) * share / 4
        y = (_HEIGHT - _BELOW) * (1 - share / 4) + 6
        area, span = low[0] + (low[1] - low[0]) * share / 4, high[1] * share / 4
        shapes += [
            line(_LEFT, y, _WIDTH, y),
            words(_LEFT - 6, y + 4, f"{span:.3g}", "end"),
            words(x, _HEIGHT - 20, f"{area:.3g}", "middle"),
        ]
    shapes += [words(_WIDTH, _HEIGHT - 4, "area, mm²", "end"), words(0, 12, "ms")]
    for row in rows:
        x = _LEFT + (_WIDTH - _LEFT) * (row.area_mm2 - low[0]) / (low[1] - low[0])
        y = (_HEIGHT - _BELOW) * (1 - row.makespan_ms / high[1]) + 6
        told = f"{units_text(row.units)}: {row.area_mm2:.4g} mm², {row.makespan_ms:.4g} ms, {row.energy_uj:,.0f} µJ"
        shapes.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{7 if row.best else 4}" fill="{COLOURS[int(row.best)]}"><title>{html_text(told)}</title></circle>'
        )
    return chart(_WIDTH + 20, _HEIGHT, "Area and makespan", shapes)
