"""`baco model`: learned corrections of predicted cycles: train, evaluate, compare, transfer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from baco.cli.checked import CommandGroup, Count, Seed, only_with
from baco.cli.experiments import say, show
from baco.commands.root import show_help_if_alone

model = CommandGroup()

_SET = "Measured set: micro, train, test, ranking, or a file of one."
_Residual = Annotated[
    str, typer.Option("--residual", help="trees, blend, law, process, mlp, lstm, encoder-64 or encoder.")
]
_Programs = Annotated[
    bool,
    typer.Option(
        "--programs",
        help="Let residuals see how many instructions and commands the compiled programs execute.",
    ),
]
#: Parts of a cross-validation, and measurements of an accelerator that is adapted to.
_FOLDS, _MEASUREMENTS = 10, 50
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@model.callback(invoke_without_command=True)
def group(context: typer.Context) -> None:
    """Learn from measurements what the analytical models miss."""
    show_help_if_alone(context)


@model.command("train")
def train(
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SET", help=f"{_SET} Repeatable; micro, train and ranking."),
    ] = None,
    seed: Seed = 0,
    programs: _Programs = False,
    out: Path | None = None,
) -> None:
    """Train boosted trees on measured sets and write its weights.

    Args:
        seed: The same seed gives the same weights.
        out (FILE): Weights; by default those that baco itself uses.
    """
    from baco.bench.learned.evaluate import train_model
    from baco.bench.learned.train import WEIGHTS
    from baco.common.text import one_line
    from baco.display.console import stdout

    path = out or WEIGHTS[programs]
    trained = train_model(sets or ("micro", "train", "ranking"), seed, programs=programs, out=path)
    size = path.stat().st_size / 1024
    about = ", ".join(f"{name} {value}" for name, value in trained.about.items())
    stdout().print(f"{one_line(str(path))}: {trained.residual.name}, {about}; {size:.0f} KiB")


@model.command("evaluate")
def evaluate(
    measured: Annotated[str | None, typer.Option("--set", metavar="SET", help=_SET)] = None,
    weights: list[Path] | None = None,
    timed: bool = False,
    rows: Path | None = None,
    train: Path | None = None,
    folds: Annotated[int, typer.Option(min=2, max=100)] = _FOLDS,
    seeds: Annotated[int, typer.Option(min=1, max=100)] = 1,
    out: Path | None = None,
    json: _Json = False,
) -> None:
    """How well measured cycles are predicted, beside simpler predictors: of a measured set, or of published rows.

    Args:
        weights (FILE): Written by train; repeatable; baco's own by default.
        timed: With --set: also by compiling every row and running it on the timed model of the accelerator.
        rows (FILE): FPGA measurements in the published column format.
        train (FILE): With --rows: learn from these; without it the rows are cross-validated by layer shape.
        folds: Of a cross-validation.
        seeds: Seeds 0, 1, ... to average over.
        out (OUT.csv): The rows with predicted.cycle added.
    """
    from baco.bench.learned.evaluate import SetReport, evaluate_set
    from baco.bench.learned.published import PublishedReport, evaluate_published
    from baco.common.errors import InputError

    if (rows is None) == (measured is None):
        raise InputError(
            "say what to evaluate: --set SET, or --rows FILE", hint="baco model evaluate --set test"
        )
    if measured is None:
        only_with("--set", {"--timed": timed, "--weights": weights})
    else:
        of_rows = {"--train": train, "--folds": folds != _FOLDS, "--seeds": seeds != 1, "--out": out}
        only_with("--rows", of_rows)
    if train is not None:
        only_with("a cross-validation, without --train", {"--folds": folds != _FOLDS})
    report: PublishedReport | SetReport
    if measured is not None:
        report = evaluate_set(measured, weights or (), timed=timed, say=say)
    else:
        assert rows is not None
        report = evaluate_published(rows, train, folds=folds, seeds=range(seeds), out=out, say=say)
    show(report, lambda _: report.text(), json)


@model.command("compare")
def compare(
    measured: Annotated[str, typer.Option("--set", metavar="SET", help=_SET)] = "train",
    residual: list[str] | None = None,
    split: list[str] | None = None,
    folds: Annotated[int, typer.Option(min=2, max=100)] = 5,
    rounds: Count | None = None,
    seeds: Annotated[int, typer.Option(min=1, max=100)] = 5,
    also: list[str] | None = None,
    programs: _Programs = False,
    json: _Json = False,
) -> None:
    """Cross-validate the residuals side by side on a measured set.

    Args:
        residual: Repeatable; all by default.
        split: What test rows share with no training row: task, accelerator or both; repeatable, all by default.
        folds: Of the cross-validation.
        rounds: Test so many of a seed's folds only; all by default.
        seeds: Seeds 0, 1, ...
        also (SET): Learn from this set, too, but for layers tested; repeatable.
    """
    from baco.bench.learned.evaluate import SPLITS, compare_residuals, comparison_text
    from baco.bench.learned.train import LEARNERS

    found = compare_residuals(
        measured,
        residual or tuple(LEARNERS),
        split or SPLITS,
        folds=folds,
        rounds=rounds,
        seeds=seeds,
        programs=programs,
        also=also or (),
        say=say,
    )
    show(found, comparison_text, json, page=True)


@model.command("transfer")
def transfer(
    measured: Annotated[str, typer.Option("--set", metavar="SET", help=_SET)] = "train",
    residual: _Residual = "trees",
    measurements: Annotated[int, typer.Option(min=2, max=10_000)] = _MEASUREMENTS,
    seed: Seed = 0,
    programs: _Programs = False,
    rows: Path | None = None,
    original: Path | None = None,
    json: _Json = False,
) -> None:
    """Leave accelerators out of training, and adapt to each with a few of its measurements.

    Args:
        measurements: Of the unseen accelerator.
        seed: Of models and of what is drawn.
        rows (FILE): Instead: from the RTL to FPGA measurements in the published column format.
        original (FOLDER): Instead: to the original's RTL, programs measured there (as of 'baco bench timing'), with 10, 50
            and 200 measurements.
    """
    from dataclasses import asdict

    from baco.bench.learned import transfer as ways

    of_sets = {"--set": measured != "train", "--residual": residual != "trees", "--programs": programs}
    if rows is not None or original is not None:
        only_with("a transfer from a set, without --rows and --original", of_sets)
    if original is not None:
        of_rows = {"--rows": rows, "--measurements": measurements != _MEASUREMENTS}
        only_with("a transfer to FPGAs or accelerators, without --original", of_rows)
        show(ways.transfer_original(original, seed=seed, say=say), ways.transferred_text, json, page=True)
    elif rows is not None:
        found = ways.transfer_published(rows, measurements=measurements, seed=seed, say=say)
        show(found, ways.transferred_text, json, page=True)
    else:
        adapted = ways.transfer_set(
            measured, residual, measurements=measurements, seed=seed, programs=programs, say=say
        )
        values = [{**asdict(one), "ratio": one.ratio} for one in adapted] if json else adapted
        show(values, lambda _: ways.transfer_text(adapted), json, page=True)
