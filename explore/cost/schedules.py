"""Cost of schedules that no search found: a heuristic's, or the compiler's own."""

from __future__ import annotations

from collections.abc import Sequence

from baco.accel.config import Accelerator
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.styles.registry import counted_mapping
from baco.exploration.candidate import CostModelName, LayerCost
from baco.exploration.cost.layer_costs import layer_costs
from baco.exploration.cost.predicted import by_instructions
from baco.workloads.problem import Problem


def schedule_costs(
    layers: Sequence[Layer], schedules: Sequence[Schedule], accelerator: Accelerator, model: CostModelName
) -> list[LayerCost]:
    """Predicted cost of one run of each layer, carried out as its schedule says.

    Accesses inside the accelerator, and all by the reference model, are those of the mapping which a schedule stands for,
    without padding.
    Raises InfeasibleError for a schedule that cannot be carried out.
    """
    problems, mappings = standing_mappings(layers, schedules, accelerator)
    words = layer_costs(problems, mappings, accelerator, padded=False)
    if model == "reference":
        return words
    return by_instructions(words, layers, schedules, [accelerator] * len(layers))


def standing_mappings(
    layers: Sequence[Layer], schedules: Sequence[Schedule], accelerator: Accelerator
) -> tuple[list[Problem], list[Mapping]]:
    """The problems and mappings that schedules stand for. Raises InfeasibleError where there is none."""
    problems, mappings = [], []
    for layer, schedule in zip(layers, schedules, strict=True):
        counted, mapping = counted_mapping(layer, schedule, accelerator)
        problems.append(counted.problem)
        mappings.append(mapping)
    return problems, mappings
