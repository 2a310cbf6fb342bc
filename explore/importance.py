"""Importance estimation: which layers get the next exploration units.

Source: method specification section 4 (equations 6.6-6.9 with their units and sign corrected). For f = E L, the gain of
one more unit on layer i is about w_i (L d(e_i) + E d(l_i)). What a unit may gain is counted from what a layer's mapping
costs too much, its *regret*: a layer that has had t units improves like regret / t. The published forecast takes the whole
cost for regret, and the best rate of similar layers for what can be reached, so that a layer that waits for main memory
looks forever as if it could become as fast as one that computes. Here every layer is held against the least that it could
cost on the accelerator at hand (its compulsory work), and what can be reached is the share of that which the best of all
layers has reached.

Regret is always that of the design that leads now. So nothing is dropped for good: a layer that lost importance gets it
back once others have had their units, once it dominates, or once another accelerator leads, on which its mapping is worse.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from baco.common import portable
from baco.common.portable import Floats

_STATE = ("units", "energy", "latency", "least_energy", "least_latency", "rest", "counts")


class ImportanceEstimator:
    """Priorities of a network's layers.

    Args:
        counts: (n,) repetitions w_i.

    Attributes:
        units: (n,) what was spent on each layer, in any unit; of the beginning, one each.
        energy, latency: (n,) of one run on the design that leads.
        least_energy, least_latency: (n,) what no mapping on its accelerator undercuts, or nearly so.
        rest: energy and latency of what the program does beside the layers.
    """

    def __init__(self, counts: Floats) -> None:
        self.counts = counts
        size = len(counts)
        self.units = np.ones(size)
        self.energy, self.latency, self.least_energy, self.least_latency = np.zeros((4, size))
        self.rest = np.zeros(2)

    def charge(self, units: NDArray[np.int64]) -> None:
        """Record what was spent on the layers, (n,)."""
        self.units = self.units + units

    def observe(self, energy: Floats, latency: Floats, least_energy: Floats, least_latency: Floats) -> None:
        """What the layers cost on the design that leads now, and the least that they could, (n,) each."""
        self.energy, self.latency = energy, latency
        self.least_energy, self.least_latency = least_energy, least_latency

    def regret(self) -> Floats:
        """How much of f = E L, as a share of it (to first order, from 0 to 2), better mappings of each layer could win on
        the accelerator of the leading design; (n,)."""
        total_e = float(portable.dot(self.energy, self.counts) + self.rest[0])
        total_l = float(portable.dot(self.latency, self.counts) + self.rest[1])
        if not (total_e > 0 and total_l > 0):
            return np.zeros(len(self.counts))
        now = self.energy / total_e + self.latency / total_l
        least = self.least_energy / total_e + self.least_latency / total_l
        reached = min(1.0, float((least / now).max()))
        return np.asarray(self.counts * np.maximum(now - least / reached, 0.0))

    def gradient(self) -> Floats:
        """Expected change of f, as a share of it, by one more unit on each layer (not positive); (n,)."""
        return -self.regret() / self.units

    def shares(self, units: int) -> NDArray[np.int64]:
        """How many of `units` each layer gets next: what leaves all that get any with the same expected gain, since the
        gain of a layer falls as 1/t; (n,) summing to `units`, all zero where nothing is left to win."""
        regret = self.regret()
        open_ = np.flatnonzero(regret > 0)
        granted = np.zeros(len(regret), dtype=np.int64)
        if not len(open_) or units < 1:
            return granted
        # layers get their first unit when the common level reaches units / regret
        order = open_[np.argsort(self.units[open_] / regret[open_], kind="stable")]
        spent, owed = np.cumsum(self.units[order]), np.cumsum(regret[order])
        level = (units + spent) / owed
        last = int(np.flatnonzero(level > self.units[order] / regret[order])[-1])
        order = order[: last + 1]
        exact = np.maximum(level[last] * regret[order] - self.units[order], 0.0)
        granted[order] = np.floor(exact).astype(np.int64)
        fractions = np.argsort(granted[order] - exact, kind="stable")
        missing = units - int(granted.sum())
        granted[order[fractions[: max(0, missing)]]] += 1
        return granted

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Snapshot."""
        return {f"importance.{name}": getattr(self, name).copy() for name in _STATE}

    def restore(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Undo `state`."""
        for name in _STATE:
            setattr(self, name, state[f"importance.{name}"].copy())
