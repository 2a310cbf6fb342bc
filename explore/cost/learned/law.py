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

from common import portable
from explore.cost.learned.protocol import Arrays, Correction, Floats, ProgramFeatures
from explore.cost.learned.resource_law import ResourceLaw

__all__ = ["LawResidual"]

_SHARE, _HOST, _PREDICTED = "share ", "host ", "predicted"
_EXPLICIT = ("style explicit", "style packed")
#: Parts of the analytical model that are sums of host events already.
_SUMS = ("host loads", "host passes", "host stores")
#: Events of each resource beside the host core's; those that the analytical model does not have are left out.
_RESOURCES: dict[str, tuple[str, ...]] = {
    "array": ("waves", "weight blocks", "weight fills", "input fills", "tiles", "loads", "stores", "fences"),
    "read": ("read", "weight spans", "input spans"),
    "written": ("written", "result spans"),
}
_LEAST_ROWS, _STEPS = 60, 500
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

    def fit(self, features: ProgramFeatures, log_ratio: Floats, groups: NDArray[Any]) -> None:
        """As `Residual.fit`; with few rows of explicit code they get one factor, too."""
        explicit = _explicit(features)
        self.law = None
        if explicit.sum() >= _LEAST_ROWS and (resources := _resources(features.names)):
            self.law = ResourceLaw(resources)
            rows = features.take(explicit)
            predicted = np.exp(_column(rows, _PREDICTED))
            self.law.fit(_counts(rows, self.law.events), predicted * np.exp(log_ratio[explicit]), _STEPS)
        # the macros' own formulas are right in the middle already
        self.factor = 0.0 if self.law or not len(log_ratio) else float(np.median(log_ratio))
        error = self.predict(features).log - log_ratio
        self.deviations = (_spread(error[explicit]), _spread(error[~explicit]))

    def predict(self, features: ProgramFeatures) -> Correction:
        """As `Residual.predict`."""
        explicit = _explicit(features)
        log = np.full(len(features), self.factor)
        if self.law and explicit.any():
            rows = features.take(explicit)
            log[explicit] = portable.log(self.law.predict(_counts(rows, self.law.events))) - _column(
                rows, _PREDICTED
            )
        return Correction(log, np.where(explicit, *self.deviations))

    def augmented(self, features: ProgramFeatures) -> ProgramFeatures:
        """The features, with the law's correction and the shares of its resources."""
        explicit = _explicit(features)
        extra = np.full((len(features), 1 + 1 + len(_RESOURCES)), np.nan)
        extra[:, 0] = self.predict(features).log
        if self.law and explicit.any():
            counts = _counts(features.take(explicit), self.law.events)
            busy = self.law.busy(counts) / self.law.predict(counts)
            extra[explicit, 1:] = portable.log(np.maximum(busy.T, _NONE))
        names = (*features.names, "share law", *(f"share law {name}" for name in ("host", *_RESOURCES)))
        return ProgramFeatures(names, np.hstack([features.flat, extra]), features.tokens, features.mask)

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
            self.law = ResourceLaw({name: tuple(header["resources"][name]) for name in ("host", *_RESOURCES)})
            self.law.restore(arrays)


def _spread(error: Floats) -> float:
    """Standard deviation of errors, by their median size."""
    return max(float(1.4826 * np.median(np.abs(error))), 0.01) if len(error) else 0.2


def _explicit(features: ProgramFeatures) -> NDArray[np.bool_]:
    found = np.zeros(len(features), np.bool_)
    for name in _EXPLICIT:
        if name in features.names:
            found |= _column(features, name) > 0.5
    return found


def _column(features: ProgramFeatures, name: str) -> Floats:
    return features.flat[:, features.names.index(name)]


def _resources(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The law's resources and events, as far as the analytical model has them; none without host events."""
    shares = {name.removeprefix(_SHARE) for name in names if name.startswith(_SHARE)}
    host = sorted(one for one in shares if one.startswith(_HOST) and one not in _SUMS)
    found = {"host": (*host, "one")}
    found |= {name: tuple(one for one in events if one in shares) for name, events in _RESOURCES.items()}
    return found if host and all(found.values()) else {}


def _counts(features: ProgramFeatures, events: Sequence[str]) -> Floats:
    """(B, events) from the shares; what a share cannot tell from none is none."""
    predicted = portable.exp(_column(features, _PREDICTED))
    counts = []
    for event in events:
        if event == "one":
            counts.append(np.ones(len(features)))
            continue
        share = portable.exp(_column(features, _SHARE + event))
        counts.append(np.where(share > _NONE, share * predicted, 0.0))
    return np.stack(counts, axis=1)
