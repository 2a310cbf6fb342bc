"""What lies in front of softmaxes and products and becomes part of them.

A mask: its minus infinity has no place in a scale of int8. A factor of an operand: it is one of the product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from baco.compiler.network.parameters import Parameters
from baco.workloads.network import Network, Operator, Tensor
from baco.workloads.semantics import Operand, Parameter, Semantics, constant
from baco.workloads.views import Expand

__all__ = ["MASKED", "fold_factors", "fold_masks"]

#: Numbers at or below this stand for minus infinity, as exporters write it.
MASKED = -1e4


def fold_masks(network: Network, parameters: Parameters) -> Network:
    """The network with each softmax that follows a mask (added or filled in) reading what lies before it, and the mask."""
    return replace(network, operators=tuple(_Masks(network, parameters).operators))


class _Masks:
    """Rewrites the softmaxes of a network."""

    def __init__(self, network: Network, parameters: Parameters) -> None:
        self.parameters = parameters
        self.producers = {op.name: op for op in network.operators}
        self.operators: list[Operator] = []
        for op in network.operators:
            self.operators.append(self._rewritten(op))

    def _rewritten(self, op: Operator) -> Operator:
        semantics = op.semantics
        if semantics is None or semantics.function != "softmax" or semantics.operands[1] is not None:
            return op
        source = semantics.operands[0]
        producer = self._producer(source)
        if producer is None or not isinstance(source, Tensor) or source.steps:
            return op
        found = self._mask(producer, f"{op.name}.mask")
        if found is None:
            return op
        inputs = tuple(dict.fromkeys(x.name for x in found if isinstance(x, Tensor)))
        attributes = {**semantics.attributes, "truths": isinstance(found[1], Tensor)}
        return replace(op, inputs=inputs, semantics=Semantics("softmax", found, attributes))

    def _producer(self, x: Operand) -> Operator | None:
        return self.producers.get(x.name) if isinstance(x, Tensor) else None

    def _mask(self, op: Operator, name: str) -> tuple[Tensor, Operand] | None:
        """(what is masked, the mask as `softmax` has it) if the operator applies one; a mask that is computed may take
        further operators."""
        if op.semantics is None:
            return None
        operands = op.semantics.operands
        function = op.semantics.function
        if function == "masked":
            x, mask, value = operands
            if not isinstance(x, Tensor) or not isinstance(mask, Parameter) or not self._is_masked(value):
                return None
            return _expanded(x, op), self._negated(mask)
        if function == "where":
            condition, a, b = operands
            if isinstance(a, Tensor) and self._is_masked(b):
                return _expanded(a, op), condition
            if isinstance(b, Tensor) and self._is_masked(a):
                return _expanded(b, op), self._not(condition, name)
            return None
        if function != "binary" or op.semantics.attributes["name"] != "add":
            return None
        tensors = [x for x in operands if isinstance(x, Tensor)]
        added = [x for x in operands if isinstance(x, Parameter)]
        if len(tensors) == len(added) == 1 and (self.parameters(added[0]) <= MASKED).any():
            return _expanded(tensors[0], op), added[0]
        if len(tensors) == 2:
            for x, summand in (tensors, tensors[::-1]):
                truth = self._truth(summand, name)
                if truth is not None:
                    return _expanded(x, op), truth
        return None

    def _is_masked(self, value: Operand) -> bool:
        if not isinstance(value, Parameter):
            return False
        elements = self.parameters(value)
        return elements.size == 1 and float(elements.reshape(())) <= MASKED

    def _is_zero(self, value: Operand) -> bool:
        return isinstance(value, Parameter) and not self.parameters(value).any()

    def _truth(self, summand: Tensor, name: str) -> Operand | None:
        """The truths of a computed summand that is 0 or minus infinity: where it is 0."""
        op = self._producer(summand)
        if op is None or op.semantics is None:
            return None
        operands = op.semantics.operands
        found: Operand = None
        if op.semantics.function == "where":
            condition, a, b = operands
            if self._is_zero(a) and self._is_masked(b):
                found = condition
            elif self._is_masked(a) and self._is_zero(b):
                found = self._not(condition, name)
        elif op.semantics.function == "binary" and op.semantics.attributes["name"] == "add":
            for x, other in (operands, operands[::-1]):
                if not isinstance(x, Tensor) or not isinstance(other, Parameter):
                    continue
                fixed = self.parameters(other)
                truth = self._truth(x, f"{name}.part")
                if truth is None or (fixed[fixed > MASKED] != 0).any():
                    continue
                seen = constant(f"{other.name}.seen", fixed > MASKED)
                found = self._binary("and", truth, seen, op.output.shape, name)
        if isinstance(found, Tensor):
            return found.viewed(op.output.shape, Expand(op.output.shape)).viewed(summand.shape, *summand.steps)
        if isinstance(found, Parameter):
            wide = found if found.shape == op.output.shape else found.viewed(op.output.shape, Expand(op.output.shape))
            return wide.viewed(summand.shape, *summand.steps) if summand.steps else wide
        return None

    def _negated(self, mask: Parameter) -> Parameter:
        load = mask.load

        def kept() -> np.ndarray | None:
            stored = None if load is None else load()
            return None if stored is None else np.logical_not(stored)

        return replace(mask, name=f"{mask.name}.kept", load=kept)

    def _not(self, condition: Operand, name: str) -> Operand:
        if isinstance(condition, Parameter):
            return self._negated(condition)
        assert condition is not None
        return self._binary("equal", condition, constant("zero", np.float32(0)), condition.shape, f"{name}.not")

    def _binary(
        self, function: str, a: Operand, b: Operand, shape: tuple[int, ...], name: str
    ) -> Tensor:
        """A further operator."""
        unique, number = name, 1
        while unique in self.producers:
            number += 1
            unique = f"{name}~{number}"
        inputs = tuple(x.name for x in (a, b) if isinstance(x, Tensor))
        output = Tensor(unique, shape)
        semantics = Semantics("binary", (a, b), {"name": function})
        op = Operator(unique, "elementwise", inputs, output, semantics=semantics)
        self.producers[unique] = op
        self.operators.append(op)
        return output


def _expanded(x: Tensor, op: Operator) -> Tensor:
    shape = op.output.shape
    return x if x.shape == shape else x.viewed(shape, Expand(shape))


def fold_factors(network: Network, parameters: Parameters) -> Network:
    """The network with products of two activations taking over the numbers that their operands are multiplied by."""
    producers = {op.name: op for op in network.operators}
    operators = []
    for op in network.operators:
        semantics = op.semantics
        if semantics is not None and semantics.function == "matmul":
            left, right, bias = semantics.operands
            if isinstance(left, Tensor) and isinstance(right, Tensor):
                factor = 1.0
                operands: list[Operand] = []
                for x in (left, right):
                    source, own = _without_factor(x, producers, parameters)
                    operands.append(source)
                    factor *= own
                if factor != 1:
                    attributes = {**semantics.attributes, "alpha": semantics.attributes["alpha"] * factor}
                    inputs = tuple(x.name for x in operands if isinstance(x, Tensor))
                    op = replace(op, inputs=inputs, semantics=Semantics("matmul", (*operands, bias), attributes))
        operators.append(op)
    return replace(network, operators=tuple(operators))


def _without_factor(
    x: Tensor, producers: Mapping[str, Operator], parameters: Parameters
) -> tuple[Tensor, float]:
    """(what is multiplied, the positive number that it is multiplied by)."""
    op = producers.get(x.name)
    if op is None or op.semantics is None or op.semantics.function != "binary":
        return x, 1.0
    name = op.semantics.attributes["name"]
    source, factor = _pair(op.semantics.operands)
    if name not in ("mul", "div") or source is None or factor is None or source.shape != op.output.shape:
        return x, 1.0
    if name == "div" and op.semantics.operands[0] is not source:
        return x, 1.0
    elements = parameters(factor)
    if elements.size != 1 or not float(elements.reshape(())) > 0:
        return x, 1.0
    value = float(elements.reshape(()))
    return source.viewed(x.shape, *x.steps), value if name == "mul" else 1 / value


def _pair(operands: Sequence[Operand]) -> tuple[Tensor | None, Parameter | None]:
    tensors = [x for x in operands if isinstance(x, Tensor)]
    fixed = [x for x in operands if isinstance(x, Parameter)]
    return (tensors[0], fixed[0]) if len(tensors) == len(fixed) == 1 else (None, None)
