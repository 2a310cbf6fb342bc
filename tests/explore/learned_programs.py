"""Random products in random tiles on two accelerators, for tests of what is known of a program before it runs."""

import numpy as np
import torch

from baco.accel.config import Accelerator
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.batch import MappingBatch, ProblemBatch
from baco.compiler.mapping.nest import Mapping
from baco.compiler.mapping.text import parse_mapping
from baco.exploration.cost.learned.analytical import BasePrediction
from baco.exploration.cost.reference import access_counts, latency_terms
from baco.workloads.problem import Problem

SMALL = Accelerator(name="small", dim=8, scratchpad_kib=64, accumulator_kib=16)
WIDE = Accelerator(name="wide", dim=16, scratchpad_kib=128, accumulator_kib=32, dram_bytes_per_cycle=16.0)


def programs(count: int, seed: int = 0) -> tuple[list[Layer], list[Mapping], list[Accelerator]]:
    """Products in random tiles."""
    rng = np.random.default_rng(seed)
    layers, mappings, accelerators = [], [], []
    for _ in range(count):
        machine = (SMALL, WIDE)[int(rng.integers(2))]
        p, c, k, outer_c, outer_k = (int(2**n) for n in rng.integers(0, 4, 5))
        dim = machine.dim
        layers.append(Layer(Problem(P=4 * p, C=dim * c * outer_c, K=dim * k * outer_k), scale=0.01))
        text = f"L3[WIO] C{outer_c} K{outer_k} - L2[WI] N1 K{dim}X - L1[O] C{c} K{k} C{dim}X - L0[W] P{4 * p}"
        mappings.append(parse_mapping(text))
        accelerators.append(machine)
    return layers, mappings, accelerators


def reference_base(
    layers: list[Layer], mappings: list[Mapping], accelerators: list[Accelerator], styles: list[str]
) -> BasePrediction:
    """The published reference model, as what residuals correct."""
    counts = access_counts(ProblemBatch.of([layer.problem for layer in layers]), MappingBatch.of(mappings))
    dim, bandwidth = (
        torch.tensor([getattr(one, name) for one in accelerators], dtype=torch.float64)
        for name in ("dim", "dram_bytes_per_cycle")
    )
    terms = latency_terms(counts, dim, 1.0)
    terms[3] = terms[3] / bandwidth
    names = ("array", "accumulator", "scratchpad", "memory")
    return BasePrediction(terms.amax(0).numpy(), dict(zip(names, terms.numpy(), strict=True)))
