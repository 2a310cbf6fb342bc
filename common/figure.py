"""Figures of matplotlib as bytes: the same wherever they are drawn, names in them no formulas, missing letters no news."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from baco.common.text import one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@contextmanager
def drawing(style: Mapping[str, Any] | None = None) -> Iterator[None]:
    """While it lasts, also as a decorator, figures are made and written by matplotlib's own defaults.

    matplotlib takes its settings from a file `matplotlibrc` in the current folder, whoever put it there; some make it
    run LaTeX on what is drawn.

    Args:
        style: settings of matplotlib that differ.
    """
    if "matplotlib" not in sys.modules:
        _import_matplotlib()
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        settings: Any = mpl.rcParams  # whose annotation lists every key there is
        settings.update(style or {})
        yield


def _import_matplotlib() -> None:
    """matplotlib takes half a second to import, so that only who draws should pay for it, and reads the current
    folder then: nobody but the administrator writes to the one it is imported in."""
    here = os.open(".", getattr(os, "O_PATH", os.O_RDONLY))
    try:
        os.chdir(os.sep)
        import matplotlib.figure  # noqa: F401
    finally:
        os.fchdir(here)
        os.close(here)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size (inches), laid out so that nothing overlaps. To be called while `drawing`."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def figure_text(text: str) -> str:
    """`text` for a label or title: what stands between two dollar signs would be set as a formula."""
    return one_line(text).replace("$", r"\$")


def figure_bytes(figure: Figure, kind: str, *, dpi: int, metadata: dict[str, Any] | None = None) -> bytes:
    """The picture as `png`, `svg` or `pdf`. Raises ValueError for a kind that matplotlib does not write."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
    return buffer.getvalue()
