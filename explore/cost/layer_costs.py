"""Cost of every layer of a design point under the reference model, in the form reports show."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from baco.accel.config import Accelerator
from baco.compiler.mapping.batch import AXES, MappingBatch, ProblemBatch
from baco.compiler.mapping.nest import ROW_DIM, Mapping, packed_problem
from baco.exploration.candidate import LayerCost
from baco.exploration.cost.reference import access_counts, energy_terms, latency_terms, tensor_accesses
from baco.workloads.problem import DIMS, Problem


def layer_costs(
    problems: Sequence[Problem], mappings: Sequence[Mapping], accelerator: Accelerator, *, padded: bool = True
) -> list[LayerCost]:
    """Predicted cost of one run of each problem under its mapping (method specification section 3).

    Args:
        padded: factors that multiply to more than a bound are charged whole, as published; else tiles are made even
            first (`even_tiles`), since code runs what is left of a dimension as a smaller tile, and local memories are
            accessed by whole rows where columns stay idle (`Counts.in_rows`).
    """
    if not problems:
        return []
    counts = access_counts(*_charged(problems, mappings, padded=padded))
    dim, accumulator_kib, scratchpad_kib = (
        torch.tensor(float(value), dtype=torch.float64)
        for value in (accelerator.dim, accelerator.accumulator_kib, accelerator.scratchpad_kib)
    )
    counts = counts.in_rows(dim)
    latency = latency_terms(counts, dim, accelerator.dram_bytes_per_cycle)
    energy = energy_terms(counts, dim, accumulator_kib, scratchpad_kib, accelerator.energy_law)
    accesses = torch.stack([counts.a0, counts.a1, counts.a2, counts.a3])
    idle = accelerator.static_pj(1.0)  # of a cycle
    rows = zip(latency.T.tolist(), energy.T.tolist(), accesses.T.tolist(), counts.macs.tolist(), strict=True)
    return [
        LayerCost(
            latency_cycles=max(cycles),
            energy_pj=sum(picojoules) + idle * max(cycles),
            macs=macs,
            accesses=(words[0], words[1], words[2], words[3]),
            latency_terms=(cycles[0], cycles[1], cycles[2], cycles[3]),
            energy_terms_pj=(picojoules[0], picojoules[1], picojoules[2], picojoules[3], picojoules[4]),
            static_pj=idle * max(cycles),
        )
        for cycles, picojoules, words, macs in rows
    ]


def layer_words(
    problems: Sequence[Problem], mappings: Sequence[Mapping], dim: int | None = None
) -> list[tuple[tuple[float, ...], ...]]:
    """`LayerCost.accesses` of `layer_costs` by tensor: for each layer the words of (W, I, O) at levels 0 to 3; without
    padding on an array of side `dim`, with it where that is None."""
    if not problems:
        return []
    shapes, batch, bounds = _charged(problems, mappings, padded=dim is None)
    words = tensor_accesses(shapes, batch, bounds, dim or 1.0)
    return [tuple(tuple(level) for level in one) for one in words.permute(2, 0, 1).tolist()]


def _charged(
    problems: Sequence[Problem], mappings: Sequence[Mapping], *, padded: bool
) -> tuple[ProblemBatch, MappingBatch, Tensor | None]:
    """What is counted: groups that run at once as one, and even tiles within bounds unless padding is charged."""
    shapes = [packed_problem(problem, mapping) for problem, mapping in zip(problems, mappings, strict=True)]
    if not padded:
        mappings = [even_tiles(mapping, shape) for mapping, shape in zip(mappings, shapes, strict=True)]
    bounds = torch.tensor([[float(getattr(p, axis)) for axis in AXES] for p in shapes], dtype=torch.float64).T
    return ProblemBatch.of(shapes), MappingBatch.of(mappings), None if padded else bounds


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
