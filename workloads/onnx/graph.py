"""ONNX models as networks. What each operator becomes is in `baco.workloads.onnx.operators`."""

from __future__ import annotations

from dataclasses import replace

from baco.common.errors import InputError, Location
from baco.workloads.network import Network, UnsupportedNodeError, first_cause
from baco.workloads.onnx.evaluate import STANDARD_DOMAINS
from baco.workloads.onnx.judge import OnnxJudge
from baco.workloads.onnx.load import LoadedModel, load_model
from baco.workloads.onnx.node import CONSTANT_OUTPUT, OnnxNode
from baco.workloads.onnx.operators import HANDLERS, REASONS
from baco.workloads.options import split_options
from baco.workloads.views import Unknown

#: Operators of the standard and of onnxruntime's extensions are looked up by name alone.
DOMAINS = ("", "ai.onnx", "com.microsoft")


def load_onnx(path: str, rest: str | None = None) -> Network:
    """The network in an ONNX file; `rest` says how large open dimensions are (`baco.workloads.onnx.dimensions`).

    A batch dimension that is left open becomes 1. Operators that cannot be costed are listed in
    `Network.unsupported`; their outputs count as inputs from outside.

    Raises:
        InputError: no or a damaged ONNX file, shapes that do not fit, a symbolic dimension without a value,
            or nothing in the graph that could be run or explored.
    """
    model = load_model(path, rest, HANDLERS.__contains__)
    network = walk(model)
    if not network.operators or (network.unsupported and not network.tasks):
        cause = first_cause(network.unsupported)
        constants = [
            step
            for tensor in network.outputs
            for step in tensor.steps
            if isinstance(step, Unknown) and CONSTANT_OUTPUT in step.reason
        ]
        if not cause and network.outputs and len(constants) == len(network.outputs):
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
    given = {} if rest is None else split_options(rest, f"{path}:{rest}")
    if "batch" not in model.options or "batch" in given:
        return network
    note = f"the batch of this model is open, and taken as 1: {path}:batch=N gives it another size"
    return replace(network, notes=(*network.notes, note))


def walk(model: LoadedModel) -> Network:
    """The network of a model, whether the accelerator has a part in it or not."""
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
                known = node.domain in STANDARD_DOMAINS
                raise UnsupportedNodeError(REASONS.get(node.op_type, "") if known else "")
            handler(imp)
            imp.settle()
        except UnsupportedNodeError as error:
            imp.reject(str(error))
    names = [value.name for value in model.graph.output]
    network = imp.builder.build(imp.unsupported, [imp.output(name) for name in names], names)
    return replace(network, judge=OnnxJudge(model.path, dict(model.inputs), network.macs))
