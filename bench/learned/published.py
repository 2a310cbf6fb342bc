"""Cycles of the published FPGA measurements: a law of resources for each of its two programs, and boosted trees on top.

What is evaluated is a table in the published column format (`baco.exploration.mapping_rows`). The accelerator that its columns
describe is not used: all rows were measured on one machine (see `published_counts`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.bench.harness.experiment import Say, silent
from baco.bench.learned.laws import ResourceLaw, fit_law
from baco.bench.learned.published_counts import (
    CONVOLUTION,
    FEATURES,
    PRODUCT,
    convolution_counts,
    is_product,
    product_counts,
    raw_features,
)
from baco.bench.learned.published_timing import unfitted_cycles
from baco.bench.learned.scores import Scores, group_numbers, grouped_folds, mean_scores, scores
from baco.bench.learned.trees import TreeLearner, choose_doubt
from baco.common.errors import InputError, Location
from baco.compiler.mapping.nest import Mapping
from baco.exploration.cost.evaluate import predict, write_predictions
from baco.exploration.cost.learned.boosting import BoostingOptions
from baco.exploration.cost.learned.protocol import Floats, ProgramFeatures
from baco.exploration.cost.learned.trees import shrunk
from baco.exploration.mapping_rows import MappingTable, read_mapping_table
from baco.workloads.problem import Problem

#: Columns that hold measured cycles, the first that is there.
_MEASURED = ("target.gemmini_cycle", "target.cycle")
_OPTIONS = BoostingOptions("absolute", trees=400, depth=4, rate=0.04, least=10, columns=0.3, penalty=1.0)
_LEAST_ROWS = 40
#: Doubt at least: shapes of other networks lie further from those learned from than these from each other.
_LEAST_DOUBT = 0.5
_RESOURCES = tuple(dict.fromkeys((*CONVOLUTION, *PRODUCT)))


class PublishedModel:
    """Law and residual for the published machine.

    Attributes:
        laws: by program, `convolution` and `product`.
        residual: on log(measured / law).
        doubts: by program, of the residual's corrections (`baco.exploration.cost.learned.trees.shrunk`): what shapes that a member
            had not seen asked for. A program of few shapes has none corrected.
    """

    def __init__(self, seed: int = 0, members: int = 5) -> None:
        self.laws = {"convolution": ResourceLaw(CONVOLUTION), "product": ResourceLaw(PRODUCT)}
        self.residual = TreeLearner(seed, members, _OPTIONS)
        self.doubts = dict.fromkeys(self.laws, math.inf)

    def fit(self, problems: Sequence[Problem], mappings: Sequence[Mapping], cycles: Floats) -> None:
        """Learn from rows; shapes are kept together where the residual's own errors are estimated."""
        product = _products(problems)
        for name, rows in (("convolution", ~product), ("product", product)):
            if rows.any():
                fit_law(self.laws[name], _counts(problems, mappings, rows), cycles[rows])
        base, features = self._features(problems, mappings)
        truth, shapes = np.log(cycles / base), group_numbers(problems)
        self.residual.fit(features, truth, shapes)
        left_out, size = self.residual.left_out, self.residual.error_size(features.flat)
        for name, rows in (("convolution", ~product), ("product", product)):
            doubt = choose_doubt(left_out[rows], size[rows], truth[rows], shapes[rows])
            self.doubts[name] = max(doubt, _LEAST_DOUBT)
        self.residual.doubt = 0.0

    def predict(
        self, problems: Sequence[Problem], mappings: Sequence[Mapping]
    ) -> tuple[Floats, Floats, Floats]:
        """Cycles (B,) of law and residual together, of the law alone, and the deviation of the former's logarithm."""
        base, features = self._features(problems, mappings)
        found = self.residual.predict(features)
        logs = {name: shrunk(found.log, found.deviation, doubt) for name, doubt in self.doubts.items()}
        log = np.where(_products(problems), logs["product"], logs["convolution"])
        return base * np.exp(log), base, found.deviation

    def _features(
        self, problems: Sequence[Problem], mappings: Sequence[Mapping]
    ) -> tuple[Floats, ProgramFeatures]:
        product = _products(problems)
        base = np.ones(len(problems))
        shares = np.full((len(problems), len(_RESOURCES)), np.nan)
        for name, rows in (("convolution", ~product), ("product", product)):
            if not rows.any():
                continue
            law, counts = self.laws[name], _counts(problems, mappings, rows)
            base[rows] = law.predict(counts)
            for resource, busy in zip(law.resources, law.busy(counts), strict=True):
                shares[rows, _RESOURCES.index(resource)] = np.log(busy / base[rows])
        flat = np.column_stack([raw_features(problems, mappings), shares, product, np.log(base)])
        names = (*FEATURES, *(f"share {name}" for name in _RESOURCES), "product", "law")
        return base, ProgramFeatures(names, flat)


def _products(problems: Sequence[Problem]) -> NDArray[np.bool_]:
    return np.array([is_product(problem) for problem in problems])


def _counts(problems: Sequence[Problem], mappings: Sequence[Mapping], rows: NDArray[np.bool_]) -> Floats:
    chosen = np.flatnonzero(rows).tolist()
    count = product_counts if is_product(problems[chosen[0]]) else convolution_counts
    return np.stack([count(problems[i], mappings[i]) for i in chosen])


def measured_cycles(table: MappingTable) -> Floats:
    """Measured cycles (B,) of a table. Raises InputError for a table or a row without them."""
    for name in _MEASURED:
        column = table.column(name)
        if column is None:
            continue
        values = np.array([_number(text) for text in column])
        bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
        if bad.size:
            raise InputError(
                f"{name} must be a positive number of cycles",
                location=Location(table.path, table.lines[bad[0]]),
            )
        return values
    raise InputError(
        "the table has no measured cycles",
        location=Location(table.path),
        hint=f"they stand in a column {' or '.join(_MEASURED)}",
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


@dataclass(frozen=True)
class PublishedReport:
    """How well the measured rows of a table are predicted.

    Attributes:
        rows: predicted.
        how: `cross-validated by layer shape`, or what was learned from.
        predictors: by name the scores: `MACs / 256`, `reference` (method specification, section 3), `timing gemmini` (the
            original's cycles, with nothing fitted to these rows: `published_timing`), `law` and `law + residual`; the means over
            the seeds of a cross-validation.
        seeds, folds: of a cross-validation, `law + residual` of each seed, and of each fold of each seed.
    """

    rows: int
    how: str
    predictors: dict[str, Scores]
    seeds: tuple[Scores, ...] = ()
    folds: tuple[tuple[Scores, ...], ...] = ()

    def text(self) -> str:
        """For people."""
        width = max(map(len, self.predictors))
        lines = [f"{self.rows:,} rows of FPGA measurements, {self.how}"]
        lines += [f"  {name:<{width}}  {scores}" for name, scores in self.predictors.items()]
        if len(self.seeds) > 1:
            lines += [f"  seed {number}: {scores}" for number, scores in enumerate(self.seeds)]
        if self.folds:
            each = [scores for folds in self.folds for scores in folds]
            ranks = [scores.spearman for scores in each if scores.spearman is not None]
            medians = [scores.median_percent for scores in each]
            lines.append(
                f"  {len(each)} folds: Spearman {min(ranks):.4f} to {max(ranks):.4f},"
                f" median error {min(medians):.1f}% to {max(medians):.1f}%"
            )
        return "\n".join(lines)


def evaluate_published(
    rows: str | Path,
    train: str | Path | None = None,
    *,
    folds: int = 10,
    seeds: Sequence[int] = (0,),
    out: str | Path | None = None,
    say: Say = silent,
) -> PublishedReport:
    """Predict FPGA-measured rows and compare.

    Args:
        rows: table in the published column format, with measured cycles.
        train: another one, from which all is learned. Without it `rows` is cross-validated by layer shape.
        folds: of the cross-validation.
        seeds: of the splits, or, with `train`, of the models, whose predictions are averaged.
        out: `rows` with a column `predicted.cycle`.

    Raises InputError with the place of what is wrong with a file, StorageError when `out` cannot be written.
    """
    table = read_mapping_table(rows)
    measured = measured_cycles(table)
    macs = np.array([problem.macs / 256 for problem in table.problems])
    found = {
        "MACs / 256": scores(macs, measured),
        "reference": scores(predict(table)[0], measured),
        "timing gemmini": scores(unfitted_cycles(table.problems, table.mappings), measured),
    }
    if train is None:
        report, predicted = cross_validated(table, found, folds=folds, seeds=seeds, say=say)
    else:
        source, models = read_mapping_table(train), []
        for seed in seeds:
            model = PublishedModel(seed)
            model.fit(source.problems, source.mappings, measured_cycles(source))
            models.append(model.predict(table.problems, table.mappings))
        predicted, law = (np.exp(np.mean([np.log(one[n]) for one in models], axis=0)) for n in (0, 1))
        found |= {"law": scores(law, measured), "law + residual": scores(predicted, measured)}
        report = PublishedReport(len(table), f"learned from {train}", found)
    if out is not None:
        write_predictions(table, {"predicted.cycle": predicted}, out)
    return report


def cross_validated(
    table: MappingTable,
    others: Dictionary[str, Scores] | None = None,
    *,
    folds: int = 10,
    seeds: Sequence[int] = (0,),
    members: int = 2,
    say: Say = silent,
) -> tuple[PublishedReport, Floats]:
    """Split a table by layer shape, learn on the other shapes, predict each; and the predictions (B,), geometric means over the
    seeds.

    Args:
        others: scores of other predictors, for the report.

    Raises InputError for too few rows.
    """
    cycles, shapes = measured_cycles(table), group_numbers(table.problems)
    if len(table) < _LEAST_ROWS or len(np.unique(shapes)) < 2:
        raise InputError(
            f"{len(table)} rows of {len(np.unique(shapes))} shapes are too few to learn from and test on",
            location=Location(table.path),
            hint="give measurements to learn from with --train",
        )
    laws, corrected, each_fold = [], [], []
    for seed in seeds:
        law, ours = np.zeros(len(table)), np.zeros(len(table))
        found = []
        for number, test in enumerate(grouped_folds(shapes, folds, seed)):
            model = PublishedModel(seed, members)
            learn, rows = np.flatnonzero(~test), np.flatnonzero(test)
            model.fit(*_rows(table, learn), cycles[learn])
            ours[rows], law[rows], _ = model.predict(*_rows(table, rows))
            found.append(scores(ours[rows], cycles[rows]))
            say(f"seed {seed}, fold {number + 1}: {found[-1]}")
        laws.append(scores(law, cycles))
        corrected.append(ours)
        each_fold.append(tuple(found))
    by_seed = tuple(scores(one, cycles) for one in corrected)
    predictors = {**(others or {}), "law": mean_scores(laws), "law + residual": mean_scores(by_seed)}
    report = PublishedReport(
        len(table), "cross-validated by layer shape", predictors, by_seed, tuple(each_fold)
    )
    return report, np.exp(np.mean(np.log(corrected), axis=0))


def _rows(table: MappingTable, rows: NDArray[Any]) -> tuple[list[Problem], list[Mapping]]:
    return [table.problems[i] for i in rows], [table.mappings[i] for i in rows]
