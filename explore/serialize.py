"""Plain JSON for everything a study keeps: problems, tasks, workloads, mappings, accelerators, candidates.

`*_to_json` gives dictionaries and lists of plain Python values (numpy scalars become Python's), `*_from_json`
the inverse: equal objects, floats bit for bit. Malformed input raises InputError.
"""

from __future__ import annotations

import math
from dataclasses import fields

from accel.config import Accelerator
from compiler.mapping.nest import Mapping
from explore._json import Json, flag, listed, number, reader, text, whole
from explore.candidate import BatchSummary, Candidate, Cost
from explore.layers import layer_facts
from workloads.network import LayerFacts, Network, Operator, Task, Tensor, Unsupported, Workload
from workloads.problem import Problem

#: Most multiply-accumulates a mapping may execute, padding included.
_MOST_MACS = 2**62


def problem_to_json(problem: Problem) -> Json:
    """Fields that differ from 1, their default."""
    values = {field.name: int(getattr(problem, field.name)) for field in fields(problem)}
    return {name: value for name, value in values.items() if value != 1}


@reader("a problem")
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


@reader("a task")
def task_from_json(data: Json) -> Task:
    """Inverse of `task_to_json`."""
    return Task(
        text(data["network"]),
        problem_from_json(data["problem"]),
        _positive(data["count"]),
        _texts(data["operators"]),
        _positive(data["weight"]),
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


@reader("a mapping")
def mapping_from_json(data: Json) -> Mapping:
    """Inverse of `mapping_to_json`."""
    order = _texts(data["order"])
    buffering = tuple(whole(copies) for copies in listed(data["buffering"]))
    if len(order) != 4 or len(buffering) != 3:
        raise ValueError("a mapping has 4 loop orders and 3 counts of copies")
    return Mapping(
        dataflow=text(data["dataflow"]),  # type: ignore[arg-type]  # checked by Mapping
        rows=whole(data["rows"]),
        columns=whole(data["columns"]),
        temporal=tuple(
            tuple(whole(factor) for factor in listed(level)) for level in listed(data["temporal"])
        ),
        order=(order[0], order[1], order[2], order[3]),
        buffering=(buffering[0], buffering[1], buffering[2]),
    )


def accelerator_to_json(accelerator: Accelerator) -> Json:
    """All fields of the configuration."""
    record: Json = accelerator.model_dump(mode="json")
    return record


@reader("an accelerator")
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


@reader("a cost")
def cost_from_json(data: Json) -> Cost:
    """Inverse of `cost_to_json`."""
    if data["source"] not in ("predicted", "measured"):
        raise ValueError(f"source {data['source']!r} is neither predicted nor measured")
    return Cost(
        number(data["latency_cycles"], 0),
        number(data["energy_pj"], 0),
        number(data["area_mm2"], 0),
        data["source"],
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


@reader("a candidate")
def candidate_from_json(data: Json, tasks: tuple[Task, ...]) -> Candidate:
    """Inverse of `candidate_to_json`; needs a mapping for each of `tasks` that covers it."""
    mappings = tuple(mapping_from_json(mapping) for mapping in listed(data["mappings"]))
    if len(mappings) != len(tasks):
        raise ValueError(f"{len(mappings)} mappings for {len(tasks)} tasks")
    for mapping, task in zip(mappings, tasks, strict=True):
        mapping.check(task.problem)
        if math.prod(mapping.padded_bounds) * task.problem.groups > _MOST_MACS:
            raise ValueError(f"factors far beyond the bounds of {task.name}")
    return Candidate(
        accelerator=accelerator_from_json(data["accelerator"]),
        tasks=tasks,
        mappings=mappings,
        cost=cost_from_json(data["cost"]),
        samples=whole(data["samples"], 0),
        objective=number(data["objective"]),
        front=flag(data["front"]),
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


@reader("a batch")
def summary_from_json(data: Json) -> BatchSummary:
    """Inverse of `summary_to_json`."""
    best = data["best_objective"]
    return BatchSummary(
        batch=whole(data["batch"], 0),
        evaluations=whole(data["evaluations"], 0),
        seconds=number(data["seconds"], 0),
        best_objective=None if best is None else number(best),
        phase=text(data["phase"]),
        details={text(name): number(value) for name, value in data["details"].items()},
    )


def _tensor_to_json(tensor: Tensor) -> Json:
    return {"name": tensor.name, "shape": [int(size) for size in tensor.shape]}


def _tensor_from_json(data: Json) -> Tensor:
    return Tensor(text(data["name"]), tuple(whole(size, 0) for size in listed(data["shape"])))


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
    return LayerFacts(image, _pair(data["padding"]), flag(data["bias"]))


def _pair(data: object) -> tuple[int, int]:
    first, second = (whole(value) for value in listed(data))
    return first, second


def _texts(data: object) -> tuple[str, ...]:
    return tuple(text(one) for one in listed(data))


def _positive(value: object) -> float:
    found = number(value)
    if found <= 0:
        raise ValueError(f"{found:g} where more than 0 is expected")
    return found


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
        name=text(data["name"]),
        kind=text(data["kind"]),
        inputs=_texts(data["inputs"]),
        output=_tensor_from_json(data["output"]),
        problem=None if data["problem"] is None else problem_from_json(data["problem"]),
        weight_words=whole(data["weight_words"], 0),
        fused=flag(data["fused"]),
        repeat=whole(data["repeat"], 1),
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
                "spec": network.spec,
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


@reader("a workload")
def workload_from_json(data: Json) -> Workload:
    """Inverse of `workload_to_json`."""
    networks = [
        Network(
            name=text(item["name"]),
            inputs=tuple(_tensor_from_json(tensor) for tensor in listed(item["inputs"])),
            operators=tuple(_operator_from_json(operator) for operator in listed(item["operators"])),
            unsupported=tuple(
                Unsupported(text(one["operator"]), text(one["node"]), text(one["reason"]))
                for one in listed(item["unsupported"])
            ),
            source=text(item["source"]),
            spec=text(item["spec"]),
            options={name: _option(value) for name, value in item["options"].items()},
        )
        for item in listed(data["networks"])
    ]
    weights = tuple(_positive(weight) for weight in listed(data["weights"]))
    if len(weights) != len(networks):
        raise ValueError(f"{len(weights)} weights for {len(networks)} networks")
    return Workload(tuple(networks), weights)


def _option(value: object) -> int | str:
    return value if isinstance(value, str) else whole(value)
