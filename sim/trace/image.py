"""The pipeline chart as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from baco.common.errors import InputError
from baco.common.figure import drawing, figure_bytes, new_figure
from baco.common.files import atomic_write
from baco.sim.trace.chart import colours_of, make_chart
from baco.sim.trace.log import Log

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
    label_lanes(axes, chart.lanes, chart.span, colours, columns=6)
    axes.set_xlabel("cycle (pale: allocated, waiting; full: issued until done)")
    save_figure(figure, path)


def label_lanes(
    axes: Axes, lanes: Sequence[str], span: tuple[int, int], colours: Mapping[str, str], *, columns: int
) -> None:
    """Name the lanes, from top to bottom, show the cycles [begin, end), and put a legend of so many columns above."""
    from matplotlib.patches import Patch

    axes.set_yticks(range(len(lanes)), labels=list(lanes), fontsize=8)
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.set_xlim(*span)
    axes.legend(
        handles=[Patch(color=colour, label=name) for name, colour in colours.items()],
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=columns,
        fontsize=8,
        frameon=False,
    )


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
