"""Boosted trees as a residual."""

from __future__ import annotations

import math
from collections.abc import Mapping as Dictionary
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.common import portable
from baco.exploration.cost.learned.boosting import Booster, BoostingOptions
from baco.exploration.cost.learned.protocol import Arrays, Correction, Floats, ProgramFeatures

#: Mean of log|e| below the logarithm of the standard deviation of e, for normal errors: (Euler's constant + ln 2) / 2.
_LOG_NORMAL_GAP = (0.5772156649015329 + portable.log(2)) / 2
_LEAST_DEVIATION = 5e-3
_ERROR_TREES = BoostingOptions("squared", trees=60, depth=3, columns=0.7)
TREES = BoostingOptions("absolute", trees=250, depth=5, rate=0.06, columns=0.1)


def shrunk(log: Floats, deviation: Floats, doubt: float) -> Floats:
    """Corrections (B,) drawn towards none where they are small beside their deviation (B,).

    `doubt` 0 leaves them, 1 halves those of one deviation, infinity takes all away.
    """
    if doubt == 0:
        return log
    if math.isinf(doubt):
        return np.zeros_like(log)
    square = log * log
    found: Floats = log * (square / (square + doubt * deviation * deviation))
    return found


class TreeResidual:
    """Boosted trees on the flat features: members whose mean is the correction, and one that knows their errors.

    Attributes:
        doubt: of corrections, see `shrunk`: as much as rows of groups that a member did not see asked for.
    """

    name = "trees"

    def __init__(self, seed: int = 0, members: int = 5, options: BoostingOptions | None = None) -> None:
        self.seed, self.options = seed, options or TREES
        self.members = [Booster(self.options) for _ in range(members)]
        self.error = Booster(_ERROR_TREES)
        self.doubt = 0.0

    def predict(self, features: ProgramFeatures) -> Correction:
        """The correction of each row: the members' mean, and learned error and disagreement as deviation."""
        each = np.stack([member.predict(features.flat) for member in self.members])
        mean = portable.total(each, 0) / len(each)
        variance = portable.total((each - mean) ** 2, 0) / len(each)
        size = self.error_size(features.flat)
        deviation = np.maximum(np.sqrt(size * size + variance), _LEAST_DEVIATION)
        return Correction(shrunk(mean, deviation, self.doubt), deviation)

    def error_size(self, flat: Floats) -> Floats:
        """Standard deviation (B,) of a member's errors at flat rows, as learned from rows that it did not see."""
        return portable.exp(self.error.predict(flat) + _LOG_NORMAL_GAP)

    def arrays(self) -> tuple[dict[str, Any], Arrays]:
        """Plain values and arrays from which `restore` rebuilds the model."""
        header = {
            "seed": self.seed,
            "members": len(self.members),
            "options": asdict(self.options),
            "doubt": str(self.doubt),
        }
        arrays = {f"error.{name}": array for name, array in self.error.arrays().items()}
        for number, member in enumerate(self.members):
            arrays |= {f"{number}.{name}": array for name, array in member.arrays().items()}
        return header, arrays

    def restore(self, header: Dictionary[str, Any], arrays: Dictionary[str, NDArray[Any]]) -> None:
        """The way back from `arrays`."""
        self.seed, self.options = header["seed"], BoostingOptions(**header["options"])
        self.doubt = float(header["doubt"])
        self.members = [Booster(self.options) for _ in range(header["members"])]
        for number, member in enumerate(self.members):
            member.restore(_part(arrays, f"{number}."))
        self.error.restore(_part(arrays, "error."))


def _part(arrays: Dictionary[str, NDArray[Any]], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
