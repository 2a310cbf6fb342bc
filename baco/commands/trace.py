"""`baco trace`: draw a command log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def trace(
    log: Annotated[
        Path, typer.Argument(metavar="LOG.csv", help="Command log, written by `baco simulate --log`.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Chart: .html (to zoom), .png, .svg or .pdf.")
    ],
    first: Annotated[int, typer.Option("--from", min=0, metavar="CYCLE", help="First cycle drawn.")] = 0,
    until: Annotated[
        int | None, typer.Option("--until", min=1, metavar="CYCLE", help="Cycle to stop before.")
    ] = None,
) -> None:
    """Draw when each accelerator command was allocated, issued and done, unit by unit."""
    from baco.console import stdout
    from common.text import one_line
    from sim.trace import draw_html, draw_image, read_log

    content = read_log(log)
    draw = draw_html if out.suffix == ".html" else draw_image
    draw(content, out, first=first, until=until)
    stdout().print(f"chart: {one_line(str(out))}")
