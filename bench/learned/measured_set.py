"""Measured programs as a residual sees them: features, what the analytical model says, what the RTL took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.bench.learned.scores import group_numbers
from baco.bench.sets.dataset import Dataset
from baco.common import portable
from baco.common.provenance import stable_hash
from baco.exploration.cost.learned.analytical import Base, instruction_base
from baco.exploration.cost.learned.features import described
from baco.exploration.cost.learned.protocol import Floats, ProgramFeatures
from baco.workloads.problem import Problem

#: Commands that the accelerator's units execute, macros unrolled, and the data set's columns of them.
_UNROLLED = {
    "loads": ("MVIN", "MVIN2", "MVIN3"),
    "stores": ("MVOUT", "MVOUT_SPAD"),
    "preloads": ("PRELOAD",),
    "computes": ("COMPUTE_PRELOADED", "COMPUTE_ACCUMULATED"),
    "configurations": ("CONFIG_EX", "CONFIG_LD", "CONFIG_ST"),
}
#: What these commands move and compute (`baco.sim.job.Simulation.activity`); the data set's columns have the same names.
_ACTIVITY = (
    "array_macs",
    "accumulator_read_words",
    "accumulator_write_words",
    "scratchpad_read_bytes",
    "scratchpad_write_bytes",
)
#: Names that the counts have among the terms of an analytical model.
PROGRAM_TERMS = (
    "host program instructions",
    "host program commands",
    *(f"program {name}" for name in _UNROLLED),
    *(f"program {name.replace('_', ' ')}" for name in _ACTIVITY),
)


@dataclass(frozen=True)
class MeasuredSet:
    """B measured programs.

    Attributes:
        features: of each.
        predicted: (B,) cycles of the analytical model.
        cycles: (B,) measured.
        tasks: (B,) number of the layer's shape, the same in all sets.
        machines: (B,) number of the accelerator, a place in `names`.
        names: of the accelerators.
        strata: what each waited for.
    """

    features: ProgramFeatures
    predicted: Floats
    cycles: Floats
    tasks: NDArray[np.int64]
    machines: NDArray[np.int64]
    names: tuple[str, ...]
    strata: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.cycles)

    @property
    def log_ratio(self) -> Floats:
        """(B,) log(measured / predicted)."""
        return portable.log(self.cycles / self.predicted)

    @property
    def groups(self) -> NDArray[np.int64]:
        """(B,) number of what competes: one layer on one accelerator."""
        return group_numbers(self.tasks.tolist(), self.machines.tolist())

    def take(self, rows: NDArray[Any]) -> MeasuredSet:
        """The rows at indices, or where a boolean array holds."""
        chosen = np.arange(len(self))[rows]
        return MeasuredSet(
            self.features.take(chosen),
            self.predicted[chosen],
            self.cycles[chosen],
            self.tasks[chosen],
            self.machines[chosen],
            self.names,
            tuple(self.strata[i] for i in chosen),
        )


def _number(problem: Problem) -> int:
    """Of a shape, anywhere the same."""
    shape = [*problem.bounds, problem.stride_h, problem.stride_w, problem.dilation_h, problem.dilation_w]
    return int(stable_hash([*shape, problem.groups])[:15], 16)


def measured_set(dataset: Dataset, base: Base = instruction_base, *, programs: bool = False) -> MeasuredSet:
    """The measured rows of a data set; with `programs`, counts of the compiled programs are among the features."""
    styles = [row.style for row in dataset.rows]
    counts = counts_of_dataset(dataset) if programs else None
    features, predicted = described(
        dataset.layers, dataset.mappings, dataset.accelerators, styles, base, counts
    )
    names = tuple(sorted({row.accelerator for row in dataset.rows}))
    return MeasuredSet(
        features,
        predicted,
        dataset.cycles,
        np.array([_number(problem) for problem in dataset.problems], dtype=np.int64),
        np.array([names.index(row.accelerator) for row in dataset.rows], dtype=np.int64),
        names,
        dataset.strata,
    )


def joined(sets: Sequence[MeasuredSet]) -> MeasuredSet:
    """Several sets as one; accelerators of different sets are taken to differ."""
    machines: list[NDArray[np.int64]] = []
    names: list[str] = []
    for dataset in sets:
        machines.append(dataset.machines + len(names))
        names += dataset.names
    return MeasuredSet(
        ProgramFeatures(sets[0].features.names, np.concatenate([dataset.features.flat for dataset in sets])),
        np.concatenate([dataset.predicted for dataset in sets]),
        np.concatenate([dataset.cycles for dataset in sets]),
        np.concatenate([dataset.tasks for dataset in sets]),
        np.concatenate(machines),
        tuple(names),
        tuple(stratum for dataset in sets for stratum in dataset.strata),
    )


def counts_of_dataset(dataset: Dataset) -> dict[str, Floats]:
    """Counts (B,) by `PROGRAM_TERMS` of measured programs, from the data set, which keeps them."""
    columns = ("host_instructions", "host_commands", *_UNROLLED, *_ACTIVITY)
    return {term: dataset.numbers(column) for term, column in zip(PROGRAM_TERMS, columns, strict=True)}
