"""Figures of matplotlib as bytes; names in them are no formulas, and letters that a font lacks are no news."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

from common.text import one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["figure_bytes", "figure_text"]


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
