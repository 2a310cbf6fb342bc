"""Pointwise operators of any number of operands, clipping by computed limits, fused activations."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from baco.workloads.onnx.expansion import Expansion, RefusedError
from baco.workloads.onnx.indexing import along


def several(e: Expansion, operator: str, mean: bool = False) -> None:
    """Max, Min, Sum and Mean of any number of operands: one after the other."""
    operands = e.inputs
    if not operands:
        raise RefusedError("it has no operands")
    if mean:
        total = operands[0]
        for x in operands[1:]:
            total = e.add("Add", total, x)
        e.finish("Mul", total, e.constant(1 / len(operands), "float32"))
    elif len(operands) == 1:
        e.finish("Identity", operands[0])
    else:
        total = operands[0]
        for x in operands[1:-1]:
            total = e.add(operator, total, x)
        e.finish(operator, total, operands[-1])


def softmax(e: Expansion, operator: str) -> None:
    """Before version 13: of all dimensions from `axis` on as one row."""
    shape = e.shape(0)
    axis = e.attribute("axis", 1) % max(1, len(shape))
    rows = 1
    for n in shape[:axis]:
        rows *= n
    flat = e.reshape(e.input(0), (rows, -1))
    e.finish("Reshape", e.add(operator, flat, axis=-1), e.constant(list(shape)))


def hardmax(e: Expansion) -> None:
    """1 at the first maximum of a row, 0 elsewhere: at a maximum with none before it."""
    shape = e.shape(0)
    old = e.version < 13
    axis = e.attribute("axis", 1 if old else -1) % max(1, len(shape))
    x, rows = e.input(0), list(shape)
    if old:  # of all dimensions from the axis on as one row
        rows = [math.prod(shape[:axis]), math.prod(shape[axis:])]
        x, axis = e.reshape(x, rows), 1
    size = rows[axis]
    top = e.add("ReduceMax", x, e.constant([axis]), keepdims=1)
    equal = e.add("Cast", e.add("Equal", x, top), to=1)
    before = along(e, equal, len(rows), axis, np.triu(np.ones((size, size), np.float32), 1))
    first = e.add("And", e.add("Cast", equal, to=9), e.add("Less", before, e.constant(0.5)))
    y = e.add("Cast", first, to=1)
    e.finish("Reshape", y, e.constant(list(shape)))


def cast_like(e: Expansion) -> None:
    """Cast to the element type of another value."""
    kind = e.facts.kinds.get(e.input(1), 0)
    if not kind:
        raise RefusedError("the element type that it casts to is not known")
    e.finish("Cast", e.input(0), to=kind)


def dropout(e: Expansion) -> None:
    """Where nothing is dropped: a copy, and a mask that is true everywhere."""
    if e.has(2) and bool(e.value(2, "training_mode").reshape(-1).any()):
        ratio = float(e.value(1, "ratio").reshape(-1)[0]) if e.has(1) else 0.5
        if ratio:
            raise RefusedError("training_mode drops elements at random, which is not supported")
    e.finish("Identity", e.input(0))
    e.finish("Equal", e.input(0), e.input(0), output=1)


def clip(e: Expansion) -> None:
    """Limits that are not constants: a minimum and a maximum of two operands."""
    x = e.input(0)
    bounds = [("Max", 1), ("Min", 2)]
    bounds = [(operator, index) for operator, index in bounds if e.has(index)]
    for operator, index in bounds[:-1]:
        x = e.add(operator, x, e.input(index))
    if bounds:
        e.finish(bounds[-1][0], x, e.input(bounds[-1][1]))
    else:
        e.finish("Identity", x)


def activated(e: Expansion, name: str, parameters: list[float]) -> tuple[str, dict[str, Any], list[str]]:
    """(operator, attributes, further inputs) of an activation that is fused into another operator or part of a recurrent one."""
    known: dict[str, list[tuple[str, float]]] = {
        "Relu": [],
        "Sigmoid": [],
        "Tanh": [],
        "Softsign": [],
        "Softplus": [],
        "Gelu": [],
        "HardSwish": [],
        "LeakyRelu": [("alpha", 0.01)],
        "ThresholdedRelu": [("alpha", 1.0)],
        "HardSigmoid": [("alpha", 0.2), ("beta", 0.5)],
        "Elu": [("alpha", 1.0)],
    }
    if name == "Clip":
        low, high = parameters if len(parameters) == 2 else (0.0, 6.0)
        return "Clip", {}, [e.constant(low, "float32"), e.constant(high, "float32")]
    if name not in known:
        raise RefusedError(f"its activation '{name}'")
    numbers = {}
    for index, (key, default) in enumerate(known[name]):
        numbers[key] = float(parameters[index]) if index < len(parameters) else default
    return name, numbers, []


maximum, minimum, total, mean = (
    partial(several, operator="Max"),
    partial(several, operator="Min"),
    partial(several, operator="Add"),
    partial(several, operator="Add", mean=True),
)
