"""Boosted trees as a residual, alone and on top of a law of resources."""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import portable
from explore.cost.learned.boosting import Booster, BoostingOptions
from explore.cost.learned.law import LawResidual
from explore.cost.learned.protocol import Arrays, Correction, ProgramFeatures

__all__ = ["BLEND_TREES", "BlendResidual", "TreeResidual"]

#: Mean of log|e| below the logarithm of the standard deviation of e, for normal errors: (Euler's constant + ln 2) / 2.
_LOG_NORMAL_GAP = (0.5772156649015329 + portable.log(2)) / 2
_LEAST_DEVIATION = 5e-3
_ERROR_TREES = BoostingOptions("squared", trees=60, depth=3, columns=0.7)
BLEND_TREES = BoostingOptions("absolute", trees=250, depth=5, rate=0.06, columns=0.1)


class TreeResidual:
    """Boosted trees on the flat features: members whose mean is the correction, and one that knows their errors."""

    name = "trees"

    def __init__(self, seed: int = 0, members: int = 5, options: BoostingOptions | None = None) -> None:
        self.seed, self.options = seed, options or BoostingOptions()
        self.members = [Booster(self.options) for _ in range(members)]
        self.error = Booster(_ERROR_TREES)

    def predict(self, features: ProgramFeatures) -> Correction:
        """As `Residual.predict`: the members' mean, and learned error and disagreement as deviation."""
        each = np.stack([member.predict(features.flat) for member in self.members])
        mean = portable.total(each, 0) / len(each)
        variance = portable.total((each - mean) ** 2, 0) / len(each)
        size = portable.exp(self.error.predict(features.flat) + _LOG_NORMAL_GAP)
        return Correction(mean, np.maximum(np.sqrt(size * size + variance), _LEAST_DEVIATION))

    def arrays(self) -> tuple[dict[str, Any], Arrays]:
        """As `Residual.arrays`."""
        header = {"seed": self.seed, "members": len(self.members), "options": asdict(self.options)}
        arrays = {f"error.{name}": array for name, array in self.error.arrays().items()}
        for number, member in enumerate(self.members):
            arrays |= {f"{number}.{name}": array for name, array in member.arrays().items()}
        return header, arrays

    def restore(self, header: Dictionary[str, Any], arrays: Dictionary[str, NDArray[Any]]) -> None:
        """As `Residual.restore`."""
        self.seed, self.options = header["seed"], BoostingOptions(**header["options"])
        self.members = [Booster(self.options) for _ in range(header["members"])]
        for number, member in enumerate(self.members):
            member.restore(_part(arrays, f"{number}."))
        self.error.restore(_part(arrays, "error."))


class BlendResidual:
    """A law, which extrapolates, and trees on its shares and all other features, which do not but see everything."""

    name = "blend"

    def __init__(self, seed: int = 0) -> None:
        self.law = LawResidual(seed)
        self.trees = TreeResidual(seed, options=BLEND_TREES)

    def predict(self, features: ProgramFeatures) -> Correction:
        """As `Residual.predict`."""
        found = self.trees.predict(self.law.augmented(features))
        return Correction(self.law.predict(features).log + found.log, found.deviation)

    def arrays(self) -> tuple[dict[str, Any], Arrays]:
        """As `Residual.arrays`."""
        header: dict[str, Any] = {}
        arrays: Arrays = {}
        for part in (self.law, self.trees):
            header[part.name], own = part.arrays()
            arrays |= {f"{part.name}/{name}": array for name, array in own.items()}
        return header, arrays

    def restore(self, header: Dictionary[str, Any], arrays: Dictionary[str, NDArray[Any]]) -> None:
        """As `Residual.restore`."""
        for part in (self.law, self.trees):
            part.restore(header[part.name], _part(arrays, f"{part.name}/"))


def _part(arrays: Dictionary[str, NDArray[Any]], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
