"""`baco model evaluate --rows`: how well cycles of the published FPGA measurements are predicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from baco.bench.learned.published import PublishedModel, cross_validate, measured_cycles
from baco.bench.learned.published_timing import unfitted_cycles
from baco.bench.learned.scores import Scores, scores
from baco.exploration.cost.evaluate import predict, write_predictions
from baco.exploration.cost.learned.protocol import Floats
from baco.exploration.mapping_rows import MappingTable, read_mapping_table
from baco.workloads.problem import Problem

__all__ = ["PublishedReport", "evaluate_published"]


@dataclass(frozen=True)
class PublishedReport:
    """What `evaluate_published` found.

    Attributes:
        rows: predicted.
        how: `cross-validated by layer shape`, or what was learned from.
        predictors: by name the scores: `MACs / 256`, `reference` (method specification, section 3), `timing gemmini` (the
            original's cycles, with nothing fitted to these rows: `published_timing`), `law` and `law + residual`.
        seeds, folds: of a cross-validation, `law + residual` of each seed, and of each fold of each seed.
    """

    rows: int
    how: str
    predictors: dict[str, Scores]
    seeds: tuple[Scores, ...] = ()
    folds: tuple[tuple[Scores, ...], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    def text(self) -> str:
        """For people."""
        width = max(map(len, self.predictors))
        lines = [f"{self.rows:,} rows of FPGA measurements, {self.how}"]
        lines += [f"  {name:<{width}}  {one}" for name, one in self.predictors.items()]
        if len(self.seeds) > 1:
            lines += [f"  seed {number}: {one}" for number, one in enumerate(self.seeds)]
        if self.folds:
            each = [one for folds in self.folds for one in folds]
            ranks = [one.spearman for one in each if one.spearman is not None]
            medians = [one.median_percent for one in each]
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
    progress: Callable[[str], None] = lambda _: None,
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
    found: dict[str, Scores] = {}
    found["MACs / 256"] = scores(_macs(table.problems), measured)
    found["reference"] = scores(predict(table)[0], measured)
    found["timing gemmini"] = scores(unfitted_cycles(table.problems, table.mappings), measured)
    if train is None:
        cross = cross_validate(table, folds=folds, seeds=seeds, progress=progress)
        found |= {"law": cross.law, "law + residual": cross.corrected}
        report = PublishedReport(
            len(table), "cross-validated by layer shape", found, cross.seeds, cross.folds
        )
        predicted = cross.predicted
    else:
        predicted = _learned(train, table, seeds, found, measured)
        report = PublishedReport(len(table), f"learned from {train}", found)
    if out is not None:
        write_predictions(table, {"predicted.cycle": predicted}, out)
    return report


def _learned(
    train: str | Path, table: MappingTable, seeds: Sequence[int], found: dict[str, Scores], measured: Floats
) -> Floats:
    source = read_mapping_table(train)
    cycles = measured_cycles(source)
    each, laws = [], []
    for seed in seeds:
        model = PublishedModel(seed)
        model.fit(source.problems, source.mappings, cycles)
        predicted, law, _ = model.predict(table.problems, table.mappings)
        each.append(np.log(predicted))
        laws.append(np.log(law))
    result: Floats = np.exp(np.mean(each, axis=0))
    found["law"] = scores(np.exp(np.mean(laws, axis=0)), measured)
    found["law + residual"] = scores(result, measured)
    return result


def _macs(problems: Sequence[Problem]) -> Floats:
    return np.array([problem.macs / 256 for problem in problems])
