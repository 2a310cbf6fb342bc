"""When no design satisfies the constraints: what proves it, when a search gives up, and the error that says so.

Convention: as long as a searcher has no feasible candidate, its `BatchResult.details` hold, of the design
point with the least violation it has seen, the value reached for every constraint that is set, as
`nearest.<path>` with the paths of `Constraints.values` (`nearest.area_mm2`, `nearest.networks.bert.energy_uj`).
The violation of a design point is its largest relative excess, value / bound - 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from baco.common.errors import InfeasibleError
from baco.exploration.candidate import BatchSummary, Cost
from baco.exploration.cost.limits import LeastCosts
from baco.exploration.space.constraints import UNITS, Constraints
from baco.exploration.space.shortfall import Shortfall

PREFIX = "nearest."
#: Values of constraints by path: (reached, bound).
Values = Mapping[str, tuple[float, float]]

#: A search without a feasible design ends when so many samples in a row, and this share of all, brought it no nearer
#: than by this ratio.
_PATIENCE, _PATIENCE_SHARE, _NEARER = 300, 0.25, 0.999
#: Samples spent on the nearest designs where it is proven that none is feasible.
_HOPELESS = 100
#: Room that suggested bounds leave above the design they are taken from, so that a search need not find that very one.
_ROOM = 1.01


def violation(values: Values) -> float:
    """Largest relative excess over a bound; 0 or less when all hold (-1 when there are none)."""
    return max((value / bound - 1 for value, bound in values.values()), default=-1.0)


def nearest_details(values: Values) -> dict[str, float]:
    """Entries of `BatchResult.details` for the design point with the least violation, see the convention."""
    return {PREFIX + path: float(value) for path, (value, _) in values.items()}


def least_violation(constraints: Constraints, details: Mapping[str, float]) -> float:
    """Largest relative excess over a bound of the nearest design, as a batch tells it; -1 when it tells of none."""
    return violation(
        {
            path: (details[PREFIX + path], bound)
            for path, bound in constraints.bounds.items()
            if PREFIX + path in details
        }
    )


@dataclass(frozen=True)
class Impossible:
    """A proof that no design of a space satisfies its constraints.

    Attributes:
        least: of every bound that no design satisfies, whatever the others are, the value that none can be below, by path;
            of power, none that is within the bounds on latency.
        together: bounds that each can be satisfied, but on no accelerator all at once; empty where `least` says enough.
    """

    least: dict[str, float]
    together: tuple[str, ...]


def impossible(limits: LeastCosts) -> Impossible | None:
    """Whether bounds on mappings can be seen to be impossible: on no accelerator that keeps those on area and SRAM are
    least latency, least energy and least power all within theirs. None if that cannot be seen.

    Power is energy over latency, so slow designs have little; but where latency is bounded, it is at least the least
    energy over that bound.
    """
    c = limits.space.constraints
    if not c.any_on_mappings:
        return None
    points = limits.points()
    energy, cycles = limits.at(points)
    cost = Cost(limits.workload(cycles), limits.workload(energy), points.area_mm2)  # type: ignore[arg-type]
    each = {name: Cost(cycles[n], energy[n], points.area_mm2) for n, name in enumerate(limits.networks)}  # type: ignore[arg-type]
    bounds = c.on_mappings.model_copy(update={"power_mw": None})
    least = bounds.values(cost, sram_kib=None, clock_mhz=limits.space.base.clock_mhz, networks=each)
    slowest = c.latency_cycles or math.inf
    longest = [c.bounds.get(f"networks.{name}.latency_cycles") for name in limits.networks]
    if None not in longest:
        pairs = zip(limits.weights.tolist(), longest, strict=True)
        slowest = min(slowest, math.fsum(weight * (bound or 0.0) for weight, bound in pairs))
    # what silicon takes in every cycle is taken in those beyond the least, too
    idle = points.static_pj
    beside = np.maximum(limits.workload(energy) - idle * limits.workload(cycles), 0.0) / slowest
    power = (beside + idle) * limits.space.base.clock_mhz * 1e-3 * (1 - 1e-9)
    if c.power_mw is not None:
        least["power_mw"] = power, c.power_mw
    ratios = {path: value / bound for path, (value, bound) in least.items()}
    if not ratios or (np.maximum.reduce(list(ratios.values())) <= 1).any():
        return None
    alone = {path: float(least[path][0].min()) for path, ratio in ratios.items() if not (ratio <= 1).any()}
    if len(alone) > 1:
        # latencies that no design has say nothing about the power of one
        alone.pop("power_mw", None)
    return Impossible(alone, () if alone else tuple(ratios))


class Patience:
    """Whether a search that has found nothing feasible should go on, told from its batches alone.

    Args:
        constraints: of the space.
        tasks: evaluations in a sample.
        hopeless: whether it is proven that nothing is feasible.

    Attributes:
        least: least violation so far, infinite before the first.
        nearest: details of the batch that had it.
        hopeless: as given; it may turn out in the course of the search.
    """

    def __init__(self, constraints: Constraints, tasks: int, *, hopeless: bool) -> None:
        self.least = math.inf
        self.nearest: dict[str, float] = {}
        self._limits = constraints.bounds if constraints.any_on_mappings else {}
        self._tasks, self.hopeless = tasks, hopeless
        self._since = 0
        self._over = False

    def see(self, summary: BatchSummary) -> bool:
        """Take note of the next batch; whether it brought a design that is nearer than all before."""
        values = {
            path: (summary.details[PREFIX + path], bound)
            for path, bound in self._limits.items()
            if PREFIX + path in summary.details
        }
        now = violation(values) if values else math.inf
        if now < self.least * _NEARER:
            self._since = summary.evaluations
        nearer = now < self.least
        if nearer:
            self.least, self.nearest = now, summary.details
        most = max(_PATIENCE * self._tasks, _PATIENCE_SHARE * summary.evaluations)
        if self.hopeless:
            most = 0.0 if summary.evaluations >= _HOPELESS * self._tasks else math.inf
        stale = summary.evaluations - self._since >= most
        self._over = bool(self._limits) and summary.best_objective is None and stale
        return nearer

    @property
    def over(self) -> bool:
        """Whether the search should end."""
        return self._over


def _amount(value: float, path: str) -> str:
    return f"{value:.6g} {UNITS[path.rsplit('.', 1)[-1]]}"


def _round_up(value: float) -> float:
    """To four digits, upwards, so that the bound suggested does admit the design it was taken from."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return float(f"{math.ceil(value / unit) * unit:.6g}")


def suggested(limits: Mapping[str, float], nearest: Mapping[str, float]) -> dict[str, float]:
    """Bounds that a design satisfies, by path, in place of those of `limits` that it breaks.

    Args:
        nearest: what it reaches, by the convention above.
    """
    return {
        path: _round_up(nearest[PREFIX + path] * _ROOM)
        for path, bound in limits.items()
        if nearest.get(PREFIX + path, 0.0) > bound
    }


def _excess(value: float, bound: float) -> str:
    ratio = value / bound
    return f"{ratio - 1:.2%} more" if ratio < 10 else f"{ratio:.3g} times as much"


def infeasible_error(
    constraints: Constraints,
    details: Mapping[str, float],
    evaluations: int,
    proof: Impossible | None = None,
    feasible: Mapping[str, float] | None = None,
) -> InfeasibleError:
    """The error of a search that ended without a feasible candidate.

    It names every bound that the nearest design breaks, and bounds that are feasible together, since that design meets
    them.

    Args:
        details: of the batch with the nearest design; entries by the convention above.
        evaluations: spent.
        proof: that there is none.
        feasible: bounds to suggest, by path; None for those that the nearest design satisfies.
    """
    limits = constraints.bounds
    searched = f"in {evaluations:,} evaluations"
    if not limits:
        return InfeasibleError(
            f"no design point that fits the accelerators of the space was found {searched}",
            hint="allow larger scratchpads, accumulators or arrays, or raise --samples",
        )
    listed = ", ".join(f"{path} <= {_amount(bound, path)}" for path, bound in limits.items())
    reached = {path: details[PREFIX + path] for path in limits if PREFIX + path in details}
    broken = {path: value for path, value in reached.items() if value > limits[path]}
    parts = []
    if proof is None:
        message = "no design satisfies the constraints"
    elif proof.least:
        message = "no design can satisfy the constraints"
        parts = [
            f"{path} <= {_amount(limits[path], path)}, but no design of the space"
            f"{' that is fast enough' if path == 'power_mw' else ''} is below {_amount(least, path)}"
            for path, least in proof.least.items()
        ]
    else:
        message = (
            "no design can satisfy the constraints, since on no accelerator of the space they all can hold"
        )
    if not broken:
        return InfeasibleError(
            f"{message}: {'; '.join(parts) or listed}, {searched}", hint="relax one, or raise --samples"
        )
    order = sorted(broken, key=lambda path: -broken[path] / limits[path])
    nearest = ", ".join(
        f"{path} with {_amount(broken[path], path)} ({_excess(broken[path], limits[path])}"
        f" than {_amount(limits[path], path)})".replace("as much than", "as much as")
        for path in order
    )
    parts.append(f"the nearest design, {searched}, breaks {nearest}")
    feasible = suggested(limits, details) if feasible is None else feasible
    return InfeasibleError(f"{message}: {'; '.join(parts)}", hint=_together(limits, feasible))


def no_accelerator_error(
    constraints: Constraints, short: Shortfall, feasible: Mapping[str, float]
) -> InfeasibleError:
    """The error of a space in which no accelerator keeps the bounds on area and SRAM, and others may be too tight as well.

    Args:
        feasible: bounds to suggest, by path, of all that have to give way.
    """
    limits = constraints.bounds
    others = ", ".join(
        f"{path} <= {_amount(limits[path], path)}" for path in feasible if path not in short.feasible
    )
    also = f"; on the nearest ones, no design found satisfies {others} either" if others else ""
    return InfeasibleError(
        short.message + also, location=short.location, hint=_together(limits, feasible) + short.scale
    )


def _together(limits: Mapping[str, float], feasible: Mapping[str, float]) -> str:
    listed = ", ".join(
        f"{path} {_amount(bound, path)}"
        for path, bound in sorted(feasible.items(), key=lambda pair: -pair[1] / limits[pair[0]])
    )
    kept = "" if len(feasible) == len(limits) else ", the others as they are"
    return f"bounds that a design satisfies together: {listed}{kept}"
