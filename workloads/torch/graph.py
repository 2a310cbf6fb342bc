"""PyTorch models as networks, through `torch.export`. What each operator becomes is in `baco.workloads.torch.operators`."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, GraphModule, Node

from baco.common.errors import InputError, Location
from baco.workloads.network import Network, Tensor, UnsupportedNodeError
from baco.workloads.torch.judge import TorchJudge
from baco.workloads.torch.load import export, export_module, quiet
from baco.workloads.torch.node import FixedTensor, Root, TorchNode, TorchOperator, node_shapes
from baco.workloads.torch.operators import OPERATORS, POINTWISE, elementwise, reduction, shape_only, view
from baco.workloads.torch.quantised import keep_whole_numbers


def load_torch(path: str, function: str | None = None) -> Network:
    """The network of the model that `function` in the Python file `path` returns with example inputs.

    The function returns (torch.nn.Module, example_inputs), or what `torch.export.export` made of them; the inputs are a tensor, a tuple of positional or
    a dict of keyword arguments, and their shapes are those of the network. Weights may be random or on the
    meta device. Operators that cannot be costed are listed in `Network.unsupported`.

    Raises:
        InputError: the file or function fails (with its line), the model cannot be exported, or it holds
            no tensor problem.
    """
    return _network(export(path, function), path, str(function))


def network_of_module(model: torch.nn.Module, inputs: object, name: str | None = None) -> Network:
    """The network of a model with its example inputs, as `load_torch` makes it.

    Args:
        inputs: a tensor, a tuple of positional or a dict of keyword arguments; their shapes are those of the network.
        name: of the network; by default that of the model's class.

    Raises InputError where the model cannot be exported or holds no tensor problem.
    """
    what = type(model).__name__
    return _network(export_module(model, inputs), what, name or what)


def _network(program: ExportedProgram, source: str, name: str) -> Network:
    exported = program
    with quiet():
        program = _decompose_unknown(program)
    imp = TorchNode(source, name)
    names = []
    types: dict[str, str] = {}
    for spec, node in zip(program.graph_signature.input_specs, _placeholders(program.graph), strict=True):
        shapes = node_shapes(node)
        if spec.kind is InputKind.USER_INPUT and shapes:
            names.append(node.name)
        if spec.kind is InputKind.USER_INPUT and shapes and 0 not in shapes[0]:
            names[-1] = imp.builder.unique(node.name)
            imp.values[node] = imp.builder.input(names[-1], shapes[0])
            dtype = node.meta["val"].dtype
            if not (dtype.is_floating_point or dtype.is_complex):
                types[names[-1]] = str(dtype).removeprefix("torch.")
                imp.given.add(node)
        elif spec.kind is not InputKind.USER_INPUT or not shapes:
            trained = spec.kind is InputKind.PARAMETER
            stored = _tensor_of(program, spec.target)
            imp.constants[node] = _stored(spec.target or node.name, shapes, trained, stored)
    _walk(imp, program.graph)
    outputs = _outputs(imp, program)
    network = imp.builder.build(
        imp.unsupported, [tensor for _, _, tensor in outputs], [called for _, called, _ in outputs]
    )
    judge = TorchJudge(exported, names, [index for index, _, _ in outputs])
    network = replace(network, judge=judge, input_types=types)
    if not network.tasks:
        listed = ", ".join(str(u) for u in network.unsupported[:5])
        raise InputError(
            f"the model of '{name}' holds no operator that the accelerator runs",
            location=Location(source),
            hint=f"unsupported: {listed}" if listed else "convolutions and matrix products are needed",
        )
    return network


def _tensor_of(program: ExportedProgram, name: str | None) -> torch.Tensor | None:
    """A parameter or buffer of the program."""
    stored = program.state_dict.get(name) if name else None
    if stored is None and name:
        stored = program.constants.get(name)
    return stored if isinstance(stored, torch.Tensor) else None


def _outputs(imp: TorchNode, program: ExportedProgram) -> list[tuple[int, str, Tensor]]:
    """What the user's model returns: position, the name that it returns it under, and the tensor, which is there to be
    refused where it does not depend on the inputs."""
    nodes = {node.name: node for node in program.graph.nodes}
    returned = [str(name) for name in program.graph_signature.user_outputs]
    found: dict[str, tuple[int, str, Tensor]] = {}
    for index, (called, name) in enumerate(zip(_returned_names(program, returned), returned, strict=True)):
        node = nodes.get(name)
        if node is not None and node_shapes(node):
            found.setdefault(called, (index, called, imp.output(node)))
    return list(found.values())


def _returned_names(program: ExportedProgram, returned: list[str]) -> list[str]:
    """Keys of what a model returns as a dict or a dataclass, `logits`, `cache.0`; else the exported program's own names."""
    out_spec = program.call_spec.out_spec
    if out_spec is None or out_spec.num_leaves != len(returned):
        return returned
    paths, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(returned, out_spec))
    named = [".".join(str(_key(step)) for step in path) for path, _ in paths]
    plain = all(isinstance(step, pytree.SequenceKey) for path, _ in paths for step in path)
    return returned if plain else named


def _key(step: Any) -> object:
    """Of a dict, a place in a sequence, or a field."""
    return next(
        getattr(step, name) for name in ("key", "idx", "name") if getattr(step, name, None) is not None
    )


def _placeholders(graph: Graph) -> Iterator[Node]:
    return (node for node in graph.nodes if node.op == "placeholder")


def _stored(
    name: str, shapes: list[tuple[int, ...]], trained: bool, value: torch.Tensor | None = None
) -> FixedTensor:
    shape = shapes[0] if shapes else ()
    load = None if value is None or value.is_meta else lambda: value
    return FixedTensor(shape, (Root(name, math.prod(shape), trained),), load, name)


def _base_name(target: object) -> str:
    """`relu` of aten.relu_.default."""
    if not isinstance(target, torch._ops.OpOverload):
        return getattr(target, "__name__", str(target))
    name = target._schema.name.split("::")[-1]
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def _imported(target: object) -> TorchOperator | None:
    """From the table, else by what PyTorch says about the operator: a view, pointwise, a reduction."""
    if not isinstance(target, torch._ops.OpOverload):
        return None
    if target.namespace not in ("aten", "prims", "quantized_decomposed"):
        return None
    known = OPERATORS.get(_base_name(target))
    if known is not None:
        return known
    returned = [value.alias_info for value in target._schema.returns]
    if returned and returned[0] is not None and not returned[0].is_write:
        return TorchOperator(view)
    if torch.Tag.pointwise in target.tags:
        return TorchOperator(elementwise, POINTWISE.get(_base_name(target)))
    # Older versions of PyTorch have no tag for reductions.
    tag = getattr(torch.Tag, "reduction", None)
    return TorchOperator(reduction) if tag is not None and tag in target.tags else None


def _decompose_unknown(program: ExportedProgram) -> ExportedProgram:
    """Break operators without a handler (recurrent layers, fused ones) into those that PyTorch defines them by."""
    unknown = {
        node.target
        for node in program.graph.nodes
        if node.op == "call_function"
        and node_shapes(node)
        and isinstance(node.target, torch._ops.OpOverload)
        and not _imported(node.target)
    }
    if not unknown:
        return program
    # What cannot be broken down is listed as unsupported, so a failure here (also of versions of PyTorch
    # without this table) loses nothing else.
    with suppress(Exception):
        rules: dict[Any, Any] = dict(torch.export.default_decompositions())  # type: ignore[no-untyped-call]
        table = {op: rule for op, rule in rules.items() if op in unknown}
        if table:
            program = program.run_decompositions(table)
    return program


def _walk(imp: TorchNode, graph: Graph) -> None:
    for node in graph.nodes:
        if node.op == "get_attr":
            shapes = node_shapes(node)
            module = node.graph.owning_module
            value = None if module is None else getattr(module, str(node.target), None)
            stored = value if isinstance(value, torch.Tensor) else None
            imp.constants.setdefault(node, _stored(str(node.target), shapes, False, stored))
        elif node.op == "call_function":
            _call(imp, node)


def _call(imp: TorchNode, node: Node) -> None:
    imp.enter(node)
    if node.target is operator.getitem:
        _getitem(imp, node)
        return
    inner = _subgraph(node)
    if inner is not None:
        _inline(imp, node, inner)
        return
    known = _imported(node.target)
    if known is not None and known.handler is shape_only and node_shapes(node):
        imp.constants[node] = FixedTensor(node_shapes(node)[0], (), imp.evaluation_of_shape(node))
        return
    if imp.fold():
        keep_whole_numbers(imp)
        return
    if not node.users and not node_shapes(node):
        return
    try:
        if any(source not in imp.values and source not in imp.constants for source in node.all_input_nodes):
            raise UnsupportedNodeError("the shape of one of its inputs is not known")
        if known is None:
            raise UnsupportedNodeError("")
        imp.rule = known.rule
        known.handler(imp)
        imp.settle(_base_name(node.target))
    except UnsupportedNodeError as error:
        imp.reject(_operator(node), str(error))
        return
    target = node.target
    if isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable and node.args:
        # In place: whoever reads the argument later reads the result.
        first = node.args[0]
        if isinstance(first, Node) and node in imp.values:
            imp.constants.pop(first, None)
            imp.values[first] = imp.values[node]


def _operator(node: Node) -> str:
    return str(node.target) if isinstance(node.target, torch._ops.OpOverload) else _base_name(node.target)


def _getitem(imp: TorchNode, node: Node) -> None:
    source = node.args[0]
    shapes = node_shapes(node)
    index = node.args[1]
    if isinstance(source, Node) and source in imp.values and shapes:
        whole = imp.values[source]
        if source in imp.parts and isinstance(index, int):
            imp.values[node] = imp.parts[source][index]
        elif index == 0 and whole.shape == shapes[0]:
            imp.values[node] = whole
        else:
            imp.values[node] = imp.builder.view(whole, shapes[0])
    elif isinstance(source, Node) and source in imp.constants:
        load = imp.constants[source].load
        imp.constants[node] = FixedTensor(
            shapes[0] if shapes else (),
            imp.constants[source].roots,
            None if load is None else lambda: _item(load(), index),
        )


def _item(values: Any, index: Any) -> Any:
    return None if values is None else values[index]


def _subgraph(node: Node) -> GraphModule | None:
    """The body of `torch.no_grad` and autocast regions, which export keeps as a graph of their own."""
    if "wrap_with" not in _base_name(node.target):
        return None
    module = node.graph.owning_module
    for argument in node.args:
        if isinstance(argument, Node) and argument.op == "get_attr" and module is not None:
            body = getattr(module, str(argument.target), None)
            if isinstance(body, GraphModule):
                return body
    return None


def _inline(imp: TorchNode, node: Node, body: GraphModule) -> None:
    at = next(
        i
        for i, a in enumerate(node.args)
        if isinstance(a, Node)
        and a.op == "get_attr"
        and getattr(node.graph.owning_module, str(a.target), None) is body
    )
    for outer, inner in zip(node.args[at + 1 :], _placeholders(body.graph), strict=False):
        if isinstance(outer, Node) and outer in imp.values:
            imp.values[inner] = imp.values[outer]
        elif isinstance(outer, Node) and outer in imp.constants:
            imp.constants[inner] = imp.constants[outer]
    _walk(imp, body.graph)
    results = next(n for n in body.graph.nodes if n.op == "output").args[0]
    results = results if isinstance(results, (tuple, list)) else (results,)
    for user in node.users:
        if user.target is operator.getitem and isinstance(user.args[1], int):
            result = results[user.args[1]]
            if isinstance(result, Node) and result in imp.values:
                imp.values[user] = imp.values[result]
            elif isinstance(result, Node) and result in imp.constants:
                imp.constants[user] = imp.constants[result]
