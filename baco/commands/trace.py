"""`baco trace`: draw a command log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from baco.cli.checked import Count


def trace(
    log: Annotated[
        Path, typer.Argument(metavar="LOG.csv", help="Command log, written by `baco simulate --log`.")
    ],
    out: Path | None = None,
    first: Annotated[int, typer.Option("--from", min=0, metavar="CYCLE", help="First cycle drawn.")] = 0,
    until: Count | None = None,
    perfetto: Path | None = None,
) -> None:
    """Draw when each accelerator command was allocated, issued and done, unit by unit.

    A page (.html) takes logs of any length; it opens without a network.

    Args:
        out (-o, FILE): Chart: .html (to zoom), .png, .svg or .pdf.
        until (CYCLE): Cycle to stop before.
        perfetto (FILE.json): Write a trace for ui.perfetto.dev, chrome://tracing and other viewers; a cycle is a microsecond.
    """
    from baco.api.simulation import trace as draw
    from baco.common.text import one_line
    from baco.display.console import stdout

    draw(log, out, perfetto=perfetto, first=first, until=until)
    for what, path in (("chart", out), ("trace", perfetto)):
        if path is not None:
            stdout().print(f"{what}: {one_line(str(path))}")
