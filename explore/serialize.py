"""Plain JSON for what a study keeps beside single dataclasses: candidates, and workloads without what studies need not.

`*_to_json` gives dictionaries and lists of plain Python values, `*_from_json` the inverse; malformed input raises
InputError. What is no more than its fields goes through `baco.exploration._json.to_json` and `from_json`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from pydantic import TypeAdapter

from baco.accel.config import Accelerator
from baco.compiler.mapping.nest import Mapping
from baco.exploration._json import Count, Json, from_json, reader, to_json
from baco.exploration.candidate import Candidate, Cost
from baco.exploration.task_layers import LoweredTask, layer_facts
from baco.workloads.network import LayerFacts, Operator, Task, Workload
from baco.workloads.problem import Problem

_T = TypeVar("_T")
#: Most multiply-accumulates a mapping may execute, padding included.
_MOST_MACS = 2**62
_TENSORS = {"steps": True}
#: What the graph of a study is without: whatever only compiling needs.
_COMPILING: Any = {
    "networks": {
        "__all__": {
            "blocks": True,
            "outputs": True,
            "output_names": True,
            "notes": True,
            "input_types": True,
            "judge": True,
            "inputs": {"__all__": _TENSORS},
            "operators": {"__all__": {"semantics": True, "output": _TENSORS}},
        }
    }
}


def problem_to_json(problem: Problem) -> Json:
    """Fields that differ from 1, their default."""
    values = {field.name: int(getattr(problem, field.name)) for field in fields(problem)}
    return {name: value for name, value in values.items() if value != 1}


def read_json(what: str, kind: type[_T], data: object) -> _T:
    """`from_json` whose errors say that the record of `what` is malformed. Raises InputError."""
    return reader(what)(from_json)(kind, data)


@reader("a task")
def task_from_json(data: Json) -> Task:
    """Inverse of `to_json`."""
    task = from_json(LoweredTask if "layer" in data else Task, data)
    if isinstance(task, LoweredTask) and task.layer.problem != task.problem:
        raise ValueError("its layer is of another problem")
    if not (task.count > 0 and task.weight > 0):
        raise ValueError("more than 0 is expected of its count and weight")
    return task


def check_tasks(tasks: Sequence[Task], workload: Workload) -> None:
    """Raises ValueError for tasks that are neither layers of the networks' programs nor the problems of their graphs."""
    named = {
        network.name: weight for network, weight in zip(workload.networks, workload.weights, strict=True)
    }
    for name in named:
        mine = tuple(task for task in tasks if task.network == name)
        lowered = all(isinstance(task, LoweredTask) and task.weight == named[name] for task in mine)
        if mine != tuple(task for task in workload.tasks if task.network == name) and not (mine and lowered):
            raise ValueError("its tasks are not those of its networks")
    if any(task.network not in named for task in tasks):
        raise ValueError("its tasks are not those of its networks")


@dataclass(frozen=True)
class _Record:
    """A candidate without its tasks, which are the same for all candidates of a study."""

    accelerator: Accelerator
    mappings: tuple[Mapping, ...]
    cost: Cost
    samples: Count
    objective: float
    front: bool


def candidate_to_json(candidate: Candidate) -> Json:
    """The candidate without its tasks."""
    record: Json = to_json(_Record(**{one.name: getattr(candidate, one.name) for one in fields(_Record)}))
    return record


@reader("a candidate")
def candidate_from_json(data: Json, tasks: tuple[Task, ...]) -> Candidate:
    """Inverse of `candidate_to_json`; needs a mapping for each of `tasks` that covers it."""
    record = from_json(_Record, data)
    if len(record.mappings) != len(tasks):
        raise ValueError(f"{len(record.mappings)} mappings for {len(tasks)} tasks")
    for mapping, task in zip(record.mappings, tasks, strict=True):
        mapping.check(task.problem)
        if math.prod(mapping.padded_bounds) * task.problem.groups > _MOST_MACS:
            raise ValueError(f"factors far beyond the bounds of {task.name}")
    return Candidate(tasks=tasks, **vars(record))


def workload_to_json(workload: Workload) -> Json:
    """The networks as whole graphs, so that a report needs none of the user's files again."""
    networks = tuple(
        replace(one, operators=tuple(replace(op, facts=_facts(op)) for op in one.operators))
        for one in workload.networks
    )
    record: Json = TypeAdapter(Workload).dump_python(
        Workload(networks, workload.weights), mode="json", exclude=_COMPILING, exclude_none=True
    )
    return record


def _facts(operator: Operator) -> LayerFacts | None:
    """Those of a tensor operator that has any beyond the default."""
    facts = layer_facts(operator)
    return None if operator.problem is None or facts == LayerFacts() else facts


@reader("a workload")
def workload_from_json(data: Json) -> Workload:
    """Inverse of `workload_to_json`."""
    workload = from_json(Workload, data)
    operators = [operator for network in workload.networks for operator in network.operators]
    if any(
        operator.repeat < 1 or min(operator.weight_words, *operator.output.shape, 0) < 0
        for operator in operators
    ):
        raise ValueError("sizes and repetitions must not be negative")
    if len(workload.weights) != len(workload.networks) or not all(weight > 0 for weight in workload.weights):
        raise ValueError("every network needs a weight of more than 0")
    return workload
