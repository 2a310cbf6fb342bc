"""From our RTL to the published FPGA measurements: what a model of one machine is worth on the other.

The machine is the same (Gemmini's default), the memory system and the software are not. Factors above the array's side,
which the published software splits, are split here into loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baco.accel.presets import load_accelerator
from baco.bench.learned.process import GaussianProcess, standardised
from baco.bench.learned.published import measured_cycles
from baco.bench.learned.reference_base import reference_base
from baco.bench.learned.scores import Scores, group_numbers, mean_scores, scores
from baco.common.errors import InputError, Location
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import ROW_DIM, Mapping
from baco.exploration.cost.learned.base import Base, instruction_base
from baco.exploration.cost.learned.features import described
from baco.exploration.cost.learned.protocol import Floats, ProgramFeatures
from baco.exploration.mapping_rows import MappingTable, read_mapping_table
from baco.workloads.problem import DIMS

__all__ = ["PublishedTransfer", "published_text", "split_factors", "transfer_published"]

_ACCELERATOR = "gemmini-default"
_REPEATS = 5


@dataclass(frozen=True)
class PublishedTransfer:
    """One way to predict the published rows.

    Attributes:
        name: of the way.
        measurements: published rows it learned from, of shapes that are not tested.
        scores: means over several draws of these rows.
    """

    name: str
    measurements: int
    scores: Scores


def split_factors(mapping: Mapping, dim: int) -> Mapping:
    """The mapping with spatial factors of at most `dim`; the rest becomes loops of level 1."""
    inner = list(mapping.temporal[1])
    sizes = []
    for name, factor in ((ROW_DIM[mapping.dataflow], mapping.rows), ("K", mapping.columns)):
        parts = -(-factor // dim)
        inner[DIMS.index(name)] *= parts
        sizes.append(-(-factor // parts))
    temporal = (mapping.temporal[0], tuple(inner), *mapping.temporal[2:])
    return replace(mapping, rows=sizes[0], columns=sizes[1], temporal=temporal)


def transfer_published(
    rows: str | Path,
    *,
    measurements: int = 50,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> list[PublishedTransfer]:
    """Predict published rows by models of the RTL, by these after some published measurements, and by these alone.

    Raises InputError for a table without measured cycles or with too few rows.
    """
    table = read_mapping_table(rows)
    cycles, shapes = measured_cycles(table), group_numbers(table.problems)
    if len(table) < 2 * measurements or len(np.unique(shapes)) < 2:
        raise InputError(
            f"{len(table)} rows are too few to learn from {measurements} and test on others",
            location=Location(table.path),
        )
    models = {
        "reference model": _described(table, reference_base),
        "instruction-aware model of the RTL": _described(table, instruction_base),
    }
    found = []
    for name, (features, predicted) in models.items():
        before, after = [], []
        for repeat in range(_REPEATS):
            learn, test = _split(shapes, measurements, np.random.default_rng([seed, repeat]))
            error = np.log(cycles / predicted)
            constant = np.exp(np.median(error[learn]))
            before.append(scores(constant * predicted[test], cycles[test]))
            inputs = standardised(features, features)
            process = GaussianProcess(inputs[learn], error[learn])
            mean, _ = process.predict(inputs[test])
            after.append(scores(predicted[test] * np.exp(mean), cycles[test]))
        found.append(PublishedTransfer(f"{name}, one factor", measurements, mean_scores(before)))
        found.append(PublishedTransfer(f"{name}, adapted", measurements, mean_scores(after)))
        progress(f"{name}: {found[-1].scores}")
    return found


def _described(table: MappingTable, base: Base) -> tuple[ProgramFeatures, Floats]:
    accelerator = load_accelerator(_ACCELERATOR)
    mappings = [split_factors(mapping, accelerator.dim) for mapping in table.mappings]
    count = len(table)
    layers = [Layer(problem) for problem in table.problems]
    return described(layers, mappings, [accelerator] * count, ["explicit"] * count, base)


def _split(
    shapes: NDArray[np.int64], measurements: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to learn from, of half of the shapes, and all rows of the other half."""
    names = rng.permutation(np.unique(shapes))
    known = np.isin(shapes, names[: len(names) // 2])
    return rng.permutation(np.flatnonzero(known))[:measurements], np.flatnonzero(~known)


def published_text(found: Sequence[PublishedTransfer]) -> str:
    """For people."""
    width = max(len(one.name) for one in found)
    return "\n".join(f"{one.name:<{width}}  {one.measurements} measurements  {one.scores}" for one in found)
