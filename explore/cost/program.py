"""Predicted cost of a whole program: the accelerator's part, the host's, and both."""

from __future__ import annotations

from dataclasses import dataclass

from accel.config import Accelerator
from compiler.network.lowering import LoweredNetwork
from compiler.network.prediction import predict_steps
from explore.cost.schedules import schedule_costs

__all__ = ["ProgramCost", "program_cost"]


@dataclass(frozen=True)
class ProgramCost:
    """Predicted cost of one run of a program.

    Attributes:
        cycles, energy_pj: of all of it.
        host_cycles, host_pj: of the operators that the host core runs.
    """

    cycles: float
    energy_pj: float
    host_cycles: float
    host_pj: float


def program_cost(lowered: LoweredNetwork, accelerator: Accelerator) -> ProgramCost:
    """Of a network's calls, one after the other: layers by the instruction-aware model, the rest as
    `compiler.network.prediction` says. Raises InfeasibleError for a schedule that cannot be carried out."""
    codes = lowered.layers
    layers = [one.layer for one in codes.values()]
    schedules = [one.schedule for one in codes.values()]
    costs = schedule_costs(layers, schedules, accelerator, "instruction")
    of_layer = {name: cost.energy_pj for name, cost in zip(codes, costs, strict=True)}
    cycles = energy = host_cycles = host_pj = 0.0
    for step, cost in zip(lowered.steps, predict_steps(lowered, accelerator), strict=True):
        pj = of_layer.get(step.function, cost.energy_pj(accelerator))
        cycles, energy = cycles + cost.cycles, energy + pj
        if not step.accelerator:
            host_cycles, host_pj = host_cycles + cost.cycles, host_pj + pj
    return ProgramCost(cycles, energy, host_cycles, host_pj)
