"""The default residual: a law of resources first, then what boosted trees find in the rest."""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from typing import Any

from numpy.typing import NDArray

from explore.cost.learned.boosting import BoostingOptions
from explore.cost.learned.law import LawResidual
from explore.cost.learned.protocol import Arrays, Correction, Features, Floats
from explore.cost.learned.trees import TreeResidual

__all__ = ["BlendResidual"]

_OPTIONS = BoostingOptions("absolute", trees=250, depth=4, rate=0.06)


class BlendResidual:
    """A law, which extrapolates, and trees on its shares and all other features, which do not but see everything."""

    name = "blend"

    def __init__(self, seed: int = 0) -> None:
        self.law = LawResidual(seed)
        self.trees = TreeResidual(seed, options=_OPTIONS)

    def fit(self, features: Features, log_ratio: Floats, groups: NDArray[Any]) -> None:
        """As `Residual.fit`."""
        self.law.fit(features, log_ratio, groups)
        left = log_ratio - self.law.predict(features).log
        self.trees.fit(self.law.augmented(features), left, groups)

    def predict(self, features: Features) -> Correction:
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
            prefix = f"{part.name}/"
            own = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
            part.restore(header[part.name], own)
