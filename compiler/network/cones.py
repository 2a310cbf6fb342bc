"""Operators element by element of a model that is quantised already: which of them together are one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

import numpy as np

from baco.compiler.network.builder import IntegerBuilder, semantics_of
from baco.compiler.network.functions import binary, rounded_pair, unary
from baco.workloads.network import Operator, Tensor
from baco.workloads.semantics import Operand, Parameter

Array = np.ndarray
#: Operators that one table may stand for.
_MOST_OPERATORS = 64
#: Channels with a table each, and elements of a channel for which a table is worth it.
_MOST_CHANNELS, _LEAST_ELEMENTS = 16, 256


_Function = Callable[[Sequence[Array], int], Array]


@dataclass(frozen=True)
class Cone:
    """A tensor as a function of one or two others, element by element; by channel where constants differ along one dimension.

    Attributes:
        sources: what it is computed from.
        function: of their real numbers (float32), and of a channel.
        operators: names of those between, the last one left out.
        axis: the dimension of the channels; None where all elements have one function.
    """

    sources: tuple[Operand, ...]
    function: _Function
    operators: tuple[str, ...]
    axis: int | None = None


def table_cones(b: IntegerBuilder, apart: Container[str] = ()) -> tuple[dict[str, Cone], set[str]]:
    """(Cones of the operators that become tables, by their name; operators whose results nothing else reads); those `apart` become none.

    A table has whole numbers of one or two tensors as operands, and whole numbers as results, or real ones of one operand.
    """
    if not b.encodings:
        return {}, set()
    operators = {op.name: op for op in b.network.operators}
    found: dict[str, Cone] = {}
    needed = {x.name for _, x in b.network.named_outputs}
    skipped = set()
    # of codes of 16 bits there are no tables
    bytes_ = b.quantiser.floats is None or not b.quantiser.floats.wide
    for op in reversed(b.network.operators):
        if op.name not in needed:
            skipped.add(op.name)
            continue
        read: Sequence[Operand] = semantics_of(op).operands
        if semantics_of(op).function in ("unary", "binary") and op.name not in apart and bytes_:
            cone = _cone(b, operators, op)
            most = 2 if op.name in b.encodings and cone.axis is None else 1
            if 1 <= len(cone.sources) <= most and all(_is_whole(b, x) for x in cone.sources):
                found[op.name] = cone
                read = cone.sources
        needed.update(x.name for x in read if isinstance(x, Tensor))
    return found, skipped


def _is_whole(b: IntegerBuilder, x: Operand) -> bool:
    if isinstance(x, Parameter):
        return x.whole is not None and len(x.whole.scale) == len(x.whole.zero) == 1
    return x is not None and x.name not in b.real


class _Cones:
    """Finds the cone of an operator.

    Attributes:
        sources, between: of the cone.
        axis: of constants that differ by channel.
    """

    def __init__(self, b: IntegerBuilder, operators: dict[str, Operator], shape: tuple[int, ...]) -> None:
        self._b, self._operators, self._shape = b, operators, shape
        self.sources: list[Operand] = []
        self.between: list[str] = []
        self.axis: int | None = None

    def result(self, one: Operator) -> _Function:
        a, parts = semantics_of(one).attributes, [self._operand(x) for x in semantics_of(one).operands]
        if semantics_of(one).function == "unary":
            return lambda values, c: _float32(unary(a["name"], parts[0](values, c), a["numbers"]))
        if "units" in a:
            return lambda values, c: rounded_pair(
                a["name"], parts[0](values, c), parts[1](values, c), a["units"]
            )
        return lambda values, c: _float32(binary(a["name"], parts[0](values, c), parts[1](values, c)))

    def _operand(self, x: Operand) -> _Function:
        if isinstance(x, Parameter) and (math.prod(x.shape) == 1 or self._by_channel(x)):
            numbers = self._b.parameters(x).astype(np.float32).reshape(-1)
            return lambda values, c: numbers[c if numbers.size > 1 else 0]
        inner = self._operators.get(x.name) if isinstance(x, Tensor) and not x.steps else None
        if inner is None or inner.name in self._b.encodings:
            return self._source(x)
        if semantics_of(inner).function not in ("unary", "binary") or len(self.between) >= _MOST_OPERATORS:
            return self._source(x)
        self.between.append(inner.name)
        return self.result(inner)

    def _by_channel(self, x: Parameter) -> bool:
        """Whether a constant differs along one dimension of the result alone, which no other constant's differs from."""
        first = len(self._shape) - len(x.shape)
        axes = [first + i for i, n in enumerate(x.shape) if n > 1]
        if len(axes) != 1 or axes[0] < 0 or self.axis not in (None, axes[0]):
            return False
        channels = self._shape[axes[0]]
        if channels > _MOST_CHANNELS or math.prod(self._shape) < channels * _LEAST_ELEMENTS:
            return False
        self.axis = axes[0]
        return True

    def _source(self, x: Operand) -> _Function:
        for at, known in enumerate(self.sources):
            if _same(known, x):
                return lambda values, c: values[at]
        self.sources.append(x)
        at = len(self.sources) - 1
        return lambda values, c: values[at]


def _cone(b: IntegerBuilder, operators: dict[str, Operator], op: Operator) -> Cone:
    cone = _Cones(b, operators, op.output.shape)
    function = cone.result(op)
    return Cone(tuple(cone.sources), function, tuple(dict.fromkeys(reversed(cone.between))), cone.axis)


def _float32(x: Array) -> Array:
    return np.asarray(x, np.float32)


def _same(x: Operand, y: Operand) -> bool:
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        return x.name == y.name and x.steps == y.steps
    return x is y
