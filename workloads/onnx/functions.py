"""Functions that an ONNX model defines itself: counted first, then written out in place of their calls.

A function may call others, so that a few kilobytes can stand for any number of nodes. What they become is counted
function by function, each one once, before anything is written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import onnx
import onnx.inliner

from baco.common.errors import InputError, Location

#: Nodes of a graph with those of its branches and loop bodies, functions written out.
MOST_NODES = 1 << 16
#: What functions may add to a model, bytes, and how deep their calls may nest (the inliner goes no deeper).
_MOST_BYTES, _MOST_NESTED = 1 << 28, 90

#: Domain, name and overload of a function.
_Key = tuple[str, str, str]


@dataclass(frozen=True)
class _Size:
    """Nodes and their bytes, and how deep calls nest to get there."""

    nodes: int = 0
    nbytes: int = 0
    depth: int = 0


def check_size(path: str, model: onnx.ModelProto) -> None:
    """Raises InputError for a model that is too large with its functions written out, and for recursive functions."""
    sizes = _function_sizes(path, model.functions)
    total = _size_of(model.graph.node, sizes)
    if total.nodes > MOST_NODES:
        raise InputError(
            f"the model has {_number(total.nodes)} nodes, functions written out, more than the {MOST_NODES:,} that are"
            " read",
            location=Location(path),
        )
    if total.nbytes - model.graph.ByteSize() > _MOST_BYTES:
        raise InputError(
            f"the model's functions take {_number(total.nbytes)} bytes written out, more than the {_MOST_BYTES:,} allowed",
            location=Location(path),
        )


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its functions in place of their calls; its size must have been checked."""
    return onnx.inliner.inline_local_functions(model) if model.functions else model


def _number(count: int) -> str:
    return f"{count:,}" if count < 10**15 else f"{count:.1e}"


def _key(domain: str, name: str, overload: str) -> _Key:
    return ("" if domain == "ai.onnx" else domain, name, overload)


def _callee(node: onnx.NodeProto) -> _Key:
    return _key(node.domain, node.op_type, node.overload)


def _function_sizes(path: str, functions: Iterable[onnx.FunctionProto]) -> dict[_Key, _Size]:
    """What a call of each function becomes. Raises InputError for functions that call themselves or nest too deeply."""
    bodies: dict[_Key, onnx.FunctionProto] = {}
    for function in functions:
        key = _key(function.domain, function.name, function.overload)
        if key in bodies:
            raise InputError("two functions of this name", location=Location(path, node=function.name))
        bodies[key] = function
    sizes: dict[_Key, _Size] = {}
    for first in bodies:
        # functions that call each other, the one called last on top
        stack = [(first, _callees(bodies[first], bodies))] if first not in sizes else []
        open_ = {first}
        while stack:
            key, rest = stack[-1]
            called = next((one for one in rest if one not in sizes), None)
            if called is None:
                sizes[key] = _size_of(bodies[key].node, sizes)
                if sizes[key].depth > _MOST_NESTED:
                    raise InputError(
                        f"functions call each other more than {_MOST_NESTED} deep",
                        location=Location(path, node=bodies[key].name),
                    )
                open_.discard(key)
                stack.pop()
                continue
            if called in open_:
                raise InputError(
                    f"the function '{called[1]}' calls itself", location=Location(path, node=bodies[key].name)
                )
            open_.add(called)
            stack.append((called, _callees(bodies[called], bodies)))
    return sizes


def _callees(function: onnx.FunctionProto, bodies: dict[_Key, onnx.FunctionProto]) -> Iterator[_Key]:
    return (key for node in _walk(function.node) if (key := _callee(node)) in bodies)


def _walk(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes and those of their branches and bodies; the parser lets these nest only so deep."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _walk(graph.node)


def _size_of(nodes: Iterable[onnx.NodeProto], sizes: dict[_Key, _Size]) -> _Size:
    count = nbytes = depth = 0
    for node in _walk(nodes):
        own = sizes.get(_callee(node)) or _Size(1, node.ByteSize())
        count, nbytes, depth = count + own.nodes, nbytes + own.nbytes, max(depth, own.depth)
    return _Size(count, nbytes, depth + 1)
