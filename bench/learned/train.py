"""How measurements become a learned model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from baco.accel.config import Accelerator
from baco.bench.learned.measured_set import MeasuredSet
from baco.bench.learned.trees import TreeLearner
from baco.common.provenance import stable_hash
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.text import parse_mapping
from baco.exploration.cost.learned.analytical import instruction_base
from baco.exploration.cost.learned.learned_model import SHIPPED, LearnedModel
from baco.workloads.problem import Problem

#: Weights that come with baco, by whether they look at counts of compiled programs, too.
WEIGHTS = {False: SHIPPED, True: Path(__file__).parent / "weights" / "programs.zip"}


def train(data: MeasuredSet, seed: int = 0, **about: Any) -> LearnedModel:
    """Learn from measurements; the rows of a task are kept together wherever errors are estimated."""
    residual = TreeLearner(seed)
    residual.fit(data.features, data.log_ratio, data.tasks)
    facts = {"rows": len(data), "accelerators": len(np.unique(data.machines)), "seed": seed}
    return LearnedModel(residual, data.features.names, facts | about)


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
