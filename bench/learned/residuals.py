"""`baco model`: residuals trained, evaluated, compared and transferred, with what does not go together said first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval
from pydantic import PositiveInt

from baco.bench.harness.experiment import Say, silent
from baco.bench.learned.evaluate import (
    SPLITS,
    ResidualScores,
    SetReport,
    compare_residuals,
    comparison_text,
    evaluate_set,
    train_model,
)
from baco.bench.learned.published import PublishedReport, evaluate_published
from baco.bench.learned.train import WEIGHTS
from baco.bench.learned.transfer import Transferred, transfer_original, transferred_text
from baco.common.errors import InputError, only_with
from baco.common.text import one_line

__all__ = ["compare", "comparison_text", "evaluate", "train", "transfer", "transferred_text"]

_SETS = ("micro", "train", "ranking")
_FOLDS = 10
_Several = Annotated[int, Interval(ge=2, le=100)]
_Seeds = Annotated[int, Interval(ge=1, le=100)]


@dataclass(frozen=True)
class Trained:
    """Weights that were written: the file, the residual's name, its size, and what it learned from."""

    file: Path
    residual: str
    kib: float
    about: dict[str, Any]

    def text(self) -> str:
        """In a line."""
        about = ", ".join(f"{name} {value}" for name, value in self.about.items())
        return f"{one_line(str(self.file))}: {self.residual}, {about}; {self.kib:.0f} KiB"


def train(
    sets: Sequence[str] = _SETS,
    *,
    seed: int = 0,
    programs: bool = False,
    out: Path | None = None,
) -> Trained:
    """Train boosted trees on measured sets and write their weights.

    Args:
        sets (--set, SET): measured set: micro, train, test, ranking, or a file of one. Repeatable; micro, train and ranking.
        seed: the same seed gives the same weights.
        programs: let them see how many instructions and commands the compiled programs execute.
        out (FILE): weights; by default those that baco itself uses.
    """
    path = out or WEIGHTS[programs]
    model = train_model(sets, seed, programs=programs, out=path)
    return Trained(path, model.residual.name, path.stat().st_size / 1024, dict(model.about))


def evaluate(
    *,
    measured: str | None = None,
    weights: Sequence[Path] = (),
    timed: bool = False,
    rows: Path | None = None,
    train: Path | None = None,
    folds: _Several = _FOLDS,
    seeds: _Seeds = 1,
    out: Path | None = None,
    say: Say = silent,
) -> PublishedReport | SetReport:
    """How well measured cycles are predicted, beside simpler predictors: of a measured set, or of published rows.

    Args:
        measured (--set, SET): measured set: micro, train, test, ranking, or a file of one.
        weights (FILE): written by train; repeatable; baco's own by default.
        timed: with --set: also by compiling every row and running it on the timed model of the accelerator.
        rows (FILE): FPGA measurements in the published column format.
        train (FILE): with --rows: learn from these; without it the rows are cross-validated by layer shape.
        folds: of a cross-validation.
        seeds: seeds 0, 1, ... to average over.
        out (OUT.csv): the rows with predicted.cycle added.

    Raises InputError for what does not go together.
    """
    if measured is not None and rows is None:
        of_rows = {"--train": train, "--folds": folds != _FOLDS, "--seeds": seeds != 1, "--out": out}
        only_with("--rows", of_rows)
        return evaluate_set(measured, weights, timed=timed, say=say)
    if measured is not None or rows is None:
        raise InputError(
            "say what to evaluate: --set SET, or --rows FILE", hint="baco model evaluate --set test"
        )
    only_with("--set", {"--timed": timed, "--weights": weights})
    if train is not None:
        only_with("a cross-validation, without --train", {"--folds": folds != _FOLDS})
    return evaluate_published(rows, train, folds=folds, seeds=range(seeds), out=out, say=say)


def compare(
    measured: str = "train",
    *,
    splits: Sequence[str] = SPLITS,
    folds: _Several = 5,
    rounds: PositiveInt | None = None,
    seeds: _Seeds = 5,
    also: Sequence[str] = (),
    programs: bool = False,
    say: Say = silent,
) -> list[ResidualScores]:
    """Cross-validate the trees on a measured set.

    Args:
        measured (--set, SET): measured set: micro, train, test, ranking, or a file of one.
        splits (--split): what test rows share with no training row: task, accelerator or both; repeatable, all by default.
        folds: of the cross-validation.
        rounds: test so many of a seed's folds only; all by default.
        seeds: seeds 0, 1, ...
        also (SET): learn from this set, too, but for layers tested; repeatable.
        programs: let them see how many instructions and commands the compiled programs execute.
    """
    return compare_residuals(
        measured,
        splits,
        folds=folds,
        rounds=rounds,
        seeds=seeds,
        programs=programs,
        also=also,
        say=say,
    )


def transfer(original: Path, *, seed: int = 0, say: Say = silent) -> list[Transferred]:
    """From the models of our RTL to the original's, with 10, 50 and 200 measurements of it.

    Args:
        original (FOLDER): programs measured there, as of 'baco bench timing'.
        seed: of the rows that are drawn.
    """
    return transfer_original(original, seed=seed, say=say)
