"""The analytical prediction that a residual corrects, behind one call."""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
import torch

from accel.config import Accelerator
from common.provenance import stable_hash
from compiler.layers.layer import Layer
from compiler.mapping.batch import MappingBatch, ProblemBatch
from compiler.mapping.nest import Mapping
from compiler.mapping.text import parse_mapping
from explore.cost.learned.protocol import Floats
from explore.cost.reference import access_counts, latency_terms
from workloads.problem import Problem

__all__ = ["Base", "BasePrediction", "fingerprint", "instruction_base", "reference_base"]

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


def fingerprint() -> str:
    """Digits that differ when the instruction-aware model says something else: what learned from it is then stale."""
    texts = (
        "L3[WIO] C2 K4 - L2[WI] N1 K16X - L1[O] C2 K2 P3 C16X - L0[W] P16",
        "L3[WIO] K8 P3 - L2[WI] C2 K8X - L1[O] C4 K2 P4 P8X - L0[O] N1",
    )
    mappings = [parse_mapping(text) for text in texts] * 2
    layers = [
        Layer(Problem(P=96, C=64, K=128), scale=0.01, bias=bias) for bias in (False, True) for _ in texts
    ]
    accelerators = [Accelerator(dim=16, scratchpad_kib=256, accumulator_kib=64)] * len(layers)
    found = instruction_base(layers, mappings, accelerators, ["explicit", "explicit", "loop_ws", "explicit"])
    numbers = np.stack([found.cycles, *(found.terms[name] for name in sorted(found.terms))])
    return stable_hash([[f"{number:.4g}" for number in row] for row in numbers.tolist()])


def instruction_base(
    layers: Sequence[Layer],
    mappings: Sequence[Mapping],
    accelerators: Sequence[Accelerator],
    styles: Sequence[str],
) -> BasePrediction:
    """The instruction-aware model, with its terms, and the counts and times that they are made of."""
    from compiler.latency.batch import HardwareBatch, LayerBatch
    from compiler.latency.commands import count_commands
    from compiler.latency.host import HOST_FEATURES, host_features
    from compiler.latency.model import constants, latency, measure_work
    from compiler.latency.tiling import Rounding, make_tiling

    layer, mapping = LayerBatch.of(layers), MappingBatch.of(mappings)
    hardware = HardwareBatch.of(accelerators)
    found = latency(layer, mapping, hardware, torch.tensor([style.startswith("loop_") for style in styles]))
    tiling = make_tiling(layer, mapping, hardware, Rounding(False))
    counts = count_commands(tiling)
    work = measure_work(tiling, counts, constants())
    terms = dict(zip(found.names, found.terms, strict=True))
    for part in (counts, work):
        # the bytes that memory moves are no news: those of each operand are among the counts
        names = [one.name for one in fields(part) if one.name not in ("bytes", "moved")]
        terms |= {name.replace("_", " "): getattr(part, name) for name in names}
    host = host_features(tiling, counts)
    terms |= {
        f"host {name}".replace("_", " "): count for name, count in zip(HOST_FEATURES, host, strict=True)
    }
    size = (len(layers),)
    return BasePrediction(
        found.cycles.double().expand(size).numpy(),
        {name: term.double().expand(size).numpy() for name, term in terms.items()},
    )
