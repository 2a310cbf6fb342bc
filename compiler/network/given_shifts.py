"""Whole numbers that a model multiplies, adds to, shifts to the right and limits: exactly, by the host core, behind its sums."""

from __future__ import annotations

import numpy as np

from baco.compiler.network.builder import IntegerBuilder, semantics_of
from baco.compiler.network.real_values import real
from baco.compiler.ops.elements import ScaledSums
from baco.compiler.ops.requantisation import Shifted
from baco.compiler.ops.views import View, dense
from baco.workloads.network import Operator, Tensor
from baco.workloads.semantics import Parameter


def shift(b: IntegerBuilder, op: Operator) -> None:
    """(x * multiplier + offset) / 2**shift, halves up, limited. Raises InputError for numbers beyond 32 bits."""
    x, *constants = semantics_of(op).operands
    a, encoding = semantics_of(op).attributes, semantics_of(op).attributes["encoding"]
    assert isinstance(x, Tensor)
    sums = _sums(b, x)
    view = real(b, x, op) if sums is None else sums
    numbers = []
    for name, one in zip(("multipliers", "offsets"), constants, strict=True):
        assert isinstance(one, Parameter)
        given = b.parameters(one)
        if np.abs(given).max(initial=0) >= 2**31:
            raise b.error(op, f"its {name} are beyond 32 bits")
        numbers.append(b.constant(f"{op.name}.{name}", np.rint(given).astype(np.int32)).expanded(view.shape))
    by, offsets = numbers
    output = b.tensor(op.name, op.output.shape, b.order_like(view))
    limits = encoding.low, encoding.high, encoding.shift
    b.emit(Shifted(b.name(op.name), (op.name,), output, view, by, offsets, a["shift"], *limits, sums is None))


def _sums(b: IntegerBuilder, x: Tensor) -> View | None:
    """Sums of products in place of the real numbers that they were just made, where nothing else reads these; else None."""
    last, view = b.operators[-1] if b.operators else None, b.tensors[x.name]
    if not isinstance(last, ScaledSums) or last.output.value != view.value or b.reader(x.name) is None:
        return None
    values = b.values[last.input.value], b.values[last.output.value]
    alike = last.input == dense(values[0].name, values[1].shape) and last.output == dense(
        values[1].name, values[1].shape
    )
    factors, *more = (
        b.constants[one.value] for one in (last.factors, last.rows, last.columns) if one.value in b.constants
    )
    if not alike or len(more) < 2 or (factors != 1).any() or any(one.any() for one in more):
        return None
    b.operators.pop()
    del b.values[view.value]
    b.tensors[x.name] = View(last.input.value, view.shape, view.strides, view.offset)
    return b.tensors[x.name]
