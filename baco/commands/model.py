"""`baco model`: learned corrections of predicted cycles: train, evaluate, transfer, select."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from baco.commands.root import show_help_if_alone

model = typer.Typer()


@model.callback(invoke_without_command=True)
def group(context: typer.Context) -> None:
    """Learn from measurements what the analytical models miss."""
    show_help_if_alone(context)


@model.command("evaluate")
def evaluate(
    rows: Annotated[
        Path,
        typer.Option("--rows", metavar="FILE", help="FPGA measurements in the published column format."),
    ],
    train: Annotated[
        Path | None,
        typer.Option(
            "--train", metavar="FILE", help="Learn from these; by default FILE is cross-validated by shape."
        ),
    ] = None,
    folds: Annotated[int, typer.Option("--folds", min=2, max=100, help="Of the cross-validation.")] = 10,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=100, help="Seeds 0, 1, ... to average over.")
    ] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="OUT.csv", help="The rows with predicted.cycle added.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """How well measured cycles are predicted, beside simpler predictors."""
    from baco.commands.context import print_json, stderr, stdout
    from explore.cost.learned.published_report import evaluate_published

    report = evaluate_published(
        rows,
        train,
        folds=folds,
        seeds=range(seeds),
        out=out,
        progress=lambda line: stderr().print(line, markup=False),
    )
    if json:
        print_json(report.to_dict())
    else:
        stdout().print(report.text(), markup=False)
