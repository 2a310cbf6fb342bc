"""The best measured candidate against the reference machine, both measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from baco.exploration.objective import Objective
from baco.exploration.validate.result import ValidatedDesign

__all__ = ["BaselineComparison", "best_measured", "comparisons"]

_WORDS = {"edp": "EDP", "latency": "latency", "energy": "energy", "area": "area", "edap": "EDP times area"}


@dataclass(frozen=True)
class BaselineComparison:
    """One measured design against the reference machine under Gemmini's default tiling.

    Attributes:
        design: its name.
        role: of the design, see `baco.exploration.validate.design.Role`.
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
            f"{what} measured {_WORDS[self.objective]} {self.objective_factor:.2f} times better than Gemmini's default machine and "
            f"tiling, measured (latency {self.latency_factor:.2f}, energy {self.energy_factor:.2f} times; "
            f"{self.area_mm2:.4g} against {self.baseline_area_mm2:.4g} mm²)"
        )


def best_measured(designs: Sequence[ValidatedDesign], objective: Objective) -> ValidatedDesign | None:
    """The candidate with the least measured objective, the earliest of equals; None before any is measured."""
    found = [
        (objective.scalar(one.cost), i) for i, one in enumerate(designs) if one.cost and _is(one, "candidate")
    ]
    return designs[min(found)[1]] if found else None


def comparisons(designs: Sequence[ValidatedDesign], objective: Objective) -> list[BaselineComparison]:
    """The best measured candidate, and the reference machine under searched mappings, against the baseline.

    Empty unless the baseline was measured whole.
    """
    baseline = next((one.cost for one in designs if _is(one, "baseline") and one.cost), None)
    if baseline is None:
        return []
    best = best_measured(designs, objective)
    mapped = next((one for one in designs if _is(one, "mappings") and one.cost), None)
    found = []
    for one in (best, mapped):
        if one is None or one.cost is None:
            continue
        found.append(
            BaselineComparison(
                one.design.name,
                one.design.role,
                objective.scalar(baseline) / objective.scalar(one.cost),
                baseline.edp / one.cost.edp,
                baseline.latency_cycles / one.cost.latency_cycles,
                baseline.energy_pj / one.cost.energy_pj,
                one.cost.area_mm2,
                baseline.area_mm2,
                objective.metrics[0],
            )
        )
    return found


def _is(one: ValidatedDesign, role: str) -> bool:
    return one.design.role == role
