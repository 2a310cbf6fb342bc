"""Plain JSON for everything a study keeps: problems, tasks, workloads, mappings, accelerators, candidates.

`*_to_json` gives dictionaries and lists of plain Python values (numpy scalars become Python's), `*_from_json`
the inverse: equal objects, floats bit for bit. Malformed input raises InputError.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, ParamSpec, TypeVar

from pydantic import ValidationError

from accel.config import Accelerator
from common.errors import InputError
from compiler.mapping import Mapping
from explore.candidate import BatchSummary, Candidate, Cost
from explore.layers import layer_facts
from workloads.network import LayerFacts, Network, Operator, Task, Tensor, Unsupported, Workload
from workloads.problem import Problem

Json = dict[str, Any]
_P = ParamSpec("_P")
_T = TypeVar("_T")


def _reader(what: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Make a `*_from_json` function raise InputError, and nothing else, for malformed input."""

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        @functools.wraps(function)
        def read(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            try:
                return function(*args, **kwargs)
            except KeyError as error:
                raise InputError(f"the record of {what} has no {error}") from error
            except ValidationError as error:
                first = error.errors()[0]
                at = ".".join(str(part) for part in first["loc"])
                raise InputError(f"the record of {what} is malformed: {at}: {first['msg']}") from error
            except (TypeError, ValueError, AttributeError, IndexError) as error:
                raise InputError(f"the record of {what} is malformed: {error}") from error

        return read

    return decorate


def problem_to_json(problem: Problem) -> Json:
    """Fields that differ from 1, their default."""
    values = {field.name: int(getattr(problem, field.name)) for field in fields(problem)}
    return {name: value for name, value in values.items() if value != 1}


@_reader("a problem")
def problem_from_json(data: Json) -> Problem:
    """Inverse of `problem_to_json`."""
    return Problem(**data)


def task_to_json(task: Task) -> Json:
    """A problem, its count (float) and the operators it stands for."""
    return {
        "network": task.network,
        "problem": problem_to_json(task.problem),
        "count": float(task.count),
        "operators": list(task.operators),
        "weight": float(task.weight),
    }


@_reader("a task")
def task_from_json(data: Json) -> Task:
    """Inverse of `task_to_json`."""
    return Task(
        str(data["network"]),
        problem_from_json(data["problem"]),
        float(data["count"]),
        tuple(data["operators"]),
        float(data["weight"]),
    )


def mapping_to_json(mapping: Mapping) -> Json:
    """Factors [level][dimension in the order of DIMS]; loop orders as strings, innermost first."""
    return {
        "dataflow": mapping.dataflow,
        "rows": int(mapping.rows),
        "columns": int(mapping.columns),
        "temporal": [[int(factor) for factor in level] for level in mapping.temporal],
        "order": ["".join(order) for order in mapping.order],
        "buffering": [int(copies) for copies in mapping.buffering],
    }


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not a whole number")
    return value


@_reader("a mapping")
def mapping_from_json(data: Json) -> Mapping:
    """Inverse of `mapping_to_json`."""
    order = tuple(str(part) for part in data["order"])
    buffering = tuple(_whole(copies) for copies in data["buffering"])
    if len(order) != 4 or len(buffering) != 3:
        raise ValueError("a mapping has 4 loop orders and 3 counts of copies")
    return Mapping(
        dataflow=data["dataflow"],
        rows=_whole(data["rows"]),
        columns=_whole(data["columns"]),
        temporal=tuple(tuple(_whole(factor) for factor in level) for level in data["temporal"]),
        order=(order[0], order[1], order[2], order[3]),
        buffering=(buffering[0], buffering[1], buffering[2]),
    )


def accelerator_to_json(accelerator: Accelerator) -> Json:
    """All fields of the configuration."""
    record: Json = accelerator.model_dump(mode="json")
    return record


@_reader("an accelerator")
def accelerator_from_json(data: Json) -> Accelerator:
    """Inverse of `accelerator_to_json`, validated like a user's file."""
    return Accelerator.model_validate(data)


def cost_to_json(cost: Cost) -> Json:
    """Latency in cycles, energy in pJ, area in mm2, and where the numbers come from."""
    return {
        "latency_cycles": float(cost.latency_cycles),
        "energy_pj": float(cost.energy_pj),
        "area_mm2": float(cost.area_mm2),
        "source": cost.source,
    }


@_reader("a cost")
def cost_from_json(data: Json) -> Cost:
    """Inverse of `cost_to_json`."""
    if data["source"] not in ("predicted", "measured"):
        raise ValueError(f"source {data['source']!r} is neither predicted nor measured")
    return Cost(
        float(data["latency_cycles"]), float(data["energy_pj"]), float(data["area_mm2"]), data["source"]
    )


def candidate_to_json(candidate: Candidate) -> Json:
    """The candidate without its tasks, which are the same for all candidates of a study."""
    return {
        "accelerator": accelerator_to_json(candidate.accelerator),
        "mappings": [mapping_to_json(mapping) for mapping in candidate.mappings],
        "cost": cost_to_json(candidate.cost),
        "samples": int(candidate.samples),
        "objective": float(candidate.objective),
        "front": bool(candidate.front),
    }


@_reader("a candidate")
def candidate_from_json(data: Json, tasks: tuple[Task, ...]) -> Candidate:
    """Inverse of `candidate_to_json`; needs one mapping for each of `tasks`."""
    mappings = tuple(mapping_from_json(mapping) for mapping in data["mappings"])
    if len(mappings) != len(tasks):
        raise ValueError(f"{len(mappings)} mappings for {len(tasks)} tasks")
    return Candidate(
        accelerator=accelerator_from_json(data["accelerator"]),
        tasks=tasks,
        mappings=mappings,
        cost=cost_from_json(data["cost"]),
        samples=int(data["samples"]),
        objective=float(data["objective"]),
        front=bool(data["front"]),
    )


def summary_to_json(summary: BatchSummary) -> Json:
    """One line of history."""
    best = summary.best_objective
    return {
        "batch": int(summary.batch),
        "evaluations": int(summary.evaluations),
        "seconds": float(summary.seconds),
        "best_objective": None if best is None else float(best),
        "phase": summary.phase,
        "details": {name: float(value) for name, value in summary.details.items()},
    }


@_reader("a batch")
def summary_from_json(data: Json) -> BatchSummary:
    """Inverse of `summary_to_json`."""
    best = data["best_objective"]
    return BatchSummary(
        batch=_whole(data["batch"]),
        evaluations=_whole(data["evaluations"]),
        seconds=float(data["seconds"]),
        best_objective=None if best is None else float(best),
        phase=str(data["phase"]),
        details={str(name): float(value) for name, value in data["details"].items()},
    )


def _tensor_to_json(tensor: Tensor) -> Json:
    return {"name": tensor.name, "shape": [int(size) for size in tensor.shape]}


def _tensor_from_json(data: Json) -> Tensor:
    return Tensor(str(data["name"]), tuple(_whole(size) for size in data["shape"]))


def _facts_to_json(operator: Operator) -> Json:
    """`facts` of a tensor operator that has any beyond the default; none otherwise."""
    facts = layer_facts(operator)
    if operator.problem is None or facts == LayerFacts():
        return {}
    image = None if facts.image is None else [int(size) for size in facts.image]
    return {"facts": {"image": image, "padding": [int(n) for n in facts.padding], "bias": bool(facts.bias)}}


def _facts_from_json(data: Json | None) -> LayerFacts | None:
    if data is None:
        return None
    image = None if data["image"] is None else _pair(data["image"])
    return LayerFacts(image, _pair(data["padding"]), bool(data["bias"]))


def _pair(data: Sequence[object]) -> tuple[int, int]:
    first, second = (_whole(value) for value in data)
    return first, second


def _operator_to_json(operator: Operator) -> Json:
    return {
        **_facts_to_json(operator),
        "name": operator.name,
        "kind": operator.kind,
        "inputs": list(operator.inputs),
        "output": _tensor_to_json(operator.output),
        "problem": None if operator.problem is None else problem_to_json(operator.problem),
        "weight_words": int(operator.weight_words),
        "fused": bool(operator.fused),
        "repeat": int(operator.repeat),
    }


def _operator_from_json(data: Json) -> Operator:
    return Operator(
        name=str(data["name"]),
        kind=str(data["kind"]),
        inputs=tuple(str(name) for name in data["inputs"]),
        output=_tensor_from_json(data["output"]),
        problem=None if data["problem"] is None else problem_from_json(data["problem"]),
        weight_words=_whole(data["weight_words"]),
        fused=bool(data["fused"]),
        repeat=_whole(data["repeat"]),
        facts=_facts_from_json(data.get("facts")),
    )


def workload_to_json(workload: Workload) -> Json:
    """The networks as whole graphs, so that a report needs none of the user's files again."""
    return {
        "weights": [float(weight) for weight in workload.weights],
        "networks": [
            {
                "name": network.name,
                "source": network.source,
                "options": dict(network.options),
                "inputs": [_tensor_to_json(tensor) for tensor in network.inputs],
                "operators": [_operator_to_json(operator) for operator in network.operators],
                "unsupported": [
                    {"operator": item.operator, "node": item.node, "reason": item.reason}
                    for item in network.unsupported
                ],
            }
            for network in workload.networks
        ],
    }


@_reader("a workload")
def workload_from_json(data: Json) -> Workload:
    """Inverse of `workload_to_json`."""
    networks = [
        Network(
            name=str(item["name"]),
            inputs=tuple(_tensor_from_json(tensor) for tensor in item["inputs"]),
            operators=tuple(_operator_from_json(operator) for operator in item["operators"]),
            unsupported=tuple(Unsupported(**entry) for entry in item["unsupported"]),
            source=str(item["source"]),
            options=dict(item["options"]),
        )
        for item in data["networks"]
    ]
    weights = tuple(float(weight) for weight in data["weights"])
    if len(weights) != len(networks):
        raise ValueError(f"{len(weights)} weights for {len(networks)} networks")
    return Workload(tuple(networks), weights)
