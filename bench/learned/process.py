"""A Gaussian process as a residual: smooth corrections from few measurements, sure only near what it has seen."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.bench.learned.trees import Peer
from baco.common.errors import InputError
from baco.exploration.cost.learned.protocol import Correction, Floats, ProgramFeatures

#: Variance of the constant's prior; that of all the rest is 1, both in units of what `y` varies by.
_CONSTANT = 4.0
#: Where the variance, the length (in typical distances of two rows) and the noise of the rest are looked for.
_VARIANCES, _LENGTHS, _NOISES = (1e-6, 1e3), (0.1, 10.0), (1e-4, 1.0)
_NOISE = 0.135
_FAR = 4.0


class GaussianProcess:
    """Regression with a squared-exponential kernel, a constant with a wide prior, and noise; scikit-learn's.

    Source: Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), algorithm 2.1 and section 5.4.1.
    Variance, length and noise are those of the largest marginal likelihood.

    Args:
        x, y: (B, F) standardised columns, and what to learn (B,).
        found: logarithms of variance, length and noise, where they are known already.

    Raises InputError without scikit-learn.
    """

    def __init__(self, x: Floats, y: Floats, found: Floats | None = None) -> None:
        try:
            from sklearn.exceptions import ConvergenceWarning
            from sklearn.gaussian_process import GaussianProcessRegressor, kernels
        except ImportError:
            raise InputError(
                "a Gaussian process needs scikit-learn", hint="install it: pip install 'baco[learn]'"
            ) from None
        squares = ((x[:, None] - x[None, :: max(1, len(x) // 64)]) ** 2).sum(2)
        length = max(float(np.median(squares)) ** 0.5, 1e-3)
        smooth = kernels.RBF(length, (length * _LENGTHS[0], length * _LENGTHS[1]))
        constant = kernels.ConstantKernel(_CONSTANT, "fixed")
        kernel = kernels.ConstantKernel(max(float(np.var(y)), 1e-6), _VARIANCES) * (
            smooth + constant + kernels.WhiteKernel(_NOISE, _NOISES)
        )
        if found is not None:
            kernel = kernel.clone_with_theta(found)
        optimizer = "fmin_l_bfgs_b" if found is None else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # that a bound is met is no news
            self._process = GaussianProcessRegressor(kernel, optimizer=optimizer).fit(x, y)

    @property
    def found(self) -> Floats:
        """Logarithms of variance, length and noise."""
        return np.asarray(self._process.kernel_.theta)

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation, both (B,), of y at x (B, F), noise included."""
        if not len(x):
            return np.zeros(0), np.zeros(0)
        mean, deviation = self._process.predict(x, return_std=True)
        return mean, deviation


def standardised(features: ProgramFeatures, known: ProgramFeatures) -> Floats:
    """Columns that a process looks at in units of their deviation among `known`; 0 where those do not vary."""
    columns = _telling_columns(known.names)
    rows = known.flat[:, columns]
    rows = np.where(np.isnan(rows).all(0), 0.0, rows)  # a column without numbers says nothing
    spread = np.nanstd(rows, axis=0)
    scale = np.where(spread > 1e-6, spread, np.inf)
    found = (features.flat[:, columns] - np.nanmean(rows, axis=0)) / scale
    return np.asarray(np.nan_to_num(found).clip(-_FAR, _FAR))


def _telling_columns(names: Sequence[str]) -> list[int]:
    """Places of the columns that a process looks at: the shares of the analytical model, and the code style.

    They say what a program does in so many words; with the shapes and sizes that made it so, hundreds of measurements
    are too few to say what is alike.
    """
    chosen = [place for place, name in enumerate(names) if name.startswith(("share ", "style "))]
    return chosen or list(range(len(names)))


class ProcessLearner(Peer):
    """A Gaussian process on the flat features; nothing is drawn at random."""

    name = "process"

    def __init__(self, seed: int = 0) -> None:
        self.process: GaussianProcess | None = None

    def fit(self, features: ProgramFeatures, log_ratio: Floats, groups: NDArray[Any]) -> None:
        """As `Learner.fit`."""
        self.known = features
        self.process = GaussianProcess(standardised(features, features), log_ratio)

    def predict(self, features: ProgramFeatures) -> Correction:
        """As `Residual.predict`."""
        assert self.process is not None, "it has learned nothing"
        return Correction(*self.process.predict(standardised(features, self.known)))
