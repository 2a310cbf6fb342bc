"""Active selection: which candidates to measure next under a budget of simulated cycles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from baco.common import portable
from baco.exploration.cost.learned.protocol import Floats

#: Where the tails of the normal distribution begin, and terms of either form.
_TAIL, _TERMS = 2.5, 60


@dataclass(frozen=True)
class MeasurementChoice:
    """Something that could be measured.

    Attributes:
        log_cost: logarithm of the predicted objective (cycles, or EDP), less is better.
        deviation: standard deviation of that logarithm.
        cycles: that its measurement is predicted to simulate; what the budget is spent on.
        group: what competes: of candidates of one group only the best counts (a task, or one design).
        best: logarithm of the group's best measured objective so far; infinite without any.
        weight: how much an improvement of this group counts.
    """

    log_cost: float
    deviation: float
    cycles: float
    group: int = 0
    best: float = math.inf
    weight: float = 1.0


def expected_improvement(best: Floats, mean: Floats, deviation: Floats) -> Floats:
    """E[max(best - x, 0)] for normal x. Source: Mockus et al. (1978); Jones et al., "EGO" (1998)."""
    spread = np.maximum(deviation, 1e-12)
    z = (best - mean) / spread
    found: Floats = np.maximum(spread * (z * normal_below(z) + normal_density(z)), 0.0)
    return found


def normal_density(z: Floats) -> Floats:
    """Density of the standard normal distribution."""
    return portable.exp(-0.5 * z * z) * (1 / math.sqrt(2 * math.pi))


def normal_below(z: Floats) -> Floats:
    """Probability that a standard normal number is below z, to 14 digits.

    By the power series where that converges fast, and by Mills' ratio as a continued fraction in the tails. Source:
    Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 26.2.11 and 26.2.14.
    """
    size = np.abs(z)
    near = np.minimum(size, _TAIL)
    series = term = near
    for n in range(1, _TERMS):
        term = term * near * near / (2 * n + 1)
        series = series + term
    far = np.maximum(size, _TAIL)
    ratio = far
    for n in range(_TERMS, 0, -1):
        ratio = far + n / ratio
    density = normal_density(size)
    above = np.where(size < _TAIL, 0.5 - density * series, density / ratio)
    return np.where(z < 0, above, 1.0 - above)


def select(choices: Sequence[MeasurementChoice], budget: float) -> list[int]:
    """Places of the choices to measure, most useful first, whose cycles together stay within the budget.

    Greedy by expected improvement per cycle. What is chosen is taken to turn out as predicted before the next is chosen, so that
    the rest of the budget is not spent on more of the same: its group's best is that or better.

    Args:
        budget: simulated cycles.
    """
    left = {
        i
        for i, choice in enumerate(choices)
        if 0 < choice.cycles <= budget and math.isfinite(choice.log_cost)
    }
    best: dict[int, float] = {}
    for choice in choices:
        best[choice.group] = min(best.get(choice.group, math.inf), choice.best)
    chosen: list[int] = []
    while left:
        order = sorted(left)
        use = _improvements([choices[i] for i in order], best)
        per_cycle = use / np.array([choices[i].cycles for i in order])
        at = int(per_cycle.argmax())
        if not use[at] > 0:
            break
        place = order[at]
        choice = choices[place]
        chosen.append(place)
        left.discard(place)
        budget -= choice.cycles
        best[choice.group] = min(best[choice.group], choice.log_cost)
        left = {i for i in left if choices[i].cycles <= budget}
    return chosen


def _improvements(choices: Sequence[MeasurementChoice], best: dict[int, float]) -> Floats:
    """Expected of each, weighted; of a group that nothing was measured of, as if its worst candidate had been."""
    worst: dict[int, float] = {}
    for choice in choices:
        top = choice.log_cost + 3 * choice.deviation
        worst[choice.group] = max(worst.get(choice.group, -math.inf), top)
    known = [
        best[choice.group] if math.isfinite(best[choice.group]) else worst[choice.group] for choice in choices
    ]
    mean, deviation, weight = (
        np.array([getattr(choice, name) for choice in choices])
        for name in ("log_cost", "deviation", "weight")
    )
    found: Floats = weight * expected_improvement(np.array(known), mean, deviation)
    return found
