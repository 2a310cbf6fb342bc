"""An analytical law whose costs per event are learned: each resource is busy for a sum of events, the whole for about
the busiest resource.

    t_r = sum over events j of r of w_rj * n_j,      cycles = (sum over r of t_r^p)^(1/p)

with all w >= 0 and p > 1, so that every resource can only add time and none overlaps worse than one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.common import portable
from baco.exploration.cost.learned.protocol import Arrays, Floats

__all__ = ["LEAST_COUNT", "ResourceLaw"]

#: Count that stands for none, so that logarithms exist.
LEAST_COUNT = 1e-9


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
        weighted = np.maximum(counts, LEAST_COUNT) * self.costs
        ends = np.cumsum([len(events) for events in self.resources.values()])
        return np.stack([portable.total(part, 1) for part in np.split(weighted, ends[:-1], axis=1)])

    def predict(self, counts: Floats) -> Floats:
        """Cycles (B,) of counts (B, events)."""
        busy = self.busy(counts)
        most = busy.max(0)
        shares = portable.total(portable.power(busy / most, self.power), 0)
        result: Floats = most * portable.power(shares, 1 / self.power)
        return result

    def arrays(self) -> Arrays:
        """Costs and power."""
        return {"costs": self.costs, "power": np.array(self.power)}

    def restore(self, arrays: Dictionary[str, NDArray[Any]]) -> None:
        """The way back from `arrays`."""
        self.costs, self.power = arrays["costs"], float(arrays["power"])
