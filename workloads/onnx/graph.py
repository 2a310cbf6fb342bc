"""ONNX models as networks. What each operator becomes is in `baco.workloads.onnx.operators`."""

from __future__ import annotations

from dataclasses import replace

from baco.common.errors import InputError, Location
from baco.workloads.network import Network, UnsupportedNodeError
from baco.workloads.onnx.load import LoadedModel, load_model
from baco.workloads.onnx.node import OnnxNode
from baco.workloads.onnx.operators import HANDLERS
from baco.workloads.options import split_options

#: Operators of the standard and of onnxruntime's extensions are looked up by name alone.
DOMAINS = ("", "ai.onnx", "com.microsoft")


def load_onnx(path: str, rest: str | None = None) -> Network:
    """The network in an ONNX file; `rest` may set `batch=N` and symbolic dimensions `dim.NAME=N`.

    A batch dimension that is left open becomes 1. Operators that cannot be costed are listed in
    `Network.unsupported`; their outputs count as inputs from outside.

    Raises:
        InputError: no or a damaged ONNX file, shapes that do not fit, a symbolic dimension without a value,
            or no tensor problem in the graph.
    """
    model = load_model(path, rest)
    network = _walk(model)
    given = {} if rest is None else split_options(rest, f"{path}:{rest}")
    if "batch" not in model.options or "batch" in given:
        return network
    note = f"the batch of this model is open, and taken as 1: {path}:batch=N gives it another size"
    return replace(network, notes=(*network.notes, note))


def _walk(model: LoadedModel) -> Network:
    imp = OnnxNode(model)
    for name, shape in model.inputs:
        if 0 not in shape:
            imp.values[name] = imp.builder.input(name, shape)
    for index, node in enumerate(model.graph.node):
        imp.enter(index, node)
        if imp.fold():
            continue
        handler = HANDLERS.get(node.op_type) if node.domain in DOMAINS else None
        try:
            if handler is None:
                raise UnsupportedNodeError("")
            handler(imp)
        except UnsupportedNodeError as error:
            imp.reject(str(error))
    names = [value.name for value in model.graph.output if value.name in imp.values]
    network = imp.builder.build(imp.unsupported, [imp.values[name] for name in names], names)
    if not network.tasks:
        listed = ", ".join(str(u) for u in network.unsupported[:5])
        raise InputError(
            "the model holds no operator that the accelerator runs",
            location=Location(model.path),
            hint=f"unsupported: {listed}" if listed else "convolutions and matrix products are needed",
        )
    return network
