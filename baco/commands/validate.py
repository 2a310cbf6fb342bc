"""`baco validate`: measure the best candidates of a study on the Verilog of their own accelerators."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from explore.validate.run import ValidationOptions


def validate(
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
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            max=1024,
            metavar="N",
            help="Simulations side by side; by default one a processor.",
        ),
    ] = None,
    cycle_limit: Annotated[
        float | None,
        typer.Option(
            "--cycle-limit",
            metavar="CYCLES",
            help="Cycles to simulate for a design; the layers that matter most are measured, and the rest is "
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
    json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON on standard output.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress, no summary; errors only.")
    ] = False,
) -> None:
    """Compile the best candidates of a study, simulate every layer on their Verilog, compare every output element.

    Candidates become measured, failed (an output was wrong: that is a mistake in baco) or infeasible (they cannot be
    compiled). Measurements are kept as they are finished; the same command continues an interrupted validation.

    Example: baco validate baco-out/resnet50-edp --best 5 --baseline
    """
    from baco.commands.study_input import study_file
    from explore.validate.run import ValidationOptions

    study = study_file(folder)
    options = ValidationOptions(best, spread, workers, cycle_limit, time_limit)
    run_validation(study, options, baseline=baseline, quiet=quiet)
    if programs:
        _write_programs(study)
    if json:
        from baco.commands.context import stdout

        text = (study.parent / "summary.json").read_text(encoding="utf-8")
        stdout().file.write(text.rstrip() + "\n")
    elif not quiet:
        from baco.validation_display import print_validation

        print_validation(study)


def _write_programs(path: Path) -> None:
    from common.errors import InfeasibleError, Location
    from explore.study import Study
    from explore.validate.compare import best_measured
    from explore.validate.programs import write_programs
    from explore.validate.run import validated_designs

    with Study.open(path, read_only=True) as study:
        best = best_measured(validated_designs(study), study.objective)
        tasks = study.tasks
    if best is None:
        raise InfeasibleError(
            "no candidate has been measured whole yet",
            location=Location(str(path)),
            hint="validate without limits first",
        )
    write_programs(best.design, tasks, path.parent)


def run_validation(
    study: Path,
    options: ValidationOptions,
    *,
    baseline: bool = False,
    quiet: bool = False,
    stopped: str | None = None,
    notes: tuple[str, ...] = (),
) -> None:
    """Validate the study in a file and write its report.

    Args:
        stopped, notes: of the search, see `explore.study_report.write_study_report`.
    """
    from baco.validation_display import make_display
    from explore.study_report import write_study_report
    from explore.validate.session import validate_file

    display = None if quiet else make_display()
    try:
        outcome = validate_file(study, options, baseline=baseline, progress=display)
    finally:
        if display is not None:
            display.close()
    remarks = {
        "time": "The validation reached its time limit: what was not measured is estimated, or still predicted.",
        "interrupted": "The validation was interrupted; `baco validate` continues it.",
    }
    extra = (remarks[outcome.ended],) if outcome.ended in remarks else ()
    write_study_report(study, study.parent, stopped=stopped, notes=(*notes, *extra))
