"""What measurements of designs say: against the reference machine, and against predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from baco.common import portable
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.text import parse_layer
from baco.exploration.measure.measured_design import Design, DesignLayer, DesignProgram
from baco.exploration.objective import Objective, metric_word
from baco.exploration.task_layers import alike


@dataclass(frozen=True)
class BaselineComparison:
    """One measured design against the reference machine under Gemmini's default tiling.

    Attributes:
        design: its name.
        role: of the design, see `baco.exploration.measure.measured_design.Role`.
        objective_factor: objective of the baseline over that of the design.
        edp_factor, latency_factor, energy_factor: the same for these.
        area_mm2, baseline_area_mm2: of both.
    """

    design: str
    role: str
    objective_factor: float
    edp_factor: float
    latency_factor: float
    energy_factor: float
    area_mm2: float
    baseline_area_mm2: float
    objective: str

    @property
    def text(self) -> str:
        """One sentence."""
        what = (
            "mappings alone, on Gemmini's default machine:"
            if self.role == "mappings"
            else f"the best candidate ({self.design}):"
        )
        return (
            f"{what} measured {metric_word(self.objective)} {self.objective_factor:.2f} times better than Gemmini's default machine and "
            f"tiling, measured (latency {self.latency_factor:.2f}, energy {self.energy_factor:.2f} times; "
            f"{self.area_mm2:.4g} against {self.baseline_area_mm2:.4g} mm²)"
        )


def best_measured(designs: Sequence[Design], objective: Objective) -> Design | None:
    """The candidate with the least measured objective, the earliest of equals; None before any is measured."""
    found = [
        (objective.scalar(one.measured), i)
        for i, one in enumerate(designs)
        if one.measured and _is(one, "candidate")
    ]
    return designs[min(found)[1]] if found else None


def comparisons(designs: Sequence[Design], objective: Objective) -> list[BaselineComparison]:
    """The best measured candidate, and the reference machine under searched mappings, against the baseline.

    Empty unless the baseline was measured whole.
    """
    baseline = next(
        (design.measured for design in designs if _is(design, "baseline") and design.measured), None
    )
    if baseline is None:
        return []
    best = best_measured(designs, objective)
    mapped = next((design for design in designs if _is(design, "mappings") and design.measured), None)
    found = []
    for design in (best, mapped):
        if design is None or design.measured is None:
            continue
        cost = design.measured
        found.append(
            BaselineComparison(
                design.name,
                design.role,
                objective.scalar(baseline) / objective.scalar(cost),
                baseline.edp / cost.edp,
                baseline.latency_cycles / cost.latency_cycles,
                baseline.energy_pj / cost.energy_pj,
                cost.area_mm2,
                baseline.area_mm2,
                objective.metrics[0],
            )
        )
    return found


def _is(one: Design, role: str) -> bool:
    return one.role == role


@dataclass(frozen=True)
class ModelError:
    """How far predicted cycles, or energies, are from measured ones, over what was measured.

    Attributes:
        what: `layers`, or `whole programs` where any were measured.
        count: how many.
        mean_absolute: mean of |predicted / measured - 1|.
        bias: mean of predicted / measured - 1.
        worst_ratio: the ratio predicted / measured farthest from 1.
    """

    what: Literal["layers", "whole programs"]
    count: int
    mean_absolute: float
    bias: float
    worst_ratio: float


def model_error(designs: Sequence[Design]) -> ModelError | None:
    """Of cycles, over all programs, else all layers, of all designs that were measured and predicted, each measurement once; None
    without any."""
    return _error(designs, lambda part: part.ratio)


def energy_error(designs: Sequence[Design]) -> ModelError | None:
    """`model_error` of energies."""
    return _error(designs, lambda part: part.energy_ratio)


_Part = DesignLayer | DesignProgram


def _error(designs: Sequence[Design], ratio: Callable[[_Part], float | None]) -> ModelError | None:
    what: Literal["layers", "whole programs"] = "whole programs"
    ratios = _ratios((part for one in designs for part in one.programs), ratio)
    if not ratios:
        what = "layers"
        ratios = _ratios((part for one in designs for part in one.layers), ratio)
    if not ratios:
        return None
    found = np.array(list(ratios.values()), dtype=np.float64)
    return ModelError(
        what,
        count=len(found),
        mean_absolute=float(np.abs(found - 1).mean()),
        bias=float((found - 1).mean()),
        worst_ratio=float(found[np.abs(portable.log(found)).argmax()]),
    )


def _ratios(parts: Iterable[_Part], ratio: Callable[[_Part], float | None]) -> dict[str, float]:
    found = {one.key: ratio(one) for one in parts}
    return {key: one for key, one in found.items() if one is not None}


def prediction_change(design: Design) -> str:
    """What became of a design's mappings and groups in its programs, in a sentence; empty where there is one prediction only.

    The search predicts layers under its mappings, and groups as they were chosen when it had begun. The compiler gives every layer
    the better of the mapping and its own schedules, and chooses groups anew.
    """
    if design.searched is None or design.predicted is None or design.searched == design.predicted:
        return ""
    chosen: dict[Layer, set[str]] = {}
    groups = 0
    for program in design.programs:
        if program.plan is not None:
            groups += len(program.plan.groups)
            for layer, schedule in program.plan.schedules.items():
                chosen.setdefault(alike(parse_layer(layer)), set()).add(schedule)
    alone = [one for one in design.layers if alike(one.layer) in chosen]
    kept = sum(one.schedule is not None and chosen[alike(one.layer)] == {one.schedule.text} for one in alone)
    return (
        f"{design.name}: the search predicted {design.searched.latency_cycles:,.0f} cycles, its compiled"
        f" program{'s are' if len(design.programs) > 1 else ' is'} predicted to take {design.predicted.latency_cycles:,.0f}. Of"
        f" {len(design.layers)} different layers {kept} run as the search mapped them, {len(alone) - kept} as the compiler chooses,"
        f" {len(design.layers) - len(alone)} in groups alone; {groups} groups run as one unit, chosen anew."
    )
