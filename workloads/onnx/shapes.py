"""Shape inference on ONNX graphs: ONNX's own rules node by node, with shape computations evaluated on the way."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnx.checker
import onnx.shape_inference

from baco.common.errors import InputError, Location
from baco.workloads.onnx.evaluate import STANDARD_DOMAINS
from baco.workloads.onnx.fold import FoldedTensor, Root, evaluate, roots_of


def known_shape(kind: onnx.TypeProto) -> tuple[int, ...] | None:
    """Shape of a tensor type when every extent is known."""
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    if any(d.WhichOneof("value") != "dim_value" or d.dim_value < 0 for d in dims):
        return None
    return tuple(d.dim_value for d in dims)


def infer_shapes(
    path: str, model: onnx.ModelProto, constants: dict[str, FoldedTensor]
) -> tuple[dict[str, tuple[int, ...]], set[str], dict[str, tuple[Root, ...]], dict[str, int]]:
    """(shapes of all values that can be known, outputs whose shape is a guess, computed values with roots, element types).

    The inputs of the graph must have fixed shapes. Shape computations
    are evaluated and replaced by constants in the graph. Where an operator is not defined by ONNX and its
    output not declared, the output is assumed to have the shape of the operator's first activation, so that
    what follows can still be explored. Raises InputError when an operator set is not declared.
    """
    graph = model.graph
    versions = {("" if e.domain in STANDARD_DOMAINS else e.domain): e.version for e in model.opset_import}
    types = {value.name: value.type for value in graph.input}
    declared = {v.name: v.type for v in graph.value_info if known_shape(v.type) is not None}
    known = {name: constant.value for name, constant in constants.items() if constant.value is not None}
    roots = {name: constant.roots for name, constant in constants.items()}
    guessed: set[str] = set()
    computed: dict[str, tuple[Root, ...]] = {}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        domain = "" if node.domain in STANDARD_DOMAINS else node.domain
        if domain not in versions:
            raise InputError(
                f"the model does not declare the operator set '{domain}' that {node.op_type} is from",
                location=Location(path, node=node.name or node.op_type),
            )
        shapes = {
            name: shape
            for name in node.input
            if name in types and (shape := known_shape(types[name])) is not None
        }
        found = _infer_node(model, node, versions[domain], types, known)
        sizes = [
            None
            if not found or name not in found or (shape := known_shape(found[name])) is None
            else math.prod(shape)
            for name in node.output
            if name
        ]
        values = evaluate(node, shapes, known, sizes, versions[domain])
        if values is None:
            nodes.append(node)
        else:
            for name, value in values.items():
                kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
                if node.op_type == "Constant":
                    roots[name] = roots_of(name, kind, value.shape)
                elif node.op_type in ("Shape", "Size"):
                    roots[name] = ()
                else:
                    roots[name] = tuple(
                        dict.fromkeys(r for source in node.input for r in roots.get(source, ()))
                    )
                nodes.append(_constant(node.name, name, value))
                known[name] = value
                computed[name] = roots[name]
            found = {
                name: onnx.helper.make_tensor_type_proto(
                    onnx.helper.np_dtype_to_tensor_dtype(v.dtype), v.shape
                )
                for name, v in values.items()
            }
        for name in node.output:
            inferred = found.get(name) if found else None
            if inferred is not None and (known_shape(inferred) is not None or name not in declared):
                types[name] = inferred
            elif name in declared:
                types[name] = declared[name]
        first = next((name for name in node.input if name and name not in roots), None)
        if (
            found is None
            and node.output
            and node.output[0]
            and node.output[0] not in types
            and first in types
        ):
            types[node.output[0]] = types[first]
            guessed.add(node.output[0])
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    result = {name: shape for name, kind in types.items() if (shape := known_shape(kind)) is not None}
    kinds = {name: kind.tensor_type.elem_type for name, kind in types.items() if kind.HasField("tensor_type")}
    return result, guessed, computed, kinds


def _constant(node: str, name: str, value: np.ndarray) -> onnx.NodeProto:
    """A value that is known, as a node."""
    tensor = onnx.numpy_helper.from_array(np.array(value, order="C"))
    return onnx.helper.make_node("Constant", [], [name], name=node, value=tensor)


def _infer_node(
    model: onnx.ModelProto,
    node: onnx.NodeProto,
    version: int,
    types: dict[str, onnx.TypeProto],
    known: dict[str, np.ndarray],
) -> dict[str, onnx.TypeProto] | None:
    """Types of a node's outputs, as far as its rule tells; None for operators that ONNX does not define."""
    domain = "" if node.domain in STANDARD_DOMAINS else node.domain
    try:
        schema = onnx.defs.get_schema(node.op_type, version, domain)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: a version beyond the range of its integers
        return None
    names = {name for name in node.input if name}
    inputs = {
        name: types.get(name, onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None))
        for name in names
    }
    data = {
        name: onnx.numpy_helper.from_array(np.array(known[name], order="C"))
        for name in names
        if name in known
    }
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, inputs, data, opset_imports=list(model.opset_import), ir_version=model.ir_version
        )
    except (
        onnx.shape_inference.InferenceError,
        onnx.checker.ValidationError,
        RuntimeError,
        ValueError,
        TypeError,
    ):
        return {}  # what depends on it is reported as of unknown shape
    return dict(found)
