"""The seam between a search and what predicts its costs: one object that every searcher, scan and report asks.

Energy is access counts times the energy table in every model. What is accessed inside the accelerator is what the
reference model (`baco.exploration.cost.reference`) counts; models differ in the cycles and in the words of main memory that they
predict, and therefore in what a search must keep of an evaluated mapping.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from baco.accel.config import Accelerator
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.batch import MappingBatch
from baco.compiler.mapping.nest import Mapping
from baco.exploration.candidate import CostModelName, LayerCost
from baco.exploration.cost import layer_costs as reference_layers
from baco.exploration.cost.genome import Genomes
from baco.exploration.cost.reference import Counts, latency_terms
from baco.exploration.rest import RestOfPrograms
from baco.exploration.space import DesignSpace
from baco.workloads.problem import Problem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class CostModel(Protocol):
    """Latency and traffic of the mappings of a search's tasks.

    Attributes:
        name: one of `baco.exploration.cost.choice.COST_MODELS`.
        kept: how many numbers `keep` gives for each mapping.
        macros: whether it tells macro code from explicit code, so that macro form is worth looking for.
        exact: whether the exact finish and the proof, which know the reference model alone, hold for it.
        padded: whether factors that multiply to more than a bound are charged whole.
        packs: (tasks,) whether groups may share a pass; None if none may.
        rest: what programs do beside the tasks; None where only these count.
    """

    name: CostModelName
    kept: int
    macros: bool
    exact: bool
    padded: bool
    packs: Bools | None
    rest: RestOfPrograms | None

    def keep(self, task: Ints, genomes: Genomes, counts: Counts) -> Floats:
        """What `cycles` and `words` need to know of evaluated mappings, (kept, B); `task[i]` is the task of row i."""

    def cycles(self, kept: Floats, dim: Floats) -> Floats:
        """Latency on arrays of side `dim`; `kept` (kept, ...) without its first axis broadcasts with `dim`.
        Infinite where a mapping cannot run on the side."""

    def words(self, kept: Floats, dim: Floats) -> Floats:
        """Words that main memory moves, likewise; anything where a mapping cannot run."""

    def local(self, kept: Floats, dim: Floats) -> tuple[Floats, Floats]:
        """Words of accumulator and scratchpad accessed by whole rows, beside `Counts.a1` and `a2`, likewise."""

    def narrowed(self, sides: Ints) -> CostModel:
        """A model that need not predict other sides than these."""

    def at(self, space: DesignSpace) -> CostModel:
        """The model of a space that differs from the model's own in settings (`DesignSpace.at`)."""

    def beside(self, rest: RestOfPrograms) -> CostModel:
        """The model of programs that do something else beside the tasks."""

    def groups(self, kept: Floats) -> list[Bools]:
        """Sets of mappings (masks over the last axis of `kept`) of which a search must hold on to one each that
        needs least capacity, so that no accelerator is left without any."""

    def needs(
        self, task: Ints, genomes: Genomes, accumulator: Floats, scratchpad: Floats
    ) -> tuple[Floats, Floats]:
        """Rows of the local memories that mappings take, given what they need by `baco.exploration.cost.genome.needs`."""

    def can(self, task: Ints, dim: Ints) -> Bools:
        """Whether macros carry tasks out on arrays of the given sides."""

    def in_order(self, task: Ints, genomes: Genomes, side: Ints) -> Bools:
        """Whether mappings add up as results on arrays of the given sides want it, (B,): floating point has one order
        (`baco.compiler.layers.float_sums`). What does not, runs nowhere."""

    def relaxed(
        self, task: Tensor, mappings: MappingBatch, counts: Counts, dim: Tensor, macro: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Latency of relaxed mappings and words that main memory moves, (B,) each, differentiable; `dim` (B,) are the
        sides of their arrays, and `macro` (B,) says which are in macro form (None: none is)."""

    def layer_costs(self, mappings: Sequence[Mapping], accelerator: Accelerator) -> list[LayerCost]:
        """Cost of one run of every task under its mapping."""

    def design_costs(self, designs: Sequence[tuple[Sequence[Mapping], Accelerator]]) -> list[list[LayerCost]]:
        """`layer_costs` of each of many designs."""


class ReferenceModel:
    """The published analytical model: the busiest of four resources (`baco.exploration.cost.reference`)."""

    name: CostModelName = "reference"
    kept = 3
    macros = False
    exact = True
    padded = True
    packs: Bools | None = None
    rest: RestOfPrograms | None = None

    def __init__(self, problems: Sequence[Problem], space: DesignSpace) -> None:
        self.problems = tuple(problems)
        self.bytes_per_cycle = space.base.dram_bytes_per_cycle

    def keep(self, task: Ints, genomes: Genomes, counts: Counts) -> Floats:
        """Cycles that do not depend on the accelerator, words accessed at the scratchpad and at main memory."""
        fixed = (
            (counts.macs / (counts.rows * counts.columns))
            .maximum(counts.a1 / (2 * counts.columns))
            .maximum(counts.a3 / self.bytes_per_cycle)
        )
        return np.stack([fixed.numpy(), counts.a2.numpy(), counts.a3.numpy()])

    def cycles(self, kept: Floats, dim: Floats) -> Floats:
        """See `CostModel`."""
        return np.asarray(np.maximum(kept[0], kept[1] / (2 * dim)))

    def words(self, kept: Floats, dim: Floats) -> Floats:
        """As counted."""
        return np.asarray(kept[2])

    def local(self, kept: Floats, dim: Floats) -> tuple[Floats, Floats]:
        """None: all are counted by words."""
        none = np.zeros(np.broadcast_shapes(kept.shape[1:], np.shape(dim)))
        return none, none

    def narrowed(self, sides: Ints) -> CostModel:
        """What is kept serves all sides."""
        return self

    def at(self, space: DesignSpace) -> ReferenceModel:
        """See `CostModel`."""
        return ReferenceModel(self.problems, space)

    def beside(self, rest: RestOfPrograms) -> CostModel:
        """The model knows of tasks alone."""
        return self

    def groups(self, kept: Floats) -> list[Bools]:
        """All mappings run on every side that holds them."""
        return [np.ones(kept.shape[-1], dtype=np.bool_)]

    def needs(
        self, task: Ints, genomes: Genomes, accumulator: Floats, scratchpad: Floats
    ) -> tuple[Floats, Floats]:
        """Nothing but what they need."""
        return accumulator, scratchpad

    def can(self, task: Ints, dim: Ints) -> Bools:
        """The model knows no macros."""
        return np.zeros(len(task), dtype=np.bool_)

    def in_order(self, task: Ints, genomes: Genomes, side: Ints) -> Bools:
        """The model knows integers alone."""
        return np.ones(len(task), dtype=np.bool_)

    def relaxed(
        self, task: Tensor, mappings: MappingBatch, counts: Counts, dim: Tensor, macro: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """See `CostModel`."""
        return latency_terms(counts, dim, self.bytes_per_cycle).amax(0), counts.a3

    def layer_costs(self, mappings: Sequence[Mapping], accelerator: Accelerator) -> list[LayerCost]:
        """See `CostModel`."""
        return reference_layers.layer_costs(self.problems, mappings, accelerator)

    def design_costs(self, designs: Sequence[tuple[Sequence[Mapping], Accelerator]]) -> list[list[LayerCost]]:
        """See `CostModel`."""
        return [self.layer_costs(mappings, accelerator) for mappings, accelerator in designs]


def make_cost_model(
    name: CostModelName, layers: Sequence[Layer], space: DesignSpace, rest: RestOfPrograms | None = None
) -> CostModel:
    """The model called `name` for the layers of a search's tasks, in the tasks' order, and what programs do beside them."""
    if name == "reference":
        return ReferenceModel([layer.problem for layer in layers], space)
    from baco.exploration.cost.predicted import InstructionModel

    return InstructionModel(layers, space, rest)
