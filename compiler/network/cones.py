"""Operators element by element of a model that is quantised already: which of them together are one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from baco.compiler.network.builder import IntegerBuilder, semantics_of
from baco.compiler.network.functions import binary, unary
from baco.workloads.network import Operator, Tensor
from baco.workloads.semantics import Operand, Parameter

Array = np.ndarray
#: Operators that one table may stand for.
_MOST_OPERATORS = 64


@dataclass(frozen=True)
class Cone:
    """A tensor as a function of one or two others, element by element.

    Attributes:
        sources: what it is computed from.
        function: of their real numbers (float32).
        operators: names of those between, the last one left out.
    """

    sources: tuple[Operand, ...]
    function: Callable[[Sequence[Array]], Array]
    operators: tuple[str, ...]


def table_cones(b: IntegerBuilder) -> tuple[dict[str, Cone], set[str]]:
    """(Cones of the operators that become tables, by their name; operators whose results nothing else reads).

    A table has whole numbers of one or two tensors as operands, and whole numbers as results, or real ones of one operand.
    """
    if not b.encodings:
        return {}, set()
    operators = {op.name: op for op in b.network.operators}
    found: dict[str, Cone] = {}
    needed = {x.name for _, x in b.network.named_outputs}
    skipped = set()
    for op in reversed(b.network.operators):
        if op.name not in needed:
            skipped.add(op.name)
            continue
        read: Sequence[Operand] = semantics_of(op).operands
        if semantics_of(op).function in ("unary", "binary"):
            cone = _cone(b, operators, op)
            most = 2 if op.name in b.encodings else 1
            if 1 <= len(cone.sources) <= most and all(_is_whole(b, x) for x in cone.sources):
                found[op.name] = cone
                read = cone.sources
        needed.update(x.name for x in read if isinstance(x, Tensor))
    return found, skipped


def _is_whole(b: IntegerBuilder, x: Operand) -> bool:
    if isinstance(x, Parameter):
        return x.whole is not None and len(x.whole.scale) == len(x.whole.zero) == 1
    return x is not None and x.name not in b.real


def _cone(b: IntegerBuilder, operators: dict[str, Operator], op: Operator) -> Cone:
    sources: list[Operand] = []
    between: list[str] = []

    def source(x: Operand) -> Callable[[Sequence[Array]], Array]:
        for at, known in enumerate(sources):
            if _same(known, x):
                return lambda values: values[at]
        sources.append(x)
        at = len(sources) - 1
        return lambda values: values[at]

    def operand(x: Operand) -> Callable[[Sequence[Array]], Array]:
        if isinstance(x, Parameter) and math.prod(x.shape) == 1:
            number = b.parameters(x).astype(np.float32).reshape(())
            return lambda values: number
        inner = operators.get(x.name) if isinstance(x, Tensor) and not x.steps else None
        if inner is None or inner.name in b.encodings:
            return source(x)
        if semantics_of(inner).function not in ("unary", "binary") or len(between) >= _MOST_OPERATORS:
            return source(x)
        between.append(inner.name)
        return result(inner)

    def result(one: Operator) -> Callable[[Sequence[Array]], Array]:
        a, parts = semantics_of(one).attributes, [operand(x) for x in semantics_of(one).operands]
        if semantics_of(one).function == "unary":
            return lambda values: _float32(unary(a["name"], parts[0](values), a["numbers"]))
        return lambda values: _float32(binary(a["name"], parts[0](values), parts[1](values)))

    function = result(op)
    return Cone(tuple(sources), function, tuple(dict.fromkeys(reversed(between))))


def _float32(x: Array) -> Array:
    return np.asarray(x, np.float32)


def _same(x: Operand, y: Operand) -> bool:
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        return x.name == y.name and x.steps == y.steps
    return x is y
