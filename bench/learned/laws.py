"""Laws of resources: cycles from counts of events whose costs are learned.

Each resource is busy for a sum of events, the whole for about the busiest resource:

    t_r = sum over events j of r of w_rj * n_j,      cycles = (sum over r of t_r^p)^(1/p)

with all w >= 0 and p > 1, so that every resource can only add time and none overlaps worse than one after the other. As a residual
a law has the instruction-aware model's own events (its terms are in the features), with costs from more than the systematic
programs that its constants are fitted on. Code of the macros has other terms: there the law says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.bench.learned.trees import Peer, TreeLearner
from baco.exploration.cost.learned.protocol import Correction, Floats, ProgramFeatures
from baco.exploration.cost.learned.trees import TREES

#: Count that stands for none, so that logarithms exist.
_LEAST_COUNT = 1e-9
_RATE, _LATE_RATE = 0.04, 0.01

_SHARE, _PREDICTED = "share ", "predicted"
_EXPLICIT = ("style explicit", "style packed")
#: Events of each resource beside the host core's; those that the analytical model does not have are left out.
_RESOURCES: dict[str, tuple[str, ...]] = {
    "array": ("waves", "weight blocks", "weight fills", "input fills", "tiles", "loads", "stores", "fences"),
    "read": ("read", "weight spans", "input spans"),
    "written": ("written", "result spans"),
}
_HOST = "host "
#: Parts of the analytical model that are sums of host events already.
_SUMS = ("host loads", "host passes", "host stores")
#: Shares that features do not tell from none.
_NONE = 2e-6
_LEAST_ROWS, _STEPS = 60, 500


class ResourceLaw:
    """Cycles from counts of events.

    Attributes:
        resources: by resource the names of its events, in the order of the columns of the counts.
        costs: (events,) cycles per event.
        power: p.
    """

    def __init__(self, resources: Dictionary[str, Sequence[str]]) -> None:
        self.resources = {name: tuple(events) for name, events in resources.items()}
        self.costs: Floats = np.ones(sum(map(len, self.resources.values())))
        self.power = 2.0

    @property
    def events(self) -> tuple[str, ...]:
        """Names of the columns of counts, in order."""
        return tuple(event for events in self.resources.values() for event in events)

    def busy(self, counts: Floats) -> Floats:
        """Cycles each resource is busy, (resources, B), from counts (B, events)."""
        weighted = np.maximum(counts, _LEAST_COUNT) * self.costs
        ends = np.cumsum([len(events) for events in self.resources.values()])
        return np.stack([part.sum(1) for part in np.split(weighted, ends[:-1], axis=1)])

    def predict(self, counts: Floats) -> Floats:
        """Cycles (B,) of counts (B, events)."""
        busy = self.busy(counts)
        most = busy.max(0)
        return np.asarray(most * ((busy / most) ** self.power).sum(0) ** (1 / self.power))


def fit_law(law: ResourceLaw, counts: Floats, cycles: Floats, steps: int = 700) -> None:
    """Learn costs and power from counts (B, events) and cycles (B,): least mean |log(predicted / cycles)|."""
    import torch

    events = torch.from_numpy(np.maximum(counts, _LEAST_COUNT))
    target = torch.from_numpy(np.log(cycles))
    sizes = [len(one) for one in law.resources.values()]
    logarithm = torch.full((sum(sizes),), -1.0, dtype=torch.float64, requires_grad=True)
    excess = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([logarithm, excess], lr=_RATE)
    for step in range(steps):
        if step == 2 * steps // 3:
            optimiser.param_groups[0]["lr"] = _LATE_RATE
        busy = torch.stack([part.sum(1) for part in torch.split(events * logarithm.exp(), sizes, dim=1)])
        power = 1 + torch.nn.functional.softplus(excess)
        loss = (torch.logsumexp(power * busy.log(), 0) / power - target).abs().mean()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    law.costs = logarithm.detach().exp().numpy()
    law.power = float(1 + torch.nn.functional.softplus(excess.detach()))


class LawLearner(Peer):
    """A law for explicit code, nothing for macros; the deviation is that of its own errors."""

    name = "law"

    def __init__(self, seed: int = 0) -> None:
        self.law: ResourceLaw | None = None
        self.factor = 0.0
        self.deviations = (0.2, 0.2)

    def fit(self, features: ProgramFeatures, log_ratio: Floats, groups: NDArray[Any]) -> None:
        """As `Learner.fit`; with few rows of explicit code they get one factor, too."""
        explicit = _explicit_rows(features)
        self.law = None
        if explicit.sum() >= _LEAST_ROWS and (resources := _resources(features.names)):
            self.law = ResourceLaw(resources)
            rows = features.take(explicit)
            cycles = np.exp(_column(rows, _PREDICTED) + log_ratio[explicit])
            fit_law(self.law, _event_counts(rows, self.law.events), cycles, _STEPS)
        # the macros' own formulas are right in the middle already
        self.factor = 0.0 if self.law or not len(log_ratio) else float(np.median(log_ratio))
        error = self.predict(features).log - log_ratio
        self.deviations = (_spread(error[explicit]), _spread(error[~explicit]))

    def predict(self, features: ProgramFeatures) -> Correction:
        """As `Residual.predict`."""
        explicit = _explicit_rows(features)
        log = np.full(len(features), self.factor)
        if self.law and explicit.any():
            rows = features.take(explicit)
            cycles = self.law.predict(_event_counts(rows, self.law.events))
            log[explicit] = np.log(cycles) - _column(rows, _PREDICTED)
        return Correction(log, np.where(explicit, *self.deviations))

    def augmented(self, features: ProgramFeatures) -> ProgramFeatures:
        """The features, with the law's correction and the shares of its resources."""
        explicit = _explicit_rows(features)
        extra = np.full((len(features), 1 + 1 + len(_RESOURCES)), np.nan)
        extra[:, 0] = self.predict(features).log
        if self.law and explicit.any():
            counts = _event_counts(features.take(explicit), self.law.events)
            busy = self.law.busy(counts) / self.law.predict(counts)
            extra[explicit, 1:] = np.log(np.maximum(busy.T, _NONE))
        names = (*features.names, "share law", *(f"share law {name}" for name in ("host", *_RESOURCES)))
        return ProgramFeatures(names, np.hstack([features.flat, extra]))


class BlendLearner(Peer):
    """A law, which extrapolates, and trees on its shares and all other features, which do not but see everything."""

    name = "blend"

    def __init__(self, seed: int = 0) -> None:
        self.law, self.trees = LawLearner(seed), TreeLearner(seed, options=TREES)

    def fit(self, features: ProgramFeatures, log_ratio: Floats, groups: NDArray[Any]) -> None:
        """As `Learner.fit`: the trees learn what the law leaves."""
        self.law.fit(features, log_ratio, groups)
        left = log_ratio - self.law.predict(features).log
        self.trees.fit(self.law.augmented(features), left, groups)

    def predict(self, features: ProgramFeatures) -> Correction:
        """As `Residual.predict`."""
        found = self.trees.predict(self.law.augmented(features))
        return Correction(self.law.predict(features).log + found.log, found.deviation)


def _explicit_rows(features: ProgramFeatures) -> NDArray[np.bool_]:
    """(B,) whether a program is explicit code."""
    found = np.zeros(len(features), np.bool_)
    for name in _EXPLICIT:
        if name in features.names:
            found |= _column(features, name) > 0.5
    return found


def _column(features: ProgramFeatures, name: str) -> Floats:
    """(B,) one column of the flat rows."""
    return features.flat[:, features.names.index(name)]


def _event_counts(features: ProgramFeatures, events: Sequence[str]) -> Floats:
    """(B, events) from the shares; what a share cannot tell from none is none."""
    predicted = np.exp(_column(features, _PREDICTED))
    counts = []
    for event in events:
        share = np.ones(1) if event == "one" else np.exp(_column(features, _SHARE + event))
        scale = np.ones(len(features)) if event == "one" else predicted
        counts.append(np.where(share > _NONE, share * scale, 0.0))
    return np.stack(counts, axis=1)


def _spread(error: Floats) -> float:
    """Standard deviation of errors, by their median size."""
    return max(float(1.4826 * np.median(np.abs(error))), 0.01) if len(error) else 0.2


def _resources(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The law's resources and events, as far as the analytical model has them; none without host events."""
    shares = {name.removeprefix(_SHARE) for name in names if name.startswith(_SHARE)}
    host = sorted(share for share in shares if share.startswith(_HOST) and share not in _SUMS)
    found = {"host": (*host, "one")}
    found |= {
        name: tuple(event for event in events if event in shares) for name, events in _RESOURCES.items()
    }
    return found if host and all(found.values()) else {}
