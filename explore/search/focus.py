"""Focuses: the scalarisations E^energy · L^latency · A^area that one run minimises side by side."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from baco.common import portable
from baco.common.portable import Floats
from baco.exploration.objective import Objective

#: Exponents of (energy, latency, area) in each metric. A trace of EDP breaks ties in single metrics, so that
#: the least area, say, comes with a sensible mapping.
_TIE = 1e-3
EXPONENTS = {
    "edp": (1.0, 1.0, 0.0),
    "edap": (1.0, 1.0, 1.0),
    "energy": (1.0, _TIE, 0.0),
    "latency": (_TIE, 1.0, 0.0),
    "area": (_TIE, _TIE, 1.0),
}


@dataclass(frozen=True)
class Focus:
    """One scalarisation, and the share of the search effort it gets."""

    energy: float
    latency: float
    area: float
    share: float

    def value(self, energy: Floats, latency: Floats, area: Floats) -> Floats:
        """Logarithm of the scalarised objective; infinite where energy or latency is."""
        with np.errstate(invalid="ignore"):
            value = self.energy * portable.log(energy) + self.latency * portable.log(latency)
            value = value + self.area * portable.log(area)
        return np.where(np.isfinite(energy) & np.isfinite(latency), value, np.inf)


def focuses(objective: Objective) -> list[Focus]:
    """The sweep for an objective; the first focus is its first metric.

    A single metric gets most of the effort, and a light sweep over energy, latency and area yields the
    alternatives around it; several metrics are swept evenly along and between their directions.
    """
    directions = [np.array(EXPONENTS[name]) for name in objective.metrics]
    if len(directions) == 1:
        own = directions[0]
        around = [
            own + np.array(d) for d in ((0, 0, 0.4), (0, 0, 1.2), (0, 0, 3.0), (0.6, 0, 0.1), (0, 0.6, 0.1))
        ]
        return [_focus(own, 0.76), *(_focus(d, 0.24 / len(around)) for d in around)]
    mixes = [*directions]
    for a, b in itertools.combinations(directions, 2):
        mixes += [w * a + (1 - w) * b for w in (0.25, 0.5, 0.75)]
    if len(directions) > 2:
        mixes.append(np.mean(directions, axis=0))
    return [_focus(d, 1.0 / len(mixes)) for d in mixes]


def _focus(exponents: Floats, share: float) -> Focus:
    return Focus(float(exponents[0]), float(exponents[1]), float(exponents[2]), share)
