"""The end of an exploration: a proof of how near the optimum its best design is, and the optimum if it missed it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from baco.exploration.candidate import Candidate, Cost
from baco.exploration.cost.certificate import Certificate, certify
from baco.exploration.cost.layer_costs import layer_costs
from baco.exploration.objective import Objective
from baco.exploration.space import DesignSpace

#: Phase of the batch that a proof is recorded as, and the detail that holds the proven bound (µJ·cycles).
PHASE, BOUND = "proof", "proof.bound"
#: Ratio within which the optimum is proven, and boxes of hardware points after which a proof is given up.
TOLERANCE, _MOST_REGIONS = 0.002, 400


@dataclass(frozen=True)
class Proof:
    """What `prove` found: a better design, if there is one, and numbers for the batch's details."""

    better: Candidate | None
    details: dict[str, float]


def provable(space: DesignSpace, objective: Objective) -> bool:
    """Whether a proof can be had in seconds: the EDP alone, over hardware points that can be listed."""
    return objective.metrics == ("edp",) and space.enumerable


def prove(
    best: Candidate, space: DesignSpace, objective: Objective, stop: Callable[[], bool] | None = None
) -> Proof | None:
    """Bound the EDP of a space from below, starting from the best design found.

    The bound holds with or without constraints on latency, energy or power; a better design is only
    given where the space has none of these, since the proof does not look at them. None when `stop` ended it early.
    """
    stopped = False

    def asked() -> bool:
        nonlocal stopped
        stopped = stop is not None and stop()
        return stopped

    certificate = certify(best.tasks, space, best.cost.edp, TOLERANCE, stop=asked, max_regions=_MOST_REGIONS)
    if stopped:
        return None
    details = {
        BOUND: certificate.bound,
        "proof.regions": float(certificate.regions),
        "proof.solved": float(certificate.solved),
    }
    return Proof(
        None if space.constraints.any_on_mappings else _design(certificate, best, space, objective), details
    )


def _design(
    found: Certificate, best: Candidate, space: DesignSpace, objective: Objective
) -> Candidate | None:
    if found.point is None or found.mappings is None or found.best >= best.cost.edp:
        return None
    point = found.point
    accelerator = space.accelerator(int(point.dim), int(point.accumulator_kib), int(point.scratchpad_kib))
    layers = layer_costs([task.problem for task in best.tasks], found.mappings, accelerator)
    cost = Cost(
        latency_cycles=sum(t.count * c.latency_cycles for t, c in zip(best.tasks, layers, strict=True)),
        energy_pj=sum(t.count * c.energy_pj for t, c in zip(best.tasks, layers, strict=True)),
        area_mm2=accelerator.area_mm2,
    )
    if cost.edp >= best.cost.edp:
        return None
    return Candidate(accelerator, best.tasks, found.mappings, cost, best.samples, objective.scalar(cost))
