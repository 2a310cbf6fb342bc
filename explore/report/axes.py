"""Axes of figures: one unit with its prefix in the title, plain numbers as ticks, so that the two agree."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from baco.exploration.objective import metric_label

_PREFIXES = (
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
)

#: Of the metrics as `Cost` and objectives have them: unit, size of one in that unit, whether the unit takes a prefix.
_UNITS = {
    "latency": ("cycles", 1.0, True),
    "energy": ("J", 1e-12, True),
    "area": ("mm²", 1.0, False),
    "edp": ("µJ·cycles", 1.0, False),
    "edap": ("µJ·cycles·mm²", 1.0, False),
}


class MetricAxis(NamedTuple):
    """How an axis shows a metric.

    Attributes:
        title: the metric and its unit with the prefix that fits.
        factor: of the metric's values (cycles, pJ, mm², µJ·cycles, …) to those of the axis.
        log: whether the values span more than a factor of three, so that a logarithmic axis shows them better.
        ticks: of a logarithmic axis, simple numbers in its own unit; empty for a linear one.
    """

    title: str
    factor: float
    log: bool
    ticks: tuple[float, ...] = ()


def metric_axis(name: str, values: Iterable[float]) -> MetricAxis:
    """The axis for a metric's values; without any it is linear."""
    unit, size, prefixed = _UNITS.get(name, ("", 1.0, False))
    sizes = [abs(value) * size for value in values if value and math.isfinite(value)]
    least, most = min(sizes, default=1.0), max(sizes, default=1.0)
    log = most > 3 * least
    prefix, scale = "", 1.0
    if prefixed:
        # of many decades the middle
        typical = math.sqrt(least * most) if most > 1000 * least else most
        scale, prefix = next(((one, text) for one, text in _PREFIXES if typical >= one), _PREFIXES[-1])
    ticks = _log_ticks(least / scale, most / scale) if log else ()
    return MetricAxis(f"{metric_label(name)}, {prefix}{unit}".removesuffix(", "), size / scale, log, ticks)


def _log_ticks(least: float, most: float) -> tuple[float, ...]:
    decades = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(most)) + 1)
    steps = (1, 2, 5) if len(decades) <= 5 else (1,)
    return tuple(step * 10.0**power for power in decades for step in steps)
