"""Channels of neighbouring layers brought to like ranges, before anything is rounded: what one layer divides, the next multiplies.

Between two layers a channel has any scale: rectifiers, maxima and averages of x / s are those of x, over s. With one scale for all weights
of a layer, a channel whose weights are small is rounded coarsely; less so where the ranges of a channel's weights in front and behind are
alike (Nagel et al., "Data-free quantization through weight equalization and bias correction", 2019, section 4.1). Factors here
are powers of two, so that the network computes the same numbers in floating point, to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from baco.compiler.network.builder import semantics_of
from baco.compiler.network.parameters import Parameters, ParameterShapes
from baco.workloads.network import Network, Operator, Tensor
from baco.workloads.semantics import Operand, Parameter, constant

#: Sweeps over all pairs at most, and exponents of a factor: layers in a row settle within a few.
_SWEEPS, _MOST = 20, 16
#: Functions of images that a factor of a channel passes through, and such functions of `unary`.
_IMAGES, _RECTIFIERS = {"maxpool", "avgpool"}, {"relu", "leaky_relu"}


@dataclass(frozen=True)
class _Pair:
    """Two layers of one function, `conv` or `matmul`; the second alone reads the first, perhaps behind a normalisation of batches."""

    first: Operator
    second: Operator
    norm: Operator | None


def equalised(network: Network, parameters: Parameters) -> Network:
    """The network with other parameters, and the same results.

    Args:
        network: unrolled, with semantics, as it is run.
        parameters: elements; those of shapes alone leave the network as it is.
    """
    if isinstance(parameters, ParameterShapes):
        return network
    pairs = _pairs(network)
    exponents = _exponents(pairs, parameters)
    factors: dict[tuple[str, int], np.ndarray] = {}

    def scale(op: Operator, position: int, factor: np.ndarray) -> None:
        key = op.name, position
        factors[key] = factors.get(key, np.ones(1)) * factor

    for pair in pairs:
        factor = np.exp2(exponents[pair.first.name])
        divided = pair.norm or pair.first
        for position in (1, 2):
            scale(divided, position, _along_outputs(divided, position, 1 / factor))
        scale(pair.second, 1, _along_inputs(pair.second, factor))
    operators = tuple(_scaled(op, factors, parameters) for op in network.operators)
    return replace(network, operators=operators)


def _exponents(pairs: list[_Pair], parameters: Parameters) -> dict[str, np.ndarray]:
    """By the name of the first layer of a pair the powers of two that its channels are divided by."""
    weights = {
        op.name: np.abs(_oriented(op, parameters)) for pair in pairs for op in (pair.first, pair.second)
    }
    for pair in pairs:
        if pair.norm is not None:
            weights[pair.first.name] *= _norm_factor(pair.norm, parameters)[:, None, None]
    totals = {pair.first.name: np.zeros(len(weights[pair.first.name])) for pair in pairs}
    for _ in range(_SWEEPS):
        moved = False
        for pair in pairs:
            front, behind = weights[pair.first.name], weights[pair.second.name]
            groups = _groups(pair.second)
            inputs = behind.reshape(
                groups, -1, *behind.shape[1:]
            )  # a view: groups, their outputs, their inputs, taps
            reach, reached = front.max((1, 2)), inputs.max((1, 3)).reshape(-1)
            known = (reach > 0) & (reached > 0)
            wanted = np.log2(np.where(known, reach, 1.0) / np.where(known, reached, 1.0)) / 2
            total = totals[pair.first.name]
            steps = np.clip(total + np.rint(wanted), -_MOST, _MOST) - total
            if steps.any():
                moved = True
                total += steps
                front *= np.exp2(-steps)[:, None, None]
                inputs *= np.exp2(steps).reshape(groups, 1, -1, 1)
        if not moved:
            break
    return totals


# Layers


def _parameter(op: Operator, position: int) -> Parameter | None:
    operand = semantics_of(op).operands[position]
    return operand if isinstance(operand, Parameter) else None


def _groups(op: Operator) -> int:
    return int(semantics_of(op).attributes.get("groups", 1))


def _oriented(op: Operator, parameters: Parameters) -> np.ndarray:
    """Weights float64 [outputs, inputs of a group, taps]."""
    weight = _parameter(op, 1)
    assert weight is not None
    elements = parameters(weight).astype(np.float64)
    if semantics_of(op).function == "matmul":
        return elements.T[:, :, None].copy()
    return elements.reshape(*elements.shape[:2], -1).copy()


def _norm_factor(norm: Operator, parameters: Parameters) -> np.ndarray:
    """Magnitude of what a normalisation multiplies every channel by."""
    scale, variance = _parameter(norm, 1), _parameter(norm, 4)
    assert variance is not None
    factor = 1 / np.sqrt(
        parameters(variance).astype(np.float64).reshape(-1) + semantics_of(norm).attributes["eps"]
    )
    if scale is not None:
        factor = factor * parameters(scale).astype(np.float64).reshape(-1)
    return np.asarray(np.abs(factor))


def _along_outputs(op: Operator, position: int, factor: np.ndarray) -> np.ndarray:
    """Factors of channels, as the parameter at a position has them."""
    if semantics_of(op).function == "conv" and position == 1:
        weight = _parameter(op, 1)
        assert weight is not None
        return factor.reshape(-1, *(1 for _ in weight.shape[1:]))
    return factor


def _along_inputs(op: Operator, factor: np.ndarray) -> np.ndarray:
    weight = _parameter(op, 1)
    assert weight is not None
    if semantics_of(op).function == "matmul":
        return factor[:, None]
    groups = _groups(op)
    rows = np.repeat(
        factor.reshape(groups, -1), weight.shape[0] // groups, 0
    )  # of every output those of its group
    return rows.reshape(*rows.shape, *(1 for _ in weight.shape[2:]))


def _scaled(op: Operator, factors: Mapping[tuple[str, int], np.ndarray], parameters: Parameters) -> Operator:
    """The operator with its parameters times factors, those that there are."""
    if op.semantics is None or not any((op.name, position) in factors for position in (1, 2)):
        return op
    operands: list[Operand] = list(op.semantics.operands)
    for position in (1, 2):
        factor = factors.get((op.name, position))
        operand = operands[position] if position < len(operands) else None
        missing = operand is None and position == 1  # a normalisation without factors of its own
        if factor is None or (operand is None and not missing):
            continue
        elements = parameters(operand) if isinstance(operand, Parameter) else np.ones(1, np.float32)
        product = np.asarray(elements * factor, np.float32)
        operands[position] = constant(f"{op.name}.{position}.equalised", product)
    return replace(op, semantics=replace(op.semantics, operands=tuple(operands)))


# Pairs


def _pairs(network: Network) -> list[_Pair]:
    readers: dict[str, list[Operator | None]] = {}
    for tensor in network.outputs:
        readers.setdefault(tensor.name, []).append(None)
    for op in network.operators:
        for operand in op.semantics.operands if op.semantics else ():
            if isinstance(operand, Tensor):
                readers.setdefault(operand.name, []).append(None if operand.steps else op)
    found = []
    for op in network.operators:
        pair = _pair(op, readers) if _is_layer(op) else None
        if pair is not None:
            found.append(pair)
    return found


def _pair(first: Operator, readers: Mapping[str, list[Operator | None]]) -> _Pair | None:
    function, norm, last = semantics_of(first).function, None, first
    while len(following := readers.get(last.name, [])) == 1 and (op := following[0]) is not None:
        found = semantics_of(op).function
        if found == function and _is_layer(op) and _reads(op, last):
            return _Pair(first, op, norm)
        if found == "batchnorm" and last is first and function == "conv":
            norm = op
        elif not _passes(op, function):
            return None
        last = op
    return None


def _reads(op: Operator, source: Operator) -> bool:
    x = semantics_of(op).operands[0]
    return isinstance(x, Tensor) and x.name == source.name


def _is_layer(op: Operator) -> bool:
    """Whether an operator has weights of channels that a model does not give as whole numbers, and a bias of channels or none."""
    if op.semantics is None or op.semantics.function not in ("conv", "matmul"):
        return False
    weight, bias = _parameter(op, 1), op.semantics.operands[2]
    if (
        weight is None
        or weight.whole is not None
        or (op.semantics.function == "matmul" and len(weight.shape) != 2)
    ):
        return False
    channels = weight.shape[0 if op.semantics.function == "conv" else 1]
    return bias is None or (
        isinstance(bias, Parameter)
        and bias.whole is None
        and bool(bias.shape)
        and bias.shape[-1] == channels == math.prod(bias.shape)
    )


def _passes(op: Operator, function: str) -> bool:
    """Whether factors above 0 of channels pass through an operator between two layers of a function."""
    semantics = semantics_of(op)
    if semantics.function == "unary":
        return semantics.attributes["name"] in _RECTIFIERS
    if semantics.function == "pad":
        return function == "conv" and semantics.attributes["value"] == 0
    return semantics.function == "identity" or (function == "conv" and semantics.function in _IMAGES)
