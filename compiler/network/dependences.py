"""Which elements an integer operator's results depend on, and whether it computes or moves.

Souffle's analysis of tensor expressions, on the operators of a quantised network and the views that they read through:

* a result *relies on one* element of an operand where no iteration adds to it: its index there is an affine map M v + c of
  the result's index v. Else it *relies on many*: all that the reduced iterations meet.
* an operator is *compute-intensive* if it reduces and does two operations and more for an element that it moves. (The published
  rule asks for no reduction, by which an elementwise sine would compute.)

Maps of operators in a row are composed from the last one backwards: where the first reads what a second wrote, f1(f2(v)) for
f1 of the operator that runs first. (The published formula has the composition the other way round; its example does not.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from baco.compiler.mapping.contraction import Access
from baco.compiler.mapping.expression import Expression, Sum, variable
from baco.compiler.network import floating, requantisation, selection
from baco.compiler.network import graph as g
from baco.compiler.network.views import View

#: Operations for an element moved from which on an operator that reduces computes.
THRESHOLD = 2.0
#: Operations of a function of one element (a table), and of an arithmetic operation (Souffle's O(10) and O(1)).
_FUNCTION, _ARITHMETIC = 10, 1


@dataclass(frozen=True)
class IndexMap:
    """index = matrix * v + offset.

    Attributes:
        matrix: a row for each dimension of what is read, a column for each of v.
        offset: one number for each row.
    """

    matrix: tuple[tuple[int, ...], ...]
    offset: tuple[int, ...]

    def slice(self, extents: Sequence[int]) -> tuple[int, ...]:
        """Extents of the block that a block of indices goes to."""
        return tuple(
            1 + sum(abs(factor) * (extent - 1) for factor, extent in zip(row, extents, strict=True))
            for row in self.matrix
        )

    def __str__(self) -> str:
        return f"{[list(row) for row in self.matrix]} v + {list(self.offset)}"


@dataclass(frozen=True)
class Operand:
    """What an operator's results need of one operand.

    Attributes:
        name: field of the operator.
        view: what is read.
        access: indices in the view, by iterations; None where they are not affine.
        indirect: they are elements of another operand.
    """

    name: str
    view: View
    access: Access | None
    indirect: bool = False


@dataclass(frozen=True)
class Dependences:
    """Iterations of an operator, and the elements that they touch.

    Attributes:
        operator: whose.
        extents: of all iterations.
        output: index of the result in the operator's output view.
        operands: those that are no tables of functions.
        operations: of all iterations; of a function of rows, of its sums.
    """

    operator: g.IntegerOperator
    extents: Mapping[str, int]
    output: Access
    operands: tuple[Operand, ...]
    operations: int

    @cached_property
    def reduced(self) -> frozenset[str]:
        """Iterations that run more than once for one result."""
        chosen = self.output.variables
        return frozenset(name for name, extent in self.extents.items() if extent > 1 and name not in chosen)

    def relies_on_many(self, operand: Operand) -> bool:
        """Whether a result needs several elements of an operand."""
        if operand.access is None:
            return not operand.indirect
        return any(name in self.reduced for name in operand.access.variables)

    @property
    def many(self) -> bool:
        """Whether a result relies on many elements of some operand."""
        return any(self.relies_on_many(one) for one in self.operands)

    @property
    def indirect(self) -> bool:
        """Whether which elements it needs is not known before it runs."""
        return any(one.indirect for one in self.operands)

    @property
    def moved(self) -> int:
        """Elements read, each once, and written; indirectly, one for each result."""
        words = self.operator.output.words
        return words + sum(words if one.indirect else _distinct(one.view) for one in self.operands)

    @property
    def computes(self) -> bool:
        """Compute-intensive, else memory-intensive."""
        return bool(self.reduced) and self.operations >= THRESHOLD * self.moved


def _distinct(view: View) -> int:
    """Elements, repeated ones counted once."""
    return math.prod(size for size, stride in zip(view.shape, view.strides, strict=True) if stride)


def map_between(reader: View, writer: View) -> IndexMap | None:
    """From an index in a view to the index, in another view of the same value, of the same element; None if some element is
    not in the other view, or indices there are no affine map (a row that was folded into several, say)."""
    dims = sorted(
        (at for at, size in enumerate(writer.shape) if size > 1), key=lambda at: -writer.strides[at]
    )

    def digits(distance: int) -> list[int] | None:
        found = [0] * len(writer.shape)
        left = abs(distance)
        for at in dims:
            if writer.strides[at] <= 0:
                return None
            found[at], left = divmod(left, writer.strides[at])
        return None if left else [-one for one in found] if distance < 0 else found

    offset = digits(reader.offset - writer.offset)
    columns = [
        digits(stride if size > 1 else 0) for size, stride in zip(reader.shape, reader.strides, strict=True)
    ]
    if offset is None or any(column is None for column in columns):
        return None
    known = [column for column in columns if column is not None]
    for at, size in enumerate(writer.shape):
        steps = [column[at] * (extent - 1) for column, extent in zip(known, reader.shape, strict=True)]
        low = offset[at] + sum(step for step in steps if step < 0)
        high = offset[at] + sum(step for step in steps if step > 0)
        if low < 0 or high >= size:
            return None
    matrix = tuple(tuple(column[at] for column in known) for at in range(len(writer.shape)))
    return IndexMap(matrix, tuple(offset))


# ---------------------------------------------------------------- operators


class _Rule:
    """Iterations of one operator: those of its results, `d0`, `d1`, ... from the outermost one, and more."""

    def __init__(self, op: g.IntegerOperator) -> None:
        self.op = op
        self.extents = {f"d{at}": size for at, size in enumerate(op.output.shape)}
        self.result: list[Expression] = [variable(name) for name in self.extents]
        self.operands: list[Operand] = []

    def reduce(self, name: str, extent: int) -> Expression:
        """An iteration that no result's index has."""
        self.extents[name] = extent
        return variable(name)

    def split(self, at: int, outer: int, inner: int) -> tuple[Expression, Expression]:
        """Replace an iteration over results by two."""
        name = f"d{at}"
        del self.extents[name]
        self.extents |= {f"{name}o": outer, f"{name}i": inner}
        return variable(f"{name}o"), variable(f"{name}i")

    def read(self, name: str, indices: Sequence[Expression | int] | None, *, indirect: bool = False) -> None:
        """An operand, by the field that it is."""
        view = getattr(self.op, name)
        if view is not None:
            access = None
            if indices is not None:
                access = Access(name, tuple(Sum((), one) if isinstance(one, int) else one for one in indices))
            self.operands.append(Operand(name, view, access, indirect))

    def done(self, operations: int | None = None) -> Dependences:
        """All of it; operations are by default one for every iteration."""
        count = math.prod(self.extents.values()) if operations is None else operations
        return Dependences(
            self.op, self.extents, Access("output", tuple(self.result)), tuple(self.operands), count
        )


def dependences(op: g.IntegerOperator) -> Dependences:
    """Of one operator."""
    return _RULES[type(op)](op)


def _matmul(op: Any) -> Dependences:
    rule = _Rule(op)
    *batch, m, n = rule.result
    k = rule.reduce("k", op.left.shape[-1])
    rule.read("left", [*batch, m, k])
    rule.read("right", [*batch, k, n])
    if not isinstance(op, floating.RealProducts):
        rule.read("bias", [n])
    return rule.done()


def _convolution(op: Any) -> Dependences:
    rule = _Rule(op)
    taps_h, taps_w, depth, channels = op.weight.shape
    s, r, c = rule.reduce("s", taps_h), rule.reduce("r", taps_w), rule.reduce("c", depth)
    n, q, p, k = rule.result
    channel: Expression = k
    first: Expression = c
    if op.groups > 1:
        group, inner = rule.split(3, op.groups, channels // op.groups)
        channel = rule.result[3] = group * (channels // op.groups) + inner
        first = group * depth + c
    real = isinstance(op, floating.RealConvolution)  # neither biases nor pooling
    size = op.output.shape[1:3] if real else op.size
    operations = math.prod((op.output.shape[0], *size, channels, taps_h, taps_w, depth))
    if not real and op.pool is not None:
        t, u = rule.reduce("t", op.pool.kernel[0]), rule.reduce("u", op.pool.kernel[1])
        q = q * op.pool.stride[0] + t - op.pool.padding[0]
        p = p * op.pool.stride[1] + u - op.pool.padding[1]
    y = q * op.stride[0] + s * op.dilation[0] - op.padding[0]
    x = p * op.stride[1] + r * op.dilation[1] - op.padding[1]
    rule.read("input", [n, y, x, first])
    rule.read("weight", [s, r, c, channel])
    if not real:
        rule.read("bias", [channel])
    return rule.done(operations)


def _pool(op: Any) -> Dependences:
    rule = _Rule(op)
    s, r = rule.reduce("s", op.kernel[0]), rule.reduce("r", op.kernel[1])
    n, q, p, c = rule.result
    dilation = getattr(op, "dilation", (1, 1))
    y = q * op.stride[0] + s * dilation[0] - op.padding[0]
    x = p * op.stride[1] + r * dilation[1] - op.padding[1]
    rule.read("input", [n, y, x, c])
    if isinstance(op, g.AveragePool):
        rule.read("factor", [q, p])
    elif isinstance(op, requantisation.WindowAverage):
        rule.read("factors", [q, p])
    elif isinstance(op, floating.RealWindows):
        rule.read("divisors", [q, p])
    return rule.done()


def _elementwise(*names: str, operations: int = _ARITHMETIC) -> Callable[[Any], Dependences]:
    def rule_of(op: Any) -> Dependences:
        rule = _Rule(op)
        for name in names:
            rule.read(name, rule.result)
        each = _ARITHMETIC if getattr(op, "table", op) is None else operations
        return rule.done(each * op.output.words)

    return rule_of


def _softmax(op: Any) -> Dependences:
    rule = _Rule(op)
    *lead, _ = rule.result
    r = rule.reduce("r", op.input.shape[-1])
    rule.read("input", [*lead, r])
    if not isinstance(op, (requantisation.ScaledSoftmax, floating.RealRows)):
        rule.read("mask", [*lead, r])
    return rule.done(op.output.words)


def _rows(op: Any) -> Dependences:
    return _reduction(op) if len(op.output.shape) < len(op.input.shape) else _softmax(op)


def _normalisation(op: Any) -> Dependences:
    rule = _Rule(op)
    lead = rule.result[: len(rule.result) - op.axes]
    row = [rule.reduce(f"r{at}", size) for at, size in enumerate(op.input.shape[len(lead) :])]
    rule.read("input", [*lead, *row])
    rule.read("gain", rule.result)
    rule.read("offset", rule.result)
    return rule.done((1 + op.centre) * op.output.words)


def _reduction(op: Any) -> Dependences:
    rule = _Rule(op)
    lead = len(op.output.shape)
    row = [rule.reduce(f"r{at}", size) for at, size in enumerate(op.input.shape[lead:])]
    rule.read("input", [*rule.result, *row])
    return rule.done()


def _embedding(op: Any) -> Dependences:
    rule = _Rule(op)
    rule.read("indices", rule.result[:-1])
    rule.read("table", None, indirect=True)
    return rule.done(op.output.words)


def _resize(op: Any) -> Dependences:
    rule = _Rule(op)
    rule.reduce("s", 2)
    rule.reduce("r", 2)
    rule.read("input", None)
    return rule.done()


def _chosen(*names: str) -> Callable[[Any], Dependences]:
    """Any element of these may decide any result."""

    def rule_of(op: Any) -> Dependences:
        rule = _Rule(op)
        for name in names:
            rule.read(name, None, indirect=True)
        return rule.done(op.output.words)

    return rule_of


def _rotation(op: Any) -> Dependences:
    rule = _Rule(op)
    last, half = len(rule.result) - 1, op.input.shape[-1] // 2
    lead = rule.result[:-1]
    side, at = rule.split(last, 2, half)
    other = rule.reduce("r", 2)

    def place(of: Expression) -> Expression:
        return at * 2 + of if op.interleaved else of * half + at

    rule.result[last] = place(side)
    rule.read("input", [*lead, place(other)])
    rule.read("cosine", [*lead, at])
    rule.read("sine", [*lead, at])
    return rule.done()


_RULES: dict[type[g.IntegerOperator], Callable[[Any], Dependences]] = {
    g.Convolution: _convolution,
    g.MatMul: _matmul,
    g.SumOfRows: _matmul,
    g.Addition: _elementwise("left", "right"),
    g.Map: _elementwise("input", operations=_FUNCTION),
    g.Fill: _elementwise(),
    g.Multiplication: _elementwise("left", "right"),
    g.BinaryTable: _elementwise("left", "right", operations=_FUNCTION),
    g.Softmax: _softmax,
    g.Normalisation: _normalisation,
    g.MaxPool: _pool,
    g.AveragePool: _pool,
    g.Reduction: _reduction,
    g.ArgMax: _reduction,
    g.Embedding: _embedding,
    g.Resize: _resize,
    g.Rotation: _rotation,
    selection.Conversion: _elementwise("input"),
    selection.TopK: _chosen("input"),
    selection.Take: _chosen("input", "indices"),
    selection.OneHot: _chosen("indices"),
    selection.MaxPositions: _pool,
    selection.Unpool: _chosen("input", "indices"),
    selection.TermSum: _reduction,
    requantisation.Requantise: _elementwise("input", "rows", "columns"),
    requantisation.ScaledPair: _elementwise("left", "right"),
    requantisation.RowSums: _reduction,
    requantisation.WindowAverage: _pool,
    requantisation.ScaledSoftmax: _softmax,
    floating.Decoded: _elementwise("input"),
    floating.Encoded: _elementwise("input"),
    floating.RealFunction: _elementwise("input", operations=_FUNCTION),
    floating.RealPair: _elementwise("left", "right"),
    floating.RealSelection: _elementwise("condition", "left", "right"),
    floating.ScaledSums: _elementwise("input", "rows", "columns", "factors"),
    floating.RealRows: _rows,
    floating.RealProducts: _matmul,
    floating.RealConvolution: _convolution,
    floating.RealWindows: _pool,
    floating.RealResize: _resize,
}
