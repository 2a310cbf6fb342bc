"""Predicted cost of a whole program: the accelerator's part, the host's, and both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from baco.accel.config import Accelerator
from baco.accel.switched_energy import SwitchedEnergy, Toggles
from baco.compiler.network.lowered import LoweredNetwork
from baco.compiler.network.prediction import predict_step
from baco.compiler.schedules.schedule import Schedule
from baco.exploration.candidate import LayerCost
from baco.exploration.cost.schedules import schedule_costs
from baco.workloads.problem import Problem


@dataclass(frozen=True)
class ProgramCost:
    """Predicted cost of one run of a program.

    Attributes:
        cycles, energy_pj: of all of it.
        host_cycles, host_pj: of the operators that the host core runs, without the static energy of the accelerator.
    """

    cycles: float
    energy_pj: float
    host_cycles: float
    host_pj: float


def program_cost(
    lowered: LoweredNetwork, accelerator: Accelerator, toggles: Mapping[str, Toggles] | None = None
) -> ProgramCost:
    """Of a network's calls, one after the other: layers by the instruction-aware model, the rest as
    `baco.compiler.network.prediction` says.

    Args:
        toggles: what the numbers of operators make switch (`baco.exploration.cost.toggles`), where that is known; it counts in a
            technology with figures of switching.

    Raises InfeasibleError for a schedule that cannot be carried out.
    """
    codes = lowered.layers
    layers = [one.layer for one in codes.values()]
    schedules = [one.schedule for one in codes.values()]
    costs = schedule_costs(layers, schedules, accelerator, "instruction")
    of_layer = dict(zip(codes, costs, strict=True))
    law, known = accelerator.energy_law, toggles or {}
    cycles = energy = host_cycles = host_pj = 0.0
    for step in lowered.steps:
        if step.function in of_layer:
            layer = of_layer[step.function]
            taken, pj = layer.latency_cycles, layer.energy_pj
            if isinstance(law, SwitchedEnergy) and step.operator in known:
                code = codes[step.function]
                pj += _by_numbers(
                    layer, code.layer.problem, code.schedule, accelerator, law, known[step.operator]
                )
        else:
            cost = predict_step(lowered, step, accelerator)
            taken, pj = cost.cycles, cost.energy_pj(accelerator)
        cycles, energy = cycles + taken, energy + pj
        if not step.accelerator:
            # the accelerator's silicon is the accelerator's part, also while the host works
            own = pj - accelerator.static_pj(taken)
            host_cycles, host_pj = host_cycles + taken, host_pj + own
    return ProgramCost(cycles, energy, host_cycles, host_pj)


def _by_numbers(
    cost: LayerCost,
    problem: Problem,
    schedule: Schedule,
    accelerator: Accelerator,
    law: SwitchedEnergy,
    toggles: Toggles,
) -> float:
    """What a layer takes more than typical numbers would, pJ; less where a row of the array holds several pixels of the window, so
    that fewer sums leave it."""
    dim, macs, share, below = float(accelerator.dim), float(problem.macs), 1.0, 1.0
    elements = toggles.elements
    if schedule.pixels_at_once > 1:
        share = math.ceil(problem.R / schedule.pixels_at_once) / problem.R
        elements *= share
    elif (packed := schedule.groups_at_once) > 1:
        # groups lie along the diagonal: each has a column, of which its sum passes what is below it
        below = (packed + 1) / (2 * packed)
        elements /= packed
    law_here = law.with_numbers(replace(toggles, total=toggles.total * share * below, elements=elements))
    stationary = max(0.0, cost.accesses[0] - cost.macs)
    array = law_here.array_pj(macs, stationary, dim)
    sums = 2.0 * (1.0 - share) * macs / min(problem.C, dim)
    whole_rows = dim * math.ceil(problem.K / dim) / problem.K
    fewer = sums * whole_rows * law.accumulator_pj(float(accelerator.accumulator_kib), dim)
    return float(array - sum(cost.energy_terms_pj[:2]) - fewer)
