"""Outputs whose parts are joined outside: boxes beside scores, each in a scale of its own.

A network that ends by joining results of very different ranges (boxes in pixels, probabilities) would lose the small ones in
one scale for all: 1 of 255 steps of a box is more than any probability. Nothing computes on such a result any more, so its parts
stay where they are, and whoever reads the output joins them in real numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from baco.compiler.network.calibrate import Ranges
from baco.workloads.network import Network, Operator, Tensor

#: Ranges of parts in one scale differ by no more: two of the seven bits that numbers have.
_MOST_RATIO = 4.0


def joins_outside(network: Network, ranges: Ranges) -> set[str]:
    """Names of the operators that join parts of very different ranges, and that nothing but outputs, or others of these, reads."""
    readers: dict[str, list[Operator | None]] = {tensor.name: [None] for tensor in network.outputs}
    joins: dict[str, Operator] = {}
    for op in network.operators:
        for operand in _operands(op):
            readers.setdefault(operand.name, []).append(op)
        if op.semantics is not None and op.semantics.function == "concat":
            joins[op.name] = op

    def leaves(op: Operator) -> Iterator[str]:
        for operand in _operands(op):
            inner = joins.get(operand.name)
            alone = all(reader is op for reader in readers[operand.name])
            if inner is not None and alone:
                yield from leaves(inner)
            else:
                yield operand.name

    found: set[str] = set()
    for name, op in reversed(joins.items()):
        if not all(reader is None or reader.name in found for reader in readers.get(name, ())):
            continue
        known = [ranges[one] for one in leaves(op) if one in ranges.largest]
        if known and max(known) > _MOST_RATIO * min(known):
            found.add(name)
    return found


def _operands(op: Operator) -> list[Tensor]:
    assert op.semantics is not None
    return [one for one in op.semantics.operands if isinstance(one, Tensor)]
