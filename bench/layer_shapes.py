"""Layers that benchmarks of the compiler run: those of ResNet-50, and matrix products of BERT and Llama."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from baco.common.errors import InputError, did_you_mean
from baco.compiler.layers.layer import Layer
from baco.workloads.network import Operator
from baco.workloads.networks.resnet import resnet50
from baco.workloads.problem import Problem

#: Scale of results; sums of random int8 products become numbers of which few saturate.
_SCALE = 2.0**-9


@dataclass(frozen=True)
class NamedLayer:
    """A layer with the set it belongs to and a name for tables."""

    set: str
    name: str
    layer: Layer


def layer_shapes(sets: Sequence[str]) -> list[NamedLayer]:
    """The layers of some sets. Raises InputError for an unknown set."""
    found = []
    for name in sets:
        if name not in SETS:
            raise InputError(f"no set of layers is called '{name}'; {did_you_mean(name, SETS)}")
        found += SETS[name]()
    return found


def _resnet50() -> list[NamedLayer]:
    """The unique layers at batch 1, 224 x 224: with bias, ReLU and requantisation."""
    network = resnet50()
    shapes = {tensor.name: tensor.shape for tensor in network.inputs}
    shapes |= {op.output.name: op.output.shape for op in network.operators}
    found: dict[Layer, str] = {}
    for op in network.operators:
        if op.problem is not None:
            layer = _layer_of(op, shapes[op.inputs[0]])
            found.setdefault(layer, op.name)
    return [NamedLayer("resnet50", f"{name} {_sizes(layer)}", layer) for layer, name in found.items()]


def _layer_of(op: Operator, shape: tuple[int, ...]) -> Layer:
    assert op.problem is not None
    if op.kind != "conv2d":
        return Layer(op.problem, bias=True, scale=_SCALE)
    assert op.semantics is not None
    (top, _), (left, _) = op.semantics.attributes["padding"]
    return Layer(op.problem, (shape[2], shape[3]), (top, left), bias=True, relu=True, scale=_SCALE)


def _gemm() -> list[NamedLayer]:
    """Matrix products of BERT-base at 128 tokens and of Llama 2 7B at 64 tokens and at one."""
    shapes = (
        ("BERT query", 128, 768, 768, 1),
        ("BERT intermediate", 128, 3072, 768, 1),
        ("BERT output", 128, 768, 3072, 1),
        ("BERT scores", 128, 128, 64, 12),
        ("BERT context", 128, 64, 128, 12),
        ("Llama query, 64 tokens", 64, 4096, 4096, 1),
        ("Llama scores, 128 tokens", 128, 128, 128, 32),
        ("Llama down, 16 tokens", 16, 4096, 11008, 1),
        ("Llama query, 1 token", 1, 4096, 4096, 1),
        ("Llama gate, 1 token", 1, 11008, 4096, 1),
    )
    layers = []
    for name, rows, columns, depth, groups in shapes:
        layer = Layer(Problem(P=rows, K=columns, C=depth, groups=groups), scale=_SCALE, bias=groups == 1)
        layers.append(NamedLayer("gemm", f"{name} {_sizes(layer)}", layer))
    return layers


def _sizes(layer: Layer) -> str:
    p = layer.problem
    if layer.is_product:
        times = f"{p.groups} x " if p.groups > 1 else ""
        return f"{times}{p.P}x{p.K}x{p.C}"
    stride = f" /{p.stride_w}" if p.stride_w > 1 else ""
    return f"{p.S}x{p.R}x{p.C} to {p.K}, {p.Q}x{p.P}{stride}"


SETS: dict[str, Callable[[], list[NamedLayer]]] = {"resnet50": _resnet50, "gemm": _gemm}
