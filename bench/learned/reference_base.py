"""The published reference model as a base of residuals: what learning from mappings alone, commands unknown, is worth."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from baco.accel.config import Accelerator
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.batch import MappingBatch, ProblemBatch
from baco.compiler.mapping.nest import Mapping
from baco.exploration.cost.learned.base import BasePrediction
from baco.exploration.cost.reference import access_counts, latency_terms

__all__ = ["reference_base"]

_REFERENCE_TERMS = ("array", "accumulator", "scratchpad", "memory")


def reference_base(
    layers: Sequence[Layer],
    mappings: Sequence[Mapping],
    accelerators: Sequence[Accelerator],
    styles: Sequence[str],
) -> BasePrediction:
    """The published reference model (method specification, section 3), which knows no commands."""
    counts = access_counts(ProblemBatch.of([layer.problem for layer in layers]), MappingBatch.of(mappings))
    dim, bandwidth = (
        torch.tensor([getattr(one, name) for one in accelerators], dtype=torch.float64)
        for name in ("dim", "dram_bytes_per_cycle")
    )
    terms = latency_terms(counts, dim, 1.0)
    terms[3] = terms[3] / bandwidth
    return BasePrediction(terms.amax(0).numpy(), dict(zip(_REFERENCE_TERMS, terms.numpy(), strict=True)))
