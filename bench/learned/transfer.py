"""From one source of measurements to another: an accelerator never seen, the original's RTL, FPGAs.

What a model gets wrong there is itself learned: a constant, and a Gaussian process on top of it whose idea of which programs are
alike comes from the source: the rows of the features as the source's spread scales them. The process knows how much to believe:
where the new measurements say nothing, the source's prediction stays. Rows learned from and rows tested have no layer in common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.fit.original import fit_profile, predict
from baco.bench.harness.experiment import Say, silent, table
from baco.bench.learned.measured_set import MeasuredSet, measured_set
from baco.bench.learned.process import GaussianProcess, standardised
from baco.bench.learned.published import measured_cycles
from baco.bench.learned.scores import Scores, group_numbers, grouped_folds, mean_scores, scores
from baco.bench.learned.train import check_learner, train
from baco.bench.learned.trees import choose_doubt
from baco.bench.sets.dataset import read_dataset
from baco.bench.timing import TimedProgram, bench_timing
from baco.common.errors import InputError, Location
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.text import parse_layer
from baco.compiler.mapping.batch import MappingBatch, ProblemBatch
from baco.compiler.mapping.nest import ROW_DIM, Mapping
from baco.compiler.mapping.text import parse_mapping_text
from baco.exploration.cost.learned.analytical import BasePrediction, instruction_base
from baco.exploration.cost.learned.features import described
from baco.exploration.cost.learned.learned_model import Corrected, LearnedModel
from baco.exploration.cost.learned.protocol import Floats, ProgramFeatures
from baco.exploration.cost.learned.trees import shrunk
from baco.exploration.cost.reference import access_counts, latency_terms
from baco.exploration.mapping_rows import read_mapping_table
from baco.workloads.problem import DIMS

#: Rows of an accelerator that are left to test on, at least.
_LEAST_TESTED = 20
#: Of the models within the distribution.
_FOLDS = 4
#: The machine of the original and of the FPGAs, and draws of the rows that are learned from.
_ACCELERATOR, _REPEATS = "gemmini-default", 5
#: Part of the layers whose rows may be learned from, and that for which half of them are too few rows.
_KNOWN, _MOST_KNOWN = 1 / 2, 2 / 3

Rows = NDArray[np.int64]


# -------------------------------------------------------------------- to an accelerator never seen


@dataclass
class Adapted:
    """A source's model and what new measurements changed.

    Attributes:
        source: trained elsewhere.
        process: of what it gets wrong here.
        known: features that the source was trained on.
        doubt: of what the process says, see `baco.exploration.cost.learned.trees.shrunk`.
    """

    source: LearnedModel
    process: GaussianProcess
    known: ProgramFeatures
    doubt: float

    def correct(self, features: ProgramFeatures, predicted: Floats) -> Corrected:
        """As `LearnedModel.correct`."""
        before = self.source.correct(features, predicted)
        mean, deviation = self.process.predict(standardised(features, self.known))
        return Corrected(before.cycles * np.exp(shrunk(mean, deviation, self.doubt)), deviation)


def adapt(source: LearnedModel, known: ProgramFeatures, new: MeasuredSet) -> Adapted:
    """Learn from measurements of something new what a model gets wrong there. How much of that is to be doubted, measurements of
    layers that it did not see decide: with few of them, all of it is.

    Args:
        known: features that the source was trained on (they say how much each of them varies).
        new: measurements, a few are enough.
    """
    before = source.correct(new.features, new.predicted)
    x, y = standardised(new.features, known), np.log(new.cycles / before.cycles)
    process = GaussianProcess(x, y)
    mean, deviation = np.zeros(len(new)), np.ones(len(new))
    for task in np.unique(new.tasks):
        out = new.tasks == task
        if not out.all():
            mean[out], deviation[out] = GaussianProcess(x[~out], y[~out], process.found).predict(x[out])
    return Adapted(source, process, known, choose_doubt(mean, deviation, y, new.tasks))


@dataclass(frozen=True)
class MachineTransfer:
    """One accelerator that was left out.

    Attributes:
        machine: its name.
        measurements: of it that were used to adapt.
        base: scores of its other rows by the analytical model alone.
        before, after: of the same rows by the source, without and with the measurements.
        within: by a model that was trained on the accelerator, too, on other layers.
    """

    machine: str
    measurements: int
    base: Scores
    before: Scores
    after: Scores
    within: Scores

    @property
    def ratio(self) -> float:
        """Mean error after adapting over that within the distribution."""
        return self.after.mean_percent / self.within.mean_percent


def leave_one_machine_out(
    data: MeasuredSet, residual: str, *, measurements: int = 50, seed: int = 0, say: Say = silent
) -> list[MachineTransfer]:
    """For every accelerator: train on the others, adapt with some measurements of it, test on its rows left.

    The rows tested are of layers that neither the source nor the adapting measurements have. `within` trains on all
    accelerators, and tests the same rows by models that have never seen their layers.
    """
    within = np.zeros(len(data))
    for fold in grouped_folds(data.tasks, _FOLDS, seed):
        model = train(residual, data.take(~fold), seed)
        within[fold] = model.correct(data.features.take(fold), data.predicted[fold]).cycles
    found = []
    for machine in range(len(data.names)):
        here = np.flatnonzero(data.machines == machine)
        if len(here) < measurements + _LEAST_TESTED:
            continue
        chosen = np.random.default_rng([seed, machine]).permutation(here)[:measurements]
        test = (data.machines == machine) & ~np.isin(data.tasks, data.tasks[chosen])
        source_rows = data.take((data.machines != machine) & ~np.isin(data.tasks, data.tasks[test]))
        source, tested = train(residual, source_rows, seed), data.take(test)
        before = source.correct(tested.features, tested.predicted)
        adapted = adapt(source, source_rows.features, data.take(chosen))
        after = adapted.correct(tested.features, tested.predicted)
        predictions = (tested.predicted, before.cycles, after.cycles, within[test])
        every = [scores(cycles, tested.cycles) for cycles in predictions]
        one = MachineTransfer(data.names[machine], measurements, *every)
        say(
            f"{one.machine}: error {one.before.mean_percent:.1f}% before, {one.after.mean_percent:.1f}% after"
            f" {measurements} measurements, {one.within.mean_percent:.1f}% within the distribution"
        )
        found.append(one)
    return found


def transfer_set(
    name: str | Path,
    residual: str = "trees",
    *,
    measurements: int = 50,
    seed: int = 0,
    programs: bool = False,
    say: Say = silent,
) -> list[MachineTransfer]:
    """Leave out every accelerator of a measured set in turn, and adapt to it with some measurements."""
    check_learner(residual)
    data = measured_set(read_dataset(name), programs=programs)
    found = leave_one_machine_out(data, residual, measurements=measurements, seed=seed, say=say)
    if not found:
        raise InputError(
            f"no accelerator of this set has {measurements + _LEAST_TESTED} measurements",
            hint="use fewer measurements to adapt with",
        )
    return found


def transfer_text(found: Sequence[MachineTransfer]) -> str:
    """A table in Markdown: mean errors of the rows tested."""
    errors = {"analytical": "base", "residual of others": "before", "adapted": "after", "within": "within"}

    def error(name: str) -> Callable[[MachineTransfer], str]:
        return lambda transfer: f"{getattr(transfer, name).mean_percent:.2f}%"

    means = [
        f"{np.mean([getattr(transfer, n).mean_percent for transfer in found]):.2f}%" for n in errors.values()
    ]
    return table(
        found,
        {
            "accelerator left out": lambda transfer: transfer.machine,
            "rows": lambda transfer: transfer.after.rows,
            **{title: error(name) for title, name in errors.items()},
            "ratio": lambda transfer: f"{transfer.ratio:.2f}",
        },
        ["mean", "", *means, f"{np.mean([transfer.ratio for transfer in found]):.2f}"],
    )


# -------------------------------------------------------------------- to another machine's measurements


@dataclass(frozen=True)
class Transferred:
    """One way to predict rows that were measured elsewhere.

    Attributes:
        name: of the way.
        measurements: rows of other layers that it learned from.
        scores: means over several draws of these rows.
        random: the same of rows with random mappings alone, where rows are told apart by that.
    """

    name: str
    measurements: int
    scores: Scores
    random: Scores | None = None


#: Cycles (B,) by the name of the way, from the rows to learn from.
Ways = Callable[[Rows], Dictionary[str, Floats]]


def _draws(
    ways: Ways,
    measured: Floats,
    layers: Rows,
    count: int,
    seed: int,
    drawn: NDArray[np.bool_] | None,
    say: Say,
) -> list[Transferred]:
    """Every way's scores after `count` measurements, drawn anew `_REPEATS` times."""
    each: dict[str, list[Scores]] = {}
    at_random: dict[str, list[Scores]] = {}
    for repeat in range(_REPEATS):
        learn, test = _split(layers, count, np.random.default_rng([seed, repeat]))
        for name, cycles in ways(learn).items():
            each.setdefault(name, []).append(scores(cycles[test], measured[test]))
            if drawn is not None:
                both = test[drawn[test]]
                at_random.setdefault(name, []).append(scores(cycles[both], measured[both]))
    found = [
        Transferred(name, count, mean_scores(ones), mean_scores(at_random[name]) if at_random else None)
        for name, ones in each.items()
    ]
    for one in found:
        say(f"{one.name}, {count} measurements: {one.scores}")
    return found


def _split(layers: Rows, count: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows to learn from, of half of the layers (of more where that is too few), and all rows of the others."""
    names = rng.permutation(np.unique(layers))
    known = np.isin(layers, names[: int(len(names) * _KNOWN)])
    if known.sum() < count:
        known = np.isin(layers, names[: int(len(names) * _MOST_KNOWN)])
    return rng.permutation(np.flatnonzero(known))[:count], np.flatnonzero(~known)


def _factor(predicted: Floats, measured: Floats, learn: Rows) -> Floats:
    return np.asarray(predicted * np.exp(np.median(np.log(measured[learn] / predicted[learn]))))


def _adapted(features: ProgramFeatures, said: Floats, measured: Floats, learn: Rows) -> Floats:
    inputs = standardised(features, features)
    process = GaussianProcess(inputs[learn], np.log(measured[learn] / said[learn]))
    return np.asarray(said * np.exp(process.predict(inputs)[0]))


def transfer_original(
    folder: str | Path, measurements: Sequence[int] = (10, 50, 200), *, seed: int = 0, say: Say = silent
) -> list[Transferred]:
    """Predict cycles on the original Gemmini's RTL by the model of ours, and by that of the original, each after some measurements.

    Ways: the instruction-aware model of our RTL times one factor, and adapted by a Gaussian process; the same model under
    the original's timing, with its constants fitted on the measurements alone, and adapted besides.

    Args:
        folder: of programs measured there, as of `baco.bench.timing.bench_timing`.

    Raises as `bench_timing`, and InputError for too few rows.
    """
    accelerator = load_accelerator(_ACCELERATOR).replace(timing="gemmini")
    programs = [program for program in bench_timing(folder, accelerator).programs if program.schedule]
    layers = group_numbers([str(parse_layer(program.layer).problem) for program in programs])
    _check_rows(len(programs), min(measurements), str(folder))
    measured = np.array([float(program.measured) for program in programs])
    ours, predicted = _described(programs, "baco")
    original, _ = _described(programs, "gemmini")
    predicted = predicted + np.array([float(program.beside) for program in programs])

    def ways(learn: Rows) -> dict[str, Floats]:
        said = _factor(predicted, measured, learn)
        constants = fit_profile([programs[at] for at in learn], accelerator)
        rows = predict(programs, accelerator, constants)
        fitted = np.array([float(program.predicted or 0) for program in rows])
        return {
            "model of our RTL, one factor": said,
            "model of our RTL, adapted": _adapted(ours, said, measured, learn),
            "original's timing, constants fitted": fitted,
            "original's timing, constants fitted, adapted": _adapted(original, fitted, measured, learn),
        }

    drawn = np.array([program.table == "random" for program in programs])
    return [
        transferred
        for count in measurements
        for transferred in _draws(ways, measured, layers, count, seed, drawn, say)
    ]


def _described(programs: Sequence[TimedProgram], timing: str) -> tuple[ProgramFeatures, Floats]:
    machine = load_accelerator(_ACCELERATOR).replace(timing=timing)
    return described(
        [parse_layer(program.layer) for program in programs],
        [parse_mapping_text(program.mapping) for program in programs],
        [machine] * len(programs),
        [program.style for program in programs],
    )


def transfer_published(
    rows: str | Path, *, measurements: int = 50, seed: int = 0, say: Say = silent
) -> list[Transferred]:
    """Predict published FPGA measurements by models of the RTL, and by these after some published measurements. The machine is
    the same (Gemmini's default), memory system and software are not; factors above the array's side, which the published software
    splits, are split here into loops.

    Raises InputError for a table without measured cycles or with too few rows.
    """
    found = read_mapping_table(rows)
    cycles, shapes = measured_cycles(found), group_numbers(found.problems)
    _check_rows(len(found) if len(np.unique(shapes)) > 1 else 0, measurements, found.path)
    accelerator, count = load_accelerator(_ACCELERATOR), len(found)
    mappings = [split_factors(mapping, accelerator.dim) for mapping in found.mappings]
    layers = [Layer(problem) for problem in found.problems]
    bases = {"reference model": reference_base, "instruction-aware model of the RTL": instruction_base}
    models = {
        name: described(layers, mappings, [accelerator] * count, ["explicit"] * count, base)
        for name, base in bases.items()
    }

    def ways(learn: Rows) -> dict[str, Floats]:
        said = {}
        for name, (features, predicted) in models.items():
            said[f"{name}, one factor"] = _factor(predicted, cycles, learn)
            said[f"{name}, adapted"] = _adapted(features, predicted, cycles, learn)
        return said

    return _draws(ways, cycles, shapes, measurements, seed, None, say)


def _check_rows(rows: int, measurements: int, where: str) -> None:
    if rows < 2 * measurements:
        raise InputError(
            f"{rows} rows of several shapes are too few to learn from {measurements} and test on others",
            location=Location(where),
        )


def split_factors(mapping: Mapping, dim: int) -> Mapping:
    """The mapping with spatial factors of at most `dim`; the rest becomes loops of level 1."""
    inner = list(mapping.temporal[1])
    sizes = []
    for name, factor in ((ROW_DIM[mapping.dataflow], mapping.rows), ("K", mapping.columns)):
        parts = -(-factor // dim)
        inner[DIMS.index(name)] *= parts
        sizes.append(-(-factor // parts))
    temporal = (mapping.temporal[0], tuple(inner), *mapping.temporal[2:])
    return replace(mapping, rows=sizes[0], columns=sizes[1], temporal=temporal)


def reference_base(
    layers: Sequence[Layer],
    mappings: Sequence[Mapping],
    accelerators: Sequence[Accelerator],
    styles: Sequence[str],
) -> BasePrediction:
    """The published reference model (method specification, section 3), which knows no commands: what learning from mappings alone is
    worth."""
    counts = access_counts(ProblemBatch.of([layer.problem for layer in layers]), MappingBatch.of(mappings))
    dim, bandwidth = (
        torch.tensor([getattr(one, name) for one in accelerators], dtype=torch.float64)
        for name in ("dim", "dram_bytes_per_cycle")
    )
    terms = latency_terms(counts, dim, 1.0)
    terms[3] = terms[3] / bandwidth
    names = ("array", "accumulator", "scratchpad", "memory")
    return BasePrediction(terms.amax(0).numpy(), dict(zip(names, terms.numpy(), strict=True)))


def transferred_text(found: Sequence[Transferred]) -> str:
    """A table in Markdown."""
    return table(
        found,
        {
            "way": lambda transferred: transferred.name,
            "measurements": lambda transferred: transferred.measurements,
            "rows": lambda transferred: transferred.scores.rows,
            "Spearman": lambda transferred: f"{transferred.scores.spearman or 0:.4f}",
            "mean error": lambda transferred: f"{transferred.scores.mean_percent:.1f}%",
            "median": lambda transferred: f"{transferred.scores.median_percent:.1f}%",
            "bias": lambda transferred: f"{transferred.scores.bias_percent:+.1f}%",
            "random mappings: Spearman": lambda transferred: (
                f"{transferred.random.spearman or 0:.4f}" if transferred.random else ""
            ),
            "mean error of these": lambda transferred: (
                f"{transferred.random.mean_percent:.1f}%" if transferred.random else ""
            ),
        },
    )
