"""The learned model on measured sets: trained, evaluated on a set that it has not seen, and cross-validated fold by fold."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.bench.harness.experiment import Say, silent, table
from baco.bench.learned.measured_set import MeasuredSet, joined, measured_set
from baco.bench.learned.scores import Scores, grouped_folds, scores
from baco.bench.learned.train import WEIGHTS, fingerprint, train
from baco.bench.sets.dataset import Dataset, read_dataset
from baco.common.errors import BacoError, InputError, did_you_mean
from baco.common.files import output_folder
from baco.exploration.cost.learned.learned_model import Corrected, LearnedModel
from baco.exploration.cost.learned.protocol import Floats
from baco.exploration.measure.layer import measure_layer

#: What test rows share with no training row: the layer, the accelerator, or either.
SPLITS = ("task", "accelerator", "both")


def train_model(
    sets: Sequence[str | Path], seed: int = 0, *, programs: bool = False, out: str | Path | None = None
) -> LearnedModel:
    """Train boosted trees on measured sets and write their weights.

    Args:
        programs: let them see counts of the compiled programs.
        out: by default where the product looks for its weights.

    Raises InputError and StorageError.
    """
    data = joined([measured_set(read_dataset(name), programs=programs) for name in sets])
    kind = "mappings and compiled programs" if programs else "mappings"
    about = {"sets": ", ".join(map(str, sets)), "features": kind, "base": fingerprint()}
    model = train(data, seed, **about)
    path = Path(out or WEIGHTS[programs])
    output_folder(path.parent)
    model.store(path)
    return model


# -------------------------------------------------------------------- on a set that nothing has seen


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

    def text(self) -> str:
        """For people."""
        width = max(map(len, self.predictors))
        lines = [f"{self.rows:,} measured rows"]
        for name, one in self.predictors.items():
            lines.append(f"  {name:<{width}}  {one}")
            parts = self.strata.get(name, {}).items()
            lines += [f"  {'':<{width}}    {stratum}: {part}" for stratum, part in parts]
            if name in self.coverage:
                within = ", ".join(f"{part:.0f}% {where}" for where, part in self.coverage[name].items())
                facts = ", ".join(f"{what} {value}" for what, value in self.about[name].items())
                lines.append(f"  {'':<{width}}    deviations: {within}; learned from {facts}")
        return "\n".join(lines)


def evaluate_set(
    name: str | Path, weights: Sequence[str | Path] = (), *, timed: bool = False, say: Say = silent
) -> SetReport:
    """Predict a measured set and compare.

    Args:
        name: of the set, or its file.
        weights: of the trees; those that come with the product by default.
        timed: also by compiling each row and running it on the timed model, some tenths of a second a row.
        say: gets a line a row of these.

    Raises InputError for what is missing or malformed.
    """
    paths = [Path(one) for one in weights] or [path for path in WEIGHTS.values() if path.is_file()]
    if not paths:
        raise InputError("no weights come with this copy", hint="make some: baco model train")
    dataset = read_dataset(name)
    plain, full = (measured_set(dataset, programs=programs) for programs in (False, True))
    predictors = {"MACs / dim²": dataset.mac_cycles, "analytical": plain.predicted}
    if timed:
        predictors["timed model of the compiled programs"] = _timed_cycles(dataset, say)
    covered: dict[str, dict[str, float]] = {}
    about: dict[str, dict[str, Any]] = {}
    current = fingerprint()
    for path in paths:
        model = LearnedModel.load(path)
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


def _timed_cycles(dataset: Dataset, say: Say) -> Floats:
    """Cycles (B,) of each row's layer by the timed model of the accelerator, from its first command to the end of its work; nothing
    in them is measured or fitted. Raises BacoError for an accelerator that the model does not cover, or a wrong result."""
    cycles = []
    rows = zip(dataset.layers, dataset.schedules, dataset.accelerators, strict=True)
    for number, (layer, schedule, accelerator) in enumerate(rows, 1):
        found = measure_layer(layer, schedule, accelerator, engine="timed")
        if found.cycles is None:
            raise BacoError(f"row {number}: {found.reason}")
        cycles.append(found.cycles)
        say(f"{number} of {len(dataset)}: {dataset.rows[number - 1].layer}")
    return np.array(cycles, dtype=np.float64)


def stratum_scores(cycles: Floats, data: MeasuredSet) -> dict[str, Scores]:
    """Scores of predicted cycles (B,) for the rows that waited for the same resource."""
    strata = np.array(data.strata)
    return {
        name: scores(cycles[strata == name], data.cycles[strata == name]) for name in sorted(set(data.strata))
    }


def coverage(found: Corrected, data: MeasuredSet) -> dict[str, float]:
    """Percent of measurements within one and two deviations; 68 and 95 if errors were normal and deviations right."""
    away = np.abs(np.log(data.cycles / found.cycles)) / found.deviation
    return {f"within {n}": float(100 * (away <= n).mean()) for n in (1, 2)}


# -------------------------------------------------------------------- fold by fold


@dataclass
class ResidualScores:
    """One residual under one split.

    Attributes:
        name, split: of them.
        seeds: scores of each seed.
        within: of each seed, see `coverage`.
        seconds: processor time of learning once, on average.
    """

    name: str
    split: str
    seeds: list[Scores] = field(default_factory=list)
    within: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0

    def mean(self, name: str) -> float:
        """Of one score over the seeds."""
        return float(np.mean([getattr(one, name) for one in self.seeds]))

    def spread(self, name: str) -> float:
        """Standard deviation of one score over the seeds."""
        return float(np.std([getattr(one, name) for one in self.seeds]))


def split_folds(
    data: MeasuredSet, split: str, folds: int, seed: int
) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """(training rows, test rows) of each fold; every row is tested once.

    With `both`, test rows of an accelerator are tested by a model that saw neither it nor their layers.
    """
    groups = data.tasks if split == "task" else data.machines
    for test in grouped_folds(groups, folds, seed):
        learned = ~test
        if split == "both":
            learned &= ~np.isin(data.tasks, data.tasks[test])
        if learned.any():
            yield learned, test


def cross_validated(
    data: MeasuredSet,
    split: str = "both",
    *,
    folds: int = 5,
    rounds: int | None = None,
    seeds: Sequence[int] = (0,),
    also: MeasuredSet | None = None,
    say: Say = silent,
) -> tuple[ResidualScores, Corrected]:
    """Predict every row by models that were not trained on what the split keeps apart.

    Args:
        rounds: so many of a seed's folds are tested, all by default; rows of the others are not scored.
        also: further rows to learn from, without those of the layers that are tested.

    Returns the scores, and the first seed's predictions (rows that were not tested: as the analytical model has them).
    """
    result, seconds = ResidualScores("trees", split), []
    first: Corrected | None = None
    for seed in seeds:
        cycles, deviation = data.predicted.copy(), np.ones(len(data))
        tested = np.zeros(len(data), np.bool_)
        for learned, test in islice(split_folds(data, split, folds, seed), rounds):
            rows = data.take(learned)
            if also is not None:
                rows = joined([rows, also.take(~np.isin(also.tasks, data.tasks[test]))])
            begun = time.process_time()
            model = train(rows, seed)
            seconds.append(time.process_time() - begun)
            part = model.correct(data.features.take(test), data.predicted[test])
            cycles[test], deviation[test] = part.cycles, part.deviation
            tested |= test
        rows = data.take(tested)
        found = scores(cycles[tested], rows.cycles, rows.groups)
        result.seeds.append(found)
        result.within.append(coverage(Corrected(cycles[tested], deviation[tested]), rows))
        first = first or Corrected(cycles, deviation)
        say(f"trees, split by {split}, seed {seed}: {found}, {found.pairs_percent:.2f}% of pairs in order")
    assert first is not None
    result.seconds = float(np.mean(seconds))
    return result, first


def compare_residuals(
    name: str | Path,
    splits: Sequence[str] = SPLITS,
    *,
    folds: int = 5,
    rounds: int | None = None,
    seeds: int = 5,
    programs: bool = False,
    also: Sequence[str | Path] = (),
    say: Say = silent,
) -> list[ResidualScores]:
    """Cross-validate the trees on a measured set, split by layer, by accelerator, and by both.

    Args:
        rounds: so many of a seed's folds are tested, all by default.
        also: further sets to learn from, without the layers that are tested.

    Raises InputError.
    """
    for split in splits:
        if split not in SPLITS:
            raise InputError(f"rows cannot be split by '{split}'", hint=did_you_mean(split, SPLITS))
    data = measured_set(read_dataset(name), programs=programs)
    others = [measured_set(read_dataset(dataset), programs=programs) for dataset in also]
    more = joined(others) if others else None
    found = [ResidualScores("analytical", "-", [scores(data.predicted, data.cycles, data.groups)])]
    for split in splits:
        scored, _ = cross_validated(
            data, split, folds=folds, rounds=rounds, seeds=range(seeds), also=more, say=say
        )
        found.append(scored)
    return found


def comparison_text(found: Sequence[ResidualScores]) -> str:
    """A table in Markdown: mean over the seeds, and their standard deviation."""

    def spread(name: str, form: str) -> Callable[[ResidualScores], str]:
        return lambda residual: (
            f"{residual.mean(name):{form}} ± {residual.spread(name):{form}}"
            if getattr(residual.seeds[0], name) is not None
            else "-"
        )

    def within(residual: ResidualScores) -> str:
        names = residual.within[0] if residual.within else ()
        return ", ".join(f"{np.mean([seed[name] for seed in residual.within]):.0f}%" for name in names) or "-"

    return table(
        found,
        {
            "residual": lambda residual: residual.name,
            "split by": lambda residual: residual.split,
            "seeds": lambda residual: len(residual.seeds),
            "Spearman": spread("spearman", ".4f"),
            "mean error, %": spread("mean_percent", ".2f"),
            "median error": lambda residual: f"{residual.mean('median_percent'):.2f}%",
            "bias": lambda residual: f"{residual.mean('bias_percent'):+.2f}%",
            "pairs in order, %": spread("pairs_percent", ".2f"),
            "within 1, 2 deviations": within,
            "processor seconds": lambda residual: f"{residual.seconds:.0f}",
        },
    )
