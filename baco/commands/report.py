"""`baco report`: write the report of a study again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a study (the --out of explore).")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Where to write it; by default into the study's folder.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Errors only.")] = False,
) -> None:
    """Write summary.json, candidates.parquet, best/, pareto.* and report.html from a study."""
    from baco.commands.context import stdout
    from baco.commands.study_input import study_file
    from common.files import output_folder
    from common.text import one_line
    from explore.study_report import write_study_report

    study = study_file(folder)
    target = output_folder(out if out is not None else study.parent)
    write_study_report(study, target)
    if not quiet:
        stdout().print(f"report: {one_line(str(target / 'report.html'))}")
