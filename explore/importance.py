"""Importance estimation: which layer gets the next exploration unit.

Source: method specification section 4 (equations 6.6-6.9 with their units and sign corrected). For f = E L,
the gain of one more unit on layer i is about w_i (L d(e_i) + E d(l_i)); both forecasts mix the recent rate of
improvement (weight `ALPHA`) with the better of two expectations: that the layer improves as -g/t, and that it
reaches the efficiency of similar layers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from common import portable
from common.portable import Floats

ALPHA = 0.2
BETA = 2.0
_STATE = ("units", "idle", "energy", "latency", "previous_energy", "previous_latency", "rest", "counts")


class ImportanceEstimator:
    """Priorities of a network's layers.

    Args:
        counts: (n,) repetitions w_i.
        macs: (n,) multiply-accumulates of one run.
        family: (n,) labels; layers with the same label are similar.
        patience: units without improvement after which a layer is dropped.
    """

    def __init__(self, counts: Floats, macs: Floats, family: NDArray[np.int64], patience: int = 12) -> None:
        self.counts = counts
        self.macs = macs
        self.family = family
        self.patience = patience
        size = len(counts)
        self.units = np.zeros(size)
        self.idle = np.zeros(size, dtype=np.int64)
        self.energy = np.full(size, np.inf)
        self.latency = np.full(size, np.inf)
        self.previous_energy = np.full(size, np.inf)
        self.previous_latency = np.full(size, np.inf)
        #: Energy and latency of what the program does beside the layers.
        self.rest = np.zeros(2)

    def update(self, layer: int, energy: float, latency: float, improved: bool) -> None:
        """Record one unit spent on `layer` and the cost of its current mapping afterwards."""
        self.previous_energy[layer], self.previous_latency[layer] = self.energy[layer], self.latency[layer]
        self.energy[layer], self.latency[layer] = energy, latency
        self.units[layer] += 1
        self.idle[layer] = 0 if improved else self.idle[layer] + 1

    def revive(self) -> None:
        """Give every layer another chance (the accelerator changed)."""
        self.idle[:] = 0

    def _forecast(self, now: Floats, before: Floats) -> Floats:
        rate = np.where(np.isfinite(before), now - before, 0.0)
        own = -now / np.maximum(self.units, 1)
        similar = np.zeros_like(now)
        for label in np.unique(self.family):
            members = self.family == label
            best = (now[members] / self.macs[members]).min()
            similar[members] = BETA * self.macs[members] * best - now[members]
        return ALPHA * rate + (1 - ALPHA) * np.minimum(own, similar)

    def gradient(self) -> Floats:
        """Expected change of f per further unit on each layer (not positive); (n,).

        Layers without a unit come first (minus infinity); dropped layers have zero.
        """
        fresh = self.units == 0
        if fresh.any():
            return np.where(fresh, -np.inf, 0.0)
        total_energy = float(portable.dot(self.energy, self.counts) + self.rest[0])
        total_latency = float(portable.dot(self.latency, self.counts) + self.rest[1])
        change_e = self._forecast(self.energy, self.previous_energy)
        change_l = self._forecast(self.latency, self.previous_latency)
        gain = self.counts * (total_latency * change_e + total_energy * change_l)
        return np.where(self.idle >= self.patience, 0.0, gain)

    def shares(self, units: int) -> NDArray[np.int64]:
        """How many of `units` each layer gets next: one at a time to the largest |gradient|, which falls as
        1/t while a layer waits for its results; (n,) summing to `units`, all zero once every layer is dropped."""
        gain = -self.gradient()
        granted = np.zeros(len(gain), dtype=np.int64)
        if not (gain > 0).any():
            return granted
        if np.isinf(gain).any():
            gain = np.where(np.isinf(gain), 1.0, 0.0)
        for _ in range(units):
            granted[int(np.argmax(gain / (1.0 + granted)))] += 1
        return granted

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Snapshot."""
        return {f"importance.{name}": getattr(self, name).copy() for name in _STATE}

    def restore(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Undo `state`."""
        for name in _STATE:
            setattr(self, name, state[f"importance.{name}"].copy())
