"""A network: a graph of tensor problems and host operators, with repetition counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from baco.common.shown import Shown
from baco.common.units import tally
from baco.workloads.problem import Problem
from baco.workloads.semantics import Semantics
from baco.workloads.tensor import Tensor

__all__ = ["Block", "Judge", "LayerFacts", "Network", "Operator", "Task", "Tensor", "Unsupported", "Workload"]


#: Runs the model that a network was read from by an evaluator that is not ours: inputs by name to the evaluator's name and
#: the model's outputs, in the order of `Network.outputs`. Raises ValueError, with the reason, where it cannot.
Judge: TypeAlias = Callable[[Mapping[str, np.ndarray]], tuple[str, list[np.ndarray]]]


@dataclass(frozen=True)
class LayerFacts:
    """What a tensor operator says beyond its problem, as it is kept with a study.

    Attributes:
        image: height and width of the stored input of a convolution; None for what its windows cover.
        padding: rows above and columns left of the image that the first window covers.
        bias: whether the operator has one of its own.
    """

    image: tuple[int, int] | None = None
    padding: tuple[int, int] = (0, 0)
    bias: bool = False


@dataclass(frozen=True)
class Operator:
    """A node. `problem` is set for tensor operators; all others run on the host core.

    Attributes:
        name: unique within the network.
        kind: e.g. `conv2d`, `linear`, `matmul`, `softmax`, `layernorm`, `relu`, `add`, `maxpool`.
        inputs: names of the tensors read (activations only, not weights).
        output: the tensor written.
        problem: loop bounds if the accelerator runs it, else None.
        weight_words: trained parameters held by the operator, biases included.
        fused: True when the accelerator does it on the way out of its accumulator (bias, ReLU, requantisation,
            max-pooling, residual addition), so that it costs the host nothing.
        repeat: how many times the node is executed (e.g. 12 identical transformer blocks are kept as
            one block repeated 12 times).
        semantics: what it computes, None where that is not recorded; neither compared nor stored with a study.
        facts: the part of the semantics that is stored (`baco.exploration.task_layers.layer_facts`); None unless read from a study.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    output: Tensor
    problem: Problem | None = None
    weight_words: int = 0
    fused: bool = False
    repeat: int = 1
    semantics: Semantics | None = field(default=None, compare=False, repr=False)
    facts: LayerFacts | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Block:
    """Operators that run several times, each time on the result of the last.

    Attributes:
        start, stop: their positions among the network's operators.
        count: how often they run.
        input: what the first run reads.
        output: what the next run reads in its place.
        inputs: names of the network's inputs that every run has its own of (keys and values of earlier tokens).
    """

    start: int
    stop: int
    count: int
    input: Tensor
    output: Tensor
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """A unique problem of a network and how often it runs (the w_i of the EDP formula).

    `operators` names the nodes it stands for. In a mix, `count` includes the `weight` of the network, so that
    `count / weight` is the number of runs in one run of the network.
    """

    network: str
    problem: Problem
    count: float
    operators: tuple[str, ...] = ()
    weight: float = 1.0

    @property
    def name(self) -> str:
        """Short label for tables."""
        first = self.operators[0] if self.operators else str(self.problem)
        return f"{first} (+{len(self.operators) - 1})" if len(self.operators) > 1 else first


@dataclass(frozen=True)
class Unsupported:
    """An operator of an imported model that has no cost here; the rest is still explored.

    Attributes:
        follows: it is only listed because an earlier one is, whose result it reads.
    """

    operator: str
    node: str
    reason: str = ""
    follows: bool = False

    def __str__(self) -> str:
        return f"{self.operator} ({self.node})" + (f": {self.reason}" if self.reason else "")


def first_cause(unsupported: Sequence[Unsupported]) -> str:
    """The first operator that follows from no other one, and how many more there are; empty without any."""
    if not unsupported:
        return ""
    first = next((item for item in unsupported if not item.follows), unsupported[0])
    follow = sum(item.follows for item in unsupported)
    others = len(unsupported) - follow - (not first.follows)
    counts = [f"{others} more of their own"] * (others > 0) + [f"{follow} that read their results"] * (
        follow > 0
    )
    return f"{first}" + (f" (and {', '.join(counts)})" if counts else "")


class UnsupportedNodeError(Exception):
    """A node of an imported model without a cost here; the text says why. Importers make it an `Unsupported`."""


@dataclass(frozen=True, repr=False)
class Network(Shown):
    """A graph in topological order.

    Attributes:
        name: what reports call it.
        inputs: tensors fed from outside.
        operators: the nodes; the edges are the tensor names.
        unsupported: operators that an importer could not cost.
        source: the file or the built-in definition it came from.
        blocks: the repeated parts, inner ones before those around them (`baco.workloads.expand` unrolls them).
        outputs: tensors for the outside; empty if not known, then those that nothing reads. One inside of a block
            stands for that of every run.
        spec: what `baco.workloads.inputs.load.load_network` was given; empty for networks from elsewhere.
        judge: what its maker's model computes; None where there is no other evaluator of it.
        output_names: what the user's model calls its `outputs`, in the same order; empty where it calls them nothing else than
            their tensors.
        notes: what an importer took for granted, one sentence each.
        input_types: of inputs that the user's model takes as whole numbers or truth values, by name: as numpy calls them.
        output_types: of outputs whose type the user's model declares, by the user's name.
    """

    name: str
    inputs: tuple[Tensor, ...] = ()
    operators: tuple[Operator, ...] = ()
    unsupported: tuple[Unsupported, ...] = ()
    source: str = "built-in"
    options: dict[str, int | str] = field(default_factory=dict, hash=False)
    blocks: tuple[Block, ...] = field(default=(), compare=False, repr=False)
    outputs: tuple[Tensor, ...] = field(default=(), compare=False, repr=False)
    spec: str = field(default="", compare=False, repr=False)
    judge: Judge | None = field(default=None, compare=False, repr=False)
    output_names: tuple[str, ...] = field(default=(), compare=False, repr=False)
    notes: tuple[str, ...] = field(default=(), compare=False, repr=False)
    input_types: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    output_types: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def _headline(self) -> str:
        missing = f", {len(self.unsupported)} operators not costed" if self.unsupported else ""
        return (
            f"{self.name}: {len(self.operators):,} operators, {len(self.tasks):,} different layers, {tally(self.macs, 'MACs')},"
            f" {tally(self.weight_words, '').strip()} weights{missing}"
        )

    def _facts(self) -> Iterator[tuple[str, object]]:
        yield "source", self.source
        yield "inputs", ", ".join(map(_shape_text, self.inputs)) or None
        yield "outputs", ", ".join(_shape_text(tensor, name) for name, tensor in self.named_outputs) or None
        yield "on the array", sum(operator.problem is not None for operator in self.operators)
        yield "riding on these", sum(operator.fused for operator in self.operators)
        yield "beside these", len(self.host_operators)
        yield "notes", "; ".join(self.notes) or None
        yield "not costed", "; ".join(map(str, self.unsupported[:5])) or None

    def _rows(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        rows = [
            (
                f"{one.count:g}×",
                one.problem,
                tally(one.problem.macs * one.count, "MACs"),
                _operators_text(one.operators),
            )
            for one in self.tasks
        ]
        return ("runs", "layer", "work", "operators"), rows

    @property
    def named_outputs(self) -> list[tuple[str, Tensor]]:
        """The declared outputs with the names that the user knows."""
        names = self.output_names or tuple(tensor.name for tensor in self.outputs)
        return list(zip(names, self.outputs, strict=True))

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Unique problems with counts, in order of first appearance."""
        found: dict[Problem, list[Operator]] = {}
        for op in self.operators:
            if op.problem is not None:
                found.setdefault(op.problem, []).append(op)
        return tuple(
            Task(self.name, problem, sum(op.repeat for op in ops), tuple(op.name for op in ops))
            for problem, ops in found.items()
        )

    @property
    def host_operators(self) -> tuple[Operator, ...]:
        """Operators that neither are tensor problems nor ride on one."""
        return tuple(op for op in self.operators if op.problem is None and not op.fused)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one run."""
        return sum(op.problem.macs * op.repeat for op in self.operators if op.problem)

    @property
    def weight_words(self) -> int:
        """Trained parameters."""
        return sum(op.weight_words * op.repeat for op in self.operators)


def _shape_text(tensor: Tensor, name: str | None = None) -> str:
    return f"{name or tensor.name} {'×'.join(map(str, tensor.shape))}"


def _operators_text(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


@dataclass(frozen=True, repr=False)
class Workload(Shown):
    """What is explored: a mix of networks; a weight says how often its network runs in the mix."""

    networks: tuple[Network, ...]
    weights: tuple[float, ...]

    def _headline(self) -> str:
        return ", ".join(
            f"{one.name} × {weight:g}" for one, weight in zip(self.networks, self.weights, strict=True)
        )

    @classmethod
    def of(cls, networks: Sequence[Network], weights: Sequence[float] | None = None) -> Workload:
        """A mix with unit weights unless given."""
        return cls(tuple(networks), tuple(weights or [1.0] * len(networks)))

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks, counts multiplied by the network's weight."""
        return tuple(
            Task(task.network, task.problem, task.count * weight, task.operators, weight)
            for network, weight in zip(self.networks, self.weights, strict=True)
            for task in network.tasks
        )
