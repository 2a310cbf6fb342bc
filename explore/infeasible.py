"""How a searcher reports that it found nothing feasible, and the error made of it.

Convention: as long as a searcher has no feasible candidate, its `BatchResult.details` hold, of the design
point with the least violation it has seen, the value reached for every constraint that is set, as
`nearest.<path>` with the paths of `Constraints.values` (`nearest.area_mm2`, `nearest.networks.bert.energy_uj`).
The violation of a design point is its largest relative excess, value / bound - 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from common.errors import InfeasibleError
from explore.constraints import UNITS, Constraints

PREFIX = "nearest."
#: Values of constraints by path: (reached, bound).
Values = Mapping[str, tuple[float, float]]


def violation(values: Values) -> float:
    """Largest relative excess over a bound; 0 or less when all hold (-1 when there are none)."""
    return max((value / bound - 1 for value, bound in values.values()), default=-1.0)


def nearest_details(values: Values) -> dict[str, float]:
    """Entries of `BatchResult.details` for the design point with the least violation, see the convention."""
    return {PREFIX + path: float(value) for path, (value, _) in values.items()}


def bounds(constraints: Constraints) -> dict[str, float]:
    """All bounds that are set, by path."""
    found = {path: bound for path in UNITS if (bound := getattr(constraints, path)) is not None}
    for network, limits in constraints.networks.items():
        for metric in ("latency_cycles", "energy_uj"):
            bound = getattr(limits, metric)
            if bound is not None:
                found[f"networks.{network}.{metric}"] = bound
    return found


def _amount(value: float, path: str) -> str:
    return f"{value:.6g} {UNITS[path.rsplit('.', 1)[-1]]}"


def _round_up(value: float) -> float:
    """To four digits, upwards, so that the bound suggested does admit the design it was taken from."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return math.ceil(value / unit) * unit


def infeasible_error(
    constraints: Constraints, details: Mapping[str, float], evaluations: int
) -> InfeasibleError:
    """The error of a search that ended without a feasible candidate.

    Args:
        details: of the last batch; entries by the convention above name the binding constraint.
        evaluations: spent.
    """
    limits = bounds(constraints)
    searched = f"in {evaluations:,} evaluations"
    if not limits:
        return InfeasibleError(
            f"no design point that fits the accelerators of the space was found {searched}",
            hint="allow larger scratchpads, accumulators or arrays, or raise --samples",
        )
    reached = {path: details[PREFIX + path] for path in limits if PREFIX + path in details}
    broken = {path: value for path, value in reached.items() if value > limits[path]}
    if not broken:
        listed = ", ".join(f"{path} <= {_amount(bound, path)}" for path, bound in limits.items())
        return InfeasibleError(
            f"no design satisfies the constraints ({listed}), {searched}",
            hint="relax one, or raise --samples",
        )
    binding = max(broken, key=lambda path: broken[path] / limits[path])
    ratio = broken[binding] / limits[binding]
    excess = f"{ratio - 1:.2%} more" if ratio < 10 else f"{ratio:.3g} times as much"
    message = (
        f"no design satisfies the constraints, {searched}: {binding} <= {_amount(limits[binding], binding)} binds; "
        f"the nearest design reaches {_amount(broken[binding], binding)}, {excess}"
    )
    others = [path for path in broken if path != binding]
    if others:
        message += (
            " (it also breaks "
            + ", ".join(
                f"{path} <= {_amount(limits[path], path)} with {_amount(broken[path], path)}"
                for path in others
            )
            + ")"
        )
    return InfeasibleError(
        message,
        hint=f"relax {binding} to {_amount(_round_up(broken[binding]), binding)} or more, relax another "
        "constraint, or raise --samples",
    )
