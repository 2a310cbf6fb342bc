"""The analytical prediction that a residual corrects, behind one call."""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import torch

from baco.accel.config import Accelerator
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.batch import MappingBatch
from baco.compiler.mapping.nest import Mapping
from baco.exploration.cost.learned.protocol import Floats


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


def instruction_base(
    layers: Sequence[Layer],
    mappings: Sequence[Mapping],
    accelerators: Sequence[Accelerator],
    styles: Sequence[str],
) -> BasePrediction:
    """The instruction-aware model, with its terms, and the counts and times that they are made of."""
    from baco.compiler.latency.arrays import TensorArrays
    from baco.compiler.latency.batch import HardwareBatch, LayerBatch
    from baco.compiler.latency.commands import count_commands
    from baco.compiler.latency.host import HOST_FEATURES, host_features
    from baco.compiler.latency.model import constants, latency, measure_work
    from baco.compiler.latency.tiling import make_tiling

    layer, mapping = LayerBatch.of(layers), MappingBatch.of(mappings)
    hardware = HardwareBatch.of(accelerators)
    found = latency(layer, mapping, hardware, torch.tensor([style.startswith("loop_") for style in styles]))
    tiling = make_tiling(layer, mapping, hardware, TensorArrays())
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
