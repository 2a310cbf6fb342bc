"""Graphs within nodes: the branch of a condition that is known, loops whose count is, and functions that define operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from baco.workloads.onnx.expansion import Expansion, RefusedError

#: Attributes of a loop that is being written out: how often it ran, and what its runs gave for every scan output.
_ROUND, _SCANS = "baco.round", "baco.scans"


def branch(e: Expansion) -> None:
    """If with a condition that is known."""
    condition = bool(e.value(0, "condition").reshape(-1)[0])
    results = _inlined(e, e.attribute("then_branch" if condition else "else_branch", None), {})
    e.attribute("else_branch" if condition else "then_branch", None)
    for index, result in enumerate(results):
        e.finish("Identity", result, output=index)


def loop(e: Expansion) -> None:
    """One run of a loop and the loop from there on; its end where count or condition say so."""
    body: onnx.GraphProto = e.attribute("body", None)
    number = int(e.attribute(_ROUND, 0))
    if not e.has(0) and not e.has(1):
        raise RefusedError("a loop without an end")
    most = int(e.value(0, "trip count").reshape(-1)[0]) if e.has(0) else None
    goes_on = bool(e.value(1, "condition").reshape(-1)[0]) if e.has(1) else True
    carried = e.inputs[int(e.has(0)) + int(e.has(1)) :]
    scans = len(body.output) - 1 - len(carried)
    rows = [name.decode() if isinstance(name, bytes) else name for name in e.attribute(_SCANS, [])]
    if (most is not None and number >= most) or not goes_on:
        for index, value in enumerate(carried):
            e.finish("Identity", value, output=index)
        for index in range(scans):
            _joined(e, rows[index::scans], len(carried) + index, 0)
        return
    inputs = [e.constant(np.array(number, np.int64)), e.constant(np.array(True), "bool"), *carried]
    results = _inlined(e, body, dict(zip([v.name for v in body.input], inputs, strict=True)))
    node = onnx.helper.make_node(
        "Loop",
        [e.node.input[0] if e.node.input else "", results[0], *results[1 : 1 + len(carried)]],
        list(e.node.output),
        name=e.node.name,
        body=body,
    )
    node.attribute.append(onnx.helper.make_attribute(_ROUND, number + 1))
    if scans:
        node.attribute.append(onnx.helper.make_attribute(_SCANS, rows + results[1 + len(carried) :]))
    e.write(node, e.version)


def scan(e: Expansion) -> None:
    """All runs of a scan, whose count is an extent."""
    body: onnx.GraphProto = e.attribute("body", None)
    if e.version < 9:
        raise RefusedError("Scan of version 8")
    count = e.attribute("num_scan_inputs", 0)
    states = len(e.node.input) - count
    outputs = len(body.output) - states
    axes = e.attribute("scan_input_axes", [0] * count)
    backward = e.attribute("scan_input_directions", [0] * count)
    out_axes = e.attribute("scan_output_axes", [0] * outputs)
    out_backward = e.attribute("scan_output_directions", [0] * outputs)
    state = [e.input(i) for i in range(states)]
    shapes = [e.shape(states + i) for i in range(count)]
    steps = shapes[0][axes[0]]
    rows: list[list[str]] = []
    for number in range(steps):
        parts = []
        for i in range(count):
            axis = axes[i] % len(shapes[i])
            at = steps - 1 - number if backward[i] else number
            part = e.slice(e.input(states + i), axis, at, at + 1)
            parts.append(e.reshape(part, [n for a, n in enumerate(shapes[i]) if a != axis]))
        results = _inlined(e, body, dict(zip([v.name for v in body.input], [*state, *parts], strict=True)))
        state = results[:states]
        rows.append(results[states:])
    for index, value in enumerate(state):
        e.finish("Identity", value, output=index)
    for index in range(outputs):
        own = [row[index] for row in rows]
        _joined(e, own[::-1] if out_backward[index] else own, states + index, out_axes[index])


def _joined(e: Expansion, rows: Sequence[str], output: int, axis: int) -> None:
    """Results of all runs along a new dimension."""
    if not e.wants(output):
        return
    if not rows:
        raise RefusedError("a loop that never runs, whose results are read")
    parts = [e.add("Unsqueeze", row, e.constant([axis])) for row in rows]
    e.finish("Concat", *parts, output=output, axis=axis)


def _inlined(e: Expansion, graph: onnx.GraphProto | None, names: dict[str, str]) -> list[str]:
    """The nodes of a graph under names of their own; the names of its outputs."""
    if graph is None:
        raise RefusedError("its graph is missing")
    if graph.sparse_initializer:
        raise RefusedError("sparse tensors within its graph")
    names = dict(names)
    for tensor in graph.initializer:
        names[tensor.name] = e.stored(tensor)
    _write_all(e, graph.node, names, e.version, {})
    return [names.get(value.name, value.name) for value in graph.output]


def _write_all(
    e: Expansion,
    nodes: Sequence[onnx.NodeProto],
    names: dict[str, str],
    version: int,
    attributes: Mapping[str, onnx.AttributeProto | None],
) -> None:
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        del copy.attribute[:]
        for attribute in node.attribute:
            given: onnx.AttributeProto | None = attribute
            if attribute.ref_attr_name:
                given = attributes.get(attribute.ref_attr_name)
            if given is not None:
                copy.attribute.append(given)
                copy.attribute[-1].name = attribute.name
        for index, name in enumerate(node.input):
            copy.input[index] = names.get(name, name)
        for attribute in copy.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                _rename(graph, names)
        for index, name in enumerate(node.output):
            if name:
                if name not in names:
                    names[name] = e.fresh(name)
                copy.output[index] = names[name]
        copy.name = ""
        e.write(copy, version)


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """What a graph reads from around it, by its new names."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    outer = {old: new for old, new in names.items() if old not in own}
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = outer.get(name, name)
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                _rename(inner, outer)
    for value in graph.output:
        value.name = outer.get(value.name, value.name)


def function_body(e: Expansion, schema: Any, types: Sequence[onnx.TypeProto | None]) -> bool:
    """Write the function by which ONNX defines an operator; False where it defines none for this version and these types."""
    body = defined_body(e.node, e.version, schema, types)
    if body is None:
        return False
    names: dict[str, str] = {}
    used = set(_names_read(body.node))
    for index, name in enumerate(body.input):
        names[name] = str(e.node.input[index]) if e.has(index) else ""
        if e.has(index) and name in used:
            e.input(index)
    for index, name in enumerate(body.output):
        if e.wants(index):
            names[name] = e.node.output[index]
    e.read_attributes |= _attributes_read(e, schema, types, body)
    attributes: dict[str, onnx.AttributeProto | None] = {}
    for name, known in schema.attributes.items():
        if known.default_value.type != onnx.AttributeProto.UNDEFINED:
            attributes[name] = known.default_value
    attributes |= {attribute.name: attribute for attribute in e.node.attribute}
    version = next((i.version for i in body.opset_import if i.domain in ("", "ai.onnx")), e.facts.version)
    _write_all(e, body.node, names, version, attributes)
    written = {name for node, _ in e.nodes for name in node.output}
    return all(name in written for name in e.node.output if name)


def _names_read(nodes: Sequence[onnx.NodeProto]) -> Iterator[str]:
    """Of values, by nodes and the graphs within them."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _names_read(graph.node)
                yield from (value.name for value in graph.output)


def _references(nodes: Sequence[onnx.NodeProto]) -> Iterator[str]:
    """Names of the function's attributes that its nodes take over."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                yield attribute.ref_attr_name
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _references(graph.node)


def _attributes_read(
    e: Expansion, schema: Any, types: Sequence[onnx.TypeProto | None], body: onnx.FunctionProto
) -> set[str]:
    """Attributes of the node on which its function depends: those that its nodes refer to, or without which it is another."""
    read = set(_references(body.node))
    for attribute in e.node.attribute:
        if attribute.name in read or not schema.has_context_dependent_function:
            continue
        without = onnx.NodeProto()
        without.CopyFrom(e.node)
        del without.attribute[:]
        without.attribute.extend(a for a in e.node.attribute if a.name != attribute.name)
        other = defined_body(without, e.version, schema, types)
        if other is None or other != body:
            read.add(attribute.name)
    return read


def defined_body(
    node: onnx.NodeProto, version: int, schema: Any, types: Sequence[onnx.TypeProto | None]
) -> onnx.FunctionProto | None:
    """The function by which ONNX defines a node; None where it defines none for this version and these types."""

    def newest(versions: Sequence[int]) -> int | None:
        return max((v for v in versions if v <= version), default=min(versions, default=None))  # type: ignore[type-var]

    data: Any = None
    try:
        if schema.has_function:
            given = newest(schema.function_opset_versions)
            data = None if given is None else schema.get_function_with_opset_version(given)
        elif schema.has_context_dependent_function:
            given = newest(schema.context_dependent_function_opset_versions)
            known = [(onnx.TypeProto() if t is None else t).SerializeToString() for t in types]
            data = (
                None
                if given is None
                else schema.get_context_dependent_function_with_opset_version(
                    given, node.SerializeToString(), known
                )
            )
    except (RuntimeError, ValueError, TypeError):
        return None
    if data is None or data == b"":
        return None
    body: onnx.FunctionProto = onnx.FunctionProto.FromString(data) if isinstance(data, bytes) else data
    return body
