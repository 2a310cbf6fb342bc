"""The explanation in `summary.json`, as `summary.schema.json` describes it."""

from __future__ import annotations

from typing import Any

from baco.exploration.explain.hardware_steps import PARAMETERS
from baco.exploration.explain.remap import Remapped
from baco.exploration.explain.steps import Neighbour, Neighbours
from baco.exploration.explain.trade_offs import TradeOff
from baco.exploration.report.resources import RESOURCES
from baco.exploration.report.units import milliseconds
from baco.exploration.report.why import AgainstBaseline, Explanation
from baco.exploration.report.why_text import alternative_text, step_remark, step_words


def explanation_block(one: Explanation | None) -> dict[str, Any] | None:
    """Plain JSON; None where there is nothing to explain."""
    if one is None:
        return None
    return {
        "text": list(one.lines),
        "limits": [
            {
                "resource": limit.resource,
                "words": RESOURCES[limit.resource].words,
                "latency_cycles": limit.cycles,
                "share": limit.share,
                "array_in_use": limit.array_in_use,
            }
            for limit in one.limits
        ],
        "multipliers": one.multipliers,
        "array_in_use": one.array_in_use,
        "neighbours": None if one.neighbours is None else _neighbours(one.neighbours),
        "reason": one.reason,
        "alternatives": [_alternative(other, one) for other in one.alternatives],
        "baseline": None if one.baseline is None else _baseline(one.baseline, one),
    }


def _neighbours(near: Neighbours) -> dict[str, Any]:
    return {
        "reference": {**_remapped(near.reference), "ratios": dict(near.ratios)},
        "steps": [_step(one) for one in near.steps],
    }


def _step(one: Neighbour) -> dict[str, Any]:
    step = one.step
    words, unit = PARAMETERS[step.parameter]
    return {
        "parameter": step.parameter,
        "text": step_words(step),
        "remark": step_remark(one),
        "words": words,
        "unit": unit,
        "way": step.way,
        "before": step.before,
        "after": step.after,
        "also": {name: list(values) for name, values in step.also.items()},
        "in_space": step.inside,
        "design": None if one.found is None else _remapped(one.found),
        "ratios": dict(one.ratios),
        "reason": one.reason,
    }


def _remapped(one: Remapped) -> dict[str, Any]:
    clock = one.accelerator.clock_mhz
    return {
        "config_hash": one.accelerator.config_hash,
        "latency_cycles": one.cost.latency_cycles,
        "latency_ms": milliseconds(one.cost.latency_cycles, clock),
        "energy_uj": one.cost.energy_uj,
        "area_mm2": one.cost.area_mm2,
        "violations": {path: {"value": value, "bound": bound} for path, (value, bound) in one.broken.items()},
    }


def _alternative(one: TradeOff, explanation: Explanation) -> dict[str, Any]:
    return {
        "id": one.design,
        "text": alternative_text(one, explanation.metrics),
        "knee": one.knee,
        "gains": one.gains,
        "pays": one.pays,
        "source": one.source,
        "ratios": dict(one.ratios),
    }


def _baseline(one: AgainstBaseline, explanation: Explanation) -> dict[str, Any]:
    return {
        "name": one.name,
        "area_mm2": one.area_mm2,
        "source": one.source,
        "ratios": dict(one.ratios),
        "text": one.equal_text(explanation.metrics[0], explanation.design),
        "equal_area": None
        if one.equal_area is None
        else {"id": one.equal_area, "ratios": dict(one.equal_area_ratios)},
    }
