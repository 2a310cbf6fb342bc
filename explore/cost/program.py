"""Predicted cost of a whole program: the accelerator's part, the host's, and both."""

from __future__ import annotations

from dataclasses import dataclass

from baco.accel.config import Accelerator
from baco.compiler.network.lowered import LoweredNetwork
from baco.compiler.network.prediction import predict_step
from baco.exploration.cost.schedules import schedule_costs

__all__ = ["ProgramCost", "program_cost"]


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


def program_cost(lowered: LoweredNetwork, accelerator: Accelerator) -> ProgramCost:
    """Of a network's calls, one after the other: layers by the instruction-aware model, the rest as
    `baco.compiler.network.prediction` says. Raises InfeasibleError for a schedule that cannot be carried out."""
    codes = lowered.layers
    layers = [one.layer for one in codes.values()]
    schedules = [one.schedule for one in codes.values()]
    costs = schedule_costs(layers, schedules, accelerator, "instruction")
    of_layer = {name: (cost.latency_cycles, cost.energy_pj) for name, cost in zip(codes, costs, strict=True)}
    cycles = energy = host_cycles = host_pj = 0.0
    for step in lowered.steps:
        if step.function in of_layer:
            taken, pj = of_layer[step.function]
        else:
            cost = predict_step(lowered, step, accelerator)
            taken, pj = cost.cycles, cost.energy_pj(accelerator)
        cycles, energy = cycles + taken, energy + pj
        if not step.accelerator:
            # the accelerator's silicon is the accelerator's part, also while the host works
            own = pj - accelerator.static_pj(taken)
            host_cycles, host_pj = host_cycles + taken, host_pj + own
    return ProgramCost(cycles, energy, host_cycles, host_pj)
