"""Whether an ONNX graph is well formed: names that are text, values that are written once and before they are read."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import onnx

from baco.common.errors import InputError, Location
from baco.common.text import name_problem

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


def sort_nodes(path: str, graph: onnx.GraphProto) -> None:
    """Put the nodes of a graph in an order in which every value is written before it is read; that of the file if it is one.

    Raises InputError, with the node, unless every value that is read is written, once. The inputs of the graph must be all that
    it reads from outside, stored tensors included.
    """
    known = {value.name for value in graph.input}
    writers: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        where = _node_location(path, node)
        if not any(node.output):
            raise InputError(f"{node.op_type} writes no output", location=where)
        for name in filter(None, node.output):
            if name in known or name in writers:
                raise InputError(f"writes '{name}', which is written already", location=where)
            writers[name] = index
    waiting: list[int] = []
    readers: dict[int, list[int]] = {}
    for index, node in enumerate(graph.node):
        own = {name for name in node.input if name}
        for name in own - known - writers.keys():
            raise InputError(f"reads '{name}', which nothing produces", location=_node_location(path, node))
        sources = {writers[name] for name in own | _captured(node) if name in writers}
        waiting.append(len(sources))
        for source in sources:
            readers.setdefault(source, []).append(index)
    ready = [index for index, count in enumerate(waiting) if not count]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for reader in readers.get(index, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    if len(order) < len(graph.node):
        stuck = next(node for index, node in enumerate(graph.node) if waiting[index])
        raise InputError(
            "its inputs depend on its own result: the graph is cyclic", location=_node_location(path, stuck)
        )
    for value in graph.output:
        if value.name not in known and value.name not in writers:
            raise InputError(f"its output '{value.name}' is not produced", location=Location(path))
    if order != sorted(order):
        copies = [onnx.NodeProto.FromString(graph.node[index].SerializeToString()) for index in order]
        del graph.node[:]
        graph.node.extend(copies)


def _node_location(path: str, node: onnx.NodeProto) -> Location:
    return Location(path, node=node.name or next(iter(node.output), "") or node.op_type)


def _captured(node: onnx.NodeProto) -> set[str]:
    """What the graphs within a node read; names of their own among it."""
    names: set[str] = set()
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            names |= {value.name for value in graph.output}
            for inner in graph.node:
                names |= {*inner.input, *_captured(inner)}
    return names
