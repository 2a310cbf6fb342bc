"""Pieces of the charts of systems' pages, as SVG; what is shown is escaped."""

from __future__ import annotations

from collections.abc import Iterable

from baco.common.text import html_text

#: Of what there are several of; later ones repeat.
COLOURS = ("#3b7dd8", "#e08a1e", "#3a9a5b", "#b5519c", "#7a6bd0", "#c94f4f", "#4aa3a8", "#8a7a3c")
STYLE = """
figure { margin: 1rem 0; overflow-x: auto; } figure svg { width: 100%; min-width: 40rem; height: auto; display: block; }
figure text { font: 12px system-ui, sans-serif; fill: currentColor; } figure line { stroke: currentColor; stroke-width: .5; opacity: .4; }
figure rect { stroke: var(--paper, #fff); stroke-width: .4; }
"""


def chart(width: float, height: float, label: str, shapes: Iterable[str]) -> str:
    """All of it."""
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html_text(label)}">{"".join(shapes)}</svg>'


def words(x: float, y: float, said: str, anchor: str = "start") -> str:
    """A line of text that starts, ends or has its middle there."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html_text(said)}</text>'


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    """Of a grid."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def bar(
    x: float, y: float, width: float, height: float, colour: str, told: str = "", opacity: float = 1.0
) -> str:
    """A bar that says more where it is pointed at."""
    return (
        f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{height:.1f}" fill="{colour}" fill-opacity="{opacity}">'
        f"<title>{html_text(told)}</title></rect>"
    )


def shortened(text: str, most: int) -> str:
    """With the middle left out where it is longer."""
    return text if len(text) <= most else f"{text[: most // 2 - 1]}…{text[-(most - most // 2) :]}"
