"""What measurements made so far say about predictions not yet measured.

The logarithm of measured over predicted cycles is taken to be a sum of independent normal parts: one of the code style,
one of the style on an accelerator, one of the style on a layer, and one of the program's own. What is measured moves
the shared parts; the own part stays uncertain. (A random-effects model, solved exactly as a Gaussian process.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from baco.common import portable
from baco.common.portable import Floats

#: Standard deviations of the shared parts, in logarithms: of a style, a style on an accelerator, a style on a layer.
_STYLE, _MACHINE, _LAYER = 0.06, 0.04, 0.06
#: Error of a measurement itself; simulations repeat exactly, so this only keeps equations well-posed.
_NOISE = 1e-4


@dataclass(frozen=True)
class PredictionSubject:
    """What a prediction is about, as far as errors go together.

    Attributes:
        style: of the code.
        machine, layer: whatever tells accelerators and layers apart.
        log: mean of log(measured / predicted) before anything was measured (of the learned residual; 0 without).
        deviation: of the program's own part.
    """

    style: str
    machine: str
    layer: str
    log: float = 0.0
    deviation: float = 0.08


class Belief:
    """Means and deviations of log(measured / predicted), given measurements."""

    def __init__(self) -> None:
        self._programs: list[PredictionSubject] = []
        self._errors: list[float] = []
        self._solved: tuple[Floats, Floats] | None = None

    def learn(self, program: PredictionSubject, log_ratio: float) -> None:
        """A measurement: `log_ratio` is log(measured / predicted)."""
        self._programs.append(program)
        self._errors.append(log_ratio - program.log)
        self._solved = None

    def predict(self, programs: Sequence[PredictionSubject]) -> tuple[Floats, Floats]:
        """Mean and standard deviation of log(measured / predicted) of programs that were not measured, (n,) each."""
        prior = np.array([program.log for program in programs], dtype=np.float64)
        own = np.array([program.deviation for program in programs], dtype=np.float64)
        variance = _STYLE**2 + _MACHINE**2 + _LAYER**2 + own**2
        if not self._programs or not programs:
            return prior, np.sqrt(variance)
        if self._solved is None:
            known = _shared(self._programs, self._programs)
            known[np.diag_indices_from(known)] += [
                program.deviation**2 + _NOISE**2 for program in self._programs
            ]
            inverse = portable.inverse(known)
            self._solved = (inverse, portable.dot(inverse, self._errors))
        inverse, weighted = self._solved
        across = _shared(programs, self._programs)
        told = portable.total(portable.matmul(across, inverse) * across)
        return prior + portable.dot(across, weighted), np.sqrt(np.maximum(variance - told, own**2))

    def spread(self, programs: Sequence[PredictionSubject], weights: Floats) -> float:
        """Standard deviation of the sum of weights times log(measured / predicted): errors of like programs add up."""
        if not programs:
            return 0.0
        own = np.array([one.deviation for one in programs], dtype=np.float64)
        variance = _quadratic(_shared(programs, programs), weights) + _quadratic(np.diag(own**2), weights)
        if self._programs:
            self.predict(programs[:1])  # solves
            assert self._solved is not None
            towards = portable.dot(_shared(self._programs, programs), weights)
            variance -= _quadratic(self._solved[0], towards)
        return float(np.sqrt(max(variance, 0.0)))


def _quadratic(matrix: Floats, vector: Floats) -> float:
    """Vector times matrix times vector."""
    return float(portable.dot(portable.dot(matrix, vector), vector))


def _shared(one: Sequence[PredictionSubject], other: Sequence[PredictionSubject]) -> Floats:
    """Covariance of the shared parts, (len(one), len(other))."""

    def equal(name: str) -> NDArray[np.bool_]:
        numbers: dict[str, int] = {}
        left, right = (
            np.array([numbers.setdefault(getattr(program, name), len(numbers)) for program in programs])
            for programs in (one, other)
        )
        return np.asarray(left[:, None] == right[None, :], dtype=np.bool_)

    style = equal("style").astype(np.float64)
    return style * (_STYLE**2 + _MACHINE**2 * equal("machine") + _LAYER**2 * equal("layer"))
