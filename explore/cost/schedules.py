"""Cost of schedules that no search found: a heuristic's, or the compiler's own."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from accel.config import Accelerator
from compiler.layer import Layer
from compiler.lower.grouped import packed_layer
from compiler.lower.realise import flat_layer, mapping_of
from compiler.mapping import ROW_DIM, Mapping
from compiler.schedule import DepthwiseSchedule, ExplicitSchedule, LoopWsSchedule, Schedule
from explore.candidate import CostModelName, LayerCost
from explore.cost.instruction import predict_layers
from explore.cost.layers import layer_costs
from explore.cost.predicted import by_instructions
from workloads.problem import DIMS, Problem

__all__ = ["even_tiles", "schedule_costs"]


def schedule_costs(
    layers: Sequence[Layer], schedules: Sequence[Schedule], accelerator: Accelerator, model: CostModelName
) -> list[LayerCost]:
    """Predicted cost of one run of each layer, carried out as its schedule says.

    Energy, and latency by the reference model, is that of the mapping which a schedule stands for, with `even_tiles`.
    Raises InfeasibleError for a schedule that cannot be carried out.
    """
    problems, mappings = [], []
    for layer, schedule in zip(layers, schedules, strict=True):
        if isinstance(schedule, DepthwiseSchedule):
            layer, schedule = packed_layer(layer, schedule.packed), ExplicitSchedule(schedule.mapping)
        elif isinstance(schedule, LoopWsSchedule):
            layer = flat_layer(layer)
        problems.append(layer.problem)
        mappings.append(even_tiles(mapping_of(layer, schedule, accelerator), layer.problem))
    words = layer_costs(problems, mappings, accelerator)
    if model == "reference":
        return words
    return [
        by_instructions(one, latency, schedule)
        for one, latency, schedule in zip(
            words, predict_layers(layers, schedules, accelerator), schedules, strict=True
        )
    ]


def even_tiles(mapping: Mapping, problem: Problem) -> Mapping:
    """The same number of tiles in every dimension, but all of one size, as small as covers the problem.

    The reference model charges padded factors, while code runs what is left of a dimension as a smaller tile: with
    tiles of one size it counts what that code does (56 as 3 tiles of 19, not of 23, which would be 69).
    """
    temporal = [list(level) for level in mapping.temporal]
    spatial = {ROW_DIM[mapping.dataflow]: mapping.rows}
    spatial["K"] = mapping.columns  # rows never take K
    for d, (name, bound) in enumerate(zip(DIMS, problem.bounds, strict=True)):
        for level in (3, 2, 1, 0):
            others = spatial.get(name, 1) * math.prod(temporal[m][d] for m in range(4) if m != level)
            temporal[level][d] = -(-bound // others)
        if name in spatial:
            spatial[name] = -(-bound // math.prod(level[d] for level in temporal))
    return dataclasses.replace(
        mapping,
        temporal=tuple(tuple(level) for level in temporal),
        rows=spatial[ROW_DIM[mapping.dataflow]],
        columns=spatial["K"],
    )
