"""Objectives: one scalar, or several for a front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from baco.common.errors import InputError, did_you_mean
from baco.exploration.candidate import Cost

METRICS = ("edp", "latency", "energy", "area", "edap")


def metric(cost: Cost, name: str) -> float:
    """Value of one metric (µJ·cycles, cycles, pJ, mm², µJ·cycles·mm²; cycles or nanoseconds, see `Cost.delay`)."""
    return {
        "edp": cost.edp,
        "latency": cost.delay,
        "energy": cost.energy_pj,
        "area": cost.area_mm2,
        "edap": cost.edap,
    }[name]


@dataclass(frozen=True)
class Objective:
    """What to minimise: one metric, or several for a Pareto front.

    The first metric is the scalar objective that progress and `best` refer to.
    """

    metrics: tuple[str, ...]

    @classmethod
    def parse(cls, text: str | Sequence[str]) -> Objective:
        """From `edp`, `latency,energy` or a list of names. Raises InputError for unknown or repeated names."""
        text = text if isinstance(text, str) else ",".join(text)
        names = tuple(part.strip() for part in text.split(",") if part.strip())
        if not names:
            raise InputError("the objective is empty", hint=did_you_mean("", METRICS))
        for name in names:
            if name not in METRICS:
                raise InputError(f"unknown objective '{name}'", hint=did_you_mean(name, METRICS))
        if len(set(names)) < len(names):
            raise InputError(f"objective '{text}' names a metric twice")
        return cls(names)

    def scalar(self, cost: Cost) -> float:
        """The first metric, by which candidates are ranked."""
        return metric(cost, self.metrics[0])

    @property
    def front_metrics(self) -> tuple[str, ...]:
        """Axes of the Pareto front kept by a study: the metrics themselves if several are given, else the
        alternatives an architect would trade: latency, energy and area."""
        return self.metrics if len(self.metrics) > 1 else ("latency", "energy", "area")

    def __str__(self) -> str:
        return ",".join(self.metrics)
