"""Adapting a trained model to an accelerator, or a measurement source, it has never seen, with few measurements.

What the model gets wrong there is itself learned: a constant, and a Gaussian process on top of it whose idea of
which programs are alike comes from the source: the rows of the features as the source's spread scales them. The
process knows how much to believe: where the new measurements say nothing, the source's prediction stays. How much of it is
to be doubted, measurements of layers that it did not see decide: with few of them, all of it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from baco.bench.learned.learners import choose_doubt
from baco.bench.learned.measured_set import MeasuredSet
from baco.bench.learned.process import GaussianProcess, standardised
from baco.bench.learned.scores import Scores, grouped_folds, scores
from baco.bench.learned.train import train
from baco.exploration.cost.learned.model import Corrected, LearnedModel
from baco.exploration.cost.learned.protocol import Floats, ProgramFeatures
from baco.exploration.cost.learned.trees import shrunk

#: Rows of an accelerator that are left to test on, at least.
LEAST_TESTED = 20
#: Of the models within the distribution.
_FOLDS = 4

__all__ = ["Adapted", "MachineTransfer", "adapt", "leave_one_machine_out", "summary"]


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
    """Learn from measurements of something new what a model gets wrong there.

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
        before, after: scores of its other rows, without and with them.
        within: of the same rows by a model that was trained on the accelerator, too, on other layers.
        base: of the analytical model alone.
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
    data: MeasuredSet,
    residual: str,
    *,
    measurements: int = 50,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> list[MachineTransfer]:
    """For every accelerator: train on the others, adapt with some measurements of it, test on its rows left.

    The rows tested are of layers that neither the source nor the adapting measurements have. `within` trains on all
    accelerators, and tests the same rows by models that have never seen their layers.
    """
    within = np.zeros(len(data))
    for test in grouped_folds(data.tasks, _FOLDS, seed):
        model = train(residual, data.take(~test), seed)
        within[test] = model.correct(data.features.take(test), data.predicted[test]).cycles
    found = []
    for machine in range(len(data.names)):
        here = np.flatnonzero(data.machines == machine)
        if len(here) < measurements + LEAST_TESTED:
            continue
        chosen = np.random.default_rng([seed, machine]).permutation(here)[:measurements]
        seen = np.isin(data.tasks, data.tasks[chosen])
        test = (data.machines == machine) & ~seen
        known = (data.machines != machine) & ~np.isin(data.tasks, data.tasks[test])
        source_rows = data.take(known)
        source = train(residual, source_rows, seed)
        tested = data.take(test)
        before = source.correct(tested.features, tested.predicted)
        after = adapt(source, source_rows.features, data.take(chosen)).correct(
            tested.features, tested.predicted
        )
        one = MachineTransfer(
            data.names[machine],
            measurements,
            scores(tested.predicted, tested.cycles),
            scores(before.cycles, tested.cycles),
            scores(after.cycles, tested.cycles),
            scores(within[test], tested.cycles),
        )
        progress(
            f"{one.machine}: error {one.before.mean_percent:.1f}% before, {one.after.mean_percent:.1f}% after"
            f" {measurements} measurements, {one.within.mean_percent:.1f}% within the distribution"
        )
        found.append(one)
    return found


def summary(found: Sequence[MachineTransfer]) -> dict[str, Any]:
    """Means over accelerators."""
    return {
        name: float(np.mean([getattr(one, name).mean_percent for one in found]))
        for name in ("base", "before", "after", "within")
    } | {"ratio": float(np.mean([one.ratio for one in found]))}
