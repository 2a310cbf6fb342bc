"""The mean of residuals that err differently: trees and the encoder."""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explore.cost.learned.encoder import EncoderResidual
from explore.cost.learned.protocol import Arrays, Correction, Features, Floats, Residual
from explore.cost.learned.trees import TreeResidual

__all__ = ["BlendResidual"]


class BlendResidual:
    """Trees and encoder, equally; the deviation is that of their mean, were their errors one and the same."""

    name = "blend"

    def __init__(self, seed: int = 0, parts: tuple[Residual, ...] | None = None) -> None:
        self.parts: tuple[Residual, ...] = parts or (TreeResidual(seed), EncoderResidual(seed))

    def fit(self, features: Features, log_ratio: Floats, groups: NDArray[Any]) -> None:
        """As `Residual.fit`."""
        for part in self.parts:
            part.fit(features, log_ratio, groups)

    def predict(self, features: Features) -> Correction:
        """As `Residual.predict`."""
        found = [part.predict(features) for part in self.parts]
        ranks = [one.rank for one in found if one.rank is not None]
        return Correction(
            np.mean([one.log for one in found], axis=0),
            np.mean([one.deviation for one in found], axis=0),
            np.mean(ranks, axis=0) if ranks else None,
        )

    def arrays(self) -> tuple[dict[str, Any], Arrays]:
        """As `Residual.arrays`."""
        header: dict[str, Any] = {}
        arrays: Arrays = {}
        for part in self.parts:
            header[part.name], own = part.arrays()
            arrays |= {f"{part.name}/{name}": array for name, array in own.items()}
        return header, arrays

    def restore(self, header: Dictionary[str, Any], arrays: Dictionary[str, NDArray[Any]]) -> None:
        """As `Residual.restore`."""
        for part in self.parts:
            prefix = f"{part.name}/"
            own = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
            part.restore(header[part.name], own)
