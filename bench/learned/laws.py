"""Laws of resources: cycles from counts of events whose costs are learned.

Each resource is busy for a sum of events, the whole for about the busiest resource:

    t_r = sum over events j of r of w_rj * n_j,      cycles = (sum over r of t_r^p)^(1/p)

with all w >= 0 and p > 1, so that every resource can only add time and none overlaps worse than one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from collections.abc import Sequence

import numpy as np

from baco.exploration.cost.learned.protocol import Floats

#: Count that stands for none, so that logarithms exist.
_LEAST_COUNT = 1e-9
_RATE, _LATE_RATE = 0.04, 0.01


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
