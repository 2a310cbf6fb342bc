"""Cycles of the published FPGA measurements: a law of resources for each of its two programs, and boosted trees on top.

What is evaluated is a table in the published column format (`baco.exploration.mapping_rows`). The accelerator that its columns
describe is not used: all rows were measured on one machine (see `published_counts`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.bench.learned.learners import TreeLearner, choose_doubt, fit_law
from baco.bench.learned.published_counts import (
    CONVOLUTION,
    FEATURES,
    PRODUCT,
    convolution_counts,
    is_product,
    product_counts,
    raw_features,
)
from baco.bench.learned.resource_law import ResourceLaw
from baco.bench.learned.scores import Scores, group_numbers, grouped_folds, mean_scores, scores
from baco.common.errors import InputError, Location
from baco.compiler.mapping.nest import Mapping
from baco.exploration.cost.learned.boosting import BoostingOptions
from baco.exploration.cost.learned.protocol import Floats, ProgramFeatures
from baco.exploration.cost.learned.trees import shrunk
from baco.exploration.mapping_rows import MappingTable
from baco.workloads.problem import Problem

__all__ = ["CrossValidation", "PublishedModel", "cross_validate", "measured_cycles"]

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
class CrossValidation:
    """Rows predicted by models that never saw their shapes.

    Attributes:
        law, corrected: scores of all rows, without and with the residual; the mean over seeds of the splits.
        seeds: scores of each seed, residual included.
        folds: scores of each fold of each seed.
        predicted: (B,) geometric mean over the seeds.
    """

    law: Scores
    corrected: Scores
    seeds: tuple[Scores, ...]
    folds: tuple[tuple[Scores, ...], ...]
    predicted: Floats


def cross_validate(
    table: MappingTable,
    *,
    folds: int = 10,
    seeds: Sequence[int] = (0,),
    members: int = 2,
    progress: Callable[[str], None] = lambda _: None,
) -> CrossValidation:
    """Split a table by layer shape, learn on the other shapes, predict each. Raises InputError for too few rows."""
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
            progress(f"seed {seed}, fold {number + 1}: {found[-1]}")
        laws.append(law)
        corrected.append(ours)
        each_fold.append(tuple(found))
    by_seed = tuple(scores(one, cycles) for one in corrected)
    return CrossValidation(
        law=mean_scores([scores(one, cycles) for one in laws]),
        corrected=mean_scores(by_seed),
        seeds=by_seed,
        folds=tuple(each_fold),
        predicted=np.exp(np.mean(np.log(corrected), axis=0)),
    )


def _rows(table: MappingTable, rows: NDArray[Any]) -> tuple[list[Problem], list[Mapping]]:
    return [table.problems[i] for i in rows], [table.mappings[i] for i in rows]
