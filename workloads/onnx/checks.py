"""Whether an ONNX graph is well formed: names that are text, values that are written once and before they are read."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from baco.common.errors import InputError, Location
from baco.common.text import name_problem

__all__ = ["check_names", "check_order"]

#: Operator sets that a model declares.
_MOST_DOMAINS = 1000


def check_names(path: str, model: onnx.ModelProto) -> None:
    """Raises InputError for names that are not text that can be shown; damaged ones come out of the parser as bytes."""
    graph = model.graph
    nodes = [*graph.node, *(node for function in model.functions for node in function.node)]
    names: list[object] = [
        item.name for item in (*graph.input, *graph.output, *graph.value_info, *graph.initializer)
    ]
    names += [sparse.values.name for sparse in graph.sparse_initializer]
    names += [dim.dim_param for value in graph.input for dim in value.type.tensor_type.shape.dim]
    names += [entry.domain for entry in model.opset_import]
    for function in model.functions:
        names += [function.name, function.domain, function.overload, *function.input, *function.output]
        names += [entry.domain for entry in function.opset_import]
    for node in nodes:
        names += [node.op_type, node.domain, node.name, node.overload, *node.input, *node.output]
        names += [attribute.name for attribute in node.attribute]
    for name in names:
        if not isinstance(name, str):
            raise InputError("this ONNX model is damaged: a name is not text", location=Location(path))
        problem = name_problem(name) if name else None
        if problem:
            raise InputError(f"a name in this model {problem}", location=Location(path, node=name))
    if len(model.opset_import) > _MOST_DOMAINS:
        raise InputError(
            f"the model declares {len(model.opset_import):,} operator sets, more than the {_MOST_DOMAINS:,} allowed",
            location=Location(path),
        )
    _check_once(path, "stored tensors", [tensor.name for tensor in graph.initializer])


def _check_once(path: str, what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"two {what} are called '{name}'", location=Location(path))
        seen.add(name)


def check_order(path: str, graph: onnx.GraphProto) -> None:
    """Raises InputError, with the node, unless every value is written once, and before it is read.

    The inputs of the graph must be all that it reads from outside, stored tensors included.
    """
    known = {value.name for value in graph.input}
    later = {name for node in graph.node for name in node.output}
    for node in graph.node:
        where = Location(path, node=node.name or next(iter(node.output), "") or node.op_type)
        for name in node.input:
            if not name or name in known:
                continue
            if name in later:
                raise InputError(
                    f"reads '{name}', which is written by this node or a later one: the graph is cyclic or not sorted",
                    location=where,
                )
            raise InputError(f"reads '{name}', which nothing produces", location=where)
        if not any(node.output):
            raise InputError(f"{node.op_type} writes no output", location=where)
        for name in node.output:
            if name and name in known:
                raise InputError(f"writes '{name}', which is written already", location=where)
            known.add(name)
    for value in graph.output:
        if value.name not in known:
            raise InputError(f"its output '{value.name}' is not produced", location=Location(path))
