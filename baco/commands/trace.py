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
    from baco.console import stdout
    from common.errors import InputError
    from common.text import one_line
    from sim.trace import draw_html, draw_image, read_log, write_perfetto

    if out is None and perfetto is None:
        raise InputError("nothing is to be written", hint="add --out FILE.html or --perfetto FILE.json")
    content = read_log(log)
    if out is not None:
        draw = draw_html if out.suffix == ".html" else draw_image
        draw(content, out, first=first, until=until)
        stdout().print(f"chart: {one_line(str(out))}")
    if perfetto is not None:
        write_perfetto(content, perfetto, first=first, until=until)
        stdout().print(f"trace: {one_line(str(perfetto))}")
