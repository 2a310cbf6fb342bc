"""Cost of every layer of a design point under the reference model, in the form reports show."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from accel.config import Accelerator
from compiler.mapping import Mapping, packed_groups
from explore.candidate import LayerCost
from explore.cost.reference import MappingBatch, ProblemBatch, access_counts, energy_terms, latency_terms
from workloads.problem import Problem


def layer_costs(
    problems: Sequence[Problem], mappings: Sequence[Mapping], accelerator: Accelerator
) -> list[LayerCost]:
    """Predicted cost of one run of each problem under its mapping (method specification section 3)."""
    if not problems:
        return []
    shapes = [
        dataclasses.replace(problem, groups=-(-problem.groups // packed_groups(mapping, problem)))
        for problem, mapping in zip(problems, mappings, strict=True)
    ]
    counts = access_counts(ProblemBatch.of(shapes), MappingBatch.of(mappings))
    dim, accumulator_kib, scratchpad_kib = (
        torch.tensor(float(value), dtype=torch.float64)
        for value in (accelerator.dim, accelerator.accumulator_kib, accelerator.scratchpad_kib)
    )
    latency = latency_terms(counts, dim, accelerator.dram_bytes_per_cycle)
    energy = energy_terms(counts, dim, accumulator_kib, scratchpad_kib, accelerator.energy)
    accesses = torch.stack([counts.a0, counts.a1, counts.a2, counts.a3])
    rows = zip(latency.T.tolist(), energy.T.tolist(), accesses.T.tolist(), counts.macs.tolist(), strict=True)
    return [
        LayerCost(
            latency_cycles=max(cycles),
            energy_pj=sum(picojoules),
            macs=macs,
            accesses=(words[0], words[1], words[2], words[3]),
            latency_terms=(cycles[0], cycles[1], cycles[2], cycles[3]),
            energy_terms_pj=(picojoules[0], picojoules[1], picojoules[2], picojoules[3], picojoules[4]),
        )
        for cycles, picojoules, words, macs in rows
    ]
