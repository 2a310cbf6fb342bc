"""Why this design, and what else: what binds it, what a step in its hardware would change, what to take instead."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from baco.common.errors import BacoError
from baco.exploration.breakdown import CostEntry
from baco.exploration.candidate import Candidate, Cost
from baco.exploration.explain.alternatives import Alternative, trade_offs
from baco.exploration.explain.steps import Neighbours, cost_ratio
from baco.exploration.report.bottlenecks import limit_of
from baco.exploration.report.data import ReportData
from baco.exploration.report.notable import front_indices, knee_index

__all__ = ["AgainstBaseline", "Explanation", "Limit", "explanation", "limits"]

#: Metrics that are compared beside the objective.
_TRADED = ("latency", "energy", "area")


@dataclass(frozen=True)
class Limit:
    """Parts of the programs that one resource limits.

    Attributes:
        resource: see `baco.exploration.report.bottlenecks.Bottleneck.name`.
        cycles: predicted, of these parts together.
        share: of the cycles of the whole.
        array_in_use: multiplications that these parts ask for, over what the array could do in their time.
    """

    resource: str
    cycles: float
    share: float
    array_in_use: float


@dataclass(frozen=True)
class AgainstBaseline:
    """The best design against the machine that comes with Gemmini, and the best one that is no larger than that.

    Attributes:
        name: of the baseline.
        area_mm2: of the baseline.
        ratios: costs of the best design over the baseline's: metrics of the objective, latency (in seconds), energy and area.
        source: of the baseline's costs.
        equal_area: number of the best design found whose area is no more than the baseline's; None where there is none.
        equal_area_ratios: costs of that over the baseline's.
    """

    name: str
    area_mm2: float
    ratios: Mapping[str, float]
    source: str
    equal_area: int | None
    equal_area_ratios: Mapping[str, float]


@dataclass(frozen=True)
class Explanation:
    """Why a design is the best that was found, and what else there is.

    Attributes:
        design: number of the best design.
        accelerator: its hardware in a few words.
        metrics: of the objective.
        limits: what limits its whole programs, the largest share first; predicted.
        multipliers: of its array.
        array_in_use: share of what these could do while the programs run.
        neighbours: what a step in each parameter of its hardware would change; None where layers cannot be mapped anew, as `reason`
            says.
        alternatives: other designs of the front, the best trade first.
        baseline: the comparison with Gemmini's default machine; None where the workload cannot be run on it.
    """

    design: int
    accelerator: str
    metrics: tuple[str, ...]
    limits: tuple[Limit, ...]
    multipliers: int
    array_in_use: float
    neighbours: Neighbours | None
    reason: str
    alternatives: tuple[Alternative, ...]
    baseline: AgainstBaseline | None


def explanation(data: ReportData) -> Explanation | None:
    """Of the best design; None where no design is feasible. What takes time is done once for `data`."""
    if data.violations:
        return None
    near: Neighbours | None = None
    reason = "no search is known in which layers could be mapped anew"
    try:
        near = data.neighbours
    except BacoError as error:
        reason = error.message
    machine = data.best.accelerator
    peak = machine.dim**2
    parts = limits(data)
    cycles = sum(one.cycles for one in parts)
    used = sum(one.array_in_use * one.cycles for one in parts)
    return Explanation(
        design=data.best_index,
        accelerator=f"{machine.dim} × {machine.dim}, {machine.scratchpad_kib:,} + {machine.accumulator_kib:,} KiB",
        metrics=data.objective.metrics,
        limits=tuple(parts),
        multipliers=peak,
        array_in_use=used / cycles if cycles else 0.0,
        neighbours=near,
        reason="" if near is not None else reason,
        alternatives=tuple(_alternatives(data)),
        baseline=_against_baseline(data),
    )


def limits(data: ReportData) -> list[Limit]:
    """What limits the best design's programs, the largest share first: layers by the resource that needs most cycles in them, and
    everything else that its costs have in it. Predicted."""
    peak = float(data.best.accelerator.dim**2)
    parts: dict[str, list[CostEntry]] = {}
    for one in data.best_costs.entries:
        parts.setdefault(limit_of(one), []).append(one)
    total = data.best_costs.cycles
    found = []
    for resource, ones in parts.items():
        cycles = math.fsum(one.total_cycles for one in ones)
        macs = math.fsum(one.runs * one.macs for one in ones)
        if cycles > 0:
            found.append(Limit(resource, cycles, cycles / total, macs / (peak * cycles)))
    return sorted(found, key=lambda one: -one.share)


def _names(data: ReportData) -> list[str]:
    """Metrics of the objective, then what is traded besides."""
    return [*data.objective.metrics, *(name for name in _TRADED if name not in data.objective.metrics)]


def _seconds(cost: Cost, one: Candidate) -> Cost:
    """With delays in nanoseconds, so that clocks may differ."""
    return replace(cost, clock_mhz=one.accelerator.clock_mhz)


def _alternatives(data: ReportData) -> list[Alternative]:
    """The knee where there are several objectives, and the best trades, three in all."""
    names, best = _names(data), data.best_index
    ratios: dict[int, dict[str, float]] = {}
    sources: dict[int, str] = {}
    for index in front_indices(data):
        if index == best:
            continue
        pair = [(data.candidates[n].cost, data.candidates[n]) for n in (index, best)]
        if pair[0][0].source != pair[1][0].source:  # like with like
            pair = [(data.prediction(n), data.candidates[n]) for n in (index, best)]
        costs = [_seconds(*one) for one in pair]
        ratios[index] = {name: cost_ratio(name, *costs) for name in names}
        sources[index] = costs[0].source
    several = len(data.objective.metrics) > 1
    found = trade_offs(ratios, data.objective.front_metrics, sources)
    compromise = knee_index(data) if several else None
    if compromise is not None and compromise in ratios:
        own = ratios[compromise]
        axes = data.objective.front_metrics
        gains, pays = min(axes, key=lambda name: own[name]), max(axes, key=lambda name: own[name])
        knee = Alternative(compromise, gains, pays, own, True, sources[compromise])
        found = [knee, *(one for one in found if one.design != compromise)]
    return found[:3]


def _against_baseline(data: ReportData) -> AgainstBaseline | None:
    one = data.baseline
    if one is None:
        return None
    names = _names(data)
    before = replace(one.cost, clock_mhz=one.accelerator.clock_mhz)
    bad = {index for index, of in data.validated.items() if of.status in ("failed", "infeasible")}
    no_larger = [
        index
        for index, candidate in enumerate(data.candidates)
        if index not in bad and candidate.cost.area_mm2 <= one.cost.area_mm2
    ]
    measured = [index for index in no_larger if data.candidates[index].cost.source == before.source]
    equal = min(
        measured or no_larger,
        key=lambda index: (data.objective.scalar(data.candidates[index].cost), index),
        default=None,
    )

    def against(index: int) -> dict[str, float]:
        candidate = data.candidates[index]
        return {name: cost_ratio(name, _seconds(candidate.cost, candidate), before) for name in names}

    return AgainstBaseline(
        one.accelerator.name,
        one.cost.area_mm2,
        against(data.best_index),
        one.cost.source,
        equal,
        {} if equal is None else against(equal),
    )
