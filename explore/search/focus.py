"""Focuses: the scalarisations E^energy · L^latency · A^area that one run minimises side by side."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from baco.common import portable
from baco.common.portable import Floats
from baco.exploration.candidate import Cost
from baco.exploration.objective import EXPONENTS, FunctionMetric, Objective

#: Of energy and latency in metrics that do not have them: a trace of EDP breaks ties, so that the least area, say, comes with a
#: sensible mapping.
_TIE = 1e-3


def direction(metric: str) -> tuple[float, float, float]:
    """Exponents of (energy, latency, area) that a search follows for a metric.

    A user's function, whose shape nobody knows, has those of EDP: descents follow them, choices the function.
    """
    energy, latency, area = EXPONENTS["edp" if isinstance(metric, FunctionMetric) else metric]
    return max(energy, _TIE), max(latency, _TIE), area


@dataclass(frozen=True)
class Focus:
    """One scalarisation, and the share of the search effort it gets.

    Attributes:
        energy, latency, area: exponents.
        function: ranks in their place, a function of costs, by the `clock_mhz` of `Cost`.
    """

    energy: float
    latency: float
    area: float
    share: float
    function: FunctionMetric | None = None
    clock_mhz: float | None = None

    def value(self, energy: Floats, latency: Floats, area: Floats) -> Floats:
        """Logarithm of the scalarised objective (of a function, what grows with its values, which may be negative); infinite where
        energy or latency is."""
        if self.function is not None:
            costs = Cost(latency, energy, area, clock_mhz=self.clock_mhz)  # type: ignore[arg-type]
            return squeezed(self.function.of_arrays(costs))
        with np.errstate(invalid="ignore"):
            value = self.energy * portable.log(energy) + self.latency * portable.log(latency)
            value = value + self.area * portable.log(area)
        return np.where(np.isfinite(energy) & np.isfinite(latency), value, np.inf)


def focuses(objective: Objective, clock_mhz: float | None = None) -> list[Focus]:
    """The sweep for an objective; the first focus is its first metric. `clock_mhz` as of `Cost`.

    A single metric gets most of the effort, and a light sweep over energy, latency and area yields the
    alternatives around it; several metrics are swept evenly along and between their directions.
    """
    directions = [np.array(direction(name)) for name in objective.metrics]
    own = directions[0]
    if len(directions) == 1:
        around = [
            own + np.array(d) for d in ((0, 0, 0.4), (0, 0, 1.2), (0, 0, 3.0), (0.6, 0, 0.1), (0, 0.6, 0.1))
        ]
        first = replace(_focus(own, 0.76), function=objective.function, clock_mhz=clock_mhz)
        return [first, *(_focus(d, 0.24 / len(around)) for d in around)]
    mixes = [*directions]
    for a, b in itertools.combinations(directions, 2):
        mixes += [w * a + (1 - w) * b for w in (0.25, 0.5, 0.75)]
    if len(directions) > 2:
        mixes.append(np.mean(directions, axis=0))
    found = [_focus(d, 1.0 / len(mixes)) for d in mixes]
    ranked = zip(found, objective.metrics, strict=False)  # the metrics themselves come first
    functions = [
        replace(one, function=name, clock_mhz=clock_mhz) if isinstance(name, FunctionMetric) else one
        for one, name in ranked
    ]
    return functions + found[len(functions) :]


def squeezed(value: Floats) -> Floats:
    """Grows with its argument, beyond 1 and -1 like a logarithm."""
    size = np.abs(value)
    return np.where(size < 1.0, value, np.copysign(1.0 + portable.log(np.maximum(size, 1.0)), value))


def _focus(exponents: Floats, share: float) -> Focus:
    return Focus(float(exponents[0]), float(exponents[1]), float(exponents[2]), share)
