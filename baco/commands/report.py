"""`baco report`: write the report of a study again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from baco.cli.page import OpenPage


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a study (the --out of explore).")],
    out: Path | None = None,
    open_page: OpenPage = False,
    quiet: bool = False,
) -> None:
    """Write summary.json, candidates.parquet, best/, pareto.* and report.html from a study.

    Args:
        out: Where to write it; by default into the study's folder.
        quiet (-q): Errors only.
    """
    from baco.api.study import load_study
    from baco.common.text import one_line
    from baco.display.console import stdout

    page = load_study(folder).save_report(out)
    if not quiet:
        stdout().print(f"report: {one_line(str(page))}")
    if open_page:
        from baco.cli.page import show_page

        show_page(page)
