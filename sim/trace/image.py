"""The pipeline chart as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from common.errors import InputError
from common.figure import drawing, figure_bytes, new_figure
from common.files import atomic_write
from sim.trace.chart import colours_of, make_chart
from sim.trace.log import Log

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_image", "save_figure"]

#: More bars than this are no picture any more.
_MOST_BARS = 20_000


@drawing()
def draw_image(log: Log, path: str | Path, *, first: int = 0, until: int | None = None) -> None:
    """Draw the chart as an image; the suffix of `path` says which kind (png, svg, pdf).

    A bar starts pale where a command was allocated, and is full from its issue until it was done. Raises InputError
    for an empty or too large window, StorageError when the file cannot be written.
    """
    chart = make_chart(log, first, until, most=_MOST_BARS)
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Patch

    colours = colours_of(chart.names)
    figure = new_figure(14, 1.6 + 0.22 * len(chart.lanes))
    axes = figure.add_subplot()
    for alpha, least, spans in (
        (0.3, 0.0, [bar.waiting for bar in chart.bars]),
        (1.0, 0.4, [bar.running for bar in chart.bars]),  # one-cycle commands stay visible
    ):
        # one collection: a patch a bar would take minutes
        axes.add_collection(
            PolyCollection(
                [
                    _corners(bar.lane, start, max(length, least))
                    for bar, (start, length) in zip(chart.bars, spans, strict=True)
                ],
                facecolors=[colours[bar.entry.name] for bar in chart.bars],
                alpha=alpha,
                linewidth=0,
            )
        )
    axes.set_yticks(range(len(chart.lanes)), labels=list(chart.lanes), fontsize=8)
    axes.set_ylim(len(chart.lanes) - 0.5, -0.5)  # from top to bottom
    axes.set_xlim(*chart.span)
    axes.set_xlabel("cycle (pale: allocated, waiting; full: issued until done)")
    axes.legend(
        handles=[Patch(color=colours[name], label=name) for name in chart.names],
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=6,
        fontsize=8,
        frameon=False,
    )
    save_figure(figure, path)


def _corners(lane: int, start: float, length: float) -> list[tuple[float, float]]:
    """Of a bar."""
    return [
        (start, lane - 0.4),
        (start, lane + 0.4),
        (start + length, lane + 0.4),
        (start + length, lane - 0.4),
    ]


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure of matplotlib; the suffix of `path` says as what. Raises InputError for an unknown one."""
    kind = Path(path).suffix.lstrip(".").lower()
    try:
        data = figure_bytes(figure, kind, dpi=130)
    except ValueError:
        raise InputError(
            f"a chart cannot be written as '.{kind}'", hint="use .png, .svg, .pdf or .html"
        ) from None
    atomic_write(path, data)
