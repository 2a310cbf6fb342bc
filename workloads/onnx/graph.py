"""ONNX models as networks. What each operator becomes is in `baco.workloads.onnx.operators`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import onnx

from baco.common.errors import InputError, Location
from baco.workloads.network import Network, UnsupportedNodeError, first_cause
from baco.workloads.onnx.evaluate import STANDARD_DOMAINS
from baco.workloads.onnx.judge import OnnxJudge
from baco.workloads.onnx.load import LoadedModel, load_model
from baco.workloads.onnx.node import OnnxNode
from baco.workloads.onnx.operators import OPERATORS, REASONS
from baco.workloads.onnx.quantised import whole_constant
from baco.workloads.onnx.table import own_operators
from baco.workloads.onnx.whole_numbers import WHOLE_OPERATORS, whole_input
from baco.workloads.options import split_options

#: Operators of the standard and of onnxruntime's extensions are looked up by name alone.
DOMAINS = ("", "ai.onnx", "com.microsoft", "PACTOps")


def load_onnx(path: str, rest: str | None = None) -> Network:
    """The network in an ONNX file; `rest` says how large open dimensions are (`baco.workloads.onnx.dimensions`), and names a table of
    operators of the user's own (`baco.workloads.onnx.table`).

    A batch dimension that is left open becomes 1. Operators that cannot be costed are listed in
    `Network.unsupported`; their outputs count as inputs from outside.

    Raises:
        InputError: no or a damaged ONNX file, shapes that do not fit, a symbolic dimension without a value,
            or nothing in the graph that could be run or explored.
    """
    return network_of_model(path, rest)


def network_of_model(path: str, rest: str | None, written: onnx.ModelProto | None = None) -> Network:
    """As `load_onnx`; `written`: the model itself, where the file is none of ONNX's."""
    rest, own = own_operators(path, rest)
    model = load_model(path, rest, OPERATORS.__contains__, own, written)
    network = walk(model)
    nothing = not any(op.inputs for op in network.operators)  # all outputs are constants
    if nothing or (network.unsupported and not network.tasks):
        cause = first_cause(network.unsupported)
        given = {name for name, _ in model.inputs}
        if not cause and not any(tensor.name in given for tensor in network.outputs):
            raise InputError(
                "the model computes nothing: its outputs do not depend on the inputs",
                location=Location(model.path),
            )
        raise InputError(
            "the model holds no operator that the accelerator runs",
            location=Location(model.path),
            hint=f"unsupported: {cause}"
            if cause
            else "convolutions, matrix products and additions are needed",
        )
    options = {} if rest is None else split_options(rest, f"{path}:{rest}")
    if "batch" not in model.options or "batch" in options:
        return network
    note = f"the batch of this model is open, and taken as 1: {path}:batch=N gives it another size"
    return replace(network, notes=(*network.notes, note))


def walk(model: LoadedModel) -> Network:
    """The network of a model, whether the accelerator has a part in it or not."""
    imp = OnnxNode(model)
    imp.whole = any(node.op_type in WHOLE_OPERATORS for node in model.graph.node)
    for name, shape in model.inputs:
        if 0 not in shape:
            imp.values[name] = imp.builder.input(name, shape)
            imp.given.add(name)
            if imp.whole and model.kinds.get(name) == onnx.TensorProto.FLOAT:
                whole_input(imp, name)
    for index, node in enumerate(model.graph.node):
        imp.enter(index, node)
        if imp.fold(whole_constant):
            continue
        operator = OPERATORS.get(node.op_type) if node.domain in DOMAINS else None
        try:
            if operator is None:
                known = node.domain in STANDARD_DOMAINS
                raise UnsupportedNodeError(REASONS.get(node.op_type, "") if known else "")
            imp.rule = operator.rule
            operator.handler(imp)
            imp.settle()
        except UnsupportedNodeError as error:
            imp.reject(str(error))
    names = [value.name for value in model.graph.output]
    network = imp.builder.build(imp.unsupported, [imp.output(name) for name in names], names)
    judge = OnnxJudge(model.path, dict(model.inputs), network.macs)
    types = _types(value for value in model.graph.input if value.name in imp.given)
    given = {name: kind for name, kind in types.items() if np.dtype(kind).kind in "iub"}
    if imp.whole:
        given |= {name: "uint8" for name in imp.given if name not in given}
    return replace(network, judge=judge, input_types=given, output_types=_types(model.graph.output))


def _types(values: Iterable[onnx.ValueInfoProto]) -> dict[str, str]:
    """Element types by name, as numpy calls them; those that it does not have itself left out."""
    known = onnx.helper.get_all_tensor_dtypes()
    kinds = {value.name: value.type.tensor_type.elem_type for value in values}
    found = {
        name: np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
        for name, kind in kinds.items()
        if kind in known and kind != onnx.TensorProto.STRING
    }
    return {name: str(dtype) for name, dtype in found.items() if dtype.kind in "fiub"}
