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
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Chart: .html (to zoom), .png, .svg or .pdf."),
    ] = None,
    first: Annotated[int, typer.Option("--from", min=0, metavar="CYCLE", help="First cycle drawn.")] = 0,
    until: Annotated[
        int | None, typer.Option("--until", min=1, metavar="CYCLE", help="Cycle to stop before.")
    ] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(
            "--perfetto",
            metavar="FILE.json",
            help="Write a trace for ui.perfetto.dev, chrome://tracing and other viewers; a cycle is a microsecond.",
        ),
    ] = None,
) -> None:
    """Draw when each accelerator command was allocated, issued and done, unit by unit.

    A page (.html) takes logs of any length; it opens without a network.
    """
    from baco.api.simulate import trace as draw
    from baco.common.text import one_line
    from baco.display.console import stdout

    draw(log, out, perfetto=perfetto, first=first, until=until)
    for what, path in (("chart", out), ("trace", perfetto)):
        if path is not None:
            stdout().print(f"{what}: {one_line(str(path))}")
