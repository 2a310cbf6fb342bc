"""A Gaussian process as a residual: smooth corrections from few measurements, sure only near what it has seen.

Columns may form groups; within a group all count alike, and how much a group counts is learned by the marginal
likelihood.
"""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from explore.cost.learned.protocol import Arrays, Correction, Features, Floats

__all__ = ["GaussianProcess", "ProcessResidual", "column_groups", "standardised"]

#: Variance of the constant's prior, of all the rest together 1.
_CONSTANT = 4.0
#: Scaled variance that is noise at least, so that matrices stay definite.
_LEAST_NOISE = 1e-4
_STEPS, _RATE = 25, 0.3
_FAR = 4.0


class GaussianProcess:
    """Regression with a squared-exponential kernel over groups of columns, a constant with a wide prior, and noise.

    Source: Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), algorithm 2.1 and section 5.4.1;
    the kernel's variance is found in closed form, lengths and noise by gradients of the marginal likelihood, which a
    weak prior keeps near one length for all.
    """

    def fit(self, x: Floats, y: Floats, groups: Sequence[Sequence[int]] | None = None) -> None:
        """Learn y (B,) from x (B, F) of standardised columns; `groups` are their places, by default one of all."""
        self.x, self.y = x, y
        self.groups = [list(one) for one in groups] if groups else [list(range(x.shape[1]))]
        squares = self._squares(x)
        # the typical distance of two rows within each group is its unit of length
        self.units = np.array([max(float(np.median(one)), 1e-6) for one in squares])
        scaled = torch.from_numpy(squares / self.units[:, None, None])
        target = torch.from_numpy(y)
        logs = torch.zeros(len(self.groups) + 1, dtype=torch.float64)
        logs[:-1] = np.log(len(self.groups)) / 2
        logs[-1] = -2.0
        logs.requires_grad_()
        start = logs.detach().clone()
        optimiser = torch.optim.Adam([logs], lr=_RATE)
        for _ in range(_STEPS):
            loss = _negative_evidence(scaled, target, logs) + 0.125 * ((logs - start) ** 2).sum()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        self.logs: Floats = logs.detach().numpy()
        self._solve()

    def _solve(self) -> None:
        """What predictions need, from rows, lengths and noise."""
        scaled = torch.from_numpy(self._squares(self.x) / self.units[:, None, None])
        logs = torch.from_numpy(self.logs)
        kernel = _kernel(scaled, logs) + _noise(logs) * torch.eye(len(self.x), dtype=torch.float64)
        self.factor = torch.linalg.cholesky(kernel)
        self.solved = torch.cholesky_solve(torch.from_numpy(self.y)[:, None], self.factor)[:, 0]
        self.variance = max(float(torch.from_numpy(self.y) @ self.solved) / len(self.y), 1e-8)

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation, both (B,), of y at x (B, F), noise included."""
        if not len(x):
            return np.zeros(0), np.zeros(0)
        logs = torch.from_numpy(self.logs)
        cross = _kernel(torch.from_numpy(self._squares(x, self.x) / self.units[:, None, None]), logs)
        solved = torch.linalg.solve_triangular(self.factor, cross.T, upper=False)
        left = 1 + _CONSTANT + float(_noise(logs)) - (solved**2).sum(0)
        deviation = (self.variance * left.clamp_min(1e-9)).sqrt()
        return np.asarray(cross @ self.solved), np.asarray(deviation)

    def _squares(self, a: Floats, b: Floats | None = None) -> Floats:
        """(groups, A, B) squared distances by group."""
        other = a if b is None else b
        found = []
        for columns in self.groups:
            one, two = a[:, columns], other[:, columns]
            found.append((one**2).sum(1)[:, None] + (two**2).sum(1)[None] - 2 * one @ two.T)
        return np.asarray(np.maximum(np.stack(found), 0.0))


def _kernel(scaled: Tensor, logs: Tensor) -> Tensor:
    weights = torch.exp(-2 * logs[:-1])
    return torch.exp(-0.5 * torch.einsum("g,gij->ij", weights, scaled)) + _CONSTANT


def _noise(logs: Tensor) -> Tensor:
    found: Tensor = torch.exp(logs[-1]) + _LEAST_NOISE
    return found


def _negative_evidence(scaled: Tensor, target: Tensor, logs: Tensor) -> Tensor:
    kernel = _kernel(scaled, logs) + _noise(logs) * torch.eye(len(target), dtype=torch.float64)
    factor = torch.linalg.cholesky(kernel)
    solved = torch.cholesky_solve(target[:, None], factor)[:, 0]
    found: Tensor = 0.5 * len(target) * torch.log(target @ solved + 1e-12) + factor.diagonal().log().sum()
    return found


def standardised(features: Features, known: Features) -> Floats:
    """Flat rows in units of the deviation of each column among `known`; 0 where those do not vary."""
    return _standardised(features.flat, *_scales(known.flat))


def _scales(flat: Floats) -> tuple[Floats, Floats]:
    known = np.where(np.isnan(flat).all(0), 0.0, flat)  # a column without numbers says nothing
    spread = np.nanstd(known, axis=0)
    return np.nanmean(known, axis=0), np.where(spread > 1e-6, spread, np.inf)


def _standardised(flat: Floats, centre: Floats, spread: Floats) -> Floats:
    return np.asarray(np.nan_to_num((flat - centre) / spread).clip(-_FAR, _FAR))


def column_groups(names: Sequence[str]) -> list[list[int]]:
    """Places of the columns that a process looks at: the shares of the analytical model, and the code style.

    They say what a program does in so many words; with the shapes and sizes that made it so, hundreds of measurements
    are too few to say what is alike.
    """
    chosen = [place for place, name in enumerate(names) if name.startswith(("share ", "style "))]
    return [chosen] if chosen else [list(range(len(names)))]


class ProcessResidual:
    """A Gaussian process on the flat features."""

    name = "process"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.process = GaussianProcess()
        self.centre: Floats = np.zeros(0)
        self.spread: Floats = np.ones(0)

    def fit(self, features: Features, log_ratio: Floats, groups: NDArray[Any]) -> None:
        """As `Residual.fit`; nothing is drawn at random."""
        self.centre, self.spread = _scales(features.flat)
        # what is kept in files is what is used
        rows = _standardised(features.flat, self.centre, self.spread).astype(np.float32).astype(np.float64)
        self.process.fit(rows, log_ratio, column_groups(features.names))

    def predict(self, features: Features) -> Correction:
        """As `Residual.predict`."""
        mean, deviation = self.process.predict(_standardised(features.flat, self.centre, self.spread))
        return Correction(mean, deviation)

    def arrays(self) -> tuple[dict[str, Any], Arrays]:
        """As `Residual.arrays`: the rows learned from, by which alone a process predicts."""
        p = self.process
        header = {"seed": self.seed, "groups": p.groups}
        return header, {
            "centre": self.centre,
            "spread": self.spread,
            "x": p.x.astype(np.float32),
            "y": p.y,
            "units": p.units,
            "logs": p.logs,
        }

    def restore(self, header: Dictionary[str, Any], arrays: Dictionary[str, NDArray[Any]]) -> None:
        """As `Residual.restore`."""
        self.seed, p = header["seed"], self.process
        self.centre, self.spread = arrays["centre"], arrays["spread"]
        p.groups = header["groups"]
        p.x, p.y = arrays["x"].astype(np.float64), arrays["y"]
        p.units, p.logs = arrays["units"], arrays["logs"]
        p._solve()
