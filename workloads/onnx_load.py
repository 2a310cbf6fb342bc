"""Reading ONNX files: parsing, dropping weights, fixing symbolic dimensions, shape inference.

Nothing here needs the weights' values, so external data may be missing; small constants (which hold
shapes, axes and scales) are kept because shape inference reads them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx.inliner
import onnx.shape_inference
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from common.errors import InputError, Location, did_you_mean
from common.files import read_input
from workloads.options import split_options, whole_number

#: protobuf cannot hold more.
MAX_BYTES = 2**31 - 1
#: Constants of at most so many elements stay in the model that shapes are inferred on.
SMALL = 1024
#: Passes of shape inference, each of which gets past one more layer of unknown operators.
PASSES = 32

_BATCH_NAME = re.compile(r"(n|b|bs|none|\?|-1|.*batch.*|unk__\d+|dynamic_axes_\d+)?", re.IGNORECASE)
_STANDARD_DOMAINS = ("", "ai.onnx")


@dataclass
class Constant:
    """A value known before the network runs.

    Attributes:
        shape: None when not known.
        roots: (name, elements) of the stored tensors it was made from, for counting weights once.
        value: elements, kept for small tensors only.
    """

    shape: tuple[int, ...] | None
    roots: tuple[tuple[str, int], ...] = ()
    value: np.ndarray | None = None


@dataclass
class LoadedModel:
    """An ONNX graph with shapes.

    Attributes:
        shapes: of every value whose shape is known.
        constants: initializers.
        guessed: outputs of operators without a definition, assumed to have their input's shape.
    """

    path: str
    graph: onnx.GraphProto
    inputs: list[tuple[str, tuple[int, ...]]]
    shapes: dict[str, tuple[int, ...]]
    constants: dict[str, Constant]
    options: dict[str, int | str]
    guessed: set[str] = field(default_factory=set)


def load_model(path: str, rest: str | None) -> LoadedModel:
    """Read a model. `rest` holds the options `batch=N` and `dim.NAME=N`. Raises InputError."""
    model = _parse(path)
    try:
        constants = _strip_weights(path, model.graph)
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        options = _fix_dimensions(path, model.graph, constants, rest)
        inputs = [
            (value.name, shape)
            for value in model.graph.input
            if value.name not in constants and (shape := _shape(value)) is not None
        ]
        shapes, guessed = _infer(model, constants)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError, DecodeError) as error:
        raise _broken(path, error) from None
    return LoadedModel(path, model.graph, inputs, shapes, constants, options, guessed)


def _broken(path: str, error: Exception) -> InputError:
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return InputError(f"this ONNX model is damaged: {first[:200]}", location=Location(path))


def _parse(path: str) -> onnx.ModelProto:
    data = read_input(path, limit_bytes=MAX_BYTES)
    if not data:
        raise InputError("the file is empty", location=Location(path))
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RuntimeError, ValueError) as error:
        raise InputError(
            "this is not an ONNX model, or a truncated one",
            location=Location(path),
            hint=str(error)[:200] or None,
        ) from None
    if not model.HasField("graph") or not model.graph.node:
        raise InputError("this is not an ONNX model: it holds no graph", location=Location(path))
    if not any(entry.domain in _STANDARD_DOMAINS for entry in model.opset_import):
        raise InputError(
            "the model does not say which operator set it uses: it is truncated or damaged",
            location=Location(path),
        )
    _check_names(path, model)
    return model


def _check_names(path: str, model: onnx.ModelProto) -> None:
    """Damaged names come out of the parser as bytes; everything later relies on text."""
    graph = model.graph
    nodes = [*graph.node, *(node for function in model.functions for node in function.node)]
    names: list[object] = [
        item.name for item in (*graph.input, *graph.output, *graph.value_info, *graph.initializer)
    ]
    names += [sparse.values.name for sparse in graph.sparse_initializer]
    names += [dim.dim_param for value in graph.input for dim in value.type.tensor_type.shape.dim]
    for node in nodes:
        names += [node.op_type, node.domain, node.name, *node.input, *node.output]
        names += [attribute.name for attribute in node.attribute]
    if not all(isinstance(name, str) for name in names):
        raise InputError("this ONNX model is damaged: a name is not text", location=Location(path))


def tensor_shape(path: str, name: str, dims: Iterable[int]) -> tuple[int, ...]:
    """Dimensions of a stored tensor. Raises InputError for negative ones."""
    shape = tuple(int(n) for n in dims)
    if any(n < 0 for n in shape):
        raise InputError(f"the tensor has a negative extent: {shape}", location=Location(path, node=name))
    return shape


def small_value(tensor: onnx.TensorProto, shape: tuple[int, ...]) -> np.ndarray | None:
    """Elements of a small constant, None for a large one, one stored elsewhere, or a damaged one."""
    if math.prod(shape) > SMALL or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return None
    try:
        return np.asarray(onnx.numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError, RuntimeError, NotImplementedError):
        return None


def _strip_weights(path: str, graph: onnx.GraphProto) -> dict[str, Constant]:
    """Constants of the graph; the large ones become inputs of known shape in it."""
    constants: dict[str, Constant] = {}
    declared = {value.name for value in graph.input}
    kept = []
    for tensor in graph.initializer:
        shape = tensor_shape(path, tensor.name, tensor.dims)
        value = small_value(tensor, shape)
        constants[tensor.name] = Constant(shape, ((tensor.name, math.prod(shape)),), value)
        if value is not None:
            kept.append(tensor)
        elif tensor.name not in declared:
            kind = tensor.data_type or onnx.TensorProto.FLOAT
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, kind, shape))
    for sparse in graph.sparse_initializer:
        name, shape = sparse.values.name, tensor_shape(path, sparse.values.name, sparse.dims)
        constants[name] = Constant(shape, ((name, math.prod(shape)),))
        if name not in declared:
            kind = sparse.values.data_type or onnx.TensorProto.FLOAT
            graph.input.append(onnx.helper.make_tensor_value_info(name, kind, shape))
    small = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in kept]
    del graph.initializer[:]
    del graph.sparse_initializer[:]
    graph.initializer.extend(small)
    return constants


def _fix_dimensions(
    path: str, graph: onnx.GraphProto, constants: dict[str, Constant], rest: str | None
) -> dict[str, int | str]:
    """Give every dimension of every input a value; the chosen ones are returned."""
    chosen = {
        name: whole_number(name, value)
        for name, value in (split_options(rest, f"{path}:{rest}") if rest is not None else {}).items()
    }
    inputs = [
        value for value in graph.input if value.name not in constants and value.type.HasField("tensor_type")
    ]
    leading: list[onnx.TensorShapeProto.Dimension] = []
    others: dict[str, list[tuple[str, int, onnx.TensorShapeProto.Dimension]]] = {}
    for value in inputs:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.WhichOneof("value") == "dim_value" and dim.dim_value > 0:
                continue
            name = dim.dim_param or f"{value.name}.{axis}"
            if dim.dim_value < 0 and not dim.dim_param:
                dim.Clear()
            is_batch = axis == 0 and (not dim.dim_param or _BATCH_NAME.fullmatch(dim.dim_param) is not None)
            if is_batch and f"dim.{name}" not in chosen:
                leading.append(dim)
            else:
                others.setdefault(name, []).append((value.name, axis, dim))
    known = ["batch", *(f"dim.{name}" for name in others)]
    for option in chosen:
        if option not in known:
            raise InputError(
                f"the model has no option '{option}'",
                location=Location(path),
                hint=did_you_mean(option, known),
            )
    result: dict[str, int | str] = dict(chosen)
    if leading:
        result.setdefault("batch", 1)
    elif "batch" in chosen:
        raise InputError(
            "the batch size of this model is fixed",
            location=Location(path),
            hint="export it with a dynamic batch",
        )
    for dim in leading:
        dim.dim_value = int(result["batch"])
    for name, places in others.items():
        for tensor, axis, dim in places:
            if f"dim.{name}" not in chosen:
                raise InputError(
                    f"dimension {axis} ('{name}') of the input '{tensor}' is symbolic",
                    location=Location(path, node=tensor),
                    hint=f"give it a value: {path}:dim.{name}=128",
                )
            dim.dim_value = chosen[f"dim.{name}"]
    return result


def _shape(value: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """Shape of a value when every extent is known."""
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        return None
    dims = value.type.tensor_type.shape.dim
    if any(d.WhichOneof("value") != "dim_value" or d.dim_value < 0 for d in dims):
        return None
    return tuple(d.dim_value for d in dims)


def has_definition(node: onnx.NodeProto) -> bool:
    """Whether ONNX itself knows the operator, and so the shapes it produces."""
    return bool(onnx.defs.has(node.op_type, "" if node.domain in _STANDARD_DOMAINS else node.domain))


def _infer(
    model: onnx.ModelProto, constants: dict[str, Constant]
) -> tuple[dict[str, tuple[int, ...]], set[str]]:
    """Shapes of all values that can be known.

    Declared intermediate shapes may hold the symbols that were just replaced, so all are dropped but those
    of operators that ONNX does not define. Where even these are missing, the output is assumed to have the
    shape of the operator's first input, so that what follows can still be explored.
    """
    graph = model.graph
    undefined = {name for node in graph.node if not has_definition(node) for name in node.output}
    declared = [v for v in graph.value_info if v.name in undefined and _shape(v) is not None]
    del graph.value_info[:]
    graph.value_info.extend(declared)
    for value in graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    guessed: set[str] = set()
    shapes: dict[str, tuple[int, ...]] = {}
    for _ in range(PASSES):
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        found = {**{v.name: _shape(v) for v in (*inferred.graph.input, *inferred.graph.output)}}
        found.update({v.name: _shape(v) for v in inferred.graph.value_info})
        shapes = {name: shape for name, shape in found.items() if shape is not None}
        missing = []
        for node in graph.node:
            activations = [name for name in node.input if name and name not in constants]
            if has_definition(node) or not node.output or node.output[0] in shapes or not activations:
                continue
            if activations[0] in shapes and node.output[0]:
                missing.append((node.output[0], shapes[activations[0]]))
        if not missing:
            break
        for name, shape in missing:
            guessed.add(name)
            graph.value_info.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
    return shapes, guessed
