"""A residual that is a law of resources: the analytical model's own events, with costs learned from more measurements.

The instruction-aware model's constants are fitted on systematic micro-benchmarks; random programs show more of what its
events cost. Its terms are in the features, so that the same law can be fitted on any measurements. Code of the macros
has other terms: there the law says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.bench.learned.resource_law import ResourceLaw
from baco.common import portable
from baco.exploration.cost.learned.protocol import Arrays, Correction, Floats, ProgramFeatures

__all__ = ["PREDICTED", "RESOURCES", "SHARE", "LawResidual", "column", "event_counts", "explicit_rows"]

SHARE, PREDICTED = "share ", "predicted"
_EXPLICIT = ("style explicit", "style packed")
#: Events of each resource beside the host core's; those that the analytical model does not have are left out.
RESOURCES: dict[str, tuple[str, ...]] = {
    "array": ("waves", "weight blocks", "weight fills", "input fills", "tiles", "loads", "stores", "fences"),
    "read": ("read", "weight spans", "input spans"),
    "written": ("written", "result spans"),
}
#: Shares that features do not tell from none.
_NONE = 2e-6


class LawResidual:
    """A law for explicit code, nothing for macros; the deviation is that of its own errors."""

    name = "law"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.law: ResourceLaw | None = None
        self.factor = 0.0
        self.deviations = (0.2, 0.2)

    def predict(self, features: ProgramFeatures) -> Correction:
        """As `Residual.predict`."""
        explicit = explicit_rows(features)
        log = np.full(len(features), self.factor)
        if self.law and explicit.any():
            rows = features.take(explicit)
            log[explicit] = portable.log(self.law.predict(event_counts(rows, self.law.events))) - column(
                rows, PREDICTED
            )
        return Correction(log, np.where(explicit, *self.deviations))

    def augmented(self, features: ProgramFeatures) -> ProgramFeatures:
        """The features, with the law's correction and the shares of its resources."""
        explicit = explicit_rows(features)
        extra = np.full((len(features), 1 + 1 + len(RESOURCES)), np.nan)
        extra[:, 0] = self.predict(features).log
        if self.law and explicit.any():
            counts = event_counts(features.take(explicit), self.law.events)
            busy = self.law.busy(counts) / self.law.predict(counts)
            extra[explicit, 1:] = portable.log(np.maximum(busy.T, _NONE))
        names = (*features.names, "share law", *(f"share law {name}" for name in ("host", *RESOURCES)))
        return ProgramFeatures(names, np.hstack([features.flat, extra]))

    def arrays(self) -> tuple[dict[str, Any], Arrays]:
        """As `Residual.arrays`."""
        header = {
            "seed": self.seed,
            "factor": self.factor,
            "deviations": list(self.deviations),
            "resources": self.law.resources if self.law else None,
        }
        return header, self.law.arrays() if self.law else {}

    def restore(self, header: Dictionary[str, Any], arrays: Dictionary[str, NDArray[Any]]) -> None:
        """As `Residual.restore`."""
        self.seed, self.factor = header["seed"], header["factor"]
        one, other = header["deviations"]
        self.deviations, self.law = (one, other), None
        if header["resources"] is not None:
            self.law = ResourceLaw({name: tuple(header["resources"][name]) for name in ("host", *RESOURCES)})
            self.law.restore(arrays)


def explicit_rows(features: ProgramFeatures) -> NDArray[np.bool_]:
    """(B,) whether a program is explicit code."""
    found = np.zeros(len(features), np.bool_)
    for name in _EXPLICIT:
        if name in features.names:
            found |= column(features, name) > 0.5
    return found


def column(features: ProgramFeatures, name: str) -> Floats:
    """(B,) one column of the flat rows."""
    return features.flat[:, features.names.index(name)]


def event_counts(features: ProgramFeatures, events: Sequence[str]) -> Floats:
    """(B, events) from the shares; what a share cannot tell from none is none."""
    predicted = portable.exp(column(features, PREDICTED))
    counts = []
    for event in events:
        if event == "one":
            counts.append(np.ones(len(features)))
            continue
        share = portable.exp(column(features, SHARE + event))
        counts.append(np.where(share > _NONE, share * predicted, 0.0))
    return np.stack(counts, axis=1)
