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
    best: int = 5,
    spread: int = 2,
    baseline: bool = False,
    cycle_limit: float | None = None,
    time_limit: float | None = None,
    programs: bool = False,
    fusion: bool = True,
    data: Data = None,
    open_page: OpenPage = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Compile the best candidates of a study to whole programs, run them on their Verilog, compare every element.

    Candidates become measured, failed (an output was wrong: that is a mistake in baco) or infeasible (they cannot be
    compiled). Measurements are kept as they are finished; the same command continues an interrupted validation.

    Example: baco validate baco-out/resnet50-edp --best 5 --baseline

    Args:
        best (K): Candidates to measure, the best by the objective.
        spread (N): Further candidates, spread along the Pareto front.
        baseline: Measure Gemmini's default machine too, under its default tiling and under mappings searched for it.
        cycle_limit (CYCLES): Cycles to simulate for a design: layers are measured one by one, those that matter most, and the
            rest is estimated with an error bar.
        time_limit (SECONDS): Stop measuring then; what is not finished is estimated.
        programs: Write the programs of the best measured design to best/programs, an ELF file a layer.
        fusion: Operators of the measured programs run as one unit where that is predicted to be better.
        json: Print the summary as JSON on standard output.
        quiet (-q): No progress, no summary; errors only.
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
