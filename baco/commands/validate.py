"""`baco validate`: measure the best candidates of a study on the Verilog of their own accelerators."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from baco.cli.engine_options import WorkerOptions
from baco.cli.page import OpenPage
from baco.cli.workload_data import Data


def validate(
    engine: WorkerOptions,
    folder: Annotated[
        Path, typer.Argument(metavar="STUDY", help="Folder of a study (the --out of explore), or its file.")
    ],
    best: Annotated[
        int, typer.Option("--best", metavar="K", help="Candidates to measure, the best by the objective.")
    ] = 5,
    spread: Annotated[
        int,
        typer.Option("--spread", metavar="N", help="Further candidates, spread along the Pareto front."),
    ] = 2,
    baseline: Annotated[
        bool,
        typer.Option(
            "--baseline",
            help="Measure Gemmini's default machine too, under its default tiling and under mappings searched for it.",
        ),
    ] = False,
    cycle_limit: Annotated[
        float | None,
        typer.Option(
            "--cycle-limit",
            metavar="CYCLES",
            help="Cycles to simulate for a design: layers are measured one by one, those that matter most, and the rest is "
            "estimated with an error bar.",
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit", metavar="SECONDS", help="Stop measuring then; what is not finished is estimated."
        ),
    ] = None,
    programs: Annotated[
        bool,
        typer.Option(
            "--programs",
            help="Write the programs of the best measured design to best/programs, an ELF file a layer.",
        ),
    ] = False,
    fusion: Annotated[
        bool,
        typer.Option(
            "--fusion/--no-fusion",
            help="Operators of the measured programs run as one unit where that is predicted to be better.",
        ),
    ] = True,
    data: Data = None,
    open_page: OpenPage = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON on standard output.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress, no summary; errors only.")
    ] = False,
) -> None:
    """Compile the best candidates of a study to whole programs, run them on their Verilog, compare every element.

    Candidates become measured, failed (an output was wrong: that is a mistake in baco) or infeasible (they cannot be
    compiled). Measurements are kept as they are finished; the same command continues an interrupted validation.

    Example: baco validate baco-out/resnet50-edp --best 5 --baseline
    """
    from baco.api.measure import validate as validate_study
    from baco.api.result import Result

    result = Result(folder)
    validate_study(
        result,
        best=best,
        spread=spread,
        baseline=baseline,
        workers=engine.workers,
        executor=engine.executor,
        address=engine.address,
        cycle_limit=cycle_limit,
        time_limit=time_limit,
        fusion=fusion,
        data=data or None,
        progress=not quiet,
    )
    page = result.save_report()
    if programs:
        _write_programs(result.path)
    if json:
        from baco.display.console import stdout

        text = (result.folder / "summary.json").read_text(encoding="utf-8")
        stdout().file.write(text.rstrip() + "\n")
    elif not quiet:
        from baco.display.validation import print_validation

        print_validation(result.path)
    if open_page:
        from baco.cli.page import show_page

        show_page(page)


def _write_programs(path: Path) -> None:
    from baco.common.errors import InfeasibleError, Location
    from baco.exploration.measure.compare import best_measured
    from baco.exploration.measure.session import measured_designs
    from baco.exploration.measure.written import write_programs
    from baco.exploration.studies.study import StudyRecord

    with StudyRecord.open(path, read_only=True) as study:
        best = best_measured(measured_designs(study), study.objective)
    if best is None:
        raise InfeasibleError(
            "no candidate has been measured whole yet",
            location=Location(str(path)),
            hint="validate without limits first",
        )
    write_programs(best, path.parent)
