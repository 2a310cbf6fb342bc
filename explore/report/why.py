"""Why this design, and what else: what binds it, what a step in its hardware would change, what to take instead."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from baco.common.errors import BacoError
from baco.common.page import html_table
from baco.common.text import html_text
from baco.exploration.breakdown import CostEntry
from baco.exploration.candidate import Candidate, Cost
from baco.exploration.explain.steps import Neighbours, cost_ratio
from baco.exploration.explain.trade_offs import TradeOff, trade_offs
from baco.exploration.objective import metric_word
from baco.exploration.report.bottlenecks import limit_of
from baco.exploration.report.data import ReportData
from baco.exploration.report.notable import front_indices, knee_index
from baco.exploration.report.resources import RESOURCES
from baco.exploration.report.units import share, significant
from baco.exploration.report.why_text import (
    against_words,
    alternative_text,
    best_steps,
    step_remark,
    step_words,
)

if TYPE_CHECKING:
    import pandas as pd


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

    def equal_text(self, metric: str, best: int) -> str:
        """The best design of no more than the baseline's area, in words.

        Args:
            metric: that is named.
            best: number of the best design of all.
        """
        if self.equal_area is None:
            return f"no design found is as small as {self.name} ({significant(self.area_mm2)} mm²)"
        found = against_words(metric, self.equal_area_ratios)
        which = "the best itself" if self.equal_area == best else f"#{self.equal_area}"
        return f"no larger than {self.name} ({significant(self.area_mm2)} mm²), {found} than that ({which})"


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why a design is the best that was found, and what else there is.

    Its text is three lines: what limits the design, what a step in its hardware would change, and what to take instead.

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
    alternatives: tuple[TradeOff, ...]
    baseline: AgainstBaseline | None

    @property
    def lines(self) -> tuple[str, str, str]:
        """What limits the design, what a step would change, and what else there is: a line each."""
        return f"limited by: {self._limited}", f"one step: {self._stepped}", f"instead: {self._instead}"

    def steps(self) -> pd.DataFrame:
        """The neighbours, a row each.

        Columns: `parameter`, `before`, `after`, `in_space` (whether the space that was searched has it), then ratios of costs
        to those of this design, mapped in the same way: metrics of the objective, `latency` (in seconds), `energy`, `area`;
        `latency_cycles`, `energy_uj`, `area_mm2`; `remark`. Costs are predicted, and missing where a remark says why.
        """
        import pandas as pd

        rows = []
        for one in self.neighbours.steps if self.neighbours is not None else ():
            cost = None if one.found is None else one.found.cost
            rows.append(
                {
                    "parameter": one.step.parameter,
                    "before": one.step.before,
                    "after": one.step.after,
                    "in_space": one.step.inside,
                    **{name: one.ratios.get(name) for name in compared(self.metrics)},
                    "latency_cycles": cost and cost.latency_cycles,
                    "energy_uj": cost and cost.energy_uj,
                    "area_mm2": cost and cost.area_mm2,
                    "remark": step_remark(one),
                }
            )
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        return "\n".join([f"design {self.design} ({self.accelerator})", *self.lines])

    def _repr_html_(self) -> str:
        lines = "".join(f"<p>{html_text(line)}</p>" for line in self.lines)
        return f"{lines}{self.steps_html}"

    @property
    def steps_html(self) -> str:
        """The neighbours as a table of HTML, everything from outside escaped; empty where there are none."""
        if self.neighbours is None:
            return ""
        names = compared(self.metrics)
        heads = ("One step", *(metric_word(name) for name in names), "Remark")
        rows = [
            (
                step_words(one.step),
                *(_percent(one.ratios[name]) if one.ratios else "–" for name in names),
                step_remark(one),
            )
            for one in self.neighbours.steps
        ]
        return html_table(
            heads,
            rows,
            numeric=range(1, len(names) + 1),
            caption="One step of each parameter, layers mapped anew",
        )

    @property
    def _limited(self) -> str:
        shares = [f"{RESOURCES[part.resource].words} {share(part.share, 1.0)}" for part in self.limits[:3]]
        used = f"{share(self.array_in_use, 1.0)} of its {self.multipliers:,} multipliers in use"
        return f"{', '.join(shares)} of the time; {used}" if shares else used

    @property
    def _stepped(self) -> str:
        return f"not known ({self.reason})" if self.neighbours is None else best_steps(self.neighbours)

    @property
    def _instead(self) -> str:
        parts = [alternative_text(one, self.metrics) for one in self.alternatives]
        if self.baseline is not None:
            parts.append(self.baseline.equal_text(self.metrics[0], self.design))
        return "; ".join(parts) if parts else "no other design stands out"


def _percent(ratio: float) -> str:
    """A ratio as what it is more or less."""
    text = f"{(ratio - 1) * 100:+.1f}%"
    return "0%" if text in ("+0.0%", "-0.0%") else text


def compared(metrics: Sequence[str]) -> list[str]:
    """Metrics of the objective, then what is traded besides."""
    return [*metrics, *(name for name in _TRADED if name not in metrics)]


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
    for entry in data.best_costs.entries:
        parts.setdefault(limit_of(entry), []).append(entry)
    total = data.best_costs.cycles
    found = []
    for resource, ones in parts.items():
        cycles = math.fsum(entry.total_cycles for entry in ones)
        macs = math.fsum(entry.runs * entry.macs for entry in ones)
        if cycles > 0:
            found.append(Limit(resource, cycles, cycles / total, macs / (peak * cycles)))
    return sorted(found, key=lambda limit: -limit.share)


def _seconds(cost: Cost, one: Candidate) -> Cost:
    """With delays in nanoseconds, so that clocks may differ."""
    return replace(cost, clock_mhz=one.accelerator.clock_mhz)


def _alternatives(data: ReportData) -> list[TradeOff]:
    """The knee where there are several objectives, and the best trades, three in all."""
    names, best = compared(data.objective.metrics), data.best_index
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
    offers = trade_offs(ratios, data.objective.front_metrics, sources)
    compromise = knee_index(data) if several else None
    if compromise is not None and compromise in ratios:
        own = ratios[compromise]
        axes = data.objective.front_metrics
        gains, pays = min(axes, key=lambda name: own[name]), max(axes, key=lambda name: own[name])
        knee = TradeOff(compromise, gains, pays, own, True, sources[compromise])
        offers = [knee, *(trade_off for trade_off in offers if trade_off.design != compromise)]
    return offers[:3]


def _against_baseline(data: ReportData) -> AgainstBaseline | None:
    one = data.baseline
    if one is None:
        return None
    names = compared(data.objective.metrics)
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
