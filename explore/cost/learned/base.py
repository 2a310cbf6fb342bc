"""The analytical prediction that a residual corrects, behind one call."""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import torch

from accel.config import Accelerator
from compiler.layer import Layer
from compiler.mapping import Mapping
from explore.cost.learned.protocol import Floats
from explore.cost.reference import MappingBatch, ProblemBatch, access_counts, latency_terms

__all__ = ["Base", "BasePrediction", "instruction_base", "reference_base"]

_REFERENCE_TERMS = ("array", "accumulator", "scratchpad", "memory")


@dataclass(frozen=True)
class BasePrediction:
    """What an analytical model says of B programs.

    Attributes:
        cycles: (B,).
        terms: (B,) cycles or counts of each of its resources, by name.
    """

    cycles: Floats
    terms: Dictionary[str, Floats]


class Base(Protocol):
    """An analytical model."""

    def __call__(
        self,
        layers: Sequence[Layer],
        mappings: Sequence[Mapping],
        accelerators: Sequence[Accelerator],
        styles: Sequence[str],
    ) -> BasePrediction: ...


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


def instruction_base(
    layers: Sequence[Layer],
    mappings: Sequence[Mapping],
    accelerators: Sequence[Accelerator],
    styles: Sequence[str],
) -> BasePrediction:
    """The instruction-aware model, with its terms, and the counts and times that they are made of."""
    from explore.cost.instruction.batch import HardwareBatch, LayerBatch
    from explore.cost.instruction.commands import count_commands
    from explore.cost.instruction.model import constants, latency, measure_work
    from explore.cost.instruction.tiling import Rounding, make_tiling

    layer, mapping = LayerBatch.of(layers), MappingBatch.of(mappings)
    hardware = HardwareBatch.of(accelerators)
    found = latency(layer, mapping, hardware, torch.tensor([style.startswith("loop_") for style in styles]))
    tiling = make_tiling(layer, mapping, hardware, Rounding(False))
    counts = count_commands(tiling)
    work = measure_work(tiling, counts, constants())
    terms = dict(zip(found.names, found.terms, strict=True))
    for part in (counts, work):
        terms |= {f"{one.name.replace('_', ' ')}": getattr(part, one.name) for one in fields(part)}
    size = (len(layers),)
    return BasePrediction(
        found.cycles.double().expand(size).numpy(),
        {name: term.double().expand(size).numpy() for name, term in terms.items()},
    )
