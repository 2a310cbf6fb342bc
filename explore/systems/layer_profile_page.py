"""A network's layers on units, over batch sizes and clocks, as a page: the whole network first, then a table for each batch size and clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from baco.common.page import html_cards, html_table, page
from baco.common.text import html_text
from baco.common.units import si
from baco.exploration.systems.charts import COLOURS, STYLE, bar, chart, shortened, words
from baco.exploration.systems.layer_profile import LayerOnUnit, NetworkOnUnit

_LEFT, _WIDTH, _BAR = 290, 560, 18


def totals_rows(totals: Sequence[NetworkOnUnit]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings, and a row for each batch size, clock and unit."""
    heads = ("unit", "elements", "MHz", "images at a time", "ms", "ms an image", "images/s", "µJ an image")
    rows: list[tuple[str, ...]] = []
    for one in totals:
        numbers = ("", "", "", "")
        if one.ms is not None and one.energy_uj is not None:
            each = one.ms / one.images
            rate = 1e3 / each if each else 0.0
            numbers = (f"{one.ms:.5g}", f"{each:.5g}", f"{rate:.4g}", f"{one.energy_uj / one.images:,.1f}")
        rows.append((one.unit, one.elements, f"{one.clock_mhz:g}", str(one.images), *numbers))
    return heads, rows


def layer_rows(rows: Sequence[LayerOnUnit]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings, and a row for each layer, of units with the same elements at one batch size and clock."""
    units = list(dict.fromkeys(row.unit for row in rows))
    by = {(row.number, row.unit): row for row in rows}
    heads = ("layer", *(f"{unit}, µs" for unit in units), *(f"{unit}, µJ" for unit in units), "fastest")
    cells = []
    for number in sorted({row.number for row in rows}):
        own = [by[number, unit] for unit in units]
        able = [row for row in own if row.us is not None]
        cells.append(
            (
                own[0].layer,
                *("" if row.us is None else f"{row.us:,.2f}" for row in own),
                *("" if row.energy_uj is None else f"{row.energy_uj:,.3f}" for row in own),
                min(able, key=lambda row: row.us or 0.0).unit if able else "",
            )
        )
    return heads, cells


def layer_profile_page(network: str, rows: Sequence[LayerOnUnit], totals: Sequence[NetworkOnUnit]) -> str:
    """The page, as HTML; names from outside are escaped."""
    heads, cells = totals_rows(totals)
    able = [
        (one, one.ms, one.energy_uj) for one in totals if one.ms is not None and one.energy_uj is not None
    ]
    fastest = min(able, key=lambda each: each[1] / each[0].images)
    frugal = min(able, key=lambda each: each[2] / each[0].images)
    cards = [
        ("fastest", f"{fastest[1] / fastest[0].images:.4g} ms an image", _named(fastest[0])),
        ("least energy", f"{si(frugal[2] / frugal[0].images * 1e-6, 'J', 4)} an image", _named(frugal[0])),
    ]
    body = [
        f'<ul class="cards">{html_cards(cards)}</ul>',
        f"<section><h2>Whole network</h2><figure>{_bars(totals)}</figure>",
        html_table(
            heads,
            cells,
            range(2, len(heads)),
            caption="By each unit's own program, layers one after the other, predicted",
        ),
        "</section>",
        *_sections(rows),
    ]
    return page(
        title=f"Layers of {network}",
        brand="profile",
        heading=f"{network} by layer and unit",
        subheading="All times and energies are predicted.",
        body="".join(body),
        styles=[STYLE],
    )


def _named(one: NetworkOnUnit) -> str:
    more = "" if one.batch is None else f", {one.batch} at a time"
    return f"{one.unit} at {one.clock_mhz:g} MHz{more}"


def _sections(rows: Sequence[LayerOnUnit]) -> Iterator[str]:
    kinds = dict.fromkeys((row.batch, row.clock_mhz, row.elements) for row in rows)
    for batch, mhz, elements in kinds:
        own = [row for row in rows if (row.batch, row.clock_mhz, row.elements) == (batch, mhz, elements)]
        heads, cells = layer_rows(own)
        shown = f"{elements} at {mhz:g} MHz" + ("" if batch is None else f", {batch} at a time")
        table = html_table(
            heads,
            cells,
            range(1, len(heads) - 1),
            caption="Predicted, of the whole batch. Empty: the unit cannot",
        )
        yield f"<section><h2>{html_text(shown)}</h2>{table}</section>"


def _bars(totals: Sequence[NetworkOnUnit]) -> str:
    """Milliseconds an image, a bar for each unit, clock and batch size, as SVG."""
    able = [(total, total.ms / total.images) for total in totals if total.ms is not None]
    most = max(each for _, each in able) or 1.0
    units = list(dict.fromkeys(total.unit for total, _ in able))
    shapes = []
    for at, (total, each) in enumerate(able):
        y, width = at * (_BAR + 4) + 4, max(1.0, _WIDTH * each / most)
        colour = COLOURS[units.index(total.unit) % len(COLOURS)]
        shapes += [
            words(0, y + 13, shortened(_named(total), 44)),
            bar(_LEFT, y, width, _BAR, colour, f"{_named(total)}: {each:.4g} ms an image"),
            words(_LEFT + width + 6, y + 13, f"{each:.4g} ms"),
        ]
    return chart(_LEFT + _WIDTH + 110, len(able) * (_BAR + 4) + 8, "Milliseconds an image", shapes)
