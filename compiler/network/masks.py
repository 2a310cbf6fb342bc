"""What lies in front of softmaxes and products and becomes part of them.

A mask: its minus infinity has no place in a scale of int8. A factor of an operand: it is one of the product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from baco.common.errors import InputError, Location
from baco.compiler.network.calibrate import MASKED, Ranges
from baco.compiler.network.parameters import Parameters
from baco.workloads.network import Network, Operator, Tensor
from baco.workloads.semantics import Operand, Parameter, Semantics, constant
from baco.workloads.views import Expand

__all__ = ["MASKED", "fold_computed_masks", "fold_factors", "fold_masks"]


#: Part of a mask's least number below which it is one: several may have been added.
_LEVELS = 64


def fold_masks(network: Network, parameters: Parameters) -> Network:
    """The network with each softmax that follows a mask (added or filled in) reading what lies before it, and the mask."""
    return replace(network, operators=tuple(_Masks(network, parameters).operators))


def fold_computed_masks(network: Network, ranges: Ranges, strict: bool) -> tuple[Network, set[str]]:
    """The same for masks that are reckoned with numbers, (1 - mask) * -10000, which only their values give away.

    Args:
        network: without the masks that `fold_masks` finds.
        ranges: of its activations.
        strict: the ranges are of the user's data: refuse masks that hold other numbers, too.

    Returns the network, and the masks with what only they are made from: their large numbers stand for minus infinity.
    Raises InputError, with `strict`, for a mask together with other numbers.
    """
    producers = {op.name: op for op in network.operators}
    masks: dict[str, Operator] = {}
    operators = []
    for op in network.operators:
        found = _computed_mask(op, producers, ranges)
        if found is None:
            operators.append(op)
            continue
        x, mask, summed = found
        if strict and ranges.finite[mask.name] > 0:
            raise InputError(
                f"it adds a mask of minus infinity that holds other numbers, too (up to {ranges.finite[mask.name]:.3g})",
                location=Location(network.source, node=summed.name),
                hint="add these to the scores by an operator of their own",
            )
        name = f"{op.name}.mask"
        seen = Tensor(name, mask.shape)
        attributes = {"name": "greater"}
        # Far from zero: what rounding leaves of 1 - mask is multiplied by minus infinity, too.
        end = constant(f"{name}.end", ranges.ends[mask.name][0] / _LEVELS)
        truths = Semantics("binary", (mask, end), attributes)
        operators.append(Operator(name, "elementwise", (mask.name,), seen, semantics=truths))
        assert op.semantics is not None
        operands = _expanded(x, summed), _expanded(seen, summed)
        semantics = Semantics("softmax", operands, {**op.semantics.attributes, "truths": True})
        operators.append(replace(op, inputs=(x.name, name), semantics=semantics))
        masks[mask.name] = summed
    readers: dict[str, set[str]] = {}
    for op in network.operators:
        for operand in op.semantics.operands if op.semantics else ():
            if isinstance(operand, Tensor):
                readers.setdefault(operand.name, set()).add(op.name)
    large = set(masks) | {summed.name for summed in masks.values()}
    for op in reversed(network.operators):
        if op.name in readers and readers[op.name] <= large:
            large.add(op.name)
    return replace(network, operators=tuple(operators)), large


def _computed_mask(
    op: Operator, producers: Mapping[str, Operator], ranges: Ranges
) -> tuple[Tensor, Tensor, Operator] | None:
    """(what is masked, the mask, where it is added) in front of a softmax."""
    if op.semantics is None or op.semantics.function != "softmax" or op.semantics.operands[1] is not None:
        return None
    source = op.semantics.operands[0]
    summed = producers.get(source.name) if isinstance(source, Tensor) and not source.steps else None
    if summed is None or summed.semantics is None or summed.semantics.function != "binary":
        return None
    if summed.semantics.attributes["name"] != "add":
        return None
    for x, mask in (summed.semantics.operands, summed.semantics.operands[::-1]):
        if isinstance(x, Tensor) and isinstance(mask, Tensor) and mask.name in ranges.finite:
            return x, mask, summed
    return None


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
        for index in (0, 1):
            x, summand = operands[index], operands[1 - index]
            if not isinstance(x, Tensor):
                continue
            if isinstance(summand, Parameter):
                return (_expanded(x, op), summand) if (self.parameters(summand) <= MASKED).any() else None
            finite, truth = self._split(summand, name)
            if truth is None:
                continue
            if finite is not None:
                x = self._binary("add", x, finite, op.output.shape, f"{name}.sum")
            return _expanded(x, op), truth
        return None

    def _is_masked(self, value: Operand) -> bool:
        if not isinstance(value, Parameter):
            return False
        elements = self.parameters(value)
        return elements.size == 1 and float(elements.reshape(())) <= MASKED

    def _is_zero(self, value: Operand) -> bool:
        return isinstance(value, Parameter) and not self.parameters(value).any()

    def _split(self, summand: Operand, name: str) -> tuple[Operand, Operand]:
        """(finite part, truths of what takes part) of what is added in front of a softmax: a part is None where it is 0, and
        true, everywhere."""
        if isinstance(summand, Parameter):
            value = self.parameters(summand)
            seen = value > MASKED
            kept = np.where(seen, value, 0).astype(np.float32)
            return (
                constant(f"{summand.name}.finite", kept) if kept.any() else None,
                None if seen.all() else constant(f"{summand.name}.seen", seen),
            )
        op = self._producer(summand)
        if op is None or op.semantics is None or not isinstance(summand, Tensor):
            return summand, None
        operands, attributes = op.semantics.operands, op.semantics.attributes
        finite: Operand
        truth: Operand
        if op.semantics.function == "where":
            condition, a, b = operands
            if self._is_masked(b):
                finite, truth = (None if self._is_zero(a) else a), condition
            elif self._is_masked(a):
                finite, truth = (None if self._is_zero(b) else b), self._not(condition, name)
            else:
                return summand, None
        elif op.semantics.function == "binary" and attributes["name"] == "add":
            parts = [self._split(x, f"{name}.part{number}") for number, x in enumerate(operands)]
            (first, own), (second, other) = parts
            if own is None and other is None:
                return summand, None
            shape = op.output.shape
            finite = second if first is None else first
            if first is not None and second is not None:
                finite = self._binary("add", first, second, shape, f"{name}.finite")
            truth = other if own is None else own
            if own is not None and other is not None:
                truth = self._both(own, other, shape, name)
        elif op.semantics.function == "pad" and attributes["value"] <= MASKED:
            source = operands[0]
            shape = source.shape if source is not None else ()
            finite, truth = self._split(source, f"{name}.inner")
            if truth is None:
                truth = constant(f"{name}.ones", np.ones(shape, np.float32))
            zeros = {**attributes, "value": 0.0}
            finite = (
                None if finite is None else self._padded(finite, zeros, op.output.shape, f"{name}.finite")
            )
            truth = self._padded(truth, zeros, op.output.shape, name)
        else:
            return summand, None
        return self._seen(finite, op, summand), self._seen(truth, op, summand)

    def _seen(self, part: Operand, op: Operator, summand: Tensor) -> Operand:
        """A part as the summand sees what its operator writes."""
        if part is None:
            return None
        shape = op.output.shape
        wide = part if part.shape == shape else part.viewed(shape, Expand(shape))
        return wide.viewed(summand.shape, *summand.steps) if summand.steps else wide

    def _padded(
        self, x: Operand, attributes: Mapping[str, Any], shape: tuple[int, ...], name: str
    ) -> Operand:
        if isinstance(x, Parameter):
            pads = list(zip(attributes["before"], attributes["after"], strict=True))
            return constant(f"{x.name}.padded", np.pad(self.parameters(x), pads))
        return self._add("pad", "pad", (x,), shape, name, attributes)

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
        return self._binary("equal", condition, constant("zero", 0.0), condition.shape, f"{name}.not")

    def _both(self, a: Operand, b: Operand, shape: tuple[int, ...], name: str) -> Operand:
        """Truths where both are."""
        if isinstance(a, Parameter) and isinstance(b, Parameter):
            return constant(name, np.logical_and(self.parameters(a), self.parameters(b)))
        return self._binary("and", a, b, shape, name)

    def _binary(self, function: str, a: Operand, b: Operand, shape: tuple[int, ...], name: str) -> Tensor:
        kind = "add" if function == "add" else "elementwise"
        return self._add(kind, "binary", (a, b), shape, name, {"name": function})

    def _add(
        self,
        kind: str,
        function: str,
        operands: tuple[Operand, ...],
        shape: tuple[int, ...],
        name: str,
        attributes: Mapping[str, Any],
    ) -> Tensor:
        """A further operator."""
        unique, number = name, 1
        while unique in self.producers:
            number += 1
            unique = f"{name}~{number}"
        inputs = tuple(x.name for x in operands if isinstance(x, Tensor))
        output = Tensor(unique, shape)
        op = Operator(unique, kind, inputs, output, semantics=Semantics(function, operands, attributes))
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
                    op = replace(
                        op, inputs=inputs, semantics=Semantics("matmul", (*operands, bias), attributes)
                    )
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
