"""Objectives: one scalar, or several for a front; metrics with a name, or Python functions of costs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from baco.common.errors import BacoError, InputError, did_you_mean
from baco.common.portable import Floats
from baco.exploration.candidate import Cost

METRICS = ("edp", "latency", "energy", "area", "edap")
#: Exponents of (energy, latency, area) in each metric.
EXPONENTS: dict[str, tuple[float, float, float]] = {
    "edp": (1.0, 1.0, 0.0),
    "edap": (1.0, 1.0, 1.0),
    "energy": (1.0, 0.0, 0.0),
    "latency": (0.0, 1.0, 0.0),
    "area": (0.0, 0.0, 1.0),
}
#: What people call them, in full and short, where that is no word itself.
_WORDS = {"edp": ("energy-delay product", "EDP"), "edap": ("energy-delay-area product", "EDP × area")}
#: What a user minimises with a function of her own: less is better.
CostFunction: TypeAlias = Callable[[Cost], float]
#: Ends the name of a metric that is a function.
_CALL = "()"


class FunctionMetric(str):
    """The name of a metric that a Python function computes, `score()`: it goes wherever names of metrics go.

    Attributes:
        function: of a `Cost`; None in a process that was not given it: no file holds functions.
    """

    function: CostFunction | None
    _by_arrays: bool | None

    def __new__(cls, name: str, function: CostFunction | None = None) -> FunctionMetric:
        made = super().__new__(cls, name)
        made.function, made._by_arrays = function, None
        return made

    @classmethod
    def of(cls, function: CostFunction) -> FunctionMetric:
        """With the function's own name; `objective()` for one without."""
        name = getattr(function, "__name__", type(function).__name__)
        return cls((name if name.isidentifier() and name not in METRICS else "objective") + _CALL, function)

    def __call__(self, cost: Cost) -> float:
        """The function's value. Raises InputError where it fails, or gives no finite number."""
        if self.function is None:
            raise InputError(
                f"the objective of this study is the Python function `{self}`, which no file holds",
                hint=f"give it: baco.load_study(folder, objective={self.removesuffix(_CALL)})",
            )
        try:
            value = float(self.function(cost))
        except BacoError:
            raise
        except Exception as error:
            raise InputError(
                f"the objective `{self}` failed for {cost}: {type(error).__name__}: {error}",
                hint="it takes one argument, costs with latency_cycles, energy_uj, area_mm2, edp and edap, and gives a number",
            ) from error
        if not math.isfinite(value):
            raise InputError(
                f"the objective `{self}` is {value} for {cost}",
                hint="an objective is finite; designs are refused by constraints={'area_mm2': ...}",
            )
        return value

    def of_arrays(self, costs: Cost) -> Floats:
        """Values of costs whose fields are arrays that broadcast; infinite where a latency or energy is.

        The function is called once with arrays where it gives the same for them as for numbers, else once a cost.
        """
        latency, energy, area = np.broadcast_arrays(costs.latency_cycles, costs.energy_pj, costs.area_mm2)
        value = np.full(latency.shape, np.inf)
        known = np.isfinite(latency) & np.isfinite(energy)
        if known.any():
            value[known] = self._values(replace(costs, **dict(zip(
                ("latency_cycles", "energy_pj", "area_mm2"),
                (latency[known], energy[known], area[known]),
                strict=True,
            ))))  # fmt: skip
        return value

    def _values(self, costs: Cost) -> Floats:
        """Of costs with arrays (B,)."""
        found = None if self._by_arrays is False else self._at_once(costs)
        if found is not None and self._by_arrays:
            return found
        fields: Any = (costs.latency_cycles, costs.energy_pj, costs.area_mm2)
        each = [
            self(replace(costs, latency_cycles=float(one), energy_pj=float(two), area_mm2=float(three)))
            for one, two, three in zip(*fields, strict=True)
        ]
        if len(each) > 1 and self._by_arrays is None:
            self._by_arrays = found is not None and np.allclose(found, each, rtol=1e-12, atol=0.0)
        return np.array(each)

    def _at_once(self, costs: Cost) -> Floats | None:
        """Of costs with arrays (B,) by one call; None for a function that takes numbers alone."""
        assert self.function is not None
        try:
            with np.errstate(all="ignore"):
                found = np.asarray(self.function(costs), dtype=np.float64)
        except Exception:
            return None
        return found if found.shape == np.shape(costs.latency_cycles) and np.isfinite(found).all() else None


#: Functions that studies of this process were given, by the study's file.
_given: dict[str, dict[str, FunctionMetric]] = {}


def remember_functions(study: Path, objective: Objective) -> None:
    """Whoever opens this study's file in this process minimises with these functions."""
    known = {str(one): one for one in objective.functions if one.function is not None}
    _given.setdefault(os.path.realpath(study), {}).update(known)


def metric_label(name: str) -> str:
    """A metric in full; a function of the user's by its own name."""
    return _WORDS[name][0] if name in _WORDS else name


def metric_word(name: str) -> str:
    """The same, short."""
    return _WORDS[name][1] if name in _WORDS else name


def metric(cost: Cost, name: str) -> float:
    """Value of one metric (µJ·cycles, cycles, pJ, mm², µJ·cycles·mm²; cycles or nanoseconds, see `Cost.delay`); of a cost whose
    fields are arrays, their array."""
    if isinstance(name, FunctionMetric):
        return name.of_arrays(cost) if isinstance(cost.latency_cycles, np.ndarray) else name(cost)  # type: ignore[return-value]
    return {
        "edp": cost.edp,
        "latency": cost.delay,
        "energy": cost.energy_pj,
        "area": cost.area_mm2,
        "edap": cost.edap,
    }[name]


def without_accuracy(
    source: str | CostFunction | Sequence[str | CostFunction],
) -> tuple[str | CostFunction | Sequence[str | CostFunction], bool]:
    """What is minimised of designs, and whether accuracy is traded for it (`edp,accuracy`).

    Raises InputError unless exactly one metric is left beside accuracy.
    """
    given = [source] if isinstance(source, str) or callable(source) else list(source)
    parts: list[str | CostFunction] = []
    for one in given:
        parts += [one] if callable(one) else [word.strip() for word in one.split(",") if word.strip()]
    if "accuracy" not in parts:
        return source, False
    rest = [one for one in parts if one != "accuracy"]
    if len(rest) != 1 or len(parts) != 2:
        raise InputError(
            "accuracy is traded for one metric of a design", hint="as in --objective edp,accuracy"
        )
    return rest[0], True


@dataclass(frozen=True)
class Objective:
    """What to minimise: one metric, or several for a Pareto front.

    The first metric is the scalar objective that progress and `best` refer to.
    """

    metrics: tuple[str, ...]

    @classmethod
    def parse(
        cls, source: str | CostFunction | Sequence[str | CostFunction], study: Path | None = None
    ) -> Objective:
        """From `edp`, `latency,energy`, a function of a `Cost`, or a list of names and functions.

        Args:
            study: the file that the text is kept in, which may name functions (`remember_functions`).

        Raises InputError for unknown or repeated names.
        """
        parts = [source] if isinstance(source, str) or callable(source) else list(source)
        names: list[str] = []
        for part in parts:
            if isinstance(part, FunctionMetric) or not callable(part):
                names += (
                    [part]
                    if isinstance(part, FunctionMetric)
                    else [word.strip() for word in part.split(",") if word.strip()]
                )
            else:
                names.append(FunctionMetric.of(part))
        if study is not None:
            known = _given.get(os.path.realpath(study), {})
            names = [
                known.get(name, FunctionMetric(name)) if name.endswith(_CALL) else name for name in names
            ]
        if not names:
            raise InputError("the objective is empty", hint=did_you_mean("", METRICS))
        for name in names:
            if name in ("accuracy", "accuracy-loss", "accuracy_loss"):
                raise InputError(
                    f"{name} is no metric of a design: what costs it is a network's formats, which a search chooses beside designs",
                    hint="trade it for one metric of a design, --objective edp,accuracy, or bound it: --accuracy-loss 1% (accuracy_loss=0.01)",
                )
            if name not in METRICS and not isinstance(name, FunctionMetric):
                raise InputError(f"unknown objective '{name}'", hint=did_you_mean(name, METRICS))
        if len(set(names)) < len(names):
            raise InputError(f"objective '{','.join(names)}' names a metric twice")
        return cls(tuple(names))

    @property
    def functions(self) -> tuple[FunctionMetric, ...]:
        """The metrics that are functions."""
        return tuple(one for one in self.metrics if isinstance(one, FunctionMetric))

    @property
    def function(self) -> FunctionMetric | None:
        """The first metric where it is a function; else None."""
        return self.metrics[0] if isinstance(self.metrics[0], FunctionMetric) else None

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
