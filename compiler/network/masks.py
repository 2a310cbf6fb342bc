"""Masks in front of a softmax become part of it: their minus infinity has no place in a scale of int8."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from baco.compiler.network.parameters import Parameters
from baco.workloads.network import Network, Operator, Tensor
from baco.workloads.semantics import Parameter, Semantics
from baco.workloads.views import Expand

__all__ = ["MASKED", "fold_masks"]

#: Numbers at or below this stand for minus infinity, as exporters write it.
MASKED = -1e4


def fold_masks(network: Network, parameters: Parameters) -> Network:
    """The network with each softmax that follows a constant mask (added or filled in) reading what lies before it."""
    producers = {op.name: op for op in network.operators}
    operators = []
    for op in network.operators:
        semantics = op.semantics
        if semantics is not None and semantics.function == "softmax" and semantics.operands[1] is None:
            source = semantics.operands[0]
            if isinstance(source, Tensor) and not source.steps and source.name in producers:
                found = _mask(producers[source.name], parameters)
                if found is not None:
                    semantics = Semantics("softmax", found, semantics.attributes)
                    op = replace(op, semantics=semantics)
        operators.append(op)
    return replace(network, operators=tuple(operators))


def _mask(op: Operator, parameters: Parameters) -> tuple[Tensor, Parameter] | None:
    """(what is masked, the mask as `softmax` has it) if the operator applies one."""
    if op.semantics is None:
        return None
    operands = op.semantics.operands
    if op.semantics.function == "masked":
        x, mask, value = operands
        assert isinstance(mask, Parameter)
        if not isinstance(x, Tensor) or not isinstance(value, Parameter):
            return None
        if parameters(value).size != 1 or float(parameters(value).reshape(())) > MASKED:
            return None
        load = mask.load
        if load is None:
            return None

        def kept() -> np.ndarray | None:
            stored = load()
            return None if stored is None else np.logical_not(stored)

        return _expanded(x, op), replace(mask, name=f"{mask.name}.kept", load=kept)
    if op.semantics.function == "binary" and op.semantics.attributes["name"] == "add":
        tensors = [x for x in operands if isinstance(x, Tensor)]
        added = [x for x in operands if isinstance(x, Parameter)]
        if len(tensors) == len(added) == 1 and (parameters(added[0]) <= MASKED).any():
            return _expanded(tensors[0], op), added[0]
    return None


def _expanded(x: Tensor, op: Operator) -> Tensor:
    shape = op.output.shape
    return x if x.shape == shape else x.viewed(shape, Expand(shape))
