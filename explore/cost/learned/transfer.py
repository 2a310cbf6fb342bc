"""Adapting a trained model to an accelerator, or a measurement source, it has never seen, with few measurements.

What the model gets wrong there is itself learned: a constant, and a Gaussian process on top of it whose idea of
which programs are alike comes from the source: the rows of the features as the source's spread scales them. The
process knows how much to believe: where the new measurements say nothing, the source's prediction stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from explore.cost.learned.measured import MeasuredSet
from explore.cost.learned.model import Corrected, LearnedModel
from explore.cost.learned.protocol import Features, Floats
from explore.cost.learned.scores import Scores, grouped_folds, scores

__all__ = [
    "Adapted",
    "GaussianProcess",
    "Transfer",
    "adapt",
    "leave_one_machine_out",
    "standardised",
    "summary",
]

#: Hyperparameters tried: length over the median distance, and part of the variance that is structure, not noise.
_LENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
_STRUCTURE = (0.05, 0.2, 0.5, 0.8, 0.95)
#: Variance of the constant's prior against all the rest.
_CONSTANT = 4.0
_LEAST_VARIANCE = 1e-5
_FAR = 4.0


class GaussianProcess:
    """Regression with a squared-exponential kernel, a constant mean with a wide prior, and noise.

    Source: Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), algorithm 2.1; the few
    hyperparameters are those of a grid with the largest marginal likelihood, the variance in closed form.
    """

    def fit(self, x: Floats, y: Floats) -> None:
        """Learn y (B,) from x (B, F), whose columns are of comparable scale."""
        self.x = x
        square = _square_distances(x, x)
        apart = square[np.triu_indices(len(x), 1)]
        unit = float(np.sqrt(np.median(apart))) if apart.size and np.median(apart) > 0 else 1.0
        best = -np.inf
        for length in _LENGTHS:
            correlation = np.exp(-0.5 * square / (length * unit) ** 2)
            for structure in _STRUCTURE:
                kernel = structure * correlation + _CONSTANT + (1 - structure) * np.eye(len(x))
                factor = cho_factor(kernel, lower=True)
                solved = cho_solve(factor, y)
                variance = max(float(y @ solved) / len(y), _LEAST_VARIANCE)
                likelihood = -0.5 * len(y) * np.log(variance) - np.log(np.diag(factor[0])).sum()
                if likelihood > best:
                    best = likelihood
                    self.length, self.structure, self.variance = length * unit, structure, variance
                    self.factor, self.solved = factor, solved

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation, both (B,), of y at x (B, F), noise included."""
        cross = self.structure * np.exp(-0.5 * _square_distances(x, self.x) / self.length**2) + _CONSTANT
        mean: Floats = cross @ self.solved
        left = 1 + _CONSTANT - np.einsum("ij,ji->i", cross, cho_solve(self.factor, cross.T))
        return mean, np.sqrt(self.variance * np.maximum(left, 1e-9))


def _square_distances(a: Floats, b: Floats) -> Floats:
    found: Floats = np.maximum((a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T, 0.0)
    return found


@dataclass
class Adapted:
    """A source's model and what new measurements changed.

    Attributes:
        source: trained elsewhere.
        process: of what it gets wrong here.
        known: features that the source was trained on.
    """

    source: LearnedModel
    process: GaussianProcess
    known: Features

    def correct(self, features: Features, predicted: Floats) -> Corrected:
        """As `LearnedModel.correct`."""
        before = self.source.correct(features, predicted)
        mean, deviation = self.process.predict(standardised(features, self.known))
        return Corrected(before.cycles * np.exp(mean), deviation)


def adapt(source: LearnedModel, known: Features, new: MeasuredSet) -> Adapted:
    """Learn from measurements of something new what a model gets wrong there.

    Args:
        known: features that the source was trained on (they say how much each of them varies).
        new: measurements, a few are enough.
    """
    before = source.correct(new.features, new.predicted)
    process = GaussianProcess()
    process.fit(standardised(new.features, known), np.log(new.cycles / before.cycles))
    return Adapted(source, process, known)


def standardised(features: Features, known: Features) -> Floats:
    """Flat rows in units of the deviation of each column among `known`; 0 where those do not vary."""
    scale = np.nanstd(known.flat, axis=0)
    found = (features.flat - np.nanmean(known.flat, axis=0)) / np.where(scale > 1e-6, scale, np.inf)
    return np.asarray(np.nan_to_num(found).clip(-_FAR, _FAR))


@dataclass(frozen=True)
class Transfer:
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
    folds: int = 4,
    seed: int = 0,
    machines: Sequence[int] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Transfer]:
    """For every accelerator: train on the others, adapt with some measurements of it, test on its rows left.

    The rows tested are of layers that neither the source nor the adapting measurements have. `within` trains on all
    accelerators, and tests the same rows by models that have never seen their layers.
    """
    within = np.zeros(len(data))
    for test in grouped_folds(data.tasks, folds, seed):
        model = LearnedModel.train(residual, data.take(~test), seed)
        within[test] = model.correct(data.features.take(test), data.predicted[test]).cycles
    found = []
    for machine in range(len(data.names)) if machines is None else machines:
        here = np.flatnonzero(data.machines == machine)
        if len(here) < 2 * measurements:
            continue
        chosen = np.random.default_rng([seed, machine]).permutation(here)[:measurements]
        seen = np.isin(data.tasks, data.tasks[chosen])
        test = (data.machines == machine) & ~seen
        known = (data.machines != machine) & ~np.isin(data.tasks, data.tasks[test])
        source_rows = data.take(known)
        source = LearnedModel.train(residual, source_rows, seed)
        tested = data.take(test)
        before = source.correct(tested.features, tested.predicted)
        after = adapt(source, source_rows.features, data.take(chosen)).correct(
            tested.features, tested.predicted
        )
        one = Transfer(
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


def summary(found: Sequence[Transfer]) -> dict[str, Any]:
    """Means over accelerators."""
    return {
        name: float(np.mean([getattr(one, name).mean_percent for one in found]))
        for name in ("base", "before", "after", "within")
    } | {"ratio": float(np.mean([one.ratio for one in found]))}
