"""Reports of the learned model: on a test set, residuals side by side, transfer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from baco.bench.learned.compare import SPLITS, ResidualScores, coverage, cross_validated, stratum_scores
from baco.bench.learned.measured_set import joined, measured_set
from baco.bench.learned.scores import Scores, scores
from baco.bench.learned.timed import timed_cycles
from baco.bench.learned.train import LEARNERS, WEIGHTS, check_learner, fingerprint, load_model, train
from baco.bench.learned.transfer import LEAST_TESTED, MachineTransfer, leave_one_machine_out, summary
from baco.bench.sets.dataset import Dataset, read_dataset
from baco.common.errors import InputError, did_you_mean
from baco.common.files import output_folder
from baco.exploration.cost.learned.model import LearnedModel

__all__ = [
    "SetReport",
    "compare_residuals",
    "comparison_text",
    "evaluate_set",
    "train_model",
    "transfer_set",
    "transfer_text",
]

Progress = Callable[[str], None]


@dataclass(frozen=True)
class SetReport:
    """How well a measured set is predicted.

    Attributes:
        rows: of the set.
        predictors: scores of all rows by predictor: `MACs / dim²`, `analytical`, and one for each residual.
        strata: scores by predictor and measured stratum.
        coverage: by residual the percent of rows within 1 and 2 of its deviations.
        about: by residual what it was trained on.
    """

    rows: int
    predictors: dict[str, Scores]
    strata: dict[str, dict[str, Scores]]
    coverage: dict[str, dict[str, float]]
    about: dict[str, dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    def text(self) -> str:
        """For people."""
        width = max(map(len, self.predictors))
        lines = [f"{self.rows:,} measured rows"]
        for name, one in self.predictors.items():
            lines.append(f"  {name:<{width}}  {one}")
            lines += [
                f"  {'':<{width}}    {stratum}: {part}" for stratum, part in self.strata.get(name, {}).items()
            ]
            if name in self.coverage:
                within = ", ".join(
                    f"{percent:.0f}% {where}" for where, percent in self.coverage[name].items()
                )
                lines.append(
                    f"  {'':<{width}}    deviations: {within}; learned from {_facts(self.about[name])}"
                )
        return "\n".join(lines)


def _facts(about: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in about.items())


def train_model(
    sets: Sequence[str | Path],
    residual: str = "trees",
    seed: int = 0,
    *,
    programs: bool = False,
    out: str | Path | None = None,
) -> LearnedModel:
    """Train a residual on measured sets and write its weights.

    Args:
        programs: let it see counts of the compiled programs.
        out: by default where the product looks for its weights.

    Raises InputError and StorageError.
    """
    check_learner(residual)
    data = joined([measured_set(read_dataset(name), programs=programs) for name in sets])
    about = {"sets": ", ".join(map(str, sets)), "features": _kind(programs), "base": fingerprint()}
    model = train(residual, data, seed, **about)
    path = Path(out or WEIGHTS[programs])
    output_folder(path.parent)
    model.store(path)
    return model


def _kind(programs: bool) -> str:
    return "mappings and compiled programs" if programs else "mappings"


def evaluate_set(
    name: str | Path,
    weights: Sequence[str | Path] = (),
    *,
    timed: bool = False,
    progress: Progress | None = None,
) -> SetReport:
    """Predict a measured set and compare.

    Args:
        name: of the set, or its file.
        weights: of the residuals; those that come with the product by default.
        timed: also by compiling each row and running it on the timed model, some tenths of a second a row.
        progress: gets a line a row of these.

    Raises InputError for what is missing or malformed.
    """
    paths = [Path(one) for one in weights] or [path for path in WEIGHTS.values() if path.is_file()]
    if not paths:
        raise InputError("no weights come with this copy", hint="make some: baco model train")
    dataset = read_dataset(name)
    plain, full = (measured_set(dataset, programs=programs) for programs in (False, True))
    predictors = {"MACs / dim²": _macs(dataset), "analytical": plain.predicted}
    if timed:
        predictors["timed model of the compiled programs"] = timed_cycles(dataset, progress)
    covered: dict[str, dict[str, float]] = {}
    about: dict[str, dict[str, Any]] = {}
    current = fingerprint()
    for path in paths:
        model = load_model(path)
        data = full if model.columns == full.features.names else plain
        found = model.correct(data.features, data.predicted)
        label = f"{model.residual.name}, {model.about.get('features', path.stem)}"
        predictors[label] = found.cycles
        covered[label], about[label] = coverage(found, data), dict(model.about)
        if model.about.get("base", current) != current:
            about[label]["note"] = "for another version of the analytical model: train again"
    return SetReport(
        len(plain),
        {kind: scores(cycles, plain.cycles, plain.groups) for kind, cycles in predictors.items()},
        {kind: stratum_scores(cycles, plain) for kind, cycles in predictors.items()},
        covered,
        about,
    )


def _macs(dataset: Dataset) -> Any:
    pairs = zip(dataset.problems, dataset.accelerators, strict=True)
    return np.array([problem.macs / one.dim**2 for problem, one in pairs])


def compare_residuals(
    name: str | Path,
    residuals: Sequence[str] = tuple(LEARNERS),
    splits: Sequence[str] = SPLITS,
    *,
    folds: int = 5,
    rounds: int | None = None,
    seeds: int = 5,
    programs: bool = False,
    also: Sequence[str | Path] = (),
    progress: Progress = lambda _: None,
) -> list[ResidualScores]:
    """Cross-validate residuals on a measured set, split by layer, by accelerator, and by both.

    Args:
        rounds: so many of a seed's folds are tested, all by default.
        also: further sets to learn from, without the layers that are tested.

    Raises InputError.
    """
    for split in splits:
        if split not in SPLITS:
            raise InputError(f"rows cannot be split by '{split}'", hint=did_you_mean(split, SPLITS))
    for residual in residuals:
        check_learner(residual)
    data = measured_set(read_dataset(name), programs=programs)
    others = [measured_set(read_dataset(one), programs=programs) for one in also]
    analytical = scores(data.predicted, data.cycles, data.groups)
    found = [ResidualScores("analytical", "-", (analytical,))]
    for split in splits:
        for residual in residuals:
            one, _ = cross_validated(
                data,
                residual,
                split,
                folds=folds,
                rounds=rounds,
                seeds=range(seeds),
                also=joined(others) if others else None,
                progress=progress,
            )
            found.append(one)
    return found


def comparison_text(found: Sequence[ResidualScores]) -> str:
    """A table in Markdown: mean over the seeds, and their standard deviation."""
    lines = [
        "| residual | split by | seeds | Spearman | mean error | median error | bias | pairs in order"
        " | within 1, 2 deviations | processor seconds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        pairs = "-"
        if one.seeds[0].pairs_percent is not None:
            pairs = f"{one.mean('pairs_percent'):.2f} ± {one.spread('pairs_percent'):.2f}%"
        within = ", ".join(f"{one.mean_within[name]:.0f}%" for name in one.mean_within) or "-"
        lines.append(
            f"| {one.name} | {one.split} | {len(one.seeds)}"
            f" | {one.mean('spearman'):.4f} ± {one.spread('spearman'):.4f}"
            f" | {one.mean('mean_percent'):.2f} ± {one.spread('mean_percent'):.2f}%"
            f" | {one.mean('median_percent'):.2f}% | {one.mean('bias_percent'):+.2f}% | {pairs}"
            f" | {within} | {one.seconds:.0f} |"
        )
    return "\n".join(lines)


def transfer_set(
    name: str | Path,
    residual: str = "trees",
    *,
    measurements: int = 50,
    seed: int = 0,
    programs: bool = False,
    progress: Progress = lambda _: None,
) -> list[MachineTransfer]:
    """Leave out every accelerator of a measured set in turn, and adapt to it with some measurements."""
    check_learner(residual)
    data = measured_set(read_dataset(name), programs=programs)
    found = leave_one_machine_out(data, residual, measurements=measurements, seed=seed, progress=progress)
    if not found:
        raise InputError(
            f"no accelerator of this set has {measurements + LEAST_TESTED} measurements",
            hint="use fewer measurements to adapt with",
        )
    return found


def transfer_text(found: Sequence[MachineTransfer]) -> str:
    """A table in Markdown: mean errors of the rows tested."""
    lines = [
        "| accelerator left out | rows | analytical | residual of others | adapted | within | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in found:
        errors = (one.base, one.before, one.after, one.within)
        lines.append(
            f"| {one.machine} | {one.after.rows} | "
            + " | ".join(f"{error.mean_percent:.2f}%" for error in errors)
            + f" | {one.ratio:.2f} |"
        )
    mean = summary(found)
    columns = " | ".join(f"{mean[name]:.2f}%" for name in ("base", "before", "after", "within"))
    return "\n".join([*lines, f"| mean | | {columns} | {mean['ratio']:.2f} |"])
